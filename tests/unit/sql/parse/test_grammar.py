"""The grammar: tokens, every statement of the design and the seeds, precedence, and where refusals point."""

import re

import pytest

from tidegate.errors import ParseError, TidegateError, UnsupportedError
from tidegate.expr.model.printer import show
from tidegate.expr.model.types import BOOL, INT4, INT8, JSONB, TEXT, TIMESTAMPTZ, Type, array, numeric, record
from tidegate.sql.bind.query import bind_expression
from tidegate.sql.parse import statement as s
from tidegate.sql.parse import table_statement as ts
from tidegate.sql.parse.grammar.statements import parse_statement, parse_statements
from tidegate.sql.parse.lexer import tokenize
from tidegate.sql.parse.syntax import Constant

COLUMNS = [("a", INT4), ("b", INT4), ("s", TEXT), ("c", BOOL), ("j", JSONB), ("t", TIMESTAMPTZ)]


def shape(sql: str) -> str:
    return show(bind_expression(sql, COLUMNS, now_ms=0), names=True)


def texts(sql: str) -> list[str]:
    return [token.text for token in tokenize(sql)[:-1]]


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('SELECT Ab "Ab" Éa', ["select", "ab", "Ab", "Éa"]),
        ("a<-1 b@-2 x->>-1", ["a", "<", "-", "1", "b", "@", "-", "2", "x", "->>", "-", "1"]),
        ("1.5e-3 .5 5. 1..2", ["1.5e-3", ".5", "5.", "1", ".", ".2"]),
        ("a==b a!=b a<>b", ["a", "=", "b", "a", "<>", "b", "a", "<>", "b"]),
        (r"E'a\n\x41é' 'it''s' $$a'b$$ $x$q$x$", ["a\nAé", "it's", "a'b", "q"]),
        (r"E'\uD83D\uDE00'", ["😀"]),
        ("'a'\n  'b' 'c'", ["ab", "c"]),
        ("a /* x /* y */ z */ b -- c\nd", ["a", "b", "d"]),
        ("'a'", ["a"]),
    ],
)
def test_tokens(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_positions_are_exact() -> None:
    sql = "SELECT  'é' || x"
    assert [sql[t.start : t.end] for t in tokenize(sql)] == ["SELECT", "'é'", "||", "x", ""]


@pytest.mark.parametrize(
    ("sql", "column", "message"),
    [
        ("SELECT 'abc", 8, "not closed"),
        ('SELECT "abc', 8, "not closed"),
        ("SELECT /* a", 8, "not closed"),
        ("SELECT $a$ b", 8, "not closed"),
        ("SELECT 12abc", 8, "runs into a name"),
        ("SELECT `a`", 8, "unexpected character"),
        ("SELECT “a”", 8, "unexpected character"),
        ("\\d orders", 1, "unexpected character(.|\n)*at the prompt"),
        ('SELECT ""', 8, "empty"),
        ("SELECT 'a\0'", 10, "NUL"),
        ("SELECT '\ud800'", 9, "Unicode"),
        (r"SELECT E'\xff'", 10, "valid Unicode"),
    ],
)
def test_bad_tokens(sql: str, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_statements(sql)
    assert caught.value.column == column


@pytest.mark.parametrize("sql", ["SELECT $1", "SELECT U&'a'", "SELECT x'ff'", "SELECT b'01'"])
def test_tokens_that_are_not_supported(sql: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_statements(sql)
    assert caught.value.column == 8


# ---------------------------------------------------------------- precedence, as PostgreSQL 15 has it


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("a + b * a", "a + (b * a)"),
        ("-a ^ 2", "(-a) ^ 2"),
        ("a ^ 2 ^ b", "(a ^ 2) ^ b"),
        ("- a::int8", "-(a::int8)"),
        ("not a = b", "not (a = b)"),
        ("not c and c", "(not c) and c"),
        ("c or c and c", "c or (c and c)"),
        ("a = b is null", "(a = b) is null"),
        ("a < b and b < 3", "(a < b) and (b < 3)"),
        ("a between 1 and 2 and c", "(a between 1 and 2) and c"),
        ("a between 1 + 1 and 2 * b", "(a >= 1 + 1) and (a <= 2 * b)"),
        ("s like 'a' || '%'", "s like ('a' || '%')"),
        ("j -> 'a' ->> 'b' = 'x'", "((j -> 'a') ->> 'b') = 'x'"),
        ("s || a + b", "s || (a + b)"),
        ("a & 1 | 2", "(a & 1) | 2"),
        ("a in (1, 2) = c", "(a in (1, 2)) = c"),
        ("not a in (1, 2)", "not (a in (1, 2))"),
        (
            "t at time zone 'UTC' at time zone 'Asia/Tokyo'",
            "(t at time zone 'UTC') at time zone 'Asia/Tokyo'",
        ),
        ("case a when 1 then 2 end", "case when a = 1 then 2 end"),
        ("a not between 1 and 2", "a < 1 or a > 2"),
        ("a isnull", "a is null"),
        ("s !~~ 'a%'", "not (s like 'a%')"),
        ("trim(leading 'x' from s)", "ltrim(s, 'x')"),
        ("position('x' in s)", "strpos(s, 'x')"),
        ("substring(s for 2)", "substring(s from 1 for 2)"),
        ("cast(a as int8)", "a::int8"),
        ("t > timestamp with time zone '2020-01-01'", "t > '2020-01-01'"),
        ("t + interval '1' day", "t + '1 day'"),
        ("t + interval '1-2' year to month", "t + '1-2'"),
        ("(a, b) = (1, 2)", "a = 1 and b = 2"),
        ("a == 1", "a = 1"),
    ],
)
def test_precedence_and_sugar(sql: str, same: str) -> None:
    assert shape(sql) == shape(same)


def test_an_interval_keeps_all_its_parts() -> None:
    assert shape("t + interval '1 day 02:03:04'") == "t + '1 day 02:03:04'"


def test_json_keys_are_kept_exactly() -> None:
    assert [shape(f"j ->> '{key}'") for key in ("", "a.b", "$", "*", "a''b", "Ab")] == [
        "j ->> ''", "j ->> 'a.b'", "j ->> '$'", "j ->> '*'", "j ->> 'a''b'", "j ->> 'Ab'",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "column", "expected"),
    [
        ("a +", 4, "an expression"),
        ("(a", 3, '")"'),
        ("a < b < 3", 7, "AND, OR"),
        ("a b", 3, "an operator or the end"),
        ("case a", 7, "WHEN"),
        ("case when c then 1", 19, "END"),
        ("a between 1 or 2", 13, "AND"),
        ("a is 5", 6, "NULL, TRUE"),
        ("a in 5", 6, '"("'),
        ("select", 1, "an expression"),
        ("extract(year t)", 14, "FROM"),
        ("s similar 'x'", 11, "TO"),
        ("cast(a int8)", 8, "AS"),
        ("j ->", 5, "an expression"),
    ],
)
def test_refusals_of_expressions(sql: str, column: int, expected: str) -> None:
    with pytest.raises(ParseError, match="expected .*" + re.escape(expected)) as caught:
        shape(sql)
    assert caught.value.column == column


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("int8", INT8),
        ("timestamp with time zone", TIMESTAMPTZ),
        ("timestamp(6) with time zone", TIMESTAMPTZ),
        ("numeric(10, 2)", numeric(10, 2)),
        ("int8[]", array(INT8)),
        ("int8 array", array(INT8)),
        ("row(x int8, y text[])", record(("x", INT8), ("y", array(TEXT)))),
        ("row(x int8)[]", array(record(("x", INT8)))),
    ],
)
def test_types(sql: str, type_: Type) -> None:
    created = parse_statement(f"CREATE TABLE t (c {sql} NOT NULL)")
    assert isinstance(created, ts.CreateTable)
    assert created.columns[0].type == type_


