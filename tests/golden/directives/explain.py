"""`explain`: what EXPLAIN says of a query, at 2024-07-01.

    explain [knob=value …]              EXPLAIN
    explain analyze [knob=value …]      EXPLAIN ANALYZE
    explain pushdown [knob=value …]     EXPLAIN FILTER PUSHDOWN: the rows, then the text
    explain statement                   the lines are the whole statement

Tables: orders (id int8, item text, price numeric(10,2), created_at timestamptz, payload jsonb), a part for each month from
January to June 2024 with 10 rows each, and the view big over it; logs (line text, level int4, extra text), 4 parts: one was written
when there was no extra yet, one has no statistics, and of one those of line were trimmed; ledger (id int8, f float8), of which
a row was retracted. Parts are numbered, and bytes and times are left out.
"""

import json
import re
from functools import cache

import pyarrow as pa

import tidegate
from tests.golden.runner import directive
from tidegate.clock import ManualClock
from tidegate.expr.model.types import TIMESTAMPTZ

NOW = 1_719_792_000_000
"""2024-07-01."""
DAY = 86_400_000


@cache
def database() -> tidegate.Database:
    db = tidegate.open("memory://", clock=ManualClock(NOW))
    db.sql(
        "CREATE TABLE orders (id int8, item text, price numeric(10,2), created_at timestamptz, payload jsonb)"
    )
    for month in range(6):
        ids = range(10 * month, 10 * month + 10)
        day = NOW - 181 * DAY + month * 30 * DAY
        rows = {
            "id": list(ids),
            "item": [f"item {chr(97 + month)}{i % 10}" for i in ids],
            "price": pa.array([f"{i}.50" for i in ids]).cast(pa.decimal128(10, 2)),
            "created_at": pa.array([1000 * (day + i % 10 * DAY) for i in ids], TIMESTAMPTZ.arrow),
            "payload": [json.dumps({"ts": i, "kind": "ab"[i % 2]}) for i in ids],
        }
        db.append("orders", rows, at=1000 + month)
    db.sql("CREATE VIEW big AS SELECT id, price * 2 AS double FROM orders WHERE price > 30")
    _logs(db)
    db.sql("CREATE TABLE ledger (id int8, f float8)")
    db.append("ledger", {"id": [1, 2], "f": [0.5, 1.5]}, at=1000)
    db.set("retraction_lookup_bytes", 0)  # the retraction stays a row
    db.append("ledger", {"id": [1], "f": [0.5]}, at=1001, diff=-1)
    return db


def _logs(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE logs (line text, level int4)")
    db.append("logs", {"line": ["d"], "level": [4]}, at=999)
    db.sql("ALTER TABLE logs ADD COLUMN extra text")
    rows = {"line": [f"{'long ' * 15}{c}" for c in "abc"], "level": [1, 2, 3], "extra": ["x", "y", "z"]}
    for knob, value in (("stats_collection", False), ("stats_budget", 40), ("batch_rows", None)):
        db.set(knob, value)
        db.append("logs", rows)
        db.set(knob, None)


@directive("explain")
def explain(args: str, lines: list[str]) -> str:
    db, words, sql = database(), args.split(), "\n".join(lines)
    knobs = dict(word.split("=") for word in words if "=" in word)
    kind = next((word for word in words if "=" not in word), "")
    head = {
        "": "EXPLAIN ",
        "analyze": "EXPLAIN ANALYZE ",
        "pushdown": "EXPLAIN FILTER PUSHDOWN ",
        "statement": "",
    }
    for knob, value in knobs.items():
        db.set(knob, value)
    try:
        result = db.sql(head[kind] + sql)
    finally:
        for knob in knobs:
            db.set(knob, None)
    given = [] if result.is_text else result.rows()
    rows = [" | ".join("-" if value is None else str(value) for value in row) for row in given]
    return _plain("\n".join([*rows, *(["…"] if rows else []), result.text()]))


def _plain(text: str) -> str:
    """Without what differs from run to run, or with the version of a library."""
    names = dict.fromkeys(re.findall(r"part/\w+/\w+", text))
    for i, name in enumerate(names):
        text = text.replace(name, f"part {i + 1}")
    text = re.sub(r"[\d.,]+ (B|kB|MB)\b", "N B", text)
    text = re.sub(r"in [\d.,]+ ms", "in N ms", text)
    stages = re.compile(r"^(  [\w ,]+?)  +([\d,]+)  +([\d,]+)  +N B  +[\d.]+$", re.MULTILINE)
    text = re.sub(r"^  stage .*$", "  stage: rows in, rows out", text, flags=re.MULTILINE)
    return stages.sub(r"\1: \2, \3", text)
