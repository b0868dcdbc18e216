"""Any query as a tree of scans and a remainder: what goes down into the scans, and what may not."""

from __future__ import annotations

import pytest

from tidegate.errors import BindError, TidegateError, TypeMismatch, UnsupportedError
from tidegate.expr.model.printer import show
from tidegate.expr.model.types import FLOAT8, INT4, INT8, INTERVAL, JSONB, TEXT, TIMESTAMPTZ, Type, numeric
from tidegate.plan import logical
from tidegate.sql import prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation, ViewRelation

CATALOG = DictCatalog(
    {
        "o": Relation(
            "o",
            (("id", INT8), ("c", INT8), ("price", numeric(10, 2)), ("at", TIMESTAMPTZ), ("j", JSONB),
             ("i", INTERVAL), ("f", FLOAT8)),
        ),
        "c": Relation("c", (("id", INT8), ("name", TEXT), ("country", TEXT))),
        "s": Relation("s", (("c", INT4), ("name", TEXT))),
        "v": ViewRelation("SELECT c.name AS n, count(*) FROM o JOIN c ON o.c = c.id GROUP BY c.name"),
        "w": ViewRelation("SELECT * FROM o LEFT JOIN c USING (id) ORDER BY price LIMIT 5"),
        "loop": ViewRelation("SELECT * FROM loop, c"),
    }
)  # fmt: skip


def split(sql: str) -> logical.LogicalQuery:
    return prepare(sql, CATALOG, 0).lowered


def pushed(sql: str) -> dict[str, list[str]]:
    """The conditions of each scan, in words."""
    return {scan.source: [show(c) for c in scan.conditions] for scan in split(sql).scans()}


def read(sql: str) -> dict[str, list[str]]:
    """The columns that each scan demands of its collection."""
    return {
        scan.source: [scan.columns[i].name for i in sorted(scan.plan().demand())]
        for scan in split(sql).scans()
    }


JOIN = "SELECT 1 FROM o {} JOIN c ON o.c = c.id WHERE {}"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (JOIN.format("", "price > 5 AND country = 'de'"), {"o": ["price > 5"], "c": ["country = 'de'"]}),
        (JOIN.format("", "price > 5 OR country = 'de'"), {"o": [], "c": []}),
        # what is asked of one side of an equality is asked of the other; not for floats, which can be equal and differ
        (JOIN.format("", "o.c > 7"), {"o": ["c > 7"], "c": ["id > 7"]}),
        # nor what can fail: c may have ids that no row of o has
        (JOIN.format("", "10 / o.c > 7"), {"o": ["10 / c > 7"], "c": []}),
        (JOIN.format("LEFT", "10 / o.c > 7"), {"o": ["10 / c > 7"], "c": []}),
        ("SELECT 1 FROM o a JOIN (SELECT f AS g FROM o) b ON a.f = b.g WHERE a.f > 1", {"o": []}),
        # alternatives over both sides: each side gets its half
        (
            JOIN.format("", "(price = 1 AND country = 'a') OR (price = 2 AND country = 'b')"),
            {"o": ["price = 1 OR price = 2"], "c": ["country = 'a' OR country = 'b'"]},
        ),
        # outer joins: only what the preserved side says, or what no row of NULLs can pass
        (JOIN.format("LEFT", "price > 5 AND coalesce(country, 'x') = 'x'"), {"o": ["price > 5"], "c": []}),
        (JOIN.format("LEFT", "c.country IS NULL"), {"o": [], "c": []}),
        (JOIN.format("LEFT", "c.country = 'de'"), {"o": [], "c": ["country = 'de'"]}),
        (JOIN.format("RIGHT", "c.country = 'de' AND o.price IS NULL"), {"o": [], "c": ["country = 'de'"]}),
        (JOIN.format("FULL", "coalesce(price, 1) > 0"), {"o": [], "c": []}),
        (JOIN.format("FULL", "price > 0"), {"o": ["price > 0"], "c": []}),
        ("SELECT 1 FROM o LEFT JOIN c ON o.c = c.id AND price > 5 AND country = 'de'", {"o": [], "c": ["country = 'de'"]}),
        ("SELECT 1 FROM o FULL JOIN c ON o.c = c.id AND price > 5 AND country = 'de'", {"o": [], "c": []}),
        # through groups, if it reads keys alone
        (
            "SELECT 1 FROM (SELECT c, sum(price) p FROM o GROUP BY c) x JOIN c ON c.id = x.c WHERE x.c > 3 AND p > 9",
            {"o": ["c > 3"], "c": ["id > 3"]},
        ),
        ("SELECT 1 FROM (SELECT c, count(*) FROM o GROUP BY ROLLUP (c)) x, c WHERE x.c > 3", {"o": [], "c": []}),
        # through windows, if all of them partition by it; never through a limit
        (
            "SELECT 1 FROM (SELECT c, price, row_number() OVER (PARTITION BY c) n FROM o) x WHERE c = 3 AND price > 1 AND n = 1",
            {"o": ["c = 3"]},
        ),
        ("SELECT 1 FROM (SELECT * FROM o LIMIT 9) x, c WHERE x.price > 1", {"o": [], "c": []}),
        ("SELECT id FROM (SELECT id FROM o UNION SELECT id FROM c) x WHERE id > 3", {"o": ["id > 3"], "c": ["id > 3"]}),
        ("SELECT id FROM (SELECT id FROM o EXCEPT SELECT id FROM c) x WHERE id > 3", {"o": [], "c": []}),
        # a subquery's own conditions; not those that speak of the query around it
        (
            "SELECT 1 FROM o WHERE price > 1 AND EXISTS (SELECT 1 FROM c WHERE c.id = o.c AND country = 'de')",
            {"o": ["price > 1"], "c": ["country = 'de'"]},
        ),
        ("SELECT * FROM v WHERE n = 'ann'", {"o": [], "c": ["name = 'ann'"]}),
        ("SELECT * FROM w, s WHERE w.price > 3 AND s.name = 'x'", {"o": [], "c": [], "s": ["name = 'x'"]}),
    ],
)  # fmt: skip
def test_what_scans_are_asked(sql: str, expected: dict[str, list[str]]) -> None:
    assert pushed(sql) == expected


