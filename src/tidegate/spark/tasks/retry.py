"""A task that fails: Spark tries it again where that may help; else it gives back its error, and the driver has it as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pyspark import SparkContext, TaskContext

from tidegate.errors import CorruptError, StoreError, TidegateError
from tidegate.store.blob import Missing

T = TypeVar("T")


def attempted(many: int, work: Callable[[], T]) -> T | TidegateError:
    """Does some work, on an executor. What would fail again elsewhere, or has failed `many` times, is told as it is."""
    try:
        return work()
    except TidegateError as error:
        context = TaskContext.get()
        last = context is None or context.attemptNumber() + 1 >= many
        if last or not isinstance(error, StoreError) or isinstance(error, CorruptError | Missing):
            return error
        raise


def attempts(context: SparkContext) -> int:
    """How often Spark does a task before it gives up."""
    local = re.fullmatch(r"local(?:\[[^],]*(?:, *(\d+))?\])?", context.master or "")
    return (
        int(local.group(1) or 1) if local else int(context.getConf().get("spark.task.maxFailures", "4") or 4)
    )
