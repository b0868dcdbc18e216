"""The open database that statements work on: its catalog, its shards, its settings.

    lake.collection("orders")  the Shard behind a name; an error if there is none, as of a view
    lake.table("orders")       the same of a table, to write to: what a source fills is refused
    lake.relation("orders")    what binding wants to know of the name (`sql/catalog.py`)

A shard is opened when it is first asked for, and kept: later it reads only what is new in its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from difflib import get_close_matches
from typing import Any, Protocol

from tidegate import fork
from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.errors import BindError, Position, TidegateError
from tidegate.metrics import Metrics
from tidegate.plan.mfp import MapFilterProject
from tidegate.scan.result import Result
from tidegate.scan.turns import Turns
from tidegate.scan.watch import Watch
from tidegate.session.arguments import text
from tidegate.session.prepared import Prepared
from tidegate.session.reach import ANYWHERE, Reach
from tidegate.session.settings import DatabaseSettings, SessionSettings
from tidegate.shard.catalog import Item, Subsource, Table, View, kind_of, shard_of, view_of
from tidegate.shard.heart import beat
from tidegate.shard.known import Known
from tidegate.shard.lease import step_back
from tidegate.shard.machine import Machine
from tidegate.shard.root import Root
from tidegate.shard.schema import Schema
from tidegate.shard.statistics import describing
from tidegate.shard.validity import Validity, hidden, shown
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


class Running(Protocol):
    """A source that is being ingested (`ingest.py`)."""

    def progress(self) -> Any:
        """How it is doing."""
        ...

    def stop(self) -> None:
        """Ends it."""
        ...


class Lake:
    """One open database. Threads may share it."""

    def __init__(self, root: Root, clock: Clock, config: Config) -> None:
        self.root, self.clock = root, clock
        self.settings = DatabaseSettings(config)
        """What counts for everybody; open shards follow it alone."""
        self.own: SessionSettings | None = None
        """The settings of a session or a query on top of them; None: of the database itself."""
        self.catalog = root.catalog
        self.reach = ANYWHERE
        """What statements may reach outside of it."""
        self.metrics = Metrics()
        self.metrics.other(
            "statistics_unreadable", "Statistics that could not be read.", "why", lambda: unreadable
        )
        self.metrics.other(
            "statistics_trimmed", "Parts and bytes trimmed to stats_budget.", "what", lambda: trimmed
        )
        self.spark: Beyond | None = None
        """Runs what is more than rows and groups of one collection; whoever opens the database sets it."""
        self.ingesting: dict[str, Running] = {}
        """Sources that this open database ingests, or has ingested, by name."""
        self.prepared = Prepared()
        self.turns = Turns()
        self.metrics.gauge("peeks_running", "Fast-path reads that run now.", lambda: self.turns.running)
        self.metrics.gauge(
            "peeks_waiting", "Fast-path reads that wait for their turn.", lambda: self.turns.waiting
        )
        self._shards: dict[str, Shard] = {}
        self._lock = fork.lock()

    @property
    def config(self) -> Config:
        """The settings that statements follow."""
        return self.settings.config if self.own is None else self.own.config

    def shard(self, name: str) -> Shard:
        """A shard by its own name, which users never see."""
        with self._lock:
            if name not in self._shards:
                self._shards[name] = beat(self.open(self.catalog.shard_machine(name)))
            return self._shards[name]

    def open(self, machine: Machine) -> Shard:
        """The shard of a machine, with the settings of the database: others work with it too, whoever asks first."""
        config = self.settings.config
        return Shard(machine, config, describing(machine, config), self.metrics)

    def table(self, name: str, position: Position | None = None) -> Shard:
        """The shard of a table: of what rows can be written to."""
        match self.item(name, position):
            case Table(shard):
                return self.shard(shard)
            case View():
                message, hint = f'"{name}" is a view, not a table', "a view can only be read"
            case Subsource(_, source):
                message, hint = f'"{name}" is filled by the source "{source}"', "it can only be read"
            case item:
                message, hint = f'"{name}" is a {kind_of(item)}, not a table', "it can only be read"
        raise BindError(message, hint=hint, position=position)

    def collection(self, name: str, position: Position | None = None) -> Shard:
        """The shard of what has rows of its own, whoever writes them."""
        item = self.item(name, position)
        shard = shard_of(item)
        if shard is None:
            raise BindError(
                f'"{name}" is a {kind_of(item)}, and has no rows of its own',
                hint=self._instead(name, item),
                position=position,
            )
        return self.shard(shard)

    def _instead(self, name: str, item: Item) -> str | None:
        """What has the rows instead."""
        of = [
            key for key, it in self.catalog.items().items() if isinstance(it, Subsource) and it.source == name
        ]
        return (
            f"they are in {', '.join(of)}"
            if of
            else "a view can only be read"
            if isinstance(item, View)
            else None
        )

    def item(self, name: str, position: Position | None = None) -> Item:
        """What a name means; an error if it means nothing."""
        found = self.catalog.find(text(name, "the name of a collection"))
        self.root.check_location()  # it may have been moved away from here since it was opened
        if found is None:
            close = get_close_matches(name, list(self.catalog.items()), n=2) if len(name) < 200 else []
            hint = f"did you mean {' or '.join(close)}?" if close else "SHOW TABLES lists what is there"
            raise BindError(f'there is no table or view "{name}"', hint=hint, position=position)
        return found

    def set(self, name: str, value: object) -> None:
        """Changes a setting: of this session alone, or of the database and so for everybody. None: back to its default."""
        if self.own is not None:
            self.own.set(name, value)
            return
        with self._lock:
            self.settings.set(name, value)
            config = self.settings.config
            for shard in self._shards.values():
                shard.config, shard.describe = config, describing(shard.machine, config)
                beat(shard)

    def close(self) -> None:
        """Ends ingestions, and lets go of leases that no reader is under; what cannot be written now runs out by itself."""
        for running in list(self.ingesting.values()):
            running.stop()
        with self._lock:
            for shard in self._shards.values():
                with suppress(TidegateError):
                    step_back(shard)
            self._shards.clear()

    def session(self, reach: Reach) -> Lake:
        """The same open database for one client: with settings of its own, which its statements follow, and its own reach."""
        other = copy(self)
        other.own = SessionSettings(self.settings) if self.own is None else self.own.copy()
        other.reach = reach
        return other

    def with_setting(self, name: str, value: object) -> Lake:
        """The same open database for one query that wants a setting of its own."""
        other = copy(self)
        if self.own is None:
            other.own = SessionSettings(self.settings, limited=False)
        else:
            other.own = self.own.copy()
        other.own.set(name, value)
        return other

    def relation(self, name: str) -> names.Entry | None:
        """What binding wants to know of a name."""
        return Seen(self).relation(name)


class Seen:
    """The catalog as one statement saw it, which it keeps: whose columns, in which version of the schema."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.tables: dict[str, tuple[Shard, Schema]] = {}
        self.entries: dict[str, names.Entry | None] = {}

    def relation(self, name: str) -> names.Entry | None:
        """The collection or view of that name."""
        found = self.entries[name] = self._relation(name)
        return found

    def views(self) -> list[str]:
        """The texts of the views among them."""
        return [entry.sql for entry in self.entries.values() if isinstance(entry, names.View)]

    def _relation(self, name: str) -> names.Entry | None:
        item = self.lake.catalog.find(name)
        view = None if item is None else view_of(item)
        if view is not None:
            return names.View(view.sql, view.columns)
        kept = None if item is None else shard_of(item)
        if kept is None:
            return None
        shard = self.lake.shard(kept)
        state = shard.machine.fetch()
        schema = schema_of(state)
        self.tables[name] = shard, schema
        return _bindable(name, schema, state.options)


