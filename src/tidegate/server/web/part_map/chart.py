"""The map of parts with its choice of axes, its legend and its caption.

part_map_chart(part_map)      the figure with id `chart`; a collection without parts is a sentence instead of a map
"""

from __future__ import annotations

import numpy as np

from tidegate.expr.domain import Verdict
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.part_map import svg as drawing
from tidegate.server.web.terms import hint
from tidegate.statements.preview import PART_AXES, Axis, PartMap
from tidegate.text import format_count, plural

METADATA_AXIS_NAMES = {
    "_time": "time of change",
    "_part": "part number",
    "_rows": "rows",
    "_size": "size",
    "_level": "level",
}
AXIS_MEANING = (
    "Any column, or what is known of a part itself. A part spans the range from the smallest to the largest value in it: "
    "its bounds. Where statistics know no bounds, it spans the whole axis."
)
VERDICT_MEANINGS = {
    "pruned": "Statistics prove that no row of the part can pass the filter or fail: it is not read.",
    "read": "Some rows may pass the filter: the part is read, and the filter is evaluated.",
    "proven whole": "Statistics prove that every row passes: the filter is not evaluated, and count(*) and LIMIT check no rows.",
}
AREA_MEANING = {
    True: "Each mark is one part. Its rectangle is the range of its values on both axes, the area of its dot its bytes.",
    False: "There are too many parts to draw each. Every cell of the grid adds up the parts whose centre is in it; the area of its "
    "square is their bytes. A square inside of another one is the share of its kind.",
}
DELETED_MEANING = (
    "Rows that were deleted, and stay stored for AS OF until compaction removes them. The hole in a mark is their share of "
    "its rows."
)


def deleted_words(part_map: PartMap) -> Child:
    """How many rows of the parts are deleted."""
    deleted = 0 if part_map.deleted is None else int(part_map.deleted.sum())
    return [", ", hint(plural(deleted, "deleted row"), DELETED_MEANING)] if deleted else None


def part_map_chart(part_map: PartMap) -> Html:
    """Shows the map with its axes and legend; without parts, a sentence says why there is none."""
    single = len(part_map) <= drawing.MAX_TILES
    canvas: Child = [
        drawing.part_map_svg(part_map),
        # The script puts this one in the place of the other on narrow screens.
        el("template", drawing.part_map_svg(part_map, drawing.NARROW), data_narrow=True),
    ]
    if not len(part_map):
        canvas = el("div", el("p", _nothing(part_map)), id="map", class_="map blank nothing")
    return el(
        "figure",
        el(
            "div",
            _choice("y", "Y axis", part_map.y, part_map),
            _choice("x", "X axis", part_map.x, part_map),
            el("input", type="hidden", name="of", value=part_map.collection, form="ask"),
            _legend(part_map, single) if len(part_map) else None,
            class_="axes",
        ),
        el("div", canvas, class_="canvas"),
        el("figcaption", _caption(part_map, single), id="mark", aria_live="polite"),
        id="chart",
        class_="chart",
    )  # fmt: skip


def _nothing(part_map: PartMap) -> str:
    """Why there is no part to draw."""
    if part_map.beyond:
        return f"No part has rows now: {_beyond(part_map)}."
    return f"{part_map.collection} is empty: nothing was written to it yet."


def _beyond(part_map: PartMap) -> str:
    verb = "has" if part_map.beyond == 1 else "have"
    return (
        f"{plural(part_map.beyond, 'part')} {verb} only rows that have expired, were deleted, or begin later"
    )


def _caption(part_map: PartMap, single: bool) -> str:
    if not len(part_map):
        return ""
    what = f"Each mark is one part of {part_map.collection}"
    if not single:
        what = f"Each square adds up the parts of {part_map.collection} whose centre is in its cell"
    beyond = f"; {_beyond(part_map)}" if part_map.beyond else ""
    return f"{what}{beyond}. Arrow keys move between them, Enter shows the details of a part."


def _legend(part_map: PartMap, single: bool) -> Html:
    """Says what the colours mean, and how many parts have each."""
    entries: list[Child] = []
    if part_map.verdict is not None:
        names = zip(("dry", "read", "whole"), VERDICT_MEANINGS.items(), Verdict, strict=True)
        for colour, (name, meaning), verdict in names:
            entries.append(_colour(colour, name, int(np.count_nonzero(part_map.verdict == verdict)), meaning))
    else:
        most = drawing.LEVEL_COLOURS - 1 if single else 2
        levels, counts = np.unique(np.minimum(part_map.level, most), return_counts=True)
        for level, count in zip(levels.tolist(), counts.tolist(), strict=True):
            more = " or more" if level == most else ""
            name = f"compacted {level}×{more}" if level else "as written"
            meaning = f"Level {level}{more}: how many rounds of compaction made the part."
            entries.append(_colour(f"level{level}", name, count, meaning))
    if part_map.deleted is not None and part_map.deleted.any():
        entries.append(_colour("gone", "deleted rows", int(part_map.deleted.sum()), DELETED_MEANING))
    area = "dot area: bytes" if single else "square area: bytes"
    return el("div", entries, hint(area, AREA_MEANING[single]), class_="legend")


def _choice(field: str, label: str, axis: Axis, part_map: PartMap) -> Html:
    names = [*part_map.choices, *PART_AXES]
    names = names if axis.name in names else [axis.name, *names]
    options = [
        el("option", METADATA_AXIS_NAMES.get(name, name), value=name, selected=name == axis.name)
        for name in names
    ]
    select = el("select", options, name=field, form="ask", data_tip=AXIS_MEANING)
    return el("label", el("span", label), select, class_="axis")


def _colour(name: str, text: str, count: int, meaning: str) -> Html:
    swatch = el(
        "svg", el("rect", width=12, height=12, rx=3, class_=name), viewBox="0 0 12 12", aria_hidden="true"
    )
    return el("span", swatch, hint([text, " ", el("b", format_count(count))], meaning), class_="colour")
