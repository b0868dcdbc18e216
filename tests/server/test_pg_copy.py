"""COPY TO STDOUT and FROM STDIN by psycopg, asyncpg and psql: formats, options, atomicity, errors and their lines."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pyarrow.csv
import pytest

from tests.server.pg_server import SLOW, Serving, psql, serving, shop
from tidegate.server.postgres.copy.options import CopyOptions
from tidegate.server.postgres.copy.statement import parse_copy
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import statement_texts


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with shop() as found:
        found.db.sql("CREATE TABLE odd (n int8, s text, tags text[], at timestamptz, doc jsonb)")
        rows = {
            "n": [1, 2, 3, 4],
            "s": ["a\tb\\\nc", 'q"u,o', "", None],
            "tags": [["x", None], [], None, ["a b"]],
            "at": [dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC), None, None, None],
            "doc": ['{"k":[1]}', "null", None, '"x"'],
        }
        found.db.append("odd", rows)
        yield found


@pytest.fixture
def conn(at: Serving) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(at.conninfo(), autocommit=True) as found:
        yield found


def sent(conn: psycopg.Connection[tuple[object, ...]], sql: str) -> bytes:
    """All data of a COPY TO."""
    with conn.cursor().copy(sql) as copy:
        return b"".join(bytes(piece) for piece in copy)


def load(conn: psycopg.Connection[tuple[object, ...]], sql: str, data: bytes, step: int = 1 << 20) -> int:
    """Sends data of a COPY FROM in pieces; how many rows were appended."""
    cursor = conn.cursor()
    with cursor.copy(sql) as copy:
        for i in range(0, len(data), step):
            copy.write(data[i : i + step])
    return cursor.rowcount


# ---------------------------------------------------------------- out


def test_text(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert sent(conn, "COPY orders TO STDOUT") == b"1\tham\t1.50\n2\teggs\t2.25\n3\tO'Neill\t\\N\n"
    assert sent(conn, "copy public.orders (name, id) to stdout with delimiter '|' null 'nil'").endswith(
        b"O'Neill|3\n"
    )
    assert sent(conn, "COPY (SELECT s FROM odd ORDER BY n) TO STDOUT") == b'a\\tb\\\\\\nc\nq"u,o\n\n\\N\n'
    assert sent(conn, "COPY (SELECT s FROM odd WHERE n = 2) TO STDOUT (DELIMITER ',')") == b'q"u\\,o\n'


def test_csv(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    data = sent(conn, "COPY (SELECT n, s, tags, doc FROM odd ORDER BY n) TO STDOUT (FORMAT csv, HEADER)")
    assert data.decode() == (
        'n,s,tags,doc\n1,"a\tb\\\nc","{x,NULL}","{""k"":[1]}"\n2,"q""u,o",{},null\n3,"",,\n4,,"{""a b""}","""x"""\n'
    )
    forced = sent(conn, "COPY orders TO STDOUT WITH CSV HEADER FORCE QUOTE name QUOTE '''' DELIMITER ';'")
    assert forced.decode().splitlines() == ["id;name;price", "1;'ham';1.50", "2;'eggs';2.25", "3;'O''Neill';"]
    assert sent(conn, "COPY (SELECT 'a\"b\\c') TO STDOUT (FORMAT csv, ESCAPE '\\')") == b'"a\\"b\\\\c"\n'
    assert sent(conn, "COPY (SELECT 'x', NULL) TO STDOUT (FORMAT csv, NULL 'x')") == b'"x",x\n'
    table = pyarrow.csv.read_csv(io.BytesIO(sent(conn, "COPY big TO STDOUT CSV HEADER")))
    assert table.num_rows == 300_000
    assert table["s"][-1].as_py() == "row 299999"


def test_binary_and_rows(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    with conn.cursor().copy("COPY (SELECT id, name, price FROM orders ORDER BY id) TO STDOUT (FORMAT binary)") as copy:  # fmt: skip
        copy.set_types(["int8", "text", "numeric"])
        assert list(copy.rows()) == [(1, "ham", Decimal("1.50")), (2, "eggs", Decimal("2.25")), (3, "O'Neill", None)]  # fmt: skip
    with conn.cursor().copy("COPY (SELECT id, name FROM orders ORDER BY id) TO STDOUT") as copy:
        assert list(copy.rows())[:2] == [("1", "ham"), ("2", "eggs")]
    empty = sent(conn, "COPY (SELECT id FROM orders WHERE false) TO STDOUT BINARY")
    assert empty == b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"
    assert sent(conn, "COPY (SELECT id FROM orders WHERE false) TO STDOUT (FORMAT csv, HEADER)") == b"id\n"


def test_anything_with_rows_can_be_copied(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert sent(conn, "COPY (VALUES (1), (2)) TO STDOUT") == b"1\n2\n"
    joined = "WITH x AS (SELECT 2 AS id) SELECT name FROM orders JOIN x USING (id)"
    assert sent(conn, f"COPY ({joined}) TO STDOUT") == b"eggs\n"
    assert sent(conn, "COPY (SELECT relname FROM pg_class WHERE relname = 'big') TO STDOUT") == b"big\n"
    cursor = conn.execute("SET statement_timeout = '1min'")
    with cursor.copy("COPY (SELECT s FROM big) TO STDOUT") as copy:
        for _ in copy:
            pass
    assert cursor.rowcount == 300_000


def test_the_range_of_all_rows_that_duckdb_sends(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    rows = "ctid BETWEEN '(0,0)'::tid AND '(4294967295,0)'::tid"
    assert sent(conn, f"COPY (SELECT id FROM orders WHERE {rows} AND id > 2) TO STDOUT") == b"3\n"
    with pytest.raises(psycopg.Error):
        sent(conn, f"COPY (SELECT id FROM orders WHERE {rows.replace('(0,0)', '(9,0)')}) TO STDOUT")


def test_errors_of_copy_out(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    for sql, error, at in (
        ("COPY nope TO STDOUT", psycopg.errors.UndefinedTable, 6),
        ("COPY (SELECT nope FROM orders) TO STDOUT", psycopg.errors.UndefinedColumn, 14),
        ("COPY orders TO '/etc/passwd'", psycopg.errors.FeatureNotSupported, 16),
        ("COPY orders TO PROGRAM 'ls'", psycopg.errors.FeatureNotSupported, 16),
        ("COPY (DELETE FROM orders) TO STDOUT", psycopg.errors.FeatureNotSupported, 7),
        ("COPY orders", psycopg.errors.SyntaxError, 12),
        ("COPY orders TO STDOUT (FORMAT xml)", psycopg.errors.InvalidParameterValue, None),
        ("COPY orders TO STDOUT (DELIMITER 'ab')", psycopg.errors.InvalidParameterValue, None),
        ("COPY orders TO STDOUT (NONSENSE)", psycopg.errors.SyntaxError, None),
        ("COPY orders TO STDOUT (FORMAT csv, FORMAT csv)", psycopg.errors.SyntaxError, None),
        ("COPY orders TO STDOUT (ENCODING 'latin1')", psycopg.errors.FeatureNotSupported, None),
    ):
        with pytest.raises(error) as caught:
            sent(conn, sql)
        position = caught.value.diag.statement_position
        assert position == (None if at is None else str(at)), sql
    with pytest.raises(psycopg.errors.DivisionByZero):
        sent(conn, "COPY (SELECT 1 / (id - 2) FROM orders) TO STDOUT")
    assert conn.execute("SELECT 1").fetchone() == (1,)


LEFT_EARLY = """
import sys, threading, psycopg
conn = psycopg.connect(sys.argv[1], autocommit=True)
timer = threading.Timer(0.7, conn.cancel)
timer.start()
try:
    with conn.cursor().copy(f"COPY ({sys.argv[2]}) TO STDOUT") as copy:
        print(list(copy))
