"""Queries of every shape on the embedded engine against a real PostgreSQL: equal rows, and no JVM.

Every query of `general.sql` and random ones are asked with `join_reduction` on and off, on collections that were only appended to
and on the same after rows were deleted, updated back and forth, and settled in part. With TIDEGATE_GENERAL=1 (`make prove`)
there are 2,000 random queries.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

import tidegate
from tests.differential.general import (
    ORDERED,
    QUERIES,
    TABLES,
    Both,
    both_databases,
    comparable_rows,
    difference,
    random_query,
)

RANDOM = 2_000 if "TIDEGATE_GENERAL" in os.environ else 150
"""Some 10 ms each."""


@pytest.fixture(scope="module", params=["appended", "changed"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The tables as they were inserted, and with deleted rows in every part."""
    with both_databases(tmp_path_factory.mktemp("general")) as made:
        if request.param == "changed":
            change(made.db)
        yield made


def change(db: tidegate.Database) -> None:
    """Deletes and updates rows of every part, such that the same rows are left."""
    for name, columns in TABLES.items():
        first = columns.split()[0]
        rows = db.sql(f"SELECT * FROM {name} WHERE {first} % 3 = 0").arrow()
        db.sql(f"DELETE FROM {name} WHERE {first} % 3 = 0")
        db.append(name, rows)
        db.sql(f"UPDATE {name} SET {first} = {first} + 1000000 WHERE {first} % 2 = 0")
        db.sql(f"UPDATE {name} SET {first} = {first} - 1000000 WHERE {first} > 900000")


def ask_all(both: Both, queries: list[str], *, ordered: bool = False) -> None:
    wrong = []
    for i, sql in enumerate(queries):
        reduction = "on" if i % 2 else "off"

        def ours(sql: str = sql, reduction: str = reduction) -> list[tuple[object, ...]]:
            return comparable_rows(both.ours(sql, engine="embedded", join_reduction=reduction))

        if (found := difference(both, sql, ours, ordered=ordered)) is not None:
            wrong.append(found)
    assert not wrong, f"{len(wrong)} of {len(queries)} differ:\n" + "\n".join(wrong)


def test_queries_of_every_shape(both: Both) -> None:
    ask_all(both, QUERIES)


def test_orders(both: Both) -> None:
    ask_all(both, ORDERED, ordered=True)


def test_random_queries(both: Both) -> None:
    r = random.Random(20240701)  # the same queries each time
    ask_all(both, [random_query(r) for _ in range(RANDOM)])
