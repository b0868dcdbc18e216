"""Where Tidegate differs from PostgreSQL on purpose: a function each, its docstring the reason. docs/sql.md
lists the same.

A row that does not come out equal is no failure if one of them explains it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.differential.postgres import parsed
from tidegate.expr.model.types import Kind, Type


@dataclass(frozen=True)
class Row:
    """One row of a comparison that did not come out equal."""

    sql: str
    type: Type
    types: Sequence[Type]
    args: Sequence[Any]
    ours: Any
    theirs: Any
    our_error: str | None
    their_error: str | None

    @property
    def texts(self) -> list[str]:
        """The arguments that are texts."""
        return [a for a in self.args if isinstance(a, str)]

    @property
    def both_texts(self) -> bool:
        """Whether both sides gave a text."""
        return isinstance(self.ours, str) and isinstance(self.theirs, str)

    def only_ours_fails(self, *starts: str) -> bool:
        """Whether PostgreSQL gave a value, and we a message that starts so."""
        return self.their_error is None and self.our_error is not None and self.our_error.startswith(starts)

    def only_theirs_fails(self, part: str = "") -> bool:
        """Whether we gave a value, and PostgreSQL a message with that part."""
        return self.our_error is None and self.their_error is not None and part in self.their_error


def calendar(row: Row) -> bool:
    """Times lie in the years 1 to 9999; PostgreSQL goes from 4713 BC to 294276 AD, and has infinity."""
    return row.only_ours_fails("timestamp", "date", "time") and "out of range" in str(row.our_error)


def time_of_day(row: Row) -> bool:
    """24:00:00 is no time of day; PostgreSQL takes it for one."""
    return row.type.kind is Kind.TIME and row.theirs == 86_400_000_000


def digits(row: Row) -> bool:
    """A numeric has 38 digits at most (18 after the point, unless declared), and is never NaN or infinite."""
    if row.type.kind is not Kind.NUMERIC or row.our_error is None or row.theirs is None:
        return "numeric field overflow" in str(row.our_error) and row.their_error is None
    assert row.type.precision is not None
    assert row.type.scale is not None
    return not row.theirs.is_finite() or abs(row.theirs) >= 10 ** (row.type.precision - row.type.scale)


def cut_to_zero(row: Row) -> bool:
    """A product or quotient that is not 0 fails if the digits that are kept are all 0; PostgreSQL keeps more digits."""
    return row.only_ours_fails("numeric field underflow") and abs(row.theirs) < Decimal("0.5e-17")


def scale(row: Row) -> bool:
    """The scale of a numeric is its type's; the text of a numeric(38, 18) has no trailing zeros."""
    if not row.both_texts or not any(
        Kind.NUMERIC in (t.kind, t.element and t.element.kind) for t in row.types
    ):
        return False
    return sorted(re.sub(r"[0.]", "", row.ours)) == sorted(re.sub(r"[0.]", "", row.theirs))


def floating_numerics(row: Row) -> bool:
    """Roots, logarithms and powers of numerics are computed in double precision: some 12 digits are right."""
    names = ("sqrt(", "cbrt(", "ln(", "log(", "log10(", "exp(", "pow(", "power(", " ^ ")
    if row.our_error == "division by zero" and "log(" in row.sql:  # of a base that float8 cannot tell from 1
        return True
    if not isinstance(row.ours, Decimal) or not isinstance(row.theirs, Decimal):
        return False
    near = abs(row.ours - row.theirs) <= abs(row.theirs) * Decimal("1e-11") + Decimal("1e-16")
    return near and any(name in row.sql for name in names)


def underflow(row: Row) -> bool:
    """A float too small to be told from zero is zero, not an error."""
    small = row.only_theirs_fails("underflow") or row.only_theirs_fails("is out of range for type")
    return small and row.ours == 0


def hexadecimal(row: Row) -> bool:
    """Hexadecimal numbers are not read from text."""
    return row.only_ours_fails("invalid input syntax") and any("0x" in text.lower() for text in row.texts)


def interval_range(row: Row) -> bool:
    """An interval is at most 2^63 microseconds long, a month being 30 days."""
    return row.only_ours_fails("interval out of range")


def interval_carry(row: Row) -> bool:
    """Hours beyond 292 years are carried into days, since the time part of an interval is kept in
    nanoseconds.
    """
    if row.type.kind is Kind.INTERVAL and row.ours is not None and row.theirs is not None:
        lengths = [(m * 30 + d) * 86_400_000_000 + u for m, d, u in (row.ours, row.theirs)]
        return abs(row.theirs[2]) >= 2**53 and lengths[0] == lengths[1]
    long = any(
        t.kind is Kind.INTERVAL and a and abs(a[2]) >= 2**62 for t, a in zip(row.types, row.args, strict=True)
    )
    return long and row.both_texts and "justify" in row.sql


def epoch_with_a_clock(row: Row) -> bool:
    """`epoch 04:05` is refused; PostgreSQL reads it as the epoch."""
    return row.only_ours_fails("invalid input syntax for type") and any(
        "epoch" in text.lower() for text in row.texts
    )


def zones(row: Row) -> bool:
    """A zone is a name of the tz database or an offset; PostgreSQL also reads POSIX rules, as 'ABC1'."""
    return row.only_ours_fails("time zone ")


def zone_of_an_interval(row: Row) -> bool:
    """An interval as a zone is taken whole; PostgreSQL wraps it to 32 bits of seconds."""
    long = any(
        t.kind is Kind.INTERVAL and a is not None and abs(a[2]) >= 2**31 * 10**9
        for t, a in zip(row.types, row.args, strict=True)
    )
    return long and ("timezone(" in row.sql or "TIME ZONE" in row.sql)


