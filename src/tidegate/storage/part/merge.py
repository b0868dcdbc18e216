"""Blocks of updates: consolidating identical rows, and merging sorted runs as they stream.

    Block     some updates: columns, and the time and diff of each row

    merge(runs, prefix)         windows of the updates of all runs, such that rows that are equal in the first columns of the
                                order are in the same window; memory holds one block of each run
    consolidate(block)          merges identical rows and adds their diffs; rows with a sum of zero disappear
    cancel_out(added, retracted) both without the rows that they have in common
    consolidate_rows(block)     the rows that exist; an error if one exists a negative number of times

How a window is found: each run holds a sorted block, and no row that a run has not shown yet comes before the last row that it has
shown. So all rows before the least of these last rows are complete, and leave together:

    run 1   a a b c | …       last c
    run 2   b d d   | …       last d         everything before c leaves: a a b, b

Rows that are equal to the bound stay, because the run may continue with more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError
from tidegate.storage.part.row_keys import exact_keys, has_ambiguous_equality, join_keys, row_keys, time_key

FIRST_BLOCK = 64
"""Rows of the first block that small ones are joined to."""
LARGE_BLOCK = 8 << 20
"""Bytes of a block that is not joined with others."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some updates."""

    columns: list[pa.Array]
    times: np.ndarray
    diffs: np.ndarray

    def __len__(self) -> int:
        return len(self.diffs)

    def take(self, rows: np.ndarray) -> Block:
        """These rows: positions, or a mask."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        index = pa.array(at)
        return Block([column.take(index) for column in self.columns], self.times[at], self.diffs[at])

    def slice(self, start: int, stop: int) -> Block:
        """Rows `start` to `stop`, without a copy."""
        columns = [column.slice(start, stop - start) for column in self.columns]
        return Block(columns, self.times[start:stop], self.diffs[start:stop])


def concat(blocks: Sequence[Block]) -> Block:
    """One block of all rows; there must be at least one block."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(block.columns for block in blocks), strict=True)]
    times, diffs = ([getattr(block, name) for block in blocks] for name in ("times", "diffs"))
    return Block(columns, np.concatenate(times), np.concatenate(diffs))


