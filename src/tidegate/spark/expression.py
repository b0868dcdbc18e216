"""An expression as Spark SQL text that means exactly the same, where Spark has the words.

    spark_sql(price * 2 > 10, ["`price`"])      "(CAST(`price` * CAST('2' AS decimal(1,0)) AS decimal(11,2)) > …)"
    spark_sql(payload ->> 'ts', ["`payload`"])   None: Spark's JSON functions mean something else

Each function says in its declaration how Spark says it (`expr/spark_form.py`); this only walks the tree. The text means the same in
a session with `SETTINGS`: ANSI mode, UTC, names that are told apart by case.

One difference remains: of an AND or OR with two sides that may fail, Spark evaluates the left one first, and fails even where the
right one is false. (What never fails is said first: `spark_form.joined`.) `evaluate.py` runs the whole expression as we mean it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from tidegate.expr.spark_literal import literal_sql
from tidegate.expr.tree import Call, Column, Expr, Literal, Now, walk

SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Else what occurs twice is evaluated beforehand, on the right of an AND too: `x <> 0 AND 10 / x = 2` fails for x = 0.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    # Else what is asked of one side of `a.id = b.id` is asked of the other: `10 / a.id > 1` fails for an id of b that a has not.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    # Else `${x}` in the name of a column or field is replaced by a setting before anything is parsed.
    "spark.sql.variable.substitute": "false",
}
"""What a session must be set to, for texts to mean what they say, and for errors of rows to come without a traceback."""
LONGEST = 20_000
"""Characters of a text beyond which it is not worth its while: some forms repeat their arguments."""
DEEPEST = 60
"""Parentheses within parentheses: Spark's parser recurses, and some 300 of them overflow its stack."""


def spark_sql(expr: Expr, columns: Sequence[str]) -> str | None:
    """Spark SQL that is `expr` for every row; `columns[i]` is the text of column i. None: there is no such text."""
    known: dict[Expr, str] = {}
    for node in walk(expr):
        text = _said(node, columns, known)
        if text is None or len(text) > LONGEST:
            return None
        known[node] = text
    return known[expr] if _nesting(known[expr]) <= DEEPEST else None


def _nesting(text: str) -> int:
    """How deep parentheses go; those inside of literals are counted too, which can only make it more careful, or less by a few."""
    depth = deepest = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        deepest = max(deepest, depth)
    return deepest


def _said(node: Expr, columns: Sequence[str], known: Mapping[Expr, str]) -> str | None:
    match node:
        case Column(index):
            return columns[index]
        case Literal():
            return literal_sql(node)
        case Now():
            return None
        case Call(function, args):
            form, texts = function.spark, [known[arg] for arg in args]
            if form is None or isinstance(form, str):
                return None if form is None else form.format(*texts)
            return form(node, texts)
        case _:
            assert_never(node)
