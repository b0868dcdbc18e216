"""Prints results as a table, CSV or JSON lines.

    show(result, "table")       a table that fits the terminal, and a line about what was read
    show(result, "json")        one JSON object per row
    show(result, "csv")         a header and lines

All rows are read; only those that a table shows are held in memory. In tables and CSV, values are written as PostgreSQL writes
them; in JSON as JSON values, jsonb included.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from tidegate.query import Result

Format = Literal["table", "csv", "json", "parquet"]
MAX_TABLE_ROWS = 1_000
"""Rows of a table on a screen."""


def print_result(
    result: Result, form: Format, out: TextIO | None = None, *, began: float | None = None
) -> None:
    """Prints a result; with `began`, also the time since then."""
    out = out or sys.stdout
    if result.is_text:
        message = result.text()
        out.write(json.dumps({"said": message}) + "\n" if form == "json" else message and message + "\n")
    elif form in ("json", "csv"):
        from tidegate.server import csv_lines, json_lines

        for data in json_lines(result) if form == "json" else csv_lines(result):
            out.write(data.decode())
    else:
        _print_table(result, out)
        out.write(result_footer(result) + "\n")
    if began is not None and form == "table":
        out.write(f"Time: {1000 * (time.perf_counter() - began):.1f} ms\n")


def result_footer(result: Result) -> str:
    """Returns the number of rows, the path, and what was read."""
    rows = f"{len(result):,} row{'' if len(result) == 1 else 's'}"
    from tidegate.text import format_bytes

    scan = result.scan
    if not scan.parts_total:
        return f"({rows})"
    read = f"{scan.parts_read:,} of {scan.parts_total:,} parts, {format_bytes(scan.bytes_read)} of {format_bytes(scan.bytes_total)}"
    return f"({rows}, from {result.path}: read {read})"


def _print_table(result: Result, out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tidegate.query import format_value

    console = Console(file=out, highlight=False, soft_wrap=False)
    table = Table(box=box.SQUARE, header_style="bold", show_edge=False, pad_edge=False)
    for name, type_ in zip(result.names, result.types, strict=True):
        table.add_column(Text(name), justify="right" if type_.is_number else "left", overflow="fold")
    first, total = first_rows(result, MAX_TABLE_ROWS)
    for row in first:
        table.add_row(
            *(Text("∅", style="dim") if value is None else Text(format_value(value)) for value in row)
        )
    console.print(table)
    if total > MAX_TABLE_ROWS:
        out.write(
            f"… and {total - MAX_TABLE_ROWS:,} more rows: --format csv, json or parquet prints all of them\n"
        )


def first_rows(result: Result, most: int) -> tuple[list[tuple[Any, ...]], int]:
    """Returns the first rows and the number of all; other rows are read and dropped."""
    from tidegate.query import python_rows

    first: list[tuple[Any, ...]] = []
    total = 0
    for batch in result.batches():
        first += python_rows(batch.slice(0, max(0, most - total)).columns, result.types)
        total += batch.num_rows
    return first, total
