"""Fast path for `LIKE '%literal%'` on string_view columns: searches before copying to a plain array.

    title LIKE '%sale%'      of a million views a thousand hold it, and these thousand become texts

A view is where a text lies; most of our kernels want the texts one behind the other, and to put them there costs a third of
decoding them. The commonest filter of texts does not need it.

>>> import pyarrow as pa
>>> from tidegate.expr.model.build import call
>>> from tidegate.expr.model.tree import Column, Literal
>>> from tidegate.plan.mfp import MapFilterProject
>>> plan = SafePlan(MapFilterProject.identity((TEXT,)).filter(call("like", Column(0, TEXT), Literal(pa.scalar("%b%"), TEXT))))
>>> got = evaluate_viewed(plan, pa.array(["abc", None, "x", "b"]).cast(pa.string_view()), TEXT)
>>> got.selection.tolist(), got.columns[0].to_pylist()
([0, 3], ['abc', 'b'])
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.expr.model import Call, Column, Expr, Literal, Type, types
from tidegate.expr.primitives import text_search
from tidegate.plan.run.safe_plan import Failures, PlanOutput, SafePlan


def evaluate_string_view(
    plan: SafePlan,
    column: pa.Array,
    type_: Type,
    now: int | None = None,
    check: Callable[[], None] | None = None,
) -> PlanOutput:
    """What `plan.evaluate` gives for the column's texts."""
    conditions = plan.mfp.conditions
    wanted = _searched_text(conditions[0]) if len(conditions) == 1 else None
    if wanted is None:
        return plan.evaluate([column.cast(type_.arrow)], len(column), now, check)
    rows, texts = text_search.rows_containing(column, wanted)
    got = SafePlan(plan.mfp.rebuild([], plan.mfp.outputs)).evaluate([texts], len(rows), now, check)
    return PlanOutput(
        got.columns, rows[got.selection], Failures(rows[got.failures.rows], got.failures.messages)
    )


def _searched_text(condition: Expr) -> str | None:
    """What a condition looks for in the column, if that is all it does."""
    match condition:
        case Call(function, (Column(), Literal(pattern))) if function.name == "like" and pattern.is_valid:
            from tidegate.expr.functions import like_infix  # on use: it declares all functions

            return like_infix(pattern.as_py()) if condition.args[0].type == types.TEXT else None
        case _:
            return None