except psycopg.errors.QueryCanceled as error:
    print(error.sqlstate)
timer.join()
try:
    with conn.cursor().copy("COPY (SELECT s, s FROM big) TO STDOUT") as copy:
        print(next(iter(copy)) != b"")
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
print(conn.execute("SELECT 'still here'").fetchone())
conn.close()
"""


def test_a_copy_is_cancelled(at: Serving) -> None:
    """By a cancel request, and by a client that leaves early; in a process, as libpq's cancel holds the interpreter."""
    words = [sys.executable, "-c", LEFT_EARLY, at.conninfo(), SLOW]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("57014\nTrue\n('still here',)\n", "")
    at.wait_until(busy=False)


# ---------------------------------------------------------------- in


@pytest.fixture
def target(at: Serving) -> Iterator[str]:
    at.db.sql("CREATE TABLE target (id int8 NOT NULL, name varchar(6) DEFAULT 'dd', p numeric(6,2), at timestamptz)")  # fmt: skip
    yield "target"
    at.db.sql("DROP TABLE target")


Rows = list[tuple[Any, ...]]


def stored(at: Serving) -> Rows:
    return at.db.sql("SELECT id, name, p FROM target ORDER BY id").rows()


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_text_in(at: Serving, conn: psycopg.Connection[tuple[object, ...]], target: str, step: int) -> None:
    data = b"1\tham\t1.5\t\\N\n2\ta\\tb\\\\\t\\N\t\\N\r\n3\t\\xc3\\xa9\\056\t2\t2026-01-02 03:04:05+01\n\\.\nrest"
    assert load(conn, "COPY target FROM STDIN", data, step) == 3
    assert stored(at) == [(1, "ham", Decimal("1.50")), (2, "a\tb\\", None), (3, "é.", Decimal("2.00"))]
    assert load(conn, "COPY target (id) FROM STDIN", b"4\n5") == 2
    assert stored(at)[3:] == [(4, "dd", None), (5, "dd", None)]


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_csv_in(at: Serving, conn: psycopg.Connection[tuple[object, ...]], target: str, step: int) -> None:
    data = b'p,id,name\n1.5,1,"a,\n""b"\n,2,\n3,3,""\n'
    assert load(conn, "COPY target (p, id, name) FROM STDIN (FORMAT csv, HEADER match)", data, step) == 3
    assert stored(at) == [(1, 'a,\n"b', Decimal("1.50")), (2, None, None), (3, "", Decimal("3.00"))]
    more = b"4;'it\\'s'\n"
    assert load(conn, r"COPY target (id, name) FROM STDIN CSV QUOTE '''' ESCAPE '\' DELIMITER ';'", more) == 1
    assert stored(at)[3] == (4, "it's", None)


