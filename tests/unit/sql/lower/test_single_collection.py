"""Which trees are plans over one collection, and what plans; what engines must run, and why."""

from __future__ import annotations

import pytest

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.model import Column, build, support, types
from tidegate.expr.model.types import INT4, INT8, INTERVAL, JSONB, TEXT, TIMESTAMPTZ, array
from tidegate.plan import BoundQuery, MapFilterProject, OrderKey, logical
from tidegate.sql import PreparedQuery, prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation, ViewRelation
from tidegate.sql.lower import single_collection

COLUMNS = (
    ("id", INT8), ("item", TEXT), ("n", INT4), ("at", TIMESTAMPTZ), ("p", JSONB), ("span", INTERVAL), ("tags", array(INT4)),
)  # fmt: skip
HIDDEN = MapFilterProject.identity((INT8, types.MZ_TIMESTAMP)).filter(
    build.call("<", Column(1, types.MZ_TIMESTAMP), build.literal(9, types.MZ_TIMESTAMP))
)
CATALOG = DictCatalog(
    {
        "t": Relation("t", COLUMNS),
        "u": Relation("u", (("id", INT8), ("item", TEXT))),
        "expiring": Relation("expiring", (("id", INT8),), HIDDEN.project([0])),
        "big": ViewRelation("SELECT id, n * 2 AS twice FROM t WHERE n > 100"),
        "counts": ViewRelation("SELECT item, count(*) AS c FROM big JOIN t USING (id) GROUP BY item"),
        "per_item": ViewRelation("SELECT item, count(*) AS c FROM t GROUP BY item"),
        "top": ViewRelation("SELECT id FROM t ORDER BY n LIMIT 3"),
    }
)


def prepared(sql: str) -> PreparedQuery:
    return prepare(sql, CATALOG, 0)


def single(sql: str) -> BoundQuery:
    bound = prepared(sql).single
    assert bound is not None, sql
    return bound


def shown(bound: BoundQuery) -> list[str]:
    """The plan, as EXPLAIN would say it."""
    lines = [f"from {bound.source}", *bound.mfp.optimise().show().split("\n")]
    return lines if bound.aggregation is None else [*lines, *bound.aggregation.show().split("\n")]


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        ("SELECT id FROM t WHERE n > 1", ["from t", "Filter #2 > 1", "Project (#0)"]),
        ("SELECT 1 + 1", ["from None", "Map 2"]),
        ("VALUES (1, 'a')", ["from None", "Map 1, 'a'"]),
        ("SELECT id FROM expiring", ["from expiring", "Filter #1 < '9'", "Project (#0)"]),
        ("SELECT twice FROM big b WHERE b.id < 5", ["from t", "Map #2 * 2", "Filter #0 < 5 AND #2 > 100", "Project (#7)"]),
        ("WITH a AS (SELECT n + 1 AS m FROM t), b (x) AS (SELECT m FROM a) SELECT x FROM b WHERE x > 3",
         ["from t", "Map #2 + 1", "Filter #7 > 3", "Project (#7)"]),
        ("WITH unread AS (SELECT id FROM t LIMIT 1) SELECT id FROM t", ["from t", "Project (#0)"]),
        ("(SELECT id FROM (SELECT id, n FROM t ORDER BY n) x)", ["from t", "Project (#0, #2)"]),
        ("SELECT avg(n) FROM t", ["from t", "Project (#2)", "Aggregate sum(#0), count(#0)", "Map #0 / #1", "Project (#2)"]),
        ("SELECT bool_or(n > 1) FROM t", ["from t", "Map #2 > 1", "Project (#7)", "Aggregate max(#0)"]),
        ("SELECT count(*) FILTER (WHERE n > 1), count(DISTINCT n) FROM t",
         ["from t", "Map CASE WHEN #2 > 1 THEN true END", "Project (#7, #2)", "Aggregate count(#0), count(distinct #1)"]),
        ("SELECT item FROM t GROUP BY item HAVING min(n) > 1",
         ["from t", "Project (#1, #2)", "Aggregate min(#1) by #0", "Filter #1 > 1", "Project (#0)"]),
        ("SELECT DISTINCT item, id FROM t", ["from t", "Project (#1, #0)", "Aggregate by #0, #1"]),
        ("SELECT item FROM (SELECT DISTINCT item, id FROM t) d WHERE id > 1",
         ["from t", "Project (#1, #0)", "Aggregate by #0, #1", "Filter #1 > 1", "Project (#0)"]),
        ("SELECT DISTINCT count(*) FROM t GROUP BY item",
         ["from t", "Project (#1)", "Aggregate count(*) by #0", "Project (#1)", "Distinct"]),
        ("SELECT c + 1 FROM per_item WHERE c > 1",
         ["from t", "Project (#1)", "Aggregate count(*) by #0", "Map #1 + 1", "Filter #1 > 1", "Project (#2)"]),
        ("SELECT span FROM t GROUP BY span", ["from t", "Project (#5)", "Aggregate by #0"]),
        ("SELECT sum(span), max(tags) FROM t", ["from t", "Project (#5, #6)", "Aggregate sum(#0), max(#1)"]),
        ("SELECT any_value(n ORDER BY id) FROM t", ["from t", "Project (#2)", "Aggregate min(#0)"]),
    ],
)  # fmt: skip
def test_a_plan_over_one_collection(sql: str, plan: list[str]) -> None:
    assert shown(single(sql)) == plan


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT t.id FROM t JOIN u USING (id)", "a JOIN"),
        ("SELECT id FROM t UNION SELECT id FROM u", "UNION"),
        ("VALUES (1), (2)", "VALUES with several rows"),
        ("SELECT * FROM generate_series(1, 3) g", "a table function in FROM"),
        ("SELECT unnest(tags) FROM t", None),
        ("SELECT row_number() OVER () FROM t", "the window function row_number"),
        ("SELECT id FROM t WHERE n = (SELECT 1)", "a subquery in an expression"),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1)", "a subquery in EXISTS"),
        ("SELECT * FROM (SELECT id FROM t LIMIT 3) x", "LIMIT in a subquery"),
        ("WITH c AS (SELECT id FROM t OFFSET 3) SELECT * FROM c", 'LIMIT in the common table "c"'),
        ("SELECT * FROM top", "LIMIT in a view"),
        ("SELECT id FROM t ORDER BY n FETCH FIRST 2 ROWS WITH TIES", "WITH TIES"),
        ("SELECT DISTINCT ON (item) id FROM t", "DISTINCT ON"),
        ("SELECT item, count(*) FROM t GROUP BY ROLLUP (item)", "ROLLUP"),
        ("SELECT sum(c) FROM per_item", "an aggregation over another one"),
        ("SELECT x FROM (SELECT DISTINCT count(*) AS x, item FROM t GROUP BY item) d", "DISTINCT over groups in a subquery"),
        ("SELECT string_agg(item, ',') FROM t", None),
        ("SELECT stddev(n::float8) FROM t", None),
        ("SELECT * FROM counts", "a JOIN"),
        ("WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r", "WITH RECURSIVE"),
    ],
)  # fmt: skip
def test_what_engines_run_and_why(sql: str, construct: str | None) -> None:
    found = prepared(sql)
    assert found.single is None
    assert found.tree.obstacle is not None
    assert construct in (None, found.tree.obstacle.construct)
    at = found.tree.obstacle.position
    assert 0 <= at.start <= at.end <= len(at.sql)


