"""What a statement runs in: one frozen value with the open database, its settings and its services.

    context.collection("orders")                  the Shard behind a name; an error if there is none, or if it is a view
    context.table("orders")                       the same for a table that rows can be written to
    CatalogSnapshot(context).relation("orders")   what binding needs to know of a name (`sql/bind/catalog.py`)
    context.with_setting("stats_filter", "off")   another context, for one query

A context is passed down and never changed: `config` stays the same as long as a statement runs, whatever others set meanwhile.
What is shared by everybody stands in fields of their own (`shards`, `prepared`, `peek_slots`, `ingestions`, `metrics`), and none
of these holds the settings of a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Protocol

from tidegate import fork
from tidegate.access import ANYWHERE, Reach
from tidegate.boundary import text
from tidegate.cache import LruCache
from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.errors import BindError, ErrorCode, Position, TidegateError
from tidegate.logs import new_id
from tidegate.metrics import Metrics
from tidegate.plan import MapFilterProject
from tidegate.query import CancelToken, PeekSlots, Result
from tidegate.query.relational import PinnedQuery
from tidegate.settings import DatabaseSettings, SessionSettings
from tidegate.sql import PreparedStatements
from tidegate.sql.bind import CatalogEntry, Relation, ViewRelation
from tidegate.sql.parse import syntax, table_statement
from tidegate.storage.catalog import (
    Catalog,
    CatalogItem,
    Root,
    SubsourceItem,
    TableItem,
    ViewItem,
    kind_of,
    shard_of,
    view_of,
)
from tidegate.storage.part import Schema
from tidegate.storage.shard import (
    LeaseKeeper,
    Machine,
    Shard,
    release_shared_lease,
    validity,
    visible_columns,
)
from tidegate.storage.stats import StatsCounters

MAX_CACHED_RELATIONS = 256


class GeneralEngine(Protocol):
    """Runs queries of any shape: joins, windows, subqueries, set operations."""

    def select(self, context: Context, pinned: PinnedQuery, watch: CancelToken) -> Result:
        """Runs a query."""
        ...

    def plan(self, context: Context, pinned: PinnedQuery, watch: CancelToken) -> str:
        """The plan by which the engine would run a query, as text; this may start it."""
        ...


class RunningIngestion(Protocol):
    """A source that is being ingested (`ingest/runtime`)."""

    def progress(self) -> Any:
        """How far it is."""
        ...

    def stop(self) -> None:
        """Ends it."""
        ...


class OpenShards:
    """The open shards of this process, by name. Each is opened at first use.

    They follow the settings of the database alone, never those of the client that happens to use a shard first.
    """

    def __init__(self, catalog: Catalog, settings: DatabaseSettings, metrics: Metrics) -> None:
        self._catalog, self._settings, self._metrics = catalog, settings, metrics
        self.stats_counters = StatsCounters()
        self._machines: dict[str, Machine] = {}
        self._lease_keeper = LeaseKeeper(settings.config.lease_ms)
        self._lock = fork.lock()
        self._relations = LruCache[Any, tuple[Relation, Schema, Mapping[str, Any]]](MAX_CACHED_RELATIONS)

    def get(self, name: str) -> Shard:
        """A shard by its internal name."""
        with self._lock:
            if name not in self._machines:
                self._machines[name] = self._catalog.shard_machine(name)
                self._lease_keeper.keep(self._machines[name])
            return self.open(self._machines[name])

    def open(self, machine: Machine) -> Shard:
        """The shard of a machine, with the present settings of the database."""
        machine.files.counters = self.stats_counters
        return Shard.open(machine, self._settings.config, self._metrics)

    def relation(self, name: str, schema: Schema, options: Mapping[str, Any]) -> Relation:
        """`relation_of`, cached by `id()`s; the value refers to the objects, so no id is reused."""
        return self._relations.get_or_compute(
            (name, id(schema), id(options)), lambda: (relation_of(name, schema, options), schema, options)
        )[0]

    def follow_settings(self) -> None:
        """Renews leases as the changed settings of the database say."""
        self._lease_keeper.set_lease_ms(self._settings.config.lease_ms)

    def close(self) -> None:
        """Releases leases without readers. What cannot be written now expires by itself."""
        with self._lock:
            for machine in self._machines.values():
                with suppress(TidegateError):
                    release_shared_lease(self.open(machine))
            self._machines.clear()


@dataclass(frozen=True, eq=False)
class Context:
    """The open database as one statement sees it. Threads may share it."""

    root: Root
    clock: Clock
    config: Config
    """The settings that this statement follows."""
    settings: DatabaseSettings | SessionSettings
    """Where SET goes: the database's settings, or those of one session."""
    access: Reach
    """The files and hosts that statements may use."""
    engine: GeneralEngine | None
    """Spark, which runs queries that are too large for the embedded engine; None: it is not installed."""
    shards: OpenShards
    metrics: Metrics
    prepared: PreparedStatements
    peek_slots: PeekSlots
    """Limits how many fast-path reads run at once."""
    ingestions: dict[str, RunningIngestion]
    """The sources that this process ingests or has ingested, by name."""
    catalogs: LruCache[str, Any]
    """The tables of pg_catalog, once they are asked for (`statements/postgres_catalog`)."""
    session_id: str = field(default_factory=new_id)
    """The id of the session in logs."""
    named_statements: dict[str, table_statement.Prepare] = field(default_factory=dict)
    """The statements that PREPARE has named in this session."""

    @property
    def catalog(self) -> Catalog:
        """The names of the database."""
        return self.root.catalog

    def current(self) -> Context:
        """The same context with the settings as they are now."""
        return self.with_config(self.settings.config)

    def with_config(self, config: Config) -> Context:
        """The same context with other settings."""
        return self if config is self.config else replace(self, config=config)

    def with_setting(self, name: str, value: object) -> Context:
        """A context for one query that changes a setting for itself alone."""
        settings = self.settings.for_query()
        settings.set(name, value)
        return replace(self, settings=settings, config=settings.config)

    def for_session(self, access: Reach) -> Context:
        """A context for one client, with its own settings and access."""
        settings = self.settings.for_session()
        return replace(
            self,
            settings=settings,
            config=settings.config,
            access=access,
            session_id=new_id(),
            named_statements={},
        )

    def set(self, name: str, value: object) -> None:
        """Changes a setting of this session, or of the database for everybody; None restores it.

        Contexts that exist keep their config: `current` gives one with the change.
        """
        self.settings.set(name, value)
        if isinstance(self.settings, DatabaseSettings):
            self.shards.follow_settings()

    def close(self) -> None:
        """Stops ingestions and closes shards."""
        for running in list(self.ingestions.values()):
            running.stop()
        self.shards.close()

    def shard(self, name: str) -> Shard:
        """A shard by its internal name."""
        return self.shards.get(name)

    def table(self, name: str, position: Position | None = None) -> Shard:
        """The shard of a table that rows can be written to."""
        match self.item(name, position):
            case TableItem(shard):
                return self.shard(shard)
            case ViewItem():
                message, hint = f'"{name}" is a view, not a table', "a view can only be read"
            case SubsourceItem(_, source):
                message, hint = f'"{name}" is filled by the source "{source}"', "it can only be read"
            case item:
                message, hint = f'"{name}" is a {kind_of(item)}, not a table', "it can only be read"
        raise BindError(message, hint=hint, position=position)

    def collection(self, name: str, position: Position | None = None) -> Shard:
        """The shard of a table, a source or a subsource."""
        item = self.item(name, position)
        shard = shard_of(item)
        if shard is None:
            raise BindError(
                f'"{name}" is a {kind_of(item)}, and has no rows of its own',
                hint=self._instead(name, item),
                position=position,
            )
        return self.shard(shard)

    def _instead(self, name: str, item: CatalogItem) -> str | None:
        """What has the rows instead."""
        of = [
            key
            for key, it in self.catalog.items().items()
            if isinstance(it, SubsourceItem) and it.source == name
        ]
        return (
            f"they are in {', '.join(of)}"
            if of
            else "a view can only be read"
            if isinstance(item, ViewItem)
            else None
        )

    def item(self, name: str, position: Position | None = None) -> CatalogItem:
        """The catalog item of a name; an error if there is none."""
        item = self.catalog.find(text(name, "the name of a collection"))
        self.root.check_location()  # it may have been moved away from here since it was opened
        if item is None:
            close = get_close_matches(name, list(self.catalog.items()), n=2) if len(name) < 200 else []
            hint = f"did you mean {' or '.join(close)}?" if close else "SHOW TABLES lists what is there"
            raise BindError(
                f'there is no table or view "{name}"',
                code=ErrorCode.UNDEFINED_TABLE,
                hint=hint,
                position=position,
            )
        return item


