"""Settling: retractions that came as rows become deletions by position.

    settle_retractions(shard)      how many rows were retracted by rows, and are deleted now

    before      part 1   a b c            part 2   -b at 50, +d at 50         every reader compares rows of both parts
    after       part 1   a b c            part 3   +d at 50                   part 3 replaces part 2
                position 1 deleted at 50                                      readers skip a position, and compare nothing

One entry of the log replaces the parts that retract, and deletes the rows in the parts that hold them (`Replace.settled`). Each
row is deleted at the time of its retraction, so AS OF every time and changes between two times stay as they were, except for the
form of a row that was retracted in another one. The state checks that as much is deleted as is no longer retracted.

| a retraction | |
|---|---|
| of a row that is stored once | the row is deleted at its position |
| of some occurrences of a row with a diff above 1 | the row is deleted, and the other occurrences are stored from that time on |
| of a row in a part that retracts itself | the row goes along to the new part, and is deleted there |
| of a row that is stored in an equal form only, `-0.0` for `0.0` | that row is deleted |
| that finds no equal row | stays as it is: there are more retractions than rows |

A retraction that finds nothing would find nothing again, as long as no part that is not later than it is added: what is appended
is later, so only maintenance and a repair add such parts. The option `LOOKED_UP` remembers how many parts there were, and the next
settling leaves out the parts whose retractions were looked up among all that matter.

Others may change the shard meanwhile. What they append does not matter. If they replace one of the parts, or delete rows of it, the
entry is refused, and all is looked up again in the newer state.

Retractions are held in memory, at most `retractions_in_memory` at once, or those of one part. The parts that may hold their rows
are read by pages, column by column (`storage/shard/retractions/locate.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError, StoreError
from tidegate.storage.maintain.merge_parts import (
    by_time,
    hold_planned_parts,
    level_of,
    merged_blocks,
    parts_of,
)
from tidegate.storage.maintain.rewrite import Aging, WrittenParts, write_parts
from tidegate.storage.part.bitmaps import unpack_positions
from tidegate.storage.part.deletions import NEVER, Deletions, PartRows
from tidegate.storage.part.merge import Block, concat, sort_block
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.part.part import Part
from tidegate.storage.retry import CONTENTION
from tidegate.storage.shard.changes import Configure, Replace
from tidegate.storage.shard.leases.lease import Lease
from tidegate.storage.shard.retractions.locate import LocatedRows, deletions_unchanged, locate
from tidegate.storage.shard.shard import PartSwept, Shard, sort_order
from tidegate.storage.shard.shard_options import LOOKED_UP
from tidegate.storage.shard.state import Conflict, State

ATTEMPTS = 5
"""How often the rows of some parts are looked up; if others are faster each time, the next settling does it."""


def settle_retractions(shard: Shard) -> int:
    """Turns retractions into deletions, as far as the rows are found; returns how many rows these delete."""
    state = shard.machine.fetch()
    if state.monotonic or state.dropped or not len(_retracting(state, state.next_id)):
        return 0
    count, limit, complete = 0, state.next_id, True
    with hold_planned_parts(shard) as lease:
        seen = np.zeros(0, np.int64)
        while len(ids := np.setdiff1d(_retracting(lease.state, limit), seen)):
            group = _first_group(shard, lease.state, ids)
            seen = np.union1d(seen, group)
            settled = _settle_group(shard, lease, group)
            count, complete = count + (settled or 0), complete and settled is not None
    if complete:
        _remember(shard, [limit, state.schema.id])
    if count:
        shard.metrics.add("rows", count, what="settled")
    return count


def _remember(shard: Shard, looked_up: list[int]) -> None:
    """Records that all retractions were looked up, for the next settling; without it that only does more."""

    def propose(state: State) -> Configure | None:
        known = state.options.get(LOOKED_UP)
        return None if state.monotonic or known == looked_up else Configure({LOOKED_UP: looked_up})

    with suppress(StoreError, Conflict):
        shard.machine.update(propose)


def _retracting(state: State, limit: int) -> np.ndarray:
    """The ids below `limit` of the parts with retractions to look up, that are not deleted as a whole."""
    found = [np.zeros(0, np.int64)]
    number, since = _looked_up(state)
    for table in state.parts.tables(["id", "rows", "last", "retracts"]):
        ahead = pc.or_(
            pc.greater_equal(table.column("id"), number), pc.greater_equal(table.column("last"), since)
        )
        wanted = pc.and_(table.column("retracts"), pc.less(table.column("id"), limit))
        chosen = table.filter(pc.and_(wanted, ahead))
        ids = chosen.column("id").to_numpy()
        alive = state.parts.deletions.totals(ids, NEVER)[0] < chosen.column("rows").to_numpy()
        found.append(ids[alive])
    return np.concatenate(found)


def _looked_up(state: State) -> tuple[int, int]:
    """The first part whose retractions are not looked up yet; the earliest time of it and later ones."""
    number, schema = state.options.get(LOOKED_UP, (0, state.schema.id))
    if schema != state.schema.id:  # without a dropped column, rows may be identical that were not
        return 0, 0
    later = (t.filter(pc.greater_equal(t.column("id"), number)) for t in state.parts.tables(["id", "first"]))
    return number, min(
        (pc.min(table.column("first")).as_py() for table in later if len(table)), default=NEVER
    )


def _first_group(shard: Shard, state: State, ids: np.ndarray) -> np.ndarray:
    """The earliest of these parts whose retractions together may be held in memory."""
    parts = parts_of(state, ids)
    # n rows with diffs of 1 and -1 that add up to d: (n - d) / 2 of them retract.
    totals = np.cumsum([max(1, (part.rows - part.diffs) // 2) for part in parts])
    many = max(1, int(np.searchsorted(totals, shard.config.retractions_in_memory, side="right")))
    return np.array(sorted(part.id for part in parts[:many]), np.int64)


def _settle_group(shard: Shard, lease: Lease, ids: np.ndarray) -> int | None:
    """Settles the retractions of these parts by one entry; tries again if others were faster.

    None if they always were.
    """
    for attempt in range(ATTEMPTS):
        lease.state = shard.machine.fetch()
        group = [part for part in parts_of(lease.state, ids) if part.retracts]
        if not group:
            return 0
        try:
            with shard.writing() as written:
                return _Settlement(shard, lease, group, written).run()
        except (Conflict, PartSwept):
            CONTENTION.wait(attempt)
    return None


@dataclass(frozen=True, eq=False)
class _Retractions:
    """The retractions of some parts, with where each of them is."""

    rows: Block
    parts: np.ndarray
    positions: np.ndarray


class _Settlement:
    """Settles the retractions of some parts."""

    def __init__(self, shard: Shard, lease: Lease, group: Sequence[Part], written: list[Part]) -> None:
        self.shard, self.lease, self.group, self.written = shard, lease, group, written
        self.state = lease.state
        self.order = sort_order(self.state, self.state.schema, retracts=False)
        self.ids = np.array(sorted(part.id for part in group), np.int64)

    def run(self) -> int:
        """Locates the rows, writes parts without the retractions, and replaces the group by these."""
        retractions = self._read()
        located = locate(
            self.shard.machine, self.state, retractions.rows, use_statistics=self.shard.config.stats_filter
        )
        assert located is not None
        self.lease.keep()
        if not located.deletions.num_rows:
            return 0
        own = np.isin(located.deletions.column("part").to_numpy(), self.ids)
        inside, outside = (located.deletions.filter(pa.array(flags)) for flags in (own, ~own))
        settling = _Settling(
            self.shard, self.state, self.group, retractions, located.left, Deletions((inside,))
        )
        made = WrittenParts.join([*self._rewrite(settling), *self._store_rest(settling, located)])
        self._replace(made, outside, settling.retracted + int(located.rest.diffs.sum()))
        return int(pc.sum(located.deletions.column("rows"), min_count=0).as_py())

    def _read(self) -> _Retractions:
        """The retractions of the group that are not deleted themselves."""
        schema, machine = self.state.schema, self.shard.machine
        ids, types = [c.id for c in schema.columns], [c.type for c in schema.columns]
        empty = [pa.array([], type_.arrow) for type_ in types]
        none = np.zeros(0, np.int64)
        blocks, parts, positions = [Block(empty, none, none)], [none], [none]
        bitmaps = self.state.parts.deletions.bitmaps(PartRows.of(self.group), NEVER, machine.objects.get)
        for part, packed in zip(self.group, bitmaps, strict=True):
            file, start = machine.files.open(part, schema), 0
            deleted = unpack_positions(packed)
            for group, count in enumerate(file.groups):
                rows = RowRange(group, 0, count)
                rows = rows.narrow(np.flatnonzero(file.diffs(rows) < 0)).without(deleted - start)
                if len(rows):
                    blocks.append(Block(file.read(ids, types, rows), file.times(rows), file.diffs(rows)))
                    positions.append(start + rows.places())
                    parts.append(np.full(len(rows), part.id))
                start += count
                self.lease.keep()
        return _Retractions(concat(blocks), np.concatenate(parts), np.concatenate(positions))

    def _rewrite(self, settling: _Settling) -> Iterator[WrittenParts]:
        """Writes the other updates of the group, neighbours together up to the size of a part."""
        for pile in self._piles():
            own: list[Part] = []
            settling.ended = settling.applied = 0
            try:
                blocks = self._kept_alive(merged_blocks(self.shard, settling, pile, self.order))
                yield write_parts(self.shard, settling, blocks, self.order, level_of(pile), own)
            finally:
                self.written += own

    def _piles(self) -> Iterator[list[Part]]:
        """Parts of the group that follow each other in time, up to the size of a part together."""
        place = {id_: i for i, id_ in enumerate(by_time(self.state).column("id").to_pylist())}
        pile: list[Part] = []
        for part in self.group:
            size = sum(member.size for member in pile) + part.size
            if pile and (place[part.id] != place[pile[-1].id] + 1 or size > self.shard.config.part_bytes):
                yield pile
                pile = []
            pile.append(part)
        yield pile

    def _kept_alive(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            self.lease.keep()
            yield block

    def _store_rest(self, settling: _Settling, located: LocatedRows) -> Iterator[WrittenParts]:
        """Writes what is left of rows with a diff above 1."""
        if not len(located.rest):
            return
        settling.ended = settling.applied = 0
        extra = [pa.array(located.rest_ends), pa.array(np.zeros(len(located.rest), np.int64))]
        block = settling(replace(located.rest, columns=[*located.rest.columns, *extra]))
        block = sort_block(block, [settling.ids.index(id_) for id_ in self.order])
        own: list[Part] = []
        try:
            yield write_parts(
                self.shard, settling, [block] if len(block) else [], self.order, level_of(self.group), own
            )
        finally:
            self.written += own

    def _replace(self, made: WrittenParts, outside: pa.Table, retracted: int) -> None:
        """Makes the entry, if none of the parts was replaced, and no row of them deleted meanwhile."""
        before = sum(part.diffs for part in self.group)
        after = sum(part.diffs for part in made.parts) + made.ended - retracted
        if before != after:
            raise CorruptError(
                f"settling {self.state.shard} turned a sum of diffs of {before} into {after}",
                hint="nothing was changed",
            )
        targets = np.union1d(self.ids, outside.column("part").to_numpy())
        carried, settled = (self.shard.store_deletions(self.state, r) for r in (made.deletions, outside))

        def propose(newest: State) -> Replace:
            if newest.repaired != self.state.repaired or not deletions_unchanged(self.state, newest, targets):
                raise Conflict("the parts with the retracted rows were changed meanwhile")
            self.shard.check_objects(newest, {part.name: part.base for part in made.parts})
            self.shard.check_objects(newest, {**carried.objects, **settled.objects})
            return Replace(
                tuple(part.id for part in self.group),
                made.parts,
                ended=made.ended,
                deletions=carried.records,
                applied=made.applied,
                settled=settled.records,
                retracted=retracted,
            )

        try:
            self.shard.machine.update(propose)
        except (Conflict, PartSwept):
            self.shard.discard_objects([*carried.objects, *settled.objects])
            raise


class _Settling(Aging):
    """Leaves out the retractions that have found their rows.

    Rows of the group that these retract are deleted in the new parts.
    """

    def __init__(
        self,
        shard: Shard,
        state: State,
        group: Sequence[Part],
        retractions: _Retractions,
        left: np.ndarray,
        inside: Deletions,
    ) -> None:
        """`left`: the diff of each retraction that stays. `inside`: the rows of the group that are deleted."""
        fetch = shard.machine.objects.get
        ids = np.array([part.id for part in group], np.int64)
        deletions = state.parts.deletions.only(ids).add(inside.records)
        # Equal rows stay rows of their own: as one with a diff of 2 they could not be deleted one by one.
        super().__init__(replace(state, monotonic=True), state.schema, deletions, fetch)
        self.retracted = 0
        """By how much the sum of diffs has grown."""
        self._left = {
            part.id: (retractions.positions[mine], left[mine])
            for part in group
            if len(mine := np.flatnonzero(retractions.parts == part.id))
        }

    def attach(self, block: Block, part: Part, start: int) -> Block:
        """As for any rewritten part, without the retractions that are settled."""
        attached = super().attach(block, part, start)
        if part.id not in self._left:
            return attached
        positions, left = self._left[part.id]
        first, last = np.searchsorted(positions, (start, start + len(block)))
        diffs = block.diffs.copy()
        diffs[positions[first:last] - start] = left[first:last]
        self.retracted += int(diffs.sum() - block.diffs.sum())
        attached = replace(attached, diffs=diffs)
        return attached if diffs.all() else attached.take(diffs != 0)
