"""Which errors of a task Spark retries, and which are returned to the driver as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pyspark import SparkContext, TaskContext

from tidegate.errors import CorruptError, MissingObject, StoreError, TidegateError

T = TypeVar("T")


def run_attempt(attempts: int, work: Callable[[], T]) -> T | TidegateError:
    """Runs work on an executor; returns its error if no further attempt can help or follow."""
    try:
        return work()
    except TidegateError as error:
        context = TaskContext.get()
        last = context is None or context.attemptNumber() + 1 >= attempts
        if last or not isinstance(error, StoreError) or isinstance(error, CorruptError | MissingObject):
            return error
        raise


def max_attempts(context: SparkContext) -> int:
    """Returns how often Spark runs a task before it gives up."""
    local = re.fullmatch(r"local(?:\[[^],]*(?:, *(\d+))?\])?", context.master or "")
    return (
        int(local.group(1) or 1) if local else int(context.getConf().get("spark.task.maxFailures", "4") or 4)
    )
