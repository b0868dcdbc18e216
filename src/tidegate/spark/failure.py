"""Errors that come back from Spark's tasks: what a task of ours raised, as the same error in the driver.

A task fails in a Python worker; Spark carries the text of its traceback to the JVM, wraps it, and raises a PythonException here.
What the user needs is the end of that text:

    org.apache.spark.SparkException: Job aborted due to stage failure: …
    Traceback (most recent call last):
      File …
    tidegate.errors.EvaluationError: division by zero            told() gives this as an EvaluationError
    in the row a = 1, b = 0

Forms of functions in Spark SQL (`expr/spark_form.py`) raise too, where Spark itself would go on; these are known by a mark.

Whoever runs Spark for a user catches all exceptions of it, and raises `told(error)` if there is one.
"""

from __future__ import annotations

import re

from tidegate import errors
from tidegate.errors import EvaluationError, StoreError, TidegateError
from tidegate.expr.spark_form import MARK

_CLASSES = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, TidegateError)
}
_SAID = re.compile(
    r"tidegate\.errors\.([A-Z][A-Za-z]*): (.*?)(?=\n\s*\n|\n\tat |\n[A-Z][\w ]*:\n|\Z)", re.DOTALL
)
_RAISED = re.compile(rf"\[USER_RAISED_EXCEPTION\] {MARK}(.*?)(?: SQLSTATE|\n|\Z)")


def told(error: BaseException) -> TidegateError | None:
    """The error of ours that made a Spark query fail; None: it failed of something else."""
    if isinstance(error, TidegateError):
        return error
    for name, text in reversed(_SAID.findall(str(error))):
        if name in _CLASSES:
            message, _, hint = text.strip().partition("\nhint: ")
            return _CLASSES[name](message, hint=hint or None)
    raised = _RAISED.search(str(error))
    return EvaluationError(raised[1]) if raised else None


def failed(what: str, error: BaseException, hint: str) -> StoreError:
    """The error for work on Spark that failed of something that is not ours: a worker that died, one without tidegate."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "Error: " in line or "Exception: " in line] or lines
    missing = any("No module named" in line for line in lines)
    return StoreError(
        f"{what} failed: {(said or ['it was not said why'])[-1][:300]}",
        hint="tidegate must be installed where tasks run, or be on their path (spark.executorEnv.PYTHONPATH)"
        if missing
        else hint,
    )
