"""Which types a column may be altered to: those that hold every value that it has, in the same order.

| from | to |
|---|---|
| int2 | int4, int8 |
| int4 | int8 |
| int2, int4, int8 | numeric(p, s) with room for 5, 10 or 19 digits before the point |
| float4 | float8 |
| numeric(p, s) | numeric(q, s), q ≥ p |
| varchar(n) | varchar(m), m ≥ n; varchar; text |
"""

from __future__ import annotations

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Kind, Type
from tidegate.storage.part import SchemaColumn

_DIGITS = {Kind.INT2: 5, Kind.INT4: 10, Kind.INT8: 19}
_INTEGERS = (Kind.INT2, Kind.INT4, Kind.INT8)


def check_widening(column: SchemaColumn, type_: Type) -> None:
    """Refuses another type for a column unless it is wider."""
    if not _is_wider(column.type, type_):
        raise UnsupportedError(
            f'the type of column "{column.name}" cannot be changed from {column.type} to {type_}: it may lose values',
            hint="a type is only widened in place: add a column, UPDATE it, and drop the old one",
        )


def _is_wider(old: Type, new: Type) -> bool:
    match old.kind, new.kind:
        case ((Kind.INT2 | Kind.INT4 | Kind.INT8), (Kind.INT2 | Kind.INT4 | Kind.INT8)):
            return _INTEGERS.index(new.kind) > _INTEGERS.index(old.kind)
        case ((Kind.INT2 | Kind.INT4 | Kind.INT8), Kind.NUMERIC):
            return bool(new.arrow.precision - new.arrow.scale >= _DIGITS[old.kind])
        case Kind.FLOAT4, Kind.FLOAT8:
            return True
        case Kind.NUMERIC, Kind.NUMERIC:
            return bool(new.arrow.scale == old.arrow.scale and new.arrow.precision >= old.arrow.precision)
        case Kind.TEXT, Kind.TEXT:
            return new.length is None or (old.length is not None and new.length >= old.length)
        case _:
            return False
