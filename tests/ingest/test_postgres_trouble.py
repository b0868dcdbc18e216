"""What cannot be followed of PostgreSQL, what CREATE SOURCE refuses, and what is said when something is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests import servers
from tests.ingest.postgres_lab import Database, Follower, Killed, database, orders, same
from tidegate.errors import BindError, SourceError
from tidegate.expr.model.types import INT8, TEXT, TIMESTAMPTZ
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.protocol import BatchLimit, IncludedColumn, ReadRequest
from tidegate.ingest.upstreams.postgres.upstream import PostgresUpstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream
from tidegate.plan.mfp import MapFilterProject


@pytest.fixture
def db() -> Iterator[Database]:
    with database() as made:
        yield made


ITEMS = (
    "CREATE TABLE items (id int8)",
    "ALTER TABLE items REPLICA IDENTITY FULL",
    "ALTER PUBLICATION p ADD TABLE items",
)


def test_truncate_is_reported(db: Database) -> None:
    """Its rows are not in the log; others go on."""
    orders(
        db,
        "CREATE TABLE items (id int8)",
        "ALTER TABLE items REPLICA IDENTITY FULL",
        "ALTER PUBLICATION p ADD TABLE items",
    )
    both, one = Follower(db.source()), Follower(db.source(tables=("items",)))
    both.drain(), one.drain()
    db.run("TRUNCATE orders", "INSERT INTO items VALUES (1)")
    with pytest.raises(
        SourceError, match=r"a TRUNCATE of public\.orders was committed at .*are not in the log"
    ) as caught:
        both.batch()
    assert not caught.value.again
    assert "DELETE FROM instead" in str(caught.value)
    one.drain()
    same(db, one, "items")


def test_append_only(db: Database) -> None:
    """Needs no old rows: TRUNCATE leaves what was added, UPDATE is an error; OFFSET and TIMESTAMP can be had."""
    orders(db, "ALTER TABLE orders REPLICA IDENTITY DEFAULT")
    with pytest.raises(BindError, match="REPLICA IDENTITY FULL"):
        db.source()
    upstream = db.source(append="only")
    assert upstream.append_only
    follower = Follower(upstream)
    follower.drain()
    db.run("TRUNCATE orders", "INSERT INTO orders VALUES (100, 'x')")
    table = dict(upstream.chosen)["orders"]
    asked = [IncludedColumn("offset", "o"), IncludedColumn("timestamp", "t")]
    assert [upstream.includes(one) for one in asked] == [INT8, TIMESTAMPTZ]
    after = follower.position
    upto = upstream.latest(after, BatchLimit())
    wanted = [ReadRequest("orders", table.take(MapFilterProject.identity([INT8, TEXT]))[0])]
    ((_, chunk),) = upstream.read(upstream.splits(after, upto)[0], wanted, asked)
    (offset,), (at,) = (column.to_pylist() for column in chunk.included)
    assert after["lsn"] < offset < upto["lsn"]
    assert abs(at.timestamp() - time.time()) < 600
    follower.drain()
    assert follower.contents("orders").total() == 21
    db.run("UPDATE orders SET item = 'y'")
    with pytest.raises(SourceError, match=r"an UPDATE of public\.orders was committed at .* APPEND ONLY"):
        follower.batch()
    with pytest.raises(BindError, match="PostgreSQL has no HEADERS"):
        upstream.includes(IncludedColumn("headers", "h"))


def test_inclusions_of_rows_that_change(db: Database) -> None:
    """A row and its end would differ."""
    orders(db)
    with pytest.raises(BindError, match="INCLUDE OFFSET of tables whose rows change"):
        db.source().includes(IncludedColumn("offset", "o"))


def test_what_create_source_refuses(db: Database) -> None:
    """Each with what to do."""
    orders(
        db,
        "CREATE PUBLICATION inserts FOR TABLE orders WITH (publish = 'insert')",
        "CREATE PUBLICATION nothing",
    )
    for publication, message in (
        ("nope", 'publication "nope" does not exist'),
        ("inserts", "does not publish update and delete and truncate"),
        ("nothing", 'publication "nothing" has no tables'),
    ):
        with pytest.raises(BindError, match=message):
            db.source(publication)
    assert db.source("inserts", append="only")


def create(connection: ExternalConnection, options: dict[str, Any] | None = None, **more: Any) -> None:
    """A source of a publication, with other options if given."""
    given = {"publication": "p"} if options is None else options
    create_upstream("postgres", UpstreamSpec("s", given, connection=connection, **more))


def test_options_that_create_source_refuses(db: Database) -> None:
    """Each with its name."""
    for options, more, message in (
        ({}, {}, "needs PUBLICATION"),
        ({"publication": "p", "topic": "x"}, {}, "no option TOPIC"),
        ({"publication": "p", "slot": "A b"}, {}, "SLOT is lower-case letters"),
        ({"publication": "p"}, {"settle ms": 5}, "no option SETTLE MS"),
    ):
        with pytest.raises(BindError, match=message):
            create(db.connection, options, with_options=more)
    for given, message in (
        ({"host": "h"}, "a connection TO POSTGRES needs DATABASE"),
        ({"hots": "h"}, "no option HOTS"),
    ):
        with pytest.raises(BindError, match=message):
            create(ExternalConnection("c", "postgres", given))
    plain = ExternalConnection(
        "c", "postgres", {**db.connection.options, "host": servers.postgres().partition("host=")[2]}
    )
    with pytest.raises(BindError, match="wal_level = replica"):
        create(ExternalConnection("c", "postgres", {**plain.options, "database": "postgres"}))


def test_servers_that_do_not_answer_and_those_that_refuse(db: Database) -> None:
    """The first may answer later; at the second somebody must do something."""
    for options, again, message in (
        ({"host": "/nowhere"}, True, "PostgreSQL at /nowhere"),
        ({"host": "127.0.0.1", "port": 1}, True, "127.0.0.1:1"),
        ({"database": "nope"}, False, 'database "nope" does not exist'),
        ({"user": "nobody_"}, False, 'role "nobody_" does not exist'),
    ):
        connection = ExternalConnection("c", "postgres", {**db.connection.options, **options})
        with pytest.raises(SourceError, match=message) as caught:
            create_upstream("postgres", UpstreamSpec("s", {"publication": "p"}, connection=connection))
        assert caught.value.again is again


def gone(upstream: PostgresUpstream, position: dict[str, Any], message: str) -> None:
    """There is no way on, and it says what to do."""
    with pytest.raises(SourceError, match=message) as caught:
        upstream.latest(position, BatchLimit())
    assert not caught.value.again
    assert caught.value.hint


def test_what_is_gone_of_a_table_is_said(db: Database) -> None:
    """What was acknowledged, the server's own past, a table that is left out, or is another one."""
    orders(db, *ITEMS)
    follower = Follower(db.source())
    follower.drain()
    old = follower.position
    db.run("INSERT INTO orders VALUES (50, 'x')")
    follower.drain()
    upstream, at = follower.upstream, follower.position
    gone(upstream, old, "were ingested and acknowledged once, and are gone")
    gone(upstream, {**at, "lsn": 1 << 60}, "was ingested already: it is another server")
    db.run("ALTER PUBLICATION p DROP TABLE items")
    gone(upstream, at, r"the table public\.items is not published any more")
    db.run("DROP TABLE items", *ITEMS)
    gone(upstream, at, r"the table public\.items is not published any more")


