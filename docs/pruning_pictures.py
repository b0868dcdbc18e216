"""Draws the pictures of docs/pruning.md: `python docs/pruning_pictures.py` writes docs/pictures/pruning_*.svg.

Nothing in them is drawn by hand. A small lake is made in memory, of twelve parts of orders, and every bound, verdict and curve is
what the interpreter, or the evaluator, says of it. The clock stands still, so the pictures are the same
each time; a test compares them.

| picture | from |
|---|---|
| `pruning_parts.svg` | the verdicts of twelve parts for the temporal filter |
| `pruning_tree.svg` | one part: what each node of the filter may be |
| `pruning_fails.svg` | three functions over two ranges: where they fail, and what is claimed of them |
| `pruning_json.svg` | a path that holds numbers and texts: bounds of both |
| `pruning_pages.svg` | the pages of ten parts, of which few are read |
"""

from __future__ import annotations

import datetime as dt
import html
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.reasons import describe, explain_verdict
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import Call, Expr, Literal, Now
from tidegate.expr.model.types import FLOAT8, Kind
from tidegate.plan import MapFilterProject
from tidegate.query.prune import PruningPredicate
from tidegate.sql.bind.query import bind_expression
from tidegate.storage.shard.snapshot import open_snapshot

FOLDER = Path(__file__).parent / "pictures"
NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
NOW_MS = int(NOW.timestamp() * 1000)
FIRST = dt.datetime(2026, 2, 27, tzinfo=dt.UTC)
TEMPORAL = "mz_now() <= created_at + '30 days'"
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.code { font: 12px ui-monospace, monospace } .small { font-size: 11px } .dim { fill: #57606a }
.none { fill: #d0d7de } .some { fill: #d4a72c } .all { fill: #2da44e } .fail { stroke: #cf222e; fill: none }
.line { stroke: #57606a; fill: none } .now { stroke: #0969da; stroke-width: 1.5 } .box { fill: #f6f8fa; stroke: #d0d7de }
.curve { stroke: #24292f; stroke-width: 1.5; fill: none } .band { fill: #2da44e; opacity: .18 } .text { fill: #8250df }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #9198a1 } .none { fill: #3d444d } .some { fill: #bb8009 } .all { fill: #2ea043 }
.line { stroke: #9198a1 } .box { fill: #161b22; stroke: #3d444d } .curve { stroke: #e6edf3 }
.now { stroke: #4493f8 } .text { fill: #a371f7 } }
"""


# ---------------------------------------------------------------- the lake


@dataclass(frozen=True)
class Lake:
    """A collection, and what its statistics say."""

    db: tidegate.Database
    name: str

    @property
    def columns(self) -> list[tuple[str, Any]]:
        """Their names and types."""
        with self._snapshot() as found:
            return [(column.name, column.type) for column in found.schema.columns]

    def _snapshot(self) -> Any:
        return open_snapshot(self.db.context.collection(self.name))

    def bound(self, text: str) -> Expr:
        """An expression over the columns."""
        return bind_expression(text, self.columns)

    def parts(self, condition: Expr) -> Interpretation:
        """What is known of all parts, for a condition."""
        with self._snapshot() as found:
            types = [type_ for _, type_ in self.columns]
            asked = PruningPredicate.of(found, MapFilterProject.identity(types).filter(condition), NOW_MS)
            specs, _ = asked.of_part(0)
        return Interpretation(specs, (NOW_MS, NOW_MS))

    def pages(self, condition: Expr) -> list[np.ndarray]:
        """The verdicts of the pages of each part."""
        with self._snapshot() as found:
            columns = [(column.id, column.type) for column in found.schema.columns]
            frames = [found.open_file(part).frame for part in found.parts()]
        assert all(frame is not None for frame in frames)
        of = [Interpretation(frame.specs(columns, {}), (NOW_MS, NOW_MS)) for frame in frames if frame]
        return [one.of(condition).verdict() for one in of]


def orders() -> Lake:
    """Twelve parts of ten days; `n` counts orders, `v` is a number in most payloads and a text in some."""
    db = tidegate.open("memory://", clock=tidegate.ManualClock(NOW_MS))
    db.sql("CREATE TABLE orders (id int8, created_at timestamptz, payload jsonb)")
    for part in range(12):
        ids = range(part * 100, part * 100 + 100)
        at = [FIRST + dt.timedelta(days=10 * part) + dt.timedelta(hours=2.4 * (i % 100)) for i in ids]
        values = [{"n": i, "v": "none" if i % 25 == 0 else i % 100 + part * 20} for i in ids]
        rows = {"id": list(ids), "created_at": at, "payload": [json.dumps(one) for one in values]}
        db.append("orders", rows, at=part + 1)
    return Lake(db, "orders")


def readings() -> Lake:
    """Ten parts of ten pages; `k` grows through each part, and the parts overlap."""
    db = tidegate.open("memory://", clock=tidegate.ManualClock(NOW_MS))
    db.sql("CREATE TABLE readings (k int8, noise float8) CLUSTER BY (k)")
    for part in range(10):
        k = np.arange(81_920) + part * 30_000
        noise = (k * 7919 % 100_003) / 3.0  # long enough a column that the file has a table of pages
        db.append("readings", {"k": k, "noise": noise}, at=part + 1)
    return Lake(db, "readings")


# ---------------------------------------------------------------- drawing


def svg(width: int, height: int, title: str, body: Iterator[str]) -> str:
    """A picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    )
    return (
        f"{head}\n<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n"
        + "\n".join(body)
        + "\n</svg>\n"
    )


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    """Some words."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(said)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A box."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" rx="2" class="{kind}"/>'


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through points."""
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def kind_of(verdict: int) -> str:
    """`none`, `some` or `all`."""
    return Verdict(verdict).name.lower()


def legend(x: float, y: float, words: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What colours mean."""
    for kind, said in words:
        yield rect(x, y - 10, 12, 12, kind)
        yield text(x + 17, y, said, "small")
        x += 30 + 6.2 * len(said)


VERDICTS = (
    ("none", "NONE: not fetched"),
    ("some", "SOME: read and filtered"),
    ("all", "ALL: read, not filtered"),
)


def parts_picture(lake: Lake) -> Iterator[str]:
    """Twelve parts on the axis of time, where the filter begins to hold, and their verdicts."""
    condition = lake.bound(TEMPORAL)
    known = lake.parts(condition)
    at, ends = (_days(known.of(lake.bound(e))) for e in ("created_at", "created_at + '30 days'"))
    verdict = known.of(condition).verdict()

    def x(day: float) -> float:
        return 90 + day * 3.6

    today = (NOW - FIRST).days
    yield text(10, 22, f"{TEMPORAL}   at {NOW:%Y-%m-%d}", "code")
    yield from legend(10, 46, VERDICTS)
    for i in range(12):
        y = 66 + i * 21
        yield text(10, y + 12, f"part {i + 1}", "small dim")
        yield rect(x(at[0][i]), y, x(at[1][i]) - x(at[0][i]), 14, kind_of(verdict[i]))
        yield line([(x(ends[0][i]), y + 16), (x(ends[1][i]), y + 16)], "line")
        yield text(682, y + 12, Verdict(verdict[i]).name, "small")
    yield line([(x(today), 56), (x(today), 66 + 12 * 21)], "now")
    yield text(x(today), 66 + 12 * 21 + 14, "mz_now()", "small", "middle")
    yield text(10, 66 + 12 * 21 + 34, "bar: created_at; line below it: created_at + '30 days'", "small dim")


def _days(specs: Specs) -> tuple[list[float], list[float]]:
    """Bounds of a time in each part, in days from the first on."""
    low, high = specs.bounds()
    return tuple(
        [(one.astimezone(dt.UTC) - FIRST) / dt.timedelta(days=1) for one in bound.to_pylist()]
        for bound in (low, high)
    )  # type: ignore[return-value]  # two of them


def tree_picture(lake: Lake, part: int) -> Iterator[str]:
    """The filter as a tree, with what each node may be in one part."""
    condition = lake.bound(f"{TEMPORAL} AND (payload->>'n')::int8 * 2 > 250")
    known = lake.parts(condition)
    verdict = Verdict(known.of(condition).verdict()[part]).name
    yield text(10, 22, f"part {part + 1}: what each node may be", "dim")
    rows = list(_nodes(condition, 0))
    for i, (node, depth) in enumerate(rows):
        y, said, shown = 40 + i * 38, _known(node, known, part), show(node)
        yield rect(10 + depth * 26, y, 700 - depth * 26, 32, "box")
        yield text(20 + depth * 26, y + 14, shown, "code")
        yield text(20 + depth * 26, y + 27, said.removeprefix(f"{shown} is "), "small dim")
    yield text(10, 40 + len(rows) * 38 + 16, f"verdict: {verdict}")


def _known(node: Expr, known: Interpretation, part: int) -> str:
    """What a node may be; of a text that was JSON, the numbers that it spells."""
    domain = known.of(node).json
    if domain is not None and domain.number.low is not None and domain.number.high is not None:
        low, high = (bound.to_pylist()[part] for bound in (domain.number.low, domain.number.high))
        return f"the text of a number, {low.normalize():f} .. {high.normalize():f}"
    return describe(node, known, part)


def _nodes(node: Expr, depth: int) -> Iterator[tuple[Expr, int]]:
    """Those that say something: no literals, no casts of mz_now(), no whole documents."""
    if isinstance(node, Literal | Now) or node.type.kind is Kind.JSONB:
        return
    if isinstance(node, Call) and len(node.args) == 1 and isinstance(node.args[0], Now):
        return
    yield node, depth
    if isinstance(node, Call):
        for arg in node.args:
            yield from _nodes(arg, depth + 1)


CURVES = ("x + 5", "10 / x", "sqrt(x)")
RANGES = ((-5.0, 5.0), (1.0, 5.0))


def fails_picture() -> Iterator[str]:
    """Curves of functions over ranges, where they fail, and the bounds that are claimed."""
    yield text(
        10,
        22,
        "the value at every x of a part; red: it fails there; green: the bounds that are claimed",
        "dim",
    )
    for i, said in enumerate(CURVES):
        function = bind_expression(said, [("x", FLOAT8)])
        yield text(10, 96 + i * 110, said, "code")
        for j, (low, high) in enumerate(RANGES):
            yield from _curve(function, low, high, 90 + j * 320, 40 + i * 110)


def _curve(function: Expr, low: float, high: float, left: float, top: float) -> Iterator[str]:
    xs = np.linspace(low, high, 201)
    found = evaluate(function, [pa.array(xs)])
    failed = np.asarray([v is None for v in found.values.to_pylist()])
    values = np.asarray([v or 0.0 for v in found.values.to_pylist()])
    beyond = np.abs(values) > 13  # of the frame
    specs = Interpretation(
        [Specs.ranged(FLOAT8, pa.array([low]), pa.array([high]), nan=np.zeros(1, bool))]
    ).of(function)
    bounds = [one.to_pylist()[0] for one in specs.bounds()]

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (x + 5) * 26, top + 44 - y * 3

    yield rect(left, top, 260, 88, "box")
    if None not in bounds and not specs.error[0]:
        yield rect(left, at(0, bounds[1])[1], 260, at(0, bounds[0])[1] - at(0, bounds[1])[1], "band")
    for stretch in np.split(np.arange(201), np.flatnonzero(np.diff(failed * 2 + beyond)) + 1):
        if failed[stretch[0]]:
            yield line([at(xs[stretch[0]] - 0.05, 0), at(xs[stretch[-1]] + 0.05, 0)], "fail")
            if len(stretch) == 1:
                yield f'<circle cx="{at(xs[stretch[0]], 0)[0]:.1f}" cy="{at(0, 0)[1]:.1f}" r="4" class="fail"/>'
        elif not beyond[stretch[0]]:
            yield line([at(xs[k], values[k]) for k in stretch], "curve")
    claim = "may fail: the part is kept" if specs.error[0] else f"{bounds[0]:g} .. {bounds[1]:g}, cannot fail"
    yield text(left, top + 102, f"x is {low:g} .. {high:g}: {claim}", "small")


def json_picture(lake: Lake) -> Iterator[str]:
    """The numbers and the texts at one path, and a filter on it."""
    condition = lake.bound("""payload @> '{"v": 170}'""")
    known = lake.parts(condition)
    verdict = known.of(condition).verdict()
    domain = known.of(lake.bound("payload -> 'v'")).json
    assert domain is not None
    low, high = (bound.to_pylist() for bound in (domain.number.low, domain.number.high))  # type: ignore[union-attr]  # it has some
    texts = domain.text.low.to_pylist()  # type: ignore[union-attr]  # likewise
    yield text(10, 22, show(condition), "code")
    yield from legend(10, 46, (*VERDICTS[:2], ("text", "texts at the same path")))
    for i in range(12):
        y, shown = 66 + i * 21, float(low[i])
        yield text(10, y + 12, f"part {i + 1}", "small dim")
        yield rect(90 + shown * 1.4, y, (float(high[i]) - shown) * 1.4, 14, kind_of(verdict[i]))
        yield text(640, y + 12, repr(texts[i]), "small text")
    yield line([(90 + 170 * 1.4, 58), (90 + 170 * 1.4, 66 + 12 * 21)], "now")
    yield text(90 + 170 * 1.4, 66 + 12 * 21 + 14, "170", "small", "middle")


def pages_picture(lake: Lake) -> Iterator[str]:
    """Ten parts of ten pages."""
    where = "k / 1000 BETWEEN 150 AND 155"
    condition = lake.bound(where)
    parts = lake.parts(condition).of(condition).verdict()
    pages = lake.pages(condition)
    r = lake.db.sql(f"SELECT k FROM readings WHERE {where}")
    yield text(10, 22, where, "code")
    for i, verdict in enumerate(pages):
        y = 40 + i * 22
        yield text(10, y + 13, f"part {i + 1}: {Verdict(parts[i]).name}", "small dim")
        for j, page in enumerate(verdict):
            yield rect(110 + j * 44, y, 40, 16, "none" if parts[i] == Verdict.NONE else kind_of(page))
    read = sum(
        int((verdict != Verdict.NONE).sum()) for i, verdict in enumerate(pages) if parts[i] != Verdict.NONE
    )
    total = sum(len(verdict) for verdict in pages)
    yield text(570, 60, f"{r.scan.parts_read} of {r.scan.parts_total} parts", "small")
    yield text(570, 78, f"{read} of {total} pages", "small")
    yield text(570, 96, f"{len(r):,} rows of {81_920 * 10:,}", "small")
    yield text(
        10, 40 + 10 * 22 + 16, "a square is a page of 8,192 rows; grey ones are not fetched", "small dim"
    )
    assert r.scan.pages_skipped + read == 10 * r.scan.parts_read


def pictures() -> dict[str, str]:
    """All of them, by name."""
    lake, pages = orders(), readings()
    return {
        "pruning_parts.svg": svg(740, 365, "Twelve parts and a temporal filter", parts_picture(lake)),
        "pruning_tree.svg": svg(740, 365, "What each node of a filter may be", tree_picture(lake, 1)),
        "pruning_fails.svg": svg(740, 380, "Where functions fail", fails_picture()),
        "pruning_json.svg": svg(740, 345, "Numbers and texts at one path", json_picture(lake)),
        "pruning_pages.svg": svg(740, 290, "Pages that are read", pages_picture(pages)),
    }


def why(lake: Lake, part: int, where: str) -> list[str]:
    """The reasons of one part, for who wants to compare."""
    condition = lake.bound(where)
    return explain_verdict(condition, lake.parts(condition), part)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / name).write_text(drawn, "utf-8")
        sys.stdout.write(f"{FOLDER / name}\n")
