"""A PostgreSQL to follow, and a follower: it ingests as the pipeline does, into memory, and can die anywhere.

with database() as db:                      a fresh database; `db.run(sql)`, `db.rows("SELECT …")`
    upstream = db.source("p")               what CREATE SOURCE makes
    follower = Follower(upstream)
    follower.batch(Limit(rows=50))          one batch: splits are checked to tile, read (as JSON and pickle), committed
    follower.contents("orders")             the multiset of rows, as PostgreSQL's driver would give them
"""

from __future__ import annotations

import json
import pickle
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests import servers
from tidegate.expr.model.types import Kind
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.protocol import BatchLimit, InputSplit, ReadRequest, UpstreamPosition
from tidegate.ingest.upstreams.postgres.table import PostgresTable
from tidegate.ingest.upstreams.postgres.upstream import PostgresUpstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import SafePlan


@dataclass
class Database:
    """One database of the server."""

    name: str
    url: str
    connection: ExternalConnection
    upstreams: list[PostgresUpstream] = field(default_factory=list)

    def run(self, *statements: str) -> None:
        """Runs statements, each by itself."""
        with psycopg.connect(self.url, autocommit=True) as c:
            for statement in statements:
                c.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What PostgreSQL says."""
        with psycopg.connect(self.url, autocommit=True) as c:
            c.execute("SET timezone = 'UTC'")
            return c.execute(query).fetchall()

    def source(
        self, publication: str = "p", tables: tuple[str, ...] | None = None, **more: Any
    ) -> PostgresUpstream:
        """What CREATE SOURCE makes, out of the catalog again."""
        slot = f"tidegate_{uuid.uuid4().hex[:12]}"
        options = {"publication": publication, "slot": slot}
        made = create_upstream(
            "postgres",
            UpstreamSpec("s", options, connection=self.connection, tables=tables, with_options=more),
        )
        upstream = PostgresUpstream.from_json(json.loads(json.dumps(made.to_json())), self.connection)
        self.upstreams.append(upstream)
        return upstream


@contextmanager
def database() -> Iterator[Database]:
    """A fresh database of the server, dropped with its slots."""
    try:
        server = servers.logical_postgres()
    except servers.Missing as missing:
        pytest.skip(f"not here: {missing}")
    name = f"t{uuid.uuid4().hex[:12]}"
    folder = parse_qs(urlsplit(server).query)["host"][0]
    connection = ExternalConnection("pg", "postgres", {"host": folder, "database": name, "user": "tidegate"})
    made = Database(name, server.replace("/postgres?", f"/{name}?"), connection)
    with psycopg.connect(server, autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
    yield made
    for upstream in made.upstreams:
        upstream.close()
    with psycopg.connect(server, autocommit=True) as c:
        _dropped(c, name)


def _dropped(c: psycopg.Connection, name: str) -> None:
    """Drops a database with its slots; sessions that are told to end take a moment."""
    c.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
    end = time.monotonic() + 20
    while True:
        try:
            c.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                (name,),
            )
            c.execute(f"DROP DATABASE {name} WITH (FORCE)")
        except (psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject):
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            return


def orders(db: Database, *more: str) -> None:
    """A table with some rows, published."""
    db.run(
        "CREATE TABLE orders (id int8 PRIMARY KEY, item text)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT i, 'item ' || i FROM generate_series(1, 20) i",
        "CREATE PUBLICATION p FOR TABLE orders",
        *more,
    )


def same(db: Database, follower: Follower, table: str = "orders") -> None:
    """The collection is the table."""
    assert follower.contents(table) == Counter(db.rows(f"SELECT * FROM {table}"))


def as_driver(table: PostgresTable, values: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Rows as psycopg gives them."""
    kinds = [type_.kind for _, type_ in table.columns]
    for row in zip(*values, strict=True):
        yield tuple(_value(kind, value) for kind, value in zip(kinds, row, strict=True))


