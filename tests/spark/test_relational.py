"""Relational constructs on Spark and in a real PostgreSQL: equal rows and names of columns, or a refusal by name."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.differential.conftest import postgres as postgres  # noqa: PLC0414  # a fixture of this module too
from tests.differential.postgres import Postgres
from tests.differential.random_queries import random_query
from tests.differential.relational import STATEMENTS, Pair, pair_of_databases

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def pair(spark: SparkSession, postgres: Postgres) -> Iterator[Pair]:
    del spark
    with pair_of_databases(postgres) as made:
        yield made


def refused_by_spark(sql: str) -> bool:
    """What Spark cannot run: recursion without duplicates or in a subquery; a subquery that reads a query two levels above."""
    without_duplicates = sql.startswith("WITH RECURSIVE") and " UNION SELECT" in sql
    return (
        without_duplicates
        or (
            "(WITH RECURSIVE" in sql and " IN (WITH RECURSIVE" not in sql
        )  # one that reads the query around it
        or "(SELECT (SELECT (SELECT" in sql
        or "m.parent = n.id)))" in sql
    )


@pytest.mark.long
def test_statements(pair: Pair) -> None:
    wrong = pair.differences([sql for sql in STATEMENTS["plain"] if not refused_by_spark(sql)], "spark")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def test_orders(pair: Pair) -> None:
    wrong = pair.differences([*STATEMENTS["ordered"], *STATEMENTS["ties"]], "spark", ordered=True)
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def test_refusals(pair: Pair) -> None:
    refused = [sql for sql in STATEMENTS["plain"] if refused_by_spark(sql)]
    assert len(refused) == 8
    for sql in refused:
        with pytest.raises(tidegate.UnsupportedError):
            pair.ours(sql, "spark")


def test_random_numbers_of_a_common_table(pair: Pair) -> None:
    """Spark computes what is not deterministic once, but not for the steps of a recursion."""
    rows = "WITH RECURSIVE t AS (SELECT src, dst, cost, random() AS x FROM edges) "
    _, found = pair.ours(f"{rows} SELECT count(*) FROM edges", "spark")
    for condition in ("a.x = b.x", "a.x = b.x AND b.x >= 0"):
        joined = f"{rows} SELECT count(b.x) FROM t a LEFT JOIN t b ON {condition}"
        assert pair.ours(joined, "spark")[1] == found, condition
    with pytest.raises(tidegate.UnsupportedError, match="WITH RECURSIVE over a common table with a volatile"):
        pair.ours(
            f"{rows}, r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, t WHERE n < 3) SELECT * FROM r",
            "spark",
        )


def test_random_queries(pair: Pair) -> None:
    """Of the seeds up to 8 without 2, whose subquery reads a query two levels above it."""
    queries = [random_query(random.Random(seed)) for seed in (1, 3, 4, 5, 6, 7, 8)]
    wrong = pair.differences(queries, "spark")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
