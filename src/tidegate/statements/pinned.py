"""Bind a query, pin what it reads, and make sure that both see the same columns.

Binding looks up the columns of each collection, and reading pins a snapshot of its shard; an ALTER TABLE may come between the two.
So the schema of each snapshot is compared with the one that was bound, and the query is bound again if they differ.

    with pinned_select(context, parsed, as_of) as query:
        query.prepared, query.snapshots["orders"], query.now      `pin_select` for what outlives a block

`pin` does so for anything that is bound over a catalog: queries, DELETE and UPDATE, DataFrames.

`mz_now()` is the time that is read: AS OF, or without it the wall clock, but never before the last committed time. `now()` is
always the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import TidegateError
from tidegate.sql import PreparedQuery
from tidegate.sql.parse import syntax
from tidegate.storage.shard import Snapshot, open_snapshot, resolve_now

Q = TypeVar("Q")
MAX_REBINDS = 10
"""Attempts to bind and pin: ten schema changes within the milliseconds of one attempt each do not happen by accident."""


@dataclass(frozen=True)
class Pinned(Generic[Q]):
    """A bound query, and the snapshots that it reads."""

    query: Q
    snapshots: dict[str, Snapshot]
    """By name of the collection."""
    catalog: CatalogSnapshot
    wall: int
    """The wall clock when it was bound: the value of `now()`, in ms."""

    def close(self) -> None:
        """Releases the snapshots."""
        for held in self.snapshots.values():
            held.close()


def pin(
    context: Context,
    bind: Callable[[CatalogSnapshot, int], Q],
    sources: Callable[[Q], Iterable[str]],
    as_of: int | None = None,
    *,
    timeout_ms: int | None = None,
    check: Callable[[], None] | None = None,
) -> Pinned[Q]:
    """Binds a query and pins the collections that it reads; the caller closes them.

    `timeout_ms` is how long to wait for an `as_of` in the future; without it, `as_of_timeout_ms`. `check` ends the wait.
    """
    timeout = context.config.as_of_timeout_ms if timeout_ms is None else timeout_ms
    for _ in range(MAX_REBINDS):
        wall, catalog = context.clock.now(), CatalogSnapshot(context)
        query = bind(catalog, wall)
        with ExitStack() as stack:
            snapshots: dict[str, Snapshot] = {}
            for source in dict.fromkeys(sources(query)):
                shard = catalog.tables[source][0]
                pinned_shard = open_snapshot(shard, as_of, timeout_ms=timeout, check=check)
                snapshots[source] = stack.enter_context(pinned_shard)
            if all(held.schema.id == catalog.tables[name][1].id for name, held in snapshots.items()):
                stack.pop_all()
                return Pinned(query, snapshots, catalog, wall)
    raise TidegateError("the columns of a collection change faster than they can be read", hint="try again")


@contextmanager
def pinned(
    context: Context,
    bind: Callable[[CatalogSnapshot, int], Q],
    sources: Callable[[Q], Iterable[str]],
    as_of: int | None = None,
    *,
    timeout_ms: int | None = None,
    check: Callable[[], None] | None = None,
) -> Iterator[Pinned[Q]]:
    """`pin` for the time of a `with`."""
    found = pin(context, bind, sources, as_of, timeout_ms=timeout_ms, check=check)
    try:
        yield found
    finally:
        found.close()


# ---------------------------------------------------------------- queries


@dataclass(frozen=True)
class PinnedSelect:
    """A query that is bound, with the snapshots that it reads."""

    prepared: PreparedQuery
    snapshots: Mapping[str, Snapshot]
    now: int
    """The value of `mz_now()`."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The only one, of a plan over one collection; None: it has no FROM."""
        return next(iter(self.snapshots.values()), None)

    def close(self) -> None:
        """Releases the snapshots."""
        for held in self.snapshots.values():
            held.close()


def pin_select(
    context: Context,
    parsed: syntax.Query | str,
    as_of: int | None,
    check: Callable[[], None] | None = None,
    *,
    preview: bool = False,
) -> PinnedSelect:
    """Binds a query and pins what it reads; the caller closes it.

    `check` ends the wait for an AS OF in the future. A `preview` does not wait, and minds no clock that is wrong.
    """

    def bind(catalog: CatalogSnapshot, wall: int) -> PreparedQuery:
        return context.prepared.bound(parsed, catalog, wall)

    def sources(prepared: PreparedQuery) -> list[str]:
        return prepared.sources

    found = pin(context, bind, sources, as_of, timeout_ms=0 if preview else None, check=check)
    if as_of is not None:
        return PinnedSelect(found.query, found.snapshots, as_of)
    with ExitStack() as stack:
        stack.callback(found.close)
        states = [held.state for held in found.snapshots.values()]
        temporal = not preview and found.query.is_temporal
        now = resolve_now(found.wall, states, context.config, temporal=temporal)
        stack.pop_all()
    return PinnedSelect(found.query, found.snapshots, now)


@contextmanager
def pinned_select(
    context: Context,
    parsed: syntax.Query | str,
    as_of: int | None,
    check: Callable[[], None] | None = None,
    *,
    preview: bool = False,
) -> Iterator[PinnedSelect]:
    """`pin_select` for the time of a `with`."""
    found = pin_select(context, parsed, as_of, check, preview=preview)
    try:
        yield found
    finally:
        found.close()
