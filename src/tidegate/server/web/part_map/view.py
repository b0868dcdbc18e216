"""HTML about the parts that a query reads: a summary, its conditions, the map, and single parts.

verdict            "reads 3 of 365 parts, 1.2 MB of 410 MB", and a bar of the bytes
conditions         what each condition prunes
part_details       one part: its bounds, and what each condition says about them
parts_table        the parts as a table, for those who cannot see the map
"""

from __future__ import annotations

import numpy as np

from tidegate.errors import TidegateError
from tidegate.expr.domain import Verdict
from tidegate.query import format_value
from tidegate.server.web.layout import error_box, facts, table
from tidegate.server.web.markup import Child, Html, el, join_html
from tidegate.server.web.part_map.chart import (
    METADATA_AXIS_NAMES,
    VERDICT_MEANINGS,
    deleted_words,
    part_map_chart,
)
from tidegate.server.web.terms import hint, term
from tidegate.statements.preview import (
    Axis,
    CollectionPreview,
    ConditionEffect,
    PartFacts,
    PartMap,
    QueryMap,
)
from tidegate.text import format_bytes, format_count, format_time, plural

MAX_TABLE_ROWS = 500
"""Rows of the table of parts."""
MAX_VALUE_LENGTH = 120
"""Characters of a value."""
PRUNES_MEANING = "Parts in which no row passes this condition, by their statistics. Those on its own are pruned by no other."
NO_PRUNING_MEANING = {
    True: "Statistics could show that no row passes, but in every part some row may.",
    False: "No statistics tell in which parts the condition is false.",
}
VERDICT_NAMES = {"none": "pruned", "some": "read", "all": "proven whole"}


def query_view(query: QueryMap, at: int, only: int | None) -> list[Child]:
    """Shows what a query reads."""
    if not query.readings:
        texts = {
            "nothing": "Type a query to see which parts it reads.",
            "select": "Reads no collection.",
            "explain": "Reads no collection.",
        }
        words = texts.get(query.kind, f"{query.kind.replace('_', ' ').upper()}: nothing to show.")
        summary = el("div", el("p", words, class_="quiet"), id="verdict", class_="verdict")
        return [summary, _no_chart(), el("div", id="conditions")]
    at = min(at, len(query.readings) - 1)
    preview = query.readings[at]
    others = _others(query.readings, at) if len(query.readings) > 1 else None
    return [verdict(preview), part_map_chart(preview.map), conditions(preview, only, others)]


def collection_view(part_map: PartMap, kind: str = "nothing") -> list[Child]:
    """Shows a collection without a query."""
    total = int(part_map.size.sum())
    words = "Type a query to see which parts it reads."
    if kind not in ("nothing", "select"):
        words = f"{kind.replace('_', ' ').upper()}: reads no parts."
    sentence = el(
        "p",
        el("b", plural(len(part_map), "part")),
        f", {format_bytes(total)}",
        deleted_words(part_map),
        ". ",
        el("span", words, class_="quiet"),
    )
    return [
        el("div", sentence, id="verdict", class_="verdict"),
        part_map_chart(part_map),
        el("div", id="conditions"),
    ]


def failed_view(error: TidegateError) -> Html:
    """Shows why a text is not a query (yet)."""
    return el("div", error_box(error), id="verdict", class_="verdict")


def _no_chart() -> Html:
    return el("figure", el("div", class_="map blank"), id="chart", class_="chart")


# ---------------------------------------------------------------- what a query reads


def verdict(preview: CollectionPreview) -> Html:
    """Summarizes which parts of a collection a query reads."""
    count, bytes_read = (0, 0) if preview.path == "metadata" else (preview.kept, preview.bytes_kept)
    sentence = el(
        "p",
        "reads at most " if preview.path == "peek" and count else "reads ",
        el("b", f"{count:,} of {plural(preview.total, 'part')}"),
        ", ",
        el("b", f"{format_bytes(bytes_read)} of {format_bytes(preview.bytes_total)}"),
        class_="sentence",
    )
    whole = hint(f"{plural(preview.whole, 'part')} proven whole", VERDICT_MEANINGS["proven whole"])
    rest = el(
        "p",
        f"{format_bytes(preview.bytes_total - bytes_read)} ",
        term("prune", "pruned"),
        [" · ", whole] if preview.whole else None,
        " · ",
        term("path", f"path: {preview.path}"),
        class_="quiet",
    )
    return el(
        "div",
        sentence,
        _bar(bytes_read, preview.bytes_total),
        rest,
        id="verdict",
        class_="verdict",
        aria_live="polite",
    )


def conditions(preview: CollectionPreview, only: int | None, others: Child = None) -> Html:
    """Lists the conditions of a query and what each prunes."""
    rows = [_condition(i, judged, preview.total, i == only) for i, judged in enumerate(preview.conjuncts)]
    return el("div", others, el("ul", rows, class_="conjuncts") if rows else None, id="conditions")


def _bar(read: int, total: int) -> Html:
    """Draws the share of bytes that is read."""
    share = max(round(1000 * read / max(total, 1), 1), 3.0) if read else 0
    return el(
        "svg", el("rect", width=1000, height=10, class_="dry"), el("rect", width=share, height=10, class_="read"),
        viewBox="0 0 1000 10", preserveAspectRatio="none", class_="share", aria_hidden="true",
    )  # fmt: skip


