"""Errors as PostgreSQL reports them: drivers choose their exception by the SQLSTATE code.

    to_postgres_error(error, sql)     PostgresError("42703", 'column "prise" does not exist', hint="did you mean price?", …)

| Tidegate's error | SQLSTATE | what psycopg raises |
|---|---|---|
| ParseError | 42601 | SyntaxError |
| BindError | 42703, 42P01, 42883 by what is missing, 22P02, 22007 of a constant, else 42000 | UndefinedColumn, UndefinedTable, … |
| TypeMismatch | 42804 | DatatypeMismatch |
| SettingError | 55P02 | CantChangeRuntimeParam |
| UnsupportedError, PlanError | 0A000 | FeatureNotSupported |
| LimitError | 54000 | ProgramLimitExceeded |
| EvaluationError | 22012, 22003, 22008, 22001, … by its code, else 22000 | DivisionByZero, NumericValueOutOfRange, …, DataError |
| CancelledError | 57014 | QueryCanceled |
| ConflictError | 40001 | SerializationFailure: try again |
| ReadOnlyError | 25006 | ReadOnlySqlTransaction |
| TimeError | 22008 | DatetimeFieldOverflow |
| StoreError, SourceError | 58030 | IoError |
| CorruptError | XX001 | DataCorrupted |
| InternalError and any other exception | XX000 | InternalError_, with an id by which the log has the trace |
"""

from __future__ import annotations

from tidegate import errors
from tidegate.boundary import internal


class PostgresError(Exception):
    """The contents of an ErrorResponse. `position` counts characters of the client's text from 1."""

    statement_id: str | None = None
    """The id of the statement in the server's log."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        detail: str | None = None,
        position: int | None = None,
        context: str | None = None,
    ) -> None:
        super().__init__(message)
        self.context = context
        """Where in the data of a COPY the error is."""
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
NOTICE = "00000"
"""The code of a message that is neither an error nor a warning."""
OPERATIONAL = ("53", "58", "XX")
"""Classes of errors that the server's operator looks into: their detail names the statement in the log. Others have it where psql
shows it after `\\errverbose`, and drivers as the function of the source."""
_STATES = {
    errors.ErrorCode.UNDEFINED_COLUMN: "42703",
    errors.ErrorCode.AMBIGUOUS_COLUMN: "42702",
    errors.ErrorCode.UNDEFINED_TABLE: "42P01",
    errors.ErrorCode.UNDEFINED_OBJECT: "42704",
    errors.ErrorCode.UNDEFINED_FUNCTION: "42883",
    errors.ErrorCode.DUPLICATE_TABLE: "42P07",
    errors.ErrorCode.DUPLICATE_COLUMN: "42701",
    errors.ErrorCode.INVALID_TABLE: "42P16",
    errors.ErrorCode.WRONG_OBJECT: "42809",
    errors.ErrorCode.DEPENDENT_OBJECTS: "2BP01",
    errors.ErrorCode.NOT_NULL_VIOLATION: "23502",
    errors.ErrorCode.UNDEFINED_STATEMENT: "26000",
    errors.ErrorCode.UNDEFINED_PARAMETER: "42P02",
    errors.ErrorCode.INVALID_ARGUMENTS: "42601",
    errors.ErrorCode.DUPLICATE_STATEMENT: "42P05",
    errors.ErrorCode.INVALID_LITERAL: "22P02",
    errors.ErrorCode.INVALID_DATETIME: "22007",
    errors.ErrorCode.DATETIME_OVERFLOW: "22008",
    errors.ErrorCode.INTERVAL_OVERFLOW: "22015",
    errors.ErrorCode.ZONE_OVERFLOW: "22009",
    errors.ErrorCode.NUMBER_OVERFLOW: "22003",
    errors.ErrorCode.DIVISION_BY_ZERO: "22012",
    errors.ErrorCode.TEXT_TOO_LONG: "22001",
    errors.ErrorCode.INVALID_LOGARITHM: "2201E",
    errors.ErrorCode.INVALID_POWER: "2201F",
    errors.ErrorCode.INVALID_SUBSTRING: "22011",
    errors.ErrorCode.INVALID_REGEXP: "2201B",
    errors.ErrorCode.DUPLICATE_ALIAS: "42712",
    errors.ErrorCode.GROUPING_ERROR: "42803",
    errors.ErrorCode.NO_KEY: "42P10",
    errors.ErrorCode.CARDINALITY_VIOLATION: "21000",
}
"""What an error's code says is more exact than its class; `tests/differential/test_sqlstate.py` asks PostgreSQL."""


def to_postgres_error(error: BaseException, text: str = "", shift: int = 0) -> PostgresError:
    """Converts any exception; `shift` is where the statement begins in the client's text."""
    if isinstance(error, PostgresError):
        return error
    if isinstance(error, MemoryError):
        return PostgresError("53200", "the server is out of memory")
    public = internal(error)
    if isinstance(public, errors.InternalError):
        return PostgresError(
            "XX000", public.message, hint=f"the server's log has the trace, by the id {public.id}"
        )
    return _with_statement(_from_tidegate_error(public, text, shift), public.statement_id)


def _with_statement(error: PostgresError, statement_id: str | None) -> PostgresError:
    """Names the statement; in the detail only if the server's operator has to look into it."""
    error.statement_id = statement_id
    if statement_id is not None and error.code.startswith(OPERATIONAL):
        own = f"The server's log has it as statement {statement_id}."
        error.detail = own if error.detail is None else f"{error.detail}\n{own}"
    return error


def _from_tidegate_error(error: errors.TidegateError, text: str, shift: int) -> PostgresError:
    by_class = next((code for kind, code in _CODES if isinstance(error, kind)), "XX000")
    code = by_class if error.code is None else _STATES.get(error.code, by_class)
    at = error.position
    # A position may be in another text: that of a view, or a default.
    position = None if at is None or at.sql != text else min(max(at.start, 0), len(text)) + shift + 1
    detail = "\n".join(error.details()) or None
    return PostgresError(
        code, errors.shorten(error.message, errors.MESSAGE), hint=error.hint, detail=detail, position=position
    )
