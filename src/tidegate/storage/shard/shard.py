"""A shard, and appending to it: parts first, then one entry of the log that makes all of them part of the collection.

    shard = Shard(Machine(consensus, blob, "shard/s1"))
    shard.append(table)                            now, or as soon after `upper` as it must be
    shard.append(table, at=5_000, token="batch 7")  at that time; again with the same token: nothing happens
    shard.append(table, diff=-1)                   retracts these rows

| what goes wrong | what is there afterwards |
|---|---|
| the rows do not fit the schema; `at` is below `upper` | nothing: no part is left |
| another writer was faster | without `at`: the batch, at a later time; its parts are not written again |
| the answer of the store is lost | all of the batch or nothing. With the same token it can be appended again: it is there once |
| killed between the parts and the entry | nothing; the parts are orphans, which `sweep` deletes when their grace is over |
| it slept so long that its parts were swept | the batch: its parts are written again |

**What may be deleted.** A part that was proposed to the log may be named by it from then on, whatever the store answered. So a
writer deletes its parts only if it never proposed them, or if each number that it proposed them for is another's; and
never one that the newest state names (`Shard.discard`). In all other cases they stay, for `sweep`.
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
from tidegate.errors import IndeterminateError, StoreError, TidegateError, TimeError
from tidegate.expr.types import Kind, Type
from tidegate.metrics import Metrics
from tidegate.shard.batch import Rows, conform, conform_diffs
from tidegate.shard.change import Append, Create, Part
from tidegate.shard.known import Known
from tidegate.shard.machine import Machine
from tidegate.shard.merge import Block, in_order
from tidegate.shard.pages import tail_size
from tidegate.shard.part import encode_part, text_bounds
from tidegate.shard.schema import Schema
from tidegate.shard.seal import digest
from tidegate.shard.state import FORMAT, Conflict, State, unnamed
from tidegate.shard.times import check_time, check_upper, unit_of
from tidegate.shard.validity import Validity
from tidegate.stats.summary import NOTHING, Summary
from tidegate.store.blob import Missing

CLUSTER = "cluster_by"
"""The option that names the columns, by id, that parts are sorted by."""
LAST_TIME = 2**63 - 2
INFLATION = 4
"""Bytes in memory that become about one byte of a part."""
REWRITES = 5
"""How often a batch whose parts grew too old is written again before the writer gives up."""

Describe = Callable[[Schema, list[pa.Array]], Summary]


def undescribed(_: Schema, __: list[pa.Array]) -> Summary:
    """No statistics: nothing is known of the part, so it is always read."""
    return NOTHING


class PartSwept(TidegateError):  # noqa: N818  # reads as what it is
    """A part waited so long for its entry that sweep took it for an orphan: it must be written again."""


@dataclass(frozen=True)
class Appended:
    """What an append did."""

    at: int
    """The time of its rows."""
    parts: tuple[Part, ...]
    """Empty if the token was known: it had been done before."""


@dataclass(eq=False)
class Shard:
    """One collection: what appends, reads, compacts and sweeps it share."""

    machine: Machine
    config: Config = field(default_factory=Config)
    describe: Describe = undescribed
    """Gives the encoded statistics of a part's columns: some for the state, some for the file."""
    metrics: Metrics = field(default_factory=Metrics)
    """Where appends are counted."""

    @staticmethod
    def create(
        machine: Machine, schema: Schema, options: Mapping[str, Any] | None = None, **more: Any
    ) -> Shard:
        """A new, empty collection; its name is the last word of the machine's key."""
        name = machine.key.rpartition("/")[2]
        machine.create(Create(FORMAT, name, schema.to_json(), dict(options or {})))
        return Shard(machine, **more)

    @property
    def clock(self) -> Clock:
        """Where the time comes from."""
        return self.machine.clock

    def append(
        self,
        rows: Rows,
        *,
        at: int | None = None,
        diff: Any = 1,
        token: str | None = None,
        positions: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Appends rows as one batch: all of them, at one time, or none. See the module's docstring."""
        token = token or secrets.token_hex(16)
        state = self.machine.fetch()
        if token in state.tokens:
            return Appended(state.tokens[token] - 1, ())
        schema = schema_of(state)
        columns = conform(schema, rows)
        diffs = conform_diffs(diff, len(columns[0]))
        block = Block(columns, np.full(len(diffs), self.stamp(state, at), np.int64), diffs)
        for attempt in range(1, REWRITES + 1):
            try:
                with self.writing() as written:
                    for part in self.write(state, schema, block):
                        written.append(part)
                    done = self.commit(written, at=at, token=token, positions=positions)
                    if not done.parts:
                        self.discard(written)  # another one with this token was faster, with parts of its own
                    return done
            except PartSwept:
                if attempt == REWRITES:
                    raise
        raise AssertionError("the last attempt raises")

    def write(self, state: State, schema: Schema, block: Block) -> Iterator[Part]:
        """Stores a batch as parts that nothing refers to yet, in the order that the shard wants."""
        order = order_of(state, schema, retracts=bool((block.diffs < 0).any()))
        if order and len(block):
            positions = [column.id for column in schema.columns]
            block = in_order(block, [positions.index(id_) for id_ in order])
        size = sum(column.nbytes for column in block.columns) + 16 * len(block)
        many = max(1, -(-size // (INFLATION * self.config.part_bytes)))
        step = -(-len(block) // many)
        for start in range(0, len(block), step or 1):
            yield self.store(state, schema, block.slice(start, min(start + step, len(block))), order)

    def store(
        self, state: State, schema: Schema, block: Block, order: tuple[int, ...], level: int = 0
    ) -> Part:
        """Stores updates as one part that nothing refers to yet."""
        known = self.describe(schema, block.columns)
        times, diffs = pa.array(block.times), pa.array(block.diffs)
        data = encode_part(schema, block.columns, times, diffs, known.pages, known.rosters)
        name = f"part/{state.shard}/{secrets.token_hex(12)}"
        validity = Validity.of(state.options)
        tail = tail_size(data)
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
        try:
            self.machine.attempt(lambda: self.machine.blob.put(name, data))
        except StoreError:
            self.discard([part])  # it may be there all the same; it was never proposed
            raise
        return part

    def commit(
        self,
        parts: Sequence[Part],
        *,
        at: int | Callable[[State], int] | None,
        token: str,
        positions: Mapping[str, Any] | Callable[[State], Mapping[str, Any]] | None = None,
        check: Callable[[State], None] = lambda _: None,
    ) -> Appended:
        """Makes stored parts of one time part of the collection, by one entry of the log.

        `check` is shown the state that the entry would follow, and may raise: then nothing was appended. `positions` and `at`
        may be made of that state too.

        With the same token this may be done again, with the same parts or others: it happens once. So parts that it did not
        append are not deleted here: they may be those that it did append before.
        """
        done: tuple[Part, ...] = ()

        def think(state: State) -> Append | None:
            nonlocal done
            done = ()
            if token in state.tokens:
                return None
            check(state)
            self.check_parts(state, parts)
            time = self.stamp(state, at(state) if callable(at) else at)
            done = tuple(replace(part, first=time, last=time) for part in parts)
            reached = positions(state) if callable(positions) else positions
            return Append(state.upper, time + 1, done, token, dict(reached or {}))

        state = self.machine.change(think)
        self._count(done)
        return Appended(state.tokens[token] - 1, done)

    def _count(self, parts: Sequence[Part]) -> None:
        """These parts were appended."""
        if parts:
            self.metrics.add("appends")
            self.metrics.add("appended_parts", len(parts))
            self.metrics.add("appended_bytes", sum(part.size for part in parts))
            self.metrics.add("rows", sum(part.rows for part in parts), what="appended")

    def check_parts(self, state: State, parts: Sequence[Part]) -> None:
        """Raises if sweep took one of these parts, which no state names yet, for an orphan.

        Its fence is an entry of the log. A part that was written after the newest fence was not in question. Of others, one that is
        to be deleted is among the garbage, until it is deleted: so what is neither garbage nor gone in a state that was read
        before is safe, as the entry that follows this state is ours, or else this is asked again.
        """
        doubtful = [part.name for part in parts if part.base < state.fence]
        swept = set(doubtful).intersection(item.name for item in state.garbage)
        for name in doubtful:
            if name in swept or not self._exists(name):
                raise PartSwept(f"{name} was swept before it could be appended", hint="write it again")

    def _exists(self, name: str) -> bool:
        try:
            self.machine.attempt(lambda: self.machine.blob.get_ranges(name, [(0, 1)]))
        except Missing:
            return False
        return True

    @contextmanager
    def writing(self) -> Iterator[list[Part]]:
        """A list for parts that are being written: on a failure they are deleted, unless they may have been appended.

        Where the store does not say whether they were, they may: a proposal can arrive after its writer has given up.
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
        """Deletes parts that no proposal can bring into the state any more, and never one that the newest state names.

        What the store does not let us delete, or look at, is an orphan, which sweep finds.
        """
        if not parts:
            return
        try:
            names = unnamed(self.machine.fetch(), [part.name for part in parts])
        except TidegateError:
            return
        for name in names:
            with suppress(StoreError):
                self.machine.blob.delete(name)

    def stamp(self, state: State, at: int | None) -> int:
        """The time of a batch that comes next: `at`, or now; a `TimeError` if it cannot be that."""
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


def schema_of(state: State) -> Schema:
    """The newest version of the schema."""
    kept: tuple[Any, Schema] = _schemas.get(
        id(state.schema), lambda: (state.schema, Schema.from_json(state.schema))
    )
    return kept[1]


_schemas = Known(256)
"""By the object that the state has, which is kept beside it and so stays the one of this number."""


def order_of(state: State, schema: Schema, *, retracts: bool) -> tuple[int, ...]:
    """The columns, by id, that a part is sorted by.

    Those of CLUSTER BY; and where rows must be found again to be retracted, all others behind them: those of a fixed width
    first, so that what decides most often is also what is cheapest to read.
    """
    there = [column.id for column in schema.columns]
    cluster = [id_ for id_ in state.options.get(CLUSTER, ()) if id_ in there]
    if state.monotonic and not retracts:
        return tuple(cluster)
    narrow = [column.id for column in schema.columns if is_narrow(column.type)]
    return tuple(dict.fromkeys([*cluster, *narrow, *there]))


def is_narrow(type_: Type) -> bool:
    """Whether every value of the type has the same few bytes."""
    return type_.kind not in (Kind.TEXT, Kind.JSONB, Kind.BYTEA, Kind.ARRAY, Kind.RECORD, Kind.UNKNOWN)
