"""A plan over one column of texts that came as views, as polars decodes them: a text is looked for in them as they are.

    title LIKE '%sale%'      of a million views a thousand hold it, and these thousand become texts

A view is where a text lies; most of our kernels want the texts one behind the other, and to put them there costs a third of
decoding them. The commonest filter of texts does not need it.

>>> import pyarrow as pa
>>> from tidegate.expr.build import call
>>> from tidegate.expr.tree import Column, Literal
>>> from tidegate.plan.mfp import identity
>>> plan = SafePlan(identity((TEXT,)).filter(call("like", Column(0, TEXT), Literal(pa.scalar("%b%"), TEXT))))
>>> got = evaluate_viewed(plan, pa.array(["abc", None, "x", "b"]).cast(pa.string_view()), TEXT)
>>> got.selection.tolist(), got.columns[0].to_pylist()
([0, 3], ['abc', 'b'])
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.expr.find import holding
from tidegate.expr.functions.pattern import sought
from tidegate.expr.tree import Call, Column, Expr, Literal
from tidegate.expr.types import TEXT, Type
from tidegate.plan.optimise import rebuild
from tidegate.plan.safe import Failures, Rows, SafePlan


def evaluate_viewed(
    plan: SafePlan,
    column: pa.Array,
    type_: Type,
    now: int | None = None,
    check: Callable[[], None] | None = None,
) -> Rows:
    """What `plan.evaluate` gives for the column's texts."""
    conditions = plan.mfp.conditions
    wanted = _wanted(conditions[0]) if len(conditions) == 1 else None
    if wanted is None:
        return plan.evaluate([column.cast(type_.arrow)], len(column), now, check)
    rows, texts = holding(column, wanted)
    got = SafePlan(rebuild(plan.mfp, [], plan.mfp.outputs)).evaluate([texts], len(rows), now, check)
    return Rows(got.columns, rows[got.selection], Failures(rows[got.failures.rows], got.failures.messages))


def _wanted(condition: Expr) -> str | None:
    """What a condition looks for in the column, if that is all it does."""
    match condition:
        case Call(function, (Column(), Literal(pattern))) if function.name == "like" and pattern.is_valid:
            return sought(pattern.as_py()) if condition.args[0].type == TEXT else None
        case _:
            return None
