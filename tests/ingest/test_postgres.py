"""PostgreSQL as an upstream, on a real server: what it takes of plans, tables of all kinds, snapshots, batches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from tests.ingest.postgres_lab import Database, Follower, Killed, database, orders, same
from tidegate.errors import BindError, SourceError
from tidegate.expr.model import build
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import INT8, TEXT
from tidegate.ingest.protocol import BatchLimit, ReadRequest
from tidegate.ingest.upstreams.postgres import connect as postgres_connect
from tidegate.ingest.upstreams.postgres import read as postgres_read
from tidegate.ingest.upstreams.postgres import snapshot as postgres_snapshot
from tidegate.ingest.upstreams.postgres import upstream as postgres
from tidegate.ingest.upstreams.postgres.connect import open_connection
from tidegate.plan.mfp import MapFilterProject


@pytest.fixture
def db() -> Iterator[Database]:
    with database() as made:
        yield made


# ---------------------------------------------------------------- what it takes of a plan


def test_only_what_is_demanded_is_read(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that nobody reads are not sent, and may be dropped; conditions are asked first; both outputs share a read."""
    orders(db, "ALTER TABLE orders ADD secret text, ADD kind text DEFAULT 'a'")
    upstream = db.source()
    table = dict(upstream.chosen)["orders"]
    types = [type_ for _, type_ in table.columns]
    whole = MapFilterProject.identity(types)
    one = whole.filter(build.call(">", Column(0, INT8), build.literal(15, INT8))).project((1,))
    two = whole.project((3,))
    wanted = [ReadRequest("orders", table.take(plan)[0]) for plan in (one, two)]
    asked = []
    copied = postgres_snapshot.copy_blocks
    monkeypatch.setattr(postgres_snapshot, "copy_blocks", lambda c, s: asked.append(s) or copied(c, s))
    db.run("ALTER TABLE orders DROP secret")
    start = upstream.start()
    upto = upstream.latest(start, BatchLimit())
    found = [got for split in upstream.splits(start, upto) for got in upstream.read(split, wanted, [])]
    assert [b'"id", "item", "kind"' in statement for statement in asked] == [True]
    first, second = [next(chunk.decoded for i, chunk in found if i == number) for number in (0, 1)]
    assert first.columns[0].to_pylist() == [f"item {i}" for i in range(16, 21)]
    assert (first.count, len(second.selection)) == (20, 20)
    upstream.acknowledge(upto)
    db.run(
        "INSERT INTO orders VALUES (30, 'thirty', 'b'), (1000, 'x', NULL)", "ALTER TABLE orders ADD more int8"
    )
    db.run("DELETE FROM orders WHERE id = 1000")
    after, upto = upto, upstream.latest(upto, BatchLimit())
    found = [got for split in upstream.splits(after, upto) for got in upstream.read(split, wanted, [])]
    gave = [
        (value, int(diff))
        for i, chunk in found
        if i == 0
        for value, diff in zip(
            chunk.decoded.columns[0].to_pylist(), chunk.diffs[chunk.decoded.selection], strict=True
        )
    ]
    assert gave == [("thirty", 1), ("x", 1), ("x", -1)]


def test_drift_of_what_is_read_is_reported(db: Database) -> None:
    """A column that was dropped, renamed, or has another type: named, in the log and in a snapshot."""
    orders(db)
    follower = Follower(db.source())
    follower.drain()
    db.run("ALTER TABLE orders ADD more text", "INSERT INTO orders VALUES (100, 'x', 'y')")
    follower.drain()
    assert follower.contents("orders")[(100, "x")] == 1
    db.run("ALTER TABLE orders ALTER id TYPE int4", "INSERT INTO orders VALUES (101, 'x', 'y')")
    with pytest.raises(
        SourceError, match=r'public\.orders has changed.*column "id" has another type'
    ) as caught:
        follower.batch()
    assert not caught.value.again
    fresh = Follower(db.source())
    db.run("ALTER TABLE orders RENAME item TO thing")
    with pytest.raises(SourceError, match='column "item" was dropped or renamed'):
        fresh.batch()


# ---------------------------------------------------------------- tables of all kinds


