"""Binds a call of an aggregate: its arguments, its order and its filter, and what it is written with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Expr, Type
from tidegate.plan import AGGREGATE_NAMES, aggregate, logical
from tidegate.sql.bind.queries.aggregates import lists, statistics
from tidegate.sql.bind.queries.aggregates.call import BoundCall
from tidegate.sql.bind.queries.aggregates.plain import computed
from tidegate.sql.lower.composite_aggregates import Compute, composite
from tidegate.sql.parse.syntax import AggregateCall, Node, NonScalar

_ORDERED_SETS: dict[str, Callable[[BoundCall], Expr]] = {
    "mode": lists.mode,
    "percentile_cont": lists.percentile_cont,
    "percentile_disc": lists.percentile_disc,
}
"""Aggregates with WITHIN GROUP."""
_HYPOTHETICAL = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))


@dataclass(frozen=True)
class AggregateBinders:
    """How the parts of a call are bound: over rows, over groups, and as a condition over rows."""

    row: Callable[[Node], Expr]
    group: Callable[[Node], Expr]
    condition: Callable[[Node], Expr]
    given: Callable[[AggregateCall], Expr | None]
    """The argument of one of the aggregates that run everywhere."""


def bind_aggregate(node: NonScalar, binders: AggregateBinders, compute: Compute) -> Expr:
    """An aggregate as an expression over what `compute` gives the columns of."""
    call = node.call
    assert call is not None
    if call.name in AGGREGATE_NAMES and not call.within:

        def column(kind: aggregate.AggregateKind, type_: Type, value: Expr | None) -> Expr:
            args = () if value is None else (value,)
            distinct = call.distinct and kind in ("count", "sum")
            return composite(logical.AggregateExpr(kind, type_, args, distinct), compute)

        for ordering in call.order_by:  # the order of rows does not matter to these, yet must have a meaning
            binders.row(ordering.value)
        return computed(call, binders.given(call), column)
    bound = _bound(call, binders, compute)
    if call.name in _ORDERED_SETS:
        return _ORDERED_SETS[call.name](bound)
    write = _AGGREGATES.get(call.name)
    if write is None:
        raise UnsupportedError(f"{node.construct} is not supported", hint=_names())
    return write(bound)


def _bound(call: AggregateCall, binders: AggregateBinders, compute: Compute) -> BoundCall:
    if call.star:
        raise BindError("* stands only in count(*)")
    _check_within(call)
    order = tuple(
        logical.SortKey(binders.row(one.value), one.descending, one.nulls_first) for one in call.order_by
    )
    where = None if call.where is None else binders.condition(call.where)
    if call.within:
        direct = tuple(map(binders.group, call.given))
        return BoundCall(call.name, (), order, where, False, compute, direct)
    args = tuple(map(binders.row, call.given))
    if call.distinct and any(key.value not in args for key in order):
        raise BindError(
            f"{call.name}(DISTINCT …) can be ordered only by its arguments",
            hint="what is not distinct has no place in the order",
        )
    return BoundCall(call.name, args, order, where, call.distinct, compute)


def _check_within(call: AggregateCall) -> None:
    if call.name in _HYPOTHETICAL and call.within:
        raise UnsupportedError(
            f"{call.name} WITHIN GROUP is not supported",
            hint="count(*) FILTER (WHERE x < value) + 1 is the rank that a value would have",
        )
    if call.within and call.name not in _ORDERED_SETS:
        raise BindError(f"{call.name} has no WITHIN GROUP", hint=f"write {call.name}(x ORDER BY …)")
    if not call.within and call.name in _ORDERED_SETS:
        raise BindError(
            f"{call.name} is sorted WITHIN GROUP", hint=f"write {call.name}(…) WITHIN GROUP (ORDER BY x)"
        )
    if call.within and call.distinct:
        raise BindError("DISTINCT is not allowed with WITHIN GROUP")


def _any_value(call: BoundCall) -> Expr:
    """The least value: the same one on every engine."""
    (value,) = call.take(1)
    return call.summary("min", value.type, call.filtered(value))


def _bits(call: BoundCall) -> Expr:
    (value,) = call.take(1)
    if not value.type.is_integer:
        raise call.mismatch(value.type, "integers")
    if call.name == "bit_xor":
        call.plain()
    return call.summary(call.name, value.type, call.filtered(value))


_AGGREGATES: dict[str, Callable[[BoundCall], Expr]] = {
    "any_value": _any_value,
    "array_agg": lists.array_agg,
    "json_agg": lists.jsonb_agg,
    "jsonb_agg": lists.jsonb_agg,
    "json_object_agg": lists.object_agg,
    "jsonb_object_agg": lists.object_agg,
    "string_agg": lists.string_agg,
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _bits),
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"), statistics.deviation
    ),
    **dict.fromkeys(statistics.REGRESSIONS, statistics.regression),
}
"""By name, beside those that run everywhere."""


def _names() -> str:
    known = sorted((*AGGREGATE_NAMES, *_AGGREGATES, *_ORDERED_SETS))
    return f"there are {', '.join(known)}"