def test_only_what_is_used_is_read() -> None:
    assert read("SELECT o.id, name FROM o JOIN c ON o.c = c.id WHERE price > 5") == {
        "o": ["id", "c", "price"],
        "c": ["id", "name"],
    }
    assert read("SELECT count(*) FROM o, c") == {"o": [], "c": []}
    assert read("SELECT id FROM (SELECT id, name FROM c UNION ALL SELECT id, j::text FROM o) x") == {
        "c": ["id"],
        "o": ["id"],
    }
    assert read("SELECT DISTINCT id FROM (SELECT id, name FROM c UNION SELECT id, 'x' FROM o) x") == {
        "c": ["id", "name"],
        "o": ["id"],
    }


def test_what_spark_cannot_say_is_computed_in_the_scan_if_it_cannot_fail() -> None:
    found = split("SELECT name, max(j ->> 'a') FROM o JOIN c ON o.c = c.id GROUP BY name")
    (orders, _) = found.scans()
    assert [show(value) for _, value in orders.computed] == ["j ->> 'a'"]
    assert "j" not in [column.name for column in orders.leaving()]
    # What may fail is asked only of rows that have a pair; what cannot fail of it goes down.
    failing = split("SELECT (j ->> 'a')::int4 FROM o JOIN c ON o.c = c.id").scans()[0]
    assert [show(value) for _, value in failing.computed] == ["j ->> 'a'"]
    # The side that is filled with NULLs is not where COALESCE is asked.
    outer = split("SELECT coalesce(j ->> 'a', 'none') FROM c LEFT JOIN o ON o.c = c.id").scans()[1]
    assert outer.computed == ()


