"""Hostile and absurd texts: always a TidegateError with a place, and never the interpreter's own limits.

Each text is generated, because it is thousands of levels deep or megabytes long; ten thousand levels are far
beyond both our limit (400) and Python's (1,000 frames).
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import LimitError, TidegateError
from tidegate.expr.model.types import INT8, TEXT, TIMESTAMPTZ, record
from tidegate.sql import PreparedQuery, prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation, ViewRelation
from tidegate.sql.parse import lexer as lex
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.statement import SelectStatement

N = 10_000
COLUMNS = (("id", INT8), ("item", TEXT), ("at", TIMESTAMPTZ), ("r", record(("x", INT8))))
CATALOG = DictCatalog(
    {"t": Relation("t", COLUMNS)} | {f"v{i}": ViewRelation(f"SELECT * FROM v{i + 1}") for i in range(2_000)}
)


def ask(sql: str) -> PreparedQuery | None:
    """Parses, and binds if it is a query."""
    bound = None
    for statement in grammar.parse_statements(sql):
        if isinstance(statement, SelectStatement):
            bound = prepare(statement.query, CATALOG, now_ms=0)
    return bound


DEEP = {
    "parentheses": "SELECT " + "(" * N + "1" + ")" * N,
    "not": "SELECT " + "NOT " * N + "true",
    "minus": "SELECT " + "- " * N + "1",
    "case": "SELECT " + "CASE WHEN true THEN " * N + "1" + " END" * N,
    "case operand": "SELECT " + "CASE " * N,
    "function": "SELECT " + "abs(" * N + "1" + ")" * N,
    "array": "SELECT " + "ARRAY[" * N + "1" + "]" * N,
    "bare array": "SELECT ARRAY" + "[" * N + "1" + "]" * N,
    "from": "SELECT * FROM " + "(SELECT * FROM " * N + "t" + ")" * N,
    "joins in parentheses": "SELECT * FROM " + "(" * N + "t" + ")" * N,
    "scalar subquery": "SELECT " + "(SELECT " * N + "1" + ")" * N,
    "in subquery": "SELECT 1" + " WHERE 1 IN (SELECT 1" * N,
    "and in or": "SELECT * FROM t WHERE " + "(id = 1 AND (id = 2 OR " * N + "true" + "))" * N,
    "with": "WITH a AS (" * N + "SELECT 1" + ") SELECT 1" * N,
    "plus": "SELECT " + " + ".join(["id"] * N) + " FROM t",
    "concat": "SELECT " + " || ".join(["item"] * N) + " FROM t",
    "is null": "SELECT id" + " IS NULL" * N + " FROM t",
    "at time zone": "SELECT at" + " AT TIME ZONE 'UTC'" * N + " FROM t",
    "record type": "SELECT NULL::" + "row(x " * N + "int8" + ")" * N,
    "array type": "SELECT NULL::int8" + "[]" * N,
    "options": "CREATE CONNECTION k TO KAFKA (A " + "(" * N + ")" * N + ")",
    "views": "SELECT * FROM v0",
}


@pytest.mark.parametrize("name", DEEP)
def test_too_deep_is_a_limit(name: str) -> None:
    with pytest.raises(LimitError) as caught:
        ask(DEEP[name])
    assert caught.value.position is not None
    assert len(str(caught.value)) < 1_000


BAD = {
    "explain": "EXPLAIN " * N + "SELECT 1",
    "between": "SELECT " + "1 BETWEEN " * N,
    "dots": "SELECT r" + ".x" * N + " FROM t",
    "fields": "SELECT (r)" + ".x" * N + " FROM t",
    "subscripts": "SELECT r" + "[1]" * N + " FROM t",
    "union": "SELECT 1" + " UNION SELECT 1" * N,
    "join": "SELECT 1 FROM t" + " JOIN t ON true" * N,
    "comments": "/*" * N,
    "quotes": "SELECT " + "'" * (2 * N + 1),
    "dollars": "SELECT " + "$a$" * (2 * N + 1),
    "long name": "SELECT " + "a" * 10_000_000,
    "long number": "SELECT " + "1" * 10_000_000,
    "long fraction": "SELECT 0." + "1" * 10_000_000,
    "NUL": "SELECT 'a\0'",
    "half a character": "SELECT '\ud83d'",
    "half a name": 'SELECT "\udc00" FROM t',
    "nothing to name": 'SELECT "" FROM t',
    "keyword": "SELECT select FROM t",
    "control": "SELECT \x07",
    "no-break space": "SELECT\u00a01",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_texts_are_our_errors(name: str) -> None:
    with pytest.raises(TidegateError) as caught:
        ask(BAD[name])
    assert caught.value.position is not None
    assert caught.value.line == 1
    assert len(str(caught.value)) < 5_000
    str(caught.value).encode("utf-8")


FINE = {
    "and": "SELECT * FROM t WHERE " + " AND ".join(["item = 'x'"] * N),
    "or": "SELECT * FROM t WHERE " + " OR ".join(f"item = '{i}'" for i in range(N)),
    "columns": "SELECT " + ", ".join(["id"] * N) + " FROM t",
    "one long string": "SELECT '" + "a" * 10_000_000 + "'",
    "casts to the same type": "SELECT id" + "::int8" * N + " FROM t",
    "statements": "SELECT 1;" * 1_000,
    "semicolons": ";" * N,
    "common tables": "WITH a0 AS (SELECT 1)"
    + "".join(f", a{i} AS (SELECT * FROM a{i - 1})" for i in range(1, 300))
    + " SELECT * FROM a299",
    "some nesting": "SELECT " + "(" * 100 + "id" + ")" * 100 + " FROM t",
    "some subqueries": "SELECT * FROM " + "(SELECT * FROM " * 50 + "t" + ")" * 50,
    "some arithmetic": "SELECT " + " + ".join(["id"] * 300) + " FROM t",
}


@pytest.mark.parametrize("name", FINE)
def test_long_but_flat_is_fine(name: str) -> None:
    ask(FINE[name])


def test_too_many_words_are_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lex.MAX_TOKENS >= 1_000_000
    monkeypatch.setattr(lex, "MAX_TOKENS", 1_000)
    ask("SELECT " + "1, " * 400 + "1")
    with pytest.raises(LimitError, match="1,000 words"):
        ask("SELECT " + "1, " * 600 + "1")


def test_alternatives_bind_in_linear_time() -> None:
    """Ten times as many take about ten times as long, and not a hundred; the best of five."""
    for one in ("{}", "'{}'"):
        few, many = (_binding_seconds(one, count) for count in (N // 10, N))
        assert many < 50 * few


def _binding_seconds(one: str, count: int) -> float:
    parsed = grammar.parse_query(
        f"SELECT * FROM t WHERE id IN ({', '.join(one.format(i) for i in range(count))})"
    )
    times = []
    for _ in range(5):
        start = time.thread_time()  # what others on the machine do does not count
        prepare(parsed, CATALOG)
        times.append(time.thread_time() - start)
    return min(times)


def test_errors_of_nested_queries_name_the_innermost_construct() -> None:
    prepared = ask("SELECT * FROM (SELECT * FROM (SELECT array_agg(id) AS n FROM t) a WHERE n IS NULL) b")
    assert prepared is not None
    assert prepared.tree.obstacle is not None
    assert prepared.tree.obstacle.construct == "the aggregate array_agg"
    assert prepared.tree.obstacle.position.column == 38


PIECES = """
    select from where ( ) , . * = <> -> ->> :: + - and or not in between case when then else end is null
    like 1 1.5 'x' "id" id item at r t x int8 [ ] : ; cast extract as order by limit interval array row
    exists with union values
"""


def refusal(sql: str) -> TidegateError | None:
    try:
        ask(sql)
    except TidegateError as error:
        return error
    return None


@given(st.lists(st.sampled_from(PIECES.split()), max_size=25))
def test_any_heap_of_words_is_understood_or_refused(words: list[str]) -> None:
    """100 heaps a run: the grammar's branches are few, and each is met within some dozens of heaps."""
    for start in ("", "SELECT ", "SELECT id FROM t WHERE "):
        error = refusal(start + " ".join(words))
        assert error is None or error.position is not None


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused(text: str) -> None:
    error = refusal("SELECT " + text)
    assert error is None or error.position is not None
    str(error).encode("utf-8")
