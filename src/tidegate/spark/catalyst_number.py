"""Arithmetic, rounding and casts between numbers.

Integers and floats compute as ours do, where ours do not fail: overflow, a divisor of zero and infinity are errors here.
Rounding differs: Spark cuts a fraction where we round, so `cast(d as bigint)` is `trunc(d)::int8`.

Decimals. Spark computes exactly and rounds once, halves away from zero, to a type that its node knows. Ours does the same as long
as the exact result fits our own type on the way:

| | exact on the way | else |
|---|---|---|
| + - % | always, or an error | |
| * | both together have at most 38 digits | not translated |
| / | never: rounded to 18 digits before | enclosed by the last digit of Spark's type |
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from tidegate.expr import build
from tidegate.expr.tree import Expr, Literal
from tidegate.expr.types import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTEGERS,
    MAX_PRECISION,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    numeric,
)
from tidegate.spark.catalyst_json import number_from_json
from tidegate.spark.catalyst_tree import Node, type_of
from tidegate.spark.catalyst_value import Context, Value, called, exactly, failure, node
from tidegate.spark.catalyst_zone import MICROS_A_SECOND, clock, floor_divided, instant, micros

_SIGNS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%", "BitwiseAnd": "&", "BitwiseOr": "|",
    "BitwiseXor": "#",
}  # fmt: skip


@node(*_SIGNS)
def arithmetic(context: Context, given: Node) -> Value | None:
    """+ - * / % and the operators on bits. Both sides have one type already, except that decimals differ in digits."""
    values = context.exacts(given)
    if values is None or values[0].type.kind is not values[1].type.kind or not values[0].type.is_number:
        return None
    if values[0].type.kind is Kind.NUMERIC:
        return _decimal(given, *values)
    if given.kind == "Divide" and not values[0].type.is_float:
        return None
    if given.kind == "Remainder" and values[0].type.is_float:
        return None
    if given.kind == "Divide":
        values[1] = _no_zero(values[1])
    return called(_SIGNS[given.kind], *values)


def _no_zero(value: Value) -> Value:
    """A divisor that fails if it is zero: NaN / 0 is NaN here, and an error or NULL in Spark."""
    if isinstance(value.low, Literal) and value.low.value.as_py():
        return value
    zero = build.call("=", value.low, build.literal(0.0, value.type))
    return exactly(build.case([(zero, failure(value.type))], value.low), value)


def _decimal(given: Node, left: Value, right: Value) -> Value | None:
    """Decimal arithmetic, brought to the type that Spark's node has."""
    out = given.result_type()
    if out is None or given.kind.startswith("Bitwise"):
        return None
    if given.kind == "Multiply" and (left.type.precision or 0) + (right.type.precision or 0) > MAX_PRECISION:
        return None
    value = called(_SIGNS[given.kind], left, right).rising(lambda expr: build.cast(expr, out))
    if given.kind != "Divide":
        return value
    unit = build.literal(Decimal(1).scaleb(-(out.scale or 0)), numeric(MAX_PRECISION, out.scale or 0))
    return Value(build.call("-", value.low, unit), build.call("+", value.low, unit), value.sure)


@node("IntegralDivide")
def integral_divide(context: Context, given: Node) -> Value | None:
    """`div`: the quotient cut towards zero, always a bigint."""
    values = context.exacts(given)
    if values is None or any(value.type != INT8 for value in values):
        return None
    return called("/", *values)


@node("UnaryMinus", "Abs", "BitwiseNot")
def unary(context: Context, given: Node) -> Value | None:
    """-x, abs(x), ~x."""
    value = context.exact(given.children[0])
    if (
        value is None
        or not value.type.is_number
        or (value.type.kind is Kind.NUMERIC and given.kind == "BitwiseNot")
    ):
        return None
    return called({"UnaryMinus": "-", "Abs": "abs", "BitwiseNot": "~"}[given.kind], value)


@node("Floor", "Ceil")
def whole(context: Context, given: Node) -> Value | None:
    """floor and ceil: a bigint of a double, a decimal without fraction of a decimal."""
    value = context.exact(given.children[0])
    if value is None or (value.type not in (FLOAT8, INT8) and value.type.kind is not Kind.NUMERIC):
        return None
    if value.type == INT8:
        return value
    out = INT8 if value.type == FLOAT8 else given.result_type()
    found = called("floor" if given.kind == "Floor" else "ceil", value)
    return None if out is None else found.rising(lambda expr: build.cast(expr, out))


@node("Round", "BRound")
def rounded(context: Context, given: Node) -> Value | None:
    """round(x, n): exact for decimals; of floats it is known that less than one unit of the last digit is changed."""
    value, digits = context.exact(given.children[0]), given.children[1].constant()
    if value is None or not isinstance(digits, int) or not -18 <= digits <= 18:
        return None
    if value.type.is_integer:
        return value if digits >= 0 else None
    if value.type == FLOAT8:
        unit = build.literal(10.0**-digits, FLOAT8)
        return Value(build.call("-", value.low, unit), build.call("+", value.low, unit), value.sure)
    if value.type.kind is not Kind.NUMERIC or given.kind == "BRound" or digits < 0:
        return None
    out = given.result_type()
    found = called("round", value, exactly(build.literal(digits, INT4)))
    return None if out is None else found.rising(lambda expr: build.cast(expr, out))


