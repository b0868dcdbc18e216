"""Runs a plan over batches of rows, with fast paths for dictionary-encoded columns and string views.

    output = SafePlan(plan).evaluate([ids, payloads], rows=3, now=ms)
    output.columns, output.selection, output.failures

It rests on `tidegate.plan` and the evaluator of `tidegate.expr`.
"""

from tidegate.plan.run.dictionary import evaluate_dictionary
from tidegate.plan.run.safe_plan import Failures, PlanOutput, SafePlan
from tidegate.plan.run.string_view import evaluate_string_view

__all__ = ["Failures", "PlanOutput", "SafePlan", "evaluate_dictionary", "evaluate_string_view"]
