"""Estimates from statistics, against the truth: data of several shapes is appended, and the same filters are counted.

Tolerances are stated with each filter, in rows of a hundred. They are what 16 buckets and a sample of 1,024 rows promise: a place
in a bucket is off by 1/16 at most, and the sample by about 0.03 (two standard errors at a half).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.expr.domain.specs import Verdict
from tidegate.expr.evaluate.simplify import simplify_expression
from tidegate.expr.model.tree import Expr
from tidegate.plan.mfp import MapFilterProject
from tidegate.query.estimate import rows as estimate
from tidegate.query.estimate.distribution import EQUAL, NULLS
from tidegate.query.estimate.rows import Estimates, stage_plan
from tidegate.query.estimate.selectivity import MATCHED
from tidegate.query.prune.parts import prune
from tidegate.sql.bind.query import bind_expression
from tidegate.storage.shard.snapshot import Snapshot, open_snapshot

PARTS, ROWS = 3, 6_000
TYPES = (
    "even int8, few int4, zipf int4, skew float8, name text, at timestamptz, holes int8, price numeric(10, 2), doc jsonb, "
    "flag bool, mostly text, small int2, old timestamptz"
)
DAY = 86_400_000_000
START = 1_700_000_000_000_000


def rows(part: int, rng: np.random.Generator) -> pa.Table:
    n = ROWS
    numbers = rng.integers(0, 1000, n)
    when = START + part * 10 * DAY + (rng.random(n) * 10 * DAY).astype(np.int64)
    old = when.copy()
    old[0] = 0  # 1970, as a clock that was not set writes it
    return pa.table({
        "even": rng.integers(0, 1_000_000, n),
        "few": pa.array(rng.integers(0, 10, n), pa.int32()),
        "zipf": pa.array(np.minimum(rng.zipf(1.5, n), 10**6), pa.int32()),
        "skew": rng.exponential(1, n),
        "name": [f"customer {i:05d}" for i in rng.integers(0, 5000, n)],
        "at": pa.array(when, pa.timestamp("us", "UTC")),
        "holes": pa.array(rng.integers(0, 100, n), mask=rng.random(n) < 0.1 * (part + 1)),
        "price": pa.array([Decimal(int(i)) for i in rng.integers(0, 1000, n)], pa.decimal128(10, 2)),
        "doc": [f'{{"v":{i}}}' if i < 900 else "{}" for i in numbers.tolist()],
        "flag": rng.random(n) < 0.5,
        "mostly": np.where(rng.random(n) < 0.9, "", [f"x{i}" for i in range(n)]).tolist(),
        "small": pa.array(rng.integers(-5, 5, n), pa.int16()),
        "old": pa.array(old, pa.timestamp("us", "UTC")),
    })  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    rng = np.random.default_rng(7)
    with tidegate.open("memory://") as made:
        made.sql(f"CREATE TABLE t ({TYPES})")
        for part in range(PARTS):
            made.append("t", rows(part, rng))
        yield made


@pytest.fixture(scope="module")
def snap(db: tidegate.Database) -> Iterator[Snapshot]:
    with open_snapshot(db.context.table("t")) as found:
        yield found


def bound(snap: Snapshot, sql: str) -> Expr:
    return simplify_expression(
        bind_expression(sql, [(column.name, column.type) for column in snap.schema.columns])
    )


def guessed(snap: Snapshot, *sql: str) -> float:
    return Estimates.of(snap, None, 0).selectivity([bound(snap, one) for one in sql])


# ---------------------------------------------------------------- against the truth


@pytest.mark.parametrize(("sql", "tolerance"), [
    # ranges
    ("even < 250000", 3), ("even >= 900000", 3), ("even BETWEEN 400000 AND 600000", 4), ("even > 100 AND even < 150000", 4),
    ("even > 500000 AND even < 400000", 0), ("skew < 1", 4), ("skew > 3", 4), ("skew BETWEEN 0.1 AND 0.3", 4), ("few < 5", 6),
    ("few <= 5", 6), ("few > 7", 6), ("zipf > 100", 5), ("zipf <= 3", 6), ("zipf < 2", 6), ("zipf < 1000", 6), ("price < 250.5", 4),
    ("name < 'customer 01000'", 6), ("name >= 'customer 04500'", 6), ("name < 'aaa'", 0), ("name > 'zzz'", 0), ("small < 0", 6),
    ("at < '2023-11-20'", 3), ("at + '1 day' < '2023-11-20'", 3), ("even < 3000000000", 0),
    ("(doc ->> 'v')::numeric < 300", 4),
    # equality
    ("even = 4711", 1), ("few = 3", 3), ("few <> 3", 3), ("few = 77", 0), ("zipf = 1", 6), ("zipf = 2", 5), ("zipf = 40", 2),
    ("name = 'customer 00100'", 1), ("mostly = ''", 6), ("mostly <> ''", 6), ("small = 2", 4), ("skew = 1.5", 1),
    ("zipf BETWEEN 1 AND 1", 6), ("mostly > ''", 6), ("few IS DISTINCT FROM 3", 3), ("holes IS DISTINCT FROM 5", 1),
    ("holes IS DISTINCT FROM NULL", 0), ("few IS DISTINCT FROM small", 6), ("flag", 3), ("NOT flag", 3),
    # IN
    ("few IN (1, 2, 3)", 6), ("few NOT IN (1, 2)", 6), ("few IN (1, 99)", 3), ("zipf IN (1, 2)", 8), ("even IN (1, 2, 3)", 1),
    (f"few IN ({', '.join(map(str, range(10)))})", 1), ("holes IN (1, NULL, 2)", 2),
    (f"even IN ({', '.join(map(str, range(500)))})", 1),
    # NULL
    ("holes IS NULL", 0), ("holes IS NOT NULL", 0), ("holes = 5", 1), ("holes < 50", 3), ("NOT holes < 50", 3), ("holes <> 5", 1),
    ("holes = NULL", 0), ("doc ->> 'v' IS NULL", 1), ("holes > 10 AND holes < 20", 3), ("(holes < 50) IS NULL", 1),
    ("(holes < 50) IS TRUE", 3), ("(holes < 50) IS FALSE", 3), ("few IS NULL", 0),
    # patterns
    ("name LIKE 'customer 04%'", 5), ("name LIKE 'customer 00100'", 1), ("name LIKE '%'", 0), ("name NOT LIKE 'customer 0%'", 0),
    ("starts_with(name, 'customer 03')", 5), ("name LIKE 'x%'", 0), ("name LIKE 'customer%'", 0),
    ("name LIKE 'customer 00_00%'", 10),
    # together
    ("even < 250000 AND few = 3", 3), ("few = 1 OR few = 2 OR even < 100000", 5), ("few < 2 OR few > 7", 7),
    ("NOT (few < 2 OR even > 500000)", 5), ("even < 500000 AND holes IS NOT NULL", 3), ("false", 0), ("true", 0),
    ("1 / 0 = 1 OR true", 0),
])  # fmt: skip
def test_about_as_many_rows_as_there_are(
    db: tidegate.Database, snap: Snapshot, sql: str, tolerance: float
) -> None:
    true = len(db.sql(f"SELECT even FROM t WHERE {sql}")) / (PARTS * ROWS)
    assert abs(guessed(snap, sql) - true) * 100 <= tolerance + 1e-9


@pytest.mark.parametrize(("sql", "share"), [
    ("name LIKE '%x%'", MATCHED), ("name ~ 'x.*y'", MATCHED), ("name ILIKE '%x%'", MATCHED), ("doc ? 'v'", MATCHED),
    ("few < small", 1 / 3), ("few = small", 0.1), ("few <> small", 0.9), ("few % 2 = 0", EQUAL),
    ("CASE WHEN flag THEN few > 1 ELSE few > 2 END", 1 / 3), ("coalesce(flag, true)", 1 / 3),
])  # fmt: skip
def test_what_nothing_is_known_of(snap: Snapshot, sql: str, share: float) -> None:
    got = guessed(snap, sql)
    assert got == pytest.approx(share, abs=0.02)


def test_what_is_proven_is_no_guess(snap: Snapshot) -> None:
    """Days 10 to 20 are the second part: of the others nothing or all passes."""
    sql = f"at < '{np.datetime64(START + 10 * DAY, 'us')}'"
    guess = Estimates.of(snap, None, 0)._guess.all([bound(snap, sql)])
    assert guess[0] == pytest.approx(1, abs=0.001)
    assert guess[1:].tolist() == [0, 0]
    assert guessed(snap, "name LIKE '%x%' AND few > 100") == 0


def test_an_outlier_makes_no_value_frequent(snap: Snapshot) -> None:
    """One row of 1970 puts all others at the upper end, where places are told apart no more; none of them is frequent for that."""
    one = snap.batches(["old"])
    value = next(iter(one)).column(0)[100].as_py().isoformat()
    assert guessed(snap, f"old = '{value}'") < 0.01


UUIDS = "00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"
ODD = (
    "i > '1 day'", "i = '1 month'", "i IN ('1 day', '2 days')", f"u = '{UUIDS[0]}'", f"u > '{UUIDS[0]}'", f"u IN ('{UUIDS[0]}')",
    f"u IN ('{UUIDS[0]}', '{UUIDS[1]}')", "y = 'abc'", "y < '\\xff'", "j = '{}'", "j > '1'", "j @> '{\"a\": 1}'", "1 = ANY(a)",
    "(j ->> 'a')::int8 IN (1, 2)", "f = 'NaN'", "f < 'NaN'", "f > 'Infinity'", "f IN (1, 'NaN')", "f < -1e308", "a = ARRAY[1, 2]",
    "a < ARRAY[5]", "a IS NULL", "(r).x = 1", "(r).y LIKE 'a%'", "r = r", "tm < '12:00'", "d > '2024-01-01'",
    "d + 1 = '2024-01-05'",
    "b = true", "b < true", "b IS DISTINCT FROM NULL", "b IN (true)", "s LIKE 'x\\'", "s LIKE s", "s LIKE 'a!%' ESCAPE '!'",
    "s ~ '('", "s LIKE NULL", "s IN (NULL)", "s = ''", "s > 'é'", "s LIKE 'é%'", "1 / 0 = 1", "NULL::bool", "f / 0 > 1",
    "n - n > 0",
    "n > 99999999999999999", "n = 1.50", "5 - n < 3", "mz_now() > 5", "-f > 1", "s || 'x' > 'b'", "length(s) = 1", "s = s",
    "CASE WHEN b THEN true END", "NOT (s IN ('a', 'b') AND f > 1)", "f < f + 1",
)  # fmt: skip
COLUMNS = (
    "i interval, u uuid, y bytea, j jsonb, f float8, a int8[], r row(x int8, y text), tm time, d date, b bool, "
    "s text, n numeric"
)
VALUES = (
    f"'1 day', '{UUIDS[0]}', 'abc', '{{\"a\": 1}}', 'NaN', ARRAY[1], row(1, 'a'), '01:00', '2024-01-01', true, '', 1.5",
    f"'1 month', '{UUIDS[1]}', '', '[]', '-Infinity', NULL, NULL, '02:00', '2025-01-01', false, 'é', -1",
    ", ".join(["NULL"] * 12),
)


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_odd_types_and_odd_values(parts: int) -> None:
    """An estimate is always there, between 0 and 1, whatever is asked and whatever is in the parts."""
    with tidegate.open("memory://") as db:
        db.sql(f"CREATE TABLE t ({COLUMNS})")
        for part in range(parts):
            db.sql(f"INSERT INTO t VALUES {', '.join(f'({row})' for row in VALUES[part:])}")
        with open_snapshot(db.context.table("t")) as found:
            made = Estimates.of(found, None, 5)
            for sql in ODD:
                condition = bound(found, sql)
                assert 0 <= made.selectivity([condition]) <= 1, sql
                if parts:
                    odds = made._guess.of(condition)
                    assert ((odds.true + odds.false) <= 1 + 1e-9).all(), sql
            assert len(made.column_bytes(range(12))) == 12


# ---------------------------------------------------------------- which parts


def test_only_of_the_parts_that_are_kept(snap: Snapshot) -> None:
    condition = bound(snap, f"at >= '{np.datetime64(START + 20 * DAY, 'us')}'")
    plan = MapFilterProject.identity([column.type for column in snap.schema.columns]).filter(condition)
    found = prune(snap, plan, 0, use=True)
    assert found.verdicts is not None
    assert found.verdicts.verdict.tolist()[:2] == [Verdict.NONE, Verdict.NONE]
    kept = Estimates.of(snap, found.kept, 0)
    assert kept.selectivity([condition]) == pytest.approx(1, abs=0.01)
    assert kept.total == ROWS
    assert kept.rows([condition]) == pytest.approx(ROWS, rel=0.01)
    assert Estimates.of(snap, None, 0).rows() == PARTS * ROWS
    nothing = Estimates.of(snap, np.zeros(0, np.int64), 0)
    assert (nothing.selectivity([condition]), nothing.rows([condition]), nothing.total) == (1, 0, 0)
    assert set(nothing.column_bytes({0, 4})) == {0, 4}


def test_many_parts_are_sampled_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of 3,000 rows among 60 of ten: the mean over parts alone would say 0.98."""
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a int8)")
        for i in range(60):
            db.append("t", pa.table({"a": [1] * 10}))
            if i == 30:
                db.append("t", pa.table({"a": [2] * 3000}))
        monkeypatch.setattr(estimate, "SAMPLED", 16)
        with open_snapshot(db.context.table("t")) as found:
            made = Estimates.of(found, None, 0)
            assert len(made.frame) <= 16
            got = made.selectivity([bound(found, "a = 1")])
            assert got == pytest.approx(600 / 3600, abs=1 / 16)
            assert made.rows([bound(found, "a = 2")]) == pytest.approx(3000, rel=0.1)


