"""Window functions: `f(…) OVER (PARTITION BY … ORDER BY … ROWS …)` as a column.

| function | gives |
|---|---|
| row_number, rank, dense_rank | int8 |
| ntile(n) | int4 |
| percent_rank, cume_dist | float8 |
| lag, lead (x, how far, else), first_value, last_value, nth_value(x, n) | the type of x; of lag and lead, that of x and else |
| every aggregate without WITHIN GROUP, with FILTER | as over groups |

How far, n and the ends of a frame are constants (`frame.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Column, Expr, build, support, tree, types
from tidegate.plan import AGGREGATE_NAMES, GENERAL_AGGREGATES, logical
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.aggregates import AggregateBinders, bind_aggregate, given_of
from tidegate.sql.bind.queries.frame import bind_frame, whole_number
from tidegate.sql.bind.queries.grouping import checked
from tidegate.sql.bind.queries.names import PendingColumns, QueryContext, again, aside, has_interval
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse.syntax import AggregateCall, Node, NonScalar, Ordering, Over

_RANKS = {
    "row_number": types.INT8, "rank": types.INT8, "dense_rank": types.INT8, "percent_rank": types.FLOAT8, "cume_dist": types.FLOAT8,
}  # fmt: skip
_SHIFTS = ("lag", "lead")
_VALUES = ("first_value", "last_value", "nth_value")


def windowed(binder: Binder, around: QueryContext, gathered: PendingColumns, node: NonScalar) -> Expr:
    """The column of a window function."""
    assert node.call is not None
    assert node.over is not None
    call = node.call
    if binder._clause is not None:
        raise BindError(f"window functions are not allowed in {binder._clause}")
    if call.within:
        raise BindError(f"{call.name} WITHIN GROUP is not a window function", hint="GROUP BY in a subquery")
    if call.distinct or call.order_by:
        raise UnsupportedError(f"DISTINCT and ORDER BY in the window function {call.name} are not supported")
    span = _span(binder, around, node.over)

    def column(summary: logical.AggregateExpr) -> Column:
        for made, one, where in gathered.windows:
            if (one, where) == (summary, span):
                return made
        made = around.numbers.new(summary.type, call.name)
        gathered.windows.append((made, summary, span))
        return made

    if call.name in AGGREGATE_NAMES or call.name in GENERAL_AGGREGATES:
        return bind_aggregate(node, _binders(binder), lambda one: column(checked(one)))
    if call.where is not None:
        raise BindError(f"FILTER is for aggregates, and {call.name} is none")
    given = [again(binder, one) for one in call.given]
    given = _shift_arguments(given) if call.name in _SHIFTS else given
    if call.name in _SHIFTS and len(given) == 3 and support(given[2]):
        return _shift_or_else(binder, call, given, column)
    return column(_function(binder, call, given, node))


def _binders(binder: Binder) -> AggregateBinders:
    def condition(node: Node) -> Expr:
        with aside(binder):
            return binder.condition(node, "FILTER")

    def argument(call: AggregateCall) -> Expr | None:
        with aside(binder):
            return given_of(call, binder)

    def row(node: Node) -> Expr:
        return again(binder, node)

    return AggregateBinders(row, row, condition, argument)


def _shift_or_else(
    binder: Binder,
    call: AggregateCall,
    given: list[Expr],
    column: Callable[[logical.AggregateExpr], Column],
) -> Expr:
    """lag or lead whose default is computed from the current row, for where no row is so far away."""
    far = whole_number(binder, given[1], call.given[1])
    there = column(logical.AggregateExpr(call.name, types.BOOL, (tree.TRUE, far, build.null(types.BOOL))))
    value = column(
        logical.AggregateExpr(call.name, given[0].type, (given[0], far, build.null(given[0].type)))
    )
    return build.case(
        [(build.call("not", build.call("is null", there)), value)], build.coerce(given[2], given[0].type)
    )


def _shift_arguments(given: list[Expr]) -> list[Expr]:
    """The arguments of lag and lead; the value and the default have one type."""
    if len(given) < 3:
        return given
    common = build.common_type([given[0].type, given[2].type])
    if common is None:
        return given
    value, otherwise = (
        build.cast(one, common) if one.type.arrow != common.arrow else one for one in (given[0], given[2])
    )
    return [value, given[1], otherwise]


def _function(
    binder: Binder, call: AggregateCall, given: list[Expr], node: NonScalar
) -> logical.AggregateExpr:
    name, count = call.name, len(given)
    if name in _RANKS and count == 0 and not call.star:
        return logical.AggregateExpr(name, _RANKS[name])
    if name == "ntile" and count == 1:
        return logical.AggregateExpr(name, types.INT4, (whole_number(binder, given[0], call.given[0], 1),))
    if name in _SHIFTS and 1 <= count <= 3:
        far = whole_number(binder, given[1], call.given[1]) if count > 1 else build.literal(1, types.INT4)
        otherwise = build.coerce(given[2], given[0].type) if count > 2 else build.null(given[0].type)
        return logical.AggregateExpr(name, given[0].type, (given[0], far, otherwise))
    if name in _VALUES and count == (2 if name == "nth_value" else 1):
        more = (whole_number(binder, given[1], call.given[1], 1),) if count > 1 else ()
        return logical.AggregateExpr(name, given[0].type, (given[0], *more))
    if name in (*_RANKS, "ntile", *_SHIFTS, *_VALUES):
        raise BindError(f"{name} does not take {count} arguments")
    raise UnsupportedError(f"{node.construct} is not supported")


def _span(binder: Binder, around: QueryContext, over: Over) -> logical.WindowSpec:
    """A window, with what it takes from one that has a name."""
    base = None
    if over.base is not None:
        base = around.windows.get(over.base.text)
        if base is None:
            raise BindError(f'there is no window "{over.base.text}"', position=binder.position(over.base.at))
    below = None if base is None else _span(binder, around, base)
    partition = tuple(_key(binder, one) for one in over.partition_by)
    order = tuple(order_of(binder, one) for one in over.order_by)
    if below is not None and (partition or (order and below.order)):
        raise BindError(
            "a window that has a name can be given an order and a frame, each once",
            position=binder.position(over.at),
        )
    if below is not None:
        if below.frame is not None and (order or over.frame is not None):
            raise BindError(
                "a window that has a frame cannot be given an order or another frame",
                position=binder.position(over.at),
            )
        partition, order = below.partition, order or below.order
    if over.frame is not None:
        return logical.WindowSpec(partition, order, bind_frame(binder, over.frame, order))
    return logical.WindowSpec(partition, order, None if below is None else below.frame)


def _key(binder: Binder, node: Node) -> Expr:
    key = again(binder, node)
    # Engines take 1 month and 30 days for different, which are equal.
    return build.call("ordered bytes", key, hidden=True) if has_interval(key.type) else key


def order_of(binder: Binder, ordering: Ordering) -> logical.SortKey:
    """An entry of ORDER BY in a window."""
    value = resolve_unknown(again(binder, ordering.value))
    return logical.SortKey(value, ordering.descending, ordering.nulls_first)
