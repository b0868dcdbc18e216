"""Names: whatever a table, column, view or field is called, the SQL that we print of it is SQL that we read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tidegate
from tests.server.web_site import serving
from tidegate import sql
from tidegate.errors import TidegateError
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import TIMESTAMPTZ
from tidegate.sql.bind import query as bind
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.syntax import Span
from tidegate.text import CONTEXTUAL, JOINING, RESERVED, identifier


def words_of_the_grammar() -> list[str]:
    """Every word that stands in a string of the parser: its key words, and some more."""
    found = {*RESERVED, *JOINING, *CONTEXTUAL}
    for file in Path(sql.__file__).parent.glob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                found.update(re.findall(r"\b[a-z_][a-z0-9_]*\b", node.value))
    return sorted(found)


WORDS = words_of_the_grammar()
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
PLACES = (
    "CREATE TABLE {w} ({w} int8, b text NOT NULL) CLUSTER BY ({w}, b) KEEP STATISTICS ({w}, b.{w})",
    "CREATE TABLE t (a int8, {w} text DEFAULT 'x', r row({w} int8, b text)) CLUSTER BY (a, {w})",
    "CREATE VIEW {w} ({w}, b) AS SELECT 1, 2",
    "DROP TABLE {w}",
    "SHOW CREATE TABLE {w}",
    "SHOW COLUMNS FROM {w}",
    "CREATE CONNECTION {w} TO KAFKA (BROKER 'h:1')",
    "SELECT {w}, {w} AS {w} FROM {w}",
    "SELECT {w}.{w}, {w}.* FROM t AS {w}, u AS {w}",
    "SELECT * FROM {w} WHERE {w} > '2026-01-01' AND {w} IS NOT NULL OR NOT {w} LIMIT 100",
    "SELECT DISTINCT {w} FROM {w} ORDER BY {w} DESC, {w} OFFSET 2",
    "SELECT {w} + 1, {w} - 1, - {w}, {w} || 'a', {w}::text, {w} -> 'a', {w} ->> 'a', ({w}).{w}, {w}[1] FROM t",
    "SELECT f({w}, {w}), {w} % 2, ~ {w}, ({w}), ({w}, 1), {w} = ANY({w}), ARRAY[{w}, 1], ROW({w}, 1) FROM t",
    "SELECT {w} BETWEEN {w} AND {w} FROM t",
    "SELECT {w} IN ({w}, 2), {w} NOT IN (1), {w} IS DISTINCT FROM {w} FROM t",
    "SELECT {w} LIKE {w}, {w} ILIKE 'a', {w} ~ 'a', {w} IS NULL, {w} IS TRUE FROM t",
    "SELECT {w} AT TIME ZONE 'UTC' FROM t",
    "SELECT CASE {w} WHEN {w} THEN {w} ELSE {w} END, CASE WHEN {w} THEN {w} END, CAST({w} AS text) FROM t",
    "SELECT extract(year FROM {w}), position({w} IN {w}), substring({w} FROM {w} FOR {w}) FROM t",
    "SELECT trim({w}), trim(BOTH {w} FROM {w}), overlay({w} PLACING {w} FROM {w}), coalesce({w}, {w}) FROM t",
    "SELECT count({w}), count(DISTINCT {w}), sum({w}) FILTER (WHERE {w}) FROM t GROUP BY {w}, {w} HAVING {w}",
    "SELECT row_number() OVER (PARTITION BY {w} ORDER BY {w}) FROM t",
    "SELECT 1 FROM t JOIN {w} ON {w} = {w} LEFT JOIN {w} AS {w} ON true",
    "WITH {w} AS (SELECT {w} FROM t) SELECT {w} FROM (SELECT {w} FROM {w}) AS {w} UNION ALL SELECT {w} FROM {w}",
    "INSERT INTO {w} ({w}, b) VALUES (1, 2)",
    "INSERT INTO {w} SELECT {w} FROM {w}",
    "UPDATE {w} SET {w} = {w} + 1, b = 2 WHERE {w} = 2",
    "DELETE FROM {w} WHERE {w} = 1",
    "ALTER TABLE {w} ADD COLUMN {w} int8",
    "ALTER TABLE {w} DROP COLUMN {w}",
    "SELECT mz_now() <= {w} + '30 days' FROM {w} AS OF 5",
    "SELECT * FROM {w} OPTIONS (fast_path = off)",
)
"""Where names stand in SQL that we print, and in what users write with them."""


def meaning(text: str) -> Any:
    """What a text is read as, without where in the text it stands; of a refusal, that it is one."""
    try:
        return _plain(grammar.parse_statements(text))
    except TidegateError as error:
        return type(error)


def _plain(node: Any) -> Any:
    if isinstance(node, Span):
        return None
    if isinstance(node, Token):
        return node.kind, node.text
    if is_dataclass(node):
        own = [field.name for field in fields(node) if field.name not in ("at", "sql")]
        return type(node), *(_plain(getattr(node, name)) for name in own)
    return tuple(map(_plain, node)) if isinstance(node, tuple | list) else node


@pytest.mark.parametrize("place", PLACES)
def test_every_word_is_read_as_the_name_that_it_is(place: str) -> None:
    assert not isinstance(meaning(place.format(w="ordinary")), type), "the place is no SQL"
    wrong = [
        word
        for word in WORDS
        if meaning(place.format(w=identifier(word))) != meaning(place.format(w=f'"{word}"'))
    ]
    assert wrong == []


def test_no_more_is_quoted_than_must_be() -> None:
    """A word that the parser reads as a name everywhere stands as it is, if nobody else would mind it."""
    needless = [
        word
        for word in sorted(CONTEXTUAL)
        if all(meaning(place.format(w=word)) == meaning(place.format(w=f'"{word}"')) for place in PLACES)
    ]
    assert needless == []
    assert [identifier(word) for word in ("at", "id", "interval", "date", "key")] == [
        "at", "id", "interval", "date", "key",
    ]  # fmt: skip


# ---------------------------------------------------------------- through everything that prints


def named(name: str) -> str:
    """A table all of whose names are this one."""
    w = identifier(name)
    return (
        f"CREATE TABLE {w} ({w} timestamptz NOT NULL, other int8 DEFAULT 5, doc jsonb, r row({w} int8, b text))"
        f" CLUSTER BY ({w}, other) KEEP STATISTICS ({w}, doc.{w})"
    )


def described(db: tidegate.Database, name: str) -> tuple[Any, ...]:
    return db.sql(f"SHOW COLUMNS FROM {identifier(name)}").rows(), db.sql(
        f"SHOW CREATE TABLE {identifier(name)}"
    ).text()


def check(name: str) -> None:
    """Defines, shows, defines again, draws and explains."""
    if name in ("other", "doc", "r", "_time", "_diff", "_pos"):
        return
    w = identifier(name)
    with tidegate.open("memory://") as db, tidegate.open("memory://") as again:
        db.sql(named(name))
        db.sql(
            f"INSERT INTO {w} VALUES ('2026-01-01', 1, '{{}}', ROW(1, 'x')), ('2026-02-01', 2, NULL, NULL)"
        )
        again.sql(db.sql(f"SHOW CREATE TABLE {w}").text())
        assert described(again, name) == described(db, name)
        db.sql(f"CREATE VIEW v ({w}) AS SELECT {w} FROM {w}")
        again.sql(db.sql("SHOW CREATE VIEW v").text())
        assert again.sql("SHOW CREATE VIEW v").rows() == db.sql("SHOW CREATE VIEW v").rows()
        if name.isprintable():  # EXPLAIN has a line for each step, and no room for a name of two lines
            _check_explain(db, name)
        _check_map(db, name)


def _check_explain(db: tidegate.Database, name: str) -> None:
    w = identifier(name)
    assert db.sql(f"SHOW COLUMNS FROM {w}").rows()[0][0] == name
    where = f"{w} > '2026-01-15' AND (r).{w} = 1 AND other IN (1, 2)"
    rows = db.sql(f"SELECT {w} FROM {w} WHERE {where}").rows()
    text = db.sql(f"EXPLAIN SELECT {w}, (r).{w} AS {w} FROM {w} WHERE {where}").text()
    assert f"Scan {w}  " in text
    shown = re.findall(r"(?:Selection |pushed down filter:)(.*?)(?:   +est .*)?$", text, re.MULTILINE)
    assert db.sql(f"SELECT {w} FROM {w} WHERE {' AND '.join(shown)}").rows() == rows
    project = next(line for line in text.splitlines() if "Project" in line).partition("Project")[2].strip()
    assert db.sql(f"SELECT {project} FROM {w}").names == (name, name)
    pushed = db.sql(f"EXPLAIN FILTER PUSHDOWN SELECT {w} FROM {w} WHERE {where}").text()
    conditions = [line for line in pushed.splitlines() if not line.startswith((" ", "parts:"))]
    assert db.sql(f"SELECT {w} FROM {w} WHERE {' AND '.join(conditions)}").rows() == rows


def _check_map(db: tidegate.Database, name: str) -> None:
    found = db.maps.collection(name)
    assert found.x.name == identifier(name)
    assert bind.bind_expression(found.x.name, [(name, TIMESTAMPTZ)]) == Column(0, TIMESTAMPTZ, name)


@pytest.mark.parametrize("word", sorted({*RESERVED, *JOINING, *CONTEXTUAL}))
def test_a_table_named_by_a_word_of_the_grammar(word: str) -> None:
    check(word)


@given(NAMES)
@example('"')
@example("a b")
@example("É")
@example("Order")
@example("a\nb")
@example("1a")
@settings(
    max_examples=40
)  # each opens two databases; what matters are the kinds of letters, of which there are few
def test_a_table_of_any_name(name: str) -> None:
    check(name)


def pages(word: str) -> Iterator[str]:
    """The page of a table, and the queries that it offers."""
    with tidegate.open("memory://") as db:
        db.sql(named(word))
        db.sql(f"INSERT INTO {identifier(word)} VALUES ('2026-01-01', 1, '{{}}', ROW(1, 'x'))")
        db.sql(f"INSERT INTO {identifier(word)} VALUES ('2026-02-01', 2, '{{}}', ROW(1, 'x'))")
        with serving(db) as site:
            page = site.get(f"/c/{quote(word, safe='')}")
            assert page.status == 200, page.text
            yield page.text
            for query in re.findall(r"sql=([^\"&]+)", page.text):
                assert db.sql(unquote(query)).names
                yield unquote(query)


@pytest.mark.parametrize("word", ["order", "from", "select", "values", "Über", 'a"b', "a b", "a/b"])
def test_the_page_of_a_table(word: str) -> None:
    found = list(pages(word))
    assert identifier(word) in " ".join(found).replace("&quot;", '"')
