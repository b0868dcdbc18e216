"""SQLSTATE codes: an expression that fails has the code on the psql port that PostgreSQL gives it."""

from __future__ import annotations

import pytest

import tidegate
from tests.differential.postgres import Postgres
from tidegate.server.postgres.wire.sqlstate import to_postgres_error

CONSTANTS = [
    "'2024-13-45'::date",
    "'2024-02-30'::date",
    "'x'::date",
    "'2024-01-01 25:00'::timestamp",
    "'2024-13-01 00:00'::timestamptz",
    "'2024-01-01 00:00+99'::timestamptz",
    "'x'::timestamptz",
    "'25:00'::time",
    "'noonish'::time",
    "'x'::interval",
    "'9999999999999 years'::interval",
    "'999999-01-01'::timestamp",
    "'999999999'::int2",
    "'x'::int4",
    "'99999999999999999999'::int8",
    "'1e999'::float8",
    "'x'::float8",
    "'x'::numeric",
    "'x'::bool",
    "'x'::uuid",
    "'{'::jsonb",
    "70000::int2",
    "1 / 0",
    "1.5 % 0",
    "2147483647 + 1",
    "1e308::float8 * 10",
    "12345::numeric(3, 1)",
    "sqrt(-1.0::float8)",
    "ln(0.0::float8)",
    "ln(-1.5)",
    "0.0::float8 ^ -1",
    "(-2.0::float8) ^ 0.5",
    "substr('abc', 1, -1)",
    "regexp_replace('a', '(', 'b')",
    "date '5874897-12-31' + 1",
    "make_date(2024, 13, 1)",
    "make_time(25, 0, 0)",
    "to_timestamp('2024-13-01', 'YYYY-MM-DD')",
    "acos(2::float8)",
    "interval '1 day' / 0",
]
ROWS = [
    ("'2024-13-45'", "{}::date"),
    ("'x'", "{}::timestamp"),
    ("'division by zero'", "{}::int4"),
    ("'value too long for type'", "{}::float8"),
    ("'1e999'", "{}::float8"),
    ("'99999999999'", "{}::int4"),
    ("'0'", "1 / {}::int8"),
    ("'x'", "{}::interval"),
]
"""A text that a row holds, and what is done with it."""


def ours(*statements: str) -> str | None:
    """The code of the last statement's error; None if it does not fail."""
    with tidegate.open("memory://") as db:
        for statement in statements[:-1]:
            db.sql(statement)
        try:
            db.sql(statements[-1]).rows()
        except tidegate.TidegateError as error:
            return to_postgres_error(error).code
    return None


def theirs(postgres: Postgres, *statements: str) -> str | None:
    """The same of PostgreSQL."""
    import psycopg

    postgres.connection.execute("DROP TABLE IF EXISTS coded")
    try:
        for statement in statements:
            postgres.connection.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize("expression", CONSTANTS)
def test_constants(postgres: Postgres, expression: str) -> None:
    statement = f"SELECT {expression}"
    expected = theirs(postgres, statement)
    assert expected is not None
    assert ours(statement) == expected


@pytest.mark.parametrize(("text", "expression"), ROWS, ids=[" ".join(row) for row in ROWS])
def test_rows(postgres: Postgres, text: str, expression: str) -> None:
    statements = (
        "CREATE TABLE coded (a text)",
        f"INSERT INTO coded VALUES ({text})",
        f"SELECT {expression.format('a')} FROM coded",
    )
    expected = theirs(postgres, *statements)
    assert expected is not None
    assert ours(*statements) == expected


@pytest.mark.parametrize("value", ["'abcd'", "'2024-13-45'", "'x'"])
def test_values_that_are_written(postgres: Postgres, value: str) -> None:
    types = {"'abcd'": "varchar(3)"}
    statements = (
        f"CREATE TABLE coded (a {types.get(value, 'date')})",
        f"INSERT INTO coded VALUES ({value})",
    )
    assert ours(*statements) == theirs(postgres, *statements)
