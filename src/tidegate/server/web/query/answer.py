"""The answer of a query: its first rows, how they were come by, and what each stage took. Bounded, whatever the result is."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.scan.result import Result, Stage
from tidegate.scan.values import python_rows
from tidegate.serve.output import text
from tidegate.serve.web.layout import card, table, trouble
from tidegate.serve.web.markup import Child, Html, el
from tidegate.serve.web.words import amount, plural, size

ROWS = 1_000
CELL = 500
"""Letters of a value."""
LONG = 48
"""Letters from which on a value may be broken anywhere."""
LETTERS = 2_000_000
"""Letters of all values together."""
COLUMNS = 200


def empty() -> Html:
    """Where it will stand."""
    return el("div", id="result", class_="result")


def failed(error: TidegateError) -> Html:
    """A query that failed."""
    return el("div", trouble(error), id="result", class_="result")


def shown(result: Result, seconds: float) -> Html:
    """A query that was answered."""
    if not result.names:
        said = el("pre", result.text(), class_="said") if result.text() else el("p", "Done.")
        return el(
            "div",
            card("Answer", said, _stages(result), more=_cost(result, seconds)),
            id="result",
            class_="result",
        )
    with result:
        live, ready = result.live, result.ready
        rows = _rows(result)
    names = list(result.names[:COLUMNS])
    left = [
        "more rows" if live else plural(ready - len(rows), "more row") if ready > len(rows) else None,
        plural(len(result.names) - COLUMNS, "more column") if len(result.names) > COLUMNS else None,
    ]
    more = " and ".join(one for one in left if one)
    return el(
        "div",
        card(
            f"More than {plural(ready, 'row')}" if live else plural(ready, "row"),
            _stages(result),
            table(names, rows, _numbers(result)),
            el("p", f"… and {more}: the buttons CSV, JSON and Parquet give all of them", class_="quiet") if more else None,
            more=_cost(result, seconds),
        ),
        id="result",
        class_="result",
    )  # fmt: skip


def _numbers(result: Result) -> frozenset[int]:
    return frozenset(i for i, type_ in enumerate(result.types[:COLUMNS]) if type_.is_number)


def _rows(result: Result) -> list[list[Child]]:
    """The first rows, as many as fit; no more than these are read of those that are still to be read."""
    rows: list[list[Child]] = []
    letters, types = 0, result.types[:COLUMNS]
    for batch in result.batches():
        for row in python_rows(batch.slice(0, ROWS - len(rows)).columns[:COLUMNS], types):
            cells = [None if value is None else text(value) for value in row]
            letters += sum(min(len(cell or ""), CELL) for cell in cells)
            if letters > LETTERS and rows:
                return rows
            rows.append([_cell(cell) for cell in cells])
        if len(rows) >= ROWS:
            break
    return rows


def _cell(value: str | None) -> Child:
    if value is None:
        return el("span", "∅", class_="null", title="NULL")
    shown = value if len(value) <= CELL else value[: CELL - 1] + "…"
    return el("span", shown, class_="long") if len(shown) > LONG else shown


def _cost(result: Result, seconds: float) -> Html:
    """How it was answered."""
    scan = result.scan
    took = f"{1000 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
    read = None
    if scan.parts_total:
        amounts = f"{size(scan.bytes_read)} of {size(scan.bytes_total)}"
        read = f" · read {scan.parts_read:,} of {plural(scan.parts_total, 'part')}, {amounts}"
    return el("p", el("b", result.path, class_="path"), f" in {took}", read, class_="cost")


def _stages(result: Result) -> Html | None:
    """What was done, one after the other; what took longest has the longest bar."""
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
        el("code", stage.name), amount(stage.rows_in), amount(stage.rows_out), size(stage.bytes),
        f"{1000 * stage.seconds:.1f}", bar,
    ]  # fmt: skip
