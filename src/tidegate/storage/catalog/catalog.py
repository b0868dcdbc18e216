"""The catalog: tables, views, connections and sources by name, in a log like that of a shard.

    catalog                the key of the log; the options of its state are the entries
      database             the id that the root object has too
      places               where the root is, if the metadata is elsewhere: [{"url": "/data/lake", "changed": …, "inode": …}]
      name/orders          {"kind": "table", "shard": "3f…"}
      name/recent          {"kind": "view", "sql": "SELECT …", "columns": []}
      name/k               {"kind": "connection", "to": "kafka", "options": {…}}
      name/clicks          {"kind": "source", "shard": "9a…", "sql": "CREATE SOURCE …", "definition": {…}, "paused": false}
      name/clicks_errors   {"kind": "subsource", "shard": "b0…", "source": "clicks"}
      loose/77…            {"at": ms}: a shard without a name: being created, dropped, or swept

An item with rows (a table, a source and its subsources) is created in three steps, so that a crash leaves nothing that cannot be
found again:

| step | killed after it |
|---|---|
| `loose/<shard>` is entered for every shard | nothing else exists; `sweep` forgets it |
| the shards are created | empty shards without a name; `sweep` drops them |
| one entry gives all the names and removes `loose` | everything exists |

If two clients create the same name, the last step lets one win; the other gets an error that the name exists, and its shards stay
loose. Dropping is the same in reverse: one entry removes the names and adds `loose`, then the shards are dropped, and sweep does
the rest. If it is unknown whether the last step was made (its answer was lost), nothing is dropped, because a name may refer to
the shards by now.

Sweep forgets a shard that is loose for longer than the grace: its creator was killed, or paused. So it first enters
`{"at": ms, "sweeping": true}`, and drops the shard only then: a creator that continues finds its entry changed, and gives no name.

`machine.py` handles everything that can go wrong with a proposal (a rival, a lost answer): the catalog is a `Machine` whose changes
are `Configure`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from tidegate.errors import BindError, ErrorCode, IndeterminateError, MissingObject, StoreError, TidegateError
from tidegate.storage.catalog.items import (
    CatalogItem,
    TableItem,
    ViewItem,
    item_from_json,
    item_to_json,
    kind_of,
    shard_of,
    view_of,
)
from tidegate.storage.location import RootIdentity
from tidegate.storage.maintain.sweep import FOLDERS, Swept, sweep_shard
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.changes import Configure, Create, DropShard
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import FIRST_FORMAT, Conflict, State

_NAME, _LOOSE = "name/", "loose/"
PLACES = "places"


class Catalog:
    """Names and their items, as of now: every call reads what is new in the log."""

    KEY: ClassVar[str] = "catalog"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @staticmethod
    def open(machine: Machine, database: str) -> Catalog:
        """Opens the catalog, or creates it with this database id."""
        if not machine.exists():
            with contextlib.suppress(Conflict):  # another process was faster: its id counts
                machine.create(Create(FIRST_FORMAT, Catalog.KEY, {}, {"database": database}))
        return Catalog(machine)

    @property
    def database(self) -> str:
        """The id of the database."""
        return str(self.machine.fetch().options["database"])

    def locations(self) -> list[RootIdentity]:
        """Where the root of the database is, under each of its names; empty: not recorded yet."""
        return [RootIdentity(**one) for one in self.machine.cached_state().options.get(PLACES, ())]

    def set_locations(self, locations: Iterable[RootIdentity]) -> None:
        """Records where the root of the database is."""
        known = [asdict(one) for one in locations]
        self.machine.update(
            lambda state: Configure({PLACES: known}) if state.options.get(PLACES) != known else None
        )

    def items(self) -> dict[str, CatalogItem]:
        """All items, by name."""
        return _items(self.machine.fetch())

    def readable(self) -> dict[str, CatalogItem]:
        """All items that can be read by name."""
        return {
            name: item
            for name, item in self.items().items()
            if shard_of(item) is not None or view_of(item) is not None
        }

    def find(self, name: str) -> CatalogItem | None:
        """The item with this name, or None."""
        entry = self.machine.fetch().options.get(_NAME + name)
        return None if entry is None else item_from_json(entry)

    def shard_machine(self, shard: str) -> Machine:
        """The machine of a shard."""
        of = self.machine
        return Machine(of.consensus, of.blob, f"shard/{shard}", of.clock, of.retries)

    def create_table(self, name: str, schema: Schema, options: Mapping[str, Any]) -> Machine:
        """Creates a table, and returns the machine of its shard. A `BindError` if the name is taken."""
        shard = new_shard_name()
        self.create({name: TableItem(shard)}, {shard: (schema, options)})
        return self.shard_machine(shard)

    def create(
        self,
        items: Mapping[str, CatalogItem],
        shards: Mapping[str, tuple[Schema, Mapping[str, Any]]],
        needs: Mapping[str, CatalogItem] | None = None,
        fill: Callable[[Machine], None] = lambda _: None,
    ) -> None:
        """Creates items and their shards, all at once. A `BindError` if a name is taken.

        The items in `needs` must still be as given: a connection cannot be dropped while a source that uses it is created.
        `fill` writes rows into each shard before it has a name; if it fails, nothing is created.
        """
        loose = {"at": self.machine.clock.now()}
        if shards:
            self._enter(items, {_LOOSE + shard: loose for shard in shards})
        for shard, (schema, options) in shards.items():
            Shard.create(self.shard_machine(shard), schema, options)
        try:
            for shard in shards:
                fill(self.shard_machine(shard))
        except BaseException:
            self._drop_loose(shards)
            raise

        def check(state: State) -> None:
            if any(state.options.get(_LOOSE + shard) != loose for shard in shards):
                names = ", ".join(f'"{name}"' for name in items)
                raise Conflict(f"{names} took so long to create that it was swept", hint="create it again")
            _check_same(state, needs or {})

        entries: dict[str, Any] = {_NAME + name: item_to_json(item) for name, item in items.items()}
        try:
            self._enter(items, entries | {_LOOSE + shard: None for shard in shards}, check)
        except IndeterminateError:
            raise  # the names may exist and refer to these shards; if not, sweep finds the shards loose
        except TidegateError:
            self._drop_loose(shards)
            raise

    def _drop_loose(self, shards: Iterable[str]) -> None:
        """Drops shards that got no name; what cannot be dropped now, sweep finds loose."""
        with contextlib.suppress(StoreError):
            for shard in shards:
                if self._claim(_LOOSE + shard):  # no name refers to it
                    self.shard_machine(shard).update(lambda state: None if state.dropped else DropShard())

    def change(self, name: str, was: CatalogItem, becomes: CatalogItem) -> None:
        """Replaces the item of a name, which must still be as given."""

        def propose(state: State) -> Configure:
            _check_same(state, {name: was})
            return Configure({_NAME + name: item_to_json(becomes)})

        self.machine.update(propose)

    def rename(
        self, name: str, new_name: str, item: CatalogItem, check: Callable[[], None] = lambda: None
    ) -> None:
        """Gives an item, which must still be as given, another name; `check` may refuse."""

        def propose(state: State) -> Configure:
            _check_same(state, {name: item})
            known = state.options.get(_NAME + new_name)
            if known is not None:
                raise already_exists(new_name, item_from_json(known))
            check()
            return Configure({_NAME + name: None, _NAME + new_name: item_to_json(item)})

        self.machine.update(propose)

    def create_view(self, name: str, view: ViewItem, *, replace: bool) -> None:
        """Creates a view, or with `replace` replaces one."""
        entry = {_NAME + name: item_to_json(view)}

        def propose(state: State) -> Configure:
            known = state.options.get(_NAME + name)
            if known is not None and not (replace and known["kind"] == "view"):
                raise already_exists(name, item_from_json(known))
            return Configure(entry)

        self.machine.update(propose)

    def drop(
        self,
        names: Mapping[str, CatalogItem],
        check: Callable[[Mapping[str, CatalogItem]], None] = lambda _: None,
    ) -> None:
        """Removes names, all at once; their items must still be as given.

        `check` gets the items that remain, and may refuse.
        """
        shards = [shard for shard in map(shard_of, names.values()) if shard is not None]

        def propose(state: State) -> Configure:
            _check_same(state, names)
            check({name: item for name, item in _items(state).items() if name not in names})
            gone: dict[str, Any] = {_NAME + name: None for name in names}
            return Configure(gone | {_LOOSE + shard: {"at": self.machine.clock.now()} for shard in shards})

        self.machine.update(propose)
        for shard in shards:
            self.shard_machine(shard).update(lambda state: None if state.dropped else DropShard())

    def sweep(self, shard: Callable[[Machine], Shard]) -> Swept:
        """Sweeps the catalog's own objects and the shards without a name; `shard` opens one."""
        done = sweep_shard(shard(self.machine))
        config = shard(self.machine).config
        for key, entry in list(self.machine.fetch().options.items()):
            if key.startswith(_LOOSE) and entry["at"] <= self.machine.clock.now() - config.sweep_grace_ms:
                found = self._sweep_loose(shard(self.shard_machine(key[len(_LOOSE) :])), key)
                done.garbage += found.garbage
                done.orphans += found.orphans
        return done

    def _sweep_loose(self, shard: Shard, key: str) -> Swept:
        """Drops and sweeps a shard without a name; it is forgotten when only its log is left."""
        machine, done = shard.machine, Swept()
        if not self._claim(key):
            return done
        if machine.exists():
            # A sweep that was killed below has removed the rollup: then the shard was dropped, and little is left.
            with contextlib.suppress(MissingObject):
                machine.update(lambda state: None if state.dropped else DropShard())
                done = sweep_shard(shard)
                state = machine.fetch()
                if state.leases or any(item.name.startswith("part/") for item in state.garbage):
                    return done
            self._remove_objects(machine, key[len(_LOOSE) :])
        self.machine.update(lambda state: Configure({key: None}) if key in state.options else None)
        return done

    def _claim(self, key: str) -> bool:
        """Enters that a loose shard is being swept; False if it is not loose any more."""

        def propose(state: State) -> Configure | None:
            entry = state.options.get(key)
            return (
                None
                if entry is None or "sweeping" in entry
                else Configure({key: {**entry, "sweeping": True}})
            )

        return key in self.machine.update(propose).options

    def _remove_objects(self, machine: Machine, shard: str) -> None:
        """Deletes the rollups and segments of a shard that nobody will open again."""
        for folder in FOLDERS:
            for info in machine.objects.list(f"{folder}/{shard}/"):
                machine.objects.delete(info.name)

    def _enter(
        self, names: Iterable[str], entries: dict[str, Any], check: Callable[[State], None] = lambda _: None
    ) -> None:
        def propose(state: State) -> Configure:
            for name in names:
                known = state.options.get(_NAME + name)
                if known is not None:
                    raise already_exists(name, item_from_json(known))
            check(state)
            return Configure(entries)

        self.machine.update(propose)


def new_shard_name() -> str:
    """A name for a new shard."""
    return secrets.token_hex(8)


def already_exists(name: str, item: CatalogItem) -> BindError:
    """The error for a name that is taken."""
    return BindError(
        f'{kind_of(item)} "{name}" already exists',
        code=ErrorCode.DUPLICATE_TABLE,
        hint="IF NOT EXISTS leaves it as it is",
    )


def _items(state: State) -> dict[str, CatalogItem]:
    found = state.options
    names = sorted(key[len(_NAME) :] for key in found if key.startswith(_NAME))
    return {name: item_from_json(found[_NAME + name]) for name in names}


def _check_same(state: State, items: Mapping[str, CatalogItem]) -> None:
    """Raises if the item of a name has changed."""
    for name, item in items.items():
        known = state.options.get(_NAME + name)
        if known is None or item_from_json(known) != item:
            raise Conflict(f'"{name}" was changed meanwhile', hint="look again")
