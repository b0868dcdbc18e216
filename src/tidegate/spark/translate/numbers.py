"""Arithmetic, rounding and casts between numbers.

Integers and floats compute as ours do where ours do not fail: overflow, a zero divisor and infinity are errors here. Rounding
differs: Spark cuts a fraction where we round, so `cast(d as bigint)` is `trunc(d)::int8`.

Decimals. Spark computes exactly and rounds once, halves away from zero, to the type of the node. Ours does the same if the exact
intermediate result fits our own type:

| | exact intermediate result | else |
|---|---|---|
| + - % | always, or an error | |
| * | both together have at most 38 digits | not translated |
| / | never: rounded to 18 digits before | enclosed by the last digit of Spark's type |
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from tidegate.expr.model import Expr, Kind, Literal, Type, build, types
from tidegate.spark.translate.catalyst_tree import CatalystNode, type_of
from tidegate.spark.translate.json import number_from_json
from tidegate.spark.translate.pairs import same_function
from tidegate.spark.translate.value import (
    SparkValue,
    TranslationScope,
    call,
    exact_value,
    failure,
    translates,
)
from tidegate.spark.translate.zones import MICROS_A_SECOND, floor_divide, instant, micros, zone_clock

_SIGNS = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%"}


@translates(*_SIGNS)
def arithmetic(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates + - * / %. Both sides have one type, but decimals may differ in digits."""
    values = scope.exacts(node)
    if values is None or values[0].type.kind is not values[1].type.kind:
        return None
    if values[0].type.kind is Kind.NUMERIC:
        return _decimal(node, *values)
    if values[0].type.is_float and node.kind != "Remainder":
        left, right = values
        return call(_SIGNS[node.kind], left, _no_zero(right) if node.kind == "Divide" else right)
    return same_function(scope, node) if values[0].type.is_integer and node.kind != "Divide" else None


def _no_zero(value: SparkValue) -> SparkValue:
    """Returns a divisor that fails if it is zero: NaN / 0 is NaN here, and an error or NULL in Spark."""
    if isinstance(value.low, Literal) and value.low.value.as_py():
        return value
    zero = build.call("=", value.low, build.literal(0.0, value.type))
    return exact_value(build.case([(zero, failure(value.type))], value.low), value)


def _decimal(node: CatalystNode, left: SparkValue, right: SparkValue) -> SparkValue | None:
    """Translates decimal arithmetic, with the type of Spark's node."""
    out = node.result_type()
    if out is None:
        return None
    if (
        node.kind == "Multiply"
        and (left.type.precision or 0) + (right.type.precision or 0) > types.MAX_PRECISION
    ):
        return None
    value = call(_SIGNS[node.kind], left, right).rising(lambda expr: build.cast(expr, out))
    if node.kind != "Divide":
        return value
    unit = build.literal(
        Decimal(1).scaleb(-(out.scale or 0)), types.numeric(types.MAX_PRECISION, out.scale or 0)
    )
    return SparkValue(build.call("-", value.low, unit), build.call("+", value.low, unit), value.sure)


