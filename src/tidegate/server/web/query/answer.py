"""The result of a statement as HTML: its first rows, how it was computed, and the time of each stage.

    results([result_card(result, 0.003, heading, limits), …])

Each answer has a heading of its own, with the statement, its path and its time. A table carries the order of its rows by each
column (`data-ranks`), by the order that ORDER BY has, so that `static/console/table.js` sorts what is shown without knowing types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TidegateError
from tidegate.expr.model import Kind, Type
from tidegate.query import Result, Stage, format_value, python_rows
from tidegate.server.web.layout import error_box, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.storage.part import row_keys
from tidegate.text import format_bytes, format_count, plural

MAX_ROWS = 1_000
MAX_CELL_LENGTH = 500
"""Characters of a value that are shown."""
MAX_VALUE_LENGTH = 20_000
"""Characters of a value that is sent whole, to be shown when it is clicked."""
BREAKABLE_LENGTH = 48
"""Characters from which on a value may be wrapped anywhere."""
MAX_CHARACTERS = 2_000_000
"""Characters of all values together."""
MAX_COLUMNS = 200
SNIPPET_LENGTH = 160
"""Characters of a statement in the heading of its result."""
_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


@dataclass(frozen=True)
class AnswerLimits:
    """How much of a result is shown."""

    rows: int = MAX_ROWS
    characters: int = MAX_CHARACTERS

    @staticmethod
    def shared(statements: int) -> AnswerLimits:
        """Returns the limits of each of several statements."""
        if statements == 1:
            return AnswerLimits()
        return AnswerLimits(min(MAX_ROWS, max(100, 3 * MAX_ROWS // statements)), MAX_CHARACTERS // statements)


@dataclass(frozen=True)
class AnswerHeading:
    """The statement that an answer belongs to."""

    sql: str
    box: str
    number: int = 1
    of: int = 1
    download: bool = False
    """Whether its rows can be downloaded."""

    def with_download(self, possible: bool) -> AnswerHeading:
        """Returns the heading of a result that can be downloaded, or cannot."""
        return replace(self, download=possible)

    def build(self, title: Child, cost: Child) -> Html:
        """Builds the head of an answer."""
        number = el("span", f"{self.number}", class_="number", title=f"Statement {self.number} of {self.of}")
        return el(
            "div",
            el("h2", number if self.of > 1 else None, title),
            cost,
            _downloads(self.sql, self.box) if self.download else None,
            el("code", _snippet(self.sql), class_="statement"),
            class_="head",
        )


def _snippet(sql: str) -> str:
    line = " ".join(sql[: 4 * SNIPPET_LENGTH].split())
    return line if len(line) <= SNIPPET_LENGTH else line[: SNIPPET_LENGTH - 1] + "…"


def _downloads(sql: str, box: str) -> Html:
    """Builds the buttons that run the query again and send all of its rows as a file."""
    return el(
        "form",
        el("input", type="hidden", name="sql", value=sql),
        el("input", type="hidden", name="box", value=box),
        [
            el("button", name, type="submit", formaction=f"/download?format={name.lower()}",
               title=f"Run the query again and download all of its rows as {name}")
            for name in ("CSV", "JSON", "Parquet")
        ],
        method="post", action="/download?format=csv", class_="tools", aria_label="Download", role="group",
    )  # fmt: skip


def empty_result() -> Html:
    """Returns the place for results."""
    return el("div", id="result", class_="result")


def results(answers: Sequence[Child], *, rows: int, seconds: float, failed: bool) -> Html:
    """Returns the results of a run; its attributes are for the history of the console."""
    state, milliseconds = "failed" if failed else "done", f"{1000 * seconds:.1f}"
    return el(
        "div",
        list(answers),
        id="result",
        class_="result",
        data_state=state,
        data_rows=rows,
        data_ms=milliseconds,
    )


def failed_card(error: TidegateError, heading: AnswerHeading | None = None) -> Html:
    """Shows the error of a statement; its heading if there are several."""
    head = heading.build("Error", None) if heading is not None and heading.of > 1 else None
    return el("section", head, error_box(error), class_="answer failed")


def result_card(result: Result, seconds: float, heading: AnswerHeading, limits: AnswerLimits) -> Html:
    """Shows the result of a statement."""
    if result.is_text:
        return _message_card(result, seconds, heading)
    with result:
        live, ready = result.live, result.ready
        shown = _ShownRows.read(result, limits)
    omitted = [
        "more rows" if live else plural(ready - shown.count, "more row") if ready > shown.count else None,
        plural(len(result.names) - MAX_COLUMNS, "more column") if len(result.names) > MAX_COLUMNS else None,
    ]
    more = " and ".join(text for text in omitted if text)
    title = f"More than {plural(ready, 'row')}" if live else plural(ready, "row")
    whole = ": download all of them as CSV, JSON or Parquet" if heading.download else ""
    return el(
        "section",
        heading.build(result.tag or title, cost_line(result, seconds)),
        el("div", shown.table(), class_="rows"),
        el("p", f"… and {more}{whole}", class_="quiet more") if more else None,
        stage_details(result.scan.stages),
        class_="card answer",
        data_cut=bool(more),
    )  # fmt: skip


def _message_card(result: Result, seconds: float, heading: AnswerHeading) -> Html:
    """Shows what a statement says that has no rows: in a line, or the lines of an explanation."""
    text = result.text()
    if not result.names and "\n" not in text:
        took = el("p", f"in {format_seconds(seconds)}", class_="cost")
        return el("section", heading.build(text or "Done", took), class_="card answer")
    message = el("pre", text, class_="said")
    return el("section", heading.build("Result", cost_line(result, seconds)), message, class_="card answer")


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class _ShownRows:
    """The rows of a result that are shown."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    rows: list[list[Child]]
    columns: list[pa.Array]

    @property
    def count(self) -> int:
        return len(self.rows)

    @staticmethod
    def read(result: Result, limits: AnswerLimits) -> _ShownRows:
        """Reads the first rows that fit; no others are read from an unfinished query."""
        names, types = result.names[:MAX_COLUMNS], result.types[:MAX_COLUMNS]
        rows: list[list[Child]] = []
        batches: list[pa.RecordBatch] = []
        letters = 0
        for batch in result.batches():
            batches.append(batch)
            for row in python_rows(batch.slice(0, limits.rows - len(rows)).columns[:MAX_COLUMNS], types):
                cells = [None if value is None else format_value(value) for value in row]
                letters += sum(_sent_length(cell) for cell in cells)
                if letters > limits.characters and rows:
                    return _ShownRows(names, types, rows, _first_rows(batches, len(types), len(rows)))
                rows.append([_cell(cell, type_) for cell, type_ in zip(cells, types, strict=True)])
            if len(rows) >= limits.rows:
                break
        return _ShownRows(names, types, rows, _first_rows(batches, len(types), len(rows)))

    def table(self) -> Html:
        """Builds the table."""
        heads = [
            el("th", name, scope="col", class_=_cell_class(type_), title=f"{name}: {type_}",
               data_kind=_sort_of_kind(type_), data_ranks=self._ranks(i))
            for i, (name, type_) in enumerate(zip(self.names, self.types, strict=True))
        ]  # fmt: skip
        classes = [_cell_class(type_) for type_ in self.types]
        body = [
            el("tr", [el("td", value, class_=class_) for value, class_ in zip(row, classes, strict=True)])
            for row in self.rows
        ]  # fmt: skip
        return el(
            "div", el("table", el("thead", el("tr", heads)), el("tbody", body)), class_="scroll", tabindex="0",
            role="region", aria_label="Rows",
        )  # fmt: skip

    def _ranks(self, column: int) -> str | None:
        """Returns the place of each row in the order of a column; equal values have the same, NULL has none."""
        if self.count < 2:
            return None
        values = self.columns[column]
        keys = row_keys([values], len(values))
        ranks = pc.rank(keys, tiebreaker="dense").to_pylist()
        return " ".join(
            "" if null else str(rank) for rank, null in zip(ranks, values.is_null().to_pylist(), strict=True)
        )


