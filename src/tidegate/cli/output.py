"""Prints results as a table, CSV or JSON lines.

    print_result(result, "table")       a table that fits the terminal, and a line about what was read
    print_result(result, "json")        one JSON object per row
    print_result(result, "csv")         a header and lines

All rows are read; only those that a table shows are held in memory. In tables and CSV, values are written as PostgreSQL writes
them; in JSON as JSON values, jsonb included.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Literal, TextIO

from tidegate.text import format_duration

if TYPE_CHECKING:
    from tidegate.query import Result

Format = Literal["table", "csv", "json", "parquet"]
Expanded = Literal["off", "on", "auto"]
"""Whether each value has a line of its own: `auto` where a table would not fit."""
_GAP = re.compile(r"(?<=\S) {3,}(?=\S+(?: \S+)*$)")
"""The last stretch of blanks inside of a line."""
MAX_TABLE_ROWS = 1_000
"""Rows of a table on a screen."""


def print_result(
    result: Result,
    form: Format,
    out: TextIO | None = None,
    *,
    began: float | None = None,
    expanded: Expanded = "off",
    width: int | None = None,
) -> None:
    """Prints a result; with `began`, also the time since then.

    Tables have at most `width` columns: those of the terminal if that is where they go; 0: any number.
    """
    if width is None:
        from tidegate.query.display import terminal_width

        width = terminal_width() if out is None or out is sys.stdout else 0
    out = out or sys.stdout
    if result.is_text:
        message = fit_gaps(result.text(), width)
        out.write(json.dumps({"said": message}) + "\n" if form == "json" else message and message + "\n")
    elif form in ("json", "csv"):
        from tidegate.server import csv_lines, json_lines

        for data in json_lines(result) if form == "json" else csv_lines(result):
            out.write(data.decode())
    else:
        _print_table(result, out, expanded, width)
    if began is not None and form == "table":
        out.write(f"Time: {format_duration(time.perf_counter() - began)}\n")


def fit_gaps(text: str, width: int) -> str:
    """A plan whose estimates move to the left, if the terminal has fewer columns than the plan."""
    if not width:
        return text
    return "\n".join(
        _narrowed(line, len(line) - width) if len(line) > width else line for line in text.split("\n")
    )


def _narrowed(line: str, excess: int) -> str:
    """A line with its last gap shortened, to two spaces at least."""
    return _GAP.sub(lambda gap: " " * max(2, len(gap[0]) - excess), line, count=1)


def _print_table(result: Result, out: TextIO, expanded: Expanded, width: int) -> None:
    from tidegate.query.display import Cells, footer, record_text, table_text, table_width

    first, total = first_rows(result, MAX_TABLE_ROWS)
    cells = Cells.of(result.names, result.types, first)
    wide = bool(width) and table_width(cells) > width
    as_records = expanded == "on" or (expanded == "auto" and wide)
    out.writelines(
        line + "\n" for line in (record_text(cells, width) if as_records else table_text(cells, width))
    )
    if total > MAX_TABLE_ROWS:
        out.write(
            f"… and {total - MAX_TABLE_ROWS:,} more rows: --format csv, json or parquet prints all of them\n"
        )
    out.write(footer(result) + "\n")


def first_rows(result: Result, most: int) -> tuple[list[tuple[Any, ...]], int]:
    """Returns the first rows and the number of all; other rows are read and dropped."""
    from tidegate.query import python_rows

    first: list[tuple[Any, ...]] = []
    total = 0
    for batch in result.batches():
        first += python_rows(batch.slice(0, max(0, most - total)).columns, result.types)
        total += batch.num_rows
    return first, total
