"""Draws the map of parts as SVG, small for any number of parts and readable without scripts.

    up to `MAX_TILES` parts    each is a tile from its low to its high on both axes, and a dot whose area is its bytes
    more parts                 a grid, where the area of the square in a cell is the bytes of the parts whose centre is in it

Without a query the colour is the level: how often a part was compacted. With a query it says whether the part is pruned, read, or
proven whole; in a cell of the grid the three squares are nested. Rows that are deleted are a hole: the share of them is the share
of the dot, or of the square, that the hole takes.

The map is drawn for two widths, `WIDE` and `NARROW`, since text and marks of one cannot be read at the other.

Tiles of a colour are one path, so that 100,000 parts take a few dozen kilobytes. `data-marks` has the numbers that the pointer
and the arrow keys show, a line per mark: x y width height parts rows bytes level id read whole deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.expr.domain import Verdict
from tidegate.server.web.markup import Html, el
from tidegate.server.web.part_map.scale import Scale
from tidegate.statements.preview import PartMap
from tidegate.text import format_bytes, plural

MAX_TILES = 900
"""The most parts that are drawn one by one."""


@dataclass(frozen=True)
class MapFrame:
    """The measures of a drawing, and of the rectangle of the map inside of it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    cells: tuple[int, int]
    """Columns and rows of the grid for many parts."""
    ticks: tuple[int, int]
    """Approximate numbers of ticks along x and y."""


WIDE = MapFrame(1120, 420, 84, 1108, 10, 388, cells=(52, 17), ticks=(10, 5))
NARROW = MapFrame(344, 360, 6, 338, 20, 334, cells=(18, 17), ticks=(3, 4))
"""For screens of about 400 pixels: the labels of the y axis are inside of the map."""
CHARACTER = 6.8
"""Approximate width of a character at a tick."""
UNKNOWN = "statistics know nothing of this axis"
LEVEL_COLOURS = 5
"""Number of colours for levels; higher levels share the last."""


@dataclass(frozen=True, eq=False)
class Marks:
    """What is drawn: arrays with one entry per tile or cell."""

    x: np.ndarray
    y: np.ndarray
    w: np.ndarray
    h: np.ndarray
    parts: np.ndarray
    rows: np.ndarray
    size: np.ndarray
    level: np.ndarray
    id: np.ndarray
    """-1 for several parts."""
    kept: np.ndarray
    whole: np.ndarray
    """How many of the parts are read, and how many proven whole."""
    deleted: np.ndarray
    """How many of the rows are deleted."""
    layers: tuple[tuple[str, np.ndarray], ...]
    """CSS classes from the lowest layer up, and the bytes of each in every mark."""

    def __len__(self) -> int:
        return len(self.x)


def part_map_svg(part_map: PartMap, frame: MapFrame = WIDE) -> Html:
    """Draws the map."""
    x = Scale.of(part_map.x, frame.left, frame.right)
    y = Scale.of(part_map.y, frame.bottom, frame.top)
    single = len(part_map) <= MAX_TILES
    marks = _tiles(part_map, x, y) if single else _cells(part_map, x, y, frame)
    classes = ["map", "asked" if part_map.verdict is not None else "", "narrow" if frame is NARROW else ""]
    return el(
        "svg",
        _grid_lines(x, y, frame),
        _tile_paths(marks) if single else None,
        _dot_paths(marks, frame, round_=single),
        _labels(x, y, frame),
        el("rect", class_="cursor", width=0, height=0),
        id="map",
        class_=" ".join(filter(None, classes)),
        viewBox=f"0 0 {frame.width} {frame.height}",
        role="img",
        tabindex="0",
        aria_label=_description(part_map),
        aria_describedby="mark",
        data_marks=_marks_data(marks),
        data_collection=part_map.collection,
    )


def _description(part_map: PartMap) -> str:
    """Describes the picture in words."""
    words = f"{plural(len(part_map), 'part')} of {part_map.collection}, by {part_map.x.name} and {part_map.y.name}"
    if part_map.verdict is None:
        return words
    counts = [int(np.count_nonzero(part_map.verdict == verdict)) for verdict in Verdict]
    return f"{words}: {counts[0]:,} pruned, {counts[1]:,} read, {counts[2]:,} proven whole"


# ---------------------------------------------------------------- what is drawn


def _classes(part_map: PartMap, *, few: bool = False) -> tuple[np.ndarray, list[str]]:
    """Returns the colour number of each part, and the CSS classes; `few`: at most three."""
    if part_map.verdict is not None:
        return part_map.verdict.astype(np.int64), ["dry", "read", "whole"]
    if few:
        return np.minimum(part_map.level, 2).astype(np.int64), ["level0", "level1", "level2"]
    return np.minimum(part_map.level, LEVEL_COLOURS - 1).astype(np.int64), [
        f"level{i}" for i in range(LEVEL_COLOURS)
    ]