def growing(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """The same rows in blocks of at least 64, 128, … up to `most` rows, except the last.

    So a reader that needs few rows has them soon. Blocks of wide rows, which already have many bytes, are passed on as they are.
    """
    waiting: list[Block] = []
    rows, size, wanted = 0, 0, FIRST_BLOCK
    for block in blocks:
        waiting.append(block)
        rows += len(block)
        size += sum(column.nbytes for column in block.columns)
        if rows >= min(wanted, most) or size >= LARGE_BLOCK:
            yield concat(waiting)
            waiting, rows, size, wanted = [], 0, 0, 2 * wanted
    if waiting:
        yield concat(waiting)


def sort_block(block: Block, order: Sequence[int]) -> Block:
    """The rows sorted by the columns at these positions, then by time."""
    keys = row_keys([block.columns[i] for i in order], len(block))
    keys = join_keys(keys, time_key(block.times))
    return block.take(pc.sort_indices(keys).to_numpy())


def consolidate(block: Block, *, by_time: bool) -> Block:
    """Merges identical rows (of one time, with `by_time`), and drops those whose diffs add up to zero.

    The order is that of the first row of each group.
    """
    if not len(block):
        return block
    keys = exact_keys(block.columns, len(block))
    if by_time:
        keys = join_keys(keys, time_key(block.times))
    group, first, sums = _groups(keys, block.diffs)
    if len(first) == len(group):
        return block.take(block.diffs != 0) if (block.diffs == 0).any() else block
    alive = sums != 0
    return replace(block.take(first[alive]), diffs=sums[alive])


def cancel_out(added: Block, retracted: Block) -> tuple[Block, Block]:
    """Both blocks without the identical rows that they have in common, each as often as both have it."""
    if not len(added) or not len(retracted):
        return added, retracted
    wanted = exact_keys(retracted.columns, len(retracted))
    both = pc.is_in(exact_keys(added.columns, len(added)), value_set=wanted).to_numpy(zero_copy_only=False)
    if not both.any():
        return added, retracted
    left = consolidate(concat([added.take(both), retracted]), by_time=False)
    return concat([added.take(~both), left.take(left.diffs > 0)]), left.take(left.diffs < 0)


def _groups(keys: pa.Array, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The group of each row, the first row of each group, and the sum of its diffs.

    Groups are in the order of their first rows.
    """
    group = keys.dictionary_encode().indices.to_numpy()
    count = int(group.max()) + 1
    first = np.zeros(count, np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]
    sums = np.zeros(count, np.int64)
    np.add.at(sums, group, diffs)
    return group, first, sums


def consolidate_rows(block: Block, names: Sequence[str]) -> Block:
    """The rows that exist, each with how often.

    `names` are for the error if a row exists a negative number of times.
    """
    block = consolidate(block, by_time=False)
    if not (block.diffs < 0).any():
        return block
    if not has_ambiguous_equality(block.columns):
        row = int(np.flatnonzero(block.diffs < 0)[0])
        raise _negative(block, row, int(block.diffs[row]), names)
    # -0 was inserted and 0 retracted: they are equal, so the retraction removes the other.
    group, first, sums = _groups(row_keys(block.columns, len(block)), block.diffs)
    if (sums < 0).any():
        raise _negative(block, int(first[sums < 0][0]), int(sums[sums < 0][0]), names)
    left = _offset(group, block.diffs)
    return replace(block, diffs=left).take(left != 0)


def _offset(group: np.ndarray, diffs: np.ndarray) -> np.ndarray:
    """Subtracts negative diffs from others of the group, the last ones first; rare, so row by row."""
    left = diffs.copy()
    for number in np.unique(group[diffs < 0]):
        members = np.flatnonzero(group == number)
        debt = -int(left[members][left[members] < 0].sum())
        left[members[left[members] < 0]] = 0
        for row in members[::-1]:
            paid = min(debt, int(left[row]))
            left[row] -= paid
            debt -= paid
    return left


def _negative(block: Block, row: int, times: int, names: Sequence[str]) -> CorruptError:
    values = (
        f"{name} = {column[row].as_py()!r}"[:80] for name, column in zip(names, block.columns, strict=True)
    )
    return CorruptError(
        f"a row exists {times} times: {', '.join(list(values)[:20]) or '(no columns)'}",
        hint="it was retracted more often than it was appended",
    )


def repeat_rows(block: Block) -> list[pa.Array]:
    """The columns with each row as often as it exists."""
    if (block.diffs == 1).all():
        return block.columns
    at = pa.array(np.repeat(np.arange(len(block)), block.diffs))
    return [column.take(at) for column in block.columns]


class _Run:
    """A sorted stream of blocks, and those of its rows that have not left yet."""

    def __init__(self, blocks: Iterator[Block], prefix: Sequence[int]) -> None:
        self._blocks, self._prefix = blocks, prefix
        self.pending: Block | None = None
        self.keys: pa.Array = pa.array([], pa.large_binary())
        self.open = True

    def fill(self) -> None:
        """Reads on until the pending rows are not all equal: a window needs a row before the last."""
        while self.open and (not len(self.keys) or self.keys[0] == self.keys[-1]):
            block = next(self._blocks, None)
            if block is None:
                self.open = False
            elif len(block):
                keys = row_keys([block.columns[i] for i in self._prefix], len(block))
                self.pending = block if self.pending is None else concat([self.pending, block])
                self.keys = keys if not len(self.keys) else pa.concat_arrays([self.keys, keys])

    def leave(self, bound: bytes | None) -> Block | None:
        """Removes and returns the pending rows before `bound`, or all of them."""
        if self.pending is None:
            return None
        at = len(self.keys) if bound is None else _position(self.keys, bound)
        gone, rest = self.pending.slice(0, at), self.pending.slice(at, len(self.keys))
        self.pending, self.keys = (rest if len(rest) else None), self.keys.slice(at)
        return gone if len(gone) else None


def _position(keys: pa.Array, bound: bytes) -> int:
    """How many of the sorted keys are less than `bound`."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() < bound:
            low = middle + 1
        else:
            high = middle
    return low


def merge(runs: Sequence[Iterator[Block]], prefix: Sequence[int]) -> Iterator[Block]:
    """Windows of the updates of runs, each sorted by the columns at `prefix`; see the module docstring.

    Windows come in order; the rows inside a window do not.
    """
    waiting = [_Run(blocks, prefix) for blocks in runs]
    while waiting:
        for run in waiting:
            run.fill()
        bound = min((run.keys[-1].as_py() for run in waiting if run.open), default=None)
        window = [block for run in waiting if (block := run.leave(bound)) is not None]
        if window:
            yield concat(window)
        waiting = [run for run in waiting if run.open or run.pending is not None]


def common_prefix(orders: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The columns that all parts are sorted by."""
    common = orders[0]
    for order in orders:
        agree = np.array([a == b for a, b in zip(common, order, strict=False)], bool)
        common = common[: int(np.argmin(agree)) if len(agree) and not agree.all() else len(agree)]
    return common
