"""Reads the updates of several parts as one stream, in the order that new parts are written in.

    parts = parts_of(state, ids)                              in the order of their times
    merged_blocks(shard, Aging(…), parts, order)              their updates, sorted, as blocks of the size of a part

Parts that are sorted already are merged as they stream; small ones are read and sorted together. What is left out of the updates,
and where each goes, is up to `Aging` (`rewrite.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.maintain.rewrite import Aging, written_bytes
from tidegate.storage.part.merge import Block, concat, consolidate, merge, sort_block
from tidegate.storage.part.part import Part
from tidegate.storage.part.parts_table import PARTS_SCHEMA
from tidegate.storage.part.updates import blocks
from tidegate.storage.shard.leases.lease import Lease, hold_lease
from tidegate.storage.shard.shard import INFLATION, Shard
from tidegate.storage.shard.state import State

T = TypeVar("T")

MIN_LAST_SHARE = 0.25
"""The share of a full part that the rows left at the end must have to be a part of their own."""


def by_time(state: State) -> pa.Table:
    """The metadata that planning needs, in the order of the times of parts."""
    columns = ["id", "rows", "size", "first", "last", "retracts"]
    table = pa.concat_tables([PARTS_SCHEMA.empty_table().select(columns), *state.parts.tables(columns)])
    order = [("first", "ascending"), ("last", "ascending"), ("id", "ascending")]
    return table.take(pc.sort_indices(table, order))


def parts_of(state: State, ids: np.ndarray) -> list[Part]:
    """The parts with these ids, in the order of their times."""
    return sorted(state.parts.find(ids), key=lambda part: (part.first, part.last, part.id))


def hold_planned_parts(shard: Shard) -> Lease:
    """A lease that keeps planned parts from being swept if another compaction replaces them."""
    return hold_lease(shard, lambda state: max(state.since, state.upper - 1))


def level_of(group: Sequence[Part]) -> int:
    """The level of parts that are made from these."""
    return max(part.level for part in group) + 1


def merged_blocks(
    shard: Shard, aging: Aging, group: Sequence[Part], order: tuple[int, ...]
) -> Iterator[Block]:
    """The updates of the group, as blocks of the size of a part."""
    return blocks_of_bytes(_updates(shard, aging, group, order), INFLATION * shard.config.part_bytes)


def blocks_of_bytes(updates: Iterator[Block], limit: int) -> Iterator[Block]:
    """Blocks of at least `limit` bytes; the last may have a share of that, `MIN_LAST_SHARE`.

    Fewer rows at the end belong to the block before: a part of few rows costs each look-up as much as a large one.
    """
    full: list[Block] = []
    waiting: list[Block] = []
    size = 0
    for block in updates:
        if len(block):
            waiting.append(block)
            size += written_bytes(block)
        if full and size >= MIN_LAST_SHARE * limit:
            yield concat(full)
            full = []
        if size >= limit:
            full, waiting, size = waiting, [], 0
    if full or waiting:
        yield concat([*full, *waiting])


def part_updates(shard: Shard, aging: Aging, part: Part, *, ranged: bool) -> Iterator[Block]:
    """The updates of a part in their order, aged; `ranged`: other parts are read at the same time."""
    rows, at = shard.config.batch_rows, 0
    for block in blocks(shard.machine.objects, part, aging.schema, aging.ids, rows, ranged=ranged):
        yield aging(aging.attach(block, part, at))
        at += len(block)


def _updates(shard: Shard, aging: Aging, group: Sequence[Part], order: tuple[int, ...]) -> Iterator[Block]:
    """The updates of the group in the wanted order, aged, and consolidated if the shard retracts."""
    stream = partial(part_updates, shard, aging, ranged=bool(order))
    if not order:
        yield from itertools.chain.from_iterable(map(stream, group))
        return
    places = [aging.ids.index(id_) for id_ in order]
    piles = together([(part, part.rows) for part in group], shard.config.batch_rows)
    runs = [
        sorted_run(pile, stream, lambda part: part.order[: len(order)] == order, places) for pile in piles
    ]
    yield from merged(aging.state, places, runs)


def together(items: Sequence[tuple[T, int]], most: int) -> list[list[T]]:
    """Groups items, given with their numbers of rows, into piles of at most `most` rows.

    Merging takes time by the square of the number of runs, and holds a batch of each in memory. So parts that are smaller than a
    batch are sorted together into a run of about one batch. An item with more rows is a pile by itself.
    """
    piles: list[list[T]] = []
    total = most
    for item, rows in items:
        if total + rows > most:
            piles.append([])
            total = 0
        piles[-1].append(item)
        total += rows
    return piles


def sorted_run(
    pile: Sequence[T],
    stream: Callable[[T], Iterator[Block]],
    is_sorted: Callable[[T], bool],
    places: Sequence[int],
) -> Iterator[Block]:
    """The updates of a pile as one sorted stream.

    A single sorted item is streamed as it is; otherwise all items are read and sorted.
    """
    if len(pile) == 1 and is_sorted(pile[0]):
        yield from stream(pile[0])
        return
    found = [block for item in pile for block in stream(item)]
    if found:
        yield sort_block(concat(found), places)


def merged(state: State, places: Sequence[int], runs: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Merges sorted runs; identical updates are consolidated if the shard retracts."""
    for window in merge(runs, places):
        block = window if state.monotonic else consolidate(window, by_time=True)
        if len(block):
            yield sort_block(block, places)
