"""Collections and queries of every shape, for our database and for a PostgreSQL to answer alike.

Orders of a year lie in parts by month, so that pruning has something to prune; a few rows have NULLs, NaN and odd texts. Values are
such that both sides must agree to the last digit: no sums of floats, averages only of what divides evenly or is rounded.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

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
