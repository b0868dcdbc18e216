"""What a query does with parts, drawn: the sentence that says it, the conditions that did it, the map, one part.

verdict      "reads 3 of 365 parts, 1.2 MB of 410 MB", a bar of the bytes, and a line for each condition
chart        the map, its axes to choose, what its colours mean
part         one part that was pointed at: its bounds, and what each condition says of them
listed       the parts as a table, for who does not see the map
"""

from __future__ import annotations

import numpy as np

from tidegate.errors import TidegateError
from tidegate.expr.specs import Verdict
from tidegate.serve.output import text
from tidegate.serve.web import drawing
from tidegate.serve.web.layout import facts, table, trouble
from tidegate.serve.web.markup import Child, Html, el, join
from tidegate.serve.web.words import amount, moment, plural, size
from tidegate.session.partmap import OWN, Axis, PartMap
from tidegate.session.querymap import Judged, PartFacts, QueryMap, Reading

OWN_NAMES = {
    "_time": "time of change",
    "_part": "number",
    "_rows": "rows",
    "_size": "bytes",
    "_level": "level",
}
LISTED = 500
"""Parts of a table."""
VALUE = 120
"""Letters of a value."""
FATES = {"none": "left out", "some": "read", "all": "proven whole"}


def drawn(found: QueryMap, at: int, only: int | None) -> list[Child]:
    """A query."""
    if not found.readings:
        texts = {
            "nothing": "Type a query, and see which parts it reads.",
            "select": "Reads no collection.",
            "explain": "Reads no collection.",
        }
        words = texts.get(found.kind, f"{found.kind.replace('_', ' ').upper()}: nothing to draw.")
        said = el("div", el("p", words, class_="quiet"), id="verdict", class_="verdict")
        return [said, _no_chart(), el("div", id="conditions")]
    at = min(at, len(found.readings) - 1)
    one = found.readings[at]
    others = _others(found.readings, at) if len(found.readings) > 1 else None
    return [verdict(one), chart(one.map), conditions(one, only, others)]


def plain(found: PartMap, kind: str = "nothing") -> list[Child]:
    """A collection, without a query."""
    total = int(found.size.sum())
    words = "Type a query, and see which parts it reads."
    if kind not in ("nothing", "select"):
        words = f"{kind.replace('_', ' ').upper()}: reads no part."
    sentence = el(
        "p", el("b", plural(len(found), "part")), f", {size(total)}. ", el("span", words, class_="quiet")
    )
    return [el("div", sentence, id="verdict", class_="verdict"), chart(found), el("div", id="conditions")]


def failed(error: TidegateError) -> Html:
    """A text that is no query, or not yet."""
    return el("div", trouble(error), id="verdict", class_="verdict")


def _no_chart() -> Html:
    return el("figure", el("div", class_="map blank"), id="chart", class_="chart")


# ---------------------------------------------------------------- what it does


def verdict(one: Reading) -> Html:
    """What a query does with the parts of a collection."""
    kept, size_kept = (0, 0) if one.path == "metadata" else (one.kept, one.bytes_kept)
    sentence = el(
        "p",
        "reads at most " if one.path == "peek" and kept else "reads ",
        el("b", f"{kept:,} of {plural(one.total, 'part')}"),
        ", ",
        el("b", f"{size(size_kept)} of {size(one.bytes_total)}"),
        class_="sentence",
    )
    whole = f"{plural(one.whole, 'part')} proven whole · " if one.whole else ""
    saved = f"{size(one.bytes_total - size_kept)} left dry · "
    rest = el("p", f"{saved}{whole}path: {one.path}", class_="quiet")
    return el(
        "div",
        sentence,
        _bar(size_kept, one.bytes_total),
        rest,
        id="verdict",
        class_="verdict",
        aria_live="polite",
    )


def conditions(one: Reading, only: int | None, others: Child = None) -> Html:
    """What each condition does."""
    rows = [_judged(i, judged, one.total, i == only) for i, judged in enumerate(one.conjuncts)]
    return el("div", others, el("ul", rows, class_="conjuncts") if rows else None, id="conditions")


def _bar(read: int, total: int) -> Html:
    """Bytes: read, of all."""
    share = max(round(1000 * read / max(total, 1), 1), 3.0) if read else 0
    return el(
        "svg", el("rect", width=1000, height=10, class_="dry"), el("rect", width=share, height=10, class_="read"),
        viewBox="0 0 1000 10", preserveAspectRatio="none", class_="share", aria_hidden="true",
    )  # fmt: skip


def _judged(i: int, one: Judged, total: int, chosen: bool) -> Html:
    """A condition: what it leaves out, and why no more."""
    if one.pruned:
        does: Child = [el("b", f"leaves out {amount(one.pruned)}")]
        does = [
            does,
            f", {amount(one.alone)} of them alone" if one.alone and one.alone != one.pruned else None,
        ]
    else:
        does = "leaves out nothing" if one.can_prune else "cannot leave out parts"
    proves = f"; proves {amount(one.whole)} whole" if one.whole else None
    share = 100 * one.pruned / max(total, 1)
    return el(
        "li",
        el(
            "label",
            el("input", type="checkbox", name="only", value=i, form="ask", checked=chosen,
               title="Show what this condition does alone", data_single=True),
            el("code", one.text),
        ),
        el("svg", el("rect", width=100, height=6, class_="read"), el("rect", width=round(share, 1), height=6, class_="dry"),
           viewBox="0 0 100 6", preserveAspectRatio="none", class_="share small", aria_hidden="true"),
        el("span", does, proves, el("span", f": {one.why}", class_="quiet") if one.why else None, class_="does"),
        class_="conjunct",
    )  # fmt: skip


