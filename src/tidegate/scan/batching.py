"""How a part's rows are cut into what is read at once: whole pages, so many that they fit.

    for rows in cut(rows, lambda: widths.rows(step, stored)):     stretches of whole pages
        columns = …
        widths.see(step, rows, read, made)                        how wide rows turned out to be

How wide rows are is not known beforehand: a dictionary makes a text of a hundred letters one byte in the file, and what
`repeat(s, 1000)` makes is in no file at all. So the first stretch of a step is short, and each following one is cut by the widest
that was seen, such that what is read and what is made of it take some `PIECE` bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.shard.splice import Rows
from tidegate.stats.collect import PAGE_ROWS

PIECE = 8 << 20
"""Bytes of decoded rows that a reader makes at once."""
UNSEEN = 4 * PAGE_ROWS
"""Rows of the first stretch, of which nobody knows how wide they are."""
APART = 8
"""Pages of which all rows pass that are worth being read apart from those that must be filtered."""


class Widths:
    """Bytes of the rows of each step, as they were seen. Threads may share it: what one of them overwrites is seen again."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def see(self, step: str, rows: Rows, read: Sequence[pa.Array], made: Sequence[pa.Array]) -> None:
        """A step has read these columns of some rows, and made others of them."""
        size = max(sum(column.nbytes for column in read), sum(column.nbytes for column in made))
        self._seen[step] = max(self._seen.get(step, 0.0), size / max(1, touched(rows)))

    def rows(self, step: str, stored: float) -> int:
        """Rows of touched pages that fit, if each takes at least `stored` bytes."""
        seen = self._seen.get(step)
        fitting = int(PIECE / max(1.0, stored, seen or 0.0))
        return fitting if seen is not None else min(fitting, UNSEEN)


def cut(rows: Rows, fitting: Callable[[], int | None]) -> Iterator[Rows]:
    """Rows in stretches of whole pages, each with as many rows on touched pages as `fitting` says; None: all at once."""
    density = touched(rows) / max(1, rows.stop - rows.start)
    begin = rows.start
    while begin < rows.stop:
        most = fitting()
        if most is None:
            yield rows
            return
        pages = max(1, int(most / max(density, 1e-9)) // PAGE_ROWS)
        end = min(begin + pages * PAGE_ROWS, rows.stop)
        end = rows.stop if rows.stop - end < PAGE_ROWS else end
        inside = slice(begin - rows.start, end - rows.start)
        yield Rows(rows.group, begin, end, None if rows.mask is None else rows.mask[inside])
        begin = end


def page_rows(group: int, start: int, stop: int, kept: np.ndarray) -> Rows:
    """The rows of a stretch that stand on pages that are kept, from the first such page to the last."""
    if kept.all():
        return Rows(group, start, stop)  # only such a stretch may begin inside of a page
    at = np.flatnonzero(kept)
    first, last = int(at[0]), int(at[-1]) + 1
    start, stop = start + first * PAGE_ROWS, min(stop, start + last * PAGE_ROWS)
    inside = kept[first:last]
    return Rows(group, start, stop, None if inside.all() else np.repeat(inside, PAGE_ROWS)[: stop - start])


def apart(keep: np.ndarray, whole: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """The pages of a stretch that are read together, and whether all of their rows pass."""
    passing, open_ = keep & whole, keep & ~whole
    if not open_.any():
        return [(keep, True)] if keep.any() else []
    if np.count_nonzero(passing) < APART:
        return [(keep, False)]
    return [(passing, True), (open_, False)]


def touched(rows: Rows) -> int:
    """Rows of the pages in which there are some of these."""
    if rows.mask is None:
        return len(rows)
    starts = np.arange(0, len(rows.mask), PAGE_ROWS)
    return int(np.count_nonzero(np.logical_or.reduceat(rows.mask, starts))) * PAGE_ROWS
