"""Writes aggregates that engines do not compute as we do with others that they compute alike.

| aggregate | is written with |
|---|---|
| `sum` of intervals | the sums of their months, days and microseconds |
| `min`, `max` of arrays | `array_agg`, whose least or greatest element our evaluator finds |

Over one collection they are computed directly (`query/aggregate`), so the tree has them as they are until it is lowered.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Column, Expr, Kind, Type, build, types
from tidegate.plan import logical
from tidegate.sql.lower.internal_calls import internal, present, record_of

Compute = Callable[[logical.AggregateExpr], Expr]
"""Gives the column of an aggregate that an engine computes."""


def with_composite_aggregates(rel: logical.Rel, count: int) -> tuple[logical.Rel, int]:
    """The tree with aggregates that engines compute; `count` is the first column number that is free."""
    below = []
    for one in logical.inputs(rel):
        changed, count = with_composite_aggregates(one, count)
        below.append(changed)
    rel = logical.with_inputs(rel, tuple(below))
    if not isinstance(rel, logical.Group) or not any(_is_composite(one) for _, one in rel.computed):
        return rel, count
    made: dict[logical.AggregateExpr, Column] = {}

    def compute(one: logical.AggregateExpr) -> Column:
        if one not in made:
            made[one] = Column(count + len(made), one.type)
        return made[one]

    composed = tuple((c, composite(one, compute)) for c, one in rel.computed if _is_composite(one))
    plain = tuple((column, one) for column, one in rel.computed if not _is_composite(one))
    group = logical.Group(rel.input, rel.keys, (*plain, *((c, one) for one, c in made.items())), rel.sets)
    return logical.Map(group, composed), count + len(made)


def _is_composite(one: logical.AggregateExpr) -> bool:
    if one.kind in ("min", "max"):
        return one.args[0].type.kind is Kind.ARRAY
    return one.kind == "sum" and one.type.kind is Kind.INTERVAL


def composite(one: logical.AggregateExpr, compute: Compute) -> Expr:
    """An aggregate over what `compute` gives the columns of."""
    if not _is_composite(one):
        return compute(one)
    (value,) = one.args
    if one.kind in ("min", "max"):
        # Engines do not agree on NULL inside of arrays, and a list of arrays would be an array of two dimensions.
        row = record_of(("v", value))
        listed = logical.AggregateExpr("array_agg", types.array(row.type), (row,), where=present(value))
        return build.field(internal(f"{one.kind} of", compute(listed)), "v")
    if one.distinct:
        raise UnsupportedError("sum(DISTINCT …) of intervals is not supported here")
    total: Type = types.numeric(38, 0)
    parts = (internal("interval part", value, build.literal(i, types.INT4)) for i in range(3))
    return internal(
        "interval of sums", *(compute(logical.AggregateExpr("sum", total, (part,))) for part in parts)
    )
