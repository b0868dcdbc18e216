"""From arrays to `Decoded`: picking rows, and naming the records that failed. Loops go over failures alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from tidegate.expr.outcome import Errors
from tidegate.ingest.source import Bad, Columns, Decoded
from tidegate.plan.safe import Rows


def fine(errors: Errors, count: int) -> np.ndarray:
    """Which of `count` rows have no error."""
    if errors is None:
        return np.ones(count, bool)
    none: np.ndarray = errors.is_null().to_numpy(zero_copy_only=False)
    return none


def bad(errors: Errors, numbers: np.ndarray) -> Iterator[Bad]:
    """The records that have an error; row i is record `numbers[i]`."""
    if errors is not None:
        for row in np.flatnonzero(~fine(errors, len(errors))):
            yield int(numbers[row]), errors[int(row)].as_py()


def bad_rows(rows: Rows, numbers: np.ndarray) -> Iterator[Bad]:
    """The records on which a plan failed."""
    yield from zip(numbers[rows.failures.rows].tolist(), rows.failures.messages.to_pylist(), strict=True)


def picked(values: pa.Array, rows: np.ndarray) -> pa.Array:
    """Some of the values, by rising number."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def refusal(columns: Columns, record: pa.Array, start: int, why: str) -> Decoded:
    """A record that is not decoded; `record` is an array of its beginning."""
    nothing = [pa.array([], type_.arrow) for _, type_ in columns]
    return Decoded(nothing, np.zeros(0, np.int64), [(0, why)], 1, line_of(record), start, size=record.nbytes)


def line_of(values: pa.Array) -> Callable[[int], bytes]:
    """The bytes of a record, without a line break at its end."""

    def raw(record: int) -> bytes:
        found: bytes = values[record].as_py() or b""
        return found.removesuffix(b"\n").removesuffix(b"\r")

    return raw
