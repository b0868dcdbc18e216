"""Every error that Tidegate raises on purpose.

    TidegateError                 catch this one to catch them all
    ├── SqlError                  the text of a statement is wrong
    │   ├── ParseError            it does not follow the grammar
    │   └── BindError             it names what does not exist, or what is ambiguous
    │       ├── TypeMismatch      no function or cast fits these types
    │       └── SettingError      a setting that cannot be changed here
    ├── PlanError                 a valid query that cannot become the kind of plan that is needed
    ├── UnsupportedError          valid SQL that Tidegate does not support
    ├── LimitError                too deep, too large, too many
    ├── EvaluationError           an expression failed on a row
    ├── CancelledError            the query was cancelled, or its time-out passed
    ├── ConflictError             concurrent changes made every attempt of a statement fail
    ├── InternalError             a fault of Tidegate itself; the log has its trace under the error's `id`
    ├── TimeError                 a time that can no longer, or not yet, be read or written
    ├── SourceError               an upstream cannot be read
    └── StoreError                bytes could not be stored or fetched; nothing was lost
        ├── IndeterminateError    a write may or may not have happened: check before you repeat it
        ├── ReadOnlyError         the store lets this process read, and not write
        ├── MissingObject         an object that should exist does not
        ├── LeaseLost             a reader stalled so long that what it reads may be deleted
        └── CorruptError          an object does not hold what was written to it; none of it is used
            └── AuditError        statistics excluded a part that holds matching rows

An error says what happened, where, and what to do. `str(error)` gives:

    column "prise" does not exist              the message
    line 1, column 8:                          the position, if it concerns a place in a SQL text
        SELECT prise FROM orders
               ^^^^^
    hint: did you mean "price"?                the hint, if there is one

Code that handles an error looks at its class, at `code` (which situation it is) and at `subject` (the name of the option,
type or construct that it is about), never at its message, which may be reworded:

    except PlanError as error:
        if error.code is ErrorCode.NOT_ROW_BY_ROW: ...

Often only a caller knows the position: it sets `error.position` on the way up. Every error can be pickled, since some
cross from a Spark task to the driver. A message never contains a Python traceback or another library's exception text.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Self

from tidegate.text import Position as Position  # noqa: PLC0414  # offered here, beside the errors that have one
from tidegate.text import printable

MESSAGE = 2_000  # characters of a message; a name in it may be as long as the statement that a program made
VALUE = 80  # characters of one value of a row
ROW = 20  # columns of a row


class ErrorCode(StrEnum):
    """Situations that callers tell apart: `error.code is ErrorCode.UNDEFINED_COLUMN`."""

    NOT_ROW_BY_ROW = "not_row_by_row"
    """A query is more than map, filter and project; `subject` is the construct."""
    INVALID_LITERAL = "invalid_literal"
    """A text is not a value of a type; of a string constant, `subject` is the type."""
    INVALID_DATETIME = "invalid_datetime"
    """As INVALID_LITERAL, for a date, a time or an interval."""
    DATETIME_OVERFLOW = "datetime_overflow"
    """A date or a time, or a field of one, is out of range."""
    INTERVAL_OVERFLOW = "interval_overflow"
    ZONE_OVERFLOW = "zone_overflow"
    NUMBER_OVERFLOW = "number_overflow"
    DIVISION_BY_ZERO = "division_by_zero"
    TEXT_TOO_LONG = "text_too_long"
    INVALID_LOGARITHM = "invalid_logarithm"
    INVALID_POWER = "invalid_power"
    """A power or root that is no number."""
    INVALID_SUBSTRING = "invalid_substring"
    INVALID_REGEXP = "invalid_regexp"
    UNDEFINED_COLUMN = "undefined_column"
    AMBIGUOUS_COLUMN = "ambiguous_column"
    UNDEFINED_TABLE = "undefined_table"
    """A table, view or source does not exist."""
    UNDEFINED_FUNCTION = "undefined_function"
    """A function or operator does not exist for these arguments."""
    UNDEFINED_OBJECT = "undefined_object"
    """A type, a setting, or a kind of source or connection does not exist."""
    DUPLICATE_TABLE = "duplicate_table"
    """A name is in use."""
    DUPLICATE_ALIAS = "duplicate_alias"
    """Two tables of a statement have one name."""
    GROUPING_ERROR = "grouping_error"
    """An aggregate stands where rows are not grouped."""
    NO_KEY = "no_key"
    """ON CONFLICT names no columns, and the table has no declared key."""
    CARDINALITY_VIOLATION = "cardinality_violation"
    """A statement would change a row twice, or a subquery that stands for one value gave several."""
    NOT_NULL_VIOLATION = "not_null_violation"
    """A value of a column that is NOT NULL is NULL."""
    DUPLICATE_COLUMN = "duplicate_column"
    INVALID_TABLE = "invalid_table"
    """A definition of a table contradicts itself: two keys."""
    WRONG_OBJECT = "wrong_object"
    """A name means something of another kind: a view instead of a table."""
    DEPENDENT_OBJECTS = "dependent_objects"
    """Something else needs what would be changed."""
    UNDEFINED_STATEMENT = "undefined_statement"
    UNDEFINED_PARAMETER = "undefined_parameter"
    INVALID_ARGUMENTS = "invalid_arguments"
    DUPLICATE_STATEMENT = "duplicate_statement"
    INVALID_OPTION = "invalid_option"
    """An option of a statement is unknown, missing or has a wrong value; `subject` is its name in lower case."""


_TIMES = r"(date|time|timestamp|interval)\b"
_ROW_ERRORS: tuple[tuple[re.Pattern[str], ErrorCode], ...] = tuple(
    (re.compile(form, re.DOTALL), code)
    for form, code in (
        (r"division by zero", ErrorCode.DIVISION_BY_ZERO),
        (rf"invalid input syntax for type {_TIMES}", ErrorCode.INVALID_DATETIME),
        (r"invalid input syntax\b", ErrorCode.INVALID_LITERAL),
        (r"interval field value out of range", ErrorCode.INTERVAL_OVERFLOW),
        (r"time zone displacement out of range", ErrorCode.ZONE_OVERFLOW),
        (
            r"(date|time|date/time) field value out of range|a time is out of range",
            ErrorCode.DATETIME_OVERFLOW,
        ),
        (rf"({_TIMES}|timestamptz|mz_timestamp) out of range", ErrorCode.DATETIME_OVERFLOW),
        (r"(\w+|double precision|(input|a number|a diff) is) out of range", ErrorCode.NUMBER_OVERFLOW),
        (r'(value )?".*" is out of range for type [\w ]+$', ErrorCode.NUMBER_OVERFLOW),
        (r"numeric field (over|under)flow", ErrorCode.NUMBER_OVERFLOW),
        (r"value too long for type", ErrorCode.TEXT_TOO_LONG),
        (
            r'null value in column|column ".*" of relation ".*" contains null values',
            ErrorCode.NOT_NULL_VIOLATION,
        ),
        (r"(MERGE|ON CONFLICT DO UPDATE) command cannot affect row", ErrorCode.CARDINALITY_VIOLATION),
        (r"a subquery that stands for one value gave more", ErrorCode.CARDINALITY_VIOLATION),
        (r"cannot take logarithm of", ErrorCode.INVALID_LOGARITHM),
        (
            r"cannot take square root of|zero raised to a|a negative number raised to a",
            ErrorCode.INVALID_POWER,
        ),
        (r"negative substring length", ErrorCode.INVALID_SUBSTRING),
        (r"invalid regular expression", ErrorCode.INVALID_REGEXP),
    )
)
"""The code of each text that evaluation returns for a row.