@pytest.mark.parametrize("sql", ["nosuch", "numeric(50, 2)", "numeric(4, 6)", "timestamp(3)", "int8(4)"])
def test_bad_types_point_at_themselves(sql: str) -> None:
    with pytest.raises(TidegateError) as caught:
        parse_statement(f"CREATE TABLE t (c {sql})")
    assert caught.value.column == 19


# ---------------------------------------------------------------- statements


def test_create_table() -> None:
    sql = """CREATE TABLE IF NOT EXISTS t (id int8 NOT NULL, at timestamptz DEFAULT now(), payload jsonb,)
             CLUSTER BY (at, id) KEEP STATISTICS (id, payload."Ts") WITH (BUDGET = 2048)"""
    t = parse_statement(sql)
    assert isinstance(t, ts.CreateTable)
    assert (t.name.text, t.if_not_exists) == ("t", True)
    assert [(c.name.text, c.type, c.nullable, c.default is not None) for c in t.columns] == [
        ("id", INT8, False, False), ("at", TIMESTAMPTZ, True, True), ("payload", JSONB, True, False),
    ]  # fmt: skip
    assert [c.text for c in t.clauses.cluster_by] == ["at", "id"]
    assert [[part.text for part in path] for path in t.clauses.keep_statistics] == [["id"], ["payload", "Ts"]]
    assert [(o.name, o.value) for o in t.clauses.options] == [("budget", 2048)]


