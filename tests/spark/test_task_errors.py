"""Errors of ours in the text that Spark carries from a Python worker to the driver."""

from __future__ import annotations

import base64
import os
import pickle
import traceback
import zlib
from datetime import UTC, datetime

import pytest

from tidegate.errors import (
    AuditError,
    BindError,
    ErrorCode,
    EvaluationError,
    Position,
    SourceError,
    TidegateError,
)
from tidegate.spark.task_errors import errors_to_driver, tidegate_error

ERRORS = [
    BindError("no such column", hint="look", position=Position("SELECT x", 7, 8), code=ErrorCode.INVALID_OPTION, subject="x"),
    SourceError("gone", again=True),
    AuditError("wrong", part="p1"),
    EvaluationError("bad", row={"a": 1, "s": "it's\n\ttext", "at": datetime(2024, 1, 2, tzinfo=UTC), "b": b"xy"}),
]  # fmt: skip


def carried(error: TidegateError) -> TidegateError | None:
    """The error as the driver sees it, from the text of the traceback alone."""
    with pytest.raises(type(error)) as raised, errors_to_driver(), errors_to_driver():
        raise error
    text = "".join(traceback.format_exception_only(type(error), raised.value))
    assert text.count("tidegate-error:") == 1
    return tidegate_error(RuntimeError(f"Job aborted: Traceback …\n{text}\n\tat java"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_it_was_raised(error: TidegateError) -> None:
    arrived = carried(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert (arrived.code, arrived.subject, arrived.hint) == (error.code, error.subject, error.hint)
    assert getattr(arrived, "again", None) == getattr(error, "again", None)


def test_a_text_that_looks_like_a_note_runs_nothing() -> None:
    class Evil:
        def __reduce__(self) -> object:
            return os.system, ("false",)

    payload = base64.b64encode(zlib.compress(pickle.dumps(Evil()))).decode()
    assert tidegate_error(RuntimeError(f"in the row s = 'tidegate-error:{payload}'")) is None
    assert tidegate_error(RuntimeError("tidegate-error:AAAA")) is None
    assert tidegate_error(RuntimeError("tidegate.errors.StoreError: gone")) is None
