"""Times: fields, truncation, sums with intervals, and conversions from and to numbers.

A timestamp is a timestamptz here, or its microseconds if Spark made it from a number: `timestamp_micros(l) > t` is
`l > microseconds of t`. An interval of days and seconds is its microseconds, one of years and months its months, as in Spark.

`ts + INTERVAL '30' DAY` follows the zone's clock: thirty days later at the same time of day. If the clock never changes (UTC), that
is our own sum; else it differs from it by no more than the zone's offsets differ, and is enclosed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.expr.model import Expr, build, types
from tidegate.spark.translate.catalyst_tree import CatalystNode
from tidegate.spark.translate.value import SparkValue, TranslationScope, call, exact_value, translates
from tidegate.spark.translate.zones import (
    MICROS_A_DAY,
    MICROS_A_SECOND,
    floor_divide,
    instant,
    micros,
    span,
    widen,
    zone_clock,
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
_EPOCH = build.literal(0, types.DATE)
_PATTERNS = {
    "yyyy": 4,
    "yyyy-MM": 7,
    "yyyy-MM-dd": 10,
    "yyyy-MM-dd HH": 13,
    "yyyy-MM-dd HH:mm": 16,
    "yyyy-MM-dd HH:mm:ss": 19,
}


def _field(name: str, expr: Expr) -> Expr:
    return build.call("extract", build.literal(name, types.TEXT), expr)


@translates(*_FIELDS)
def field(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates year, month and the like of a date; year, which keeps the order, of enclosed dates too."""
    name, more = _FIELDS[node.kind]
    value = scope.value(node.children[0])
    if value is None or value.type != types.DATE or not (value.is_exact or name == "year"):
        return None

    def of(expr: Expr) -> Expr:
        whole = build.cast(_field(name, expr), types.INT4)
        return build.call("+", whole, build.literal(more, types.INT4)) if more else whole

    return value.rising(of)


def _local(scope: TranslationScope, child: CatalystNode, zone: str | None) -> SparkValue | None:
    """Returns what the zone's clock shows at an instant; a timestamp without zone as it is."""
    value = scope.value(child)
    if value is None or value.type == types.TIMESTAMP:
        return value
    at, by = instant(value), zone_clock(zone)
    return None if at is None or by is None or at.type != types.TIMESTAMPTZ else by.shown(at)


