"""Limits on what is decoded at once: a file of a few kB may unpack to more than fits into memory.

    with apply_limits(config):       applies `ingest_record_bytes` and `ingest_block_bytes` to everything decoded inside
        current_limits().record      a longer record is not decoded: it becomes a row of `<source>_errors`
        current_limits().block       a larger block, page or row of a file stops reading, with an error that names the file

Decoders run far from the code that holds the configuration, so the limits travel with the task, in a `ContextVar`.

| small in a file | large in memory | bounded by |
|---|---|---|
| a packed file of lines | lines | blocks of a few MB, with at most a million lines |
| | one line, or a quote that is never closed | `record`; reading continues after the next line break |
| a row group of Parquet | rows of a dictionary's few values | batches of rows, cut by their size |
| | one page | `block`, by the size in its header |
| a block of Avro | its bytes, or records without bytes | `block` |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tidegate.config import Config

_MAX_BYTES = 1 << 30
"""Arrow's texts and lines have 32-bit offsets."""


@dataclass(frozen=True)
class DecodeLimits:
    """The maximum sizes, in bytes in memory, of a record and of a block."""

    record: int
    block: int

    def too_long(self) -> str:
        """The message for a record that is not decoded."""
        return f"the record is longer than ingest_record_bytes, {self.record:,} bytes"

    def too_large(self, what: str) -> str:
        """The message for a block that is not decoded."""
        return f"{what} is larger than ingest_block_bytes, {self.block:,} bytes"


def _limits_of(config: Config) -> DecodeLimits:
    return DecodeLimits(
        min(config.ingest_record_bytes, _MAX_BYTES), min(config.ingest_block_bytes, _MAX_BYTES)
    )


_DEFAULT = _limits_of(Config())
_limits: ContextVar[DecodeLimits] = ContextVar("limits", default=_DEFAULT)


def current_limits() -> DecodeLimits:
    """The limits that apply in this context."""
    return _limits.get()


@contextmanager
def apply_limits(config: Config) -> Iterator[None]:
    """Applies the limits of a configuration inside a `with` block."""
    token = _limits.set(_limits_of(config))
    try:
        yield
    finally:
        _limits.reset(token)
