"""Carries errors of ours from Spark's Python processes to the driver.

An exception in a Python worker reaches the driver as the text of its traceback, inside an exception of Spark's. So the worker adds
the error itself to that text, pickled, as a note (PEP 678), and the driver rebuilds it with its class, code, hint and row:

    with errors_to_driver():                                      in the worker
        …
    tidegate.EvaluationError: division by zero                    what Spark prints
    in the row a = 1, b = 0
    tidegate-error:eJxrYJyao8wABmrT1DgBIAAE…

    except PySparkException as error:                             in the driver
        raise tidegate_error(error) or error

Forms of functions in Spark SQL (`expr/spark_sql/forms.py`) raise errors too, by `raise_error('tidegate: …')`: Spark gives their
message as a parameter of its exception.
"""

from __future__ import annotations

import base64
import copy
import io
import pickle
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from tidegate import errors
from tidegate.errors import ErrorCode, EvaluationError, Position, StoreError, TidegateError, shorten
from tidegate.expr.spark_sql import ERROR_PREFIX

_NOTE = "tidegate-error:"
_NOTES = re.compile(_NOTE + r"([A-Za-z0-9+/=]+)")
_RAISED = "USER_RAISED_EXCEPTION"
"""Spark's condition of an exception by `raise_error`."""
_TEXT = 1_000
"""Characters of one value of a row that travel; a message shows fewer."""


@contextmanager
def errors_to_driver() -> Iterator[None]:
    """Adds the error to its own traceback, for `tidegate_error` in the driver."""
    try:
        yield
    except TidegateError as error:
        if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
            error.add_note(_NOTE + base64.b64encode(zlib.compress(pickle.dumps(_portable(error)))).decode())
        raise


def tidegate_error(error: BaseException) -> TidegateError | None:
    """Returns the error of ours that made a Spark job fail; None if it failed for another reason."""
    if isinstance(error, TidegateError):
        return error
    for payload in reversed(_NOTES.findall(str(error))):
        try:
            return _load(zlib.decompress(base64.b64decode(payload)))
        except Exception:  # noqa: BLE001  # a text in a row, or in a message, that looks like a note
            continue
    for condition, parameters in conditions(error):
        message = parameters.get("errorMessage", "")
        if condition == _RAISED and message.startswith(ERROR_PREFIX):
            return EvaluationError(message.removeprefix(ERROR_PREFIX))
    return None


def conditions(error: BaseException) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields Spark's conditions of an exception and its causes, as DIVIDE_BY_ZERO, with parameters."""
    java: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    gateway: Any = SparkContext._gateway
    while java is not None:  # pyspark wraps only some classes of exceptions, so the JVM is asked
        if is_instance_of(gateway, java, "org.apache.spark.SparkThrowable"):
            condition = gateway.jvm.PythonErrorUtils.getCondition(java)
            if condition:
                yield str(condition), dict(gateway.jvm.PythonErrorUtils.getMessageParameters(java))
        java = java.getCause()


def job_error(what: str, error: BaseException, hint: str) -> StoreError:
    """Returns the error for a job that failed in Spark itself: a worker died, or lacks tidegate."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if "Error: " in line or "Exception: " in line] or lines
    missing = any("No module named" in line for line in lines)
    return StoreError(
        f"{what} failed: {(reasons or ['Spark gives no reason'])[-1][:300]}",
        hint="tidegate must be installed where tasks run, or be on their path (spark.executorEnv.PYTHONPATH)"
        if missing
        else hint,
    )


@dataclass(frozen=True)
class RowValue:
    """The text of a row's value of a type that is not pickled."""

    text: str

    def __str__(self) -> str:
        return self.text


def _portable(error: TidegateError) -> TidegateError:
    """Returns a copy whose row holds only short values of plain types."""
    if not isinstance(error, EvaluationError) or not error.row:
        return error
    portable = copy.copy(error)
    portable.row = {name: _portable_value(value) for name, value in error.row.items()}
    return portable


def _portable_value(value: object) -> object:
    if isinstance(value, str):
        return shorten(value, _TEXT)
    plain = value is None or isinstance(value, bool | int | float | Decimal)
    return value if plain else RowValue(shorten(str(value), _TEXT))


class _ErrorUnpickler(pickle.Unpickler):
    """Loads errors of ours and nothing else: a row may hold any text, also one that looks like a note."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns a class that an error may hold."""
        if (module, name) == (Position.__module__, Position.__name__):
            return Position
        known = getattr(errors, name, None) if module in (errors.__name__, TidegateError.__module__) else None
        if isinstance(known, type) and issubclass(known, TidegateError | ErrorCode):
            return known
        if (module, name) in ((__name__, "RowValue"), ("decimal", "Decimal")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not part of an error")


def _load(data: bytes) -> TidegateError:
    error = _ErrorUnpickler(io.BytesIO(data)).load()
    if not isinstance(error, TidegateError):
        raise pickle.UnpicklingError("not an error")
    return error
