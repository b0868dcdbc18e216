"""Times: fields, truncation, sums with intervals, and the ways to and from numbers.

A timestamp is a timestamptz here, or its microseconds where Spark made it of a number: `timestamp_micros(l) > t` is
`l > micros of t`. An interval of days and seconds is its microseconds, one of years and months its months, as in Spark.

`ts + INTERVAL '30' DAY` goes by the zone's clock: thirty days later at the same time of day. Where the clock never changes (UTC)
that is our own sum; elsewhere it differs from it by no more than the zone's offsets differ, and is enclosed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.expr import build
from tidegate.expr.tree import Expr
from tidegate.expr.types import (
    DATE,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    numeric,
)
from tidegate.spark.catalyst_tree import Node
from tidegate.spark.catalyst_value import Context, Value, called, exactly, node
from tidegate.spark.catalyst_zone import (
    MICROS_A_DAY,
    MICROS_A_SECOND,
    clock,
    floor_divided,
    instant,
    micros,
    span,
    widened,
)

_FIELDS = {
    "Year": ("year", 0), "Month": ("month", 0), "DayOfMonth": ("day", 0), "Quarter": ("quarter", 0), "DayOfYear": ("doy", 0),
    "WeekOfYear": ("week", 0), "YearOfWeek": ("isoyear", 0), "DayOfWeek": ("dow", 1), "WeekDay": ("isodow", -1),
}  # fmt: skip
_CLOCK_FIELDS = {"Hour": "hour", "Minute": "minute", "Second": "second", "SecondWithFraction": "second"}
_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mon": "month", "mm": "month",
    "week": "week",
}  # fmt: skip
_CLOCK_UNITS = {
    **_UNITS, "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "milliseconds", "microsecond": "microseconds",
}  # fmt: skip
_STEPS = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": MICROS_A_SECOND, "MINUTE": 60 * MICROS_A_SECOND,
    "HOUR": 3600 * MICROS_A_SECOND, "DAY": MICROS_A_DAY, "DAYOFYEAR": MICROS_A_DAY, "WEEK": 7 * MICROS_A_DAY,
}  # fmt: skip
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_EPOCH = build.literal(0, DATE)
_PATTERNS = {
    "yyyy": 4,
    "yyyy-MM": 7,
    "yyyy-MM-dd": 10,
    "yyyy-MM-dd HH": 13,
    "yyyy-MM-dd HH:mm": 16,
    "yyyy-MM-dd HH:mm:ss": 19,
}


def _field(name: str, expr: Expr) -> Expr:
    return build.call("extract", build.literal(name, TEXT), expr)


@node(*_FIELDS)
def field(context: Context, given: Node) -> Value | None:
    """year, month and the like, of a date; of a year, which follows the order, also where the date is enclosed."""
    name, more = _FIELDS[given.kind]
    value = context.value(given.children[0])
    if value is None or value.type != DATE or not (value.is_exact or name == "year"):
        return None

    def of(expr: Expr) -> Expr:
        whole = build.cast(_field(name, expr), INT4)
        return build.call("+", whole, build.literal(more, INT4)) if more else whole

    return value.rising(of)


def _local(context: Context, child: Node, zone: str | None) -> Value | None:
    """What the zone's clock shows at an instant; a timestamp without zone as it is."""
    value = context.value(child)
    if value is None or value.type == TIMESTAMP:
        return value
    at, by = instant(value), clock(zone)
    return None if at is None or by is None or at.type != TIMESTAMPTZ else by.shown(at)


@node(*_CLOCK_FIELDS)
def clock_field(context: Context, given: Node) -> Value | None:
    """hour, minute, second, by the zone's clock."""
    local = _local(context, given.children[0], given.zone)
    if local is None or not local.is_exact:
        return None
    found = _field(_CLOCK_FIELDS[given.kind], local.low)
    if given.kind == "SecondWithFraction":
        return exactly(build.cast(found, numeric(8, 6)), local)
    return exactly(build.cast(build.call("trunc", found), INT4), local)