def test_a_left_join_whose_nulls_are_dropped_is_an_inner_one() -> None:
    def kinds(sql: str) -> list[str]:
        return [rel.kind for rel in logical.walk(split(sql).rel) if isinstance(rel, logical.Join)]

    assert kinds("SELECT 1 FROM o LEFT JOIN c ON o.c = c.id WHERE country > 'a'") == ["inner"]
    assert kinds("SELECT 1 FROM o LEFT JOIN c ON o.c = c.id WHERE NOT country = 'a'") == ["inner"]
    assert kinds("SELECT 1 FROM o LEFT JOIN c ON o.c = c.id WHERE country = 'a' OR price > 1") == ["left"]
    assert kinds("SELECT 1 FROM o FULL JOIN c ON o.c = c.id WHERE country = 'a'") == ["right"]
    assert kinds("SELECT 1 FROM o FULL JOIN c ON o.c = c.id WHERE o.id = c.id") == ["inner"]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM o a JOIN c USING (id)", ["id", "c", "price", "at", "j", "i", "f", "name", "country"]),
        ("SELECT * FROM c NATURAL JOIN s", ["name", "id", "country", "c"]),
        ("SELECT c.*, s.name FROM c NATURAL LEFT JOIN s", ["id", "name", "country", "name"]),
        ("SELECT (SELECT max(id) FROM o), EXISTS (SELECT 1 FROM c), count(*) OVER () FROM s", ["max", "exists", "count"]),
        ("SELECT x.b FROM (VALUES (1, 'a'), (2, NULL)) AS x (a, b)", ["b"]),
        ("WITH q (z) AS (SELECT id FROM o UNION SELECT 1) SELECT * FROM q a, q b", ["z", "z"]),
        ("SELECT * FROM v", ["n", "count"]),
    ],
)  # fmt: skip
def test_names(sql: str, names: list[str]) -> None:
    assert list(split(sql).names) == names


def test_types_are_those_of_everywhere() -> None:
    types: dict[str, Type] = {
        "SELECT sum(o.id) FROM o, c": numeric(38, 0),
        "SELECT avg(o.id) FROM o, c": numeric(38, 18),
        "SELECT row_number() OVER () FROM o": INT8,
        "SELECT ntile(3) OVER (ORDER BY id) FROM o": INT4,
        "SELECT id FROM o UNION SELECT c FROM s": INT8,
        "SELECT sum(sum(c)) OVER () FROM s GROUP BY name": numeric(38, 0),
    }
    for sql, type_ in types.items():
        assert split(sql).types == (type_,), sql


def test_a_tree_speaks_of_no_other() -> None:
    for sql in (
        "SELECT (SELECT max(price) FROM o WHERE o.c = c.id) FROM c WHERE id IN (SELECT c FROM o WHERE o.id < c.id)",
        "SELECT * FROM c, LATERAL (SELECT * FROM o WHERE o.c = c.id ORDER BY price LIMIT 1) l",
        "SELECT name, (SELECT count(*) FROM o WHERE o.c = c.id) FROM c GROUP BY name, c.id",
    ):
        assert logical.outer_columns(split(sql).rel) == frozenset(), sql


@pytest.mark.parametrize(
    ("operator", "kind", "tested"),
    [("= ANY", "any", "="), ("<> ALL", "any", "="), ("= ALL", "all", "="), ("<> ANY", "any", "<>")],
)
def test_only_unequal_to_all_is_not_in(operator: str, kind: str, tested: str) -> None:
    tree = split(f"SELECT id {operator} (SELECT id FROM c) FROM o").rel
    ((_, look),) = [
        one for rel in logical.walk(tree) if isinstance(rel, logical.SubqueryApply) for one in rel.computed
    ]
    assert (look.kind, look.operator) == (kind, tested)


def test_a_collection_that_stands_twice_is_two_scans() -> None:
    found = split("SELECT a.id FROM c a JOIN c b ON a.country = b.country WHERE b.name = 'x'").scans()
    assert [[show(c) for c in scan.conditions] for scan in found] == [[], ["name = 'x'"]]
    numbers = [column.index for scan in found for column in scan.columns]
    assert len(set(numbers)) == len(numbers)
    assert isinstance(found[0], logical.Scan)


