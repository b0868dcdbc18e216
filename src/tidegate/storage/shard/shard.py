"""Appending to a shard: parts first, then one entry of the log that makes all of them visible.

    shard = Shard(Machine(consensus, blob, "shard/s1"))
    shard.append(table)                             now, or as soon after `upper` as necessary
    shard.append(table, at=5_000, token="batch 7")  at that time; a second call with the same token does nothing
    shard.append(table, diff=-1)                    retracts these rows

| what goes wrong | what exists afterwards |
|---|---|
| the rows do not fit the schema; `at` is below `upper` | nothing: no part is left |
| another writer was faster | without `at`: the batch, at a later time; its parts are not written again |
| the answer of the store is lost | all of the batch or nothing. It can be appended again with the same token, and exists once |
| killed between the parts and the entry | nothing; the parts are orphans, which `sweep` deletes after their grace |
| it paused for so long that its parts were swept | the batch: its parts are written again |

**Few rows make no file.** A part of at most `inline_bytes` travels inside of the entry: one durable write instead of two. Such an
*inline* part is pruned, read, deleted from and compacted like any other. Merging small parts makes files of them.

**What may be deleted.** A part that was proposed to the log may be named by it from then on, whatever the store answered. So a
writer deletes its parts only if it never proposed them, or if every number that it proposed them for belongs to another entry; and
never a part that the newest state names (`Shard.discard`). In all other cases they stay, for `sweep`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.errors import (
    ConflictError,
    IndeterminateError,
    MissingObject,
    StoreError,
    TidegateError,
    TimeError,
)
from tidegate.metrics import Metrics
from tidegate.storage.part.bitmaps import bitmaps_to_object, check_disjoint
from tidegate.storage.part.checksum import digest
from tidegate.storage.part.conform import TableLike, conform, conform_diffs
from tidegate.storage.part.deletion_records import StoredDeletions, in_object
from tidegate.storage.part.deletions import MAX_INLINE_BYTES
from tidegate.storage.part.encode import encode_part, text_bounds
from tidegate.storage.part.merge import Block, sort_block
from tidegate.storage.part.page_table import tail_size
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema, is_narrow
from tidegate.storage.shard import shard_options
from tidegate.storage.shard.changes import Append, Create
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.retractions.at_append import BatchUpdates, as_deletions
from tidegate.storage.shard.retractions.located import RowsMoved
from tidegate.storage.shard.state import FIRST_FORMAT, Conflict, State, unreferenced
from tidegate.storage.shard.statistics import Describe, describe_nothing, statistics_collector
from tidegate.storage.shard.time_check import check_time, check_upper, unit_of
from tidegate.storage.shard.validity import Validity

LAST_TIME = 2**63 - 2
_ALTERED = "the columns were altered while rows were written"
INFLATION = 4
"""Bytes in memory that become about one byte in a part."""
MAX_INLINE_PARTS_BYTES = 4 << 20
"""Bytes of inline parts that a state may have before small commits write files again: every reader loads them."""
MAX_INLINE_ROWS = 512
"""Rows of a commit from which on it is worth a file, however small."""
REWRITES = 5
"""How often a batch whose parts were swept is written again before the writer gives up."""


class PartSwept(TidegateError):  # noqa: N818  # reads as what it is
    """A part waited for its entry for so long that sweep took it for an orphan: it must be written again."""


@dataclass(frozen=True)
class Appended:
    """The result of an append."""

    at: int
    """The time of its rows."""
    parts: tuple[Part, ...]
    """Empty if a batch with this token was appended before."""


@dataclass(frozen=True, eq=False)
class Shard:
    """One collection, as a statement or task uses it: its open machine, and the settings to follow.

    A value: a changed setting is another `Shard` over the same machine.
    """

    machine: Machine
    config: Config = field(default_factory=Config)
    """The settings of the database."""
    describe: Describe = describe_nothing
    """Computes the encoded statistics of a part's columns: some for the state, some for the file."""
    metrics: Metrics = field(default_factory=Metrics)
    """Where appends are counted."""

    @staticmethod
    def open(machine: Machine, config: Config, metrics: Metrics | None = None) -> Shard:
        """The shard of a machine, whose new parts get statistics as the settings say."""
        return Shard(machine, config, statistics_collector(machine, config), metrics or Metrics())

    @staticmethod
    def create(
        machine: Machine, schema: Schema, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Shard:
        """Creates an empty collection; its name is the last component of the machine's key."""
        name = machine.key.rpartition("/")[2]
        machine.create(Create(FIRST_FORMAT, name, schema.to_json(), dict(options or {})))
        return Shard(machine, **more)

    @property
    def clock(self) -> Clock:
        """The clock that gives the time of appends."""
        return self.machine.clock

    def append(
        self,
        rows: TableLike,
        *,
        at: int | None = None,
        diff: Any = 1,
        token: str | None = None,
        positions: Mapping[str, Any] | None = None,
        schema: Schema | None = None,
    ) -> Appended:
        """Appends rows, of this `schema` if given, as one batch: all of them, at one time, or none."""
        token = token or secrets.token_hex(16)
        state = self.machine.fetch()
        if token in state.tokens:
            return Appended(state.tokens[token] - 1, ())
        if schema is not None and schema.id != state.schema.id:
            raise ConflictError(_ALTERED, hint="try again")
        schema = state.schema
        columns = conform(schema, rows)
        diffs = conform_diffs(diff, len(columns[0]))
        block = Block(columns, np.full(len(diffs), self.stamp(state, at), np.int64), diffs)
        batch = as_deletions(self.machine, self.config, state, block)
        for attempt in range(1, REWRITES + 1):
            try:
                with self.writing() as written:
                    written += self.write(state, schema, batch.rows)
                    done = self.commit_batch(written, batch, at=at, token=token, positions=positions)
                    if not done.parts:
                        # A concurrent call with this token was faster, with its own parts.
                        self.discard(written)
                    return done
            except RowsMoved:
                batch = BatchUpdates(block)
            except PartSwept:
                if attempt == REWRITES:
                    raise
        raise AssertionError("the last attempt raises")

    def commit_batch(
        self,
        parts: Sequence[Part],
        batch: BatchUpdates | None,
        *,
        check: Callable[[State], None] = lambda _: None,
        **options: Any,
    ) -> Appended:
        """As `commit`, with the deletions of a batch; `RowsMoved` if they no longer fit."""
        if batch is None or batch.deletions is None:
            return self.commit(parts, check=check, **options)
        located = batch.deletions

        def check_both(newest: State) -> None:
            check(newest)
            located.check(newest)

        stored = self.store_deletions(self.machine.cached_state(), located.records)
        try:
            return self.commit(parts, check=check_both, deletions=stored, **options)
        except (RowsMoved, PartSwept):
            self.discard_objects(list(stored.objects))
            raise

    def write(self, state: State, schema: Schema, block: Block) -> Iterator[Part]:
        """Makes sorted parts of a batch, to which nothing refers yet; a small one is not stored."""
        order = sort_order(state, schema, retracts=bool((block.diffs < 0).any()))
        if order and len(block):
            positions = [column.id for column in schema.columns]
            block = sort_block(block, [positions.index(id_) for id_ in order])
        size = sum(column.nbytes for column in block.columns) + 16 * len(block)
        many = max(1, -(-size // (INFLATION * self.config.part_bytes)))
        step = -(-len(block) // many)
        inline = len(block) <= MAX_INLINE_ROWS and state.parts.inline_bytes < MAX_INLINE_PARTS_BYTES
        for start in range(0, len(block), step or 1):
            some = block.slice(start, min(start + step, len(block)))
            yield self.store(state, schema, some, order, inline=inline)

    def store(
        self,
        state: State,
        schema: Schema,
        block: Block,
        order: tuple[int, ...],
        level: int = 0,
        *,
        inline: bool = False,
    ) -> Part:
        """Stores updates as one part that nothing refers to yet; a small one may be `inline`."""
        known = self.describe(schema, block.columns)
        hidden = pa.array(block.times), pa.array(block.diffs)
        data = encode_part(schema, block.columns, *hidden, known.pages, known.rosters)
        name = f"part/{state.shard}/{secrets.token_hex(12)}"
        validity, tail = Validity.of(state.options), tail_size(data)
        part = Part(
            name=name,
            rows=len(block),
            size=len(data),
            diffs=int(block.diffs.sum()),
            retracts=bool((block.diffs < 0).any()),
            first=int(block.times.min()),
            last=int(block.times.max()),
            schema=schema.id,
            digest=digest(data),
            written=self.clock.now(),
            base=state.number,
            level=level,
            order=order,
            expires=None if validity is None else validity.expires(schema, block.columns),
            tail=tail,
            tail_digest=digest(memoryview(data)[len(data) - tail :]) if tail else "",
            stats=known.encoded(lambda: text_bounds(data)),
        )
        if inline and not tail and len(data) <= self.config.inline_bytes:
            return replace(part, data=data)
        self._put(part, data)
        return part

    def _put(self, part: Part, data: bytes) -> None:
        try:
            self.machine.objects.put(part.name, data)
        except StoreError:
            self.discard([part])  # it may exist nevertheless; it was never proposed
            raise

    def store_deletions(self, state: State, records: pa.Table) -> StoredDeletions:
        """Deletions that nothing refers to yet, ready for `commit`; large bitmaps are stored as an object."""
        if records.column("bitmap").nbytes <= MAX_INLINE_BYTES:
            return StoredDeletions(records, {})
        check_disjoint(records)  # nobody reads the object when the records are added
        name = f"del/{state.shard}/{secrets.token_hex(12)}"
        self.machine.objects.put(name, bitmaps_to_object(records))
        return StoredDeletions(in_object(records, name), {name: state.number})

    def commit(
        self,
        parts: Sequence[Part],
        *,
        at: int | Callable[[State], int] | None,
        token: str,
        positions: Mapping[str, Any] | Callable[[State], Mapping[str, Any]] | None = None,
        check: Callable[[State], None] = lambda _: None,
        deletions: StoredDeletions | None = None,
    ) -> Appended:
        """Makes stored parts visible at one time, and rows of earlier parts deleted, by one entry of the log.

        `check` gets the state that the entry would follow, and may raise: then nothing is appended. `positions` and `at` may be
        functions of that state too.

        A second call with the same token does nothing, with the same parts or with others. So parts that it did not append are
        not deleted here: an earlier call may have appended them.
        """
        done: tuple[Part, ...] = ()
        deleted = 0

        def propose(state: State) -> Append | None:
            nonlocal done, deleted
            done, deleted = (), 0
            if token in state.tokens:
                return None
            check(state)
            self.check_parts(state, parts)
            time = self.stamp(state, at(state) if callable(at) else at)
            done = tuple(replace(part, first=time, last=time) for part in parts)
            reached = dict((positions(state) if callable(positions) else positions) or {})
            if deletions is None:
                return Append(state.upper, time + 1, done, token, reached)
            self.check_objects(state, deletions.objects)
            deleted = deletions.rows
            return Append(state.upper, time + 1, done, token, reached, deletions.at(time))

        state = self.machine.update(propose)
        self._count(done, deleted)
        return Appended(state.tokens[token] - 1, done)

    def _count(self, parts: Sequence[Part], deleted: int) -> None:
        """Counts appended parts and deleted rows in the metrics."""
        if parts or deleted:
            self.metrics.add("appends")
        if deleted:
            self.metrics.add("rows", deleted, what="deleted")
        if parts:
            self.metrics.add("appended_parts", len(parts))
            self.metrics.add("appended_bytes", sum(part.size for part in parts))
            self.metrics.add("rows", sum(part.rows for part in parts), what="appended")

    def check_parts(self, state: State, parts: Sequence[Part]) -> None:
        """Raises if sweep took one of these parts for an orphan, or if they may break a NOT NULL."""
        versions = {part.schema for part in parts} - {state.schema.id}
        if any(state.schema.demands_more_than(state.schema_version(one)) for one in versions):
            raise ConflictError(_ALTERED, hint="try again")
        self.check_objects(state, {part.name: part.base for part in parts if not part.data})

    def check_objects(self, state: State, objects: Mapping[str, int]) -> None:
        """Raises if sweep took one of these objects (name → state before it) for an orphan.

        The fence of sweep is an entry of the log. A part that was written after the newest fence was not considered. Of the
        others, a part that is to be deleted is among the garbage until it is deleted. So a part that is neither garbage nor gone,
        in a state that was read before, is safe: the entry after this state is ours, or else this check is repeated.
        """
        doubtful = [name for name, base in objects.items() if base < state.fence]
        swept = set(doubtful).intersection(item.name for item in state.garbage)
        for name in doubtful:
            if name in swept or not self._exists(name):
                raise PartSwept(f"{name} was swept before it could be appended", hint="write it again")

    def _exists(self, name: str) -> bool:
        try:
            self.machine.objects.get_ranges(name, [(0, 1)])
        except MissingObject:
            return False
        return True

    @contextmanager
    def writing(self) -> Iterator[list[Part]]:
        """A list for parts that are being written: a failure deletes them, unless they may be appended.

        If the store does not say whether they were, they may be: a proposal can arrive after its writer has given up.
        """
        parts: list[Part] = []
        try:
            yield parts
        except IndeterminateError:
            raise
        except TidegateError:
            self.discard(parts)
            raise

    def discard(self, parts: Sequence[Part]) -> None:
        """Deletes parts that no proposal can append any more; never one that the newest state names.

        What cannot be deleted or checked stays an orphan, which sweep finds.
        """
        self.discard_objects([part.name for part in parts if not part.data])

    def discard_objects(self, names: Sequence[str]) -> None:
        """The same for objects by their names."""
        if not names:
            return
        try:
            unused = unreferenced(self.machine.fetch(), names)
        except TidegateError:
            return
        for name in unused:
            with suppress(StoreError):
                self.machine.blob.delete(name)

    def stamp(self, state: State, at: int | None) -> int:
        """The time of the next batch: `at`, or now; a `TimeError` if that is not possible."""
        if state.dropped:
            raise Conflict("the collection was dropped")
        now = self.clock.now()
        check_upper(state.upper, now, self.config, "append")
        if at is None:
            return max(now, state.upper)
        if at < state.upper or at > LAST_TIME:
            any_time = f"any time from {state.upper} to {LAST_TIME} will do; without `at`, it is now"
            raise TimeError(
                f"cannot append at {at}: the collection is complete up to {state.upper}",
                hint=unit_of(at, now) or any_time,
            )
        check_time(at, now, self.config, "append")
        return at


def sort_order(state: State, schema: Schema, *, retracts: bool) -> tuple[int, ...]:
    """The columns, by id, that a part is sorted by.

    First those of CLUSTER BY. If rows must be found again to be retracted, all others follow, those of fixed width first: they
    decide most often, and are cheapest to read.
    """
    there = [column.id for column in schema.columns]
    cluster = [id_ for id_ in state.options.get(shard_options.CLUSTER_BY, ()) if id_ in there]
    if state.monotonic and not retracts:
        return tuple(cluster)
    narrow = [column.id for column in schema.columns if is_narrow(column.type)]
    return tuple(dict.fromkeys([*cluster, *narrow, *there]))