def _rectangles(
    part_map: PartMap, x: Scale, y: Scale
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns left, right, top and bottom of each part; an unknown bound is at the edge."""
    left, right = x.places(part_map.x.low, x.low), x.places(part_map.x.high, x.high)
    bottom, top = y.places(part_map.y.low, y.low), y.places(part_map.y.high, y.high)
    return left, right, top, bottom


def _tiles(part_map: PartMap, x: Scale, y: Scale) -> Marks:
    left, right, top, bottom = _rectangles(part_map, x, y)
    colour, classes = _classes(part_map)
    kept, whole = _read_and_whole(part_map)
    return Marks(
        left, top, right - left, bottom - top, np.ones(len(part_map), np.int64), part_map.rows, part_map.size,
        part_map.level, part_map.id, kept.astype(np.int64), whole.astype(np.int64), _deleted(part_map),
        tuple((name, np.where(colour == i, part_map.size, 0)) for i, name in enumerate(classes)),
    )  # fmt: skip


def _read_and_whole(part_map: PartMap) -> tuple[np.ndarray, np.ndarray]:
    if part_map.verdict is None:
        return np.ones(len(part_map), bool), np.zeros(len(part_map), bool)
    return part_map.verdict != Verdict.NONE, part_map.verdict == Verdict.ALL


def _deleted(part_map: PartMap) -> np.ndarray:
    return np.zeros(len(part_map), np.int64) if part_map.deleted is None else part_map.deleted


def _cells(part_map: PartMap, x: Scale, y: Scale, frame: MapFrame) -> Marks:
    """Sums up the parts whose centre is in the same cell."""
    left, right, top, bottom = _rectangles(part_map, x, y)
    columns, lines = frame.cells
    width, height = (frame.right - frame.left) / columns, (frame.bottom - frame.top) / lines
    column = np.clip(((left + right) / 2 - frame.left) / width, 0, columns - 1).astype(np.int64)
    row = np.clip(((top + bottom) / 2 - frame.top) / height, 0, lines - 1).astype(np.int64)
    cells, where = np.unique(row * columns + column, return_inverse=True)
    many = len(cells)

    def added(weights: np.ndarray) -> np.ndarray:
        return np.bincount(where, weights, many)

    colour, classes = _classes(part_map, few=True)
    # Each square includes those of the layers above it, so that the upper ones stay visible and the lowest is the whole cell.
    layers = tuple(
        (name, added(np.where(colour >= i, part_map.size, 0)))
        for i, name in enumerate(classes)
        if (colour == i).any()
    )
    parts = np.bincount(where, minlength=many)
    kept, whole = _read_and_whole(part_map)
    level = np.zeros(many, np.int64)
    np.maximum.at(level, where, part_map.level)
    return Marks(
        frame.left + cells % columns * width, frame.top + cells // columns * height, np.full(many, width),
        np.full(many, height), parts, added(part_map.rows), added(part_map.size), level,
        np.where(parts == 1, part_map.id[np.unique(where, return_index=True)[1]], -1),
        added(kept), added(whole), added(_deleted(part_map)), layers,
    )  # fmt: skip


# ---------------------------------------------------------------- as SVG


def _tile_paths(marks: Marks) -> list[Html]:
    """Draws tiles as one path per colour, wide enough to be seen and slightly apart."""
    w, h = np.maximum(marks.w - 1, 2.5), np.maximum(marks.h - 1, 2.5)
    x, y = marks.x + (marks.w - w) / 2, marks.y + (marks.h - h) / 2
    shapes = [
        f"M{a:.0f} {b:.0f}h{c:.0f}v{d:.0f}h-{c:.0f}z"
        for a, b, c, d in zip(x.tolist(), y.tolist(), w.tolist(), h.tolist(), strict=True)
    ]
    return [_layer("tile", name, shapes, sizes > 0) for name, sizes in marks.layers if (sizes > 0).any()]


def _dot_paths(marks: Marks, frame: MapFrame, *, round_: bool) -> list[Html]:
    """Draws bytes as areas: dots in tiles, squares in cells."""
    if not len(marks):
        return []
    x, y = marks.x + marks.w / 2, marks.y + marks.h / 2
    if round_:  # as large as most tiles and the number of dots allow
        narrow = float(np.quantile(np.minimum(marks.w, marks.h), 0.25))
        area = (frame.right - frame.left) * (frame.bottom - frame.top)
        room = min(15.0, max(0.42 * narrow, 4.0), 0.44 * float(np.sqrt(area / len(marks))))
    else:
        room = min(float(marks.w[0]), float(marks.h[0])) * 0.46
    scale = room / np.sqrt(max(float(marks.size.max()), 1.0))
    layers = []
    share = marks.deleted / np.maximum(marks.rows, 1)
    for name, sizes in (*marks.layers, ("gone", np.where(marks.deleted > 0, marks.size * share, 0.0))):
        radius = np.maximum(np.sqrt(sizes) * scale, 1.0)
        make = _circle if round_ else _square
        shapes = [make(*dot) for dot in zip(x.tolist(), y.tolist(), radius.tolist(), strict=True)]
        layers.append(_layer("dot", name, shapes, sizes > 0))
    return layers


def _circle(x: float, y: float, r: float) -> str:
    r = round(r, 1)  # both half circles must have the same rounded radius
    return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r:g} 0a{r} {r} 0 1 0-{2 * r:g} 0"


def _square(x: float, y: float, r: float) -> str:
    return f"M{x - r:.0f} {y - r:.0f}h{2 * r:.0f}v{2 * r:.0f}h-{2 * r:.0f}z"


def _layer(kind: str, name: str, shapes: list[str], there: np.ndarray) -> Html:
    path = "".join(shapes[i] for i in np.flatnonzero(there))
    return el("path", d=path, class_=f"{kind} {name}") if path else Html("")


def _marks_data(marks: Marks) -> str:
    columns = [np.round(column).astype(np.int64).tolist() for column in (marks.x, marks.y, marks.w, marks.h)]
    columns += [column.astype(np.int64).tolist() for column in (marks.parts, marks.rows)]
    bytes_ = [format_bytes(int(one)).replace(" ", "_") for one in marks.size.tolist()]
    last = (marks.level, marks.id, marks.kept, marks.whole, marks.deleted)
    rest = [column.astype(np.int64).tolist() for column in last]
    return ";".join(" ".join(map(str, mark)) for mark in zip(*columns, bytes_, *rest, strict=True))


def _grid_lines(x: Scale, y: Scale, frame: MapFrame) -> Html:
    upright = [
        el("path", d=f"M{place:g} {frame.top}V{frame.bottom}", class_="grid")
        for place, _ in x.ticks(frame.ticks[0])
    ]
    across = [
        el("path", d=f"M{frame.left} {place:g}H{frame.right}", class_="grid")
        for place, _ in y.ticks(frame.ticks[1])
    ]
    return el("g", upright, across)


def _labels(x: Scale, y: Scale, frame: MapFrame) -> Html:
    """Labels the ticks that have room; on a narrow map, those of the y axis are inside."""
    across, up, free = [], [], 0.0
    for place, text in x.ticks(frame.ticks[0]):
        half = len(text) * CHARACTER / 2
        middle = min(max(place, half), frame.width - half)
        if middle - half >= free:
            across.append(el("text", text, x=round(middle, 1), y=frame.bottom + 20, class_="tick"))
            free = middle + half + CHARACTER
    inside = frame is NARROW
    for place, text in y.ticks(frame.ticks[1]):
        at = {"x": frame.left + 2, "y": place - 4} if inside else {"x": frame.left - 10, "y": place + 4}
        up.append(el("text", text, **at, class_="tick inside" if inside else "tick side"))
    for axis, line in ((x.axis, {"x": (frame.left + frame.right) / 2, "y": frame.bottom + 20}),
                       (y.axis, {"x": frame.left + 8, "y": frame.top + 14})):  # fmt: skip
        if not axis.is_known and len(axis.low):
            up.append(el("text", UNKNOWN, **line, class_="tick" if axis is x.axis else "tick inside"))
    return el("g", across, up, aria_hidden="true")


def thumbnail_svg(part_map: PartMap, width: int = 150, height: int = 36) -> Html:
    """Draws a thumbnail: bytes along the x axis."""
    bars = 30
    scale = Scale.of(part_map.x, 0, bars - 0.001)
    first = scale.places(part_map.x.low, scale.low).astype(np.int64)
    last = scale.places(part_map.x.high, scale.high).astype(np.int64)
    share = part_map.size / (last - first + 1)  # a part is spread over the bars that it covers
    edges = np.bincount(first, share, bars + 1) - np.bincount(last + 1, share, bars + 1)
    weights = np.cumsum(edges)[:bars]
    most = max(float(weights.max()), 1.0)
    step = width / bars
    shapes = [
        f"M{i * step:.1f} {height}v-{max(one / most * (height - 2), 1):.1f}h{step - 1:.1f}V{height}z"
        for i, one in enumerate(weights.tolist())
        if one
    ]
    return el(
        "svg", el("path", d="".join(shapes)), viewBox=f"0 0 {width} {height}", preserveAspectRatio="none",
        class_="mini", role="img", aria_label=f"bytes by {part_map.x.name}",
    )  # fmt: skip
