"""Parts cut by key, so that what is too large for one machine is merged and sorted by many.

    outlines = [outline(machine, part, schema, keys, stride) for part in parts]      where in each part which keys are
    cuts     = cut(outlines, 3)                                                      two keys that make three shares of one size
    shares   = share(parts, outlines, cuts)                                          for each, the rows of each part to be looked at

    part 1   a a b | c d d | e f f                       stretches of 8,192 rows, sorted
    part 2   b b c | c c e
                     c       e                           cuts: three shares, [..c) [c..e) [e..)
    share 1  part 1: stretches 0, 1     part 2: 0        and of these the rows below c
    share 2  part 1: stretches 1, 2     part 2: 0, 1     and of these the rows from c to below e

Rows with equal keys are in one share, so adding up what is identical share by share is exact, and sorted shares are sorted as a
whole. A key is that of a row's first few columns in the order (`rowkey.py`); it need not tell all rows apart. In a part that is
sorted a share is one run of stretches, so over all shares each part is read about once. In one that is not, a share may be
anywhere: sort it first.

An outline reads the columns of the key, once, and needs no statistics.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.shard.change import Part
from tidegate.shard.compact import Aging, gathered, merged, sorted_run, together
from tidegate.shard.file import PartFile
from tidegate.shard.machine import Machine
from tidegate.shard.merge import Block
from tidegate.shard.rowkey import row_keys
from tidegate.shard.schema import Schema
from tidegate.shard.splice import Rows
from tidegate.shard.writer import INFLATION, Shard
from tidegate.stats.collect import PAGE_ROWS

KEY_COLUMNS = 4
"""Columns of the order that a key has at most: enough to tell most rows apart, few enough to be read beside the rows."""
SLACK = 2
"""A share may be so much larger than a part before it is written as two: shares are about, and not exactly, of one size."""


@dataclass(frozen=True)
class Outline:
    """Where in a part which keys are: the least and the greatest of each stretch, and some of them all."""

    lows: tuple[bytes, ...]
    highs: tuple[bytes, ...]
    samples: tuple[bytes, ...]
    rising: bool
    """The part is sorted."""


@dataclass(frozen=True)
class Piece:
    """The stretches of a part that may hold rows of a share."""

    part: Part
    stretches: Sequence[int]


@dataclass(frozen=True)
class Share:
    """The rows of some parts with `low ≤ key < high`; None: no bound."""

    low: bytes | None
    high: bytes | None
    pieces: tuple[Piece, ...]


def key_of(order: Sequence[int]) -> tuple[int, ...]:
    """The columns of a key, by id."""
    return tuple(order[:KEY_COLUMNS])


def is_sorted(part: Part, order: Sequence[int]) -> bool:
    """Whether a part is in this order."""
    return part.order[: len(order)] == tuple(order)


def outline(machine: Machine, part: Part, schema: Schema, key: Sequence[int], stride: int) -> Outline:
    """Reads the key's columns of a part; every `stride`th row is a sample."""
    file = PartFile.open(machine, part)
    found = [_keys(file, schema, key, group, rows) for group, rows in enumerate(file.groups)]
    keys = pa.concat_arrays([pa.array([], pa.large_binary()), *found])
    if not len(keys):
        return Outline((), (), (), rising=True)
    starts = [s.start + sum(file.groups[: s.group]) for s in _stretches(file.groups)]
    ends = [*starts[1:], len(keys)]
    rising = is_sorted(part, key)
    if rising:
        lows, highs = (keys.take(pa.array(at, pa.int64())).to_pylist() for at in (starts, np.array(ends) - 1))
    else:
        both = [pc.min_max(keys[start:end]).as_py() for start, end in zip(starts, ends, strict=True)]
        lows, highs = ([found[which] for found in both] for which in ("min", "max"))
    # A part with fewer rows than a stride has a sample as often as its rows weigh.
    first = int(np.random.default_rng(part.id).integers(stride))
    samples = keys.take(pa.array(np.arange(first, len(keys), stride))).to_pylist()
    return Outline(tuple(lows), tuple(highs), tuple(samples), rising)


def _keys(file: PartFile, schema: Schema, key: Sequence[int], group: int, rows: int) -> pa.Array:
    types = {column.id: column.type for column in schema.columns}
    columns = file.read(key, [types[id_] for id_ in key], Rows(group, 0, rows))
    return row_keys(columns, rows)


