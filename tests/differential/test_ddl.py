"""Definitions and small statements: every statement of a script has PostgreSQL's rows, command tag or SQLSTATE.

A script runs in both, statement by statement; a statement that fails changes nothing, and the script goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tidegate
from tests import servers
from tidegate.server.postgres.wire.sqlstate import to_postgres_error

SCRIPTS = {
    "create table as": """
        CREATE TABLE t AS SELECT g AS id, 'n' || g AS name FROM generate_series(1, 5) AS g;
        SELECT * FROM t ORDER BY id;
        CREATE TABLE t AS SELECT 1;
        CREATE TABLE IF NOT EXISTS u AS SELECT id * 2 AS d FROM t WHERE id > 3;
        SELECT * FROM u ORDER BY d;
        CREATE TABLE broken AS SELECT 1 / (id - 3) AS x FROM t;
        SELECT * FROM broken;
        CREATE TABLE n (a, b) AS SELECT id, name FROM t WITH NO DATA;
        SELECT a, b FROM n;
        INSERT INTO n VALUES (7, 'x');
        SELECT * FROM n;
        CREATE TABLE many (a, b, c) AS SELECT 1, 2;
        CREATE TABLE twice AS SELECT id, id FROM t;
        CREATE TABLE v (x) AS VALUES (1), (2) WITH DATA;
        SELECT x FROM v ORDER BY x;
        CREATE TABLE w AS TABLE v;
        SELECT count(*) FROM w;
        CREATE TABLE joined AS SELECT t.id, u.d FROM t JOIN u ON u.d = t.id * 2;
        SELECT * FROM joined ORDER BY id;
        CREATE TABLE s AS SELECT 'text' AS a, NULL AS b;
        SELECT a || 'x', b FROM s
    """,
    "select into": """
        CREATE TABLE t (id int4);
        INSERT INTO t VALUES (1), (2), (3);
        SELECT id, id * 2 AS twice INTO u FROM t WHERE id > 1 ORDER BY id;
        SELECT * FROM u ORDER BY id;
        SELECT id INTO TABLE v FROM t;
        SELECT count(*) FROM v;
        SELECT id INTO u FROM t;
        SELECT (SELECT id INTO w FROM t)
    """,
    "like": """
        CREATE TABLE t (id int4 NOT NULL, name varchar(3) DEFAULT 'abc', n numeric(5, 2));
        CREATE TABLE u (LIKE t);
        INSERT INTO u (id) VALUES (1);
        INSERT INTO u (name) VALUES ('x');
        SELECT * FROM u;
        CREATE TABLE v (first int4, LIKE t INCLUDING DEFAULTS, last int4 DEFAULT 9);
        INSERT INTO v (id) VALUES (2);
        SELECT first, id, name, n, last FROM v;
        CREATE TABLE w (LIKE t INCLUDING ALL EXCLUDING DEFAULTS);
        INSERT INTO w (id) VALUES (3);
        SELECT * FROM w;
        CREATE TABLE x (id int4, LIKE t);
        CREATE TABLE y (LIKE nothing)
    """,
    "truncate": """
        CREATE TABLE t (id int4);
        CREATE TABLE u (id int4);
        INSERT INTO t VALUES (1), (2);
        INSERT INTO u VALUES (3);
        TRUNCATE t;
        SELECT * FROM t;
        INSERT INTO t VALUES (4);
        SELECT * FROM t;
        TRUNCATE TABLE t, u RESTART IDENTITY CASCADE;
        SELECT count(*) FROM t;
        SELECT count(*) FROM u;
        TRUNCATE nothing;
        TRUNCATE ONLY t
    """,
    "rename": """
        CREATE TABLE t (id int4, name text);
        INSERT INTO t VALUES (1, 'a');
        ALTER TABLE t RENAME COLUMN name TO label;
        SELECT label FROM t;
        SELECT name FROM t;
        ALTER TABLE t ADD COLUMN name int4;
        SELECT id, label, name FROM t;
        INSERT INTO t VALUES (2, 'b', 5);
        SELECT id, label, name FROM t ORDER BY id;
        ALTER TABLE t RENAME COLUMN nothing TO x;
        ALTER TABLE t RENAME id TO label;
        ALTER TABLE t RENAME TO u;
        SELECT id FROM u ORDER BY id;
        SELECT id FROM t;
        CREATE TABLE t (x int4);
        ALTER TABLE u RENAME TO t;
        ALTER TABLE nothing RENAME TO z;
        CREATE VIEW v AS SELECT x FROM t;
        ALTER VIEW v RENAME TO w;
        SELECT * FROM w;
        ALTER VIEW t RENAME TO y
    """,
    "defaults": """
        CREATE TABLE t (id int4);
        INSERT INTO t VALUES (1), (2);
        ALTER TABLE t ADD COLUMN n int8 DEFAULT 7;
        SELECT id, n FROM t ORDER BY id;
        ALTER TABLE t ALTER COLUMN n SET DEFAULT 8;
        INSERT INTO t (id) VALUES (3);
        SELECT id, n FROM t ORDER BY id;
        ALTER TABLE t ALTER n DROP DEFAULT;
        INSERT INTO t (id) VALUES (4);
        SELECT id, n FROM t WHERE n IS NULL OR n = 7 ORDER BY id;
        SELECT count(*), count(n), min(n), max(n), sum(n) FROM t;
        UPDATE t SET n = n + 1 WHERE id = 1;
        DELETE FROM t WHERE n = 7;
        SELECT id, n FROM t ORDER BY id;
        ALTER TABLE t ADD COLUMN s varchar(2) DEFAULT 'abc';
        ALTER TABLE t ADD COLUMN s varchar(3) DEFAULT 'abc' NOT NULL, ADD COLUMN d date DEFAULT '2024-02-29';
        SELECT id, s, d FROM t ORDER BY id;
        ALTER TABLE t ADD COLUMN m int4 NOT NULL;
        ALTER TABLE t ADD COLUMN e int4 DEFAULT 1 / 0;
        ALTER TABLE t ADD COLUMN e int4 DEFAULT 'x';
        ALTER TABLE t ADD COLUMN n int4;
        ALTER TABLE t ADD COLUMN IF NOT EXISTS n int4;
        ALTER TABLE t ALTER COLUMN nothing SET DEFAULT 1;
        ALTER TABLE t ALTER COLUMN id SET DEFAULT 'x';
        INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT, DEFAULT);
        INSERT INTO t (n) VALUES (1), (DEFAULT);
        INSERT INTO t DEFAULT VALUES;
        SELECT id, n, s, d FROM t ORDER BY id, n
    """,
    "types": """
        CREATE TABLE t (a int2, b int4, c float4, d numeric(4, 1), e varchar(2), f int8);
        INSERT INTO t VALUES (1, 2, 0.5, 3.5, 'x', 5), (-32768, -2147483648, 1e30, 999.9, 'yz', 9223372036854775807);
        ALTER TABLE t ALTER a TYPE int4, ALTER b SET DATA TYPE int8, ALTER COLUMN c TYPE float8;
        ALTER TABLE t ALTER d TYPE numeric(8, 1), ALTER e TYPE varchar(4);
        ALTER TABLE t ALTER f TYPE numeric(25, 2);
        INSERT INTO t VALUES (70000, 3000000000, 0.25, 123456.7, 'long', 12345678901234567890.12);
        SELECT a, b, c, d, e, f FROM t ORDER BY a;
        SELECT a FROM t WHERE b > 2147483647;
        SELECT a FROM t WHERE c = 0.5 OR d = 999.9 ORDER BY a;
        SELECT a FROM t WHERE f = 9223372036854775807;
        SELECT a FROM t WHERE f > 4.99 AND f < 5.01;
        SELECT min(a), max(a), min(b), max(b), min(d), max(d), min(f), max(f), min(e), max(e) FROM t;
        INSERT INTO t (e) VALUES ('longer');
        ALTER TABLE t ALTER e TYPE text;
        INSERT INTO t (a, e) VALUES (8, 'longer');
        UPDATE t SET a = a + 1 WHERE e = 'longer';
        DELETE FROM t WHERE d = 3.5;
        SELECT a, e FROM t ORDER BY a;
        ALTER TABLE t ALTER nothing TYPE int8
    """,
    "not null": """
        CREATE TABLE t (a int4, b int4);
        INSERT INTO t VALUES (1, NULL);
        ALTER TABLE t ALTER a SET NOT NULL;
        INSERT INTO t VALUES (NULL, 1);
        ALTER TABLE t ALTER b SET NOT NULL;
        ALTER TABLE t ALTER a DROP NOT NULL;
        INSERT INTO t VALUES (NULL, 1);
        ALTER TABLE t ALTER a SET NOT NULL;
        UPDATE t SET a = 2 WHERE a IS NULL;
        ALTER TABLE t ALTER a SET NOT NULL, ALTER b SET DEFAULT 5;
        UPDATE t SET a = NULL;
        SELECT a, b FROM t ORDER BY a;
        ALTER TABLE t DROP CONSTRAINT nothing;
        ALTER TABLE t DROP CONSTRAINT IF EXISTS nothing
    """,
    "assignment": """
        CREATE TABLE t (n numeric(4, 1), s varchar(3), i int2);
        INSERT INTO t VALUES (999.94, 'abc   ', 32767);
        INSERT INTO t VALUES (999.95, 'a', 1);
        INSERT INTO t SELECT 1000, 'a', 1;
        INSERT INTO t SELECT 1, 'abcd', 1;
        INSERT INTO t (i) SELECT 40000;
        INSERT INTO t (i) SELECT 1.5;
        INSERT INTO t VALUES (12.345::numeric(4, 1), 'abcdef'::varchar(3), '7');
        INSERT INTO t VALUES (12345::numeric(4, 1), 'a', 1);
        UPDATE t SET n = n * 100;
        UPDATE t SET s = s || 'd' WHERE s = 'abc';
        UPDATE t SET s = 'ab   d';
        UPDATE t SET s = 'ab   ' WHERE i = 7;
        CREATE TABLE u AS SELECT n, s FROM t;
        INSERT INTO u VALUES (1, 'abcd');
        INSERT INTO u VALUES (10000, 'a');
        SELECT n, s, i FROM t ORDER BY i
    """,
    "views": """
        CREATE TABLE t (a int4, b int4);
        CREATE VIEW v AS SELECT a FROM t;
        ALTER TABLE t ALTER b TYPE int8;
        ALTER TABLE t DROP COLUMN a;
        ALTER TABLE t DROP COLUMN b;
        SELECT * FROM v
    """,
    "comments": """
        CREATE TABLE t (a int4, b text);
        CREATE VIEW v AS SELECT a FROM t;
        COMMENT ON TABLE t IS 'a table';
        COMMENT ON COLUMN t.b IS 'it''s b';
        COMMENT ON VIEW v IS 'a view';
        COMMENT ON COLUMN v.a IS 'of a view';
        SELECT obj_description('t'::regclass, 'pg_class'), obj_description('v'::regclass);
        SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
            WHERE attrelid IN ('t'::regclass, 'v'::regclass) AND attnum > 0 ORDER BY attrelid = 't'::regclass, attname;
        COMMENT ON COLUMN t.b IS NULL;
        SELECT count(*) FROM pg_description WHERE objoid = 't'::regclass;
        COMMENT ON COLUMN t.nothing IS 'x';
        COMMENT ON TABLE nothing IS 'x';
        COMMENT ON VIEW t IS 'x';
        ALTER TABLE t RENAME b TO c;
        COMMENT ON COLUMN public.t.c IS 'renamed';
        SELECT col_description('t'::regclass, 2)
    """,
    "prepared statements": """
        CREATE TABLE t (id int4, name text, n numeric);
        PREPARE put (int4, text, numeric) AS INSERT INTO t VALUES ($1, $2, $3);
        EXECUTE put (1, 'a', 1.5);
        EXECUTE put (1 + 1, 'b' || 'c', 2);
        EXECUTE put (2.6, NULL, 12345678901234567890.123456789);
        EXECUTE put (1);
        PREPARE get AS SELECT id, name FROM t WHERE id = $1 OR name = $2 ORDER BY id;
        EXECUTE get (1, 'bc');
        EXECUTE get ('1', NULL);
        PREPARE get AS SELECT 1;
        PREPARE plain AS SELECT count(*) FROM t;
        EXECUTE plain;
        EXECUTE plain (1);
        EXECUTE get ('x', 'y');
        DEALLOCATE get;
        EXECUTE get (1, 'a');
        DEALLOCATE get;
        DEALLOCATE PREPARE plain;
        PREPARE change (int4) AS UPDATE t SET name = 'z' WHERE id >= $1;
        EXECUTE change (2);
        SELECT * FROM t ORDER BY id, n;
        DEALLOCATE ALL;
        EXECUTE change (1);
        PREPARE wrong AS CREATE TABLE x (a int4)
    """,
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Callable[[list[str]], list[Any]]]:
    """What PostgreSQL answers to the statements of a script."""
    import psycopg

    try:
        url = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")
    with psycopg.connect(url, autocommit=True) as connection:

        def run(statements: list[str]) -> list[Any]:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DEALLOCATE ALL")
            answers: list[Any] = []
            for statement in statements:
                try:
                    cursor = connection.execute(statement, prepare=False)
                except psycopg.Error as error:
                    answers.append(error.sqlstate)
                    continue
                answers.append(cursor.fetchall() if cursor.description else cursor.statusmessage)
            return answers

        yield run


def ours(statements: list[str]) -> list[Any]:
    """The same of ours."""
    answers: list[Any] = []
    with tidegate.open("memory://") as db:
        for statement in statements:
            try:
                result = db.sql(statement)
                answers.append(result.rows() if result.names else result.text())
            except tidegate.TidegateError as error:
                answers.append(to_postgres_error(error).code)
    return answers


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_does_what_postgres_does(judge: Callable[[list[str]], list[Any]], script: str) -> None:
    statements = [piece.strip() for piece in SCRIPTS[script].split(";")]
    for statement, own, wanted in zip(statements, ours(statements), judge(statements), strict=True):
        assert own == wanted, statement
