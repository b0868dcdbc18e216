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

_SECOND, _DAY = 1_000, 86_400_000
_STEPS = (
    *(_SECOND * n for n in (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200)),
    *(_DAY * n for n in (1, 2, 5, 10)),
)
"""Distances of time ticks, up to ten days; longer ones are whole months."""
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 12_000)
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
        if low == high:
            room = 500.0 if axis.scale == "time" else 0.5 if abs(low) < 1e15 else abs(low) / 2
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
        """Returns about `wanted` coordinates with labels."""
        make = {"time": self._times, "number": self._numbers, "text": self._texts, "log": self._powers}
        return [(round(self.place(value), 1), label) for value, label in make[self.axis.scale](wanted)]

    def _numbers(self, wanted: int) -> Iterator[tuple[float, str]]:
        span = self.high - self.low
        raw = span / max(wanted, 1)
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        for i in range(first, math.floor(self.high / step + 1e-9) + 1):
            yield i * step, tick_label(i * step)

    def _powers(self, wanted: int) -> Iterator[tuple[float, str]]:
        first, last = math.ceil(self.low), math.floor(self.high)
        if last - first >= 2:
            step = -(-(last - first) // max(wanted, 1))
            yield from ((i, tick_label(10.0**i)) for i in range(first, last + 1, step))
            return
        for value in np.linspace(self.low, self.high, 3).tolist():  # less than two powers of ten
            yield value, tick_label(float(f"{10.0**value:.2g}"))

    def _texts(self, wanted: int) -> Iterator[tuple[float, str]]:
        texts = self.axis.texts
        for i in sorted({round(i) for i in np.linspace(0, len(texts) - 1, min(wanted, len(texts)))}):
            text = texts[i]
            yield i, text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def _times(self, wanted: int) -> Iterator[tuple[float, str]]:
        raw = (self.high - self.low) / max(wanted, 1)
        step = next((step for step in _STEPS if step >= raw), None)
        if step is None:
            yield from self._months(raw / (30.4 * _DAY))
            return
        form = "%m-%d" if step >= _DAY else "%H:%M" if step >= 60 * _SECOND else "%H:%M:%S"
        for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            at = dt.datetime.fromtimestamp(i * step / 1000, dt.UTC)
            midnight = step < _DAY and not (at.hour or at.minute or at.second)
            yield i * step, at.strftime("%m-%d" if midnight else form)

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
