"""The catalog: which collections and views there are, by name; a log like a shard's, and changed like one.

    catalog                the log's key; its state's options are the entries
      database             the id that the root says too
      name/orders          {"kind": "table", "shard": "3f…"}
      name/recent          {"kind": "view", "sql": "SELECT …", "columns": []}
      loose/77…            {"at": ms}: a shard that has no name: being made, or dropped

A table is made in three steps, so that a crash leaves nothing that cannot be found again:

| step | killed after it |
|---|---|
| `loose/<shard>` is entered | nothing else is there; `sweep` forgets it |
| the shard is created | an empty shard without a name; `sweep` drops it |
| one entry names it and removes `loose` | it is there |

Of two who make the same name, the last step lets one win; the other is told that it exists, and its shard stays loose. Dropping is
the same backwards: the name goes and `loose` comes in one entry, then the shard is dropped, and sweep does the rest.

Everything that can go wrong with a proposal (a rival, a lost answer) is dealt with by `machine.py`: the catalog is a `Machine`
whose changes are `Configure`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

from tidegate.errors import BindError, TidegateError
from tidegate.shard.change import Configure, Create, Drop
from tidegate.shard.machine import Machine
from tidegate.shard.schema import Schema
from tidegate.shard.state import FORMAT, Conflict, State
from tidegate.shard.sweep import FOLDERS, Swept, sweep
from tidegate.shard.writer import Shard

_NAME, _LOOSE = "name/", "loose/"


@dataclass(frozen=True)
class Table:
    """A collection that is kept: the name of its shard."""

    shard: str


@dataclass(frozen=True)
class View:
    """A query with a name: its text, and the names of its columns if they were given others."""

    sql: str
    columns: tuple[str, ...] = ()


Item: TypeAlias = Table | View


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

    def items(self) -> dict[str, Item]:
        """Everything that has a name, by name."""
        found = self.machine.fetch().options
        names = sorted(key[len(_NAME) :] for key in found if key.startswith(_NAME))
        return {name: _item(found[_NAME + name]) for name in names}

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
        shard = secrets.token_hex(8)
        self._enter(name, {_LOOSE + shard: {"at": self.machine.clock.now()}})
        machine = self.shard_machine(shard)
        Shard.create(machine, schema, options)

        def check(state: State) -> None:
            if _LOOSE + shard not in state.options:
                raise Conflict(f'table "{name}" took so long to make that it was swept', hint="make it again")

        entry = {_NAME + name: {"kind": "table", "shard": shard}, _LOOSE + shard: None}
        try:
            self._enter(name, entry, check)
        except TidegateError:
            machine.change(lambda state: None if state.dropped else Drop())
            raise
        return machine

    def create_view(self, name: str, view: View, *, replace: bool) -> None:
        """A new view, or with `replace` another one in its place."""
        entry = {_NAME + name: {"kind": "view", "sql": view.sql, "columns": list(view.columns)}}

        def think(state: State) -> Configure:
            known = state.options.get(_NAME + name)
            if known is not None and not (replace and known["kind"] == "view"):
                raise exists(name, _item(known))
            return Configure(entry)

        self.machine.change(think)

    def drop(self, names: Mapping[str, Item]) -> None:
        """Takes names away, all at once; what they mean must still be what it was."""

        def think(state: State) -> Configure:
            gone: dict[str, Any] = {}
            for name, item in names.items():
                known = state.options.get(_NAME + name)
                if known is None or _item(known) != item:
                    raise Conflict(f'"{name}" was changed meanwhile', hint="look again")
                gone[_NAME + name] = None
                if isinstance(item, Table):
                    gone[_LOOSE + item.shard] = {"at": self.machine.clock.now()}
            return Configure(gone)

        self.machine.change(think)
        for item in names.values():
            if isinstance(item, Table):
                self.shard_machine(item.shard).change(lambda state: None if state.dropped else Drop())

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
        if machine.exists():
            machine.change(lambda state: None if state.dropped else Drop())
            done = sweep(shard)
            state = machine.fetch()
            if state.leases or any(item.name.startswith("part/") for item in state.garbage):
                return done
            self._remove_objects(machine, state)
        self.machine.change(lambda state: Configure({key: None}) if key in state.options else None)
        return done

    def _remove_objects(self, machine: Machine, state: State) -> None:
        """Rollups and segments of a shard that nobody will open again."""
        for folder in FOLDERS:
            for name in machine.attempt(partial(_names, machine, f"{folder}/{state.shard}/")):
                machine.attempt(partial(machine.blob.delete, name))

    def _enter(
        self, name: str, entries: dict[str, Any], check: Callable[[State], None] = lambda _: None
    ) -> None:
        def think(state: State) -> Configure:
            known = state.options.get(_NAME + name)
            if known is not None:
                raise exists(name, _item(known))
            check(state)
            return Configure(entries)

        self.machine.change(think)


def exists(name: str, item: Item) -> BindError:
    """The error for a name that is taken."""
    kind = "view" if isinstance(item, View) else "table"
    return BindError(f'{kind} "{name}" already exists', hint="IF NOT EXISTS leaves it as it is")


def _item(entry: dict[str, Any]) -> Item:
    if entry["kind"] == "table":
        return Table(entry["shard"])
    if entry["kind"] == "view":
        return View(entry["sql"], tuple(entry["columns"]))
    raise TidegateError(
        f"the catalog holds a {entry['kind']}, which this version does not know", hint="upgrade Tidegate"
    )


def _names(machine: Machine, prefix: str) -> list[str]:
    return [entry.name for entry in machine.blob.list(prefix)]
