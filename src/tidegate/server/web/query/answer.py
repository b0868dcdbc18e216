"""The result of a query as HTML: its first rows, how it was computed, and the time of each stage."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.query import Result, Stage, format_value, python_rows
from tidegate.server.web.layout import card, error_box, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.text import format_bytes, format_count, plural

MAX_ROWS = 1_000
MAX_CELL_LENGTH = 500
"""Characters of a value that are shown."""
BREAKABLE_LENGTH = 48
"""Characters from which on a value may be wrapped anywhere."""
MAX_CHARACTERS = 2_000_000
"""Characters of all values together."""
MAX_COLUMNS = 200


def empty_result() -> Html:
    """Returns the place for a result."""
    return el("div", id="result", class_="result")


def failed_result(error: TidegateError) -> Html:
    """Shows the error of a query."""
    return el("div", error_box(error), id="result", class_="result")


def result_card(result: Result, seconds: float) -> Html:
    """Shows the result of a query."""
    if result.is_text:
        message = el("pre", result.text(), class_="said") if result.text() else el("p", "Done.")
        return el(
            "div",
            card("Result", message, _stages(result), more=_cost(result, seconds)),
            id="result",
            class_="result",
        )
    with result:
        live, ready = result.live, result.ready
        rows = _rows(result)
    names = list(result.names[:MAX_COLUMNS])
    omitted = [
        "more rows" if live else plural(ready - len(rows), "more row") if ready > len(rows) else None,
        plural(len(result.names) - MAX_COLUMNS, "more column") if len(result.names) > MAX_COLUMNS else None,
    ]
    more = " and ".join(text for text in omitted if text)
    return el(
        "div",
        card(
            f"More than {plural(ready, 'row')}" if live else plural(ready, "row"),
            _stages(result),
            table(names, rows, _numbers(result)),
            el("p", f"… and {more}: download all of them as CSV, JSON or Parquet", class_="quiet") if more else None,
            more=_cost(result, seconds),
        ),
        id="result",
        class_="result",
    )  # fmt: skip


def _numbers(result: Result) -> frozenset[int]:
    return frozenset(i for i, type_ in enumerate(result.types[:MAX_COLUMNS]) if type_.is_number)


def _rows(result: Result) -> list[list[Child]]:
    """Returns the first rows that fit; no others are read from an unfinished query."""
    rows: list[list[Child]] = []
    letters, types = 0, result.types[:MAX_COLUMNS]
    for batch in result.batches():
        for row in python_rows(batch.slice(0, MAX_ROWS - len(rows)).columns[:MAX_COLUMNS], types):
            cells = [None if value is None else format_value(value) for value in row]
            letters += sum(min(len(cell or ""), MAX_CELL_LENGTH) for cell in cells)
            if letters > MAX_CHARACTERS and rows:
                return rows
            rows.append([_cell(cell) for cell in cells])
        if len(rows) >= MAX_ROWS:
            break
    return rows


def _cell(value: str | None) -> Child:
    if value is None:
        return el("span", "∅", class_="null", title="NULL")
    shown = value if len(value) <= MAX_CELL_LENGTH else value[: MAX_CELL_LENGTH - 1] + "…"
    return el("span", shown, class_="long") if len(shown) > BREAKABLE_LENGTH else shown


def _cost(result: Result, seconds: float) -> Html:
    """Summarizes the path, the time and what was read."""
    scan = result.scan
    took = f"{1000 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
    read = None
    if scan.parts_total:
        amounts = f"{format_bytes(scan.bytes_read)} of {format_bytes(scan.bytes_total)}"
        read = f" · read {scan.parts_read:,} of {plural(scan.parts_total, 'part')}, {amounts}"
    return el("p", el("b", result.path, class_="path"), f" in {took}", read, class_="cost")


def _stages(result: Result) -> Html | None:
    """Lists the stages with their rows, bytes and time, as bars."""
    stages = result.scan.stages
    if not stages:
        return None
    most = max((stage.seconds for stage in stages), default=0.0) or 1.0
    return el(
        "details",
        el("summary", plural(len(stages), "stage")),
        table(
            ["stage", "rows in", "rows out", "bytes", "ms", ""],
            [_stage(stage, most) for stage in stages],
            frozenset((1, 2, 3, 4)),
        ),
        class_="stages",
        open=True,
    )


def _stage(stage: Stage, most: float) -> list[Child]:
    width = round(100 * stage.seconds / most, 1)
    bar = el(
        "svg", el("rect", width=max(width, 1.0), height=8, class_="read"), viewBox="0 0 100 8", class_="share small",
        preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip
    return [
        el("code", stage.name), format_count(stage.rows_in), format_count(stage.rows_out), format_bytes(stage.bytes),
        f"{1000 * stage.seconds:.1f}", bar,
    ]  # fmt: skip