@node("TruncDate")
def trunc_date(context: Context, given: Node) -> Value | None:
    """trunc(date, unit)."""
    value, unit = context.value(given.children[0]), given.children[1].constant()
    name = _UNITS.get(str(unit).lower())
    if value is None or value.type != DATE or name is None:
        return None
    return value.rising(lambda expr: build.cast(_truncated(name, build.cast(expr, TIMESTAMP)), DATE))


def _truncated(name: str, expr: Expr) -> Expr:
    return build.call("date_trunc", build.literal(name, TEXT), expr)


@node("TruncTimestamp")
def trunc_timestamp(context: Context, given: Node) -> Value | None:
    """date_trunc(unit, t): cut by the zone's clock and taken back."""
    name = _CLOCK_UNITS.get(str(given.children[0].constant()).lower())
    by = clock(given.zone)
    local = _local(context, given.children[1], given.zone)
    if name is None or by is None or local is None:
        return None
    return by.meant(local.rising(lambda expr: _truncated(name, expr)))


@node("LastDay")
def last_day(context: Context, given: Node) -> Value | None:
    """The last day of a date's month."""
    value = context.value(given.children[0])
    if value is None or value.type != DATE:
        return None
    step = build.literal((1, -1, 0), INTERVAL)
    return value.rising(
        lambda expr: build.cast(build.call("+", _truncated("month", build.cast(expr, TIMESTAMP)), step), DATE)
    )


@node("DateAdd", "DateSub")
def date_add(context: Context, given: Node) -> Value | None:
    """A date moved by days."""
    date, days = context.value(given.children[0]), context.exact(given.children[1])
    if date is None or days is None or date.type != DATE or not days.type.is_integer or days.type == INT8:
        return None
    sign, by = "+" if given.kind == "DateAdd" else "-", build.cast(days.low, INT4)
    found = date.rising(lambda expr: build.call(sign, expr, by))
    return Value(found.low, found.high, date.sure and days.sure)


@node("DateDiff", "SubtractDates")
def date_difference(context: Context, given: Node) -> Value | None:
    """Days between two dates; as an interval, their microseconds."""
    values = [context.value(child) for child in given.children]
    if given.fields.get("legacyInterval") or any(value is None or value.type != DATE for value in values):
        return None
    end, start = (value for value in values if value is not None)
    found = Value(
        build.call("-", end.low, start.high), build.call("-", end.high, start.low), end.sure and start.sure
    )
    if end.low is end.high and start.low is start.high:
        found = exactly(found.low, end, start)
    if given.kind == "DateDiff":
        return found
    day = build.literal(MICROS_A_DAY, INT8)
    return replace(found.rising(lambda expr: build.call("*", build.cast(expr, INT8), day)), raw=True)


@node("SubtractTimestamps")
def timestamp_difference(context: Context, given: Node) -> Value | None:
    """Microseconds between two timestamps: of instants, in Spark the difference of what the clock shows."""
    values = context.exacts(given)
    if values is None or given.fields.get("legacyInterval"):
        return None
    sure = all(value.sure for value in values)
    plain = all(value.type == TIMESTAMP for value in values)
    by = clock(given.zone)
    if not plain and by is None:
        return None
    found = build.call("-", *(micros(value.low) for value in values))
    slack = 0 if plain or by is None else by.slack
    if slack == 0:
        return Value(found, found, sure, raw=True)
    by_clock = build.literal(slack, INT8)
    low, high = build.call("-", found, by_clock), build.call("+", found, by_clock)
    return Value(low, high, sure, raw=True)


