"""Evaluation of expressions over batches of rows, and their simplification before that.

    evaluate(build.call("+", Column(0, types.INT8), build.literal(1, types.INT8)), [pa.array([1, 2])]).values    # [2, 3]

`Evaluation` computes any number of expressions over one batch and evaluates each distinct subexpression once.
`simplify_expression` folds constants and merges conditions, and changes no result. The sub-room rests on `expr.model` and
`expr.primitives`.
"""

from tidegate.expr.evaluate import normal_form
from tidegate.expr.evaluate.evaluator import Evaluation, evaluate, prerequisites
from tidegate.expr.evaluate.simplify import simplify_expression

__all__ = [
    "Evaluation",
    "evaluate",
    "normal_form",
    "prerequisites",
    "simplify_expression",
]
