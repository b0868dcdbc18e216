"""The aggregates that run everywhere, written with four of them: count, sum, min and max.

avg(x) FILTER (WHERE c)        sum(CASE WHEN c THEN x END) / count(CASE WHEN c THEN x END)
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import BindError, TypeMismatch
from tidegate.expr.model import Expr, Literal, Type, build, tree, types
from tidegate.plan import aggregate
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse.syntax import AggregateCall


def computed(
    node: AggregateCall,
    given: Expr | None,
    column: Callable[[aggregate.AggregateKind, Type, Expr | None], Expr],
) -> Expr:
    """An aggregate, written with the four that are computed: `column` makes those."""
    match node.name:
        case "count":
            return column("count", types.INT8, given)
        case "sum":
            return column("sum", _summed(node, given, aggregate.sum_type), given)
        case "avg":
            total = column("sum", _summed(node, given, aggregate.exact_sum_type), given)
            return build.call("/", total, column("count", types.INT8, given))
        case "min" | "max" as kind:
            assert given is not None
            key = build.sort_key(given)
            return build.from_sort_key(column(kind, key.type, key), given.type)
        case name:
            assert given is not None
            return column("max" if name == "bool_or" else "min", types.BOOL, given)


def given_of(node: AggregateCall, rows: Binder) -> Expr | None:
    """What an aggregate is given, over rows; None: all rows."""
    name = node.name
    if node.star and (name != "count" or node.distinct):
        raise BindError("* stands only in count(*)", hint=f"{name} takes one argument")
    if not node.star and len(node.given) != 1:
        several = "count(DISTINCT (a, b)) counts distinct rows" if node.distinct else "count(*) counts rows"
        raise BindError(f"{name} takes one argument", hint=several if name == "count" else None)
    value = None if node.star else resolve_unknown(rows.bind(node.given[0], "an aggregate"))
    if value is not None and name in ("bool_and", "bool_or", "every"):
        value = build.coerce(value, types.BOOL)
    if name == "count" and isinstance(value, Literal) and not value.is_null:
        value = None if not node.distinct else value
    if node.where is None:
        return value
    return build.case([(rows.condition(node.where, "FILTER"), tree.TRUE if value is None else value)])


def _summed(node: AggregateCall, given: Expr | None, type_of: Callable[[Type], Type | None]) -> Type:
    assert given is not None
    found = type_of(given.type)
    if found is None:
        raise TypeMismatch(f"{node.name} does not take {given.type}", hint="it takes numbers and intervals")
    return found
