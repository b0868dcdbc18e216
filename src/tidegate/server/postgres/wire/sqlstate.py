"""Errors, as PostgreSQL numbers them: drivers choose their exception by the number.

    of(error, text)       any exception → Trouble("42703", 'column "prise" does not exist', hint="did you mean price?", position=8)

| ours | number | what psycopg raises |
|---|---|---|
| ParseError | 42601 | SyntaxError |
| BindError | 42703, 42P01, 42883 by what is missing, else 42000 | UndefinedColumn, UndefinedTable, UndefinedFunction |
| TypeMismatch | 42804 | DatatypeMismatch |
| SettingError | 55P02 | CantChangeRuntimeParam |
| UnsupportedError, PlanError | 0A000 | FeatureNotSupported |
| LimitError | 54000 | ProgramLimitExceeded |
| EvaluationError | 22012, 22003, 22001, else 22000 | DivisionByZero, NumericValueOutOfRange, StringDataRightTruncation, DataError |
| CancelledError | 57014 | QueryCanceled |
| ConflictError | 40001 | SerializationFailure: try again |
| ReadOnlyError | 25006 | ReadOnlySqlTransaction |
| TimeError | 22008 | DatetimeFieldOverflow |
| StoreError, SourceError | 58030 | IoError |
| CorruptError | XX001 | DataCorrupted |
| InternalError, and what nobody foresaw | XX000 | InternalError_: an id, by which the log has the trace |
"""

from __future__ import annotations

import re

from tidegate import errors
from tidegate.boundary import internal


class Trouble(Exception):  # noqa: N818  # reads as what it is
    """What an ErrorResponse says. `position` counts characters of the client's text from 1."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.detail, self.position = code, message, hint, detail, position


_CODES: tuple[tuple[type[errors.TidegateError], str], ...] = (
    (errors.ParseError, "42601"),
    (errors.TypeMismatch, "42804"),
    (errors.SettingError, "55P02"),
    (errors.BindError, "42000"),
    (errors.PlanError, "0A000"),
    (errors.UnsupportedError, "0A000"),
    (errors.LimitError, "54000"),
    (errors.EvaluationError, "22000"),
    (errors.CancelledError, "57014"),
    (errors.ConflictError, "40001"),
    (errors.TimeError, "22008"),
    (errors.ReadOnlyError, "25006"),
    (errors.CorruptError, "XX001"),
    (errors.StoreError, "58030"),
    (errors.SourceError, "58030"),
)
_WORDS = (
    (errors.BindError, re.compile(r"column .* does not exist"), "42703"),
    (errors.BindError, re.compile(r"ambiguous"), "42702"),
    (errors.BindError, re.compile(r"there is no (table|collection|view|source)"), "42P01"),
    (errors.BindError, re.compile(r"there is no setting"), "42704"),
    (errors.BindError, re.compile(r"type .* does not exist"), "42704"),
    (errors.BindError, re.compile(r"(function|operator) .*(does not exist|no )"), "42883"),
    (errors.BindError, re.compile(r"already exists|exists already"), "42P07"),
    (errors.BindError, re.compile(r"invalid input|cannot be read as"), "22P02"),
    (errors.EvaluationError, re.compile(r"division by zero"), "22012"),
    (errors.EvaluationError, re.compile(r"out of range"), "22003"),
    (errors.EvaluationError, re.compile(r"invalid input"), "22P02"),
    (errors.EvaluationError, re.compile(r"value too long"), "22001"),
)


def of(error: BaseException, text: str = "", shift: int = 0) -> Trouble:
    """What to tell a client; `shift` is where its statement begins in what it sent."""
    if isinstance(error, Trouble):
        return error
    if isinstance(error, MemoryError):
        return Trouble("53200", "the server is out of memory")
    found = internal(error)
    if isinstance(found, errors.InternalError):
        return Trouble("XX000", found.message, hint=f"the server's log has the trace, by the id {found.id}")
    return _ours(found, text, shift)


def _ours(error: errors.TidegateError, text: str, shift: int) -> Trouble:
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "XX000")
    for kind, words, better in _WORDS:
        if isinstance(error, kind) and words.search(error.message):
            code = better
            break
    at = error.position
    # A position may be in another text: that of a view, or a default.
    position = None if at is None or at.sql != text else min(max(at.start, 0), len(text)) + shift + 1
    detail = "\n".join(error.details()) or None
    return Trouble(
        code, errors.shorten(error.message, errors.MESSAGE), hint=error.hint, detail=detail, position=position
    )