@translates("IntegralDivide")
def integral_divide(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates `div`: the quotient cut towards zero, always a bigint."""
    values = scope.exacts(node)
    if values is None or any(value.type != types.INT8 for value in values):
        return None
    return call("/", *values)


@translates("UnaryMinus", "Abs")
def unary(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates -x and abs(x)."""
    value = scope.exact(node.children[0])
    if value is None or value.type.kind is not Kind.NUMERIC:
        return same_function(scope, node)
    return call("-" if node.kind == "UnaryMinus" else "abs", value)


@translates("Floor", "Ceil")
def whole(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates floor and ceil: a bigint for a double, a decimal without fraction for a decimal."""
    value = scope.exact(node.children[0])
    if value is None or (
        value.type not in (types.FLOAT8, types.INT8) and value.type.kind is not Kind.NUMERIC
    ):
        return None
    if value.type == types.INT8:
        return value
    out = types.INT8 if value.type == types.FLOAT8 else node.result_type()
    floor = call("floor" if node.kind == "Floor" else "ceil", value)
    return None if out is None else floor.rising(lambda expr: build.cast(expr, out))


@translates("Round", "BRound")
def rounded(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates round(x, n): exact for decimals; floats change by less than one unit of the last digit."""
    value, digits = scope.exact(node.children[0]), node.children[1].constant()
    if value is None or not isinstance(digits, int) or not -18 <= digits <= 18:
        return None
    if value.type.is_integer:
        return value if digits >= 0 else None
    if value.type == types.FLOAT8:
        unit = build.literal(10.0**-digits, types.FLOAT8)
        return SparkValue(build.call("-", value.low, unit), build.call("+", value.low, unit), value.sure)
    if value.type.kind is not Kind.NUMERIC or node.kind == "BRound" or digits < 0:
        return None
    out = node.result_type()
    rounded_value = call("round", value, exact_value(build.literal(digits, types.INT4)))
    return None if out is None else rounded_value.rising(lambda expr: build.cast(expr, out))


@translates("Sqrt")
def square_root(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates sqrt, which both round correctly; a negative number is NaN in Spark, an error here."""
    value = scope.exact(node.children[0])
    return call("sqrt", value) if value is not None and value.type == types.FLOAT8 else None


@translates("Cast")
def cast(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates CAST in any mode: where modes differ (overflow, text that is no number) ours fails."""
    target = type_of(node.fields["dataType"])
    if target is None:
        return None
    json = number_from_json(scope, node.children[0], target)
    if json is not None:
        return json
    value = scope.value(node.children[0])
    if value is None or value.loose:
        return None
    if isinstance(value.low, Literal) and value.low.is_null:
        return exact_value(build.null(target))
    return _convert(value, node.children[0], target, node.zone)


def _convert(value: SparkValue, child: CatalystNode, target: Type, zone: str | None) -> SparkValue | None:
    if value.raw and not is_instant(child):
        return None
    if value.type == target and not value.raw:
        return value
    if target.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return _to_time(value, target, zone)
    if value.raw or value.type == types.TIMESTAMPTZ:
        return _from_instant(value, target)
    if value.type == types.BOOL:
        return (
            value.rising(lambda expr: build.cast(expr, target))
            if target in (types.INT2, types.INT4, types.INT8, types.TEXT)
            else None
        )
    if value.type == types.DATE and target == types.TEXT:
        return value.rising(lambda expr: build.cast(expr, types.TEXT))
    if value.type.is_number:
        return _from_number(value, target)
    if value.type.kind is Kind.TEXT and target in types.INTEGERS and value.is_exact:
        return value.rising(lambda expr: build.cast(expr, target))
    return None


def is_instant(child: CatalystNode) -> bool:
    """Whether a node that we translate to a bigint is a timestamp in Spark, in microseconds."""
    if child.kind in ("PreciseTimestampConversion", "Cast"):
        return child.fields.get("toType", child.fields.get("dataType")) == "timestamp"
    return child.kind in ("SecondsToTimestamp", "MillisToTimestamp", "MicrosToTimestamp", "KnownNullable")


def _from_number(value: SparkValue, target: Type) -> SparkValue | None:
    """Casts numbers to numbers, cutting fractions; not floats to decimals, which Spark does by text."""
    source = value.type

    def of(expr: Expr) -> Expr:
        if target.is_integer and source.is_float:
            return build.cast(build.call("trunc", build.cast(expr, types.FLOAT8)), target)
        if target.is_integer and source.kind is Kind.NUMERIC:
            return build.cast(build.call("trunc", expr), target)
        return build.cast(expr, target)

    if source.is_float and target.kind is Kind.NUMERIC:
        return None
    if target == types.BOOL:
        return (
            value.rising(lambda expr: build.cast(expr, types.BOOL))
            if source.is_integer and value.is_exact
            else None
        )
    if target == types.TEXT:
        return value.rising(of) if source.is_integer and value.is_exact else None
    if target == types.FLOAT4 and source == types.FLOAT8:
        return None
    return value.rising(of) if target.is_number else None


def _to_time(value: SparkValue, target: Type, zone: str | None) -> SparkValue | None:
    """Casts between times, by the zone's clock, and from seconds to an instant."""
    if value.type.is_number and not value.raw:
        return _from_seconds(value) if target == types.TIMESTAMPTZ else None
    if value.type == types.TIMESTAMP and target == types.DATE:
        return value.rising(lambda expr: build.cast(expr, types.DATE))
    if value.type == types.DATE and target == types.TIMESTAMP:
        return value.rising(lambda expr: build.cast(expr, types.TIMESTAMP))
    by, at = zone_clock(zone), instant(value)
    if by is None or at is None:
        return None
    if at.type == types.TIMESTAMPTZ:
        local = by.shown(at)
        return local if target == types.TIMESTAMP else local.rising(lambda expr: build.cast(expr, types.DATE))
    if at.type in (types.DATE, types.TIMESTAMP):
        return by.meant(at.rising(lambda expr: build.cast(expr, types.TIMESTAMP)))
    return None


def _from_seconds(value: SparkValue) -> SparkValue | None:
    """Returns seconds since 1970 as an instant in microseconds."""
    if value.type.is_integer:
        million = build.literal(MICROS_A_SECOND, types.INT8)
        instants = value.rising(lambda expr: build.call("*", build.cast(expr, types.INT8), million))
        return replace(instants, raw=True)
    if value.type != types.FLOAT8 or not value.is_exact:
        return None
    product = build.call("*", value.low, build.literal(1e6, types.FLOAT8))
    return replace(exact_value(build.cast(build.call("trunc", product), types.INT8), value), raw=True)


def _from_instant(value: SparkValue, target: Type) -> SparkValue | None:
    """Returns an instant as seconds: an integer rounded down, or a double with its fraction."""
    value = replace(value, raw=False)
    if target.is_integer:
        return value.rising(lambda expr: build.cast(floor_divide(micros(expr), MICROS_A_SECOND), target))
    if target == types.FLOAT8:
        million = build.literal(1e6, types.FLOAT8)
        return value.rising(lambda expr: build.call("/", build.cast(micros(expr), types.FLOAT8), million))
    return None
