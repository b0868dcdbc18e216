"""Window functions: `f(…) OVER (PARTITION BY … ORDER BY … ROWS …)` as a column.

| function | gives |
|---|---|
| row_number, rank, dense_rank | int8 |
| ntile(n) | int4 |
| percent_rank, cume_dist | float8 |
| lag, lead (x, how far, else), first_value, last_value, nth_value(x, n) | the type of x |
| the aggregates of `plan/aggregate.py`, with FILTER | as there |

How far, n and the ends of a frame are constants. RANGE goes from or to the current row or the end.
"""

from __future__ import annotations

from tidegate.errors import BindError, TidegateError, UnsupportedError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Expr, Literal, Type, build, support, types
from tidegate.plan import AGGREGATE_NAMES, AggregateKind, logical
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.general.grouping import checked
from tidegate.sql.bind.general.names import PendingColumns, QueryContext, again, aside, has_interval
from tidegate.sql.bind.grouping import computed, given_of
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse.syntax import AggregateCall, Node, NonScalar, Ordering, Over, WindowFrame

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

    if call.name in AGGREGATE_NAMES:
        with aside(binder):
            given = given_of(call, binder)

        def summarise(_: AggregateCall, kind: AggregateKind, type_: Type, value: Expr | None) -> Expr:
            return column(checked(logical.AggregateExpr(kind, type_, () if value is None else (value,))))

        return computed(call, given, summarise)
    if call.where is not None:
        raise BindError(f"FILTER is for aggregates, and {call.name} is none")
    return column(_function(binder, call, [again(binder, one) for one in call.given], node))


def _function(
    binder: Binder, call: AggregateCall, given: list[Expr], node: NonScalar
) -> logical.AggregateExpr:
    name, count = call.name, len(given)
    if name in _RANKS and count == 0 and not call.star:
        return logical.AggregateExpr(name, _RANKS[name])
    if name == "ntile" and count == 1:
        return logical.AggregateExpr(name, types.INT4, (_whole(binder, given[0], call.given[0], 1),))
    if name in _SHIFTS and 1 <= count <= 3:
        far = _whole(binder, given[1], call.given[1]) if count > 1 else build.literal(1, types.INT4)
        otherwise = build.coerce(given[2], given[0].type) if count > 2 else build.null(given[0].type)
        if support(otherwise):
            raise UnsupportedError(f"what {name} gives where there is no row must be a constant")
        return logical.AggregateExpr(name, given[0].type, (given[0], far, otherwise))
    if name in _VALUES and count == (2 if name == "nth_value" else 1):
        more = (_whole(binder, given[1], call.given[1], 1),) if count > 1 else ()
        return logical.AggregateExpr(name, given[0].type, (given[0], *more))
    if name in (*_RANKS, "ntile", *_SHIFTS, *_VALUES):
        raise BindError(f"{name} does not take {count} arguments")
    raise UnsupportedError(f"{node.construct} is not supported")


def _whole(binder: Binder, expr: Expr, node: Node, least: int | None = None) -> Literal:
    """A whole number that is known beforehand."""
    try:
        if support(expr):
            raise UnsupportedError("this must be a constant")
        outcome = evaluate(build.coerce(expr, types.INT4), [], 1)
    except TidegateError as error:
        error.position = error.position or binder.position(node.at)
        raise
    value = outcome.values[0]
    failed = outcome.errors is not None and outcome.errors[0].is_valid
    if failed or not value.is_valid or (least is not None and value.as_py() < least):
        raise BindError(
            "this must be a number" + (f", {least} at least" if least is not None else ""),
            position=binder.position(node.at),
        )
    return Literal(value, types.INT4)


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
    frame = _frame(binder, over.frame) if over.frame is not None else None
    if below is None:
        return logical.WindowSpec(partition, order, frame)
    return logical.WindowSpec(below.partition, order or below.order, frame or below.frame)


def _key(binder: Binder, node: Node) -> Expr:
    key = again(binder, node)
    if has_interval(key.type):
        raise UnsupportedError(
            "PARTITION BY of intervals is not supported", position=binder.position(node.at)
        )
    return key


def order_of(binder: Binder, ordering: Ordering) -> logical.SortKey:
    """An entry of ORDER BY in a window."""
    value = resolve_unknown(again(binder, ordering.value))
    if value.type.is_nested:
        raise UnsupportedError(
            f"ORDER BY of {value.type} is not supported here", position=binder.position(ordering.value.at)
        )
    return logical.SortKey(value, ordering.descending, ordering.nulls_first)


def _frame(binder: Binder, frame: WindowFrame) -> str:
    if frame.excluding or frame.unit == "groups":
        what = "EXCLUDE" if frame.excluding else "GROUPS"
        raise UnsupportedError(f"{what} in a window is not supported", position=binder.position(frame.at))
    ends = [_end(binder, frame, end) for end in (frame.first, frame.last)]
    return f"{frame.unit.upper()} BETWEEN {ends[0]} AND {ends[1]}"


def _end(binder: Binder, frame: WindowFrame, end: tuple[str, Node | None]) -> str:
    way, node = end
    if way == "current row":
        return "CURRENT ROW"
    if node is None:
        return f"UNBOUNDED {way.upper()}"
    if frame.unit == "range":
        raise UnsupportedError(
            "RANGE with a distance is not supported", hint="ROWS is", position=binder.position(frame.at)
        )
    return f"{_whole(binder, again(binder, node), node, 0).value.as_py()} {way.upper()}"