@node("Sqrt")
def square_root(context: Context, given: Node) -> Value | None:
    """sqrt: rounded correctly by both; of a negative number NaN in Spark, an error here."""
    value = context.exact(given.children[0])
    return called("sqrt", value) if value is not None and value.type == FLOAT8 else None


@node("Cast")
def cast(context: Context, given: Node) -> Value | None:
    """CAST in any mode. What the modes do differently (overflow, text that is no number) is an error here."""
    target = type_of(given.fields["dataType"])
    if target is None:
        return None
    json = number_from_json(context, given.children[0], target)
    if json is not None:
        return json
    value = context.value(given.children[0])
    if value is None or value.loose:
        return None
    if isinstance(value.low, Literal) and value.low.is_null:
        return exactly(build.null(target))
    return _converted(value, given.children[0], target, given.zone)


def _converted(value: Value, child: Node, target: Type, zone: str | None) -> Value | None:
    if value.raw and not is_instant(child):
        return None
    if value.type == target and not value.raw:
        return value
    if target.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return _to_time(value, target, zone)
    if value.raw or value.type == TIMESTAMPTZ:
        return _from_instant(value, target)
    if value.type == BOOL:
        return (
            value.rising(lambda expr: build.cast(expr, target))
            if target in (INT2, INT4, INT8, TEXT)
            else None
        )
    if value.type == DATE and target == TEXT:
        return value.rising(lambda expr: build.cast(expr, TEXT))
    if value.type.is_number:
        return _from_number(value, target)
    if value.type.kind is Kind.TEXT and target in INTEGERS and value.is_exact:
        return value.rising(lambda expr: build.cast(expr, target))
    return None


def is_instant(child: Node) -> bool:
    """Whether a node whose value is kept as a bigint is a timestamp in Spark, in microseconds."""
    if child.kind in ("PreciseTimestampConversion", "Cast"):
        return child.fields.get("toType", child.fields.get("dataType")) == "timestamp"
    return child.kind in ("SecondsToTimestamp", "MillisToTimestamp", "MicrosToTimestamp", "KnownNullable")


def _from_number(value: Value, target: Type) -> Value | None:
    """Numbers to numbers: fractions are cut. Floats become decimals by their shortest text in Spark: not translated."""
    source = value.type

    def of(expr: Expr) -> Expr:
        if target.is_integer and source.is_float:
            return build.cast(build.call("trunc", build.cast(expr, FLOAT8)), target)
        if target.is_integer and source.kind is Kind.NUMERIC:
            return build.cast(build.call("trunc", expr), target)
        return build.cast(expr, target)

    if source.is_float and target.kind is Kind.NUMERIC:
        return None
    if target == BOOL:
        return (
            value.rising(lambda expr: build.cast(expr, BOOL))
            if source.is_integer and value.is_exact
            else None
        )
    if target == TEXT:
        return value.rising(of) if source.is_integer and value.is_exact else None
    if target == FLOAT4 and source == FLOAT8:
        return None
    return value.rising(of) if target.is_number else None


def _to_time(value: Value, target: Type, zone: str | None) -> Value | None:
    """Casts between times, by the zone's clock, and from seconds to an instant."""
    if value.type.is_number and not value.raw:
        return _from_seconds(value) if target == TIMESTAMPTZ else None
    if value.type == TIMESTAMP and target == DATE:
        return value.rising(lambda expr: build.cast(expr, DATE))
    if value.type == DATE and target == TIMESTAMP:
        return value.rising(lambda expr: build.cast(expr, TIMESTAMP))
    by, at = clock(zone), instant(value)
    if by is None or at is None:
        return None
    if at.type == TIMESTAMPTZ:
        local = by.shown(at)
        return local if target == TIMESTAMP else local.rising(lambda expr: build.cast(expr, DATE))
    if at.type in (DATE, TIMESTAMP):
        return by.meant(at.rising(lambda expr: build.cast(expr, TIMESTAMP)))
    return None


def _from_seconds(value: Value) -> Value | None:
    """Seconds since 1970 as an instant, kept in microseconds."""
    if value.type.is_integer:
        million = build.literal(MICROS_A_SECOND, INT8)
        found = value.rising(lambda expr: build.call("*", build.cast(expr, INT8), million))
        return replace(found, raw=True)
    if value.type != FLOAT8 or not value.is_exact:
        return None
    product = build.call("*", value.low, build.literal(1e6, FLOAT8))
    return replace(exactly(build.cast(build.call("trunc", product), INT8), value), raw=True)


def _from_instant(value: Value, target: Type) -> Value | None:
    """An instant as seconds: rounded down to integers, or with its fraction as a double."""
    value = replace(value, raw=False)
    if target.is_integer:
        return value.rising(lambda expr: build.cast(floor_divided(micros(expr), MICROS_A_SECOND), target))
    if target == FLOAT8:
        million = build.literal(1e6, FLOAT8)
        return value.rising(lambda expr: build.call("/", build.cast(micros(expr), FLOAT8), million))
    return None
