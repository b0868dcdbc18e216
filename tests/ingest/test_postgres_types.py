"""Values of every type of PostgreSQL, on a real server: in snapshots, in changes, and those that ours cannot hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.ingest.postgres_lab import Database, Follower, database, orders, same
from tidegate.ingest.upstreams.postgres.upstream import format_from_json
from tidegate.plan.mfp import MapFilterProject


@pytest.fixture
def db() -> Iterator[Database]:
    with database() as made:
        yield made


COLUMNS = {
    "a": ("bool", ["true", "false"]),
    "b": ("int2", ["-32768", "32767"]),
    "c": ("int4", ["-2147483648", "2147483647"]),
    "d": ("int8", ["-9223372036854775808", "9223372036854775807"]),
    "e": ("float4", ["1.5", "'-Infinity'"]),
    "f": ("float8", ["0.1::float8 + 0.2", "'5e-324'"]),
    "g": ("numeric(10,2)", ["-99999999.99", "0.5"]),
    "h": ("numeric", ["12345678901234567890.123456789012345678", "-1e-18"]),
    "i": ("text", ["E'tab\\t\\\\N back\\\\slash\\nline\\r'", "'häß 😀 \\N'"]),
    "j": ("varchar(10)", ["''", "'x'"]),
    "k": ("char(4)", ["'ab'", "'abcd'"]),
    "l": ("bytea", ["'\\x00ff5c'", "''"]),
    "m": ("date", ["'0001-01-01'", "'9999-12-31'"]),
    "n": ("time", ["'23:59:59.999999'", "'00:00'"]),
    "o": ("timestamp", ["'2026-11-16 07:30:15.123456'", "'0001-01-01'"]),
    "p": ("timestamptz", ["'2026-11-16 07:30:15.5+02'", "'1969-12-31 23:59:59.999999Z'"]),
    "q": ("uuid", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'00000000-0000-0000-0000-000000000000'"]),
    "r": ("int4[]", ["'{1,NULL,3}'", "'{}'"]),
    "s": ("text[]", ["ARRAY['a,b', 'c\"d', '\\']", "'{NULL,\"NULL\"}'"]),
}
OTHERS = {
    "t": ("mood", ["'happy'", "'sad'"]),
    "u": ("inet", ["'10.0.0.1/8'", "'::/64'"]),
    "v": ("cents", ["100", "-5"]),
    "w": ("oid", ["4000000000", "1"]),
    "x": ("int4range", ["'[1,5)'", "'empty'"]),
    "y": ("interval", ["'1 year 2 mons -3 days 04:05:06.7'", "'-1 month'"]),
    "z": ("json", ['\'{"b": 1.50, "a": [1, null]}\'', "'\"text\"'"]),
}


EVERYTHING = {**COLUMNS, **OTHERS}
_AS_TEXT = {"json": "{}::jsonb::text", "inet": "{}::text", "int4range": "{}::text", "mood": "{}::text"}
INTERVAL = list(EVERYTHING).index("y")
"""The driver has no type for it; what is kept of intervals is compared with PostgreSQL where casts are."""


def ours(follower: Follower) -> Counter[Any]:
    """What was ingested, without intervals."""
    found: Counter[Any] = Counter()
    for row, count in follower.contents("v").items():
        found[row[:INTERVAL] + row[INTERVAL + 1 :]] += count
    return found


def theirs(db: Database) -> Counter[Any]:
    """What PostgreSQL holds, without intervals."""
    columns = [
        _AS_TEXT.get(type_, "{}").format(name)
        for name, (type_, _) in EVERYTHING.items()
        if type_ != "interval"
    ]
    found: Counter[Any] = Counter()
    for row in db.rows(f"SELECT {', '.join(columns)} FROM v"):
        *start, last = (tuple(value) if isinstance(value, list) else value for value in row)
        found[(*start, last and json.dumps(json.loads(last), sort_keys=True))] += 1
    return found


def test_values_are_what_postgresql_holds(db: Database) -> None:
    """Of every type, in a snapshot, inserted, and taken back."""
    db.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN money_ AS int8",
        "CREATE DOMAIN cents AS money_ CHECK (value > -100)",
        f"CREATE TABLE v ({', '.join(f'{name} {type_}' for name, (type_, _) in EVERYTHING.items())})",
        "ALTER TABLE v REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR ALL TABLES",
    )
    values = [", ".join(shown[i] if i < 2 else "NULL" for _, shown in EVERYTHING.values()) for i in range(3)]
    insert = [f"INSERT INTO v VALUES ({row})" for row in values]
    db.run(*insert)
    follower = Follower(db.source())
    follower.drain()
    assert not follower.failures
    assert ours(follower) == theirs(db)
    first = Counter(follower.contents("v"))
    db.run(*insert, "UPDATE v SET b = b WHERE b IS NOT NULL")
    follower.drain()
    assert ours(follower) == theirs(db)
    assert follower.contents("v") == first + first  # a snapshot and changes write values alike
    db.run("DELETE FROM v")
    follower.drain()
    assert not follower.contents("v")


def test_types_are_kept(db: Database) -> None:
    """What the catalog keeps of a table is the table."""
    orders(db, "ALTER TABLE orders ADD price numeric(7,3), ADD tags text[], ADD at timestamptz")
    (table,) = db.source().tables().values()
    assert [str(type_) for _, type_ in table.columns] == [
        "int8",
        "text",
        "numeric(7,3)",
        "text[]",
        "timestamptz",
    ]
    assert format_from_json(json.loads(json.dumps(table.to_json()))) == table  # type: ignore[attr-defined]  # formats from servers have it


def test_rows_that_ours_cannot_hold(db: Database) -> None:
    """They fail with their column, are kept as JSON, and can be replayed; the rest flows."""
    db.run(
        "CREATE TABLE t (id int8, at timestamptz, n numeric)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR TABLE t",
        "INSERT INTO t VALUES (1, 'infinity', 1), (2, '2026-01-01Z', 'NaN'), (3, '0044-03-15 BC', 1), (4, NULL, 1)",
    )
    upstream = db.source()
    follower = Follower(upstream)
    follower.drain()
    db.run("INSERT INTO t VALUES (5, '-infinity', 5), (6, NULL, 6)")
    follower.drain()
    assert sorted(row[0] for row in follower.contents("t")) == [4, 6]
    raws = {json.loads(raw)["id"]: (json.loads(raw), message) for raw, _, message in follower.failures}
    assert sorted(raws) == ["1", "2", "3", "5"]
    assert raws["1"][0] == {"id": "1", "at": "infinity", "n": "1"}
    assert raws["1"][1].startswith('column "at": ')
    assert raws["2"][1].startswith('column "n": ')
    assert all(position["table"] == "t" for _, position, _ in follower.failures)
    # A transform that does not read the column, or reads it as something else, can take them.
    table = dict(upstream.chosen)["t"]
    decode, left = table.take(MapFilterProject.identity([t for _, t in table.columns]).project((0,)))
    kept = [raw for raw, _, _ in follower.failures]
    decoded = decode.records(pa.array([*kept, b"{}", b"no", None], pa.binary()))
    assert sorted(decoded.columns[0].to_pylist()) == [1, 2, 3, 5]
    assert left.is_identity
    assert [number for number, _ in decoded.failures] == [4, 5, 6]
    assert decoded.failures[0][1] == 'the record was kept without column "id"'


def test_values_out_of_line_come_with_updates_that_leave_them(db: Database) -> None:
    """TOAST: an update of another column does not send them."""
    orders(
        db, "ALTER TABLE orders ALTER item SET STORAGE EXTERNAL", "ALTER TABLE orders ADD n int4 DEFAULT 0"
    )
    db.run("UPDATE orders SET item = repeat('x', 50000) || id WHERE id < 5")
    follower = Follower(db.source())
    follower.drain()
    db.run("UPDATE orders SET n = n + 1", "UPDATE orders SET n = n + 1, item = NULL WHERE id = 2")
    follower.drain()
    same(db, follower)
