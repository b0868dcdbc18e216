"""Time zones: which of Spark's are ours, and times taken to a zone's clock and back.

Spark has Java's zones, we have those of the tzdata package. They agree as long as both have the same edition of the rules; so a
zone is compared before it is used, once a process: every recorded change of the clock, and then, as the rules repeat after 28
years unless a century intervenes, the changes of the 56 years after them. If anything differs (Dublin in 1925, say), all
that is used of the zone is its least and greatest offset.

    to the clock    `shown(t)`    an instant has one local time: exact
    from the clock  `meant(t)`    a local time may come twice: Spark takes the first, we the second. Enclosed.
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

from tidegate.expr import build
from tidegate.expr.tree import Expr, Literal
from tidegate.expr.types import INT4, INT8, INTERVAL, MZ_TIMESTAMP, TEXT, TIMESTAMP, TIMESTAMPTZ, numeric
from tidegate.expr.zones import Zone, find_zone
from tidegate.spark.catalyst_value import Value

MICROS_A_SECOND = 1_000_000
MICROS_A_DAY = 86_400 * MICROS_A_SECOND
_CHANGE = re.compile(r"Transition\[(?:Gap|Overlap) at ([^]]+?)([+-][\d:]+|Z) to ([+-][\d:]+|Z)\]")
_YEARS = 56
_EPOCH = datetime.fromisoformat("1970-01-01")


def span(micros: int, months: int = 0, days: int = 0) -> Literal:
    """An interval."""
    return build.literal((months, days, micros * 1000), INTERVAL)


@dataclass(frozen=True)
class Clock:
    """A zone; offsets east of Greenwich in microseconds."""

    name: str | None
    """Of a zone whose clock changes, and goes as ours does."""
    offset: int = 0
    """Of one that never changes."""
    slack: int = 0
    """The difference of its least and greatest offset: two readings of one clock never lie further apart."""
    ends: tuple[int, int] | None = None
    """Of a zone that we know otherwise than Java does: its least and greatest offset, which is all that is used of it."""

    @property
    def is_fixed(self) -> bool:
        """Whether the clock never changes."""
        return self.name is None and self.ends is None

    def shown(self, value: Value) -> Value:
        """What the clock shows at an instant."""
        if self.name is not None:
            found = value.rising(self._by_name)
            # Across a change the clock goes back: the ends of a range need not show the least and the most.
            return found if value.low is value.high else widened(found, self.slack)
        return self._shifted(
            value.rising(lambda expr: build.cast(expr, TIMESTAMP)), self.ends or (self.offset,) * 2
        )

    def meant(self, value: Value) -> Value:
        """The instant at which the clock shows a time."""
        if self.name is not None:
            return widened(value.rising(self._by_name), self.slack)
        least, most = self.ends or (self.offset,) * 2
        return self._shifted(value.rising(lambda expr: build.cast(expr, TIMESTAMPTZ)), (-most, -least))

    def _by_name(self, expr: Expr) -> Expr:
        assert self.name is not None
        return build.call("timezone", build.literal(self.name, TEXT), expr)

    def _shifted(self, value: Value, by: tuple[int, int]) -> Value:
        """A time moved by an offset that lies between two."""
        if by[0] == by[1]:
            return value.rising(lambda expr: build.call("+", expr, span(by[0]))) if by[0] else value
        low, high = (
            build.call("+", end, span(least)) for end, least in zip((value.low, value.high), by, strict=True)
        )
        return replace(value, low=low, high=high)


def widened(value: Value, by: int) -> Value:
    """A time that may lie so many microseconds before or after."""
    if by == 0:
        return value
    low, high = (build.call(sign, end, span(by)) for sign, end in (("-", value.low), ("+", value.high)))
    return replace(value, low=low, high=high)


def clock(name: str | None) -> Clock | None:
    """The clock of a zone as Spark names it; None if there is none."""
    context = SparkContext._active_spark_context
    if name is None or context is None or context._jvm is None:
        return None
    try:
        return _clock(name)
    except (Py4JJavaError, PySparkException):
        return None  # no such zone: Spark says so itself, when it meets a row


@lru_cache(maxsize=256)
def _clock(name: str) -> Clock:
    """Compares a zone of Spark's with ours."""
    context = SparkContext._active_spark_context
    assert context is not None
    jvm: Any = context._jvm
    rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(name).getRules()
    if rules.isFixedOffset():
        return Clock(None, rules.getOffset(jvm.java.time.Instant.EPOCH).getTotalSeconds() * MICROS_A_SECOND)
    ours = find_zone(name)
    listed = _CHANGE.findall(rules.getTransitions().toString())
    last = rules.getTransitions().get(rules.getTransitions().size() - 1)
    end = last.getDateTimeBefore().getYear() + _YEARS
    while (last := rules.nextTransition(last.getInstant())) is not None:
        listed += _CHANGE.findall(last.toString())
        if last.getDateTimeBefore().getYear() > end:
            break
    known = [_offset(text) for _, before, after in listed for text in (before, after)]
    least, most = min(known), max(known)
    if ours is None or not _agree(ours, listed, whole=last is None):
        return Clock(None, slack=most - least, ends=(least, most))
    return Clock(name, slack=most - least)


def _agree(ours: Zone, theirs: list[tuple[str, str, str]], whole: bool) -> bool:
    """Whether our changes of the clock are just those that Java lists, as far as it lists them."""
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
    """`-04:56:02` in microseconds."""
    if text == "Z":
        return 0
    parts = [int(part) for part in text[1:].split(":")] + [0, 0]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return (-seconds if text[0] == "-" else seconds) * MICROS_A_SECOND


def _instant(local: str, before: str) -> int:
    return (datetime.fromisoformat(local) - _EPOCH) // timedelta(microseconds=1) - _offset(before)


def micros(expr: Expr) -> Expr:
    """A time as microseconds since 1970; what is such a number already stays."""
    if expr.type.is_integer:
        return expr
    if isinstance(expr, Literal) and not expr.is_null:
        return build.literal(expr.value.cast("int64").as_py(), INT8)
    seconds = build.call("extract", build.literal("epoch", TEXT), expr)
    return build.cast(build.call("*", seconds, build.literal(MICROS_A_SECOND, INT4)), INT8)


def instant(value: Value) -> Value | None:
    """A time that may be kept as microseconds, as a timestamptz: enclosed by whole milliseconds there."""
    if not value.raw:
        return value
    if value.low is not value.high:
        return None
    stamp = build.cast(build.cast(floor_divided(value.low, 1000), MZ_TIMESTAMP), TIMESTAMPTZ)
    return replace(value, low=stamp, high=build.call("+", stamp, span(999)), raw=False)


def floor_divided(expr: Expr, by: int) -> Expr:
    """A bigint divided and rounded down; `by` is a power of ten, so that the quotient is exact on the way."""
    quotient = build.call("/", build.cast(expr, numeric(19, 0)), build.literal(by, INT4))
    return build.cast(build.call("floor", quotient), INT8)
