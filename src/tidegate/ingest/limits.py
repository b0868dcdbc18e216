"""How many bytes of a source are decoded at once: a file of some kB may unpack to more than a machine has.

    with limited(config):            what `ingest_record_bytes` and `ingest_block_bytes` say, for all that is decoded inside
        limits().record              a longer record is not decoded: it is a row of `<source>_errors`
        limits().block               a larger block, page or row of a file ends the reading of it, with an error that names it

What is decoded can be far away from whoever knows the configuration, so the limits go with the task (a `ContextVar`).

| what is small in a file | and large in memory | bounded by |
|---|---|---|
| a packed file of lines | lines | blocks of some MB, of a million lines at most |
| | one line, or a quote that is never closed | `record`; what follows the next line break is read |
| a row group of Parquet | rows of a dictionary's few values | batches of rows, cut by what they hold |
| | one page | `block`, by what its header says |
| a block of Avro | its bytes, or records of no bytes | `block` |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tidegate.config import Config

_MOST = 1 << 30
"""Arrow's texts and lines have 32-bit offsets."""


@dataclass(frozen=True)
class Limits:
    """Bytes in memory."""

    record: int
    block: int

    def too_long(self) -> str:
        """Why a record is not decoded."""
        return f"the record is longer than ingest_record_bytes, {self.record:,} bytes"

    def too_large(self, what: str) -> str:
        """Why a block is not decoded."""
        return f"{what} is larger than ingest_block_bytes, {self.block:,} bytes"


def _of(config: Config) -> Limits:
    return Limits(min(config.ingest_record_bytes, _MOST), min(config.ingest_block_bytes, _MOST))


_DEFAULT = _of(Config())
_limits: ContextVar[Limits] = ContextVar("limits", default=_DEFAULT)


def limits() -> Limits:
    """Those that hold here."""
    return _limits.get()


@contextmanager
def limited(config: Config) -> Iterator[None]:
    """Makes the limits of a configuration hold."""
    token = _limits.set(_of(config))
    try:
        yield
    finally:
        _limits.reset(token)