def _stretches(groups: Sequence[int]) -> list[Rows]:
    """A file's rows by the 8,192, each within a row group."""
    return [
        Rows(group, start, min(start + PAGE_ROWS, rows))
        for group, rows in enumerate(groups)
        for start in range(0, rows, PAGE_ROWS)
    ]


def cut(outlines: Sequence[Outline], many: int) -> list[bytes]:
    """Keys that cut all rows into about `many` shares of about one size; fewer where keys repeat."""
    samples = sorted(key for found in outlines for key in found.samples)
    if not samples:
        return []
    at = (np.arange(1, many) * len(samples)) // many
    return [key for key in dict.fromkeys(samples[i] for i in at) if key > samples[0]]


def share(parts: Sequence[Part], outlines: Sequence[Outline], cuts: Sequence[bytes]) -> list[Share]:
    """What each share must look at. A part is asked only for the shares between its least and its greatest key."""
    bounds: list[bytes | None] = [None, *cuts, None]
    pieces: list[list[Piece]] = [[] for _ in bounds[1:]]
    for part, found in zip(parts, outlines, strict=True):
        if found.lows:
            first, last = bisect_right(cuts, min(found.lows)), bisect_right(cuts, max(found.highs))
            for at in range(first, last + 1):
                if stretches := _meeting(found, bounds[at], bounds[at + 1]):
                    pieces[at].append(Piece(part, stretches))
    ends = itertools.pairwise(bounds)
    return [Share(low, high, tuple(some)) for (low, high), some in zip(ends, pieces, strict=True)]


def _meeting(found: Outline, low: bytes | None, high: bytes | None) -> Sequence[int]:
    """The stretches with keys from `low` to below `high`, perhaps."""
    if found.rising:
        first = 0 if low is None else bisect_left(found.highs, low)
        return range(first, len(found.lows) if high is None else bisect_left(found.lows, high))
    ends = enumerate(zip(found.lows, found.highs, strict=True))
    return [i for i, (a, b) in ends if (low is None or b >= low) and (high is None or a < high)]


def outputs(shard: Shard, aging: Aging, given: Share, order: tuple[int, ...]) -> Iterator[Block]:
    """The updates of a share in the order, as blocks of the size of a part."""
    places = [aging.ids.index(id_) for id_ in order]

    def stream(piece: Piece) -> Iterator[Block]:
        return _updates(shard, aging, given, piece, places[: len(key_of(order))])

    sized = [(piece, min(piece.part.rows, len(piece.stretches) * PAGE_ROWS)) for piece in given.pieces]
    piles = together(sized, shard.config.batch_rows)
    runs = [sorted_run(pile, stream, lambda piece: is_sorted(piece.part, order), places) for pile in piles]
    return gathered(merged(aging.state, places, runs), SLACK * INFLATION * shard.config.part_bytes)


def _updates(shard: Shard, aging: Aging, given: Share, piece: Piece, key: Sequence[int]) -> Iterator[Block]:
    """The updates of a part that belong to a share."""
    file = PartFile.open(shard.machine, piece.part)
    ids, types = aging.ids, [column.type for column in aging.schema.columns]
    for rows in _runs(_stretches(file.groups), piece.stretches, shard.config.batch_rows):
        block = Block(file.read(ids, types, rows), file.times(rows), file.diffs(rows))
        inside = _inside(row_keys([block.columns[i] for i in key], len(block)), given)
        if len(block := block if inside is None else block.take(inside)):
            yield aging(block)


def _runs(stretches: Sequence[Rows], wanted: Sequence[int], most: int) -> Iterator[Rows]:
    """Stretches that follow each other in a row group, read together, at most so many rows at once."""
    waiting: Rows | None = None
    for at in wanted:
        found = stretches[at]
        if (
            waiting is not None
            and (waiting.group, waiting.stop) == (found.group, found.start)
            and found.stop - waiting.start <= most
        ):
            waiting = Rows(waiting.group, waiting.start, found.stop)
            continue
        if waiting is not None:
            yield waiting
        waiting = found
    if waiting is not None:
        yield waiting


def _inside(keys: pa.Array, given: Share) -> np.ndarray | None:
    """Which rows belong to the share; None: all."""
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
