"""Common tables and views: which are computed once, what is asked of them, and which columns they keep."""

from __future__ import annotations

import pytest

from tests.unit.sql.test_general import pushed, split
from tests.unit.sql.test_tables import nodes
from tidegate.errors import UnsupportedError
from tidegate.expr.model.types import INT8
from tidegate.plan import logical
from tidegate.sql.bind import bind_query
from tidegate.sql.bind.catalog import DictCatalog, Relation, ViewRelation
from tidegate.sql.lower.sharing import shared

TOTALS = "WITH t AS (SELECT c, sum(price) AS s FROM o GROUP BY c) "


@pytest.mark.parametrize(
    ("sql", "once", "scans"),
    [
        (TOTALS + "SELECT * FROM t WHERE s = (SELECT max(s) FROM t)", 1, 1),
        (TOTALS + "SELECT * FROM t", 0, 1),
        (TOTALS + "SELECT 1 FROM c", 0, 1),
        ("SELECT * FROM v a JOIN v b ON a.n < b.n", 1, 2),
        # rows that are only passed on: the conditions of each reader prune parts
        ("WITH t AS (SELECT id, price * 2 AS p FROM o) SELECT * FROM t a JOIN t b USING (id)", 0, 2),
        ("WITH t AS (SELECT id FROM o UNION ALL SELECT id FROM c) SELECT * FROM t a JOIN t b USING (id)", 0, 4),
        ("WITH t AS (SELECT id FROM o UNION SELECT id FROM c) SELECT * FROM t a JOIN t b USING (id)", 1, 2),
        ("WITH t AS (SELECT o.id FROM o JOIN c ON o.c = c.id) SELECT * FROM t a JOIN t b USING (id)", 1, 2),
        ("WITH t AS (SELECT id FROM o ORDER BY price) SELECT * FROM t a JOIN t b USING (id)", 0, 2),
        ("WITH t AS (SELECT id FROM o ORDER BY price LIMIT 3) SELECT * FROM t a JOIN t b USING (id)", 1, 1),
        # as the user says
        ("WITH t AS MATERIALIZED (SELECT id FROM o) SELECT * FROM t a JOIN t b USING (id)", 1, 1),
        (TOTALS.replace("AS (", "AS NOT MATERIALIZED (") + "SELECT * FROM t a JOIN t b USING (c)", 0, 2),
        # the step of a recursion reads again and again
        (("WITH RECURSIVE t AS (SELECT max(id) AS m FROM o), r AS (SELECT 1::int8 AS n UNION ALL SELECT n + 1 FROM r, t "
         "WHERE n < m) SELECT * FROM r"), 1, 1),
        # a reads o; b reads a twice, and is read twice itself
        (("WITH a AS (SELECT c, count(*) AS n FROM o GROUP BY c), b AS (SELECT x.c FROM a x JOIN a y ON x.n = y.n) "
         "SELECT * FROM b x JOIN b y USING (c)"), 2, 1),
        # b only passes on rows of a: it vanishes, and a is read by both of its copies
        (("WITH a AS (SELECT c, count(*) AS n FROM o GROUP BY c), b AS (SELECT * FROM a WHERE n > 1) "
         "SELECT * FROM b x JOIN b y USING (c)"), 1, 1),
    ],
)  # fmt: skip
def test_what_is_computed_once(sql: str, once: int, scans: int) -> None:
    assert (len(nodes(sql, logical.Common)), len(split(sql).scans())) == (once, scans)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ("a.c = 1 AND b.c = 2", ["c = 1 OR c = 2"]),
        ("a.c = 1 AND b.c = 1", ["c = 1"]),
        ("a.c > 7 AND a.s > 5 AND b.c < 3", ["c > 7 OR c < 3"]),  # of s it is asked above the sums
        ("a.c > 7", []),  # the other reader needs all rows
        (
            "10 / a.c > 7 AND b.c = 2",
            [],
        ),  # what fails for a row must not be asked of rows of the other reader
    ],
)
def test_what_all_readers_drop_is_not_computed(conditions: str, expected: list[str]) -> None:
    sql = f"{TOTALS} SELECT 1 FROM t a JOIN t b ON a.s < b.s WHERE {conditions}"
    assert pushed(sql) == {"o": expected}


def test_only_columns_that_a_reader_wants_are_computed() -> None:
    sql = "WITH t AS (SELECT c, sum(price) AS s, count(*) AS n, max(at) AS m FROM o GROUP BY c) "
    query = split(sql + "SELECT a.s FROM t a JOIN t b ON a.n = b.n")
    (group,) = (rel for rel in logical.walk(query.rel) if isinstance(rel, logical.Group))
    assert [call.kind for _, call in group.computed] == ["sum", "count"]
    (scan,) = query.scans()
    assert [column.name for column in scan.leaving()] == ["c", "price"]


def test_copies_share_no_column() -> None:
    sql = "WITH t AS (SELECT id, c FROM o) SELECT * FROM t a JOIN t b ON a.id = b.c JOIN t c ON c.id = b.id"
    query = split(sql)
    numbers = [column.index for scan in query.scans() for column in scan.columns]
    assert len(numbers) == len(set(numbers)) == 21
    assert max(numbers) < query.count


def test_a_query_without_common_tables_is_left_alone() -> None:
    query = split("SELECT * FROM o JOIN c USING (id)")
    assert shared(query) is query


def test_each_row_of_a_common_table_has_one_random_number() -> None:
    random = "WITH r AS (SELECT id, random() AS x FROM o) "
    assert nodes(random + "SELECT * FROM r a JOIN r b USING (id) WHERE a.x = b.x", logical.Common)
    kept = random.replace("AS (", "AS NOT MATERIALIZED (")
    assert nodes(kept + "SELECT * FROM r a JOIN r b USING (id) WHERE a.x = b.x", logical.Common)


@pytest.mark.parametrize(
    "view", ["SELECT id, random() AS x FROM o", "WITH r AS (SELECT random() AS id) SELECT * FROM r"]
)
def test_a_view_with_random_numbers_is_read_once(view: str) -> None:
    catalog = DictCatalog({"o": Relation("o", (("id", INT8),)), "r": ViewRelation(view)})
    assert bind_query("SELECT * FROM r JOIN o USING (id)", catalog, 0).names
    with pytest.raises(
        UnsupportedError, match='the view "r" calls a volatile function and is read more than once'
    ):
        bind_query("SELECT * FROM r a JOIN r b USING (id)", catalog, 0)


def test_what_reads_the_rows_of_a_step_stays_in_it() -> None:
    sql = (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL (WITH t AS (SELECT n FROM r WHERE n < 5) SELECT n + 1 FROM t)) "
        "SELECT a.n FROM r a JOIN r b USING (n)"
    )
    (common,) = nodes(sql, logical.Common)
    assert isinstance(common, logical.Common)
    assert isinstance(common.definition, logical.Recursive)
