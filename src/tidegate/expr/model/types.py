"""The scalar types: their SQL names, Arrow and Spark forms, and order.

A `Type` is a kind and its refinement (a numeric's precision and scale, an array's element, a record's fields). Two types of the
same kind share their functions; the refinement only matters to casts and to Arrow.

| kind | SQL | Arrow | order |
|---|---|---|---|
| int2, int4, int8 | smallint, int, bigint | int16, int32, int64 | by value |
| float4, float8 | real, double precision | float32, float64 | by value, -0 = 0, NaN equal to itself and greatest |
| numeric(p, s) | decimal | decimal128(p, s) | by value |
| text, varchar(n) | text | string | by code point, which is UTF-8's byte order |
| timestamp(tz) | timestamp(tz) | timestamp[us](, UTC) | by instant; years 1 to 9999 |
| interval | interval | month_day_nano | by length, a month being 30 days: `1 month` = `30 days` |
| jsonb | jsonb | string of canonical JSON, so equal values have equal bytes | as PostgreSQL: by its sort key (`sort_keys.py`) |
| mz_timestamp | mz_timestamp | int64, milliseconds since 1970 | by value; the type of `mz_now()` |

A numeric without precision is numeric(38, 18): 20 digits before the point and 18 after, fixed, because Arrow, Parquet and
Spark fix the scale of a column. Literals and integers keep the scale they have, so `price * 2` stays exact:

>>> parse_type("numeric(10, 2)").arrow
Decimal128Type(decimal128(10, 2))
>>> str(parse_type("timestamp with time zone"))
'timestamptz'
>>> str(array(INT8)), str(record(("x", INT8), ("y", TEXT)))
('int8[]', 'row(x int8, y text)')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import pyarrow as pa

from tidegate.errors import BindError, ErrorCode
from tidegate.text import identifier

MAX_PRECISION = 38
DEFAULT_SCALE = 18


class Kind(StrEnum):
    """A type without its refinement; the value is the short SQL name."""

    UNKNOWN = "unknown"
    BOOL = "bool"
    INT2 = "int2"
    INT4 = "int4"
    INT8 = "int8"
    FLOAT4 = "float4"
    FLOAT8 = "float8"
    NUMERIC = "numeric"
    TEXT = "text"
    BYTEA = "bytea"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    INTERVAL = "interval"
    UUID = "uuid"
    JSONB = "jsonb"
    MZ_TIMESTAMP = "mz_timestamp"
    ARRAY = "array"
    RECORD = "record"


@dataclass(frozen=True)
class Type:
    """A scalar type. Compare with `==`, or with `same_kind` where refinements do not matter."""

    kind: Kind
    precision: int | None = None
    """numeric: total digits."""
    scale: int | None = None
    """numeric: digits after the point."""
    length: int | None = None
    """text: the n of varchar(n). A cast truncates to it, an assignment rejects longer text (`storage/part/conform.py`)."""
    element: Type | None = None
    """array: the type of its elements."""
    fields: tuple[tuple[str, Type], ...] = field(default=())
    """record: names and types, in order."""

    def __hash__(self) -> int:
        # Every expression is hashed with its type, so this must be fast. Types of one kind may collide.
        return id(self.kind)

    def __str__(self) -> str:
        match self.kind:
            case Kind.NUMERIC if (self.precision, self.scale) != (MAX_PRECISION, DEFAULT_SCALE):
                return f"numeric({self.precision},{self.scale})"
            case Kind.TEXT if self.length is not None:
                return f"varchar({self.length})"
            case Kind.ARRAY:
                return f"{self.element or 'any'}[]"
            case Kind.RECORD:
                return f"row({', '.join(f'{identifier(name)} {type_}' for name, type_ in self.fields)})"
            case _:
                return self.kind.value

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the values."""
        match self.kind:
            case Kind.NUMERIC:
                return pa.decimal128(self.precision, self.scale)
            case Kind.ARRAY:
                assert self.element is not None
                return pa.list_(self.element.arrow)
            case Kind.RECORD:
                return pa.struct([pa.field(name, type_.arrow) for name, type_ in self.fields])
            case kind:
                return _ARROW[kind]

    @cached_property
    def spark(self) -> str:
        """The name of the Spark SQL type that holds these values."""
        match self.kind:
            case Kind.NUMERIC:
                return f"decimal({self.precision},{self.scale})"
            case Kind.ARRAY:
                assert self.element is not None
                return f"array<{self.element.spark}>"
            case Kind.RECORD:
                fields = [f"`{name.replace('`', '``')}`:{type_.spark}" for name, type_ in self.fields]
                return f"struct<{','.join(fields)}>"
            case kind:
                return _SPARK[kind]

    @cached_property
    def without_lengths(self) -> Type:
        """This type with text in place of varchar(n), inside arrays and records too."""
        match self.kind:
            case Kind.TEXT if self.length is not None:
                return TEXT
            case Kind.ARRAY if self.element is not None:
                return array(self.element.without_lengths)
            case Kind.RECORD:
                return record(*((name, type_.without_lengths) for name, type_ in self.fields))
            case _:
                return self

    def same_kind(self, other: Type) -> bool:
        """Whether both share their functions: the same kind, inside arrays and records too."""
        if self.kind is not other.kind:
            return False
        if self.kind is Kind.ARRAY:
            assert self.element is not None
            assert other.element is not None
            return self.element.same_kind(other.element)
        if self.kind is Kind.RECORD:
            return len(self.fields) == len(other.fields) and all(
                a.same_kind(b) for (_, a), (_, b) in zip(self.fields, other.fields, strict=True)
            )
        return True

    @property
    def is_float(self) -> bool:
        """float4 or float8: the types that hold NaN."""
        return self.kind in (Kind.FLOAT4, Kind.FLOAT8)

    @property
    def is_integer(self) -> bool:
        """int2, int4 or int8."""
        return self.kind in (Kind.INT2, Kind.INT4, Kind.INT8)

    @property
    def is_number(self) -> bool:
        """An integer, float or numeric type."""
        return self.is_integer or self.is_float or self.kind is Kind.NUMERIC

    @property
    def is_nested(self) -> bool:
        """An array or a record."""
        return self.kind in (Kind.ARRAY, Kind.RECORD)

    @cached_property
    def sorts_by_key(self) -> bool:
        """Whether these values sort by another value, their `sort key`: jsonb, and what holds it."""
        inner = [self.element] if self.element is not None else [type_ for _, type_ in self.fields]
        return self.kind is Kind.JSONB or any(type_.sorts_by_key for type_ in inner)

    @property
    def identity_is_equality(self) -> bool:
        """Whether no function can distinguish values that are equal.

        False for floats (0.0 = -0.0, but their texts differ), intervals (30 days = 1 month, but they move a date
        differently), and arrays and records that hold them.
        """
        match self.kind:
            case Kind.FLOAT4 | Kind.FLOAT8 | Kind.INTERVAL:
                return False
            case Kind.ARRAY:
                assert self.element is not None
                return self.element.identity_is_equality
            case Kind.RECORD:
                return all(type_.identity_is_equality for _, type_ in self.fields)
            case _:
                return True