def _moved(value: Value, months: int, days: int, more: int, zone: str | None) -> Value | None:
    """A timestamp moved by months and days of the zone's clock, then by microseconds."""
    if value.type == TIMESTAMP:
        return value.rising(lambda expr: build.call("+", expr, span(more, months, days)))
    at, by = instant(value), clock(zone)
    if at is None or at.type != TIMESTAMPTZ:
        return None
    if months == 0:
        moved = at.rising(lambda expr: build.call("+", expr, span(more + days * MICROS_A_DAY)))
        if days == 0:
            return moved
        return None if by is None else widened(moved, by.slack)
    if by is None:
        return None
    local = by.shown(at).rising(lambda expr: build.call("+", expr, span(more, months, days)))
    return widened(by.meant(local), by.slack)


@node("TimestampAddInterval", "TimeAdd", "TimestampAddYMInterval")
def add_interval(context: Context, given: Node) -> Value | None:
    """A timestamp moved by a constant interval."""
    value, step = context.value(given.children[0]), given.children[1]
    constant = step.constant()
    if value is None or constant is None:
        return None
    if step.fields["dataType"] == "interval":
        return _moved(value, constant.months, constant.days, constant.nanoseconds // 1000, given.zone)
    if given.kind == "TimestampAddYMInterval":
        return _moved(value, constant, 0, 0, given.zone)
    days = int(abs(constant) // MICROS_A_DAY) * (-1 if constant < 0 else 1)
    return _moved(value, 0, days, constant - days * MICROS_A_DAY, given.zone)


@node("TimestampAdd")
def timestamp_add(context: Context, given: Node) -> Value | None:
    """timestampadd(unit, constant, t)."""
    value, count, unit = context.value(given.children[1]), given.children[0].constant(), given.fields["unit"]
    if value is None or not isinstance(count, int):
        return None
    if unit in _MONTHS:
        return _moved(value, count * _MONTHS[unit], 0, 0, given.zone)
    if unit not in _STEPS:
        return None
    step = _STEPS[unit] * count
    days = step // MICROS_A_DAY if _STEPS[unit] >= MICROS_A_DAY else 0
    return _moved(value, 0, days, step - days * MICROS_A_DAY, given.zone)


@node("TimestampDiff")
def timestamp_diff(context: Context, given: Node) -> Value | None:
    """timestampdiff(unit, a, b) by a clock that never changes: the microseconds between, cut to whole units."""
    values, by = context.exacts(given), clock(given.zone)
    step = _STEPS.get(given.fields["unit"])
    if values is None or step is None or by is None:
        return None
    if not by.is_fixed and any(value.type != TIMESTAMP for value in values):
        return None
    between = build.call("-", micros(values[1].low), micros(values[0].low))
    return exactly(build.call("/", between, build.literal(step, INT8)), *values)


@node("AddMonths", "DateAddYMInterval")
def add_months(context: Context, given: Node) -> Value | None:
    """A date moved by a constant number of months; a day that the month lacks becomes its last."""
    value, months = context.value(given.children[0]), given.children[1].constant()
    if value is None or value.type != DATE or not isinstance(months, int):
        return None
    step = build.literal((months, 0, 0), INTERVAL)
    return value.rising(lambda expr: build.cast(build.call("+", build.cast(expr, TIMESTAMP), step), DATE))


def _counted(divide: int) -> Callable[[Context, Node], Value | None]:
    """An instant as a count of units since 1970, rounded down."""

    def translator(context: Context, given: Node) -> Value | None:
        value = context.value(given.children[0])
        if value is None or not (value.raw or value.type == TIMESTAMPTZ):
            return None
        plain = replace(value, raw=False)
        return plain.rising(lambda expr: floor_divided(micros(expr), divide) if divide > 1 else micros(expr))

    return translator


node("UnixMicros")(_counted(1))
node("UnixMillis")(_counted(1000))
node("UnixSeconds")(_counted(MICROS_A_SECOND))


@node("UnixTimestamp", "ToUnixTimestamp")
def unix_timestamp(context: Context, given: Node) -> Value | None:
    """Seconds since 1970, cut towards zero, unlike unix_seconds: half a second before 1970 is 0."""
    value = context.value(given.children[0])
    if value is None or not (value.raw or value.type == TIMESTAMPTZ):
        return None
    second = build.literal(MICROS_A_SECOND, INT8)
    return replace(value, raw=False).rising(lambda expr: build.call("/", micros(expr), second))


@node("SecondsToTimestamp", "MillisToTimestamp", "MicrosToTimestamp")
def from_count(context: Context, given: Node) -> Value | None:
    """An instant from a count since 1970: its microseconds."""
    value = context.value(given.children[0])
    if value is None or value.raw:
        return None
    times = (
        {"S": MICROS_A_SECOND, "M": 1000}.get(given.kind[0], 1) if given.kind != "MicrosToTimestamp" else 1
    )
    if value.type.is_integer:
        by = build.literal(times, INT8)
        return replace(value.rising(lambda expr: build.call("*", build.cast(expr, INT8), by)), raw=True)
    if value.type != FLOAT8 or not value.is_exact or given.kind != "SecondsToTimestamp":
        return None
    found = build.call("*", value.low, build.literal(1e6, FLOAT8))
    return replace(exactly(build.cast(build.call("trunc", found), INT8), value), raw=True)


@node("PreciseTimestampConversion")
def precise(context: Context, given: Node) -> Value | None:
    """A timestamp as its microseconds, or back: what window() is made of."""
    value = context.value(given.children[0])
    if value is None or value.type not in (TIMESTAMPTZ, TIMESTAMP, INT8):
        return None
    return replace(value.rising(micros), raw=given.fields["toType"] != "long")


@node("UnixDate")
def unix_date(context: Context, given: Node) -> Value | None:
    """The days of a date since 1970."""
    value = context.value(given.children[0])
    if value is None or value.type != DATE:
        return None
    return value.rising(lambda expr: build.call("-", expr, _EPOCH))


@node("DateFromUnixDate")
def date_from_days(context: Context, given: Node) -> Value | None:
    """The date so many days after 1970-01-01."""
    value = context.value(given.children[0])
    if value is None or value.type != INT4:
        return None
    return value.rising(lambda expr: build.call("+", _EPOCH, expr))


@node("FromUTCTimestamp", "ToUTCTimestamp")
def other_clock(context: Context, given: Node) -> Value | None:
    """What a constant zone's clock shows, as if that were UTC; and back."""
    value, zone = context.value(given.children[0]), given.children[1].constant()
    at = None if value is None else instant(value)
    by = clock(zone)
    if at is None or by is None or at.type != TIMESTAMPTZ:
        return None
    if given.kind == "FromUTCTimestamp":
        return by.shown(at).rising(lambda expr: build.cast(expr, TIMESTAMPTZ))
    return by.meant(at.rising(lambda expr: build.cast(expr, TIMESTAMP)))


@node("MakeDate")
def make_date(context: Context, given: Node) -> Value | None:
    """A date from year, month and day."""
    values = context.exacts(given)
    return None if values is None or any(v.type != INT4 for v in values) else called("make_date", *values)


@node("DateFormatClass")
def date_format(context: Context, given: Node) -> Value | None:
    """date_format by patterns that are a beginning of `yyyy-MM-dd HH:mm:ss`: so much of our own text."""
    local, size = (
        _local(context, given.children[0], given.zone),
        _PATTERNS.get(str(given.children[1].constant())),
    )
    if local is None or size is None:
        return None
    to = build.literal(size, INT4)
    return local.rising(lambda expr: build.call("left", build.cast(expr, TEXT), to))


@node("MultiplyDTInterval")
def multiple(context: Context, given: Node) -> Value | None:
    """An interval of days and seconds times an integer."""
    step, count = context.value(given.children[0]), context.exact(given.children[1])
    if step is None or step.low is not step.high or count is None or not count.type.is_integer:
        return None
    found = build.call("*", step.low, build.cast(count.low, INT8))
    return replace(exactly(found, step, count), raw=True)
