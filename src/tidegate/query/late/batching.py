"""How a part's rows are cut into what is read, and what is made, at once: so many that they fit.

    for rows in cut(rows, lambda: widths.fitting(step, stored)):       stretches of pages, to be read
        columns = …
        widths.see(step, rows, columns)                                how wide they turned out to be
        for some in widths.slices(step, plan, len(rows)):              of these, rows that a plan is put to
            made = plan.evaluate(…)
            widths.see_made(step, made, some)

How wide rows are is not known beforehand: a dictionary makes a text of a hundred letters one byte in the file, and what
`repeat(s, 1000)` makes is in no file at all. So the first stretch of a step is short, and each following one is cut by the widest
that was seen, such that it takes some `PIECE` bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.plan.run import SafePlan
from tidegate.storage.part import RowRange
from tidegate.storage.stats import PAGE_ROWS

PIECE = 8 << 20
"""Bytes of decoded rows that a reader makes at once."""
UNSEEN = 2 * PAGE_ROWS
"""Rows of the first stretch, of which nobody knows how wide they are."""
UNSEEN_MADE = 1024
"""The same of rows that are made, and may be of any width."""
GROWTH = 4
"""How many times larger each stretch is than the last, where few rows are wanted."""
LEAST = 1024
"""Rows of the shortest stretch that is read."""
APART = 8
"""Pages of which all rows pass that are worth being read apart from those that must be filtered."""


class Widths:
    """The observed row width of each step. Threads may share it: a lost update is observed again."""

    def __init__(self) -> None:
        self._read: dict[str, float] = {}
        self._made: dict[str, float] = {}

    def see(self, step: str, rows: RowRange, columns: Sequence[pa.Array]) -> None:
        """A step has read these columns of some rows."""
        _widest(self._read, step, columns, touched(rows))

    def see_made(self, step: str, columns: Sequence[pa.Array], rows: int) -> None:
        """A step has made these columns of so many rows."""
        _widest(self._made, step, columns, rows)

    def fitting(self, step: str, stored: float) -> int:
        """Rows of touched pages that fit, if each takes at least `stored` bytes."""
        seen = self._read.get(step)
        fitting = int(PIECE / max(1.0, stored, seen or 0.0))
        return fitting if seen is not None else min(fitting, UNSEEN)

    def slices(self, step: str, plan: SafePlan, rows: int) -> Iterator[slice]:
        """Rows that are in memory, in slices of which the plan makes no more at once than fits."""
        begin = 0
        while begin < rows:
            end = rows
            if plan.widens:
                seen = self._made.get(step)
                fitting = UNSEEN_MADE if seen is None else max(1, int(PIECE / max(1.0, seen)))
                end = min(begin + fitting, rows)
            yield slice(begin, end)
            begin = end


def _widest(seen: dict[str, float], step: str, columns: Sequence[pa.Array], rows: int) -> None:
    size = sum(column.nbytes for column in columns)
    seen[step] = max(seen.get(step, 0.0), size / max(1, rows))


def cut(rows: RowRange, fitting: Callable[[], int | None]) -> Iterator[RowRange]:
    """Splits rows at pages, or finer if they are wide; `fitting`: rows of touched pages, None for all."""
    density = touched(rows) / max(1, rows.stop - rows.start)
    begin = rows.start
    while begin < rows.stop:
        most = fitting()
        if most is None:
            yield rows
            return
        wanted = int(most / max(density, 1e-9))
        unit = PAGE_ROWS if wanted >= PAGE_ROWS else LEAST
        end = min(begin + max(1, wanted // unit) * unit, rows.stop)
        end = rows.stop if rows.stop - end < LEAST else end
        inside = slice(begin - rows.start, end - rows.start)
        yield RowRange(rows.group, begin, end, None if rows.mask is None else rows.mask[inside])
        begin = end


def page_rows(group: int, start: int, stop: int, kept: np.ndarray) -> RowRange:
    """The rows of a stretch that stand on pages that are kept, from the first such page to the last."""
    if kept.all():
        return RowRange(group, start, stop)  # only such a stretch may begin inside of a page
    at = np.flatnonzero(kept)
    first, last = int(at[0]), int(at[-1]) + 1
    start, stop = start + first * PAGE_ROWS, min(stop, start + last * PAGE_ROWS)
    inside = kept[first:last]
    return RowRange(
        group, start, stop, None if inside.all() else np.repeat(inside, PAGE_ROWS)[: stop - start]
    )


def apart(keep: np.ndarray, whole: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """The pages of a stretch that are read together, and whether all of their rows pass."""
    passing, open_ = keep & whole, keep & ~whole
    if not open_.any():
        return [(keep, True)] if keep.any() else []
    if np.count_nonzero(passing) < APART:
        return [(keep, False)]
    return [(passing, True), (open_, False)]


def touched(rows: RowRange) -> int:
    """Rows of the pages in which there are some of these."""
    if rows.mask is None:
        return len(rows)
    if len(rows.mask) <= PAGE_ROWS:
        return PAGE_ROWS if len(rows) else 0
    starts = np.arange(0, len(rows.mask), PAGE_ROWS)
    return int(np.count_nonzero(np.logical_or.reduceat(rows.mask, starts))) * PAGE_ROWS
