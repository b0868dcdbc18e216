"""Tidegate's types and PostgreSQL's type OIDs, in both directions.

| type | OID | OID of its array | bytes |
|---|---|---|---|
| bool | 16 | 1000 | 1 |
| int8 | 20 | 1016 | 8 |
| … | | | |

    oid(INT8), oid(numeric(10, 2))         20, 1700
    sql_name(20), sql_name(1016)                     "int8", "int8[]": how a parameter of that type is cast

Types that PostgreSQL lacks are sent as what clients can read: mz_timestamp as int8, and arrays of arrays or of records as text,
since Tidegate's may be ragged and PostgreSQL's may not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.expr.model import Kind, Type, types


@dataclass(frozen=True)
class PostgresType:
    """A row of pg_type: OID, OID of the array type, names, width in bytes, and category."""

    kind: Kind
    oid: int
    array: int
    name: str
    size: int
    long: str
    category: str


TYPES = (
    PostgresType(Kind.BOOL, 16, 1000, "bool", 1, "boolean", "B"),
    PostgresType(Kind.BYTEA, 17, 1001, "bytea", -1, "bytea", "U"),
    PostgresType(Kind.INT8, 20, 1016, "int8", 8, "bigint", "N"),
    PostgresType(Kind.INT2, 21, 1005, "int2", 2, "smallint", "N"),
    PostgresType(Kind.INT4, 23, 1007, "int4", 4, "integer", "N"),
    PostgresType(Kind.TEXT, 25, 1009, "text", -1, "text", "S"),
    PostgresType(Kind.FLOAT4, 700, 1021, "float4", 4, "real", "N"),
    PostgresType(Kind.FLOAT8, 701, 1022, "float8", 8, "double precision", "N"),
    PostgresType(Kind.DATE, 1082, 1182, "date", 4, "date", "D"),
    PostgresType(Kind.TIME, 1083, 1183, "time", 8, "time without time zone", "D"),
    PostgresType(Kind.TIMESTAMP, 1114, 1115, "timestamp", 8, "timestamp without time zone", "D"),
    PostgresType(Kind.TIMESTAMPTZ, 1184, 1185, "timestamptz", 8, "timestamp with time zone", "D"),
    PostgresType(Kind.INTERVAL, 1186, 1187, "interval", 16, "interval", "T"),
    PostgresType(Kind.NUMERIC, 1700, 1231, "numeric", -1, "numeric", "N"),
    PostgresType(Kind.UUID, 2950, 2951, "uuid", 16, "uuid", "U"),
    PostgresType(Kind.JSONB, 3802, 3807, "jsonb", -1, "jsonb", "U"),
)
BY_KIND = {type_.kind: type_ for type_ in TYPES}
BY_OID = {type_.oid: type_ for type_ in TYPES}
BY_ARRAY = {type_.array: type_ for type_ in TYPES}
TEXT, VARCHAR, VARCHARS, RECORD, INT8, OIDS = 25, 1043, 1015, 2249, 20, 1028
OID = Type(Kind.INT8, precision=32)
"""PostgreSQL's type oid: an int8 of 32 bits. Only arrays of it are announced as such: drivers that ask the catalog about array
types (asyncpg) must read the answer before they know any array but oid[] and text[].
"""
CAST_ONLY_OIDS = {"oid": 26, "name": 19, "char": 18, "json": 114, "regclass": 2205, "bpchar": 1042}
"""PostgreSQL types that Tidegate lacks, by the names that casts of parameters use: see `_READ_AS`."""
UNKNOWN = frozenset((0, 705))
"""OIDs of parameters without a declared type: they are untyped literals, as 'x' is in SQL."""
_READ_AS = {
    18: "text",
    19: "text",
    26: "int8",
    114: "jsonb",
    VARCHAR: "text",
    1042: "text",
    24: "text",
    2205: "text",
}
_READ_AS_ARRAYS = {
    VARCHARS: "text[]",
    1002: "text[]",
    1003: "text[]",
    1028: "int8[]",
    199: "jsonb[]",
    1014: "text[]",
}
ELEMENTS = {
    **{type_.array: type_.oid for type_ in TYPES},
    VARCHARS: VARCHAR, 1002: 18, 1003: 19, 1028: 26, 199: 114, 1014: 1042,
}  # fmt: skip
"""The element type of each array type, by OID."""


def oid(type_: Type) -> int:
    """Returns PostgreSQL's OID of a type."""
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
            return 1016 if known is None else known.array  # only mz_timestamp has no OID
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
    """Returns PostgreSQL's type modifier: the n of varchar(n), the digits of a numeric; -1: none."""
    of = type_.element if type_.kind is Kind.ARRAY and type_.element is not None else type_
    if of.kind is Kind.TEXT and of.length is not None:
        return of.length + 4
    if of.kind is Kind.NUMERIC and (of.precision, of.scale) != (types.MAX_PRECISION, types.DEFAULT_SCALE):
        assert of.precision is not None
        assert of.scale is not None
        return (of.precision << 16 | of.scale) + 4
    return -1


def array_oid(number: int) -> int:
    """Returns the OID of the array of a type; 0: unknown."""
    return next((array for array, element in ELEMENTS.items() if element == number), 0)


def sql_name(number: int) -> str | None:
    """Returns the SQL name of a parameter's type; None: unknown."""
    if number in BY_OID:
        return BY_OID[number].name
    if number in BY_ARRAY:
        return f"{BY_ARRAY[number].name}[]"
    return _READ_AS.get(number) or _READ_AS_ARRAYS.get(number)
