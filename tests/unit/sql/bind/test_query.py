"""Binding: names, types, constants, composed plans, and the values that come out of them."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.errors import BindError, PlanError, TidegateError, TypeMismatch
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model import build
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import Call, Column, Literal, Now
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    JSONB,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array,
    numeric,
    record,
)
from tidegate.plan import BoundQuery, OrderKey
from tidegate.sql import prepare
from tidegate.sql.bind import query as bind
from tidegate.sql.bind import values
from tidegate.sql.bind.catalog import DictCatalog, Relation, ViewRelation
from tidegate.sql.parse.grammar.statements import parse_query, parse_statement
from tidegate.sql.parse.statement import Insert, SelectStatement
from tidegate.sql.parse.syntax import Values

COLUMNS = [
    ("id", INT8),
    ("price", numeric(10, 2)),
    ("at", TIMESTAMPTZ),
    ("item", TEXT),
    ("j", JSONB),
    ("xs", array(INT8)),
    ("r", record(("x", INT8), ("Y", TEXT))),
    ("f", FLOAT8),
    ("Mixed", BOOL),
]
CATALOG = DictCatalog(
    {
        "t": Relation("t", tuple(COLUMNS)),
        "v": ViewRelation("SELECT id, price * 2 AS twice FROM t WHERE item = 'x'"),
    }
)
NOW = 1_700_000_000_123


def bound(sql: str) -> BoundQuery:
    """A query as a plan over one collection; an error that says why it is none."""
    parsed = parse_query(sql)
    prepared = prepare(parsed, CATALOG, NOW)
    if prepared.single is None:
        raise prepared.obstacle(parsed).error()
    return prepared.single


def run(sql: str, **columns: pa.Array) -> list[object]:
    expr = bind.bind_expression(sql, COLUMNS, NOW)
    rows = max((len(column) for column in columns.values()), default=1)
    arrays = [columns.get(name, pa.nulls(rows, type_.arrow)) for name, type_ in COLUMNS]
    outcome = evaluate(expr, arrays, rows)
    assert outcome.errors is None
    return list(outcome.values.to_pylist())


# ---------------------------------------------------------------- constants


@pytest.mark.parametrize(
    ("sql", "type_", "value"),
    [
        ("42", INT4, 42),
        ("2147483648", INT8, 2147483648),
        ("-2147483648", INT4, -2147483648),
        ("-2147483649", INT8, -2147483649),
        ("-9223372036854775808", INT8, -(2**63)),
        ("9223372036854775808", numeric(19, 0), Decimal(9223372036854775808)),
        ("1.50", numeric(3, 2), Decimal("1.50")),
        (".5", numeric(1, 1), Decimal("0.5")),
        ("5.", numeric(1, 0), Decimal(5)),
        ("0.001", numeric(3, 3), Decimal("0.001")),
        ("1e3", numeric(4, 0), Decimal(1000)),
        ("1.5e-3", numeric(4, 4), Decimal("0.0015")),
        ("-1.5", numeric(2, 1), Decimal("-1.5")),
        ("1e300", FLOAT8, 1e300),
        ("5" + "0" * 40 + "e-20", numeric(21, 0), Decimal(5 * 10**20)),
        ("12.5" + "0" * 40 + "e1", numeric(3, 0), Decimal(125)),
        ("1.25" + "0" * 40, numeric(3, 2), Decimal("1.25")),
        ("0." + "0" * 40, numeric(1, 0), Decimal(0)),
        ("1" * 40 + "e-5", FLOAT8, float("1" * 40 + "e-5")),
        ("1e-40", FLOAT8, 1e-40),
        ("1e38", FLOAT8, 1e38),
        ("'x'", TEXT, "x"),
        ("NULL", TEXT, None),
        ("true", BOOL, True),
        ("date '2024-02-29'", DATE, date(2024, 2, 29)),
        ("current_date", DATE, date(2023, 11, 14)),
    ],
)
def test_constants(sql: str, type_: Type, value: object) -> None:
    expr = bind.bind_expression(sql, [], NOW)
    assert isinstance(expr, Literal)
    assert (expr.type, expr.value.as_py()) == (type_, value)


@pytest.mark.parametrize("sql", ["1" * 39, "1." + "1" * 38, "1e999", "1e-999", "1e" + "9" * 5000])
def test_numbers_too_large(sql: str) -> None:
    with pytest.raises(BindError, match="38 digits"):
        bind.bind_expression(sql, [])


def test_now_is_the_statements_time() -> None:
    assert bind.bind_expression("now()", [], NOW) == build.cast(
        build.text("2023-11-14 22:13:20.123Z"), TIMESTAMPTZ
    )
    assert bind.bind_expression("localtimestamp", [], NOW).type == TIMESTAMP
    assert bind.bind_expression("mz_now()", []) == Now()
    with pytest.raises(PlanError, match=r"now\(\) has no fixed value"):
        bind.bind_expression("now()", [])


# ---------------------------------------------------------------- names


def test_names_fold_as_postgresql_folds_them() -> None:
    for sql in ("ID", "id", '"id"', "iD"):
        assert bind.bind_expression(sql, COLUMNS) == Column(0, INT8)
    assert bind.bind_expression('"Mixed"', COLUMNS) == Column(8, BOOL)
    with pytest.raises(BindError) as caught:
        bind.bind_expression("Mixed", COLUMNS)
    assert caught.value.hint == 'did you mean "Mixed"?'
    assert show(bind.bind_expression('(r)."Y"', COLUMNS), names=True) == '(r)."Y"'


def test_ambiguous_and_missing_names() -> None:
    with pytest.raises(BindError, match='"a" is ambiguous'):
        bind.bind_expression("a + 1", [("a", INT4), ("a", INT8)])
    with pytest.raises(BindError, match='"b" does not exist') as caught:
        bind.bind_expression("1 + b", [])
    assert caught.value.column == 5


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("id + 1 + item", 8),
        ("id = 'x'", 6),
        ("lower(id, 1)", 1),
        ("nosuch(id)", 1),
        ("item::interval + true", 16),
        ("'abc'::int8", 1),
        ("CASE WHEN id THEN 1 END", 11),
        ("CASE WHEN true THEN 'x' ELSE id END", 21),
        ("not id", 1),
        ("id AND true", 4),
        ("id IN (1, 'y', 2)", 11),
        ("id = ANY (5)", 4),
        ("xs[item]", 3),
        ("(r).z", 5),
        ("item LIKE 5", 6),
    ],
)
def test_errors_point_at_what_is_to_blame(sql: str, column: int) -> None:
    with pytest.raises(TidegateError) as caught:
        bind.bind_expression(sql, COLUMNS)
    assert caught.value.column == column


# ---------------------------------------------------------------- expressions


def test_lists_of_constants_are_one_call() -> None:
    expr = bind.bind_expression("id IN (3, 1, 3000000000)", COLUMNS)
    assert isinstance(expr, Call)
    assert expr.function.name == "in"
    assert isinstance(expr.args[1], Literal)
    assert expr.args[1].value.as_py() == [3, 1, 3000000000]
    assert bind.bind_expression("id IN (5)", COLUMNS) == bind.bind_expression("id = 5", COLUMNS)


def test_lists_by_value() -> None:
    price = pa.array([Decimal("1.00"), Decimal("2.50"), Decimal("9.00"), None], pa.decimal128(10, 2))
    assert run("price IN (1, 2.5, 3.125)", price=price) == [True, True, False, None]
    assert run("price NOT IN (1, NULL, 2)", price=price) == [False, None, None, None]
    assert run("price IN ('1', 9)", price=price) == [True, False, True, None]
    f = pa.array([1.5, float("nan"), 0.1])
    assert run("f IN (1.5, 'NaN', 1e300)", f=f) == [True, True, False]
    at = pa.array([0, 86_400_000_000], pa.timestamp("us", "UTC"))
    assert run("at IN ('1970-01-01', '1970-01-03', date '1970-01-02')", at=at) == [True, True]
    item = pa.array(["a", "b"])
    assert run("item IN ('a', lower('B'))", item=item) == [True, True]
    assert run("(item, 1) IN (('a', 1), ('b', 2))", item=item) == [True, False]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("xs[2]", 6), ("xs[2:]", [6, 7]), ("xs[:2]", [5, 6]), ("xs[2:2]", [6]), ("xs[:]", [5, 6, 7]),
        ("xs[9]", None), ("6 = ANY(xs)", True), ("4 < ALL(xs)", True), ("9 = ANY('{1,9}')", True),
        ("ARRAY[1, 2.5]", [Decimal("1.0"), Decimal("2.5")]), ("cardinality(ARRAY[]::int8[])", 0),
        ("(ROW(1, 'a')).f2", "a"), ("2 BETWEEN SYMMETRIC 3 AND 1", True), ("NULL IS UNKNOWN", True),
        ("(1 = NULL) IS NOT UNKNOWN", False), ("date('2024-01-02')::text", "2024-01-02"), ("@ -5", 5),
        ("- - 5", 5), ("+5", 5), ("1 || 'a'", "1a"), ("'5' + 1", 6), ("text 'a' || NULL IS NULL", True),
        ("E'a\\tb'", "a\tb"), ("char_length('abc')", 3), ("pow(2, 3)::int4", 8),
        ("'{\"a\": {\"b\": 5}}'::jsonb -> 'a' ->> 'b'", "5"),
    ],
)  # fmt: skip
def test_expressions_by_value(sql: str, value: object) -> None:
    assert run(sql, xs=pa.array([[5, 6, 7]], pa.list_(pa.int64()))) == [value]


def test_only_syntax_is_no_function() -> None:
    for name in ("case", "and", "in", "field"):
        with pytest.raises(BindError, match="does not exist"):
            bind.bind_expression(f'"{name}"(true, true)', [])


# ---------------------------------------------------------------- queries


def test_column_labels_are_postgresqls() -> None:
    sql = """SELECT id, price * 2, lower(item), at::date, (j->>'ts')::numeric, 1, true,
             CASE WHEN true THEN 1 END, CASE WHEN true THEN 1 ELSE id END, coalesce(id, 1), xs[1], ARRAY[1],
             ROW(1, 2), extract(year from at),
             position('a' in item), trim(item), current_date, at AT TIME ZONE 'utc', id IN (1, 2), t.id,
             date '2020-01-01', (r).x, id + 1 AS "X", id y FROM t"""
    assert bound(sql).names == (
        "id", "?column?", "lower", "at", "numeric", "?column?", "?column?", "case", "id", "coalesce", "xs",
        "array", "row", "extract", "position", "btrim", "current_date", "timezone", "?column?",
        "id", "date", "x", "X", "y",
    )  # fmt: skip


def test_a_plan_runs() -> None:
    query = bound("SELECT twice + 1 AS more, id FROM v WHERE id > 1 ORDER BY id DESC LIMIT 2 + 3 OFFSET 1")
    assert (query.source, query.names, query.limit, query.offset) == ("t", ("more", "id"), 5, 1)
    assert query.order_by == (OrderKey(1, descending=True, nulls_first=True),)
    assert [show(condition) for condition in query.mfp.conditions] == ["item = 'x'", "id > 1"]
    assert show(query.mfp.outputs[0]) == "price * 2 + 1"
    assert query.mfp.outputs[1] == Column(0, INT8)
    assert query.types[1] == INT8


def test_a_query_keeps_the_order_of_the_subquery_that_it_reads() -> None:
    query = bound("SELECT * FROM (SELECT id FROM t ORDER BY price) x")
    assert (query.names, len(query.mfp.projection), len(query.order_by)) == (("id",), 2, 1)
    assert bound("SELECT * FROM (SELECT id FROM t ORDER BY price) x ORDER BY id").order_by[0].column == 0
    counted = bound("SELECT count(*) FROM (SELECT id FROM t ORDER BY price) x")
    assert (counted.order_by, counted.mfp.projection) == ((), ())


def test_limits() -> None:
    assert bound("SELECT id FROM t LIMIT ALL").limit is None
    assert bound("SELECT id FROM t LIMIT NULL OFFSET 2 ROWS").offset == 2
    assert bound("SELECT id FROM t FETCH FIRST ROW ONLY").limit == 1
    assert bound("(SELECT id FROM t LIMIT 3)").limit == 3
    with pytest.raises(PlanError, match="LIMIT in a subquery"):
        bound("(SELECT id FROM t LIMIT 3) LIMIT 2")


def test_common_tables_shadow_and_see_only_what_came_before() -> None:
    assert bound("WITH t AS (SELECT 1 AS one) SELECT * FROM t").source is None
    assert bound("WITH t AS (SELECT id FROM t) SELECT * FROM t").names == ("id",)
    with pytest.raises(BindError, match='"b"'):
        bound("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a")


def test_schemas() -> None:
    assert bound("SELECT id FROM public.t").source == "t"
    with pytest.raises(BindError, match=r"other\.t"):
        bound("SELECT id FROM other.t")


def test_transforms_are_held_to_more() -> None:
    assert bind.bind_transform("SELECT id FROM t WHERE mz_now() < at + '1 day'", CATALOG).mfp.is_temporal
    for sql, construct in [
        ("SELECT id FROM t ORDER BY id", "ORDER BY"),
        ("SELECT id FROM t LIMIT 1", "LIMIT"),
        ("SELECT now() FROM t", "now()"),
        ("SELECT count(*) FROM t", "the aggregate count"),
    ]:
        with pytest.raises(PlanError) as caught:
            bind.bind_transform(sql, CATALOG)
        assert caught.value.construct == construct
        assert caught.value.position is not None


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("1234", 1234),
        ("'1970-01-02'", 86_400_000),
        ("timestamp '1970-01-01 00:00:01.5'", 1500),
        ("10 * 2", 20),
        ("CAST('1970-01-02' AS timestamptz)", 86_400_000),
        ("CASE WHEN true THEN 5 END", 5),
    ],
)
def test_as_of(sql: str, at: int) -> None:
    found = parse_statement(f"SELECT 1 AS OF {sql}")
    assert isinstance(found, SelectStatement)
    assert found.as_of is not None
    assert bind.bind_as_of(found.as_of, found.query.sql) == at


@pytest.mark.parametrize("sql", ["(1 = 1)", "NULL", "NULL::timestamptz", "(NULL::int8)"])
def test_as_of_something_else(sql: str) -> None:
    found = parse_statement(f"SELECT 1 AS OF {sql}")
    assert isinstance(found, SelectStatement)
    assert found.as_of is not None
    with pytest.raises(BindError, match="AS OF wants a time"):
        bind.bind_as_of(found.as_of, found.query.sql)


# ---------------------------------------------------------------- VALUES


def inserted(sql: str, types: list[Type]) -> list[list[object]]:
    found = parse_statement(f"INSERT INTO t VALUES {sql}")
    assert isinstance(found, Insert)
    assert found.query is not None
    assert isinstance(found.query.body, Values)
    nulls = [build.null(type_) for type_ in types]
    return [
        column.to_pylist() for column in values.bind_values(found.query.body, found.sql, types, nulls, NOW)
    ]


def test_values() -> None:
    assert inserted("(1, 'a', 3.7), (-2, lower('B'), '5'), (NULL, DEFAULT, 0)", [INT8, TEXT, INT4]) == [
        [1, -2, None], ["a", "b", None], [4, 5, 0],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("(1, 'a')", 26),
        ("(1), (2, 3)", 31),
        ("('x')", 23),
        ("(5), (1 / 0)", 30),
        ("(id)", 23),
        ("(true)", 23),
    ],
)
def test_bad_values(sql: str, column: int) -> None:
    with pytest.raises(TidegateError) as caught:
        inserted(sql, [INT8])
    assert caught.value.column == column


def test_mismatched_lists() -> None:
    with pytest.raises(TypeMismatch):
        bind.bind_expression("item IN (1, 2)", COLUMNS)