def test_columns_that_came_later_and_parts_without_statistics() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a int8)")
        db.append("t", pa.table({"a": range(1000)}))
        db.sql("ALTER TABLE t ADD COLUMN b int8")
        db.append("t", pa.table({"a": range(1000), "b": range(1000)}))
        with open_snapshot(db.context.table("t")) as found:
            assert guessed(found, "b IS NULL") == pytest.approx(0.5)
            assert guessed(found, "b < 500") == pytest.approx(0.25, abs=0.02)
    with tidegate.open("memory://", config=Config(stats_collection=False)) as db:
        db.sql("CREATE TABLE t (a int8, s text)")
        db.append("t", pa.table({"a": range(1000), "s": ["x"] * 1000}))
        with open_snapshot(db.context.table("t")) as found:
            assert guessed(found, "a < 5") == pytest.approx(0.5 * (1 - NULLS))
            assert guessed(found, "a = 5") == pytest.approx(EQUAL * (1 - NULLS))
            assert guessed(found, "a IS NULL") == pytest.approx(NULLS)
            assert guessed(found, "s LIKE 'a%' OR a IN (1, 2)") < 0.6
            assert Estimates.of(found, None, 0).column_bytes({0, 1})[0] == pytest.approx(8)


# ---------------------------------------------------------------- bytes, and the choice


