"""Values assigned to varchar(n) and numeric(p,s): every path that writes decides as PostgreSQL does, and cuts nothing silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

import tidegate
from tests import servers

VALUES = ("", "abc", "abcd", "abc  ", "ab   c", "äöü", "äöüß", "     ", "  abcd")
"""Of the length, shorter, longer by letters, by spaces alone, by spaces and then a letter."""
TOO_LONG = r"value too long for type character varying\(3\)"


@pytest.fixture(scope="module")
def judge() -> Iterator[Callable[[str], list[str] | None]]:
    """What PostgreSQL stores of a statement that writes to t; None if it refuses the value as too long."""
    import psycopg

    try:
        url = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")
    with psycopg.connect(url, autocommit=True) as connection:

        def run(statement: str) -> list[str] | None:
            connection.execute("DROP TABLE IF EXISTS t, from_here")
            connection.execute("CREATE TABLE t (a varchar(3)); INSERT INTO t VALUES ('x')")
            connection.execute("CREATE TABLE from_here (b text)")
            connection.execute("INSERT INTO from_here SELECT unnest(%s::text[])", [list(VALUES)])
            try:
                connection.execute(statement)
            except psycopg.errors.StringDataRightTruncation:
                return None
            return [row[0] for row in connection.execute('SELECT a FROM t ORDER BY a COLLATE "C"')]

        yield run


def ours(statement: str) -> list[str] | None:
    """The same of ours."""
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a varchar(3)); INSERT INTO t VALUES ('x')")
        db.sql("CREATE TABLE from_here (b text)")
        db.append("from_here", {"b": list(VALUES)})
        before = db.status().collections["t"].upper
        try:
            db.sql(statement)
        except tidegate.EvaluationError as error:
            if "value too long for type character varying(3)" not in str(error):
                raise
            return None if db.status().collections["t"].upper == before else ["it changed the table"]
        return sorted(row[0] for row in db.sql("SELECT a FROM t").rows())


STATEMENTS = (
    "INSERT INTO t VALUES ('{}')",
    "INSERT INTO t VALUES ('ok'), ('{}')",
    "INSERT INTO t VALUES ('a' || '{}')",
    "INSERT INTO t VALUES ('{}'::varchar(3))",
    "INSERT INTO t SELECT b FROM from_here WHERE b = '{}'",
    "INSERT INTO t SELECT b::varchar(3) FROM from_here WHERE b = '{}'",
    "INSERT INTO t SELECT b || '' FROM from_here WHERE b = '{}' ORDER BY b LIMIT 5",
    "UPDATE t SET a = '{}'",
    "UPDATE t SET a = a || '{}'",
    "UPDATE t SET a = '{}'::varchar(3) WHERE a = 'x'",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_decide_as_postgres(judge: Callable[[str], list[str] | None], statement: str) -> None:
    for value in VALUES:
        wanted = judge(statement.format(value))
        assert ours(statement.format(value)) == wanted, (statement, value)


@pytest.mark.parametrize("value", [12345, 1.25, Decimal("1.25"), True])
def test_what_becomes_text_is_not_cut_either(judge: Callable[[str], list[str] | None], value: object) -> None:
    statement = f"INSERT INTO t VALUES ({value})"
    assert judge(statement) is None
    assert ours(statement) is None


def test_append_decides_as_insert(judge: Callable[[str], list[str] | None]) -> None:
    for value in VALUES:
        for layout in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
            with tidegate.open("memory://") as db:
                db.sql("CREATE TABLE t (a varchar(3)); INSERT INTO t VALUES ('x')")
                rows = pa.table({"a": pa.array([value, None], pa.string()).cast(layout)})
                wanted = judge(f"INSERT INTO t VALUES ('{value}')")
                if wanted is None:
                    with pytest.raises(tidegate.EvaluationError, match=TOO_LONG):
                        db.append("t", rows)
                else:
                    db.append("t", rows)
                    db.append("t", rows, diff=-1)  # it is found again as it is stored
                    db.append("t", rows)
                    found = [row[0] for row in db.sql("SELECT a FROM t WHERE a IS NOT NULL").rows()]
                    assert sorted(found) == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO n (l) VALUES (ARRAY['ab', 'abcd'])",
        "INSERT INTO n (l) VALUES ('{ab,abcd}')",
        "INSERT INTO n (l) SELECT ARRAY['ab', 'abcd']",
        "INSERT INTO n (r) VALUES (ROW('abcd'))",
        "INSERT INTO n (r) SELECT ROW('abcd')",
        "UPDATE n SET l = ARRAY['abcd']",
        "INSERT INTO n (l) VALUES (ARRAY['ab']), (NULL), (ARRAY['abcd'])",
        "INSERT INTO n (d) VALUES (DEFAULT)",
        "INSERT INTO n DEFAULT VALUES",
        "UPDATE n SET d = DEFAULT",
    ],
)
def test_inside_of_arrays_records_and_defaults(statement: str) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE n (l varchar(3)[], r row(x varchar(3)), d varchar(3) DEFAULT 'abcd')")
        db.sql("INSERT INTO n VALUES (ARRAY['abc   '], ROW('abc '), 'abc  ')")
        with pytest.raises(tidegate.EvaluationError, match=TOO_LONG):
            db.sql(statement)
        assert db.sql("SELECT l, r, d FROM n").rows() == [(["abc"], {"x": "abc"}, "abc")]


@pytest.mark.parametrize("value", ["99.994", "99.995", "100", "0.005", "-99.995", "1e1", "12.345::numeric"])
def test_numbers_are_rounded_or_refused(value: str) -> None:
    """numeric(4,2): digits behind the point are rounded, digits before it refused, as in PostgreSQL."""
    import psycopg

    try:
        url = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")
    with psycopg.connect(url, autocommit=True) as connection, tidegate.open("memory://") as db:
        connection.execute("CREATE TEMPORARY TABLE m (a numeric(4,2)); INSERT INTO m VALUES (1)")
        db.sql("CREATE TABLE m (a numeric(4,2)); INSERT INTO m VALUES (1)")
        for statement in (
            f"INSERT INTO m VALUES ({value})",
            f"INSERT INTO m SELECT {value}",
            f"UPDATE m SET a = {value}",
        ):
            try:
                connection.execute(statement)
                refused = False
            except psycopg.errors.NumericValueOutOfRange:
                refused = True
            if refused:
                with pytest.raises(tidegate.TidegateError, match="numeric field overflow"):
                    db.sql(statement)
            else:
                db.sql(statement)
            wanted = sorted(row[0] for row in connection.execute("SELECT a FROM m"))
            assert sorted(row[0] for row in db.sql("SELECT a FROM m").rows()) == wanted
