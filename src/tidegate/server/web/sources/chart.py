"""Small charts of a value over time as SVG, without scripts.

line_chart([(1700000000.0, 5.0), (1700000001.0, 7.5)], "records per second of orders", label=tick_label)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.server.web.markup import Child, Html, el
from tidegate.text import plural

WIDTH, HEIGHT = 600, 110
ROOM = 8
"""Room above the highest value."""
POINTS = 240
"""More points than this are joined, and the greatest of each stretch is drawn: peaks stay visible."""


def line_chart(
    points: Sequence[tuple[float, float]], name: str, *, heading: Child, label: Callable[[float], str]
) -> Html:
    """Draws values over time; the axis ends at the last one, and `label` formats a value."""
    points = _thinned(points)
    top = _round_up(max((value for _, value in points), default=0.0))
    first, last = (points[0][0], points[-1][0]) if points else (0.0, 0.0)
    span = max(last - first, 1.0)
    places = [
        f"{(at - first) / span * WIDTH:.1f} {HEIGHT - value / top * (HEIGHT - ROOM):.1f}"
        for at, value in points
    ]
    path = "M" + "L".join(places) if len(places) > 1 else ""
    now = label(points[-1][1]) if points else "unknown"
    highest = label(max(value for _, value in points)) if points else "unknown"
    middle = ROOM + (HEIGHT - ROOM) / 2
    drawing = el(
        "svg",
        el("path", d=f"M0 {ROOM}H{WIDTH}M0 {middle:g}H{WIDTH}", class_="grid"),
        el("path", d=f"{path}L{WIDTH} {HEIGHT}L0 {HEIGHT}z", class_="under") if path else None,
        el("path", d=path, class_="line") if path else None,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: now {now}, at most {highest} in the last {_span(span)}",
    )
    return el(
        "figure",
        el("figcaption", el("span", heading), el("b", now, class_="now")),
        el("div", drawing, el("span", label(top), class_="top") if path else None, class_="line-chart"),
        el("div", el("span", f"{_span(span)} ago"), el("span", "now"), class_="ends")
        if path
        else el("div", el("span", "not enough samples yet"), class_="ends"),
        class_="series",
    )


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(points) // POINTS)
    if step <= 1:
        return list(points)
    stretches = (points[start : start + step] for start in range(0, len(points), step))
    return [(stretch[-1][0], max(value for _, value in stretch)) for stretch in stretches]


def _span(seconds: float) -> str:
    return plural(round(seconds), "second") if seconds < 90 else plural(round(seconds / 60), "minute")


def _round_up(most: float) -> float:
    """Returns the next number of the form 1, 2, 5 × 10ⁿ."""
    unit = 1.0
    while unit * 10 <= most:
        unit *= 10
    return next(unit * n for n in (1, 2, 5, 10) if unit * n >= most)
