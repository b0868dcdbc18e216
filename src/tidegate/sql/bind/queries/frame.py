"""The frame of a window: `RANGE BETWEEN '1 day' PRECEDING AND CURRENT ROW EXCLUDE TIES`.

| unit | distance |
|---|---|
| ROWS, GROUPS | a whole number |
| RANGE by an integer, a numeric, a float | an integer, a numeric, a float8 |
| RANGE by a date, a time, a timestamp | an interval |

Distances are constants and not negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import BindError, TidegateError, UnsupportedError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Expr, Kind, Literal, Type, build, order, support, types
from tidegate.plan import logical, window_frame
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.names import again, aside
from tidegate.sql.parse.syntax import Node, WindowFrame

_TIMES = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


def bind_frame(
    binder: Binder, written: WindowFrame, keys: Sequence[logical.SortKey]
) -> window_frame.FrameSpec:
    """The frame of a window that is sorted by `keys`."""
    first, last = (_end(binder, written, end, keys) for end in (written.first, written.last))
    for wrong, message in (
        (first.way == "following" and first.distance is None, "a frame cannot start at UNBOUNDED FOLLOWING"),
        (last.way == "preceding" and last.distance is None, "a frame cannot end at UNBOUNDED PRECEDING"),
        (
            window_frame.WAYS.index(first.way) > window_frame.WAYS.index(last.way),
            "a frame cannot end before it starts",
        ),
        (written.unit == "groups" and not keys, "GROUPS needs an ORDER BY in the window"),
    ):
        if wrong:
            raise BindError(message, position=binder.position(written.at))
    return window_frame.FrameSpec(written.unit, first, last, written.exclude)


def _end(
    binder: Binder, written: WindowFrame, end: tuple[str, Node | None], keys: Sequence[logical.SortKey]
) -> window_frame.FrameEnd:
    node = end[1]
    way: window_frame.Way = next(one for one in window_frame.WAYS if one == end[0])
    if node is None:
        return window_frame.FrameEnd(way)
    if written.unit != "range":
        return window_frame.FrameEnd(way, whole_number(binder, again(binder, node), node, 0, types.INT8))
    if len(keys) != 1:
        raise BindError(
            "RANGE with a distance needs an ORDER BY of one value", position=binder.position(written.at)
        )
    return window_frame.FrameEnd(way, _distance(binder, node, keys[0].value.type))


def _distance(binder: Binder, node: Node, key: Type) -> Literal:
    """A distance in the values of a sort key."""
    with aside(binder):
        expr, target = binder.bind(node), _distance_type(key)
    if target is None:
        raise UnsupportedError(
            f"RANGE with a distance is not supported by {key}", position=binder.position(node.at)
        )
    if target.kind is Kind.NUMERIC and (expr.type.is_integer or expr.type.kind is Kind.NUMERIC):
        target = expr.type if expr.type.kind is Kind.NUMERIC else types.numeric(19, 0)
    value = constant_value(binder, expr, node, target)
    negative = value.is_valid and (
        order.interval_key(value).as_py() < 0
        if target.kind is Kind.INTERVAL
        else value.as_py() < 0 or value.as_py() != value.as_py()
    )
    if not value.is_valid or negative:
        raise BindError(
            "the distance of a frame must not be NULL or negative", position=binder.position(node.at)
        )
    return Literal(value, target)


def _distance_type(key: Type) -> Type | None:
    if key.is_integer:
        return types.INT8
    if key.is_float:
        return types.FLOAT8
    if key.kind is Kind.NUMERIC:
        return types.NUMERIC
    return types.INTERVAL if key.kind in _TIMES else None


def constant_value(binder: Binder, expr: Expr, node: Node, type_: Type) -> pa.Scalar:
    """The value of an expression that does not depend on rows."""
    try:
        if support(expr):
            raise UnsupportedError("this must be a constant")
        outcome = evaluate(build.coerce(expr, type_), [], 1)
    except TidegateError as error:
        error.position = error.position or binder.position(node.at)
        raise
    if outcome.errors is not None and outcome.errors[0].is_valid:
        raise BindError(outcome.errors[0].as_py(), position=binder.position(node.at))
    return outcome.values[0]


def whole_number(
    binder: Binder, expr: Expr, node: Node, least: int | None = None, type_: Type = types.INT4
) -> Literal:
    """A whole number that is known beforehand."""
    value = constant_value(binder, expr, node, type_)
    if not value.is_valid or (least is not None and value.as_py() < least):
        raise BindError(
            "this must be a number" + (f", {least} at least" if least is not None else ""),
            position=binder.position(node.at),
        )
    return Literal(value, type_)