def _others(readings: tuple[Reading, ...], at: int) -> Html:
    """The collections that a query reads, of which one is drawn."""
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


# ---------------------------------------------------------------- the map


def chart(found: PartMap) -> Html:
    """The map, and what belongs to it."""
    bound = f" ({found.beyond:,} more have ended, or begin later)" if found.beyond else ""
    colours: tuple[tuple[str, str], ...]
    if found.verdict is not None:
        colours = (("dry", "left out"), ("read", "read"), ("whole", "proven whole"))
    else:
        most = drawing.LEVELS - 1 if len(found) <= drawing.MARKS else 2
        there = np.unique(np.minimum(found.level, most)).tolist() or [0]
        colours = tuple((f"level{i}", "as written" if i == 0 else f"compacted {i}×") for i in there)
    area = "dots: bytes" if len(found) <= drawing.MARKS else "squares: bytes of the parts there"
    return el(
        "figure",
        el(
            "div",
            _choice("y", "Up", found.y, found),
            _choice("x", "Across", found.x, found),
            el("input", type="hidden", name="of", value=found.collection, form="ask"),
            el("div", [_colour(*one) for one in colours], el("span", area, class_="quiet"), class_="legend"),
            class_="axes",
        ),
        el("div", drawing.drawn(found), class_="canvas"),
        el("figcaption", f"Each mark is a part of {found.collection}{bound}. Arrow keys walk over them, Enter tells more.",
           id="mark", aria_live="polite"),
        id="chart",
        class_="chart",
    )  # fmt: skip


def _choice(field: str, label: str, axis: Axis, found: PartMap) -> Html:
    known = [*found.choices, *OWN]
    names = known if axis.name in known else [axis.name, *known]
    options = [
        el("option", OWN_NAMES.get(name, name), value=name, selected=name == axis.name) for name in names
    ]
    return el("label", el("span", label), el("select", options, name=field, form="ask"), class_="axis")


def _colour(name: str, means: str) -> Html:
    swatch = el(
        "svg", el("rect", width=12, height=12, rx=3, class_=name), viewBox="0 0 12 12", aria_hidden="true"
    )
    return el("span", swatch, means, class_="colour")


# ---------------------------------------------------------------- parts one by one


def parts() -> Html:
    """Where one part is told of, and where all are listed."""
    listing = el(
        "details", el("summary", "Parts as a table"), el("div", id="listed"), class_="listing", data_load="/parts"
    )  # fmt: skip
    return join([el("div", id="part", class_="part"), listing])


def part(found: PartFacts) -> Html:
    """One part."""
    one = found.part
    fate = None if found.verdict is None else FATES[found.verdict]
    bounds: list[list[Child]] = [
        [el("code", name), _value(low), _value(high)] for name, low, high in found.bounds
    ]
    return el(
        "div",
        el("h3", f"Part {one.id}", el("span", fate, class_=f"fate {found.verdict}") if fate else None),
        el("ul", [el("li", el("code", line)) for line in found.why], class_="why") if found.why else None,
        facts(
            ("rows", amount(one.rows)), ("bytes", size(one.size)), ("level", amount(one.level)),
            ("changes from", moment(one.first)), ("to", moment(one.last)), ("written", moment(one.written)),
            *((("ends", moment(one.expires)),) if one.expires is not None else ()),
        ),
        table(["column", "least", "greatest"], bounds) if bounds else None,
        el("p", el("code", one.name), class_="quiet"),
        id="part",
        class_="part",
    )  # fmt: skip


def _value(value: object) -> Html:
    shown = text(value)
    return el(
        "code", "not known" if value is None else shown if len(shown) <= VALUE else shown[: VALUE - 1] + "…"
    )


def listed(found: PartMap) -> Html:
    """The first parts as a table; with a query, those that are read first."""
    order = (
        np.arange(len(found))
        if found.verdict is None
        else np.argsort(found.verdict == Verdict.NONE, kind="stable")
    )
    some = order[:LISTED].tolist()
    fates = [FATES[one.name.lower()] for one in Verdict]
    rows: list[list[Child]] = [
        [
            amount(int(found.id[i])), amount(int(found.level[i])), amount(int(found.rows[i])), size(int(found.size[i])),
            _end(found.x, found.x.low[i]), _end(found.x, found.x.high[i]), _end(found.y, found.y.low[i]),
            _end(found.y, found.y.high[i]), "" if found.verdict is None else fates[int(found.verdict[i])],
        ]
        for i in some
    ]  # fmt: skip
    x, y = (OWN_NAMES.get(axis.name, axis.name) for axis in (found.x, found.y))
    names = ["part", "level", "rows", "bytes", f"{x} from", "to", f"{y} from", "to", "query"]
    more = f"The first {LISTED:,} of {plural(len(found), 'part')}." if len(found) > LISTED else None
    return el(
        "div",
        table(names, rows, frozenset((0, 1, 2, 3))),
        el("p", more, class_="quiet") if more else None,
        id="listed",
    )


def _end(axis: Axis, value: float) -> str:
    if not np.isfinite(value):
        return "not known"
    match axis.scale:
        case "time":
            return moment(int(value))
        case "text":
            return axis.texts[int(value)][:VALUE]
        case "log":
            return f"{10.0**value:,.0f}"
        case "number":
            return f"{value:,.10g}"
