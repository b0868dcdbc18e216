"""Collections and queries of every shape, for our database and for a PostgreSQL to answer alike.

Orders of a year lie in parts by month, so that pruning has something to prune; a few rows have NULLs, NaN and odd texts. Values are
such that both sides must agree to the last digit: no sums of floats, averages only of what divides evenly or is rounded.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import set_json_loads

import tidegate
from tests import servers
from tidegate.query.python_values import Interval

TABLES = {
    "customers": "id int8, name text, country text, born date, score int4",
    "orders": "id int8, customer int8, at timestamptz, price numeric(10,2), quantity int4, status text, note jsonb, weight float8",
    "items": "order_id int8, line int4, product int4, amount int4, price numeric(10,2)",
    "products": "id int4, name text, kind text, span interval",
}
CUSTOMERS, ORDERS, PRODUCTS = 40, 240, 12


def rows(seed: int = 7) -> dict[str, list[tuple[str, ...]]]:
    """The rows of each table as texts of SQL constants."""
    r = random.Random(seed)  # the same rows each time

    def maybe(text: str, share: float = 0.1) -> str:
        return "NULL" if r.random() < share else text

    customers = [
        (
            str(i), maybe(f"'{r.choice(['ann', 'Bob', 'é', 'Zoë', ''])}{i % 7}'"),
            maybe(f"'{r.choice(['de', 'fr', 'np', 'us'])}'"),
            maybe(f"'19{r.randrange(50, 99)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}'"),
            maybe(str(r.randrange(-5, 20)), 0.2),
        )
        for i in range(1, CUSTOMERS + 1)
    ]  # fmt: skip
    orders = [
        (
            str(i), maybe(str(r.randrange(1, CUSTOMERS + 8))),
            f"'2024-{1 + 12 * (i - 1) // ORDERS:02}-{r.randrange(1, 29):02} {r.randrange(24):02}:00:00+00'",
            maybe(f"{r.randrange(1, 90_000) / 100:.2f}"), maybe(str(r.randrange(0, 9))),
            maybe(f"'{r.choice(['open', 'paid', 'sent'])}'"),
            maybe(r.choice(["'{\"a\": 1}'", "'{\"a\": 2, \"b\": [1, 2]}'", "'[1]'", "'null'"]), 0.3),
            r.choice(["1.5", "-2.25", "'NaN'", "'Infinity'", "0", "NULL"]),
        )
        for i in range(1, ORDERS + 1)
    ]  # fmt: skip
    items = [
        (str(r.randrange(1, ORDERS + 20)), str(i % 5), str(r.randrange(1, PRODUCTS + 4)), str(r.randrange(1, 9)),
         f"{r.randrange(100, 9_000) / 100:.2f}")
        for i in range(400)
    ]  # fmt: skip
    spans = ["'1 day'", "'30 days'", "'1 month'", "'-3 hours'", "NULL"]
    products = [
        (str(i), f"'p{i}'", maybe(f"'{r.choice(['tool', 'toy', 'food'])}'"), r.choice(spans))
        for i in range(1, PRODUCTS + 1)
    ]
    return {"customers": customers, "orders": orders, "items": items, "products": products}


def batches(name: str, found: list[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """The rows of a table as they are inserted: orders a month at a time."""
    step = ORDERS // 12 if name == "orders" else 200
    yield from (found[i : i + step] for i in range(0, len(found), step))


def _read() -> tuple[list[str], list[str]]:
    text = (Path(__file__).parent / "general.sql").read_text()
    halves = text.split("-- ordered\n")
    plain, ordered = (re.sub(r"(?m)^--.*\n", "", half).split(";\n") for half in halves)
    return [q.strip() for q in plain if q.strip()], [q.strip() for q in ordered if q.strip()]


QUERIES, ORDERED = _read()
"""What both answer with the same rows: in any order, and in the same order."""


SIDES = {"o": "orders", "c": "customers", "i": "items", "p": "products"}
KEYS = {("o", "c"): "o.customer = c.id", ("o", "i"): "i.order_id = o.id", ("i", "p"): "i.product = p.id"}
CONDITIONS = {
    "o": ["o.at > '2024-08-01'", "o.price BETWEEN 100 AND 300", "o.status = 'paid'", "o.quantity IS NULL", "o.id % 3 = 1",
          "o.note ->> 'a' = '1'", "o.weight > 1"],
    "c": ["c.country IN ('de', 'np')", "c.score > 4", "c.name LIKE '%1'", "c.born < '1970-01-01'", "c.country IS NULL"],
    "i": ["i.amount > 3", "i.line = 2", "i.price < 40"],
    "p": ["p.kind <> 'toy'", "p.span < '2 days'", "p.id > 4"],
}  # fmt: skip
ASKED = (
    "o.id IN (SELECT order_id FROM items WHERE amount > 5)",
    "NOT EXISTS (SELECT 1 FROM items x WHERE x.order_id = o.id)",
    "o.price > (SELECT avg(price) FROM orders)",
)
COLUMNS = {"o": ["o.status", "o.quantity"], "c": ["c.country", "c.score"], "i": ["i.line"], "p": ["p.kind"]}


def random_query(r: random.Random) -> str:
    """A query of joins, conditions and perhaps groups, that both understand."""
    text, known = _joined(r)
    where = [r.choice(CONDITIONS[r.choice(known)]) for _ in range(r.randrange(4))]
    where = [
        f"({one} OR {r.choice(CONDITIONS[r.choice(known)])})" if r.random() < 0.25 else one for one in where
    ]
    if r.random() < 0.3 and "o" in known:
        where.append(r.choice(ASKED))
    clause = f" WHERE {' AND '.join(where)}" if where else ""
    own = [column for side in known for column in COLUMNS[side]]
    if r.random() < 0.5:
        key, last = r.choice(own), f"{known[-1]}.{_first(known[-1])}"
        made = f"SELECT {key}, count(*), sum({known[0]}.price), max({last})"
        return f"{made} FROM {text}{clause} GROUP BY {key}"
    made = f"SELECT {', '.join(dict.fromkeys(r.choices(own, k=3)))}, {known[-1]}.*"
    return f"{made} FROM {text}{clause}"


def _joined(r: random.Random) -> tuple[str, list[str]]:
    """Some of the tables, joined in some way, and which."""
    chain = r.choice(["oc", "oi", "ip", "oci", "oip", "ocip"])
    text, known = f"{SIDES[chain[0]]} {chain[0]}", [chain[0]]
    for side in chain[1:]:
        (on,) = (k for pair, k in KEYS.items() if side in pair and (set(pair) - {side}) <= set(known))
        kind = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN", "LEFT JOIN"])
        more = ""
        if r.random() < 0.3 and kind != "FULL JOIN":
            more = f" AND {r.choice(CONDITIONS[r.choice([side, *known])])}"
        text += f" {kind} {SIDES[side]} {side} ON {on}{more}"
        known.append(side)
    return text, known


def _first(side: str) -> str:
    return "order_id" if side == "i" else "id"


def plain(value: Any) -> Any:
    """A value in a form that is equal where both sides mean the same."""
    if isinstance(value, Decimal):
        return value.normalize() if value else Decimal(0)
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


@dataclass
class Both:
    """The same tables in a database of ours and in a PostgreSQL."""

    db: tidegate.Database
    url: str
    schema: str

    def theirs(self, sql: str) -> list[tuple[Any, ...]]:
        """What PostgreSQL answers."""
        with psycopg.connect(self.url, options=f"-c search_path={self.schema} -c timezone=UTC") as connection:
            set_json_loads(lambda text: json.dumps(json.loads(text), sort_keys=True), connection)
            cursor = connection.execute(sql)  # a text of ours
            return [tuple(_theirs(value) for value in row) for row in cursor.fetchall()]

    def ours(self, sql: str, **options: str) -> tidegate.Result:
        """What we answer, with settings for this query alone."""
        return self.db.sql(f"{sql} OPTIONS ({', '.join(f'{k} = {v}' for k, v in options.items())})")


def comparable_rows(result: tidegate.Result) -> list[tuple[Any, ...]]:
    """The rows of an answer of ours in forms that are equal to PostgreSQL's."""
    kinds = [type_.kind.value for type_ in result.types]
    return [tuple(_ours(v, k) for v, k in zip(row, kinds, strict=True)) for row in result.rows()]


