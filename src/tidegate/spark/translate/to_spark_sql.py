"""An expression as Spark SQL text with exactly the same meaning, if Spark can express it.

    spark_sql(price * 2 > 10, ["`price`"])      "(CAST(`price` * CAST('2' AS decimal(1,0)) AS decimal(11,2)) > …)"
    spark_sql(payload ->> 'ts', ["`payload`"])   None: Spark's JSON functions mean something else

Each function declares its Spark form (`expr/spark_sql/forms.py`); this module only walks the tree. The text has its meaning in a
session with `SETTINGS`: ANSI mode, UTC, case-sensitive names.

One difference remains: if both sides of an AND or OR may fail, Spark evaluates the left one first, and fails even where the right
one is false. (Sides that never fail are written first: `forms.joined`.) `evaluator_udf.py` runs the whole
expression with our meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from tidegate.expr.model import Call, Column, Expr, Literal, Now, walk
from tidegate.expr.spark_sql import literal_sql

SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Else common subexpressions are evaluated first, right of an AND too: `x <> 0 AND 10 / x = 2` fails for x = 0.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    # Else a condition on one side of `a.id = b.id` is applied to the other: `10 / a.id > 1` fails for an id of b alone.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    # Else `${x}` in the name of a column or field is replaced by a setting before parsing.
    "spark.sql.variable.substitute": "false",
}
"""Settings of a session in which our texts have their meaning, and errors of rows come without a traceback."""
MAX_CHARACTERS = 20_000
"""A longer text is given up: some forms repeat their arguments."""
MAX_NESTING = 60
"""Levels of parentheses: Spark's parser recurses, and about 300 levels overflow its stack."""


def spark_sql(expr: Expr, columns: Sequence[str]) -> str | None:
    """Returns Spark SQL that equals `expr` for every row, or None; `columns[i]` is the text of column i."""
    texts: dict[Expr, str] = {}
    for node in walk(expr):
        text = _node_sql(node, columns, texts)
        if text is None or len(text) > MAX_CHARACTERS:
            return None
        texts[node] = text
    return texts[expr] if _nesting(texts[expr]) <= MAX_NESTING else None


def _nesting(text: str) -> int:
    """Returns the depth of parentheses; those in literals count too, which changes it by a few at most."""
    depth = greatest = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        greatest = max(greatest, depth)
    return greatest


def _node_sql(node: Expr, columns: Sequence[str], texts: Mapping[Expr, str]) -> str | None:
    match node:
        case Column(index):
            return columns[index]
        case Literal():
            return literal_sql(node)
        case Now():
            return None
        case Call(function, args):
            form, arguments = function.spark, [texts[arg] for arg in args]
            if form is None or isinstance(form, str):
                return None if form is None else form.format(*arguments)
            return form(node, arguments)
        case _:
            assert_never(node)
