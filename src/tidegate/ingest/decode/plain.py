"""FORMAT BYTES (`data bytea`) and FORMAT TEXT (`text text`): the record as it is.

In a file a record is a line, without its line break; of TEXT a carriage return before it belongs to the break.
What is no UTF-8 is no text: the record fails, with the first bytes that are wrong. So does one with a zero
byte, which no text of ours holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.expr.outcome import Outcome
from tidegate.expr.spelling import from_utf8
from tidegate.expr.types import BYTEA, TEXT
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.lines import blocks, without_breaks
from tidegate.ingest.decode.rows import bad, bad_rows, fine, picked, refusal
from tidegate.ingest.source import Columns, Decoded
from tidegate.plan.mfp import MapFilterProject


@dataclass(frozen=True)
class Plain:
    """Records that are taken as they are: bytes, or with `is_text` text."""

    is_text: bool

    @property
    def columns(self) -> Columns:
        """The record."""
        return (("text", TEXT),) if self.is_text else (("data", BYTEA),)

    @property
    def splittable(self) -> bool:
        """Lines know nothing of each other."""
        return True

    def take(self, plan: MapFilterProject) -> tuple[PlainDecode, MapFilterProject]:
        """Takes the conditions over the record."""
        staged, left = stages(plan, 1)
        return PlainDecode(self.is_text, staged), left


@dataclass(frozen=True)
class PlainDecode:
    """The record, and conditions over it."""

    is_text: bool
    staged: Staged

    @property
    def columns(self) -> Columns:
        """The record, or what the plan makes of it."""
        return self.staged.columns

    def records(self, values: pa.Array) -> Decoded:
        """Each value a record."""
        return self._decoded(values, 0)

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """Each line a record."""
        for lines, start, refused in blocks(opened, name):
            if refused is not None:
                yield refusal(self.columns, lines, start, refused)
            else:
                yield self._decoded(without_breaks(lines, returns=self.is_text), start)

    def _decoded(self, values: pa.Array, start: int) -> Decoded:
        given, errors = from_utf8(values) if self.is_text else Outcome(values)
        good = np.flatnonzero(fine(errors, len(values)))
        column = picked(given, good)
        rows = self.staged.before.evaluate([column for _ in self.staged.first], len(good))
        failures = sorted([*bad(errors, np.arange(len(values))), *bad_rows(rows, good)])
        later = [picked(column, rows.selection) for _ in self.staged.later]
        return Decoded(
            [*rows.columns, *later],
            good[rows.selection],
            failures,
            len(values),
            lambda record: values[record].as_py() or b"",
            start,
            size=values.nbytes,
        )