def _theirs(value: Any) -> Any:
    if isinstance(value, timedelta):  # psycopg has no months: what is compared is asked for as text or length
        return value / timedelta(microseconds=1)
    return plain(value)


def _ours(value: Any, kind: str) -> Any:
    if isinstance(value, Interval):
        return ((value.months * 30 + value.days) * 86_400_000_000 + value.microseconds) * 1.0
    if kind == "jsonb" and value is not None:
        return json.dumps(json.loads(value), sort_keys=True)
    return plain(value)


@contextmanager
def both_databases(folder: Path) -> Iterator[Both]:
    """Four tables in a database of ours and in a PostgreSQL."""
    try:
        url = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"no {missing}")
    schema = f"general_{uuid4().hex[:8]}"
    with tidegate.open(folder / "lake") as db, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}; SET search_path = {schema}")
        for name, columns in TABLES.items():
            db.sql(f"CREATE TABLE {name} ({columns})")
            by_bytes = columns.replace(" text", ' text COLLATE "C"')
            connection.execute(f"CREATE TABLE {name} ({by_bytes})")
            for some in batches(name, rows()[name]):
                values = ", ".join(f"({', '.join(row)})" for row in some)
                db.sql(f"INSERT INTO {name} VALUES {values}")  # constants of ours
                connection.execute(f"INSERT INTO {name} VALUES {values}")  # constants of ours
        yield Both(db, url, schema)


def difference(
    both: Both, sql: str, ours: Callable[[], list[tuple[Any, ...]]], *, ordered: bool = False
) -> str | None:
    """None if both answer alike; else how they do not."""
    try:
        expected, answered = both.theirs(sql), ours()
    except Exception as error:  # noqa: BLE001  # all of them are told at the end
        return f"{sql}\n  {type(error).__name__}: {str(error)[:600]}"
    more, less = Counter(map(repr, answered)), Counter(map(repr, expected))
    if answered == expected if ordered else more == less:
        return None
    differ = f"ours only: {list((more - less).elements())[:4]}\n  theirs only: {list((less - more).elements())[:4]}"
    return f"{sql}\n  {len(answered)} rows for {len(expected)}\n  {differ}"
