"""The catalog: which collections and views there are, by name; a log like a shard's, and changed like one.

    catalog                the log's key; its state's options are the entries
      database             the id that the root says too
      places               where the root is, if the metadata is elsewhere: [{"url": "/data/lake", "changed": …, "inode": …}]
      name/orders          {"kind": "table", "shard": "3f…"}
      name/recent          {"kind": "view", "sql": "SELECT …", "columns": []}
      name/k               {"kind": "connection", "to": "kafka", "options": {…}}
      name/clicks          {"kind": "source", "shard": "9a…", "sql": "CREATE SOURCE …", "definition": {…}, "paused": false}
      name/clicks_errors   {"kind": "subsource", "shard": "b0…", "source": "clicks"}
      loose/77…            {"at": ms}: a shard that has no name: being made, dropped, or swept

What has rows (a table, a source and its subsources) is made in three steps, so that a crash leaves nothing
that cannot be found again:

| step | killed after it |
|---|---|
| `loose/<shard>` is entered for every shard | nothing else is there; `sweep` forgets it |
| the shards are created | empty shards without a name; `sweep` drops them |
| one entry gives all the names and removes `loose` | all of it is there |

Of two who make the same name, the last step lets one win; the other is told that it exists, and its shards stay loose. Dropping is
the same backwards: the names go and `loose` comes in one entry, then the shards are dropped, and sweep does the rest. Whether the
last step was made may be unknown (its answer was lost): then nothing is dropped, as a name may stand over the shards by now.

Sweep forgets a shard that is loose for longer than the grace: one whose maker was killed, or sleeps. So it first enters
`{"at": ms, "sweeping": true}`, and drops the shard only then: a maker that wakes up finds its entry changed, and gives it no name.

Everything that can go wrong with a proposal (a rival, a lost answer) is dealt with by `machine.py`: the catalog is a `Machine`
whose changes are `Configure`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeAlias, assert_never

from tidegate.errors import BindError, IndeterminateError, StoreError, TidegateError
from tidegate.shard.change import Configure, Create, Drop
from tidegate.shard.machine import Machine
from tidegate.shard.schema import Schema
from tidegate.shard.state import FORMAT, Conflict, State
from tidegate.shard.sweep import FOLDERS, Swept, sweep
from tidegate.shard.writer import Shard
from tidegate.store.blob import Missing
from tidegate.store.place import Location

_NAME, _LOOSE = "name/", "loose/"
PLACES = "places"


@dataclass(frozen=True)
class Table:
    """A collection that is kept: the name of its shard."""

    shard: str


@dataclass(frozen=True)
class View:
    """A query with a name: its text, and the names of its columns if they were given others."""

    sql: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Connection:
    """How something outside is reached: its kind, and the options as they were written."""

    to: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Source:
    """Something outside that is read into collections: into one of this name, or into subsources."""

    shard: str | None
    """None: its collections are subsources."""
    sql: str
    """The statement that made it, and last changed it."""
    definition: dict[str, Any] = field(default_factory=dict, repr=False)
    """As `ingest/definition.py` writes it."""
    paused: bool = False
    view: View | None = None
    """WITH (SPLIT): the query over what is stored that its name stands for."""


@dataclass(frozen=True)
class Subsource:
    """One of the collections of a source, or its bad rows."""

    shard: str
    source: str


Item: TypeAlias = Table | View | Connection | Source | Subsource


class Catalog:
    """Names and what they mean, as of now: every question reads what is new in the log."""

    KEY: ClassVar[str] = "catalog"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @staticmethod
    def open(machine: Machine, database: str) -> Catalog:
        """The catalog, made with this database id if there is none."""
        if not machine.exists():
            with contextlib.suppress(Conflict):  # another one was faster: its id counts
                machine.create(Create(FORMAT, Catalog.KEY, {}, {"database": database}))
        return Catalog(machine)

    @property
    def database(self) -> str:
        """The id of the database."""
        return str(self.machine.fetch().options["database"])

    def locations(self) -> list[Location]:
        """Where the root of the database is, by each of its names, as last seen; none: it was not written down yet."""
        return [Location(**one) for one in self.machine.known().options.get(PLACES, ())]

    def set_locations(self, locations: Iterable[Location]) -> None:
        """Writes down where the root of the database is."""
        known = [asdict(one) for one in locations]
        self.machine.change(
            lambda state: Configure({PLACES: known}) if state.options.get(PLACES) != known else None
        )

    def items(self) -> dict[str, Item]:
        """Everything that has a name, by name."""
        return _items(self.machine.fetch())

    def readable(self) -> dict[str, Item]:
        """Everything that can be read by its name."""
        return {
            name: item
            for name, item in self.items().items()
            if shard_of(item) is not None or view_of(item) is not None
        }

    def find(self, name: str) -> Item | None:
        """What a name means."""
        found = self.machine.fetch().options.get(_NAME + name)
        return None if found is None else _item(found)

    def shard_machine(self, shard: str) -> Machine:
        """The machine of a shard."""
        of = self.machine
        return Machine(of.consensus, of.blob, f"shard/{shard}", of.clock, of.retries)

    def create_table(self, name: str, schema: Schema, options: Mapping[str, Any]) -> Machine:
        """A new collection; its shard's machine. A `BindError` if the name is taken."""
        shard = fresh_shard()
        self.create({name: Table(shard)}, {shard: (schema, options)})
        return self.shard_machine(shard)

    def create(
        self,
        items: Mapping[str, Item],
        shards: Mapping[str, tuple[Schema, Mapping[str, Any]]],
        needs: Mapping[str, Item] | None = None,
    ) -> None:
        """New names and the new shards behind them, all at once. A `BindError` if a name is taken.

        What `needs` names must be there as it says: a connection is not dropped while a source is made that uses it.
        """
        loose = {"at": self.machine.clock.now()}
        if shards:
            self._enter(items, {_LOOSE + shard: loose for shard in shards})
        for shard, (schema, options) in shards.items():
            Shard.create(self.shard_machine(shard), schema, options)

        def check(state: State) -> None:
            if any(state.options.get(_LOOSE + shard) != loose for shard in shards):
                names = ", ".join(f'"{name}"' for name in items)
                raise Conflict(f"{names} took so long to make that it was swept", hint="make it again")
            _check_same(state, needs or {})

        entries: dict[str, Any] = {_NAME + name: _entry(item) for name, item in items.items()}
        try:
            self._enter(items, entries | {_LOOSE + shard: None for shard in shards}, check)
        except IndeterminateError:
            raise  # the names may be there, over these shards; if they are not, sweep finds them loose
        except TidegateError:
            with contextlib.suppress(StoreError):  # likewise
                for shard in shards:
                    if self._claim(_LOOSE + shard):  # no name stands over it
                        self.shard_machine(shard).change(lambda state: None if state.dropped else Drop())
            raise

    def change(self, name: str, was: Item, becomes: Item) -> None:
        """Another item for a name, which must still mean what it did."""

        def think(state: State) -> Configure:
            _check_same(state, {name: was})
            return Configure({_NAME + name: _entry(becomes)})

        self.machine.change(think)

    def create_view(self, name: str, view: View, *, replace: bool) -> None:
        """A new view, or with `replace` another one in its place."""
        entry = {_NAME + name: _entry(view)}

        def think(state: State) -> Configure:
            known = state.options.get(_NAME + name)
            if known is not None and not (replace and known["kind"] == "view"):
                raise exists(name, _item(known))
            return Configure(entry)

        self.machine.change(think)

    def drop(
        self, names: Mapping[str, Item], check: Callable[[Mapping[str, Item]], None] = lambda _: None
    ) -> None:
        """Takes names away, all at once; what they mean must still be what it was. `check` may refuse, by what is left."""
        shards = [shard for shard in map(shard_of, names.values()) if shard is not None]

        def think(state: State) -> Configure:
            _check_same(state, names)
            check({name: item for name, item in _items(state).items() if name not in names})
            gone: dict[str, Any] = {_NAME + name: None for name in names}
            return Configure(gone | {_LOOSE + shard: {"at": self.machine.clock.now()} for shard in shards})

        self.machine.change(think)
        for shard in shards:
            self.shard_machine(shard).change(lambda state: None if state.dropped else Drop())

    def sweep(self, shard: Callable[[Machine], Shard]) -> Swept:
        """Sweeps the catalog's own objects and the shards without a name; `shard` opens one."""
        done = sweep(shard(self.machine))
        config = shard(self.machine).config
        for key, entry in list(self.machine.fetch().options.items()):
            if key.startswith(_LOOSE) and entry["at"] <= self.machine.clock.now() - config.sweep_grace_ms:
                found = self._sweep_loose(shard(self.shard_machine(key[len(_LOOSE) :])), key)
                done.garbage += found.garbage
                done.orphans += found.orphans
        return done

    def _sweep_loose(self, shard: Shard, key: str) -> Swept:
        """Drops and sweeps a shard without a name; it is forgotten when nothing of it is left but its log."""
        machine, done = shard.machine, Swept()
        if not self._claim(key):
            return done
        if machine.exists():
            # A sweep that was killed below has removed its rollup: then it was dropped, and little is left.
            with contextlib.suppress(Missing):
                machine.change(lambda state: None if state.dropped else Drop())
                done = sweep(shard)
                state = machine.fetch()
                if state.leases or any(item.name.startswith("part/") for item in state.garbage):
                    return done
            self._remove_objects(machine, key[len(_LOOSE) :])
        self.machine.change(lambda state: Configure({key: None}) if key in state.options else None)
        return done

    def _claim(self, key: str) -> bool:
        """Enters that a loose shard is being swept; False if it is not loose any more."""

        def think(state: State) -> Configure | None:
            entry = state.options.get(key)
            return (
                None
                if entry is None or "sweeping" in entry
                else Configure({key: {**entry, "sweeping": True}})
            )

        return key in self.machine.change(think).options

    def _remove_objects(self, machine: Machine, shard: str) -> None:
        """Rollups and segments of a shard that nobody will open again."""
        for folder in FOLDERS:
            for name in machine.attempt(partial(_names, machine, f"{folder}/{shard}/")):
                machine.attempt(partial(machine.blob.delete, name))

    def _enter(
        self, names: Iterable[str], entries: dict[str, Any], check: Callable[[State], None] = lambda _: None
    ) -> None:
        def think(state: State) -> Configure:
            for name in names:
                known = state.options.get(_NAME + name)
                if known is not None:
                    raise exists(name, _item(known))
            check(state)
            return Configure(entries)

        self.machine.change(think)