def test_binary_in_and_a_round_trip(
    at: Serving, conn: psycopg.Connection[tuple[object, ...]], target: str
) -> None:
    with conn.cursor().copy("COPY target (id, name, p, at) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "varchar", "numeric", "timestamptz"])
        copy.write_row((1, "ham", Decimal("1.5"), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)))
        copy.write_row((2, None, None, None))
    assert stored(at) == [(1, "ham", Decimal("1.50")), (2, None, None)]
    for form in ("text", "csv", "binary"):
        at.db.sql("CREATE TABLE again (n int8, s text, tags text[], at timestamptz, doc jsonb)")
        data = sent(conn, f"COPY odd TO STDOUT (FORMAT {form})")
        assert load(conn, f"COPY again FROM STDIN (FORMAT {form})", data, 100) == 4
        both = [at.db.sql(f"SELECT n, s, tags, at, doc FROM {name} ORDER BY n").rows() for name in ("odd", "again")]  # fmt: skip
        assert both[0] == both[1], form
        at.db.sql("DROP TABLE again")


def test_many_rows_are_one_commit(at: Serving, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """The data comes in dozens of pieces, cut anywhere."""
    at.db.sql("CREATE TABLE many (n int8, s text)")
    data = "".join(f'{i},"row\n{i}"\n' for i in range(100_000)).encode()
    assert load(conn, "COPY many FROM STDIN CSV", data, 65_537) == 100_000
    assert at.db.sql("SELECT count(*), sum(n), count(DISTINCT s) FROM many").rows() == [(100_000, 4999950000, 100_000)]  # fmt: skip
    with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught:
        load(conn, "COPY many FROM STDIN CSV", data + b'x,"row\nx"\n', 65_537)
    assert caught.value.diag.context == 'COPY many, line 200001, column n: "x"'
    assert at.db.sql("SELECT count(*) FROM many").rows() == [(100_000,)]
    at.db.sql("DROP TABLE many")


WRONG = [
    ("FROM STDIN", b"x\tham\t1\t\\N\n", "22P02", 'COPY target, line 1, column id: "x"'),
    ("FROM STDIN", b"1\tham\t1\t\\N\n2\tham\n", "22P04", "COPY target, line 2"),
    ("FROM STDIN", b"1\ttoo long\t1\t\\N\n", "22001", 'COPY target, line 1, column name: "too long"'),
    ("FROM STDIN", b"1\ta\t12345\t\\N\n", "22003", 'COPY target, line 1, column p: "12345"'),
    ("FROM STDIN", b"1\ta\t1\tnever\n", "22007", 'COPY target, line 1, column at: "never"'),
    ("FROM STDIN", b"1\ta\t1\t\\N\n\\N\ta\t1\t\\N\n", "23502", "COPY target, line 2, column id: null"),
    ("FROM STDIN", b"1\ta\t1\t\\N\n2\t\xff\t1\t\\N\n", "22021", "COPY target, line 2"),
    ("FROM STDIN CSV", b'1,"a\nb",1,\n2,a,x,\n', "22P02", 'COPY target, line 3, column p: "x"'),
    ("FROM STDIN CSV", b'1,"a\nb",1,\n2,a,1\n', "22P04", "COPY target, line 3"),
    ("FROM STDIN (FORMAT csv, HEADER match)", b"id,nom,p,at\n", "22P04", "COPY target, line 1"),
    ("FROM STDIN BINARY", b"no signature", "22P04", None),
    ("FROM STDIN BINARY", b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\1\0\0\0\1", "22P04", "COPY target, row 1"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "data", "code", "context"), WRONG)
def test_wrong_data_appends_nothing_and_says_where(
    at: Serving, conn: psycopg.Connection[tuple[object, ...]], target: str, how: str, data: bytes, code: str, context: str | None
) -> None:  # fmt: skip
    with pytest.raises(psycopg.Error) as caught:
        load(conn, f"COPY target {how}", data)
    assert (caught.value.sqlstate, caught.value.diag.context) == (code, context)
    assert stored(at) == []
    assert load(conn, "COPY target (id) FROM STDIN", b"1\n") == 1


def test_what_cannot_be_copied_into(conn: psycopg.Connection[tuple[object, ...]], at: Serving) -> None:
    at.db.sql("CREATE VIEW seen AS SELECT id FROM orders")
    for sql, code in (
        ("COPY nope FROM STDIN", "42P01"),
        ("COPY seen FROM STDIN", "42000"),
        ("COPY orders (nope) FROM STDIN", "42703"),
        ("COPY orders (id, id) FROM STDIN", "42701"),
        ("COPY orders FROM '/etc/passwd'", "0A000"),
        ("COPY orders FROM STDIN (FORMAT csv, FORCE_QUOTE *)", "0A000"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            load(conn, sql, b"1\n")
        assert caught.value.sqlstate == code, sql
    at.db.sql("DROP VIEW seen")


def test_a_client_that_ends_its_data(
    at: Serving, conn: psycopg.Connection[tuple[object, ...]], target: str
) -> None:
    def broken() -> None:
        with conn.cursor().copy("COPY target (id) FROM STDIN") as copy:
            copy.write(b"1\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert stored(at) == []
    with psycopg.connect(at.conninfo(), autocommit=True) as other:
        other.pgconn.exec_(b"COPY target (id) FROM STDIN")
        other.pgconn.put_copy_data(b"1\n")
        other.pgconn.finish()  # the connection breaks in the middle
    assert conn.execute("SELECT count(*) FROM target").fetchone() == (0,)


def test_who_may_only_read_copies_nothing_in(at: Serving) -> None:
    with serving(at.db, write=False) as reader, psycopg.connect(reader.conninfo(), autocommit=True) as conn:
        assert sent(conn, "COPY orders TO STDOUT").startswith(b"1\tham")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            load(conn, "COPY orders FROM STDIN", b"")


def test_psql_copies_files_of_the_client(at: Serving, tmp_path: Path, target: str) -> None:
    out = tmp_path / "orders.csv"
    assert psql(at, rf"\copy orders TO '{out}' CSV HEADER").stdout == "COPY 3\n"
    assert out.read_text().splitlines()[0] == "id,name,price"
    given = psql(at, rf"\copy target (id, name, p) FROM '{out}' CSV HEADER")
    assert given.stderr.splitlines() == [
        "ERROR:  value too long for type character varying(6)",
        'CONTEXT:  COPY target, line 4, column name: "O\'Neill"',
    ]
    script = "COPY target (id, name) FROM STDIN;\n7\tseven\n\\.\nSELECT name FROM target;\n"
    assert "seven" in psql(at, stdin=script).stdout


def test_asyncpg_copies(at: Serving, target: str) -> None:
    async def work() -> None:
        conn = await asyncpg.connect(host="127.0.0.1", port=at.port, user="ann", database="lake", ssl=False)
        names = ["id", "name"]
        records = [(1, "a"), (2, None)]
        assert await conn.copy_records_to_table("target", records=records, columns=names) == "COPY 2"
        out = io.BytesIO()
        query = "SELECT id, name FROM target WHERE id > $1 ORDER BY id"
        await conn.copy_from_query(query, 0, output=out, format="csv")
        assert out.getvalue() == b"1,a\n2,\n"
        source = io.BytesIO(b"3,c\n")
        assert await conn.copy_to_table("target", source=source, columns=names, format="csv") == "COPY 1"
        await conn.close()

    asyncio.run(asyncio.wait_for(work(), 60))
    assert [row[0] for row in stored(at)] == [1, 2, 3]


# ---------------------------------------------------------------- the statement


def test_spellings() -> None:
    def options(text: str) -> CopyOptions:
        return parse_copy(statement_texts(f"COPY t TO STDOUT {text}")[0]).options

    csv = CopyOptions("csv", ",", "", True)
    for text in (
        "CSV HEADER",
        "WITH CSV HEADER",
        "(FORMAT csv, HEADER)",
        "WITH (HEADER on, FORMAT 'csv')",
        '(format "csv", header 1)',
    ):
        assert options(text) == csv, text
    assert options("(FORMAT csv, FORCE_QUOTE (a, b))").force_quote == ("a", "b")
    assert options("WITH BINARY").format == "binary"
    assert options("DELIMITER AS '|' NULL AS ''") == CopyOptions("text", "|", "")
    assert parse_copy(statement_texts("COPY BINARY t TO STDOUT")[0]).options.format == "binary"
    for wrong in (
        "(DELIMITER E'\\n')",
        "(NULL E'a\\tb')",
        "(QUOTE 'x')",
        "(FORMAT binary, DELIMITER ',')",
        "(FORMAT csv, DELIMITER '\"')",
        "(HEADER maybe)",
        "(FORMAT csv",
        "CSV nonsense",
    ):
        with pytest.raises(PostgresError):
            options(wrong)