_ARROW: dict[Kind, pa.DataType] = {
    Kind.UNKNOWN: pa.string(),
    Kind.BOOL: pa.bool_(),
    Kind.INT2: pa.int16(),
    Kind.INT4: pa.int32(),
    Kind.INT8: pa.int64(),
    Kind.FLOAT4: pa.float32(),
    Kind.FLOAT8: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.BYTEA: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.month_day_nano_interval(),
    Kind.UUID: pa.binary(16),
    Kind.JSONB: pa.string(),
    Kind.MZ_TIMESTAMP: pa.int64(),
}

_SPARK: dict[Kind, str] = {
    Kind.UNKNOWN: "string",
    Kind.BOOL: "boolean",
    Kind.INT2: "smallint",
    Kind.INT4: "int",
    Kind.INT8: "bigint",
    Kind.FLOAT4: "float",
    Kind.FLOAT8: "double",
    Kind.TEXT: "string",
    Kind.BYTEA: "binary",
    Kind.DATE: "date",
    Kind.TIME: "bigint",
    Kind.TIMESTAMP: "timestamp_ntz",
    Kind.TIMESTAMPTZ: "timestamp",
    Kind.INTERVAL: "struct<`months`:int,`days`:int,`micros`:bigint>",
    Kind.UUID: "binary",
    Kind.JSONB: "string",
    Kind.MZ_TIMESTAMP: "bigint",
}