def test_tables_by_name(db: Database) -> None:
    """FOR ALL TABLES, some of them, schemas, and names that need quotes."""
    orders(db, "CREATE SCHEMA shop", 'CREATE TABLE shop."Ord ""ers" (id int8, "a%s ""b" text)')
    db.run(
        'ALTER TABLE shop."Ord ""ers" REPLICA IDENTITY FULL', 'ALTER PUBLICATION p ADD TABLE shop."Ord ""ers"'
    )
    assert list(db.source().tables()) == ["orders", 'shop.Ord "ers']
    assert list(db.source(tables=("public.orders",)).tables()) == ["public.orders"]
    follower = Follower(db.source(tables=('Ord "ers', "orders")))
    db.run('INSERT INTO shop."Ord ""ers" VALUES (1, \'x\')')
    follower.drain()
    db.run('INSERT INTO shop."Ord ""ers" VALUES (2, NULL)')
    follower.drain()
    assert follower.contents('Ord "ers') == Counter([(1, "x"), (2, None)])
    with pytest.raises(BindError, match='publication "p" has no table "nope"'):
        db.source(tables=("nope",))


def test_partitions_conditions_and_generated_columns(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partitioned table as one; rows and columns that the publication leaves out; columns that are not published."""
    db.run(
        "CREATE TABLE m (id int8, kind text, hidden text, twice int8 GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY RANGE (id)",
        "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE m2 (hidden text, kind text, id int8 NOT NULL, twice int8 GENERATED ALWAYS AS (id * 2) STORED)",
        "ALTER TABLE m ATTACH PARTITION m2 FOR VALUES FROM (1000) TO (9000)",
        "CREATE PUBLICATION p FOR TABLE m (id, kind) WHERE (id % 2 = 0) WITH (publish_via_partition_root = true)",
        "INSERT INTO m SELECT i, 'k' || i, 'h' FROM generate_series(1, 3000) i",
    )
    for table in ("m", "m1"):
        db.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    with pytest.raises(BindError, match=r"old rows of public\.m are not in the log"):
        db.source()
    # A column list and updates go together only where it holds all of the identity: PostgreSQL refuses the rest itself.
    db.run("ALTER TABLE m2 REPLICA IDENTITY FULL", "ALTER PUBLICATION p SET TABLE m WHERE (id % 2 = 0)")
    monkeypatch.setattr(postgres_snapshot, "_PIECE_PAGES", 5)
    follower = Follower(db.source())
    assert [name for name, _ in follower.tables["m"].columns] == ["id", "kind", "hidden"]
    follower.drain()
    db.run("UPDATE m SET id = id + 1 WHERE id BETWEEN 990 AND 1010", "DELETE FROM m WHERE id > 2900")
    follower.drain()
    expected = Counter(db.rows("SELECT id, kind, hidden FROM m WHERE id % 2 = 0"))
    assert follower.contents("m") == expected
    db.run("ALTER PUBLICATION p SET TABLE m WHERE (id % 3 = 0)")
    with pytest.raises(SourceError, match="the publication chooses other rows"):
        follower.batch()


# ---------------------------------------------------------------- snapshots


def test_a_snapshot_is_consistent_and_in_pieces(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes after it was taken is not in it, and comes as changes; many pieces, each once."""
    orders(db, "INSERT INTO orders SELECT i, repeat('x', 100) FROM generate_series(100, 2000) i")
    monkeypatch.setattr(postgres_snapshot, "_PIECE_PAGES", 3)
    follower = Follower(db.source())
    start = follower.upstream.start()
    upto = follower.upstream.latest(start, BatchLimit())
    before = Counter(db.rows("SELECT * FROM orders"))
    db.run(
        "DELETE FROM orders WHERE id % 3 = 0",
        "UPDATE orders SET item = 'new'",
        "INSERT INTO orders VALUES (0, '')",
    )
    assert follower.upstream.latest(start, BatchLimit()) == upto  # the one that is held
    splits = follower.upstream.splits(start, upto)
    assert len(splits) > 5
    assert follower.batch(upto=upto)
    assert follower.contents("orders") == before
    follower.drain()
    same(db, follower)


def test_a_snapshot_that_died_is_taken_again(db: Database) -> None:
    """Before anything was committed; and between two tables, when the other must be brought to the place of the first."""
    orders(
        db,
        "CREATE TABLE items (id int8)",
        "ALTER TABLE items REPLICA IDENTITY FULL",
        "ALTER PUBLICATION p ADD TABLE items",
    )
    db.run("INSERT INTO items SELECT generate_series(1, 100)")
    follower = Follower(db.source())
    with pytest.raises(Killed):
        follower.batch(die="read")
    follower.reborn()
    db.run("DELETE FROM orders WHERE id = 1")
    with pytest.raises(Killed):
        follower.batch(die="between")
    follower.reborn()
    then = {table: Counter(db.rows(f"SELECT * FROM {table}")) for table in ("orders", "items")}
    db.run(
        "DELETE FROM items WHERE id < 50", "UPDATE items SET id = id + 1000", "UPDATE orders SET item = 'z'"
    )
    db.run("INSERT INTO items SELECT generate_series(1, 10)")
    assert not follower.even
    follower.batch()
    assert follower.even
    assert {table: follower.contents(table) for table in then} == then
    follower.drain()
    same(db, follower)
    same(db, follower, "items")


def test_a_snapshot_that_is_gone_while_tasks_read(db: Database) -> None:
    """They fail in a way that is tried again."""
    orders(db)
    upstream = db.source()
    start = upstream.start()
    upto = upstream.latest(start, BatchLimit())
    splits = upstream.splits(start, upto)
    upstream.close()
    table = dict(upstream.chosen)["orders"]
    wanted = [ReadRequest("orders", table.take(MapFilterProject.identity([INT8, TEXT]))[0])]
    with pytest.raises(SourceError, match="the snapshot is gone") as caught:
        list(upstream.read(splits[-1], wanted, []))
    assert caught.value.again


# ---------------------------------------------------------------- batches


def test_batches_end_with_transactions(db: Database) -> None:
    """A limit cuts between transactions, never inside of one; what is committed and not acknowledged is not read twice."""
    orders(db)
    follower = Follower(db.source())
    follower.drain()
    for i in range(6):
        db.run(f"INSERT INTO orders SELECT {100 * (i + 1)} + j, 'x' FROM generate_series(1, 10) j")
    sizes = []
    for die in ("", "committed", "committed", "", "", ""):
        before = follower.contents("orders").total()
        try:
            if not follower.batch(BatchLimit(rows=25), die=die):
                break
        except Killed:
            follower.reborn()
        sizes.append(follower.contents("orders").total() - before)
    assert sizes == [20, 20, 20]
    db.run(
        "INSERT INTO orders SELECT j, 'x' FROM generate_series(1000, 2000) j",
        "INSERT INTO orders VALUES (-1, '')",
    )
    assert follower.batch(BatchLimit(rows=1))
    assert follower.contents("orders").total() == 20 + 60 + 1001
    assert follower.batch(BatchLimit(bytes=1))
    same(db, follower)


def test_transactions_that_come_in_many_blocks(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction, and what was said of its tables, go on from block to block; so does a snapshot."""
    monkeypatch.setattr(postgres_connect, "_BLOCK_BYTES", 150)
    orders(db, "CREATE TABLE items (id int8)", "ALTER TABLE items REPLICA IDENTITY FULL")
    db.run("ALTER PUBLICATION p ADD TABLE items")
    follower = Follower(db.source())
    follower.drain()
    with psycopg.connect(db.url) as c:
        for i in range(30):
            c.execute(f"INSERT INTO items VALUES ({i})")
            c.execute(f"UPDATE orders SET item = item || '{i}' WHERE id < {i}")
            if i == 15:
                c.execute("ALTER TABLE orders ADD more int8")
            c.execute(f"DELETE FROM orders WHERE id = {i // 2}")
    db.run("INSERT INTO items VALUES (100)")
    assert follower.batch()
    assert not follower.batch()
    same(db, follower, "items")
    assert follower.contents("orders") == Counter(db.rows("SELECT id, item FROM orders"))


def test_log_of_others_moves_the_position(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server must keep its log for a slot: it is let go where there is nothing for us in it."""
    orders(db, "CREATE TABLE other (x text)")
    follower = Follower(db.source())
    follower.drain()
    at = follower.position["lsn"]
    db.run("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 300)")
    assert not follower.batch()
    monkeypatch.setattr(postgres, "_IDLE_BYTES", 100_000)
    assert follower.batch()
    assert follower.position["lsn"] > at + 100_000
    assert (
        int(
            db.rows(
                "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE database = current_database()"
            )[0][0]
        )
        > at
    )
    assert follower.upstream.lag(follower.position).bytes is not None
    db.run("INSERT INTO orders VALUES (77, 'x')")
    follower.drain()
    same(db, follower)


def test_a_slot_in_use_is_waited_for(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session at a time may read from a slot: others wait, and then say so."""
    orders(db)
    follower = Follower(db.source())
    follower.drain()
    db.run("INSERT INTO orders VALUES (77, 'x')")
    slot = follower.upstream.slot

    def occupied() -> psycopg.Connection:
        other = open_connection(db.connection, replication=True)
        other.pgconn.send_query(
            f"START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', publication_names 'p')".encode()
        )
        while not db.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"):
            time.sleep(0.01)
        return other

    other = occupied()
    threading.Timer(0.3, other.close).start()
    follower.drain()
    same(db, follower)
    db.run("INSERT INTO orders VALUES (78, 'x')")
    for room in (postgres_connect, postgres_read):
        monkeypatch.setattr(room, "BUSY_SECONDS", 0.2)
    other = occupied()
    with pytest.raises(SourceError, match="is active for PID") as caught:
        follower.batch()
    assert caught.value.again
    other.close()