Errors of rows are data: an array of texts, which is stored with bad records, sorted, and sent through Spark. This is the one
place that knows what a text means; it is consulted once, when an exception is made of a row's error. Forms are matched from
the first character, so the user's own text later in a message decides nothing:

    invalid input syntax for type integer: "division by zero"      INVALID_LITERAL
"""


def row_error_code(message: str) -> ErrorCode | None:
    """The code of an error that evaluation returned for a row; None: it has none."""
    return next((code for form, code in _ROW_ERRORS if form.match(message)), None)


class TidegateError(Exception):
    """The root; `error.message`, and where they apply `.hint`, `.position`, `.code` and `.subject`."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        position: Position | None = None,
        code: ErrorCode | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.position = position
        self.code = code
        """The situation, for code that handles the error."""
        self.subject = subject
        """The name of the option, type or construct that the error is about."""
        self.view: str | None = None
        """The innermost view whose query the error is in."""
        self.statement_id: str | None = None
        """The id of the statement that failed, by which the logs name it."""

    def set_view(self, name: str) -> None:
        """Names the view in the message; of nested views the innermost, where the position is."""
        if self.view is None:
            self.view = name
            self.message = f'in view "{name}": {self.message}'

    @property
    def line(self) -> int | None:
        """The line in the SQL text, counted from 1, if the error has a position."""
        return None if self.position is None else self.position.line

    @property
    def column(self) -> int | None:
        """The column in that line, counted from 1, if the error has a position."""
        return None if self.position is None else self.position.column

    def details(self) -> Iterator[str]:
        """Lines that a subclass adds between the position and the hint."""
        yield from ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __init_subclass__(cls, **given: object) -> None:
        """Tracebacks name an error as users import it: `tidegate.ParseError`."""
        super().__init_subclass__(**given)
        if cls.__module__ == __name__:
            cls.__module__ = "tidegate"

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback."""
        return f"{type(self).__name__}: {self}".split("\n")

    def _lines(self) -> Iterator[str]:
        yield shorten(self.message, MESSAGE)
        if self.position is not None:
            shown = self.position.excerpt()
            yield f"line {self.position.line}, column {self.position.column}" + (":" if shown else "")
            yield from ("    " + text for text in shown or ())
        yield from self.details()
        if self.hint:
            yield f"hint: {shorten(self.hint, MESSAGE)}"


TidegateError.__module__ = "tidegate"


class SqlError(TidegateError):
    """The text of a statement is wrong: `error.line` and `error.column` say where."""


class ParseError(SqlError):
    """A statement does not follow the grammar: `db.sql("SELEC 1")`."""


class BindError(SqlError):
    """A name is not there, or could be several things: `db.sql("SELECT nope FROM t")`."""


class TypeMismatch(BindError):  # noqa: N818  # reads as what it is: "a type mismatch", beside BindError
    """No function, operator or cast fits the types: `db.sql("SELECT 1 + TRUE")`."""


class SettingError(BindError):
    """A setting cannot be changed here: `session.set("lease_ms", 5)` concerns everybody."""


class PlanError(TidegateError):
    """A good query that cannot become the plan that was asked for; `construct` is what stands in the way.

    For example `TRANSFORM USING` with a `GROUP BY`: only map, filter and project can run as rows arrive.
    """

    def __init__(
        self,
        message: str,
        *,
        construct: str | None = None,
        hint: str | None = None,
        position: Position | None = None,
        code: ErrorCode | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, position=position, code=code, subject=subject or construct)
        self.construct = construct

    def details(self) -> Iterator[str]:
        """Names the construct, unless the message does."""
        if self.construct and self.construct not in self.message:
            yield f"in the way: {shorten(self.construct, MESSAGE)}"


class UnsupportedError(TidegateError):
    """A good request that Tidegate does not do: `result.df()` without pandas."""


class LimitError(TidegateError):
    """Refused before it exhausts the process: `db.sql("SELECT * FROM huge").arrow()`."""


class CancelledError(TidegateError):
    """The query was stopped before it was done: `watch.cancel()`. It changed nothing."""


class ConflictError(TidegateError):
    """Concurrent changes made every attempt of `db.sql("UPDATE …")` fail. It changed nothing; try again."""


class StoreError(TidegateError):
    """`tidegate.open("/not/writable")`: bytes were not stored or fetched; nothing is left behind."""


class IndeterminateError(StoreError):
    """A change was sent and the answer lost; `db.append(…, token=…)` can be sent again."""


class ReadOnlyError(StoreError):
    """The store is read-only for this process: `db.append("t", rows)` on a mounted snapshot."""


class CorruptError(StoreError):
    """An object does not hold what was written to it; `db.doctor(deep=True)` finds all of them."""


class MissingObject(StoreError):  # noqa: N818  # reads as what it is, beside CorruptError
    """An object that should exist does not; `db.doctor()` names what is affected."""


class LeaseLost(StoreError):  # noqa: N818  # reads as what it is
    """A reader did not renew its lease (`lease_ms=900000`): what it reads may be deleted."""


class AuditError(CorruptError):
    """The statistics of a part, `error.part`, exclude rows that the part holds."""

    def __init__(self, message: str, *, part: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.part = part


class SourceError(TidegateError):
    """An upstream cannot be read; with `error.again == True` a later attempt may succeed."""

    def __init__(
        self,
        message: str,
        *,
        again: bool = False,
        hint: str | None = None,
        code: ErrorCode | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code, subject=subject)
        self.again = again
        """Whether a later attempt may succeed without any change by the user."""


class InternalError(TidegateError):
    """A fault of Tidegate itself; its log has the trace under `error.id`. A change may have been made."""

    def __init__(self, exception: str, id_: str) -> None:
        super().__init__(
            f"internal error {id_} ({exception})",
            hint=f"this is a fault of Tidegate; its log has the trace, by the id {id_}",
        )
        self.exception = exception
        """The class of what was raised; it is the `__cause__`, too."""
        self.id = id_

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.exception, self.id)


class TimeError(TidegateError):
    """A time that can no longer, or not yet, be read or written: `db.sql(sql, as_of=0)`."""


class EvaluationError(TidegateError):
    """An expression failed on a row, such as a division by zero; `row` gives the values by column name.

    Its code follows from its message, which is what evaluation returns for a row (`_ROW_ERRORS`).
    """

    def __init__(
        self,
        message: str,
        *,
        row: Mapping[str, object] | None = None,
        hint: str | None = None,
        position: Position | None = None,
    ) -> None:
        super().__init__(message, hint=hint, position=position, code=row_error_code(message))
        self.row = None if row is None else dict(row)

    def details(self) -> Iterator[str]:
        """The row's values, each cut to a readable length."""
        if not self.row:
            return
        shown = [f"{name} = {_value(value)}" for name, value in list(self.row.items())[:ROW]]
        if len(self.row) > ROW:
            shown.append(f"… and {len(self.row) - ROW} more columns")
        yield "in the row " + ", ".join(shown)


def shorten(text: str, limit: int) -> str:
    """The text, or its first `limit` characters, of which the last is an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _value(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + printable(shorten(value, VALUE)).replace("'", "''") + "'"
    return shorten(str(value), VALUE)
