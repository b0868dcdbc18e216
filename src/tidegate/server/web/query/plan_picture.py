"""EXPLAIN ANALYZE as a picture: what was read, where the time went, and the tree of the plan.

    plan_card(document, result, heading)      from EXPLAIN (ANALYZE, FORMAT JSON)

| piece | from |
|---|---|
| the bar of bytes: pruned, read, proven | `result.scan` |
| operators, with rows and time of each | `Operators` of the document: the embedded engine |
| stages, with rows, bytes and time of each | `result.scan.stages`: all paths |
| the tree: each operator with its conditions, rows, and why parts were kept | `Plan` of the document |
| Spark's own plan | `Spark Plan` of the document |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tidegate.query import Result, ScanMetrics, Stage
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.query.answer import AnswerHeading, cost_line, share_bar
from tidegate.text import format_bytes, format_count, plural

EM_SPACE = "\u2003"
Node: TypeAlias = Mapping[str, Any]


def plan_card(document: Node, result: Result, heading: AnswerHeading) -> Html:
    """Draws what EXPLAIN ANALYZE says about a query."""
    scan, rows = result.scan, document.get("Actual Rows", 0)
    operators: Sequence[Node] = document.get("Operators", ())
    spark = document.get("Spark Plan")
    return el(
        "section",
        heading.build(f"Analysis: {plural(rows, 'row')}", cost_line(result, document["Execution Time"] / 1000)),
        _bytes_bar(scan) if scan.parts_total else None,
        _bars("Operators", [_operator(one, operators) for one in operators], bytes_=False) if operators else None,
        _bars("Stages", [_stage(one, scan.stages) for one in scan.stages], bytes_=True) if scan.stages else None,
        el("h3", "Plan"),
        el("ul", _tree(document["Plan"]), class_="plan"),
        el("details", el("summary", "Plan of Spark"), el("pre", spark)) if spark else None,
        class_="card answer analysis",
    )  # fmt: skip


def _bytes_bar(scan: ScanMetrics) -> Html:
    """Draws which share of the bytes was read, was not needed after all, and was pruned."""
    total = max(scan.bytes_total, 1)
    skipped = max(total - scan.bytes_pruned - scan.bytes_read, 0)
    shares = (
        ("read", "read", scan.bytes_read),
        ("skip", "not read", skipped),
        ("dry", "pruned", scan.bytes_pruned),
    )
    bars: list[Child] = []
    at = 0.0
    for kind, _, size in shares:
        width = round(1000 * size / total, 1)
        bars.append(el("rect", x=round(at, 1), width=width, height=14, class_=kind))
        at += width
    legend = [
        el("span", el("svg", el("rect", width=12, height=12, rx=3, class_=kind), viewBox="0 0 12 12", aria_hidden="true"),
           f"{name} {format_bytes(size)}", class_="colour")
        for kind, name, size in shares if size
    ]  # fmt: skip
    parts = f"{scan.parts_read:,} of {plural(scan.parts_total, 'part')} read, {scan.parts_pruned:,} pruned"
    proven = f", {scan.parts_proven:,} proven whole" if scan.parts_proven else ""
    bar = el(
        "svg",
        bars,
        viewBox="0 0 1000 14",
        preserveAspectRatio="none",
        class_="share bytes",
        aria_hidden="true",
    )
    return el(
        "div",
        bar,
        el("p", legend, el("span", parts, proven, class_="quiet"), class_="legend"),
        class_="amounts",
    )


# ---------------------------------------------------------------- rows, bytes and time as bars


def _bars(title: str, rows: Sequence[Sequence[Child]], *, bytes_: bool) -> Html:
    """Builds a table whose numbers have bars beside them."""
    names = [(title, 1), ("rows", 2), *((("bytes", 2),) if bytes_ else ()), ("time", 2)]
    head = el(
        "tr",
        [
            el("th", name, scope="col", colspan=span, class_=None if i == 0 else "n")
            for i, (name, span) in enumerate(names)
        ],
    )
    body = [
        el("tr", [el("td", cell, class_="n" if i % 2 else None) for i, cell in enumerate(row)])
        for row in rows
    ]
    return el(
        "div", el("table", el("thead", head), el("tbody", body)), class_="scroll bars", tabindex="0", role="region",
        aria_label=title,
    )  # fmt: skip


def _operator(one: Node, operators: Sequence[Node]) -> list[Child]:
    depth = one["Depth"]
    indent = EM_SPACE * (depth - 1) + "└ " if depth else ""
    rows, milliseconds = one["Actual Rows"], one["Actual Total Time"]
    most_rows = max(other["Actual Rows"] for other in operators) or 1
    most_time = max(other["Actual Total Time"] for other in operators) or 1
    return [
        [el("span", indent, class_="quiet", aria_hidden="true"), el("code", one["Node Type"])],
        format_count(rows), share_bar(rows / most_rows, "rows"),
        f"{milliseconds:,.2f} ms", share_bar(milliseconds / most_time, "time"),
    ]  # fmt: skip


def _stage(one: Stage, stages: Sequence[Stage]) -> list[Child]:
    most_rows = max(max(other.rows_in, other.rows_out) for other in stages) or 1
    most_bytes = max(other.bytes for other in stages) or 1
    most_time = max(other.seconds for other in stages) or 1.0
    rows = f"{one.rows_in:,} → {one.rows_out:,}" if one.rows_in or one.rows_out else "–"
    return [
        el("code", one.name),
        rows, _rows_bar(one, most_rows),
        format_bytes(one.bytes) if one.bytes else "–", share_bar(one.bytes / most_bytes, "read"),
        f"{1000 * one.seconds:,.2f} ms", share_bar(one.seconds / most_time, "time"),
    ]  # fmt: skip


def _rows_bar(one: Stage, most: int) -> Html:
    """Draws the rows that come out of a stage over those that go in."""
    widths = [
        (kind, round(100 * rows / most, 1)) for kind, rows in (("dry", one.rows_in), ("rows", one.rows_out))
    ]
    return el(
        "svg", [el("rect", width=max(width, 1.0) if width else 0, height=8, class_=kind) for kind, width in widths],
        viewBox="0 0 100 8", class_="share small", preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip


# ---------------------------------------------------------------- the tree


def _tree(node: Node) -> Html:
    """Draws an operator of the plan and what is below it."""
    notes: Sequence[str] = node.get("Notes", ())
    brief = [note for note in notes if not note.startswith((" ", "why kept"))]
    detailed = [note for note in notes if note not in brief]
    inner = node.get("Plans", ())
    return el(
        "li",
        el(
            "div",
            el("b", node["Node Type"]),
            el("span", node["Rows"], class_="count") if node.get("Rows") else None,
            [el("code", detail) for detail in node.get("Details", ())],
            [el("span", note, class_="note") for note in brief],
            el("details", el("summary", "why kept"), el("pre", "\n".join(line[2:] for line in detailed if line.startswith(" "))))
            if detailed
            else None,
            class_="node",
        ),
        el("ul", [_tree(one) for one in inner]) if inner else None,
    )  # fmt: skip