@pytest.mark.parametrize(
    ("sql", "error", "said", "at"),
    [
        ("SELECT id FROM o, c", BindError, 'column "id" is ambiguous', "id"),
        ("SELECT o.nme FROM o, c", BindError, 'column "nme" does not exist', "o.nme"),
        ("SELECT 1 FROM o, o", BindError, 'table "o" stands in FROM twice', ","),
        ("SELECT 1 FROM o JOIN c USING (price)", BindError, 'column "price" does not exist', "price"),
        ("SELECT 1 FROM o, (SELECT 1 FROM c WHERE c.id = o.c) x", BindError, 'there is no table "o"', "o.c"),
        ("SELECT name, price FROM o, c GROUP BY name", BindError, 'column "price" must stand in GROUP BY', "price"),
        ("SELECT (SELECT max(price) FROM o WHERE o.c = c.id) FROM c GROUP BY name", BindError, '"id" must stand in GROUP BY', "("),
        ("SELECT id FROM o UNION SELECT id, name FROM c", BindError, "UNION of 1 and 2 columns", "UNION"),
        ("SELECT id FROM o UNION SELECT name FROM c", BindError, "UNION types int8 and text cannot be matched", "UNION"),
        ("SELECT (SELECT id, name FROM c) FROM o", BindError, "must give 1 column, and gives 2", "("),
        ("SELECT sum(id) OVER nope FROM o", BindError, 'there is no window "nope"', "nope"),
        ("SELECT 1 FROM o, c WHERE row_number() OVER () = 1", BindError, "window functions are not allowed in WHERE", "row_number"),
        ("SELECT * FROM c, generate_series(1, 'x'::text)", TypeMismatch, "does not take (int4, text)", "generate_series"),
        ("SELECT * FROM c WHERE unnest('{1}'::int4[]) = 1", BindError, "table functions are not allowed in WHERE", "unnest"),
        ("SELECT CASE WHEN true THEN generate_series(1, 2) END FROM c", BindError, "not allowed in CASE", "generate_series"),
        ("SELECT * FROM jsonb_to_record('{}')", BindError, "needs the names and types of its columns", "jsonb_to_record"),
        ("SELECT id FROM c FETCH FIRST ROW WITH TIES", BindError, "WITH TIES needs an ORDER BY", "WITH"),
        ("SELECT i FROM o, c GROUP BY i", UnsupportedError, "GROUP BY of intervals", "SELECT"),
        ("SELECT i FROM o EXCEPT SELECT i FROM o", UnsupportedError, "EXCEPT of intervals", "EXCEPT"),
        ("WITH RECURSIVE q AS (SELECT 1 AS n UNION SELECT max(n) FROM q) TABLE q", BindError, "below an aggregate", "UNION"),
        ("WITH RECURSIVE q AS (SELECT * FROM q) TABLE q", BindError, "must be a UNION", "q"),
        ("WITH RECURSIVE q AS (SELECT 1 AS n UNION SELECT a.n FROM q a, q b) TABLE q", UnsupportedError, "is read twice", "q"),
        ("WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 0.5 FROM q) TABLE q", TypeMismatch, "is int4 in the", "UNION"),
        ("WITH RECURSIVE q AS (SELECT * FROM r), r AS (SELECT 1) TABLE q", UnsupportedError, "before they are defined", "q"),
        ("SELECT sum(c) OVER (ORDER BY name RANGE 5 PRECEDING) FROM s", UnsupportedError, "RANGE with a", "5"),
        ("SELECT * FROM loop", BindError, 'view "loop" reads itself', None),
    ],
)  # fmt: skip
def test_refusals_say_where(sql: str, error: type[TidegateError], said: str, at: str | None) -> None:
    with pytest.raises(error) as caught:
        split(sql)
    assert said in caught.value.message
    assert caught.value.position is not None
    if at is not None:
        position = caught.value.position
        assert sql[position.start : position.end] == at


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT o.price AS x",
        "SELECT o.price AS x FROM c WHERE c.id = o.c",
        "SELECT DISTINCT o.price AS x FROM c",
        "SELECT o.price AS x, count(*) FROM c GROUP BY o.price",
        "SELECT o.price AS x UNION ALL SELECT o.price FROM c",
        "SELECT DISTINCT ON (o.price) o.price AS x FROM c ORDER BY o.price, c.id",
        "SELECT x FROM (SELECT o.price AS x) y",
    ],
)  # fmt: skip
def test_a_column_of_the_query_around_that_leaves_a_subquery_is_one_of_its_own(inner: str) -> None:
    """An outer join fills it with NULL, and not the column outside that it was made of."""
    found = split(f"SELECT o.price, l.x FROM o LEFT JOIN LATERAL ({inner}) l ON o.id > 5 WHERE l.x IS NULL")
    price, x = found.columns
    assert price.index != x.index
    [join] = [rel for rel in logical.walk(found.rel) if isinstance(rel, logical.Join) and rel.kind == "left"]
    left, right = (
        {column.index for column in logical.output_columns(side)} for side in (join.left, join.right)
    )
    assert price.index in left - right
    assert x.index in right - left
    [scan] = [scan for scan in found.scans() if scan.source == "o"]
    assert not scan.conditions
