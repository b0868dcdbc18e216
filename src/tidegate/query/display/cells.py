"""Cells: the texts of some rows of a result, and the line below them that says what was read.

cells = Cells.of(["id", "note"], [INT8, TEXT], [(1, None)])
cells.rows                   [["1", "∅"]]
footer(result)               (1 row, from peek: read 1 of 365 parts, 812 B of 3.1 GB)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.expr.model import Type
from tidegate.query.value_text import format_value
from tidegate.text import format_bytes, plural

if TYPE_CHECKING:
    from tidegate.query.result import Result

NULL = "∅"
"""How NULL is shown; an empty text is shown as nothing."""
PREVIEW = 20
"""Rows of a result that `repr` and notebooks show."""
_SHOWN = str.maketrans({"\n": "↵", "\r": None, "\t": " "})


@dataclass(frozen=True)
class Cells:
    """Names of columns, whether each is a number, and rows of texts."""

    names: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: list[list[str]]

    @staticmethod
    def of(names: Sequence[str], types: Sequence[Type], rows: Sequence[Sequence[Any]]) -> Cells:
        """The texts of rows of Python values."""
        return Cells(
            tuple(_printable(name) for name in names),
            tuple(type_.is_number for type_ in types),
            [[NULL if value is None else _printable(format_value(value)) for value in row] for row in rows],
        )


def _printable(text: str) -> str:
    """A text in one line, without what a terminal would act upon."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text.translate(_SHOWN))


def preview(result: Result, most: int = PREVIEW) -> Cells:
    """The first rows of a result, as far as they are in memory: this reads nothing."""
    return Cells.of(result.names, result.types, result.first_rows(most))


def footer(result: Result, *, shown: int | None = None) -> str:
    """Says how many rows there are (or `shown` of them), how the query was answered, and what was read."""
    if result.live:
        rows = f"more than {plural(result.ready + result.count, 'row')}"
    else:
        total = result.count or result.ready
        rows = plural(total, "row")
        if shown is not None and shown < total:
            rows = f"first {shown:,} of {rows}"
    scan = result.scan
    if not scan.parts_total:
        return f"({rows})"
    parts = f"{scan.parts_read:,} of {plural(scan.parts_total, 'part')}"
    amount = f"{format_bytes(scan.bytes_read)} of {format_bytes(scan.bytes_total)}"
    return f"({rows}, from {result.path}: read {parts}, {amount})"
