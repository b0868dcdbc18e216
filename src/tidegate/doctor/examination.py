"""What every check is given: the open lake, its settings, and the facts about its collections.

The facts are read once, by several threads, and are small: a lake may have 10,000 collections, and a collection a million parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.context import Context
from tidegate.errors import TidegateError
from tidegate.storage.catalog import Catalog, Root, shard_of
from tidegate.storage.shard import Machine, State

ReportStep = Callable[[str, int, int], None]
"""What is being checked, how much of it is done, and how much there is."""
THREADS = 8
REPORT_SECONDS = 0.1
CATALOG_NAME = "the catalog"
OBJECT_SCHEMA = pa.schema([("name", pa.string()), ("size", pa.int64())])


@dataclass(frozen=True)
class CollectionFacts:
    """What the checks need to know of one collection, or of the catalog."""

    name: str
    shard: str
    error: TidegateError | None = None
    """Why its state cannot be read; then all else is empty."""
    entries: int = 0
    rollup: int = 0
    """The entry that the newest rollup holds the state of."""
    since: int = 0
    upper: int = 0
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    small_parts: int = 0
    """Parts of less than half of the target size."""
    deleted: int = 0
    garbage: tuple[tuple[str, int], ...] = ()
    """Objects that wait to be swept, and since when."""
    leases: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By name: the earliest time that each keeps, and when it expires."""
    objects: pa.Table = field(default_factory=OBJECT_SCHEMA.empty_table)
    """The objects that must exist; the size is -1 where the state does not record it."""


@dataclass(frozen=True)
class Examination:
    """An open lake that is examined."""

    context: Context
    write: bool = True
    """Whether probe objects may be written."""
    deep: bool = False
    report: ReportStep = lambda what, done, total: None
    left_out: list[str] = field(default_factory=list)
    """Checks that were not made, each with the reason."""

    def leave_out(self, reason: str) -> None:
        """Records that a check was not made."""
        self.left_out.append(reason)

    @property
    def root(self) -> Root:
        """The stores and the catalog."""
        return self.context.root

    @property
    def clock(self) -> Clock:
        """The clock of the database."""
        return self.context.clock

    @property
    def config(self) -> Config:
        """The settings of the database."""
        return self.context.config

    def paced(self, what: str, total: int) -> Iterator[int]:
        """Counts to `total`, and reports now and then."""
        last = 0.0
        for i in range(total):
            if time.monotonic() - last >= REPORT_SECONDS:
                last = time.monotonic()
                self.report(what, i, total)
            yield i

    @cached_property
    def shards(self) -> dict[str, str]:
        """The shards with rows, by the name of their collection."""
        items = self.context.catalog.items()
        return {name: shard for name, item in items.items() if (shard := shard_of(item)) is not None}

    @cached_property
    def facts(self) -> list[CollectionFacts]:
        """The facts of every collection, and of the catalog."""
        names = [(CATALOG_NAME, Catalog.KEY), *self.shards.items()]
        read: dict[str, CollectionFacts] = {}

        def read_share(share: list[tuple[str, str]]) -> None:
            try:
                for name, shard in share:
                    read[name] = self.collection_facts(name, shard)
            finally:
                self.root.consensus.close()  # the connection of this thread

        with ThreadPoolExecutor(THREADS, "tidegate-doctor") as pool:
            running = {pool.submit(read_share, names[i::THREADS]) for i in range(min(THREADS, len(names)))}
            while running:
                finished, running = wait(running, REPORT_SECONDS)
                self.report("collections", len(read), len(names))
                for future in finished:
                    future.result()
        return [read[name] for name, _ in names]

    def collection_facts(self, name: str, shard: str) -> CollectionFacts:
        """The facts of one collection, as they are now."""
        machine = self.machine(shard)
        try:
            return facts_of(name, shard, machine, self.config)
        except TidegateError as error:
            return CollectionFacts(name, shard, error)

    def machine(self, shard: str) -> Machine:
        """A machine that reads the state anew: what the database holds in memory may no longer be readable."""
        root = self.root
        if shard == Catalog.KEY:
            return Machine(root.consensus, root.blob, Catalog.KEY, self.clock, root.catalog.machine.retries)
        return root.catalog.shard_machine(shard)


def facts_of(name: str, shard: str, machine: Machine, config: Config) -> CollectionFacts:
    """The facts of a collection from its state."""
    state = machine.fetch()
    parts = [table.select(["name", "size"]) for table in state.parts.stored(["name", "size"])]
    small = sum(
        int(pc.sum(pc.less(table.column("size"), config.part_bytes // 2)).as_py() or 0)
        for table in state.parts.tables(["size"])
    )
    return CollectionFacts(
        name,
        shard,
        None,
        state.number,
        0 if state.rollup is None else state.rollup[1],
        state.since,
        state.upper,
        state.parts.count,
        state.parts.rows,
        state.parts.size,
        small,
        state.parts.deletions.rows,
        tuple((item.name, item.at) for item in state.garbage),
        {reader: (lease.since, lease.until) for reader, lease in state.leases.items()},
        pa.concat_tables([*(table.cast(OBJECT_SCHEMA) for table in parts), _other_objects(state)]),
    )


def _other_objects(state: State) -> pa.Table:
    """The rollup, its segments and the bitmaps of deleted rows."""
    rollup = [] if state.rollup is None else [state.rollup[0]]
    bitmaps = sorted(state.parts.deletions.objects) if state.parts.deletions else []
    names = [*rollup, *state.segments, *bitmaps]
    return pa.table({"name": names, "size": [-1] * len(names)}, schema=OBJECT_SCHEMA)
