"""Which columns a join, IN or EXISTS compares.

ON a.id = b.id AND a.x > b.y           equi_join_keys: (a.id, b.id)
WHERE NOT (x IN (SELECT …)) AND y > 5   whole_condition_subqueries: the IN, as it is a whole condition of the WHERE
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.expr.model import Call, Column, Expr, support
from tidegate.plan import logical


def equi_join_keys(on: Sequence[Expr]) -> list[tuple[Column, Column]]:
    """The pairs of columns that must be equal."""
    found = []
    for condition in on:
        match condition:
            case Call(function, (Column() as a, Column() as b)) if function.name == "=":
                found.append((a, b))
            case _:
                pass
    return found


def whole_condition_subqueries(
    rel: logical.Filter, below: logical.SubqueryApply
) -> dict[int, logical.Subquery]:
    """Returns the EXISTS and IN subqueries that are, or whose negation is, a whole condition of a WHERE."""
    subqueries = {}
    for column, subquery in below.computed:
        users = [c for c in rel.conditions if column.index in support(c)]
        if len(users) != 1 or subquery.kind not in ("exists", "any") or subquery.operator != "=":
            continue
        node = users[0]
        while isinstance(node, Call) and node.function.name == "not":
            node = node.args[0]
        if node == column:
            subqueries[column.index] = subquery
    return subqueries
