"""Helpers to build a `DecodedBatch`: select rows, and list failed records. Loops only over failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from tidegate.expr.model import outcome
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordError
from tidegate.plan.run import PlanOutput


def error_free(errors: outcome.Errors, count: int) -> np.ndarray:
    """Which of `count` rows have no error."""
    if errors is None:
        return np.ones(count, bool)
    none: np.ndarray = errors.is_null().to_numpy(zero_copy_only=False)
    return none


def error_records(errors: outcome.Errors, numbers: np.ndarray) -> Iterator[RecordError]:
    """Yields the records that have an error; row i is record `numbers[i]`."""
    if errors is not None:
        for row in np.flatnonzero(~error_free(errors, len(errors))):
            yield int(numbers[row]), errors[int(row)].as_py()


def plan_error_records(rows: PlanOutput, numbers: np.ndarray) -> Iterator[RecordError]:
    """Yields the records on which a plan failed."""
    yield from zip(numbers[rows.failures.rows].tolist(), rows.failures.messages.to_pylist(), strict=True)


def take_rows(values: pa.Array, rows: np.ndarray) -> pa.Array:
    """Selects values by ascending row number."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def refused_record(columns: Columns, record: pa.Array, start: int, why: str) -> DecodedBatch:
    """A batch for one record that is not decoded; `record` is an array with its beginning."""
    nothing = [pa.array([], type_.arrow) for _, type_ in columns]
    return DecodedBatch(
        nothing, np.zeros(0, np.int64), [(0, why)], 1, line_of(record), start, size=record.nbytes
    )


def line_of(values: pa.Array) -> Callable[[int], bytes]:
    """Returns a function that gives the bytes of a record, without a final line break."""

    def raw(record: int) -> bytes:
        line: bytes = values[record].as_py() or b""
        return line.removesuffix(b"\n").removesuffix(b"\r")

    return raw
