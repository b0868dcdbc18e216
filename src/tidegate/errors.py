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
    """The situations that callers tell apart by more than the class of the error."""

    NOT_ROW_BY_ROW = "not_row_by_row"
    """A query is more than map, filter and project; `subject` is the construct."""
    INVALID_LITERAL = "invalid_literal"
    """A text is not a value of a type; of a string constant, `subject` is the type."""
    INVALID_DATETIME = "invalid_datetime"
    """As INVALID_LITERAL, for a date, a time or an interval."""
    DATETIME_OVERFLOW = "datetime_overflow"
    """A date or a time, or a field of one, is out of range."""
    INTERVAL_OVERFLOW = "interval_overflow"
    """A field of an interval is out of range."""
    ZONE_OVERFLOW = "zone_overflow"
    """The offset of a time zone is out of range."""
    NUMBER_OVERFLOW = "number_overflow"
    """A number is out of range of its type."""
    DIVISION_BY_ZERO = "division_by_zero"
    """A number is divided by zero."""
    TEXT_TOO_LONG = "text_too_long"
    """A text is longer than its column allows."""
    INVALID_LOGARITHM = "invalid_logarithm"
    """A logarithm of zero or of a negative number."""
    INVALID_POWER = "invalid_power"
    """A power or root that is no number."""
    INVALID_SUBSTRING = "invalid_substring"
    """A substring of negative length."""
    INVALID_REGEXP = "invalid_regexp"
    """A text is not a regular expression."""
    UNDEFINED_COLUMN = "undefined_column"
    """A column does not exist."""
    AMBIGUOUS_COLUMN = "ambiguous_column"
    """A name means several columns."""
    UNDEFINED_TABLE = "undefined_table"
    """A table, view or source does not exist."""
    UNDEFINED_FUNCTION = "undefined_function"
    """A function or operator does not exist for these arguments."""
    UNDEFINED_OBJECT = "undefined_object"
    """A type, a setting, or a kind of source or connection does not exist."""
    DUPLICATE_TABLE = "duplicate_table"
    """A name is in use."""
    DUPLICATE_COLUMN = "duplicate_column"
    """A column of this name exists, or is given twice."""
    INVALID_TABLE = "invalid_table"
    """A definition of a table contradicts itself: two keys."""
    WRONG_OBJECT = "wrong_object"
    """A name means something of another kind: a view instead of a table."""
    DEPENDENT_OBJECTS = "dependent_objects"
    """Something else needs what would be changed."""
    NOT_NULL_VIOLATION = "not_null_violation"
    """A column that must not hold NULL does."""
    UNDEFINED_STATEMENT = "undefined_statement"
    """There is no prepared statement of this name."""
    UNDEFINED_PARAMETER = "undefined_parameter"
    """A parameter has no value."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """EXECUTE gives more or fewer values than the statement has parameters."""
    DUPLICATE_STATEMENT = "duplicate_statement"
    """A prepared statement of this name exists."""
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
        (r"(date|time|date/time) field value out of range", ErrorCode.DATETIME_OVERFLOW),
        (
            r"(date|time|timestamp|timestamptz|interval|mz_timestamp) out of range",
            ErrorCode.DATETIME_OVERFLOW,
        ),
        (r"a time is out of range", ErrorCode.DATETIME_OVERFLOW),
        (r"(\w+|double precision) out of range", ErrorCode.NUMBER_OVERFLOW),
        (r"(input|a number|a diff) is out of range", ErrorCode.NUMBER_OVERFLOW),
        (r'(value )?".*" is out of range for type [\w ]+$', ErrorCode.NUMBER_OVERFLOW),
        (r"numeric field (over|under)flow", ErrorCode.NUMBER_OVERFLOW),
        (r"value too long for type", ErrorCode.TEXT_TOO_LONG),
        (r'null value in column ".*" violates not-null', ErrorCode.NOT_NULL_VIOLATION),
        (r'column ".*" of relation ".*" contains null values', ErrorCode.NOT_NULL_VIOLATION),
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
    """The root: a message, and where they apply a hint, a position in a SQL text, a code and a subject."""

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

    def _lines(self) -> Iterator[str]:
        yield shorten(self.message, MESSAGE)
        if self.position is not None:
            shown = self.position.excerpt()
            yield f"line {self.position.line}, column {self.position.column}" + (":" if shown else "")
            yield from ("    " + text for text in shown or ())
        yield from self.details()
        if self.hint:
            yield f"hint: {shorten(self.hint, MESSAGE)}"


class SqlError(TidegateError):
    """The text of a statement is wrong."""


class ParseError(SqlError):
    """A statement does not follow the grammar."""


class BindError(SqlError):
    """A statement names what is not there, or what could be several things."""


class TypeMismatch(BindError):  # noqa: N818  # reads as what it is: "a type mismatch", beside BindError
    """No function, operator or cast fits the types it is given."""


class SettingError(BindError):
    """A setting that cannot be changed here: it concerns everybody, or exceeds the database's limit."""


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
    """Good SQL, or a good request, that Tidegate does not do."""


class LimitError(TidegateError):
    """Too deep, too large or too many: refused before it can exhaust the process."""


class CancelledError(TidegateError):
    """The query was stopped before it was done. It changed nothing."""


class ConflictError(TidegateError):
    """Concurrent changes made every attempt of a statement fail. It changed nothing; try again."""


class StoreError(TidegateError):
    """Bytes could not be stored or fetched. A failed write left nothing behind."""


class IndeterminateError(StoreError):
    """A change was sent and the answer lost: it may have been made."""


class ReadOnlyError(StoreError):
    """The store is read-only for this process."""


class CorruptError(StoreError):
    """An object does not hold what was written into it; the message names it."""


class MissingObject(StoreError):  # noqa: N818  # reads as what it is, beside CorruptError
    """An object that should exist does not."""


class LeaseLost(StoreError):  # noqa: N818  # reads as what it is
    """A reader did not renew its lease in time: what it reads may be deleted."""


class AuditError(CorruptError):
    """The statistics of a part exclude rows that the part holds; `part` is its name."""

    def __init__(self, message: str, *, part: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.part = part


class SourceError(TidegateError):
    """An upstream cannot be read: it does not answer, or what was asked for is not there any more."""

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
    """A fault of Tidegate itself; its log has the trace under `id`. A change may have been made."""

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
    """A time that can no longer, or not yet, be read or written; the message names it and the bound."""


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