def fresh_shard() -> str:
    """A name for a shard that there is not."""
    return secrets.token_hex(8)


def shard_of(item: Item) -> str | None:
    """Where the rows of an item are; None: it has none of its own."""
    return None if isinstance(item, View | Connection) else item.shard


def view_of(item: Item) -> View | None:
    """The query that a name stands for; None: it stands for no query."""
    return item if isinstance(item, View) else item.view if isinstance(item, Source) else None


def kind_of(item: Item) -> str:
    """What people call it."""
    return type(item).__name__.lower()


def exists(name: str, item: Item) -> BindError:
    """The error for a name that is taken."""
    return BindError(f'{kind_of(item)} "{name}" already exists', hint="IF NOT EXISTS leaves it as it is")


def _items(state: State) -> dict[str, Item]:
    found = state.options
    names = sorted(key[len(_NAME) :] for key in found if key.startswith(_NAME))
    return {name: _item(found[_NAME + name]) for name in names}


def _check_same(state: State, items: Mapping[str, Item]) -> None:
    """Raises if a name does not mean what it did."""
    for name, item in items.items():
        known = state.options.get(_NAME + name)
        if known is None or _item(known) != item:
            raise Conflict(f'"{name}" was changed meanwhile', hint="look again")


def _entry(item: Item) -> dict[str, Any]:
    match item:
        case Table(shard):
            return {"kind": "table", "shard": shard}
        case View(sql, columns):
            return {"kind": "view", "sql": sql, "columns": list(columns)}
        case Connection(to, options):
            return {"kind": "connection", "to": to, "options": options}
        case Source(shard, sql, definition, paused, view):
            entry = {"kind": "source", "shard": shard, "sql": sql, "definition": definition, "paused": paused}
            return entry if view is None else {**entry, "view": _entry(view)}
        case Subsource(shard, source):
            return {"kind": "subsource", "shard": shard, "source": source}
        case _:
            assert_never(item)


def _item(entry: dict[str, Any]) -> Item:
    match entry["kind"]:
        case "table":
            return Table(entry["shard"])
        case "view":
            return View(entry["sql"], tuple(entry["columns"]))
        case "connection":
            return Connection(entry["to"], entry["options"])
        case "source":
            view = _item(entry["view"]) if "view" in entry else None
            assert view is None or isinstance(view, View)
            return Source(entry["shard"], entry["sql"], entry["definition"], entry["paused"], view)
        case "subsource":
            return Subsource(entry["shard"], entry["source"])
        case kind:
            raise TidegateError(
                f"the catalog holds a {kind}, which this version does not know", hint="upgrade Tidegate"
            )


def _names(machine: Machine, prefix: str) -> list[str]:
    return [entry.name for entry in machine.blob.list(prefix)]
