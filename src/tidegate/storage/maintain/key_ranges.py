"""Divides parts by key, so that several workers can merge and sort what is too large for one.

    samples = [sample_keys(files, part, schema, key, stride) for part in parts]      where in each part which keys are
    points  = split_points(samples, 3)                                               two keys that make three ranges of one size
    ranges  = key_ranges(parts, samples, points)                                     for each, the pages of each part to be read

    part 1   a a b | c d d | e f f                       pages of 8,192 rows, sorted
    part 2   b b c | c c e
                     c       e                           split points: three ranges, [..c) [c..e) [e..)
    range 1  part 1: pages 0, 1     part 2: 0            and of these the rows below c
    range 2  part 1: pages 1, 2     part 2: 0, 1         and of these the rows from c to below e

Rows with equal keys are in one range, so consolidating each range by itself is exact, and sorted ranges are sorted as a whole. A
key consists of the first few columns of the order (`row_keys.py`); it need not distinguish all rows. In a sorted part a range is
one run of pages, so over all ranges each part is read about once. In a part that is not sorted a range may be anywhere: sort it
first.

Sampling reads the columns of the key once, and needs no statistics.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.maintain.merge_parts import blocks_of_bytes, merged, sorted_run, together
from tidegate.storage.maintain.rewrite import Aging
from tidegate.storage.part.merge import Block
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile, PartFiles
from tidegate.storage.part.row_keys import row_keys
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.shard import INFLATION, Shard
from tidegate.storage.stats.collect import PAGE_ROWS

KEY_COLUMNS = 4
"""The most columns of a key: enough to distinguish most rows, few enough to be read beside the rows."""
SLACK = 2
"""A range may be this many times as large as a part before it is written as two: the sizes of ranges are approximate."""


@dataclass(frozen=True)
class KeySample:
    """Where in a part which keys are: the least and the greatest of each page, and a sample of all keys."""

    lows: tuple[bytes, ...]
    highs: tuple[bytes, ...]
    samples: tuple[bytes, ...]
    rising: bool
    """The part is sorted."""


@dataclass(frozen=True)
class PartSlice:
    """The pages of a part that may hold rows of a range."""

    part: Part
    pages: Sequence[int]


@dataclass(frozen=True)
class KeyRange:
    """The rows of some parts with `low ≤ key < high`; None: no bound."""

    low: bytes | None
    high: bytes | None
    pieces: tuple[PartSlice, ...]


def key_of(order: Sequence[int]) -> tuple[int, ...]:
    """The columns of a key, by id."""
    return tuple(order[:KEY_COLUMNS])


def is_sorted(part: Part, order: Sequence[int]) -> bool:
    """Whether a part is sorted in this order."""
    return part.order[: len(order)] == tuple(order)


def sample_keys(files: PartFiles, part: Part, schema: Schema, key: Sequence[int], stride: int) -> KeySample:
    """Reads the columns of the key of a part, and samples every `stride`-th row."""
    file = files.open(part, schema)
    found = [_keys(file, schema, key, group, rows) for group, rows in enumerate(file.groups)]
    keys = pa.concat_arrays([pa.array([], pa.large_binary()), *found])
    if not len(keys):
        return KeySample((), (), (), rising=True)
    starts = [s.start + sum(file.groups[: s.group]) for s in _pages(file.groups)]
    ends = [*starts[1:], len(keys)]
    rising = is_sorted(part, key)
    if rising:
        lows, highs = (keys.take(pa.array(at, pa.int64())).to_pylist() for at in (starts, np.array(ends) - 1))
    else:
        both = [pc.min_max(keys[start:end]).as_py() for start, end in zip(starts, ends, strict=True)]
        lows, highs = ([found[which] for found in both] for which in ("min", "max"))
    # A random start: a part with fewer rows than a stride has a sample in proportion to its rows.
    first = int(np.random.default_rng(part.id).integers(stride))
    samples = keys.take(pa.array(np.arange(first, len(keys), stride))).to_pylist()
    return KeySample(tuple(lows), tuple(highs), tuple(samples), rising)


def _keys(file: PartFile, schema: Schema, key: Sequence[int], group: int, rows: int) -> pa.Array:
    types = {column.id: column.type for column in schema.columns}
    columns = file.read(key, [types[id_] for id_ in key], RowRange(group, 0, rows))
    return row_keys(columns, rows)


def _pages(groups: Sequence[int]) -> list[RowRange]:
    """The rows of a file in pages of 8,192, each within a row group."""
    return [
        RowRange(group, start, min(start + PAGE_ROWS, rows))
        for group, rows in enumerate(groups)
        for start in range(0, rows, PAGE_ROWS)
    ]


def split_points(outlines: Sequence[KeySample], many: int) -> list[bytes]:
    """Keys that divide all rows into about `many` ranges of about one size; fewer if keys repeat."""
    samples = sorted(key for found in outlines for key in found.samples)
    if not samples:
        return []
    at = (np.arange(1, many) * len(samples)) // many
    return [key for key in dict.fromkeys(samples[i] for i in at) if key > samples[0]]


def key_ranges(parts: Sequence[Part], outlines: Sequence[KeySample], cuts: Sequence[bytes]) -> list[KeyRange]:
    """The pages that each range must read.

    A part is read only for the ranges between its least and its greatest key.
    """
    bounds: list[bytes | None] = [None, *cuts, None]
    pieces: list[list[PartSlice]] = [[] for _ in bounds[1:]]
    for part, found in zip(parts, outlines, strict=True):
        if found.lows:
            first, last = bisect_right(cuts, min(found.lows)), bisect_right(cuts, max(found.highs))
            for at in range(first, last + 1):
                if pages := _meeting(found, bounds[at], bounds[at + 1]):
                    pieces[at].append(PartSlice(part, pages))
    ends = itertools.pairwise(bounds)
    return [KeyRange(low, high, tuple(some)) for (low, high), some in zip(ends, pieces, strict=True)]


def _meeting(found: KeySample, low: bytes | None, high: bytes | None) -> Sequence[int]:
    """The pages that may hold keys from `low` to below `high`."""
    if found.rising:
        first = 0 if low is None else bisect_left(found.highs, low)
        return range(first, len(found.lows) if high is None else bisect_left(found.lows, high))
    ends = enumerate(zip(found.lows, found.highs, strict=True))
    return [i for i, (a, b) in ends if (low is None or b >= low) and (high is None or a < high)]


def key_range_blocks(shard: Shard, aging: Aging, given: KeyRange, order: tuple[int, ...]) -> Iterator[Block]:
    """The sorted updates of a range, as blocks of the size of a part."""
    places = [aging.ids.index(id_) for id_ in order]

    def stream(piece: PartSlice) -> Iterator[Block]:
        return _updates(shard, aging, given, piece, places[: len(key_of(order))])

    sized = [(piece, min(piece.part.rows, len(piece.pages) * PAGE_ROWS)) for piece in given.pieces]
    piles = together(sized, shard.config.batch_rows)
    runs = [sorted_run(pile, stream, lambda piece: is_sorted(piece.part, order), places) for pile in piles]
    return blocks_of_bytes(merged(aging.state, places, runs), SLACK * INFLATION * shard.config.part_bytes)


def _updates(
    shard: Shard, aging: Aging, given: KeyRange, piece: PartSlice, key: Sequence[int]
) -> Iterator[Block]:
    """The updates of a part that belong to a range."""
    file = shard.machine.files.open(piece.part, aging.schema)
    ids, types = aging.ids, [column.type for column in aging.schema.columns]
    for rows in _runs(_pages(file.groups), piece.pages, shard.config.batch_rows):
        block = Block(file.read(ids, types, rows), file.times(rows), file.diffs(rows))
        block = aging.attach(block, piece.part, file.group_start(rows.group) + rows.start)
        inside = _inside(row_keys([block.columns[i] for i in key], len(block)), given)
        if len(block := block if inside is None else block.take(inside)):
            yield aging(block)


def _runs(pages: Sequence[RowRange], wanted: Sequence[int], most: int) -> Iterator[RowRange]:
    """Joins adjacent pages of a row group, up to `most` rows."""
    waiting: RowRange | None = None
    for at in wanted:
        found = pages[at]
        if (
            waiting is not None
            and (waiting.group, waiting.stop) == (found.group, found.start)
            and found.stop - waiting.start <= most
        ):
            waiting = RowRange(waiting.group, waiting.start, found.stop)
            continue
        if waiting is not None:
            yield waiting
        waiting = found
    if waiting is not None:
        yield waiting


def _inside(keys: pa.Array, given: KeyRange) -> np.ndarray | None:
    """Which rows belong to the range; None: all."""
    bounds = []
    if given.low is not None:
        bounds.append(pc.greater_equal(keys, pa.scalar(given.low, keys.type)))
    if given.high is not None:
        bounds.append(pc.less(keys, pa.scalar(given.high, keys.type)))
    if not bounds:
        return None
    inside: np.ndarray = (
        (bounds[0] if len(bounds) == 1 else pc.and_(*bounds)).to_numpy(zero_copy_only=False).astype(bool)
    )
    return None if inside.all() else inside