def test_bytes_by_type_and_by_what_repeats(snap: Snapshot) -> None:
    names = [column.name for column in snap.schema.columns]
    made = Estimates.of(snap, None, 0).column_bytes(range(len(names)))
    found = dict(zip(names, made.values(), strict=True))
    assert found["even"] == found["at"] == found["old"] == 8
    assert found["price"] < 4  # 1,000 distinct of 6,000
    assert found["few"] < 1
    assert found["flag"] <= 1 / 8
    assert found["few"] < found["small"] * 1.5 < found["even"]
    assert found["name"] > found["mostly"]
    assert found["doc"] > found["name"]
    assert all(math.isfinite(size) and size >= 0 for size in made.values())


def test_a_wide_document_gets_what_the_parts_weigh() -> None:
    rng = np.random.default_rng(3)
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8, url text, payload jsonb, title text)")
        payload = [f'{{"k":"{rng.bytes(400).hex()}"}}' for _ in range(500)]
        urls = [f"https://example.org/{rng.bytes(20).hex()}" for _ in range(500)]
        db.append("t", pa.table({"id": range(500), "url": urls, "payload": payload, "title": urls[::-1]}))
        with open_snapshot(db.context.table("t")) as found:
            made = Estimates.of(found, None, 0)
            size = made.column_bytes(range(4))
            assert sum(size.values()) == pytest.approx(made.size / 500, rel=0.2)
            assert size[2] > 2 * size[1] > 4 * size[0]
            plan = MapFilterProject.identity([column.type for column in found.schema.columns])
            chosen = stage_plan(
                plan.filter(bound(found, "url LIKE '%google%' AND payload ->> 'k' = 'x'")), made
            )
            assert [stage.columns for stage in chosen.stages] == [(1,)]
            assert [skipped.reason for skipped in chosen.skipped] == ["heavy function ->>"]
            narrow = stage_plan(
                plan.project((0, 1)).filter(bound(found, "url LIKE '%x%'")), made, {0: 8.0, 1: 70.0}
            )
            assert [skipped.reason for skipped in narrow.skipped] == ["reads 90 % of the bytes"]