@translates(*_CLOCK_FIELDS)
def clock_field(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates hour, minute, second by the zone's clock."""
    local = _local(scope, node.children[0], node.zone)
    if local is None or not local.is_exact:
        return None
    clock_value = _field(_CLOCK_FIELDS[node.kind], local.low)
    if node.kind == "SecondWithFraction":
        return exact_value(build.cast(clock_value, types.numeric(8, 6)), local)
    return exact_value(build.cast(build.call("trunc", clock_value), types.INT4), local)


@translates("TruncDate")
def trunc_date(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates trunc(date, unit)."""
    value, unit = scope.value(node.children[0]), node.children[1].constant()
    name = _UNITS.get(str(unit).lower())
    if value is None or value.type != types.DATE or name is None:
        return None
    return value.rising(
        lambda expr: build.cast(_truncated(name, build.cast(expr, types.TIMESTAMP)), types.DATE)
    )


def _truncated(name: str, expr: Expr) -> Expr:
    return build.call("date_trunc", build.literal(name, types.TEXT), expr)


@translates("TruncTimestamp")
def trunc_timestamp(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates date_trunc(unit, t): truncated by the zone's clock and converted back."""
    name = _CLOCK_UNITS.get(str(node.children[0].constant()).lower())
    by = zone_clock(node.zone)
    local = _local(scope, node.children[1], node.zone)
    if name is None or by is None or local is None:
        return None
    return by.meant(local.rising(lambda expr: _truncated(name, expr)))


@translates("LastDay")
def last_day(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates the last day of a date's month."""
    value = scope.value(node.children[0])
    if value is None or value.type != types.DATE:
        return None
    step = build.literal((1, -1, 0), types.INTERVAL)
    return value.rising(
        lambda expr: build.cast(
            build.call("+", _truncated("month", build.cast(expr, types.TIMESTAMP)), step), types.DATE
        )
    )


@translates("DateAdd", "DateSub")
def date_add(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a date plus or minus days."""
    date, days = scope.value(node.children[0]), scope.exact(node.children[1])
    if (
        date is None
        or days is None
        or date.type != types.DATE
        or not days.type.is_integer
        or days.type == types.INT8
    ):
        return None
    sign, by = "+" if node.kind == "DateAdd" else "-", build.cast(days.low, types.INT4)
    moved = date.rising(lambda expr: build.call(sign, expr, by))
    return SparkValue(moved.low, moved.high, date.sure and days.sure)


@translates("DateDiff", "SubtractDates")
def date_difference(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates days between two dates; as an interval, their microseconds."""
    values = [scope.value(child) for child in node.children]
    if node.fields.get("legacyInterval") or any(
        value is None or value.type != types.DATE for value in values
    ):
        return None
    end, start = (value for value in values if value is not None)
    days = SparkValue(
        build.call("-", end.low, start.high), build.call("-", end.high, start.low), end.sure and start.sure
    )
    if end.low is end.high and start.low is start.high:
        days = exact_value(days.low, end, start)
    if node.kind == "DateDiff":
        return days
    day = build.literal(MICROS_A_DAY, types.INT8)
    return replace(days.rising(lambda expr: build.call("*", build.cast(expr, types.INT8), day)), raw=True)


@translates("SubtractTimestamps")
def timestamp_difference(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates the microseconds between timestamps; for instants Spark subtracts what the clock shows."""
    values = scope.exacts(node)
    if values is None or node.fields.get("legacyInterval"):
        return None
    sure = all(value.sure for value in values)
    plain = all(value.type == types.TIMESTAMP for value in values)
    by = zone_clock(node.zone)
    if not plain and by is None:
        return None
    between = build.call("-", *(micros(value.low) for value in values))
    slack = 0 if plain or by is None else by.slack
    if slack == 0:
        return SparkValue(between, between, sure, raw=True)
    by_clock = build.literal(slack, types.INT8)
    low, high = build.call("-", between, by_clock), build.call("+", between, by_clock)
    return SparkValue(low, high, sure, raw=True)


def _add(value: SparkValue, months: int, days: int, more: int, zone: str | None) -> SparkValue | None:
    """Adds months and days by the zone's clock, then microseconds."""
    if value.type == types.TIMESTAMP:
        return value.rising(lambda expr: build.call("+", expr, span(more, months, days)))
    at, by = instant(value), zone_clock(zone)
    if at is None or at.type != types.TIMESTAMPTZ:
        return None
    if months == 0:
        moved = at.rising(lambda expr: build.call("+", expr, span(more + days * MICROS_A_DAY)))
        if days == 0:
            return moved
        return None if by is None else widen(moved, by.slack)
    if by is None:
        return None
    local = by.shown(at).rising(lambda expr: build.call("+", expr, span(more, months, days)))
    return widen(by.meant(local), by.slack)


@translates("TimestampAddInterval", "TimeAdd", "TimestampAddYMInterval")
def add_interval(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a timestamp plus a constant interval."""
    value, step = scope.value(node.children[0]), node.children[1]
    constant = step.constant()
    if value is None or constant is None:
        return None
    if step.fields["dataType"] == "interval":
        return _add(value, constant.months, constant.days, constant.nanoseconds // 1000, node.zone)
    if node.kind == "TimestampAddYMInterval":
        return _add(value, constant, 0, 0, node.zone)
    days = int(abs(constant) // MICROS_A_DAY) * (-1 if constant < 0 else 1)
    return _add(value, 0, days, constant - days * MICROS_A_DAY, node.zone)


@translates("TimestampAdd")
def timestamp_add(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates timestampadd(unit, constant, t)."""
    value, count, unit = scope.value(node.children[1]), node.children[0].constant(), node.fields["unit"]
    if value is None or not isinstance(count, int):
        return None
    if unit in _MONTHS:
        return _add(value, count * _MONTHS[unit], 0, 0, node.zone)
    if unit not in _STEPS:
        return None
    step = _STEPS[unit] * count
    days = step // MICROS_A_DAY if _STEPS[unit] >= MICROS_A_DAY else 0
    return _add(value, 0, days, step - days * MICROS_A_DAY, node.zone)


@translates("TimestampDiff")
def timestamp_diff(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates timestampdiff by a clock that never changes: the microseconds between, in whole units."""
    values, by = scope.exacts(node), zone_clock(node.zone)
    step = _STEPS.get(node.fields["unit"])
    if values is None or step is None or by is None:
        return None
    if not by.is_fixed and any(value.type != types.TIMESTAMP for value in values):
        return None
    between = build.call("-", micros(values[1].low), micros(values[0].low))
    return exact_value(build.call("/", between, build.literal(step, types.INT8)), *values)


@translates("AddMonths", "DateAddYMInterval")
def add_months(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a date plus constant months; a day that the month lacks becomes its last."""
    value, months = scope.value(node.children[0]), node.children[1].constant()
    if value is None or value.type != types.DATE or not isinstance(months, int):
        return None
    step = build.literal((months, 0, 0), types.INTERVAL)
    return value.rising(
        lambda expr: build.cast(build.call("+", build.cast(expr, types.TIMESTAMP), step), types.DATE)
    )


def _count_since_epoch(divide: int) -> Callable[[TranslationScope, CatalystNode], SparkValue | None]:
    """Returns a translator of an instant to a number of units since 1970, rounded down."""

    def translator(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
        value = scope.value(node.children[0])
        if value is None or not (value.raw or value.type == types.TIMESTAMPTZ):
            return None
        plain = replace(value, raw=False)
        return plain.rising(lambda expr: floor_divide(micros(expr), divide) if divide > 1 else micros(expr))

    return translator


translates("UnixMicros")(_count_since_epoch(1))
translates("UnixMillis")(_count_since_epoch(1000))
translates("UnixSeconds")(_count_since_epoch(MICROS_A_SECOND))


@translates("UnixTimestamp", "ToUnixTimestamp")
def unix_timestamp(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates unix_timestamp: seconds, cut towards zero, so that half a second before 1970 is 0."""
    value = scope.value(node.children[0])
    if value is None or not (value.raw or value.type == types.TIMESTAMPTZ):
        return None
    second = build.literal(MICROS_A_SECOND, types.INT8)
    return replace(value, raw=False).rising(lambda expr: build.call("/", micros(expr), second))


@translates("SecondsToTimestamp", "MillisToTimestamp", "MicrosToTimestamp")
def from_count(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates an instant from a number since 1970 to its microseconds."""
    value = scope.value(node.children[0])
    if value is None or value.raw:
        return None
    times = {"S": MICROS_A_SECOND, "M": 1000}.get(node.kind[0], 1) if node.kind != "MicrosToTimestamp" else 1
    if value.type.is_integer:
        by = build.literal(times, types.INT8)
        return replace(value.rising(lambda expr: build.call("*", build.cast(expr, types.INT8), by)), raw=True)
    if value.type != types.FLOAT8 or not value.is_exact or node.kind != "SecondsToTimestamp":
        return None
    product = build.call("*", value.low, build.literal(1e6, types.FLOAT8))
    return replace(exact_value(build.cast(build.call("trunc", product), types.INT8), value), raw=True)


@translates("PreciseTimestampConversion")
def precise(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a timestamp to its microseconds and back, as in window()."""
    value = scope.value(node.children[0])
    if value is None or value.type not in (types.TIMESTAMPTZ, types.TIMESTAMP, types.INT8):
        return None
    return replace(value.rising(micros), raw=node.fields["toType"] != "long")


@translates("UnixDate")
def unix_date(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates the days of a date since 1970."""
    value = scope.value(node.children[0])
    if value is None or value.type != types.DATE:
        return None
    return value.rising(lambda expr: build.call("-", expr, _EPOCH))


@translates("DateFromUnixDate")
def date_from_days(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates the date a number of days after 1970-01-01."""
    value = scope.value(node.children[0])
    if value is None or value.type != types.INT4:
        return None
    return value.rising(lambda expr: build.call("+", _EPOCH, expr))


@translates("FromUTCTimestamp", "ToUTCTimestamp")
def other_clock(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates what a constant zone's clock shows, taken as UTC; and back."""
    value, zone = scope.value(node.children[0]), node.children[1].constant()
    at = None if value is None else instant(value)
    by = zone_clock(zone)
    if at is None or by is None or at.type != types.TIMESTAMPTZ:
        return None
    if node.kind == "FromUTCTimestamp":
        return by.shown(at).rising(lambda expr: build.cast(expr, types.TIMESTAMPTZ))
    return by.meant(at.rising(lambda expr: build.cast(expr, types.TIMESTAMP)))


@translates("MakeDate")
def make_date(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a date from year, month and day."""
    values = scope.exacts(node)
    return None if values is None or any(v.type != types.INT4 for v in values) else call("make_date", *values)


@translates("DateFormatClass")
def date_format(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """date_format by patterns that are a beginning of `yyyy-MM-dd HH:mm:ss`: so much of our own text."""
    local, size = (
        _local(scope, node.children[0], node.zone),
        _PATTERNS.get(str(node.children[1].constant())),
    )
    if local is None or size is None:
        return None
    to = build.literal(size, types.INT4)
    return local.rising(lambda expr: build.call("left", build.cast(expr, types.TEXT), to))


@translates("MultiplyDTInterval")
def multiple(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """An interval of days and seconds times an integer."""
    step, count = scope.value(node.children[0]), scope.exact(node.children[1])
    if step is None or step.low is not step.high or count is None or not count.type.is_integer:
        return None
    product = build.call("*", step.low, build.cast(count.low, types.INT8))
    return replace(exact_value(product, step, count), raw=True)