def test_what_is_gone_of_the_server_is_said(db: Database) -> None:
    """The identity of a table, the publication, the slot."""
    orders(db)
    follower = Follower(db.source())
    follower.drain()
    upstream, at = follower.upstream, follower.position
    db.run("ALTER TABLE orders REPLICA IDENTITY NOTHING")
    gone(upstream, at, "has no REPLICA IDENTITY FULL any more")
    db.run("ALTER TABLE orders REPLICA IDENTITY FULL", "DROP PUBLICATION p")
    gone(upstream, at, 'publication "p" does not exist any more')
    db.run("CREATE PUBLICATION p FOR TABLE orders")
    away = ExternalConnection("c", "postgres", {**db.connection.options, "host": "/nowhere"})
    with pytest.raises(SourceError, match=f'the replication slot "{upstream.slot}" could not be dropped'):
        replace(upstream, connection=away).drop()
    upstream.drop()
    upstream.drop()
    gone(upstream, at, f'the replication slot "{upstream.slot}" was dropped')


def test_a_server_that_crashes(db: Database) -> None:
    """While a snapshot is held: it is taken again. After a commit that was not acknowledged: nothing comes twice."""
    orders(db)
    follower = Follower(db.source())
    upstream = follower.upstream
    start = upstream.start()
    upto = upstream.latest(start, BatchLimit())
    splits = upstream.splits(start, upto)
    servers.crash_postgres(servers.logical_postgres())
    decode, _ = dict(upstream.chosen)["orders"].take(MapFilterProject.identity([INT8, TEXT]))
    with pytest.raises(SourceError, match="the snapshot is gone") as caught:
        list(upstream.read(splits[-1], [ReadRequest("orders", decode)], []))
    assert caught.value.again
    assert upstream.latest(start, BatchLimit()) != upto
    follower.drain()
    same(db, follower)
    db.run("INSERT INTO orders VALUES (100, 'x')", "DELETE FROM orders WHERE id = 1")
    with pytest.raises(Killed):
        follower.batch(die="committed")
    servers.crash_postgres(servers.logical_postgres())
    db.run("INSERT INTO orders VALUES (101, 'x')", "DELETE FROM orders WHERE id = 100")
    follower.reborn()
    follower.drain(BatchLimit(rows=1))
    same(db, follower)
