"""Aggregates over the list of a group's values: array_agg, jsonb_agg, string_agg, percentiles."""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Expr, Kind, Literal, build, types
from tidegate.plan import logical
from tidegate.sql.bind.queries.aggregates.call import BoundCall, ascending, sort_keys
from tidegate.sql.lower.internal_calls import internal, present, record_of


def array_agg(call: BoundCall) -> Expr:
    """`array_agg(x)`; of arrays an array of them, each as long as it is."""
    (value,) = call.take(1)
    if call.distinct and value.type.kind is Kind.ARRAY:
        raise _distinct_arrays(call)
    return call.collect(value)


def jsonb_agg(call: BoundCall) -> Expr:
    """`jsonb_agg(x)`: the JSON of a list; elements are converted first if no list can hold them."""
    (value,) = call.take(1)
    if value.type.is_nested and not call.distinct:
        value = build.call("to_jsonb", value)
    elif value.type.kind is Kind.ARRAY:
        raise _distinct_arrays(call)
    return build.call("to_jsonb", call.collect(value))


def _distinct_arrays(call: BoundCall) -> UnsupportedError:
    return UnsupportedError(
        f"{call.name}(DISTINCT …) of arrays is not supported",
        hint="aggregate over a subquery that selects DISTINCT values",
    )


def object_agg(call: BoundCall) -> Expr:
    """`jsonb_object_agg(k, v)`: of equal keys the last wins, so DISTINCT only decides the order."""
    key, value = call.take(2)
    if key.type.is_nested or key.type.kind is Kind.JSONB:
        raise BindError("key value must be scalar, not array, composite, or json")
    order = call.order
    if call.distinct:
        order = (*order, *(ascending(arg) for arg in call.args if arg not in [k.value for k in order]))
    pair = record_of(("k", build.cast(key, types.TEXT)), ("v", build.call("to_jsonb", value)))
    listed = replace(call, distinct=False).collect(pair, order=order)
    return internal("object of pairs", listed)


def string_agg(call: BoundCall) -> Expr:
    """`string_agg(x, separator)`; engines join texts by a constant, and we by what varies."""
    value, separator = call.take(2)
    type_ = types.BYTEA if Kind.BYTEA in (value.type.kind, separator.type.kind) else types.TEXT
    if type_ == types.BYTEA and isinstance(separator, Literal):  # a string, whose type is that of the values
        separator = build.cast(separator, type_)
    given = value
    value, separator = build.coerce(value, type_), build.coerce(separator, type_)
    order = tuple(replace(key, value=value) if key.value == given else key for key in call.order)
    if isinstance(separator, Literal) and type_ == types.TEXT:
        if separator.is_null:
            separator = build.literal("", types.TEXT)
        if call.distinct and not order:
            order = (ascending(value),)
        text = call.filtered(value)
        keys = sort_keys(order, value, text)
        return call.compute(
            logical.AggregateExpr("string_agg", types.TEXT, (text, separator), call.distinct, keys)
        )
    if call.distinct:
        raise UnsupportedError(
            "string_agg(DISTINCT …) is supported of texts with a constant separator",
            hint="aggregate over a subquery that selects DISTINCT values",
        )
    there = present(value)
    where = there if call.where is None else build.conjunction([call.where, there])
    pair = record_of(("separator", separator), ("value", value))
    return internal("joined", replace(call, where=where).collect(pair, order=order))


def mode(call: BoundCall) -> Expr:
    """`mode() WITHIN GROUP (ORDER BY x)`."""
    if call.direct:
        raise BindError("mode takes no arguments", hint="mode() WITHIN GROUP (ORDER BY x)")
    return internal("mode of sorted", _sorted(call, call.order[0].value))


def percentile_disc(call: BoundCall) -> Expr:
    """`percentile_disc(fraction) WITHIN GROUP (ORDER BY x)`, of one fraction or an array of them."""
    return internal("percentile_disc of sorted", _sorted(call, call.order[0].value), _fraction(call))


def percentile_cont(call: BoundCall) -> Expr:
    """`percentile_cont(fraction) WITHIN GROUP (ORDER BY x)`: numbers as float8, or intervals."""
    value, fraction = call.order[0].value, _fraction(call)
    if value.type.kind is Kind.INTERVAL:
        return _between_intervals(call, value, fraction)
    if not value.type.is_number:
        raise call.mismatch(value.type, "numbers and intervals")
    as_float = build.cast(value, types.FLOAT8)
    return internal("percentile_cont of sorted", _sorted(call, as_float), fraction)


def _between_intervals(call: BoundCall, value: Expr, fraction: Expr) -> Expr:
    """low + (high - low) · rest, between the two values at a position."""
    if fraction.type.kind is Kind.ARRAY:
        raise UnsupportedError("percentile_cont of intervals takes one fraction")
    values = _sorted(call, value)
    size = build.cast(build.call("cardinality", values), types.FLOAT8)
    # Checks the fraction, and is NULL where there is no value.
    checked = internal("percentile_disc of sorted", values, fraction)
    place = build.call("*", fraction, build.call("-", size, build.literal(1.0, types.FLOAT8)))
    low, high = (
        build.call(
            "subscript",
            values,
            build.call("+", build.cast(build.call(name, place), types.INT8), build.literal(1, types.INT8)),
        )
        for name in ("floor", "ceil")
    )
    rest = build.call("-", place, build.call("floor", place))
    between = build.call("+", low, build.call("*", build.call("-", high, low), rest))
    return build.case([(present(checked), between)])


def _fraction(call: BoundCall) -> Expr:
    if len(call.direct) != 1:
        raise BindError(f"{call.name} takes one argument", hint=f"{call.name}(0.5) WITHIN GROUP (ORDER BY x)")
    target = types.array(types.FLOAT8) if call.direct[0].type.kind is Kind.ARRAY else types.FLOAT8
    return build.coerce(call.direct[0], target)


def _sorted(call: BoundCall, value: Expr) -> Expr:
    """The values that are not NULL, as WITHIN GROUP sorts them."""
    if len(call.order) != 1:
        raise BindError(f"{call.name} is sorted by one value")
    return call.collect(value, order=(replace(call.order[0], value=value),), nulls=False)
