"""Queries of every shape against a real PostgreSQL: equal rows, whichever way our scans are read.

Each query of the list is asked once, the readers and `join_reduction` taking turns, so that each of them meets every kind of query;
so are a dozen random ones. With TIDEGATE_GENERAL=1 (`make prove`) every query goes through every reader, with the reduction on and
off, and there are 200 random ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.differential.general import (
    ORDERED,
    QUERIES,
    Both,
    both_databases,
    comparable_rows,
    difference,
    random_query,
)
from tidegate.spark.engine.scans import FORCED_READER, Reader

LONG = "TIDEGATE_GENERAL" in os.environ
READERS: tuple[Reader, ...] = ("local", "index", "late")
TURNS: tuple[Reader, ...] = ("local", "index", "local", "late", "index", "local")
"""The readers that start tasks of their own take longer, and have fewer turns."""


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Four tables in a database of ours and in a PostgreSQL."""
    del spark
    with both_databases(tmp_path_factory.mktemp("general")) as made:
        yield made


FAILED: list[str] = []
"""What Spark itself failed with: seen once, in a run with two sessions at a time, and not found out why. One is asked again."""


def again_if_spark_failed(ask: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """The answer; an error that is not ours is passed over once in a run, never a wrong answer."""
    try:
        return ask()
    except tidegate.TidegateError:
        raise
    except Exception as error:
        FAILED.append(f"{type(error).__name__}: {error}")
        if len(FAILED) > 1:
            raise
        return ask()


def ask(both: Both, sql: str, reader: Reader, reduction: bool, ordered: bool = False) -> str | None:
    """None if both answer alike; else how they do not."""

    def ours() -> list[tuple[Any, ...]]:
        FORCED_READER.set(reader)
        result = both.ours(sql, engine="spark", join_reduction="on" if reduction else "off")
        assert result.path in ("spark", "local", "metadata")
        return comparable_rows(result)

    found = difference(both, sql, lambda: again_if_spark_failed(ours), ordered=ordered)
    return None if found is None else f"by {reader}, {reduction}: {found}"


def ask_all(both: Both, queries: list[str], *, ordered: bool = False) -> None:
    """Asks each query by readers in turn; in the long version by each."""
    jobs = [
        (sql, reader, reduction)
        for i, sql in enumerate(queries)
        for reader in READERS
        for reduction in (True, False)
        if LONG or (reader == TURNS[i % 6] and reduction == bool((i + i // 6) % 2))
    ]
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(copy_context().run, partial(ask, both, *job, ordered)) for job in jobs]
        wrong = [found for one in asked if (found := one.result()) is not None]
    assert not wrong, f"{len(wrong)} of {len(jobs)} differ:\n" + "\n".join(wrong)


@pytest.mark.long
def test_queries_of_every_shape(both: Both) -> None:
    ask_all(both, QUERIES)


def test_orders(both: Both) -> None:
    ask_all(both, ORDERED, ordered=True)


def test_random_queries(both: Both) -> None:
    r = random.Random(20240701)  # the same queries each time
    ask_all(both, [random_query(r) for _ in range(200 if LONG else 12)])
