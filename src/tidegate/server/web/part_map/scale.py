"""Axes of drawings: coordinates of values, and ticks with labels.

scale = Scale.of(axis, 64, 1108)         from the left edge of a drawing to its right edge
scale.places(axis.low, scale.low)        where each part begins
scale.ticks(8)                           about eight: (coordinate, "2026-03")
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidegate.statements.preview import Axis
from tidegate.text import format_bytes

_SECOND, _DAY, _WEEK = 1_000, 86_400_000, 7 * 86_400_000
_STEPS = (
    *(1, 5, 10, 50, 100, 500),
    *(_SECOND * n for n in (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200)),
    *(_DAY, 2 * _DAY, _WEEK, 2 * _WEEK),
)
"""Distances of time ticks, up to two weeks; longer ones are whole months."""
_MONDAY = 4 * _DAY
"""The first Monday after 1970 began: ticks of weeks are Mondays."""
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 12_000)
_LEAST_POWERS = 0.75
"""Powers of ten that a logarithmic axis covers at least: at least two of 1, 2, 5, 10, … are in it."""
_LONGEST = 14
"""Characters of a text at a tick."""
_EARLIEST, _LATEST = -62_135_596_800_000.0, 253_402_300_799_000.0
"""The years 1 and 9999 in milliseconds: beyond them no date can be written."""


@dataclass(frozen=True)
class Scale:
    """Maps a range of values to a range of coordinates."""

    axis: Axis
    low: float
    high: float
    begin: float
    end: float

    @staticmethod
    def of(axis: Axis, begin: float, end: float) -> Scale:
        """Covers all known values, with some room if there is only one."""
        known = np.concatenate([axis.low, axis.high])
        known = known[np.isfinite(known)]
        if axis.scale == "time":
            known = np.clip(known, _EARLIEST, _LATEST)
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        if (
            axis.scale == "log" and high - low < _LEAST_POWERS
        ):  # parts of about one size lie close to each other
            middle = (low + high) / 2
            low, high = middle - _LEAST_POWERS / 2, middle + _LEAST_POWERS / 2
        if low == high:
            moment = _DAY if axis.whole else 500.0
            room = moment if axis.scale == "time" else 0.5 if abs(low) < 1e15 else abs(low) / 2
            low, high = low - room, high + room
        return Scale(axis, low, high, begin, end)

    def places(self, values: np.ndarray, unknown: float) -> np.ndarray:
        """Returns coordinates; `unknown` stands for NaN, and infinite values are at the edge."""
        share = (np.nan_to_num(values, nan=unknown) - self.low) / (self.high - self.low)
        return np.asarray(self.begin + np.clip(share, 0, 1) * (self.end - self.begin))

    def place(self, value: float) -> float:
        """Returns the coordinate of one value."""
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self, wanted: int) -> list[tuple[float, str]]:
        """Returns about `wanted` coordinates with labels; none if no value is known."""
        if not self.axis.is_known:
            return []
        make = {"time": self._times, "number": self._numbers, "text": self._texts, "log": self._powers}
        return [(round(self.place(value), 1), label) for value, label in make[self.axis.scale](wanted)]

    def _numbers(self, wanted: int) -> Iterator[tuple[float, str]]:
        span = self.high - self.low
        raw = span / max(wanted, 1)
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= raw * 0.999)
        if self.axis.whole:
            step = float(max(1, math.ceil(step)))
        first = math.ceil(self.low / step - 1e-9)
        for i in range(first, math.floor(self.high / step + 1e-9) + 1):
            yield i * step, tick_label(i * step)

    def _powers(self, wanted: int) -> Iterator[tuple[float, str]]:
        """Labels of logarithms: powers of ten, or 1, 2, 5 times these where there are few."""
        label = self._size if self.axis.name == "_size" else tick_label
        first, last = math.floor(self.low), math.ceil(self.high)
        for factors in ((1,), (1, 2, 5)):
            values = [n * 10.0**power for power in range(max(first, 0), last + 1) for n in factors]
            inside = [value for value in values if self.low <= math.log10(value) <= self.high]
            if len(inside) >= 3 or len(factors) > 1:
                step = -(-len(inside) // max(wanted, 1))
                yield from ((math.log10(value), label(value)) for value in inside[:: step or 1])
                return

    @staticmethod
    def _size(value: float) -> str:
        return format_bytes(int(value))

    def _texts(self, wanted: int) -> Iterator[tuple[float, str]]:
        texts = self.axis.texts
        for i in sorted({round(i) for i in np.linspace(0, len(texts) - 1, min(wanted, len(texts)))}):
            text = texts[i]
            yield i, text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def _times(self, wanted: int) -> Iterator[tuple[float, str]]:
        raw = max((self.high - self.low) / max(wanted, 1), _DAY if self.axis.whole else 0)
        step = next((step for step in _STEPS if step >= raw), None)
        if step is None:
            yield from self._months(raw / (30.4 * _DAY))
            return
        shift = _MONDAY if step >= _WEEK else 0
        before: dt.datetime | None = None
        for i in range(math.ceil((self.low - shift) / step), math.floor((self.high - shift) / step) + 1):
            at = dt.datetime.fromtimestamp((i * step + shift) / 1000, dt.UTC)
            yield i * step + shift, _moment(at, before, step)
            before = at

    def _months(self, raw: float) -> Iterator[tuple[float, str]]:
        step = next((step for step in _MONTHS if step >= raw), _MONTHS[-1])
        first = dt.datetime.fromtimestamp(max(self.low, _EARLIEST) / 1000, dt.UTC)
        month = -(-(first.year * 12 + first.month - 1) // step) * step
        while month < 9999 * 12:
            at = dt.datetime(month // 12, month % 12 + 1, 1, tzinfo=dt.UTC)
            value = at.timestamp() * 1000
            if value > self.high:
                return
            if value >= self.low:
                yield value, at.strftime("%Y" if step >= 12 else "%Y-%m")
            month += step


def _moment(at: dt.datetime, before: dt.datetime | None, step: int) -> str:
    """Labels a time: with its date where the day changes, and with its year where the year does."""
    day = f"{at:%m-%d}" if before is not None and before.year == at.year else f"{at:%Y-%m-%d}"
    if step >= _DAY:
        return day
    if before is not None and before.date() == at.date():
        return _clock(at, step)
    midnight = not (at.hour or at.minute or at.second or at.microsecond)
    return day if midnight else f"{at:%m-%d} {_clock(at, step)}"


def _clock(at: dt.datetime, step: int) -> str:
    if step < _SECOND:
        return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"
    return f"{at:%H:%M}" if step >= 60 * _SECOND else f"{at:%H:%M:%S}"


def tick_label(value: float) -> str:
    """Formats a number at a tick: 0.25, 1,500, 20k, 3M."""
    if value == 0:
        return "0"
    size = abs(value)
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= unit:
            scaled = value / (1e3 if letter == "k" else unit)
            return f"{scaled:g}{letter}" if size < 1e15 else f"{value:.0e}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"
