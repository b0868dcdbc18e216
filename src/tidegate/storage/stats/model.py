"""What is known of one column in one part.

    created_at timestamptz    rows 1000   nulls 3   low 1700000000000000   high 1700000059000000   distinct ~980

Bounds are values as they are stored, so that collecting, encoding and the frame need no conversion:
integers for dates and times, unscaled integers for numerics (12.50 of scale 2 is 1250), `(months, days,
microseconds)` for intervals. The `Form` says which. They follow the one order (`expr/model/order.py`), ends
included:

- text and bytea are cut to 100 bytes; the upper bound is then rounded up, and is missing where nothing is
  greater;
- floats: NaN is not among the bounds, `nan` says whether it occurs;
- intervals: `months` says whether any has a months part;
- records keep a `ColumnStats` for each field, of the records that are not NULL; arrays one for all their
  elements.

A missing bound is *unbounded*; a missing `ColumnStats` is *unknown*. Neither ever means that there is
nothing: that is said by `nulls == rows` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tidegate.expr.model import Kind, Type
from tidegate.storage.stats.json.model import JsonStats

MAX_TEXT = 100
"""Bytes of a text or bytea bound."""

Stored: TypeAlias = bool | int | float | str | bytes | tuple[int, int, int]
"""A value as it is stored."""


class Form(StrEnum):
    """How the values of a type are stored; the value is its letter in the encoding."""

    BOOL = "b"
    INTEGER = "i"
    """64 bits: integers, dates, times, timestamps, mz_timestamp."""
    DECIMAL = "d"
    """128 bits, without the scale."""
    FLOAT = "f"
    TEXT = "t"
    BYTES = "y"
    """bytea and uuid."""
    INTERVAL = "v"
    JSON = "j"
    RECORD = "r"
    ARRAY = "a"


_FORMS = {
    Kind.BOOL: Form.BOOL, Kind.FLOAT4: Form.FLOAT, Kind.FLOAT8: Form.FLOAT, Kind.NUMERIC: Form.DECIMAL, Kind.TEXT: Form.TEXT,
    Kind.UNKNOWN: Form.TEXT, Kind.BYTEA: Form.BYTES, Kind.UUID: Form.BYTES, Kind.INTERVAL: Form.INTERVAL, Kind.JSONB: Form.JSON,
    Kind.RECORD: Form.RECORD, Kind.ARRAY: Form.ARRAY,
}  # fmt: skip


def form_of(type_: Type) -> Form:
    """The form that values of a type are stored in."""
    return _FORMS.get(type_.kind, Form.INTEGER)


@dataclass(frozen=True)
class ColumnStats:
    """The statistics of one column (or field, or the elements of an array) in one part."""

    form: Form
    rows: int
    """Values and NULLs: the part's rows; for a field the records that are not NULL; for an array all elements."""
    nulls: int
    low: Stored | None = None
    high: Stored | None = None
    nan: bool = True
    """floats: some value may be NaN."""
    months: bool = True
    """intervals: some value may have a months part."""
    distinct: int | None = None
    """About how many different values; None: not known."""
    histogram: bytes = b""
    """Where the rows lie between the bounds, see `histogram.py`; empty: not known."""
    json: JsonStats | None = None
    fields: tuple[ColumnStats | None, ...] = ()
    """records: each field; None where it is unknown."""
    element: ColumnStats | None = None
    """arrays: the elements of all of them; None if unknown."""