def _value(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case Kind.UUID:
            return uuid.UUID(bytes=value)
        case Kind.JSONB:
            return json.dumps(json.loads(value), sort_keys=True)
        case Kind.ARRAY:
            return tuple(value)
        case _:
            return value


@dataclass
class Output:
    """What a collection holds, and how far it has come."""

    position: UpstreamPosition
    rows: Counter[tuple[Any, ...]] = field(default_factory=Counter)


class Killed(Exception):  # noqa: N818  # it is what happened
    """The process died here."""


class Follower:
    """Ingests every table of a source."""

    def __init__(self, upstream: PostgresUpstream) -> None:
        self.upstream = upstream
        self.tables = {
            name: table for name, table in upstream.tables().items() if isinstance(table, PostgresTable)
        }
        self.outputs = {name: Output(upstream.start()) for name in self.tables}
        self.failures: list[tuple[bytes, UpstreamPosition, str]] = []

    def contents(self, table: str) -> Counter[tuple[Any, ...]]:
        """The rows of a table, and how often each is there."""
        return self.outputs[table].rows

    @property
    def position(self) -> UpstreamPosition:
        """The least of all."""
        return min((output.position for output in self.outputs.values()), key=lambda p: int(p["lsn"]))

    @property
    def even(self) -> bool:
        """Whether all have come equally far."""
        return len({output.position["lsn"] for output in self.outputs.values()}) == 1

    def batch(
        self, limit: BatchLimit | None = None, upto: UpstreamPosition | None = None, die: str = ""
    ) -> bool:
        """One batch; whether there was any. `die` says where: `read`, `between` the commits, `committed`."""
        after = self.position
        if not self.even:
            upto = max((o.position for o in self.outputs.values()), key=lambda p: int(p["lsn"]))
        if upto is None:
            upto = self.upstream.latest(after, limit or BatchLimit())
        if upto == after:
            return False
        behind = [name for name, output in self.outputs.items() if output.position == after]
        changed = self.read(after, upto, behind)
        if die == "read":
            raise Killed
        for number, name in enumerate(behind):
            if die == "between" and number == 1:
                raise Killed
            self._commit(name, changed[name], upto)
        if die == "committed":
            raise Killed
        self.upstream.acknowledge(self.position)
        return True

    def drain(self, limit: BatchLimit | None = None) -> None:
        """All there is."""
        while self.batch(limit):
            pass

    def reborn(self) -> None:
        """A new process: nothing is left of the old one but what was committed."""
        self.upstream.close()
        kept = json.loads(json.dumps(self.upstream.to_json()))
        self.upstream = PostgresUpstream.from_json(kept, self.upstream.connection)

    def read(
        self, after: UpstreamPosition, upto: UpstreamPosition, names: list[str]
    ) -> Mapping[str, Counter[Any]]:
        """What happened to tables between two positions."""
        changed: dict[str, Counter[Any]] = {name: Counter() for name in names}
        splits = self.upstream.splits(after, upto)
        check_tiles(splits, after, upto)
        for split in splits:
            sent = InputSplit(**json.loads(json.dumps(split.__dict__)))
            self._read(pickle.loads(pickle.dumps(self.upstream)), sent, changed)
        return changed

    def _read(
        self, upstream: PostgresUpstream, split: InputSplit, changed: Mapping[str, Counter[Any]]
    ) -> None:
        plans = []
        for name in changed:
            types = [type_ for _, type_ in self.tables[name].columns]
            plans.append((name, *self.tables[name].take(MapFilterProject.identity(types))))
        wanted = [ReadRequest(name, decode) for name, decode, _ in plans]
        for number, chunk in upstream.read(split, wanted, []):
            name, _, left = plans[number]
            made = SafePlan(left).evaluate(chunk.rows(), len(chunk.decoded.selection))
            records = chunk.decoded.selection[made.selection]
            diffs = [1] * len(records) if chunk.diffs is None else chunk.diffs[records].tolist()
            rows = as_driver(self.tables[name], [column.to_pylist() for column in made.columns])
            for row, diff in zip(rows, diffs, strict=True):
                changed[name][row] += diff
            for record, message in chunk.decoded.failures:
                self.failures.append((chunk.decoded.raw(record), chunk.position(record), message))

    def _commit(self, name: str, changed: Counter[Any], upto: UpstreamPosition) -> None:
        output = self.outputs[name]
        for row, diff in changed.items():
            output.rows[row] += diff
        output.rows = Counter({row: count for row, count in output.rows.items() if count})
        assert all(count > 0 for count in output.rows.values()), "nothing is taken back that was not there"
        output.position = upto


def check_tiles(splits: list[InputSplit], after: UpstreamPosition, upto: UpstreamPosition) -> None:
    """Splits cover what is between two positions, each key without gaps or overlaps."""
    at = dict(after)
    for split in splits:
        assert split.start == at[split.key], split
        at[split.key] = split.end
    assert at == upto
