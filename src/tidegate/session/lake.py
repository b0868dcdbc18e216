"""The open database that statements work on: its catalog, its shards, its settings.

    lake.table("orders")       the Shard behind a name; an error if there is none, or it is a view
    lake.relation("orders")    what binding wants to know of the name (`sql/catalog.py`)

A shard is opened when it is first asked for, and kept: later it reads only what is new in its log.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from copy import copy
from difflib import get_close_matches
from typing import Protocol

from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.errors import BindError, Position, TidegateError
from tidegate.metrics import Metrics
from tidegate.scan.result import Result
from tidegate.scan.turns import Turns
from tidegate.scan.watch import Watch
from tidegate.session.settings import changed
from tidegate.shard.catalog import Item, Table, View
from tidegate.shard.heart import beat
from tidegate.shard.lease import step_back
from tidegate.shard.machine import Machine
from tidegate.shard.root import Root
from tidegate.shard.schema import Schema
from tidegate.shard.statistics import describing
from tidegate.shard.writer import Shard, schema_of
from tidegate.sql import catalog as names
from tidegate.sql import syntax
from tidegate.sql.syntax import Ident
from tidegate.stats.codec import unreadable
from tidegate.stats.trim import trimmed


class Beyond(Protocol):
    """Whoever runs queries of any shape."""

    def select(self, lake: Lake, parsed: syntax.Query, as_of: int | None, watch: Watch) -> Result:
        """Runs a query."""
        ...

    def explain(self, lake: Lake, parsed: syntax.Query, as_of: int | None, *, analyze: bool) -> Result:
        """What it would do, and with `analyze` what it did."""
        ...


class Lake:
    """One open database. Threads may share it."""

    def __init__(self, root: Root, clock: Clock, config: Config) -> None:
        self.root, self.clock, self.config = root, clock, config
        self.catalog = root.catalog
        self.metrics = Metrics()
        self.metrics.other(
            "statistics_unreadable", "Statistics that could not be read.", "why", lambda: unreadable
        )
        self.metrics.other(
            "statistics_trimmed", "Parts and bytes trimmed to stats_budget.", "what", lambda: trimmed
        )
        self.spark: Beyond | None = None
        """Runs what is more than rows and groups of one collection; whoever opens the database sets it."""
        self.turns = Turns()
        self.metrics.gauge("peeks_running", "Fast-path reads that run now.", lambda: self.turns.running)
        self.metrics.gauge(
            "peeks_waiting", "Fast-path reads that wait for their turn.", lambda: self.turns.waiting
        )
        self._shards: dict[str, Shard] = {}
        self._lock = threading.Lock()

    def shard(self, name: str) -> Shard:
        """A shard by its own name, which users never see."""
        with self._lock:
            if name not in self._shards:
                self._shards[name] = beat(self.open(self.catalog.shard_machine(name)))
            return self._shards[name]

    def open(self, machine: Machine) -> Shard:
        """The shard of a machine, with this database's settings."""
        return Shard(machine, self.config, describing(machine, self.config), self.metrics)

    def table(self, name: str, position: Position | None = None) -> Shard:
        """The shard of a table."""
        item = self.item(name, position)
        if isinstance(item, View):
            raise BindError(
                f'"{name}" is a view, not a table', hint="a view can only be read", position=position
            )
        return self.shard(item.shard)

    def item(self, name: str, position: Position | None = None) -> Item:
        """What a name means; an error if it means nothing."""
        found = self.catalog.find(name)
        if found is None:
            close = get_close_matches(name, list(self.catalog.items()), n=2) if len(name) < 200 else []
            hint = f"did you mean {' or '.join(close)}?" if close else "SHOW TABLES lists what is there"
            raise BindError(f'there is no table or view "{name}"', hint=hint, position=position)
        return found

    def set(self, name: str, value: object) -> None:
        """Changes a setting of this open database; None: back to its default."""
        self.config = changed(self.config, name, value)
        with self._lock:
            for shard in self._shards.values():
                shard.config = self.config
                shard.describe = describing(shard.machine, self.config)

    def close(self) -> None:
        """Lets go of leases that no reader is under; what cannot be written now runs out by itself."""
        with self._lock:
            for shard in self._shards.values():
                with suppress(TidegateError):
                    step_back(shard)
            self._shards.clear()

    def with_setting(self, name: str, value: object) -> Lake:
        """The same open database for one query that wants a setting of its own."""
        other = copy(self)
        other.config = changed(self.config, name, value)
        return other

    def relation(self, name: str) -> names.Entry | None:
        """What binding wants to know of a name."""
        return Seen(self).relation(name)


class Seen:
    """The catalog as one statement saw it, which it keeps: whose columns, in which version of the schema."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.tables: dict[str, tuple[Shard, Schema]] = {}
        self.names: set[str] = set()

    def relation(self, name: str) -> names.Entry | None:
        """The collection or view of that name."""
        self.names.add(name)
        item = self.lake.catalog.find(name)
        if isinstance(item, View):
            return names.View(item.sql, item.columns)
        if not isinstance(item, Table):
            return None
        shard = self.lake.shard(item.shard)
        schema = schema_of(shard.machine.fetch())
        self.tables[name] = shard, schema
        return relation_of(name, schema)


def relation_of(name: str, schema: Schema) -> names.Relation:
    """A schema as binding sees it."""
    return names.Relation(name, tuple((column.name, column.type) for column in schema.columns))


def at(sql: str, ident: Ident) -> Position:
    """Where a name stands."""
    return Position(sql, *ident.at)