def open_context(root: Root, clock: Clock, config: Config, engine: GeneralEngine | None = None) -> Context:
    """The context of a database that was just opened: with its own settings, and access to everything."""
    settings, metrics, peek_slots = DatabaseSettings(config), Metrics(), PeekSlots()
    shards = OpenShards(root.catalog, settings, metrics)
    counters = shards.stats_counters
    metrics.other(
        "statistics_unreadable", "Statistics that could not be read.", "why", lambda: counters.unreadable
    )
    metrics.other(
        "statistics_trimmed", "Parts and bytes trimmed to stats_budget.", "what", lambda: counters.trimmed
    )
    metrics.gauge("peeks_running", "Fast-path reads that run now.", lambda: peek_slots.running)
    metrics.gauge("peeks_waiting", "Fast-path reads that wait for a slot.", lambda: peek_slots.waiting)
    return Context(
        root, clock, config, settings, ANYWHERE, engine,
        shards, metrics, PreparedStatements(), peek_slots, {}, LruCache(1),
    )  # fmt: skip


class CatalogSnapshot:
    """The catalog as one statement sees it: each name is looked up once, with its schema then."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.tables: dict[str, tuple[Shard, Schema]] = {}
        self.entries: dict[str, CatalogEntry | None] = {}

    def relation(self, name: str) -> CatalogEntry | None:
        """The collection or view of that name."""
        if name not in self.entries:
            self.entries[name] = self._relation(name)
        return self.entries[name]

    def relation_names(self) -> list[str]:
        """Everything that can be read."""
        items = self.context.catalog.items()
        return [name for name, item in items.items() if view_of(item) or shard_of(item)]

    def views(self) -> list[str]:
        """The SQL texts of the views among them."""
        return [entry.sql for entry in self.entries.values() if isinstance(entry, ViewRelation)]

    def _relation(self, name: str) -> CatalogEntry | None:
        item = self.context.catalog.find(name)
        view = None if item is None else view_of(item)
        if view is not None:
            return ViewRelation(view.sql, view.columns)
        shard_name = None if item is None else shard_of(item)
        if shard_name is None:
            return None
        shard = self.context.shard(shard_name)
        state = shard.machine.fetch()
        schema = state.schema
        self.tables[name] = shard, schema
        return self.context.shards.relation(name, schema, state.options)


def relation_of(name: str, schema: Schema, options: Mapping[str, Any]) -> Relation:
    """A collection as binding sees it: without hidden columns, and only with rows that are valid now."""
    visible = tuple((column.name, column.type) for column in visible_columns(schema, options))
    return Relation(name, visible, visible_plan(schema, options))


def visible_plan(schema: Schema, options: Mapping[str, Any]) -> MapFilterProject | None:
    """The plan from all columns of a shard to the visible ones; None if all are visible."""
    out, bounds = validity.hidden_columns(options), validity.Validity.of(options)
    if not out:
        return None
    plan = MapFilterProject.identity([column.type for column in schema.columns])
    if bounds is not None:
        plan = plan.filter(*bounds.conditions(schema))
    return plan.project([i for i, column in enumerate(schema.columns) if column.id not in out])


def position_of(sql: str, ident: syntax.Ident) -> Position:
    """The position of a name in a SQL text."""
    return Position(sql, *ident.at)
