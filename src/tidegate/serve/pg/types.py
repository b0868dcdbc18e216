"""Our types by PostgreSQL's numbers, and back.

| type | number | of its array | bytes |
|---|---|---|---|
| bool | 16 | 1000 | 1 |
| int8 | 20 | 1016 | 8 |
| … | | | |

    field("price", numeric(10, 2))      Field("price", oid=1700, size=-1, modifier=655366)
    spelled(20), spelled(1016)          "int8", "int8[]": how a parameter of that type is cast

What PostgreSQL has no word for goes as what clients can read: mz_timestamp as int8, and arrays of arrays or of records as text,
since ours may be ragged, and PostgreSQL's may not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.expr.types import DEFAULT_SCALE, MAX_PRECISION, Kind, Type
from tidegate.serve.pg.messages import Field


@dataclass(frozen=True)
class Known:
    """A type of PostgreSQL: its number, that of its array, its name and width, and its category in pg_type."""

    kind: Kind
    oid: int
    array: int
    name: str
    size: int
    long: str
    category: str


KNOWN = (
    Known(Kind.BOOL, 16, 1000, "bool", 1, "boolean", "B"),
    Known(Kind.BYTEA, 17, 1001, "bytea", -1, "bytea", "U"),
    Known(Kind.INT8, 20, 1016, "int8", 8, "bigint", "N"),
    Known(Kind.INT2, 21, 1005, "int2", 2, "smallint", "N"),
    Known(Kind.INT4, 23, 1007, "int4", 4, "integer", "N"),
    Known(Kind.TEXT, 25, 1009, "text", -1, "text", "S"),
    Known(Kind.FLOAT4, 700, 1021, "float4", 4, "real", "N"),
    Known(Kind.FLOAT8, 701, 1022, "float8", 8, "double precision", "N"),
    Known(Kind.DATE, 1082, 1182, "date", 4, "date", "D"),
    Known(Kind.TIME, 1083, 1183, "time", 8, "time without time zone", "D"),
    Known(Kind.TIMESTAMP, 1114, 1115, "timestamp", 8, "timestamp without time zone", "D"),
    Known(Kind.TIMESTAMPTZ, 1184, 1185, "timestamptz", 8, "timestamp with time zone", "D"),
    Known(Kind.INTERVAL, 1186, 1187, "interval", 16, "interval", "T"),
    Known(Kind.NUMERIC, 1700, 1231, "numeric", -1, "numeric", "N"),
    Known(Kind.UUID, 2950, 2951, "uuid", 16, "uuid", "U"),
    Known(Kind.JSONB, 3802, 3807, "jsonb", -1, "jsonb", "U"),
)
BY_KIND = {one.kind: one for one in KNOWN}
BY_OID = {one.oid: one for one in KNOWN}
BY_ARRAY = {one.array: one for one in KNOWN}
TEXT, VARCHAR, VARCHARS, RECORD, INT8, OIDS = 25, 1043, 1015, 2249, 20, 1028
OID = Type(Kind.INT8, precision=32)
"""A number of PostgreSQL's catalog: an int8 of ours that has 32 bits. Only arrays of it are announced as such: drivers that
ask the catalog about array types (asyncpg) must read the answer before they know any array but oid[] and text[].
"""
NUMBERS = {"oid": 26, "name": 19, "char": 18, "json": 114, "regclass": 2205, "bpchar": 1042}
"""Types of PostgreSQL that are none of ours, by the names that casts of parameters have: see `_ALSO`."""
UNKNOWN = frozenset((0, 705))
"""Parameters of which a client does not say the type: they are literals without one, as 'x' is in a text."""
_ALSO = {
    18: "text",
    19: "text",
    26: "int8",
    114: "jsonb",
    VARCHAR: "text",
    1042: "text",
    24: "text",
    2205: "text",
}
_ALSO_ARRAYS = {
    VARCHARS: "text[]",
    1002: "text[]",
    1003: "text[]",
    1028: "int8[]",
    199: "jsonb[]",
    1014: "text[]",
}
ELEMENTS = {
    **{one.array: one.oid for one in KNOWN},
    VARCHARS: VARCHAR, 1002: 18, 1003: 19, 1028: 26, 199: 114, 1014: 1042,
}  # fmt: skip
"""The elements of an array type."""


def oid(type_: Type) -> int:
    """PostgreSQL's number of a type."""
    match type_.kind:
        case Kind.ARRAY:
            assert type_.element is not None
            if type_.element.is_nested:
                return TEXT
            if type_.element.length is not None:
                return VARCHARS
            if type_.element == OID:
                return OIDS
            known = BY_KIND.get(type_.element.kind)
            return 1016 if known is None else known.array  # mz_timestamp is the only one that has no number
        case Kind.RECORD:
            return RECORD
        case Kind.TEXT if type_.length is not None:
            return VARCHAR
        case Kind.UNKNOWN:
            return TEXT
        case Kind.MZ_TIMESTAMP:
            return INT8
        case _ if type_ == OID:
            return 26
        case kind:
            return BY_KIND[kind].oid


def modifier(type_: Type) -> int:
    """What refines a type, as PostgreSQL packs it: the n of varchar(n), the digits of a numeric; -1: nothing."""
    of = type_.element if type_.kind is Kind.ARRAY and type_.element is not None else type_
    if of.kind is Kind.TEXT and of.length is not None:
        return of.length + 4
    if of.kind is Kind.NUMERIC and (of.precision, of.scale) != (MAX_PRECISION, DEFAULT_SCALE):
        assert of.precision is not None
        assert of.scale is not None
        return (of.precision << 16 | of.scale) + 4
    return -1


def array_of(number: int) -> int:
    """The number of the array of a type; 0: none that we know."""
    return next((array for array, element in ELEMENTS.items() if element == number), 0)


def field(name: str, type_: Type, form: int = 0) -> Field:
    """A column as it is announced."""
    known = BY_OID.get(oid(type_))
    return Field(name, oid(type_), -1 if known is None else known.size, modifier(type_), form)


def spelled(number: int) -> str | None:
    """The type of a parameter as our SQL spells it; None: none that we know."""
    if number in BY_OID:
        return BY_OID[number].name
    if number in BY_ARRAY:
        return f"{BY_ARRAY[number].name}[]"
    return _ALSO.get(number) or _ALSO_ARRAYS.get(number)
