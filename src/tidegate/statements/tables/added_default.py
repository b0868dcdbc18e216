"""The default that a column is added with: what it is in the rows that are there.

    ALTER TABLE t ADD COLUMN seen timestamptz DEFAULT now()      the time of the ALTER, in every row

It is computed once, as PostgreSQL does for defaults that are not volatile; nothing is rewritten.
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.context import Context
from tidegate.errors import EvaluationError, UnsupportedError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Type, subexpressions
from tidegate.statements.define import default
from tidegate.storage.part import Schema, conform


def constant_of(context: Context, text: str, type_: Type) -> pa.Scalar | None:
    """The value of a default, as of now; None is NULL."""
    expr = default(context, text, type_)
    if subexpressions.volatile_calls(expr):
        raise UnsupportedError(
            "a column is not added with a default that differs from row to row",
            hint="add the column, UPDATE it, then ALTER COLUMN … SET DEFAULT",
        )
    outcome = evaluate(expr, [], 1)
    if outcome.errors is not None and outcome.errors[0].is_valid:
        raise EvaluationError(outcome.errors[0].as_py())
    (stored,) = conform(Schema.of([("value", type_, True)]), [outcome.values])
    return stored[0] if stored[0].is_valid else None
