"""Folding: rows that lie scattered among the parts of a collection go back to their neighbours.

    part 1   ids 1 … 100        part 3   ids 2, 104, 180: the new rows of an UPDATE
    part 2   ids 101 … 200

    folded   1 2 … 100 | 101 … 104 … 180 … 200

Until then each look-up by id opens part 3 besides. The scattered rows are read once, and divided by the least values of the other
parts; then each of these is read, joined with its share, and sorted. So memory holds the scattered rows and one other part, however
many parts there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.maintain.merge_parts import blocks_of_bytes, part_updates
from tidegate.storage.maintain.natural_order import PartRanges
from tidegate.storage.maintain.rewrite import Aging
from tidegate.storage.part.merge import Block, concat, sort_block
from tidegate.storage.part.part import Part
from tidegate.storage.shard.shard import INFLATION, Shard

MAX_SCATTERED_BYTES = 128 << 20
"""Bytes of scattered parts, as they are stored, that are held in memory to be folded."""


def can_fold(group: Sequence[Part], ranges: PartRanges) -> bool:
    """Whether some parts of a group are scattered among the others, and fit into memory."""
    among = ranges.scattered()
    size = sum(part.size for part, scattered in zip(group, among, strict=True) if scattered)
    return bool(among.any()) and size <= MAX_SCATTERED_BYTES


def folded_blocks(
    shard: Shard, aging: Aging, group: Sequence[Part], order: Sequence[int], ranges: PartRanges
) -> Iterator[Block]:
    """The updates of a group, sorted, as blocks of the size of a part; `ranges` are those of its parts.

    Identical updates are not consolidated: the shard has no retractions that are rows.
    """
    return blocks_of_bytes(_sorted(shard, aging, group, order, ranges), INFLATION * shard.config.part_bytes)


def _sorted(
    shard: Shard, aging: Aging, group: Sequence[Part], order: Sequence[int], ranges: PartRanges
) -> Iterator[Block]:
    """The updates of each part that is not scattered, with those that belong between them."""

    def updates(at: int) -> list[Block]:
        return [block for block in part_updates(shard, aging, group[at], ranged=False) if len(block)]

    among, places = ranges.scattered(), [aging.ids.index(id_) for id_ in order]
    apart = np.flatnonzero(~among)
    apart = apart[np.argsort(ranges.low[apart], kind="stable")]
    moved = [block for at in np.flatnonzero(among).tolist() for block in updates(at)]
    scattered = concat(moved) if moved else None
    shares = (
        None
        if scattered is None
        else _shares(scattered.columns[places[0]], ranges.least.take(pa.array(apart[1:])))
    )
    for i, at in enumerate(apart.tolist()):
        blocks = updates(at)
        if scattered is not None and shares is not None and len(share := np.flatnonzero(shares == i)):
            blocks.append(scattered.take(share))
        if blocks:
            yield sort_block(concat(blocks), places)


def _shares(values: pa.Array, starts: pa.Array) -> np.ndarray:
    """Between which of the rising `starts` each value lies: 0 is before the first; NULL is the last."""
    ranks = pc.rank(pa.concat_arrays([starts.cast(values.type), values]), tiebreaker="dense").to_numpy()
    return np.asarray(np.searchsorted(ranks[: len(starts)], ranks[len(starts) :], side="right"))
