"""The map of parts as SVG: small whatever there is to draw, and readable without any script.

    drawn(found)          up to `MARKS` parts: each a tile from its low to its high on both axes, and a dot whose area is its bytes
                          more: a grid, and in each of its cells a square whose area is the bytes of the parts whose middle is there

Without a query colours are levels: how often a part was compacted. With one they say what it does with the part: left dry, read, or
proven whole; in a cell of the grid the three squares lie in each other.

Tiles of a colour are one path, so that 100,000 parts are a few dozen kilobytes. What a pointer or the arrow keys need to say what
they stand on is in `data-marks`, numbers alone, a line for each mark: x y width height parts rows bytes level id kept whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.expr.specs import Verdict
from tidegate.serve.web.markup import Html, el
from tidegate.serve.web.scale import Scale
from tidegate.serve.web.words import plural, size
from tidegate.session.partmap import PartMap

WIDTH, HEIGHT = 1120, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 1108, 10, 388
MARKS = 900
"""Parts that are drawn one by one."""
CELLS = (52, 17)
"""The grid for more of them: as many squares as a small drawing has room for."""
ACROSS, UP = 10, 5
"""About so many ticks."""
LEVELS = 5
"""Colours of levels; higher ones have the last."""


@dataclass(frozen=True, eq=False)
class Marks:
    """What is drawn: arrays with an entry for each tile or cell."""

    x: np.ndarray
    y: np.ndarray
    w: np.ndarray
    h: np.ndarray
    parts: np.ndarray
    rows: np.ndarray
    size: np.ndarray
    level: np.ndarray
    id: np.ndarray
    """-1 where there are several parts."""
    kept: np.ndarray
    whole: np.ndarray
    """Of the parts, how many are read, and proven whole."""
    layers: tuple[tuple[str, np.ndarray], ...]
    """Classes, from the lowest layer up, and the bytes that each has in each mark."""

    def __len__(self) -> int:
        return len(self.x)


def drawn(found: PartMap) -> Html:
    """The map."""
    x = Scale.of(found.x, LEFT, RIGHT)
    y = Scale.of(found.y, BOTTOM, TOP)
    single = len(found) <= MARKS
    marks = _tiles(found, x, y) if single else _cells(found, x, y)
    asked = " asked" if found.verdict is not None else ""
    return el(
        "svg",
        _lines(x, y),
        _tiled(found, marks) if single else None,
        _dots(found, marks, round_=single),
        _labels(x, y),
        el("rect", class_="cursor", width=0, height=0),
        id="map",
        class_=f"map{asked}",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex="0",
        aria_label=_told(found),
        aria_describedby="mark",
        data_marks=_numbers(marks),
        data_collection=found.collection,
    )


def _told(found: PartMap) -> str:
    """The picture in words."""
    words = f"{plural(len(found), 'part')} of {found.collection}, by {found.x.name} and {found.y.name}"
    if found.verdict is None:
        return words
    many = [int(np.count_nonzero(found.verdict == one)) for one in Verdict]
    return f"{words}: {many[0]:,} left out, {many[1]:,} read, {many[2]:,} proven whole"


# ---------------------------------------------------------------- what is drawn


def _classes(found: PartMap, *, few: bool = False) -> tuple[np.ndarray, list[str]]:
    """Of each part which colour it has, and the classes of the colours; `few`: three at most."""
    if found.verdict is not None:
        return found.verdict.astype(np.int64), ["dry", "read", "whole"]
    if few:
        return np.minimum(found.level, 2).astype(np.int64), ["level0", "level1", "level2"]
    return np.minimum(found.level, LEVELS - 1).astype(np.int64), [f"level{i}" for i in range(LEVELS)]


def _boxes(found: PartMap, x: Scale, y: Scale) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Left, right, top and bottom of each part; a bound that is not known is the edge."""
    left, right = x.places(found.x.low, x.low), x.places(found.x.high, x.high)
    bottom, top = y.places(found.y.low, y.low), y.places(found.y.high, y.high)
    return left, right, top, bottom


def _tiles(found: PartMap, x: Scale, y: Scale) -> Marks:
    left, right, top, bottom = _boxes(found, x, y)
    colour, classes = _classes(found)
    kept, whole = _fates(found)
    return Marks(
        left, top, right - left, bottom - top, np.ones(len(found), np.int64), found.rows, found.size,
        found.level, found.id, kept.astype(np.int64), whole.astype(np.int64),
        tuple((name, np.where(colour == i, found.size, 0)) for i, name in enumerate(classes)),
    )  # fmt: skip


def _fates(found: PartMap) -> tuple[np.ndarray, np.ndarray]:
    if found.verdict is None:
        return np.ones(len(found), bool), np.zeros(len(found), bool)
    return found.verdict != Verdict.NONE, found.verdict == Verdict.ALL


