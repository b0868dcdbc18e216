"""The map of parts: the arrays behind it agree with the parts themselves, and its drawing is small whatever it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

import tidegate
from tests.server.web_site import orders, serving, tiled
from tidegate.expr.domain.specs import Verdict
from tidegate.server.web.part_map import svg as drawing
from tidegate.server.web.part_map.scale import Scale, tick_label
from tidegate.statements.preview.part_map import Axis, PartMap

DAY = 86_400_000.0
SVG_BYTES = 100_000


@pytest.fixture(scope="module")
def db() -> tidegate.Database:
    return tiled("memory://", 6)


def test_the_map_is_of_all_parts(db: tidegate.Database) -> None:
    found = db.maps.collection("orders")
    status = db.status().collections["orders"]
    assert (found.x.name, found.y.name) == ("created_at", "customer")
    assert (len(found), int(found.rows.sum()), int(found.size.sum())) == (
        status.parts,
        status.rows,
        status.bytes,
    )
    assert set(found.level.tolist()) == {0, 1}
    low, high = db.sql("SELECT min(created_at), max(created_at) FROM orders").rows()[0]
    assert (found.x.low.min(), found.x.high.max()) == (low.timestamp() * 1000, high.timestamp() * 1000)
    assert found.choices == ("id", "created_at", "customer", "country", "price")


def test_an_axis_is_any_expression(db: tidegate.Database) -> None:
    plain, twice = db.maps.collection("orders", y="price"), db.maps.collection("orders", y="price * -2")
    assert np.array_equal(twice.y.low, -2 * plain.y.high)
    texts = db.maps.collection("orders", x="country", y="_rows")
    assert texts.x.texts == ("de", "us"), "every part has all countries"
    assert np.allclose(10**texts.y.low, texts.rows)
    none = db.maps.collection("orders", y="md5(country)")
    assert np.isnan(none.y.low).all(), "nothing is known of a hash"
    with pytest.raises(tidegate.BindError, match="does not exist"):
        db.maps.collection("orders", x="prise")
    with pytest.raises(tidegate.BindError, match="no place on an axis"):
        db.maps.collection("orders", x="created_at - created_at")


def test_keys_of_json_are_axes() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE e (id int8, payload jsonb)")
        for i in (1, 2):
            payload = f'{{"ts": {i}00, "kind": "{"ab"[i - 1]}", "it\'s": {i}}}'
            db.append("e", {"id": [i], "payload": [payload]})
        found = db.maps.collection("e")
        numbers, texts = "(payload ->> 'ts')::numeric", "payload ->> 'kind'"
        assert {"id", numbers, texts, "(payload ->> 'it''s')::numeric"} <= set(found.choices)
        for axis in found.choices:
            db.maps.collection("e", x=axis)
        assert db.maps.collection("e", x=numbers).x.low.tolist() == [100, 200]
        assert db.maps.collection("e", x=texts).x.texts == ("a", "b")


def test_verdicts_are_those_of_the_query(db: tidegate.Database) -> None:
    sql = "SELECT id FROM orders WHERE customer < 2000 AND created_at > '2026-02-01'"
    (one,) = db.maps.query(sql).readings
    ran = db.sql(sql)
    assert (one.kept, one.total, one.path) == (ran.scan.parts_read, ran.scan.parts_total, ran.path)
    assert one.map.verdict is not None
    assert one.kept == int(np.count_nonzero(one.map.verdict != Verdict.NONE))
    assert one.whole == ran.scan.parts_proven
    assert one.bytes_total - one.bytes_kept == ran.scan.bytes_pruned
    by_customer, by_time = one.conjuncts if "customer" in one.conjuncts[0].text else one.conjuncts[::-1]
    assert by_customer.alone + by_time.pruned == one.total - one.kept, (
        "what only one leaves out, and what the other does"
    )
    for i, judged in enumerate(one.conjuncts):
        alone = db.maps.query(sql, only=i).readings[0].map.verdict
        assert alone is not None
        assert int(np.count_nonzero(alone == Verdict.NONE)) == judged.pruned


def test_a_query_that_filters_nothing_reads_all(db: tidegate.Database) -> None:
    (one,) = db.maps.query("SELECT * FROM orders").readings
    assert (one.kept, one.map.verdict, one.conjuncts) == (one.total, None, ())
    assert db.maps.query("SELECT 1").readings == ()
    assert db.maps.query("").kind == "nothing"
    assert db.maps.query("EXPLAIN SELECT id FROM orders WHERE id < 0").readings[0].kept == 0
    early = db.maps.query("SELECT id FROM orders AS OF 1").readings[0]
    assert (len(early.map), early.map.beyond) == (0, early.total)


def test_one_part_says_why(db: tidegate.Database) -> None:
    found = db.maps.collection("orders")
    told = db.maps.part("orders", int(found.id[0]), "SELECT * FROM orders WHERE customer < 0")
    assert told.verdict == "none"
    assert told.why[0].startswith("customer < 0 is false: customer is ")
    bounds = {name: (low, high) for name, low, high in told.bounds}
    assert bounds["customer"] == (found.y.low[0], found.y.high[0])


# ---------------------------------------------------------------- drawing


def spread(count: int, *, asked: bool) -> PartMap:
    """So many parts all over the place: every cell of a grid has some."""
    random = np.random.default_rng(3)
    x, y = random.uniform(0, 365 * DAY, count), random.uniform(0, 1e6, count)
    return PartMap(
        "many",
        Axis("at", "time", x, x + DAY),
        Axis("id", "number", y, y + 1e4),
        np.arange(count),
        random.integers(1, 1_000_000, count),
        random.integers(1_000, 128 << 20, count),
        random.integers(0, 5, count),
        np.zeros(count, np.int64),
        ("at", "id"),
        0,
        verdict=random.integers(0, 3, count).astype(np.int8) if asked else None,
    )


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("count", [0, 1, drawing.MAX_TILES, drawing.MAX_TILES + 1, 100_000])
def test_a_drawing_is_small(count: int, asked: bool) -> None:
    found = spread(count, asked=asked)
    drawn = drawing.part_map_svg(found)
    assert len(drawn.encode()) < SVG_BYTES
    marks = re.findall(r'data-marks="([^"]*)"', drawn)[0]
    lines = [line.split(" ") for line in marks.split(";")] if marks else []
    assert sum(int(line[4]) for line in lines) == count, "each part is in one mark"
    assert sum(int(line[5]) for line in lines) == int(found.rows.sum())
    if asked:
        assert found.verdict is not None
        kept, whole = (int(np.count_nonzero(found.verdict >= one)) for one in (Verdict.SOME, Verdict.ALL))
        assert (sum(int(line[9]) for line in lines), sum(int(line[10]) for line in lines)) == (kept, whole)
        assert f"{count - kept:,} pruned" in drawn


def test_area_is_bytes() -> None:
    found = spread(2, asked=False)
    found = replace(found, size=np.array([100, 400]), level=np.array([0, 1]))
    radius = [
        float(one)
        for one in re.findall(
            r'a([\d.]+) [\d.]+ 0 1 0 [\d.]+ 0a[^"]*" class="dot', drawing.part_map_svg(found)
        )
    ]
    assert radius[1] == pytest.approx(2 * radius[0], rel=0.05)


def test_bounds_that_are_not_known_reach_to_the_edges() -> None:
    found = spread(2, asked=False)
    low, high = np.array([np.nan, 3.0]), np.array([np.inf, 5.0])
    drawn = drawing.part_map_svg(replace(found, y=Axis("y", "number", low, high)))
    first, second = (line.split(" ") for line in re.findall(r'data-marks="([^"]*)"', drawn)[0].split(";"))
    assert int(first[3]) == drawing.WIDE.bottom - drawing.WIDE.top
    assert (int(second[1]), int(second[3])) == (drawing.WIDE.top, drawing.WIDE.bottom - drawing.WIDE.top)
    nothing = np.full(2, np.nan)
    assert "svg" in drawing.part_map_svg(replace(found, x=Axis("x", "time", nothing, nothing)))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        ("2026-01-01", "2026-12-31", "2026-07"),
        ("2026-03-01", "2026-03-09", "03-05"),
        ("2026-03-01T00:00", "2026-03-01T08:00", "04:00"),
        ("1900-01-01", "2026-01-01", "1960"),
        ("2026-03-01T00:00:00", "2026-03-01T00:00:20", "00:00:10"),
        ("0001-01-01", "9999-12-31", "5000"),
    ],
)
def test_ticks_of_time(low: str, high: str, said: str) -> None:
    ends = [datetime.fromisoformat(one).replace(tzinfo=UTC).timestamp() * 1000 for one in (low, high)]
    ticks = Scale.of(Axis("at", "time", np.array(ends[:1]), np.array(ends[1:])), 0, 1000).ticks(10)
    assert said in [label for _, label in ticks]
    assert 2 <= len(ticks) <= 24
    assert all(0 <= place <= 1000 for place, _ in ticks)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-5, 5), (1e-9, 2e-9), (0, 3e12), (1e300, 2e300), (7, 7), (-0.1, 1e18)]
)
def test_ticks_of_numbers(low: float, high: float) -> None:
    ticks = Scale.of(Axis("n", "number", np.array([low]), np.array([high])), 0, 1000).ticks(6)
    assert 1 <= len(ticks) <= 14
    assert all(-1 <= place <= 1001 for place, _ in ticks)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (3, 9), (3.1, 3.2), (2.9, 4.1), (0, 15)])
def test_ticks_of_logarithms(low: float, high: float) -> None:
    ticks = Scale.of(Axis("_size", "log", np.array([low]), np.array([high])), 0, 1000).ticks(5)
    assert 2 <= len(ticks) <= 8
    assert all(-1 <= place <= 1001 for place, _ in ticks)


def labels(
    scale: str, low: float, high: float, name: str = "n", *, wanted: int = 5, whole: bool = True
) -> list[str]:
    axis = Axis(name, scale, np.array([float(low)]), np.array([float(high)]), whole=whole)  # type: ignore[arg-type]  # a parameter
    return [label for _, label in Scale.of(axis, 0, 1000).ticks(wanted)]


def test_ticks_are_whole_where_values_are() -> None:
    assert labels("number", 0, 2) == ["0", "1", "2"]
    assert labels("number", 0, 2, whole=False) == ["0", "0.5", "1", "1.5", "2"]
    assert labels("number", 7, 7) == ["7"]
    assert labels("number", 0, 10, wanted=4) == ["0", "3", "6", "9"]
    assert labels("log", 0, 0, "_rows") == ["1", "2"]
    assert labels("log", 3.4, 3.45, "_size") == ["2.0 kB", "5.0 kB"]
    assert labels("log", 3, 8, "_size") == ["1.0 kB", "100 kB", "10 MB"]


def test_ticks_of_time_name_what_changes() -> None:
    def between(low: str, high: str, *, whole: bool = False) -> list[str]:
        ends = [datetime.fromisoformat(end).replace(tzinfo=UTC).timestamp() * 1000 for end in (low, high)]
        return labels("time", *ends, whole=whole, wanted=4)

    assert between("2025-12-30", "2026-01-02") == ["2025-12-30", "12-31", "2026-01-01", "01-02"]
    assert between("2026-01-01T20:00", "2026-01-02T04:00") == ["01-01 21:00", "01-02", "03:00"]
    assert between("2026-03-02", "2026-03-23") == ["2026-03-02", "03-09", "03-16", "03-23"], "Mondays"
    assert between("2026-03-02", "2026-03-04", whole=True) == ["2026-03-02", "03-03", "03-04"], (
        "no hours of dates"
    )
    assert between("2026-03-02T10:00:00", "2026-03-02T10:00:00.4")[1].endswith(".100")


def test_numbers_at_ticks() -> None:
    assert [tick_label(one) for one in (0, 0.25, 1500, 20_000, 2.5e6, -3e9)] == [
        "0",
        "0.25",
        "1,500",
        "20k",
        "2.5M",
        "-3G",
    ]


def test_many_parts_through_the_server() -> None:
    """Parts that are only in the metadata: what is drawn and explained never looks into a file."""
    with tidegate.open("memory://") as db:
        db.sql(
            "CREATE TABLE orders (id int8, created_at timestamptz, customer int4, country text, price float8)"
        )
        random = np.random.default_rng(1)
        for batch in range(20):
            db.append("orders", orders(batch * 7, 7, 40, random))
        shard = db.context.table("orders")
        seeds = shard.machine.fetch().parts.all()
        copies = [replace(part, name=f"{part.name}{i:04d}", id=-1) for part in seeds for i in range(150)]
        shard.commit(copies, at=None, token="copies")
        with serving(db) as site:
            page = site.get("/c/orders").text
            sql = "SELECT id FROM orders WHERE created_at > '2026-04-01' AND price > 1"
            asked = site.post("/explain", {"sql": sql, "box": "x", "c": "orders"}).text
    total = len(seeds) + len(copies)
    for drawn in (page, asked):
        svg = re.findall(r'<svg id="map".*?</svg>', drawn, re.DOTALL)[0]
        assert len(svg) < SVG_BYTES
        marks = re.findall(r'data-marks="([^"]*)"', svg)[0].split(";")
        assert len(marks) < drawing.WIDE.cells[0] * drawing.WIDE.cells[1]
        assert sum(int(line.split(" ")[4]) for line in marks) == total
    assert f"of {total:,} parts</b>" in asked
    assert "square area" in asked