def test_several_statements() -> None:
    kinds = [
        type(x).__name__ for x in parse_statements(";; SELECT 1;SHOW tables; SET a = 1;; DROP VIEW v; -- end")
    ]
    assert kinds == ["SelectStatement", "Show", "Set", "DropStatement"]


@pytest.mark.parametrize(
    ("sql", "kind", "facts"),
    [
        ("SELECT 1 AS OF 5", s.SelectStatement, {}),
        ("SELECT 1 AS of", s.SelectStatement, {"as_of": None}),
        ("EXPLAIN FILTER PUSHDOWN FOR SELECT 1", s.Explain, {"filter_pushdown": True, "analyze": False}),
        ("EXPLAIN ANALYZE SELECT 1", s.Explain, {"analyze": True}),
        ("ALTER TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS c int8, DROP b", ts.AlterTable, {"if_exists": True}),
        ("ALTER TABLE t RENAME TO u", ts.RenameCollection, {"kind": "table", "if_exists": False}),
        ("ALTER VIEW t RENAME TO u", ts.RenameCollection, {"kind": "view"}),
        ("CREATE TABLE t (a, b) AS SELECT 1, 2 WITH NO DATA", ts.CreateTableAs, {"with_data": False}),
        ("CREATE TABLE IF NOT EXISTS t CLUSTER BY (a) AS TABLE u", ts.CreateTableAs, {"if_not_exists": True}),
        ("SELECT a INTO TABLE t FROM u", ts.CreateTableAs, {"columns": (), "with_data": True}),
        ("TRUNCATE ONLY t, u RESTART IDENTITY CASCADE", ts.Truncate, {}),
        ("COMMENT ON COLUMN public.t.a IS ''", ts.CommentOn, {"kind": "column", "text": None}),
        ("PREPARE p (int8, text) AS SELECT $1, $2", ts.Prepare, {"text": "SELECT $1, $2"}),
        ("EXECUTE p", ts.Execute, {"arguments": ()}),
        ("DEALLOCATE PREPARE ALL", ts.Deallocate, {"name": None}),
        ("CREATE OR REPLACE VIEW v (a) AS SELECT 1", s.CreateView, {"or_replace": True}),
        ("DROP TABLE IF EXISTS a, b CASCADE", s.DropStatement, {"kind": "table", "if_exists": True, "cascade": True}),
        ("INSERT INTO t (a, b) VALUES (1, DEFAULT)", s.Insert, {}),
        ("INSERT INTO t SELECT * FROM u", s.Insert, {"columns": ()}),
        ("INSERT INTO t DEFAULT VALUES", s.Insert, {"query": None}),
        ("DELETE FROM t x WHERE x.a = 1", s.Delete, {}),
        ("UPDATE t SET a = a + 1, b = DEFAULT WHERE a > 1", s.Update, {"alias": None}),
        ("UPDATE t SET (a, b) = (SELECT 1, 2), c = 3 FROM u, v WHERE t.a = u.a RETURNING *", s.Update, {"alias": None}),
        ("WITH x AS (SELECT 1), y AS (SELECT 2) DELETE FROM t USING x RETURNING a AS b", s.Delete, {"where": None}),
        ("INSERT INTO t AS o VALUES (1) ON CONFLICT (a) DO UPDATE SET (a, b) = ROW(1, DEFAULT)", s.Insert, {"columns": ()}),
        ("MERGE INTO t o USING u JOIN v USING (a) ON o.a = v.a WHEN NOT MATCHED BY SOURCE AND o.b > 1 THEN DELETE", s.Merge, {}),
        ("MERGE INTO t USING u ON true WHEN NOT MATCHED BY TARGET THEN INSERT DEFAULT VALUES", s.Merge, {"returning": ()}),
        ("SHOW COLUMNS FROM t", s.Show, {"what": "columns"}),
        ("SHOW CREATE SOURCE x", s.Show, {"what": "create source"}),
        ("SET late_materialization = off", s.Set, {"value": False}),
        ("SET audit TO 0.5", s.Set, {"value": 0.5}),
        ("RESET audit", s.Set, {"value": None}),
        ("ALTER SOURCE s PAUSE", s.AlterSource, {"action": "pause"}),
        ("CREATE CONNECTION k TO KAFKA (BROKER 'h', SASL USER = 'u')", s.CreateConnection, {"kind": "kafka"}),
        ("CREATE CONNECTION pg TO POSTGRES (HOST 'h', PORT 5432, DATABASE d)", s.CreateConnection, {}),
        ("CREATE SOURCE x FROM GENERATOR orders (ROWS 1000000)", s.CreateSource, {"kind": "generator"}),
        ("CREATE SOURCE x FROM FILES 'dir/*.json' FORMAT JSON", s.CreateSource, {"target": "dir/*.json"}),
        ("CREATE SOURCE x FROM POSTGRES CONNECTION pg FOR ALL TABLES", s.CreateSource, {"all_tables": True}),
    ],
)  # fmt: skip
def test_statements(sql: str, kind: type, facts: dict[str, object]) -> None:
    found = parse_statement(sql)
    assert isinstance(found, kind)
    assert {name: getattr(found, name) for name in facts} == facts


