"""Tables and statements of relational constructs, for our database and for a PostgreSQL to answer alike.

`relational.sql` and `statements.sql` have statements: table functions, recursion, LATERAL, whole rows. `random_query` makes more,
of joins, subqueries, windows, groups and table functions. Rows are compared as multisets or in order; names of columns, too.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import set_json_loads

import tidegate
from tests.differential.general import comparable_rows, plain
from tests.differential.postgres import Postgres
from tests.differential.random_queries import VIEWS

TABLES = {
    "nodes": "id int4, parent int4, label text, weight numeric(8,2), tags text[], doc jsonb, at timestamp",
    "edges": "src int4, dst int4, cost int8",
    "events": "id int8, node int4, at timestamptz, kind text, amount int4",
}
DOCUMENTS = ('\'{"list": [1, "x"], "k": 1}\'', "'{\"list\": []}'", "'[1, 2]'", "'{}'", "NULL", "'7'")
TAGS = ("'{red,blue}'", "'{}'", "NULL", "'{xy,NULL,red}'", "'{blue}'")
NODES, EVENTS = 14, 60


def _read() -> dict[str, list[str]]:
    """The statements by what is compared: rows in any order, in order, as ties, or that both refuse."""
    folder = Path(__file__).parent
    text = "-- \n".join((folder / name).read_text() for name in ("relational.sql", "statements.sql"))
    sections: dict[str, list[str]] = {"plain": [], "ordered": [], "ties": [], "refused": []}
    section = "plain"
    for line in re.split(r"(?m)(?<=;)\n|^(-- .*)\n", text):
        if line is None or not line.strip():
            continue
        if line.startswith("--"):
            section = line[3:] if line[3:] in sections else "plain"
        else:
            sections[section].append(line.strip().rstrip(";"))
    return sections


STATEMENTS = _read()


def rows(seed: int = 11) -> dict[str, list[str]]:
    """The rows of each table as texts of SQL constants."""
    r = random.Random(seed)  # the same rows each time

    def maybe(value: object, share: float = 0.15) -> str:
        return "NULL" if r.random() < share else str(value)

    nodes = [
        f"({i}, {'NULL' if i in (1, 8) else maybe(r.randrange(1, i), 0.1) if i > 1 else 'NULL'}, "
        f"{maybe(chr(39) + r.choice('abc') + chr(39))}, {maybe(r.randrange(0, 900) / 100)}, {r.choice(TAGS)}, "
        f"{r.choice(DOCUMENTS)}, '2024-01-{i:02} 00:00:00')"
        for i in range(1, NODES + 1)
    ]
    # Edges lead to greater numbers, but for one that makes a circle: recursions that do not look for it must end by themselves.
    pairs = [(a, r.randrange(a + 1, NODES + 2)) for a in range(1, NODES) for _ in range(r.randrange(0, 3))]
    edges = [f"({a}, {b}, {r.randrange(1, 9)})" for a, b in pairs] + [
        "(NULL, 3, 2)",
        "(5, NULL, 4)",
        "(6, 2, 9)",
    ]
    events = [
        f"({i}, {maybe(r.randrange(1, NODES + 3))}, '2024-01-{r.randrange(1, 12):02} {r.randrange(24):02}:00:00+00', "
        f"{maybe(chr(39) + r.choice('abc') + chr(39))}, {maybe(r.randrange(-3, 20))})"
        for i in range(1, EVENTS + 1)
    ]
    return {"nodes": nodes, "edges": edges, "events": events}


CHANGES = (
    "INSERT INTO nodes SELECT id + 100, parent, label, weight, tags, doc, at FROM nodes WHERE id % 3 = 0",
    "DELETE FROM nodes WHERE id > 100",
    "UPDATE events SET amount = amount, kind = kind WHERE id % 4 = 1",
    "INSERT INTO edges SELECT src, dst, cost + 100 FROM edges",
    "DELETE FROM edges WHERE cost > 100",
)
"""Rows that come and go, so that most parts have deleted rows."""


def set_up() -> Iterator[str]:
    """Statements that make the tables, in many small parts, and the views of `random_queries.py`."""
    for name, columns in TABLES.items():
        yield f"CREATE TABLE {name} ({columns})"
        given = rows()[name]
        for start in range(0, len(given), 7):
            yield f"INSERT INTO {name} VALUES {', '.join(given[start : start + 7])}"  # constants of ours
    yield from CHANGES
    for name, query in VIEWS.items():
        yield f"CREATE VIEW {name} AS {query}"


@dataclass
class Pair:
    """The same tables in a database of ours and in a PostgreSQL."""

    db: tidegate.Database
    postgres: Any

    def theirs(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names and rows that PostgreSQL answers."""
        cursor = self.postgres.execute(sql)  # a text of ours
        names = [column.name for column in cursor.description]
        return names, [tuple(_comparable(value) for value in row) for row in cursor.fetchall()]

    def ours(self, sql: str, engine: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names and rows that we answer on an engine."""
        self.db.set("engine", engine)
        result = self.db.sql(sql)
        found = [tuple(_comparable(value) for value in row) for row in comparable_rows(result)]
        return list(result.schema.names), found

    def difference(self, sql: str, engine: str, *, ordered: bool = False) -> str | None:
        """None if both answer alike; else how they do not."""
        try:
            (names, expected), (own, answered) = self.theirs(sql), self.ours(sql, engine)
        except (tidegate.TidegateError, psycopg.Error) as error:
            return f"{sql}\n  {type(error).__name__}: {str(error)[:600]}"
        if names != own:
            return f"{sql}\n  columns {own} for {names}"
        more, less = Counter(map(repr, answered)), Counter(map(repr, expected))
        if answered == expected if ordered else more == less:
            return None
        ours, theirs = list((more - less).elements())[:4], list((less - more).elements())[:4]
        return (
            f"{sql}\n  {len(answered)} rows for {len(expected)}\n  ours only: {ours}\n  theirs only: {theirs}"
        )

    def differences(self, statements: Sequence[str], engine: str, *, ordered: bool = False) -> list[str]:
        """How the answers to statements differ."""
        found = (self.difference(sql, engine, ordered=ordered) for sql in statements)
        return [one for one in found if one is not None]

    def only_one_refuses(self, sql: str, engine: str) -> str | None:
        """None if both refuse a statement; else which does not."""
        refused = []
        for side, ask in (("ours", lambda: self.ours(sql, engine)), ("theirs", lambda: self.theirs(sql))):
            try:
                ask()
            except (tidegate.TidegateError, psycopg.Error):
                refused.append(side)
        return None if len(refused) == 2 else f"{sql}: refused by {refused}"


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    return plain(value)


@contextmanager
def pair_of_databases(postgres: Postgres) -> Iterator[Pair]:
    """Three tables in a database of ours and in a PostgreSQL, ours in several parts."""
    connection = postgres.connection
    set_json_loads(lambda text: json.dumps(json.loads(text), sort_keys=True), connection)
    connection.execute("DROP SCHEMA IF EXISTS relational CASCADE; CREATE SCHEMA relational")
    connection.execute("SET search_path = relational")
    try:
        with tidegate.open("memory://") as db:
            for statement in set_up():
                db.sql(statement)
                connection.execute(statement)  # a text of ours
            yield Pair(db, connection)
    finally:
        connection.execute("SET search_path = public")
        set_json_loads(json.loads, connection)


# ---------------------------------------------------------------- random queries

SOURCES = {
    "n": "nodes n",
    "e": "edges e",
    "v": "events v",
    "g": "generate_series(1, 6) AS g (x)",
    "l": "(VALUES (1, 'a'), (4, NULL), (9, 'c')) AS l (x, t)",
}
NUMBERS = {
    "n": ["n.id", "n.parent"],
    "e": ["e.src", "e.dst"],
    "v": ["v.node", "v.amount"],
    "g": ["g.x"],
    "l": ["l.x"],
}
TEXTS = {"n": ["n.label"], "e": ["e.cost::text"], "v": ["v.kind"], "g": ["g.x::text"], "l": ["l.t"]}


def random_query(r: random.Random) -> str:
    """A query that both understand, whose rows do not depend on the order in which they are read."""
    text, known = _from(r)
    where = [_condition(r, known) for _ in range(r.randrange(3))]
    clause = f" WHERE {' AND '.join(where)}" if where else ""
    number, word = _number(r, known), _word(r, known)
    shape = r.randrange(6)
    if shape == 0:
        sets = r.choice(
            [word, f"ROLLUP ({word}, {number})", f"CUBE ({word}, {number})", f"({word}, {number})"]
        )
        return f"SELECT count(*), sum({_number(r, known)}), min({word}) FROM {text}{clause} GROUP BY {sets}"
    if shape == 1:
        order = ", ".join(NUMBERS[side][0] for side in known)
        over = f"PARTITION BY {word} ORDER BY {order}"
        return f"SELECT {number}, rank() OVER ({over}), sum({number}) OVER ({over}) FROM {text}{clause}"
    if shape == 2:
        inner = f"SELECT {number} AS a, {word} AS b FROM {text}{clause}"
        other = r.choice(["SELECT id, label FROM nodes", "SELECT amount, kind FROM events", "SELECT 1, 'a'"])
        return f"{inner} {r.choice(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT', 'EXCEPT ALL'])} {other}"
    if shape == 3:
        return f"SELECT {number}, (SELECT count(*) FROM edges z WHERE z.src = {number}), {word} FROM {text}{clause}"
    if shape == 4:
        return f"SELECT DISTINCT {number}, coalesce({word}, '-') FROM {text}{clause}"
    return f"SELECT {number}, generate_series(1, 2) AS s, {word} FROM {text}{clause}"


def _number(r: random.Random, known: Sequence[str]) -> str:
    return r.choice(NUMBERS[r.choice(known)])


def _word(r: random.Random, known: Sequence[str]) -> str:
    return r.choice(TEXTS[r.choice(known)])


def _from(r: random.Random) -> tuple[str, list[str]]:
    """Two or three tables, joined in some way, and which."""
    first, *others = r.sample(sorted(SOURCES), r.randrange(2, 4))
    text, known = SOURCES[first], [first]
    for side in others:
        kind = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT JOIN"])
        known.append(side)
        text += f" {kind} {SOURCES[side]} ON {_number(r, known[:-1])} = {_number(r, [side])}"
        if r.random() < 0.3 and kind != "FULL JOIN":
            text += f" AND {_number(r, known)} > {r.randrange(6)}"
    if r.random() < 0.3:
        join = r.choice(["CROSS JOIN", "LEFT JOIN"])
        lateral = f"LATERAL (SELECT count(*) AS c, {_number(r, known)} AS x FROM edges y WHERE y.dst = {_number(r, known)}) AS k"
        text += f" {join} {lateral}{'' if join == 'CROSS JOIN' else ' ON k.c > 1'}"
    return text, known


def _condition(r: random.Random, known: Sequence[str]) -> str:
    number, word = _number(r, known), _word(r, known)
    return r.choice(
        [
            f"{number} > {r.randrange(8)}",
            f"{word} IS NULL",
            f"({number} < 5 OR {word} = 'a')",
            f"EXISTS (SELECT 1 FROM edges z WHERE z.src = {number} AND z.cost > 2)",
            f"NOT EXISTS (SELECT 1 FROM events z WHERE z.node = {number} AND z.kind = {word})",
            f"{number} IN (SELECT parent FROM nodes)",
            f"{number} NOT IN (SELECT dst FROM edges WHERE dst IS NOT NULL)",
            f"{number} > (SELECT avg(cost) FROM edges z WHERE z.dst >= {number})",
            f"({number}, {word}) IN (SELECT id, label FROM nodes)",
        ]
    )
