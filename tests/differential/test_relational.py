"""Relational constructs on the embedded engine and in a real PostgreSQL: equal rows and names of columns, equal refusals.

With TIDEGATE_GENERAL=1 (`make prove`) there are 2,000 random queries of each kind.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.differential import random_queries
from tests.differential.postgres import Postgres
from tests.differential.relational import STATEMENTS, Pair, pair_of_databases, random_query
from tests.differential.test_push_down_faults import FOUND_BY

pytestmark = pytest.mark.postgres

ENGINES = ("embedded",)
RANDOM = 2_000 if "TIDEGATE_GENERAL" in os.environ else 120
"""Some 20 ms each."""
NESTED = 2_000 if "TIDEGATE_GENERAL" in os.environ else 60
"""Some 60 ms each; beside these, those that find planted faults (`test_push_down_faults.py`)."""


@pytest.fixture(scope="module")
def pair(postgres: Postgres) -> Iterator[Pair]:
    with pair_of_databases(postgres) as made:
        yield made


def show(differences: list[str], count: int) -> str:
    return f"{len(differences)} of {count} differ:\n" + "\n".join(differences)


@pytest.mark.parametrize("engine", ENGINES)
def test_statements(pair: Pair, engine: str) -> None:
    statements = STATEMENTS["plain"]
    assert len(statements) >= 200
    wrong = pair.differences(statements, engine)
    assert not wrong, show(wrong, len(statements))


@pytest.mark.parametrize("engine", ENGINES)
def test_orders(pair: Pair, engine: str) -> None:
    wrong = pair.differences(STATEMENTS["ordered"], engine, ordered=True)
    assert not wrong, show(wrong, len(STATEMENTS["ordered"]))


@pytest.mark.parametrize("engine", ENGINES)
def test_ties(pair: Pair, engine: str) -> None:
    wrong = pair.differences(STATEMENTS["ties"], engine, ordered=True)
    assert not wrong, show(wrong, len(STATEMENTS["ties"]))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_both_refuse(pair: Pair, engine: str) -> None:
    found = [pair.only_one_refuses(sql, engine) for sql in STATEMENTS["refused"]]
    assert [one for one in found if one is not None] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_random_queries(pair: Pair, engine: str) -> None:
    r = random.Random(20240702)  # the same queries each time
    queries = [random_query(r) for _ in range(RANDOM)]
    wrong = pair.differences(queries, engine)
    assert not wrong, show(wrong, len(queries))


@pytest.mark.parametrize("engine", ENGINES)
def test_random_queries_of_several_levels(pair: Pair, engine: str) -> None:
    seeds = {*range(NESTED), *(one for one in FOUND_BY.values() if isinstance(one, int))}
    queries = [random_queries.random_query(random.Random(seed)) for seed in sorted(seeds)]
    queries += [one for one in FOUND_BY.values() if isinstance(one, str)]
    wrong = pair.differences(queries, engine)
    assert not wrong, show(wrong, len(queries))