def _cells(found: PartMap, x: Scale, y: Scale) -> Marks:
    """Parts by the cell that their middle is in, added up."""
    left, right, top, bottom = _boxes(found, x, y)
    width, height = (RIGHT - LEFT) / CELLS[0], (BOTTOM - TOP) / CELLS[1]
    column = np.clip(((left + right) / 2 - LEFT) / width, 0, CELLS[0] - 1).astype(np.int64)
    row = np.clip(((top + bottom) / 2 - TOP) / height, 0, CELLS[1] - 1).astype(np.int64)
    cells, where = np.unique(row * CELLS[0] + column, return_inverse=True)
    many = len(cells)

    def added(weights: np.ndarray) -> np.ndarray:
        return np.bincount(where, weights, many)

    colour, classes = _classes(found, few=True)
    # Each square holds those of the layers above it, so that what is on top is seen, and all of it together is the cell.
    layers = tuple(
        (name, added(np.where(colour >= i, found.size, 0)))
        for i, name in enumerate(classes)
        if (colour == i).any()
    )
    parts = np.bincount(where, minlength=many)
    kept, whole = _fates(found)
    level = np.zeros(many, np.int64)
    np.maximum.at(level, where, found.level)
    return Marks(
        LEFT + cells % CELLS[0] * width, TOP + cells // CELLS[0] * height, np.full(many, width),
        np.full(many, height), parts, added(found.rows), added(found.size), level,
        np.where(parts == 1, found.id[np.unique(where, return_index=True)[1]], -1),
        added(kept), added(whole), layers,
    )  # fmt: skip


# ---------------------------------------------------------------- as SVG


def _tiled(found: PartMap, marks: Marks) -> list[Html]:
    """The tiles: one path for each colour. They are wide enough to be seen, and lie apart by a little."""
    w, h = np.maximum(marks.w - 1, 2.5), np.maximum(marks.h - 1, 2.5)
    x, y = marks.x + (marks.w - w) / 2, marks.y + (marks.h - h) / 2
    shapes = [
        f"M{a:.0f} {b:.0f}h{c:.0f}v{d:.0f}h-{c:.0f}z"
        for a, b, c, d in zip(x.tolist(), y.tolist(), w.tolist(), h.tolist(), strict=True)
    ]
    return [_layer("tile", name, shapes, sizes > 0) for name, sizes in marks.layers if (sizes > 0).any()]


def _dots(found: PartMap, marks: Marks, *, round_: bool) -> list[Html]:
    """Bytes as area: dots in tiles, squares in cells."""
    if not len(marks):
        return []
    x, y = marks.x + marks.w / 2, marks.y + marks.h / 2
    if round_:  # as large as fits most tiles, and as fits so many dots anywhere
        narrow = float(np.quantile(np.minimum(marks.w, marks.h), 0.25))
        room = min(
            15.0, max(0.42 * narrow, 4.0), 0.44 * float(np.sqrt((RIGHT - LEFT) * (BOTTOM - TOP) / len(marks)))
        )
    else:
        room = min(float(marks.w[0]), float(marks.h[0])) * 0.46
    scale = room / np.sqrt(max(float(marks.size.max()), 1.0))
    layers = []
    for name, sizes in marks.layers:
        radius = np.maximum(np.sqrt(sizes) * scale, 1.0)
        make = _circle if round_ else _square
        shapes = [make(*one) for one in zip(x.tolist(), y.tolist(), radius.tolist(), strict=True)]
        layers.append(_layer("dot", name, shapes, sizes > 0))
    return layers


def _circle(x: float, y: float, r: float) -> str:
    r = round(r, 1)  # two half circles: were they rounded apart, they would bulge
    return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r:g} 0a{r} {r} 0 1 0-{2 * r:g} 0"


def _square(x: float, y: float, r: float) -> str:
    return f"M{x - r:.0f} {y - r:.0f}h{2 * r:.0f}v{2 * r:.0f}h-{2 * r:.0f}z"


def _layer(kind: str, name: str, shapes: list[str], there: np.ndarray) -> Html:
    path = "".join(shapes[i] for i in np.flatnonzero(there))
    return el("path", d=path, class_=f"{kind} {name}") if path else Html("")


def _numbers(marks: Marks) -> str:
    columns = [np.round(one).astype(np.int64).tolist() for one in (marks.x, marks.y, marks.w, marks.h)]
    columns += [one.astype(np.int64).tolist() for one in (marks.parts, marks.rows)]
    bytes_ = [size(int(one)).replace(" ", "_") for one in marks.size.tolist()]
    rest = [one.astype(np.int64).tolist() for one in (marks.level, marks.id, marks.kept, marks.whole)]
    return ";".join(" ".join(map(str, one)) for one in zip(*columns, bytes_, *rest, strict=True))


def _lines(x: Scale, y: Scale) -> Html:
    upright = [el("path", d=f"M{place:g} {TOP}V{BOTTOM}", class_="grid") for place, _ in x.ticks(ACROSS)]
    return el(
        "g", upright, [el("path", d=f"M{LEFT} {place:g}H{RIGHT}", class_="grid") for place, _ in y.ticks(UP)]
    )


def _labels(x: Scale, y: Scale) -> Html:
    """Every other one across can be left out where there is little room."""
    across = [
        el("text", text, x=place, y=BOTTOM + 20, class_="tick" + (" minor" if i % 2 else ""))
        for i, (place, text) in enumerate(x.ticks(ACROSS))
    ]
    up = [el("text", text, x=LEFT - 10, y=place + 4, class_="tick side") for place, text in y.ticks(UP)]
    return el("g", across, up, aria_hidden="true")


def mini(found: PartMap, width: int = 150, height: int = 36) -> Html:
    """A thumbnail: bytes along the x axis, as a tide."""
    bars = 30
    scale = Scale.of(found.x, 0, bars - 0.001)
    first = scale.places(found.x.low, scale.low).astype(np.int64)
    last = scale.places(found.x.high, scale.high).astype(np.int64)
    share = found.size / (last - first + 1)  # a part that lies over several bars is spread over them
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
        class_="mini", role="img", aria_label=f"bytes by {found.x.name}",
    )  # fmt: skip