def test_order_and_limits() -> None:
    bound = single("SELECT id AS x, p FROM t ORDER BY x DESC, n NULLS FIRST, p, 1 LIMIT 5 OFFSET 2")
    assert bound.order_by == (
        OrderKey(0, True, True), OrderKey(2, False, True), OrderKey(3, False, False), OrderKey(0, False, False),
    )  # fmt: skip
    assert (bound.names, bound.limit, bound.offset) == (("x", "p"), 5, 2)
    assert str(bound.mfp.outputs[3]).count("sort")  # jsonb is sorted by its sort key
    assert single("SELECT id FROM t LIMIT 0").limit == 0
    merged = single("(SELECT id FROM t ORDER BY n) LIMIT 2")
    assert (merged.order_by, merged.limit) == ((OrderKey(1, False, False),), 2)
    assert single("(SELECT id FROM t ORDER BY id)").order_by == (OrderKey(0, False, False),)


def test_mz_now_of_rows_and_of_groups() -> None:
    assert single("SELECT id FROM t WHERE mz_now() < at").is_temporal
    assert single("SELECT item FROM t GROUP BY item HAVING max(at) > mz_now()").is_temporal
    assert not single("SELECT id FROM t").is_temporal
    assert prepared("SELECT t.id FROM t JOIN u USING (id) WHERE mz_now() < at").is_temporal
    assert not prepared("SELECT t.id FROM t JOIN u USING (id)").is_temporal


def test_the_row_of_a_table_is_made_only_if_something_asks_for_it() -> None:
    plain, whole = (prepared(sql) for sql in ("SELECT t.id FROM t", "SELECT t FROM t"))
    assert not any(rel.computed for rel in logical.walk(plain.tree.rel) if isinstance(rel, logical.Map))
    assert whole.single is not None
    assert support(*whole.single.mfp.outputs) == frozenset(range(len(COLUMNS)))
    joined = prepared("SELECT u FROM t LEFT JOIN u USING (id)").lowered
    made = [rel for rel in logical.walk(joined.rel) if isinstance(rel, logical.Map) and rel.computed]
    assert [len(support(value)) for rel in made for _, value in rel.computed] == [2]
    beside = prepared("SELECT s.j FROM t, LATERAL (SELECT to_jsonb(t) AS j FROM u LIMIT 1) s").lowered
    assert any(isinstance(rel, logical.Join) and rel.lateral for rel in logical.walk(beside.rel))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT span FROM {} GROUP BY span", "GROUP BY of intervals"),
        ("SELECT DISTINCT span FROM {}", "DISTINCT of intervals"),
        ("SELECT count(DISTINCT span) FROM {}", r"count\(DISTINCT …\) of intervals"),
    ],
)
def test_what_engines_do_otherwise_is_refused_only_of_them(sql: str, message: str) -> None:
    assert prepared(sql.format("t")).single is not None
    with pytest.raises(UnsupportedError, match=message) as caught:
        prepared(sql.format("t JOIN u ON t.id = u.id"))
    assert caught.value.position is not None
    with pytest.raises(UnsupportedError, match=message):
        _ = prepared(sql.format("t")).lowered


def test_a_common_table_that_nobody_reads_must_mean_something() -> None:
    with pytest.raises(BindError, match="nothing"):
        prepared("WITH unread AS (SELECT nothing FROM t) SELECT id FROM t")
    assert prepared("WITH unread AS (SELECT id FROM t UNION SELECT 1) SELECT id FROM t").tree.obstacle is None
    with pytest.raises(BindError, match="3 names"):
        prepared("WITH c (a, b, c) AS (SELECT 1) SELECT * FROM c")


def test_a_tree_that_was_pushed_down_is_asked_too() -> None:
    """Scans have conditions then."""
    found = prepared("SELECT id FROM t WHERE n > 1 AND item = 'a' LIMIT 3")
    again = single_collection(found.lowered)
    assert again is not None
    assert again.mfp.optimise() == single("SELECT id FROM t WHERE n > 1 AND item = 'a'").mfp.optimise()
    assert again.limit == 3