def empty_format(row: Row) -> bool:
    """to_char with an empty format gives an empty text; PostgreSQL gives NULL."""
    return "to_char(" in row.sql and row.ours == "" and row.theirs is None


def reading_by_format(row: Row) -> bool:
    """to_date and to_timestamp read fewer formats, of at most 500 letters, and what is not given is the year 1, not 0."""
    return bool(re.search(r"to_(date|timestamp)\(.+,", row.sql))


def interval_format(row: Row) -> bool:
    """to_char refuses patterns that an interval has no answer to, as the week; PostgreSQL answers some."""
    return row.only_ours_fails("invalid format specification for an interval value")


def interval_hour(row: Row) -> bool:
    """to_char shows HH12 of -24 hours as 12; PostgreSQL shows 012."""
    return "to_char(" in row.sql and row.both_texts and row.theirs.replace("012", "12") == row.ours


def jsonb_text(row: Row) -> bool:
    """The text of jsonb is canonical: no spaces, and no trailing zeros in numbers."""
    if not row.both_texts:
        return False
    try:
        return bool(parsed(row.ours) == parsed(row.theirs))
    except ValueError:  # cut by varchar(n)
        return row.type.length is not None and any(t.kind is Kind.JSONB for t in row.types)


def jsonpath_of_null(row: Row) -> bool:
    """A jsonpath is a text that is read only where it is used; PostgreSQL reads it before it sees a NULL beside it."""
    return (
        row.ours is None and row.our_error is None and row.only_theirs_fails("jsonpath") and None in row.args
    )


def subscripts(row: Row) -> bool:
    """A subscript is an int8, and one beyond the array gives NULL; PostgreSQL's is an int4, and fails beyond."""
    return row.only_theirs_fails("integer out of range") and "[" in row.sql


def subscripts_of_null(row: Row) -> bool:
    """A slice of NULL fails if its subscripts do; PostgreSQL does not look at them."""
    return row.theirs is None and row.their_error is None and row.our_error is not None and "[" in row.sql


def array_bounds(row: Row) -> bool:
    """Arrays start at 1: a text with other bounds, as [0:1]={1,2}, is not read."""
    return row.our_error is not None and any(text.startswith("[") for text in row.texts)


def dimensions(row: Row) -> bool:
    """An array of arrays is a type of its own, int4[][]; PostgreSQL reads '{{1},{2}}' as an int4[]."""
    return row.our_error is not None and any("{{" in text for text in row.texts)


def like_escape(row: Row) -> bool:
    """A LIKE pattern that ends with its escape always fails; in PostgreSQL only if matching gets that far."""
    return row.only_ours_fails("LIKE pattern must not end with escape character")


def escape_of_null(row: Row) -> bool:
    """LIKE of NULL is NULL whatever the escape; PostgreSQL looks at the escape first."""
    return row.ours is None and row.only_theirs_fails("invalid escape string")


def regex_flavour(row: Row) -> bool:
    """Regular expressions are RE2's: PostgreSQL's options b, e, m, n, p, q, w, x are not all known."""
    return row.only_ours_fails("invalid regular expression option")


def regex_folding(row: Row) -> bool:
    """Without regard to case, ſ is an s and K (Kelvin) a k; PostgreSQL folds one letter at a time."""
    return "~*" in row.sql and any(letter in text for letter in "ſK" for text in row.texts)


def length_limit(row: Row) -> bool:
    """A text that a function makes has at most 64 MiB; PostgreSQL's limit is 1 GiB."""
    return row.only_ours_fails("requested length too large")


def pattern_length(row: Row) -> bool:
    """A pattern, of LIKE or a regular expression, has at most 10,000 characters."""
    return row.only_ours_fails(
        "LIKE pattern is too long", "invalid regular expression: regular expression is too complex"
    )


def bucket_of_a_float(row: Row) -> bool:
    """width_bucket of a value before the upper bound is one of the buckets; PostgreSQL's rounding may leave them all."""
    return "width_bucket(" in row.sql and len(row.args) == 4 and row.ours == row.args[3]


def shifted_integer(row: Row) -> bool:
    """to_char of an int4 by a pattern with V fails if the shifted number is none; PostgreSQL's wraps around."""
    return "to_char(" in row.sql and row.only_ours_fails("integer out of range")


def right_overflow(row: Row) -> bool:
    """right(x, -2147483648) is empty; PostgreSQL's overflows and gives all of x."""
    return "right(" in row.sql and -(2**31) in row.args


def overlay_overflow(row: Row) -> bool:
    """overlay beyond the end of a text appends; PostgreSQL fails where the position overflows an int4."""
    return "overlay(" in row.sql and row.only_theirs_fails("integer out of range")


def commutative_junctions(row: Row) -> bool:
    """False AND an error is False, and True OR an error is True, in whatever order they are written."""
    return row.only_theirs_fails() and (" AND " in row.sql or " OR " in row.sql)


DIFFERENCES: tuple[Callable[[Row], bool], ...] = (
    calendar, time_of_day, epoch_with_a_clock, zones, zone_of_an_interval,
    empty_format, interval_format, interval_hour, reading_by_format,
    interval_range, interval_carry,
    digits, cut_to_zero, scale, floating_numerics, underflow, hexadecimal,
    jsonb_text, jsonpath_of_null,
    subscripts, subscripts_of_null, array_bounds, dimensions,
    like_escape, escape_of_null, regex_flavour, regex_folding, length_limit, pattern_length,
    bucket_of_a_float, shifted_integer, right_overflow, overlay_overflow,
    commutative_junctions,
)  # fmt: skip


def on_purpose(row: Row) -> str | None:
    """The name of the difference on purpose that a row shows, if it does."""
    return next((explains.__name__ for explains in DIFFERENCES if explains(row)), None)
