"""Time zones: which of Spark's zones equal ours, and conversions to a zone's clock and back.

Spark has Java's zones, we have those of the tzdata package. They agree if both have the same edition of the rules; so a zone is
compared before it is used, once per process: every recorded change of the clock, and then the changes of the next 56 years, since
the rules repeat after 28 years unless a century intervenes. If anything differs (Dublin in 1925, say), only the least and greatest
offset of the zone are used.

    to the clock    `shown(t)`    an instant has one local time: exact
    from the clock  `meant(t)`    a local time may occur twice: Spark takes the first, we the second. Enclosed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from tidegate.expr.model import Expr, Literal, build, types
from tidegate.expr.primitives import Zone, find_zone
from tidegate.spark.translate.value import SparkValue

MICROS_A_SECOND = 1_000_000
MICROS_A_DAY = 86_400 * MICROS_A_SECOND
_CHANGE = re.compile(r"Transition\[(?:Gap|Overlap) at ([^]]+?)([+-][\d:]+|Z) to ([+-][\d:]+|Z)\]")
_YEARS = 56
_EPOCH = datetime.fromisoformat("1970-01-01")


def span(micros: int, months: int = 0, days: int = 0) -> Literal:
    """Returns a constant interval."""
    return build.literal((months, days, micros * 1000), types.INTERVAL)


@dataclass(frozen=True)
class ZoneClock:
    """A zone, with offsets east of Greenwich in microseconds."""

    name: str | None
    """The name of a zone whose clock changes and agrees with ours; None for others."""
    offset: int = 0
    """The offset of a zone that never changes."""
    slack: int = 0
    """The difference between its least and greatest offset."""
    ends: tuple[int, int] | None = None
    """The least and greatest offset of a zone that differs from Java's; nothing else of it is used."""

    @property
    def is_fixed(self) -> bool:
        """Whether the clock never changes."""
        return self.name is None and self.ends is None

    def shown(self, value: SparkValue) -> SparkValue:
        """Returns what the clock shows at an instant."""
        if self.name is not None:
            local = value.rising(self._by_name)
            # At a change the clock may go back: the bounds of a range need not show the least and the greatest time.
            return local if value.low is value.high else widen(local, self.slack)
        return self._shifted(
            value.rising(lambda expr: build.cast(expr, types.TIMESTAMP)), self.ends or (self.offset,) * 2
        )

    def meant(self, value: SparkValue) -> SparkValue:
        """Returns the instant at which the clock shows a time."""
        if self.name is not None:
            return widen(value.rising(self._by_name), self.slack)
        least, most = self.ends or (self.offset,) * 2
        return self._shifted(value.rising(lambda expr: build.cast(expr, types.TIMESTAMPTZ)), (-most, -least))

    def _by_name(self, expr: Expr) -> Expr:
        assert self.name is not None
        return build.call("timezone", build.literal(self.name, types.TEXT), expr)

    def _shifted(self, value: SparkValue, by: tuple[int, int]) -> SparkValue:
        """Adds an offset that lies between two bounds."""
        if by[0] == by[1]:
            return value.rising(lambda expr: build.call("+", expr, span(by[0]))) if by[0] else value
        low, high = (
            build.call("+", end, span(least)) for end, least in zip((value.low, value.high), by, strict=True)
        )
        return replace(value, low=low, high=high)


def widen(value: SparkValue, by: int) -> SparkValue:
    """Widens the bounds of a time by so many microseconds on both sides."""
    if by == 0:
        return value
    low, high = (build.call(sign, end, span(by)) for sign, end in (("-", value.low), ("+", value.high)))
    return replace(value, low=low, high=high)


def zone_clock(name: str | None) -> ZoneClock | None:
    """Returns the clock of a zone by Spark's name; None if there is no such zone."""
    context = SparkContext._active_spark_context
    if name is None or context is None or context._jvm is None:
        return None
    try:
        return _clock(name)
    except (Py4JJavaError, PySparkException):
        return None  # no such zone: Spark raises an error itself when it evaluates a row


@lru_cache(maxsize=256)
def _clock(name: str) -> ZoneClock:
    """Compares a zone of Spark with ours."""
    context = SparkContext._active_spark_context
    assert context is not None
    jvm: Any = context._jvm
    rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(name).getRules()
    if rules.isFixedOffset():
        return ZoneClock(
            None, rules.getOffset(jvm.java.time.Instant.EPOCH).getTotalSeconds() * MICROS_A_SECOND
        )
    ours = find_zone(name)
    changes = _CHANGE.findall(rules.getTransitions().toString())
    last = rules.getTransitions().get(rules.getTransitions().size() - 1)
    end = last.getDateTimeBefore().getYear() + _YEARS
    while (last := rules.nextTransition(last.getInstant())) is not None:
        changes += _CHANGE.findall(last.toString())
        if last.getDateTimeBefore().getYear() > end:
            break
    offsets = [_offset(text) for _, before, after in changes for text in (before, after)]
    least, most = min(offsets), max(offsets)
    if ours is None or not _agree(ours, changes, whole=last is None):
        return ZoneClock(None, slack=most - least, ends=(least, most))
    return ZoneClock(name, slack=most - least)


def _agree(ours: Zone, theirs: list[tuple[str, str, str]], whole: bool) -> bool:
    """Whether our changes of the clock are those that Java lists, as far as it lists them."""
    real = ours.offsets[1:] != ours.offsets[:-1]
    changes, after = ours.changes[real], ours.offsets[1:][real]
    at = [_instant(local, before) for local, before, _ in theirs]
    to = [_offset(text) for _, _, text in theirs]
    if not whole:
        changes, after = changes[: len(at)], after[: len(at)]
    return (
        len(at) > 0
        and np.array_equal(changes, at)
        and np.array_equal(after, to)
        and int(ours.offsets[0]) == _offset(theirs[0][1])
    )


def _offset(text: str) -> int:
    """Parses an offset such as `-04:56:02` into microseconds."""
    if text == "Z":
        return 0
    parts = [int(part) for part in text[1:].split(":")] + [0, 0]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return (-seconds if text[0] == "-" else seconds) * MICROS_A_SECOND


def _instant(local: str, before: str) -> int:
    return (datetime.fromisoformat(local) - _EPOCH) // timedelta(microseconds=1) - _offset(before)


def micros(expr: Expr) -> Expr:
    """Returns a time as microseconds since 1970; a number is returned as it is."""
    if expr.type.is_integer:
        return expr
    if isinstance(expr, Literal) and not expr.is_null:
        return build.literal(expr.value.cast("int64").as_py(), types.INT8)
    seconds = build.call("extract", build.literal("epoch", types.TEXT), expr)
    return build.cast(build.call("*", seconds, build.literal(MICROS_A_SECOND, types.INT4)), types.INT8)


def instant(value: SparkValue) -> SparkValue | None:
    """Returns a time as a timestamptz; one in microseconds is enclosed by whole milliseconds."""
    if not value.raw:
        return value
    if value.low is not value.high:
        return None
    stamp = build.cast(build.cast(floor_divide(value.low, 1000), types.MZ_TIMESTAMP), types.TIMESTAMPTZ)
    return replace(value, low=stamp, high=build.call("+", stamp, span(999)), raw=False)


def floor_divide(expr: Expr, by: int) -> Expr:
    """Divides a bigint and rounds down; `by` is a power of ten, so the intermediate quotient is exact."""
    quotient = build.call("/", build.cast(expr, types.numeric(19, 0)), build.literal(by, types.INT4))
    return build.cast(build.call("floor", quotient), types.INT8)
