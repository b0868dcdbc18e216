"""Arrow columns as Python values, as `Result.rows` promises them: see the table in `result.py`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.expr.model import Kind, Type


class Interval(NamedTuple):
    """A span of time, `Interval(months=1, days=2, microseconds=0)`: its parts have no common length."""

    months: int
    days: int
    microseconds: int


def python_rows(columns: Sequence[pa.Array], types: Sequence[Type]) -> list[tuple[Any, ...]]:
    """Columns as tuples of Python values."""
    found = []
    for column, type_ in zip(columns, types, strict=True):
        convert = _converter(type_)
        values = column.to_pylist()
        found.append(values if convert is None else [None if v is None else convert(v) for v in values])
    return list(zip(*found, strict=True))


def intervals_as_structs(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Intervals as structs of months, days and microseconds, for libraries that have no such type."""
    struct = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
    values = [None if v is None else (v.months, v.days, v.nanoseconds // 1000) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(values, struct)])


def _converter(type_: Type) -> Callable[[Any], Any] | None:
    """How a value that Arrow gives becomes the one that we promise; None: it is."""
    match type_.kind:
        case Kind.INTERVAL:
            return lambda v: Interval(v.months, v.days, v.nanoseconds // 1000)
        case Kind.UUID:
            return lambda v: uuid.UUID(bytes=v)
        case Kind.TIMESTAMPTZ:
            return lambda v: v.astimezone(UTC)  # Arrow gives whatever time zone library it finds
        case Kind.ARRAY:
            assert type_.element is not None
            inner = _converter(type_.element)
            return None if inner is None else lambda v: [None if x is None else inner(x) for x in v]
        case Kind.RECORD:
            each = [(name, _converter(t)) for name, t in type_.fields]
            return lambda v: {n: v[n] if c is None or v[n] is None else c(v[n]) for n, c in each}
        case _:
            return None