def _bindable(name: str, schema: Schema, options: Mapping[str, Any]) -> names.Relation:
    """`relation_of`, made once. Schema and options are known by their numbers, and kept, so that these stay theirs."""
    kept: tuple[names.Relation, Schema, Any] = _relations.get(
        (name, id(schema), id(options)), lambda: (relation_of(name, schema, options), schema, options)
    )
    return kept[0]


_relations = Known(256)
"""What binding sees of a collection, by the very schema and options that it was made of."""


def relation_of(name: str, schema: Schema, options: Mapping[str, Any]) -> names.Relation:
    """A schema as binding sees it: without the columns that the shard's options hide, and of the rows that are valid."""
    visible = tuple((column.name, column.type) for column in shown(schema, options))
    return names.Relation(name, visible, reading_of(schema, options))


def reading_of(schema: Schema, options: Mapping[str, Any]) -> MapFilterProject | None:
    """The plan from all columns of a shard to those that are seen; None: it has no others."""
    out, validity = hidden(options), Validity.of(options)
    if not out:
        return None
    plan = MapFilterProject.identity([column.type for column in schema.columns])
    if validity is not None:
        plan = plan.filter(*validity.conditions(schema))
    return plan.project([i for i, column in enumerate(schema.columns) if column.id not in out])


def at(sql: str, ident: Ident) -> Position:
    """Where a name stands."""
    return Position(sql, *ident.at)