def test_as_of_is_kept() -> None:
    found = parse_statement("SELECT * FROM t AS OF 1234")
    assert isinstance(found, s.SelectStatement)
    assert isinstance(found.as_of, Constant)
    assert found.as_of.text == "1234"
    assert found.query.text == "SELECT * FROM t"


STAFF = """CREATE SOURCE sales_staff
FROM KAFKA CONNECTION k (TOPIC 'staff')
FORMAT BYTES
TRANSFORM USING (
    SELECT
        (data->>'id')::int AS id,
        (data->>'name')::text AS name,
    FROM
        (SELECT CONVERT_FROM(data, 'utf8')::jsonb as data FROM sales_staff)
    WHERE
        (data->>'department')::text == 'sales'
);"""
INGESTED = """CREATE SOURCE orders_30d
FROM KAFKA CONNECTION k (TOPIC 'orders')
FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION csr
INCLUDE INGESTION TIMESTAMP as ingest_ts
TRANSFORM USING (
    SELECT * FROM orders_30d
    WHERE mz_now() <= ingest_ts + '30 days'
);"""
TABLES = """CREATE SOURCE pg_source
FROM POSTGRES CONNECTION pg (PUBLICATION 'p')
FOR TABLES (
   orders TRANSFORM USING (SELECT id, item FROM orders),
   customers TRANSFORM USING (SELECT id, name FROM customers) AS customer_data,
);"""


def source(sql: str) -> s.CreateSource:
    found = parse_statement(sql)
    assert isinstance(found, s.CreateSource)
    return found


def test_sources_of_the_seeds() -> None:
    staff = source(STAFF)
    assert staff.format is not None
    assert staff.format.kind == "bytes"
    assert staff.transform is not None
    assert staff.transform.text.startswith("SELECT\n        (data->>'id')::int AS id")
    assert staff.transform.text.endswith("== 'sales'")
    ingested = source(INGESTED)
    assert [(i.what, i.alias and i.alias.text) for i in ingested.include] == [
        ("ingestion timestamp", "ingest_ts")
    ]
    assert ingested.format is not None
    assert [(o.name, o.value) for o in ingested.format.options] == [("registry", "csr")]
    tables = source(TABLES).tables
    assert [
        (t.table[0].text, t.alias and t.alias.text, t.transform and t.transform.text) for t in tables
    ] == [
        ("orders", None, "SELECT id, item FROM orders"),
        ("customers", "customer_data", "SELECT id, name FROM customers"),
    ]


