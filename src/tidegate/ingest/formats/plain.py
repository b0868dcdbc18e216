"""FORMAT BYTES (`data bytea`) and FORMAT TEXT (`text text`): the record unchanged.

In a file a record is a line, without its line break; for TEXT a carriage return before it is part of the line break.
With TEXT a record that is not UTF-8 fails, with a message that shows the first wrong bytes. So does a record with a zero
byte, which text cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Outcome, types
from tidegate.expr.primitives import byte_encoding
from tidegate.ingest.formats.demand import StagedPlan, split_stages
from tidegate.ingest.formats.lines import blocks, without_breaks
from tidegate.ingest.formats.rows import (
    error_free,
    error_records,
    plan_error_records,
    refused_record,
    take_rows,
)
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordFormat
from tidegate.plan import MapFilterProject


@dataclass(frozen=True)
class PlainFormat(RecordFormat):
    """Records that are not decoded further: bytes, or text with `is_text`."""

    is_text: bool

    @property
    def columns(self) -> Columns:
        """One column: the record."""
        return (("text", types.TEXT),) if self.is_text else (("data", types.BYTEA),)

    @property
    def splittable(self) -> bool:
        """True: lines are independent of each other."""
        return True

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog."""
        return {"kind": "text" if self.is_text else "bytes"}

    def take(self, plan: MapFilterProject) -> tuple[PlainDecoder, MapFilterProject]:
        """Takes over the conditions on the record."""
        staged, left = split_stages(plan, 1)
        return PlainDecoder(self.is_text, staged), left


@dataclass(frozen=True)
class PlainDecoder:
    """Decodes records, and evaluates conditions on them."""

    is_text: bool
    staged: StagedPlan

    @property
    def columns(self) -> Columns:
        """The record, or the outputs of the plan over it."""
        return self.staged.columns

    def records(self, values: pa.Array) -> DecodedBatch:
        """Decodes values, one record each."""
        return self._decode(values, 0)

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Decodes a file, one record per line."""
        for lines, start, refused in blocks(opened, name):
            if refused is not None:
                yield refused_record(self.columns, lines, start, refused)
            else:
                yield self._decode(without_breaks(lines, returns=self.is_text), start)

    def _decode(self, values: pa.Array, start: int) -> DecodedBatch:
        decoded, errors = byte_encoding.from_utf8(values) if self.is_text else Outcome(values)
        good = np.flatnonzero(error_free(errors, len(values)))
        column = take_rows(decoded, good)
        rows = self.staged.before.evaluate([column for _ in self.staged.first], len(good))
        failures = sorted([*error_records(errors, np.arange(len(values))), *plan_error_records(rows, good)])
        later = [take_rows(column, rows.selection) for _ in self.staged.later]
        return DecodedBatch(
            [*rows.columns, *later],
            good[rows.selection],
            failures,
            len(values),
            lambda record: values[record].as_py() or b"",
            start,
            size=values.nbytes,
        )
