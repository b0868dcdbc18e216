"""Results for people and for programs: a table on the screen, CSV, JSON lines.

    show(result, "table")       boxes that fit the terminal, and below them what was read of what there is
    show(result, "json")        one JSON object a row: `export.py`, as for files
    show(result, "csv")         a header and lines

All rows are read, and none is held but those that a table shows. Values are spelled as PostgreSQL spells them in the table and in
CSV; in JSON as JSON has them, with jsonb as itself.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from tidegate.scan.result import Result

Format = Literal["table", "csv", "json", "parquet"]
ROWS = 1_000
"""Rows of a table on a screen; more scroll away unread."""


def show(result: Result, form: Format, out: TextIO | None = None, *, began: float | None = None) -> None:
    """Prints a result; with `began`, also how long it took since then."""
    out = out or sys.stdout
    if not result.names:
        said = result.text()
        out.write(json.dumps({"said": said}) + "\n" if form == "json" else said + "\n" if said else "")
    elif form in ("json", "csv"):
        from tidegate.serve import export  # which takes longer to import than a small query does

        for data in export.json_lines(result) if form == "json" else export.csv(result):
            out.write(data.decode())
    else:
        _table(result, out)
        out.write(footer(result) + "\n")
    if began is not None and form == "table":
        out.write(f"Time: {1000 * (time.perf_counter() - began):.1f} ms\n")


def footer(result: Result) -> str:
    """How many rows, how they were come by, and what was read for them."""
    rows = f"{len(result):,} row{'' if len(result) == 1 else 's'}"
    from tidegate.plan.explain import size

    scan = result.scan
    if not scan.parts_total:
        return f"({rows})"
    read = f"{scan.parts_read:,} of {scan.parts_total:,} parts, {size(scan.bytes_read)} of {size(scan.bytes_total)}"
    return f"({rows}, from {result.path}: read {read})"


def json_value(value: Any, kind: str) -> Any:
    """A value as JSON has it."""
    if isinstance(value, str) and kind == "jsonb":
        return json.loads(value)
    if isinstance(value, list):
        return [json_value(one, "") for one in value]
    if isinstance(value, dict):
        return {name: json_value(one, "") for name, one in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has neither NaN nor infinity
    return text(value)


def text(value: Any) -> str:
    """A value as PostgreSQL spells it."""
    match value:
        case None:
            return ""
        case bool():
            return "t" if value else "f"
        case bytes():
            return "\\x" + value.hex()
        case decimal.Decimal():
            return format(value, "f")
        case dt.datetime():
            shown = value.isoformat(" ")
            return shown.removesuffix(":00") if value.tzinfo else shown
        case dt.date() | dt.time() | uuid.UUID():
            return str(value)
        case list() | dict():
            return json.dumps(json_value(value, ""), ensure_ascii=False)
        case tuple():
            return _interval(*value)
        case _:
            return str(value)


def _interval(months: int, days: int, microseconds: int) -> str:
    years, months = divmod(abs(months), 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    words = [
        f"{count} {unit}{'' if count == 1 else 's'}"
        for count, unit in ((years, "year"), (months, "mon"), (days, "day"))
        if count
    ]
    if microseconds or not words:
        minus, left = "-" if microseconds < 0 else "", abs(microseconds)
        seconds, fraction = divmod(left, 1_000_000)
        clock = f"{minus}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        words.append(clock + (f".{fraction:06d}".rstrip("0") if fraction else ""))
    return " ".join(words)


def _table(result: Result, out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=False)
    table = Table(box=box.SQUARE, header_style="bold", show_edge=False, pad_edge=False)
    for name, type_ in zip(result.names, result.types, strict=True):
        table.add_column(Text(name), justify="right" if type_.is_number else "left", overflow="fold")
    first, total = shown(result, ROWS)
    for row in first:
        table.add_row(*(Text("∅", style="dim") if value is None else Text(text(value)) for value in row))
    console.print(table)
    if total > ROWS:
        out.write(f"… and {total - ROWS:,} more rows: --format csv, json or parquet gives all of them\n")


def shown(result: Result, most: int) -> tuple[list[tuple[Any, ...]], int]:
    """The first rows, and how many there are; the others are read, and not held."""
    from tidegate.scan.values import python_rows

    first: list[tuple[Any, ...]] = []
    total = 0
    for batch in result.batches():
        first += python_rows(batch.slice(0, max(0, most - total)).columns, result.types)
        total += batch.num_rows
    return first, total
