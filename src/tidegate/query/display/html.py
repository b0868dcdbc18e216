"""A result as an HTML table, for notebooks.

    table_html(cells, "(2 rows)")       a table that scrolls sideways, with the footer below

It has no scripts and no colours of its own, so that it fits light and dark notebooks.
"""

from __future__ import annotations

import html

from tidegate.query.display.cells import NULL, Cells

LONGEST = 200
"""Characters of a cell; the whole value is its tooltip."""
HOVER = 2_000
"""Characters of a tooltip."""
_BOX = '<div style="overflow-x:auto;max-width:100%">'


def table_html(cells: Cells, note: str = "") -> str:
    """Rows as a table; `note` is a line below it."""
    head = "".join(f"<th{_align(number)}>{html.escape(name)}</th>" for name, number in _columns(cells))
    body = "".join(
        "<tr>"
        + "".join(_cell(value, number) for value, number in zip(row, cells.numbers, strict=True))
        + "</tr>"
        for row in cells.rows
    )
    table = f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f"{_BOX}{table}</div>{_note(note)}"


def text_html(text: str) -> str:
    """A text of several lines, such as a plan."""
    return f'<pre style="line-height:1.3">{html.escape(text)}</pre>'


def _note(note: str) -> str:
    return f'<div style="opacity:.7;font-size:90%">{html.escape(note)}</div>' if note else ""


def _columns(cells: Cells) -> list[tuple[str, bool]]:
    return list(zip(cells.names, cells.numbers, strict=True))


def _align(number: bool) -> str:  # one of two alignments
    return f' style="text-align:{"right" if number else "left"}"'


def _cell(value: str, number: bool) -> str:  # one of two alignments
    if value == NULL:
        return f'<td{_align(number)}><span style="opacity:.5" title="NULL">{NULL}</span></td>'
    if len(value) <= LONGEST:
        return f"<td{_align(number)}>{html.escape(value)}</td>"
    hover = html.escape(value[:HOVER], quote=True)
    return f'<td{_align(number)} title="{hover}">{html.escape(value[: LONGEST - 1])}…</td>'