def _first_rows(batches: Sequence[pa.RecordBatch], columns: int, rows: int) -> list[pa.Array]:
    """Returns the first rows of batches, by column."""
    if not batches:
        return [pa.nulls(0)] * columns
    return [
        pa.chunked_array([batch.column(i) for batch in batches]).slice(0, rows).combine_chunks()
        for i in range(columns)
    ]


def _sort_of_kind(type_: Type) -> str:
    """Returns what a chart and a click have to know of a type."""
    if type_.is_number:
        return "number"
    if type_.kind in _TIMES:
        return "time"
    return "json" if type_.kind is Kind.JSONB or type_.is_nested else "text"


def _cell_class(type_: Type) -> str | None:
    return {"number": "n", "time": "t"}.get(_sort_of_kind(type_))


def _sent_length(cell: str | None) -> int:
    length = len(cell or "")
    return length if length <= MAX_VALUE_LENGTH else MAX_CELL_LENGTH


def _cell(value: str | None, type_: Type) -> Child:
    if value is None:
        return el("span", "∅", class_="null", title="NULL")
    if len(value) > MAX_CELL_LENGTH:
        whole = value if len(value) <= MAX_VALUE_LENGTH else None
        shown = value[: MAX_CELL_LENGTH - 1] + "…"
        return el("span", shown, class_="long", data_value=whole, data_length=len(value))
    if _sort_of_kind(type_) == "json" or len(value) > BREAKABLE_LENGTH:
        return el("span", value, class_="long" if len(value) > BREAKABLE_LENGTH else "document")
    return value


# ---------------------------------------------------------------- cost


def format_seconds(seconds: float) -> str:
    """Formats a duration: 3.1 ms, 12.0 s."""
    return f"{1000 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def cost_line(result: Result, seconds: float) -> Html:
    """Summarizes the path, the time and what was read."""
    scan = result.scan
    read = None
    if scan.parts_total:
        amounts = f"{format_bytes(scan.bytes_read)} of {format_bytes(scan.bytes_total)}"
        read = f" · read {scan.parts_read:,} of {plural(scan.parts_total, 'part')}, {amounts}"
    return el("p", el("b", result.path, class_="path"), f" in {format_seconds(seconds)}", read, class_="cost")


def stage_details(stages: Sequence[Stage]) -> Html | None:
    """Lists the stages with their rows, bytes and time, as bars."""
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
    )


def _stage(stage: Stage, most: float) -> list[Child]:
    return [
        el("code", stage.name), format_count(stage.rows_in), format_count(stage.rows_out), format_bytes(stage.bytes),
        f"{1000 * stage.seconds:.1f}", share_bar(stage.seconds / most),
    ]  # fmt: skip


def share_bar(share: float, kind: str = "read") -> Html:
    """Draws a share, from 0 to 1, as a bar."""
    return el(
        "svg", el("rect", width=max(round(100 * share, 1), 1.0) if share else 0, height=8, class_=kind), viewBox="0 0 100 8",
        class_="share small", preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip
