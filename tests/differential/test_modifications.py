"""INSERT, UPDATE, DELETE and MERGE against a real PostgreSQL: the same rows, counts, RETURNING and errors.

A history is a dozen random statements over small tables; after each the table is compared, and what it was before is read AS OF.
With TIDEGATE_GENERAL=1 (`make prove`) there are ten times as many.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import tidegate
from tests import servers
from tests.differential.general import plain
from tests.differential.modifications import Statement, T, U, statement
from tidegate.server.postgres.wire.sqlstate import to_postgres_error

HISTORIES = 50 if "TIDEGATE_GENERAL" in os.environ else 5
"""Of a dozen statements, in each of four ways: some 15 ms a statement."""
STATEMENTS = 12
Rows = Counter[tuple[Any, ...]]


@pytest.fixture(scope="module")
def theirs() -> Iterator[psycopg.Connection[Any]]:
    try:
        url = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"no {missing}")
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def counted(rows: list[tuple[Any, ...]]) -> Rows:
    """Rows in a form that is equal where both mean the same."""
    return Counter(tuple(plain(value) for value in row) for row in rows)


def fill(
    r: random.Random, db: tidegate.Database, connection: psycopg.Connection[Any], *, keyed: bool
) -> None:
    """Makes the tables: t in several parts, with each id once if it is `keyed`."""
    connection.rollback()
    connection.execute("DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS u")
    for name, columns in (("t", T), ("u", U)):
        by_bytes = columns.replace(" text", ' text COLLATE "C"')
        connection.execute(f"CREATE TABLE {name} ({by_bytes})")
        db.sql(f"CREATE TABLE {name} ({columns})")
    ids = r.sample(range(1, 11), 7) if keyed else [r.randrange(1, 8) for _ in range(9)]
    texts = ["NULL", "'a'", "'b'", "'c'"]
    rows = [f"({i}, {r.randrange(3)}, {r.choice(['NULL', '1', '4', '6'])}, {r.choice(texts)})" for i in ids]
    others = [f"({r.randrange(1, 12)}, {r.randrange(5)}, {r.choice(texts)})" for _ in range(6)] + [
        "(NULL, 3, 'n')"
    ]
    for i in range(0, len(rows), 2):
        insert = f"INSERT INTO t VALUES {', '.join(rows[i : i + 2])}"
        db.sql(insert)
        connection.execute(insert)
    for side in (db.sql, connection.execute):
        side(f"INSERT INTO u VALUES {', '.join(others)}")
    connection.commit()


def answer_of_theirs(
    connection: psycopg.Connection[Any], given: Statement
) -> tuple[str | None, int, Rows] | None:
    """Its SQLSTATE, count and rows; None if PostgreSQL does not take it: there is no key."""
    count, rows = 0, Counter[tuple[Any, ...]]()
    if given.unique:
        try:
            connection.execute("CREATE UNIQUE INDEX one_each ON t (id)")
        except psycopg.errors.UniqueViolation:
            connection.rollback()
            return None
    try:
        for sql in given.theirs:
            cursor = connection.execute(sql)
            count += cursor.rowcount
            rows = counted(cursor.fetchall()) if cursor.description else rows
    except psycopg.Error as error:
        connection.rollback()
        return error.sqlstate, 0, rows
    connection.execute("DROP INDEX IF EXISTS one_each")
    connection.commit()
    return None, count, rows


def answer_of_ours(db: tidegate.Database, given: Statement) -> tuple[str | None, int, Rows]:
    try:
        result = db.sql(given.ours)
    except tidegate.TidegateError as error:
        return to_postgres_error(error).code, 0, Counter()
    return None, int(result.text().split()[-1]), counted(result.rows() if result.names else [])


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("keyed", [True, False], ids=["each id once", "ids several times"])
@pytest.mark.parametrize("by_position", [True, False], ids=["by position", "by value"])
def test_histories(theirs: psycopg.Connection[Any], seed: int, *, keyed: bool, by_position: bool) -> None:
    r = random.Random(f"{seed} {keyed}")  # the same each time
    with tidegate.open("memory://") as db:
        db.set("delete_by_position", by_position)
        db.set("audit", 1.0)
        fill(r, db, theirs, keyed=keyed)
        for _ in range(STATEMENTS):
            given = statement(r)
            before, upper = counted(db.sql("SELECT * FROM t").rows()), db.status().collections["t"].upper
            expected = answer_of_theirs(theirs, given)
            if expected is None:
                continue
            assert answer_of_ours(db, given) == expected, given
            there = counted(theirs.execute("SELECT * FROM t").fetchall())
            assert counted(db.sql("SELECT * FROM t").rows()) == there, given
            assert counted(db.sql("SELECT * FROM t", as_of=upper - 1).rows()) == before, given
            if r.random() < 0.2:
                db.compact("t")