def _condition(i: int, one: ConditionEffect, total: int, chosen: bool) -> Html:
    """Shows a condition: what it prunes, and why not more."""
    does: Child = hint(
        "prunes nothing" if one.can_prune else "cannot prune parts", NO_PRUNING_MEANING[one.can_prune]
    )
    if one.pruned:
        alone = (
            f", {format_count(one.alone)} of them on its own"
            if one.alone and one.alone != one.pruned
            else None
        )
        does = [hint(el("b", f"prunes {format_count(one.pruned)}"), PRUNES_MEANING), alone]
    proves = (
        ["; ", hint(f"proves {format_count(one.whole)} whole", VERDICT_MEANINGS["proven whole"])]
        if one.whole
        else None
    )
    share = 100 * one.pruned / max(total, 1)
    return el(
        "li",
        el(
            "label",
            el("input", type="checkbox", name="only", value=i, form="ask", checked=chosen,
               data_tip="Shows the effect of this condition alone on the map.", data_single=True),
            el("code", one.text),
        ),
        el("svg", el("rect", width=100, height=6, class_="read"), el("rect", width=round(share, 1), height=6, class_="dry"),
           viewBox="0 0 100 6", preserveAspectRatio="none", class_="share small", aria_hidden="true"),
        el("span", does, proves, el("span", f": {one.why}", class_="quiet") if one.why else None, class_="does"),
        class_="conjunct",
    )  # fmt: skip


def _others(readings: tuple[CollectionPreview, ...], at: int) -> Html:
    """Offers the collections that a query reads, of which one is drawn."""
    return el(
        "div",
        [
            el(
                "label",
                el("input", type="radio", name="at", value=i, form="ask", checked=i == at),
                el("span", f"{one.map.collection}: {one.kept:,} of {one.total:,}"),
                class_="choice",
            )
            for i, one in enumerate(readings)
        ],
        class_="choices",
        role="radiogroup",
        aria_label="Collections that the query reads",
    )


# ---------------------------------------------------------------- parts one by one


def parts_placeholder() -> Html:
    """Returns the places for the details of one part and for the table of parts."""
    listing = el(
        "details", el("summary", "Parts as a table"), el("div", id="listed"), class_="listing", data_load="/parts"
    )  # fmt: skip
    return join_html([el("div", id="part", class_="part"), listing])


def part_details(details: PartFacts) -> Html:
    """Shows one part."""
    part = details.part
    fate = None if details.verdict is None else VERDICT_NAMES[details.verdict]
    bounds: list[list[Child]] = [
        [el("code", name), _value(low), _value(high)] for name, low, high in details.bounds
    ]
    return el(
        "div",
        el("h3", f"Part {part.id}", el("span", fate, class_=f"fate {details.verdict}") if fate else None),
        el("ul", [el("li", el("code", line)) for line in details.why], class_="why") if details.why else None,
        facts(
            ("rows", format_count(part.rows)),
            *(((term("deletion", "deleted rows"), format_count(details.deleted)),) if details.deleted else ()),
            ("bytes", format_bytes(part.size)), (term("level"), format_count(part.level)),
            ("changes from", format_time(part.first)), ("to", format_time(part.last)), ("written", format_time(part.written)),
            *(((term("expiry", "expires"), format_time(part.expires)),) if part.expires is not None else ()),
        ),
        table(["column", "min", "max"], bounds, words={"min": "bound", "max": "bound"}, stacked=True, label="Bounds of columns")
        if bounds
        else None,
        el("p", el("code", part.name), class_="quiet"),
        id="part",
        class_="part",
    )  # fmt: skip


def _value(value: object) -> Html:
    shown = format_value(value)
    return el(
        "code",
        "unknown"
        if value is None
        else shown
        if len(shown) <= MAX_VALUE_LENGTH
        else shown[: MAX_VALUE_LENGTH - 1] + "…",
    )


def parts_table(part_map: PartMap) -> Html:
    """Lists the first parts as a table; with a query, those that are read come first."""
    order = (
        np.arange(len(part_map))
        if part_map.verdict is None
        else np.argsort(part_map.verdict == Verdict.NONE, kind="stable")
    )
    shown = order[:MAX_TABLE_ROWS].tolist()
    names_ = [VERDICT_NAMES[verdict.name.lower()] for verdict in Verdict]
    counts = [part_map.id, part_map.level, part_map.rows]
    rows: list[list[Child]] = [
        [
            *(format_count(int(count[i])) for count in counts),
            format_bytes(int(part_map.size[i])),
            *([] if part_map.deleted is None else [format_count(int(part_map.deleted[i]))]),
            *(_end(axis, end[i]) for axis in (part_map.x, part_map.y) for end in (axis.low, axis.high)),
            "" if part_map.verdict is None else names_[int(part_map.verdict[i])],
        ]
        for i in shown
    ]
    x, y = (METADATA_AXIS_NAMES.get(axis.name, axis.name) for axis in (part_map.x, part_map.y))
    deleted = ["deleted"] if part_map.deleted is not None else []
    names = ["part", "level", "rows", "bytes", *deleted, f"{x} from", "to", f"{y} from", "to", "query"]
    words = {"part": "part", "level": "level", "deleted": "deletion", "query": "verdict"}
    more = (
        f"The first {MAX_TABLE_ROWS:,} of {plural(len(part_map), 'part')}."
        if len(part_map) > MAX_TABLE_ROWS
        else None
    )
    return el(
        "div",
        table(names, rows, frozenset(range(4 + len(deleted))), words=words, stacked=True, label="Parts"),
        el("p", more, class_="quiet") if more else None,
        id="listed",
    )


def _end(axis: Axis, value: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    match axis.scale:
        case "time":
            return format_time(int(value))
        case "text":
            return axis.texts[int(value)][:MAX_VALUE_LENGTH]
        case "log":
            return f"{10.0**value:,.0f}"
        case "number":
            return f"{value:,.10g}"