def test_source_clauses_in_any_order() -> None:
    found = source(
        "CREATE SOURCE x FROM KAFKA CONNECTION k (TOPIC 't', START OFFSET (1, 2)) "
        "KEY FORMAT TEXT VALUE FORMAT CSV WITH HEADER (a, b) DELIMITED BY ';' "
        "INCLUDE KEY AS k, PARTITION, HEADER 'h' AS h ENVELOPE UPSERT "
        "TRANSFORM BEFORE ENVELOPE USING (SELECT 1) CLUSTER BY (a) WITH (RETAIN HISTORY = '1 day', FAST)"
    )
    assert found.key_format is not None
    assert found.format is not None
    assert {o.name: o.value for o in found.format.options} == {"header": ("a", "b"), "delimiter": ";"}
    assert [(i.what, i.argument) for i in found.include] == [
        ("key", None),
        ("partition", None),
        ("header", "h"),
    ]
    assert (found.envelope, found.transform, found.before is not None) == ("upsert", None, True)
    assert [(o.name, o.value) for o in found.options] == [("topic", "t"), ("start offset", (1, 2))]
    assert [(o.name, o.value) for o in found.with_options] == [("retain history", "1 day"), ("fast", True)]


@pytest.mark.parametrize(
    ("sql", "column", "expected"),
    [
        ("SELCT 1", 1, "SELECT, INSERT"),
        ("CREATE FOO", 8, "TABLE, VIEW"),
        ("SELECT a FROM", 14, "a table's name"),
        ("SELECT , a FROM t", 8, "an expression"),
        ("SELECT 1 2", 10, "; or the end"),
        ("SELECT * FROM t WHERE", 22, "an expression"),
        ("SELECT * FROM t LIMIT", 22, "an expression"),
        ("SELECT * FROM a JOIN b", 23, "USING or ON"),
        ("CREATE TABLE t (a)", 18, "a type"),
        ("CREATE TABLE t (a int8", 23, 'a comma or ")"'),
        ("CREATE TABLE select (a int8)", 14, "the table's name"),
        ("DROP TABLE", 11, "the table's name"),
        ("INSERT INTO t foo", 15, "VALUES, SELECT"),
        ("UPDATE t a = 1", 12, "SET"),
        ("MERGE t USING u ON true WHEN MATCHED THEN DELETE", 7, "INTO"),
        ("MERGE INTO t USING u WHEN MATCHED THEN DELETE", 22, "ON"),
        ("MERGE INTO t USING u ON true WHEN NOT MATCHED THEN DELETE", 52, "DO NOTHING or INSERT"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO", 40, "NOTHING"),
        ("DELETE FROM t RETURNING", 24, "an expression"),
        ("CREATE SOURCE x FROM KAFKA k", 28, "CONNECTION"),
        ("CREATE SOURCE x FROM FILES 'a' FORMAT XML", 39, "BYTES, TEXT"),
        ("CREATE SOURCE x FROM FILES 'a' INCLUDE FOO", 40, "KEY, PARTITION"),
        ("SET a", 6, "= or TO"),
        ("EXPLAIN EXPLAIN SELECT 1", 9, "a statement to explain"),
    ],
)
def test_refusals_of_statements(sql: str, column: int, expected: str) -> None:
    with pytest.raises(ParseError, match="expected .*" + re.escape(expected)) as caught:
        parse_statements(sql)
    assert caught.value.column == column


def test_reserved_words_can_be_quoted_and_others_are_names() -> None:
    table = parse_statement(
        'CREATE TABLE t ("select" int8, at int8, key int8, value int8, date date, "A b" int8)'
    )
    assert isinstance(table, ts.CreateTable)
    assert [c.name.text for c in table.columns] == ["select", "at", "key", "value", "date", "A b"]
    with pytest.raises(ParseError) as caught:
        parse_statement("SELECT table FROM t")
    assert "quote it" in str(caught.value)
