"""GROUP BY, aggregates and DISTINCT in this process: against a plain model, over layouts, limits and errors.

That values and types are PostgreSQL's is tested in tests/differential/test_aggregates.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.errors import CancelledError
from tidegate.expr.model.types import (
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    Type,
    array,
    numeric,
)
from tidegate.plan.aggregate import AGGREGATE_DOCS, Aggregate, aggregate_reference
from tidegate.query.aggregate import streaming as aggregate
from tidegate.query.aggregate.groups import Groups
from tidegate.query.aggregate.reducers import reducer_of
from tidegate.query.aggregate.streaming import GroupBatch, GroupMerge
from tidegate.query.python_values import Interval
from tidegate.sql.bind import query as bind
from tidegate.sql.bind.catalog import DictCatalog, Relation


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://", config=Config(batch_rows=16, audit=1.0)) as opened:
        yield opened


def one(db: tidegate.Database, sql: str) -> tuple[Any, ...]:
    """The only row."""
    (row,) = db.sql(sql).rows()
    return tuple(row)


# ---------------------------------------------------------------- against a plain model


def filled(db: tidegate.Database, rng: np.random.Generator, rows: int, parts: int) -> list[tuple[Any, ...]]:
    """A table of random rows (k, i, s), in parts and small batches; the rows."""
    db.sql("CREATE TABLE t (k int4, i int8, s text)")
    k = [None if v == 9 else int(v) for v in rng.integers(0, 10, rows)]
    i = [None if v % 7 == 0 else int(v) for v in rng.integers(-(2**62), 2**62, rows)]
    s = [None if v == 0 else f"{v:x}" for v in rng.integers(0, 40, rows)]
    cuts = np.sort(rng.integers(0, rows, parts - 1))
    for some in np.split(np.arange(rows), cuts):
        if len(some):
            table = pa.table({"k": pa.array(k, pa.int32()), "i": i, "s": s})
            db.append("t", table.slice(int(some[0]), len(some)))
    return list(zip(k, i, s, strict=True))


def modelled(rows: list[tuple[Any, ...]], key: Any) -> dict[Any, tuple[Any, ...]]:
    """(count(*), count(i), sum(i), min(s), max(s), count(DISTINCT s)) of each group."""
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    found = {}
    for name, members in groups.items():
        i = [row[1] for row in members if row[1] is not None]
        s = [row[2] for row in members if row[2] is not None]
        ends = (min(s, default=None), max(s, default=None), len(set(s)))
        found[name] = (len(members), len(i), sum(i) if i else None, *ends)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_a_plain_loop(
    db: tidegate.Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        aggregate, "MIN_MERGE_ROWS", 4
    )  # so that groups of different batches meet again and again
    monkeypatch.setattr(GroupMerge, "enough", 4)
    rng = np.random.default_rng(seed)
    rows = filled(db, rng, 200, 5)
    items = "count(*), count(i), sum(i), min(s), max(s), count(DISTINCT s)"
    for key, wanted in (
        ("k", lambda row: (row[0],)),
        ("s, k", lambda row: (row[2], row[0])),
        ("k % 2", lambda row: (None if row[0] is None else row[0] % 2,)),
    ):
        got = db.sql(f"SELECT {key}, {items} FROM t GROUP BY {key}").rows()
        model = modelled(rows, wanted)
        width = len(key.split(", "))
        assert {row[:width]: row[width:] for row in got} == model
        assert len(got) == len(model)
    distinct = db.sql("SELECT DISTINCT k, s FROM t").rows()
    assert sorted(map(str, distinct)) == sorted({str((row[0], row[2])) for row in rows})
    assert one(db, f"SELECT {items} FROM t") == modelled(rows, lambda _: None)[None]


def test_retracted_rows_are_in_no_group(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k text, x int4)")
    db.append("t", {"k": ["a", "b", "c"], "x": pa.array([1, 2, 3], pa.int32())}, diff=[2, 1, 1])
    db.append("t", {"k": ["a", "b"], "x": pa.array([1, 2], pa.int32())}, diff=-1)
    got = db.sql("SELECT k, count(*), sum(x) FROM t GROUP BY k ORDER BY k").rows()
    assert got == [("a", 1, 1), ("c", 1, 3)]
    assert db.sql("SELECT DISTINCT k FROM t WHERE x < 3").rows() == [("a",)]


# ---------------------------------------------------------------- values


def test_equal_keys_are_one_group_whatever_their_order(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (f float8, v interval, n numeric(6,2), a float8[])")
    zeros, spans = [0.0, -0.0], [(1, 0, 0), (0, 30, 0)]
    for turn in (1, -1):
        db.append(
            "t",
            {
                "f": [*zeros[::turn], math.nan],
                "v": pa.array([*spans[::turn], None], pa.month_day_nano_interval()),
                "n": pa.array([Decimal(1), Decimal("1.00"), None], pa.decimal128(6, 2)),
                "a": [zeros[::turn], [math.nan], [math.nan]],
            },
        )
    assert repr(db.sql("SELECT f, count(*) FROM t GROUP BY f ORDER BY f").rows()) == "[(0.0, 4), (nan, 2)]"
    assert db.sql("SELECT DISTINCT v FROM t ORDER BY v").rows() == [(Interval(0, 30, 0),), (None,)]
    assert db.sql("SELECT n, count(*) FROM t GROUP BY n ORDER BY 1").rows() == [
        (Decimal("1.00"), 4),
        (None, 2),
    ]
    assert [row[1] for row in db.sql("SELECT a, count(*) FROM t GROUP BY a ORDER BY a").rows()] == [2, 4]
    assert one(db, "SELECT count(DISTINCT f), count(DISTINCT v), count(DISTINCT a) FROM t") == (2, 1, 2)
    least, most = one(db, "SELECT min(f), max(f) FROM t WHERE f < 1")
    assert (math.copysign(1, least), math.copysign(1, most)) == (-1, 1)
    assert one(db, "SELECT min(v), max(v) FROM t") == (Interval(0, 30, 0), Interval(1, 0, 0))


@pytest.mark.parametrize(
    ("type_", "values", "total", "result"),
    [
        (INT4, [2**31 - 1] * 3, 3 * (2**31 - 1), INT8),
        (INT8, [2**63 - 1, 2**63 - 1, -(2**63)], Decimal(2**63 - 2), numeric(38, 0)),
        (INT8, [-1, -1, -1], Decimal(-3), numeric(38, 0)),
        (numeric(10, 2), [Decimal("-0.01"), Decimal("99999999.99")], Decimal("99999999.98"), numeric(38, 2)),
        (NUMERIC, [Decimal("1e-18"), Decimal(-(10**19))], Decimal("-9999999999999999999.999999999999999999"), NUMERIC),
        (FLOAT8, [0.5, math.inf], math.inf, FLOAT8),
        (FLOAT4, [0.5, 0.25], 0.75, FLOAT4),
        (INTERVAL, [(1, -2, 3000), (0, 5, -1000)], Interval(1, 3, 2), INTERVAL),
    ],
)  # fmt: skip
def test_sums(db: tidegate.Database, type_: Type, values: list[Any], total: object, result: Type) -> None:
    db.sql(f"CREATE TABLE t (x {type_})")
    for value in values:  # one row a part: sums are put together from states
        db.append("t", {"x": pa.array([value, None], type_.arrow)})
    found = db.sql("SELECT sum(x) FROM t")
    assert (found.rows(), found.types) == ([(total,)], (result,))
    assert one(db, "SELECT sum(x), avg(x), min(x), count(x) FROM t WHERE x IS NULL") == (None, None, None, 0)


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        (NUMERIC, [Decimal("99999999999999999999.5")] * 2, "numeric field overflow"),
        (FLOAT8, [1e308, 1e308], "value out of range: overflow"),
        (FLOAT4, [3e38, 3e38], "value out of range: overflow"),
        (INTERVAL, [(3_000_000, 0, 0)] * 2, "interval out of range"),
    ],
)
def test_sums_that_do_not_fit(db: tidegate.Database, type_: Type, values: list[Any], message: str) -> None:
    db.sql(f"CREATE TABLE t (k text, x {type_})")
    db.append("t", {"k": ["a"] * len(values), "x": pa.array(values, type_.arrow)})
    with pytest.raises(tidegate.EvaluationError, match=message) as caught:
        db.sql("SELECT k, sum(x) FROM t GROUP BY k")
    assert caught.value.row == {"k": "a"}


def test_bigint_sums_that_do_not_fit() -> None:
    reducer = reducer_of(Aggregate("sum", INT8, 0), INT4)
    state = reducer.lift(pa.array([2**31 - 1, -(2**31)], pa.int32()))
    wide = [np.zeros(2, np.int64), np.array([2**31, -(2**31) - 1]), np.zeros(2, np.int64)]
    assert reducer.finish(state).values.to_pylist() == [2**31 - 1, -(2**31)]
    values, errors = reducer.finish([np.ones(2, np.int64), *wide])
    assert values.to_pylist() == [None, None]
    assert errors is not None
    assert errors.to_pylist() == ["bigint out of range"] * 2


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["b", None, "a", "é", "z"], TEXT),
        ([[1, 2], [1], None, [1, None]], array(INT8)),
        ([Decimal(10) ** 37, Decimal(-1), None], numeric(38, 0)),
    ],
)
def test_least_and_greatest(db: tidegate.Database, values: list[Any], type_: Type) -> None:
    db.sql(f"CREATE TABLE t (g bool, x {type_})")
    db.append("t", {"g": [True] * len(values), "x": pa.array(values, type_.arrow)})
    db.append("t", {"g": [False], "x": pa.array([None], type_.arrow)})
    given = [value for value in values if value is not None]
    key = (lambda v: [math.inf if x is None else x for x in v]) if type_.element else None
    least, most = min(given, key=key), max(given, key=key)
    assert db.sql("SELECT g, min(x), max(x) FROM t GROUP BY g ORDER BY g").rows() == [
        (False, None, None),
        (True, least, most),
    ]
    assert one(db, "SELECT min(x), max(x) FROM t") == (least, most)


def test_filter_asks_for_its_argument_only_where_it_holds(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (x int4)")
    db.append("t", {"x": pa.array([0, 2, 5, None], pa.int32())})
    sql = "SELECT sum(10 / x) FILTER (WHERE x <> 0), count(*) FILTER (WHERE x > 1), count(*) FILTER (WHERE false) FROM t"
    assert one(db, sql) == (7, 2, 0)
    with pytest.raises(tidegate.EvaluationError, match="division by zero"):
        db.sql("SELECT sum(10 / x) FROM t")


# ---------------------------------------------------------------- the whole query


def test_without_from(db: tidegate.Database) -> None:
    assert one(db, "SELECT count(*), sum(2), avg(1.5), min('a'), count(NULL)") == (
        1,
        2,
        Decimal("1.5"),
        "a",
        0,
    )
    assert one(db, "SELECT count(*), max(1) WHERE false") == (0, None)
    assert db.sql("SELECT 1 HAVING false").rows() == []
    assert db.sql("SELECT DISTINCT 1").rows() == [(1,)]
    assert db.sql("SELECT count(*) GROUP BY ()").rows() == [(1,)]


def test_of_no_rows(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k int4, f float8)")
    assert one(db, "SELECT count(*), sum(f), avg(k), max(k), count(DISTINCT k), sum(DISTINCT f) FROM t") == (
        0, None, None, None, 0, None,
    )  # fmt: skip
    for sql in (
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT DISTINCT k FROM t",
        "SELECT count(DISTINCT f) FROM t GROUP BY k",
    ):
        assert db.sql(sql).rows() == []


def test_subqueries_and_views_that_aggregate(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k text, x int4); INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 5)")
    db.sql("CREATE VIEW totals AS SELECT k, sum(x) AS total FROM t GROUP BY k")
    assert db.sql("SELECT total * 2 AS d, k FROM totals WHERE total > 3 ORDER BY k").rows() == [(10, "b")]
    assert db.sql("WITH n AS (SELECT count(*) AS c FROM t) SELECT c + 1 FROM n WHERE c = 3").rows() == [(4,)]
    assert db.sql("SELECT * FROM (SELECT DISTINCT k FROM t) q WHERE k > 'a'").rows() == [("b",)]
    db._context = replace(db.context, engine=None)  # an aggregation over another one is the embedded engine's
    for sql, path, rows in (
        ("SELECT max(total) FROM totals", "embedded", [(5,)]),
        ("SELECT DISTINCT total FROM totals ORDER BY 1", "local", [(3,), (5,)]),
        ("SELECT * FROM (SELECT DISTINCT count(*) FROM t GROUP BY k) q ORDER BY 1", "local", [(1,), (2,)]),
        (
            "SELECT c FROM (SELECT DISTINCT count(*) c, k FROM t GROUP BY k) q ORDER BY 1",
            "embedded",
            [(1,), (2,)],
        ),
    ):
        result = db.sql(sql)
        assert (result.path, result.rows()) == (path, rows)


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT count(*) FROM t", "the aggregate count"),
        ("SELECT a, sum(b) FROM t GROUP BY a", "GROUP BY"),
        ("SELECT DISTINCT a FROM t", "DISTINCT"),
        ("SELECT a FROM t HAVING true", "HAVING"),
        ("SELECT n FROM (SELECT max(a) AS n FROM t) q", "the aggregate max"),
    ],
)
def test_transforms_never_aggregate(sql: str, construct: str) -> None:
    catalog = DictCatalog({"t": Relation("t", (("a", INT8), ("b", INT8)))})
    with pytest.raises(tidegate.PlanError) as caught:
        bind.bind_transform(sql, catalog)
    assert caught.value.construct == construct
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT DISTINCT ON (k) k FROM t ORDER BY k", [(1,), (2,)]),
        ("SELECT k FROM t GROUP BY GROUPING SETS ((k), ()) ORDER BY k", [(1,), (2,), (None,)]),
        ("SELECT k FROM t GROUP BY CUBE (k) ORDER BY k", [(1,), (2,), (None,)]),
        ("SELECT array_agg(k ORDER BY k) FROM t", [([1, 1, 2],)]),
        ("SELECT count(*) OVER () FROM t", [(3,), (3,), (3,)]),
    ],
)
def test_what_an_engine_does_needs_no_spark(db: tidegate.Database, sql: str, rows: list[Any]) -> None:
    db.sql("CREATE TABLE t (k int4); INSERT INTO t VALUES (1), (2), (1)")
    db._context = replace(db.context, engine=None)
    result = db.sql(sql)
    assert (result.path, result.rows()) == ("embedded", rows)
    with pytest.raises(tidegate.UnsupportedError, match="this query needs Spark"):
        db.sql(f"{sql} OPTIONS (engine = spark)")


def test_a_column_of_no_group_is_pointed_at(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k int4, x int4)")
    with pytest.raises(tidegate.BindError) as caught:
        db.sql("SELECT k, x + 1 FROM t GROUP BY k, x + 2")
    assert str(caught.value) == (
        'column "x" must stand in GROUP BY or in an aggregate\n'
        "line 1, column 11:\n"
        "    SELECT k, x + 1 FROM t GROUP BY k, x + 2\n"
        "              ^"
    )


# ---------------------------------------------------------------- bounds


def test_groups_beyond_max_result_bytes(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k text)")
    db.append("t", {"k": [f"{i:0100}" for i in range(500)]})
    db.set("max_result_bytes", 20_000)
    for sql in ("SELECT k, count(*) FROM t GROUP BY k", "SELECT count(DISTINCT k) FROM t"):
        with pytest.raises(tidegate.LimitError, match="groups take more than 20000 bytes"):
            db.sql(sql)
    assert one(db, "SELECT max(k) FROM t") == (f"{499:0100}",)


def test_many_rows_of_few_groups_stay_within_bounds(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k int4)")
    for _ in range(3):
        db.append("t", {"k": pa.array(np.arange(3000) % 7, pa.int32())})
    db.set("max_result_bytes", 2_000)
    assert db.sql("SELECT k, count(*) FROM t GROUP BY k ORDER BY k LIMIT 1").rows() == [(0, 1287)]
    assert one(db, "SELECT count(DISTINCT k) FROM t") == (7,)


def test_distinct_with_a_limit_stops_reading(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k int4)")
    for part in range(5):
        db.append("t", {"k": pa.array([part, part], pa.int32())})
    result = db.sql("SELECT DISTINCT k FROM t LIMIT 2")
    assert (len(result), result.scan.parts_read) == (2, 2)
    assert db.sql("SELECT DISTINCT k FROM t ORDER BY k DESC LIMIT 2").rows() == [(4,), (3,)]


def test_a_time_out_ends_an_aggregation(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (k int8)")
    db.append("t", {"k": np.arange(400_000)})
    db.set("statement_timeout_ms", 1)
    with pytest.raises(CancelledError):
        db.sql("SELECT k, count(*) FROM t GROUP BY k")


def test_folding_keeps_what_it_must() -> None:
    folding = GroupMerge([], 1 << 20)
    folding.add(GroupBatch([pa.array([1, 1, None, None])], [], 4))
    assert folding.reached(2)
    assert not folding.reached(3)
    folding.add(GroupBatch([pa.array([None, 3])], [], 2))
    found = folding.finish()
    assert found is not None
    assert found.keys[0].to_pylist() == [1, None, 3]
    assert GroupMerge([], 1).finish() is None


def test_groups_of_many_columns_do_not_run_out_of_numbers() -> None:
    rng = np.random.default_rng(0)
    columns = [pa.array(rng.integers(0, 2**40, 3000)) for _ in range(8)]
    twice = [pa.concat_arrays([column, column]) for column in columns]
    groups = Groups.of(twice, 6000)
    assert groups.count == 3000
    assert groups.number.tolist() == [*range(3000), *range(3000)]
    assert groups.first.tolist() == [*range(3000)]


def test_the_reference_lists_every_aggregate() -> None:
    page = aggregate_reference()
    assert all(f"`{name}(" in page for name in (*AGGREGATE_DOCS, "every"))
