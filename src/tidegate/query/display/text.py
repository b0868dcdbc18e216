r"""Rows as text: a table that fits a width, or one line for each value.

    table_text(cells, 80)       columns side by side; what does not fit is cut with …, or left out and named
    record_text(cells, 80)      `\x` of the prompt: a row below the other

Widths are cells of a terminal: a Chinese character has two, a combining accent none.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence

from tidegate.query.display.cells import Cells
from tidegate.text import plural

BETWEEN, CROSS, LINE = " │ ", "─┼─", "─"
MORE = "…"
NARROWEST = 16
"""Columns are cut to so many cells before others are left out."""
NAMED_LINES = 8
"""Lines with the names of columns that are left out."""
LONGEST = 120
"""Cells of a value in a table of any width."""


def terminal_width() -> int:
    """How wide the terminal is; 0 if the output is no terminal and COLUMNS does not say."""
    if os.environ.get("COLUMNS", "").isdigit() or (sys.stdout is not None and sys.stdout.isatty()):
        return shutil.get_terminal_size().columns
    return 0


def table_width(cells: Cells) -> int:
    """How wide a table is that shows everything."""
    return sum(_widths(cells)) + len(BETWEEN) * (len(cells.names) - 1)


def table_text(cells: Cells, width: int = 0) -> list[str]:
    """Lines of a table in at most `width` cells; 0: any width, and no value is cut."""
    widths = _widths(cells)
    if not width:
        return _lines(cells, list(range(len(widths))), widths)
    widths = [
        min(size, max(LONGEST, cell_count(name))) for size, name in zip(widths, cells.names, strict=True)
    ]
    shown = _chosen(cells, widths, width)
    lines = _lines(cells, shown, _narrowed(shown, widths, width))
    left_out = [cells.names[i] for i in range(len(widths)) if i not in set(shown)]
    if left_out:
        named = f"{plural(len(left_out), 'column')} not shown: {', '.join(left_out)}"
        lines += [_cut(line, width) for line in textwrap.wrap(named, max(width, NARROWEST))[:NAMED_LINES]]
    return lines


def record_text(cells: Cells, width: int = 0) -> list[str]:
    """Lines with a column and its value each, below a heading for each row."""
    label = max(map(cell_count, cells.names), default=0)
    lines = []
    for number, row in enumerate(cells.rows, 1):
        heading = f"─[ row {number} ]"
        lines.append(heading + LINE * max(0, min(width or 40, 60) - cell_count(heading)))
        for name, value in zip(cells.names, row, strict=True):
            room = max(NARROWEST, width - label - len(BETWEEN)) if width else 0
            for i, piece in enumerate(_folded(value, room)):
                lines.append(_padded("" if i else name, label, right=False) + BETWEEN + piece)
    return lines


def cell_count(text: str) -> int:
    """How many cells a terminal needs for a text."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _widths(cells: Cells) -> list[int]:
    return [
        max([cell_count(name), *(cell_count(row[i]) for row in cells.rows)])
        for i, name in enumerate(cells.names)
    ]


def _chosen(cells: Cells, widths: Sequence[int], width: int) -> list[int]:
    """The columns that there is room for: from both ends, as the first and the last say most."""
    least = [
        min(size, max(NARROWEST, cell_count(name))) for size, name in zip(widths, cells.names, strict=True)
    ]
    count = len(least)
    if sum(least) + len(BETWEEN) * (count - 1) <= width:
        return list(range(count))
    room = width - len(MORE) - len(BETWEEN)
    first, last = [0], list[int]()
    room -= least[0]
    order = [i for pair in zip(range(count - 1, 0, -1), range(1, count), strict=True) for i in pair]
    for i in dict.fromkeys(order):
        if room < least[i] + len(BETWEEN):
            break
        room -= least[i] + len(BETWEEN)
        (last if i == count - 1 - len(last) else first).append(i)
    return first + last[::-1]


def _narrowed(shown: Sequence[int], widths: Sequence[int], width: int) -> list[int]:
    """Widths of all columns, such that those that are shown fit: the widest are cut first."""
    found = list(widths)
    gaps = len(shown) if len(shown) < len(widths) else len(shown) - 1
    room = width - len(BETWEEN) * gaps - (len(MORE) if len(shown) < len(widths) else 0)
    excess = sum(found[i] for i in shown) - room
    while excess > 0:
        widest = max(shown, key=lambda i: found[i])
        if found[widest] <= 1:
            break
        others = max((found[i] for i in shown if found[i] < found[widest]), default=1)
        step = max(1, min(excess, found[widest] - others))
        found[widest] -= step
        excess -= step
    return found


def _lines(cells: Cells, shown: Sequence[int], widths: Sequence[int]) -> list[str]:
    gap = next((n for n, i in enumerate(shown) if i != n), len(shown))
    elided = len(shown) < len(widths)

    def line(texts: Sequence[str], between: str, more: str, *, fill: str = " ") -> str:
        found = [
            fill * widths[i] if fill != " " else _padded(texts[i], widths[i], right=cells.numbers[i])
            for i in shown
        ]
        if elided:
            found.insert(gap, more)
        return between.join(found).rstrip() if fill == " " else between.join(found)

    head = line(cells.names, BETWEEN, MORE)
    rule = line(cells.names, CROSS, LINE, fill=LINE)
    return [head, rule, *(line(row, BETWEEN, MORE) for row in cells.rows)]


def _padded(text: str, size: int, *, right: bool) -> str:
    text = _cut(text, size)
    space = " " * (size - cell_count(text))
    return space + text if right else text + space


def _cut(text: str, size: int) -> str:
    if cell_count(text) <= size:
        return text
    kept, used = [], 0
    for c in text:
        used += cell_count(c)
        if used > size - 1:
            break
        kept.append(c)
    return "".join(kept) + MORE


def _folded(text: str, room: int) -> list[str]:
    if not room or cell_count(text) <= room:
        return [text]
    pieces, current, used = [], "", 0
    for c in text:
        size = cell_count(c)
        if used + size > room:
            pieces.append(current)
            current, used = "", 0
        current, used = current + c, used + size
    return [*pieces, current]