UNKNOWN = Type(Kind.UNKNOWN)
"""A string literal or NULL whose type its operator decides."""
BOOL = Type(Kind.BOOL)
INT2 = Type(Kind.INT2)
INT4 = Type(Kind.INT4)
INT8 = Type(Kind.INT8)
FLOAT4 = Type(Kind.FLOAT4)
FLOAT8 = Type(Kind.FLOAT8)
NUMERIC = Type(Kind.NUMERIC, precision=MAX_PRECISION, scale=DEFAULT_SCALE)
TEXT = Type(Kind.TEXT)
BYTEA = Type(Kind.BYTEA)
DATE = Type(Kind.DATE)
TIME = Type(Kind.TIME)
TIMESTAMP = Type(Kind.TIMESTAMP)
TIMESTAMPTZ = Type(Kind.TIMESTAMPTZ)
INTERVAL = Type(Kind.INTERVAL)
UUID = Type(Kind.UUID)
JSONB = Type(Kind.JSONB)
MZ_TIMESTAMP = Type(Kind.MZ_TIMESTAMP)

INTEGERS = (INT2, INT4, INT8)
FLOATS = (FLOAT4, FLOAT8)
NUMBERS = (*INTEGERS, NUMERIC, *FLOATS)
SCALARS = (
    BOOL, *NUMBERS, TEXT, BYTEA, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, UUID, JSONB, MZ_TIMESTAMP,
)  # fmt: skip
"""Every type that is not nested, in the order docs list them."""


def numeric(precision: int, scale: int) -> Type:
    """A numeric of `precision` digits, `scale` of them after the point; both are clipped to their limits."""
    precision = min(precision, MAX_PRECISION)
    return Type(Kind.NUMERIC, precision=precision, scale=max(0, min(scale, precision)))


def array(element: Type) -> Type:
    """An array of `element`."""
    return Type(Kind.ARRAY, element=element)


def record(*fields: tuple[str, Type]) -> Type:
    """A record of named fields."""
    return Type(Kind.RECORD, fields=fields)


NAMES: dict[str, Type] = {
    **{type_.kind.value: type_ for type_ in SCALARS},
    "boolean": BOOL,
    "smallint": INT2,
    "int": INT4,
    "integer": INT4,
    "bigint": INT8,
    "real": FLOAT4,
    "float": FLOAT8,
    "double": FLOAT8,
    "double precision": FLOAT8,
    "decimal": NUMERIC,
    "dec": NUMERIC,
    "varchar": TEXT,
    "character varying": TEXT,
    "string": TEXT,
    "bytes": BYTEA,
    "timestamp without time zone": TIMESTAMP,
    "timestamp with time zone": TIMESTAMPTZ,
    "time without time zone": TIME,
    "json": JSONB,
    "jsonpath": TEXT,
}
"""Every spelling of a type that SQL accepts, without its refinement."""

_SPELLING = re.compile(r"^([a-z_][a-z0-9_ ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*((?:\[\s*\]\s*)*)$")


def parse_type(text: str) -> Type:
    """The type that SQL text names: `int8`, `numeric(10, 2)`, `varchar(20)`, `int8[]`.

    Records (`row(x int8, y text)`) are read by the SQL grammar; this function reads types from the catalog.
    """
    parsed = _SPELLING.match(" ".join(text.lower().split()))
    base = NAMES.get(parsed[1].strip()) if parsed else None
    if parsed is None or base is None:
        raise BindError(
            f'type "{text}" does not exist',
            code=ErrorCode.UNDEFINED_OBJECT,
            hint=f"known types: {', '.join(sorted(NAMES))}",
        )
    first, second = (int(number) if number else None for number in (parsed[2], parsed[3]))
    type_ = refine(base, first, second, text)
    for _ in range(parsed[4].count("[")):
        type_ = array(type_)
    return type_


def refine(base: Type, first: int | None, second: int | None, text: str) -> Type:
    """`base` refined by the numbers in parentheses behind its name."""
    if first is None:
        return base
    match base.kind:
        case Kind.NUMERIC if 1 <= first <= MAX_PRECISION and 0 <= (second or 0) <= first:
            return numeric(first, second or 0)
        case Kind.TEXT if second is None and first >= 1:
            return Type(Kind.TEXT, length=first)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME if second is None and first == 6:
            return base
        case Kind.NUMERIC:
            hint = f"a numeric has 1 to {MAX_PRECISION} digits; its scale is at most its precision"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME:
            hint = "times are stored in microseconds: write the type without a precision, or with (6)"
        case _:
            hint = f"{base} takes no number in parentheses"
    raise BindError(f'type "{text}" is not valid', hint=hint)
