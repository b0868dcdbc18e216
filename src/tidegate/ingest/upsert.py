"""ENVELOPE UPSERT: the last record of a key is its row, and a record without a value ends it.

The raw bytes of the key are kept behind the row, in a hidden column, so the rows of a key are found in the collection itself and
nothing is remembered elsewhere. What the records of a split say is known once all of them are read:

    records          k1 = a    k2 = b    k1 = c    k3 = (none)        in the order of the upstream
    last             k1 = c    k2 = b    k3 = (none)
    stored           (b, k2)   (d, k3)                                looked up by key: k1, k2, k3
    made             +(c, k1)  -(d, k3)                               (b, k2) is there already: nothing changes

| the last record of a key | its row |
|---|---|
| passes the transform | the transform of it |
| is dropped by the transform | none |
| fails: no JSON, a cast | none, and it is among the errors |
| is a tombstone | none |
| is dropped by TRANSFORM BEFORE ENVELOPE | is not seen here: the record before it counts |

Every record that fails is reported, also one that a later record replaces. Records without a key fail.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.expr.outcome import raw_bytes
from tidegate.ingest.definition import Output, Source
from tidegate.ingest.envelope import Inputs, bad_records, bounded, picked, without
from tidegate.ingest.made import Counts, Given, Made, Stored, failed, nothing
from tidegate.ingest.source import Chunk
from tidegate.plan.safe import SafePlan
from tidegate.shard.merge import Block, concat, summed
from tidegate.shard.validity import still_valid

_KEY = pa.binary()
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)
_NO_KEY = "the record has no key, so ENVELOPE UPSERT cannot tell which row it is about"


class Upsert:
    """The records of one split, of which only the last of each key count."""

    def __init__(self, source: Source, output: Output, now: int, stored: Stored) -> None:
        self._output, self._now, self._stored = output, now, stored
        self._inputs = Inputs(source, now)
        self.decode, left = output.format.take(output.plan if output.before is None else output.before)
        self._left = SafePlan(left)
        self._after = None if output.before is None else SafePlan(output.plan)
        self._types = [*(type_.arrow for type_ in output.plan.types), _KEY]
        self._seen: list[_Last] = []
        self._open = 0

    def chunk(self, chunk: Chunk) -> Made:
        """Notes the last record of each key; only failures are known for good."""
        if chunk.keys is None:
            raise SourceError("ENVELOPE UPSERT needs records with keys, and these have none", again=False)
        count = chunk.decoded.count
        gone = np.zeros(count, bool) if chunk.gone is None else chunk.gone
        keyless = chunk.keys.is_null().to_numpy(zero_copy_only=False)
        rows = without(self._inputs.of(chunk), gone | keyless)
        bad, reached = list(rows.bad), ~keyless
        if self._after is not None:
            before = self._left.evaluate(rows.columns, len(rows))
            bad += bad_records(before, rows.records)
            rows = Given(before.columns, rows.records[before.selection])
            reached = gone & ~keyless
            reached[rows.records] = True
            reached[[number for number, _ in bad]] = True
        made = (self._after or self._left).evaluate(rows.columns, len(rows))
        bad += bad_records(made, rows.records)
        bad += [(int(number), _NO_KEY) for number in np.flatnonzero(keyless)]
        self._note(chunk.keys, reached, made.columns, rows.records[made.selection])
        self._open += count - len(bad)
        counts = Counts(count, chunk.decoded.size, bad=len(bad))
        return Made(nothing(self._types).columns, None, failed(chunk, bad), counts)

    def _note(
        self, keys: pa.Array, reached: np.ndarray, columns: list[pa.Array], records: np.ndarray
    ) -> None:
        """The last record of each key of a chunk, and its row."""
        numbers = np.flatnonzero(reached)
        if not len(numbers):
            return
        some = keys.cast(_KEY) if len(numbers) == len(keys) else keys.cast(_KEY).take(pa.array(numbers))
        distinct, last = _last(some)
        row = np.full(len(keys), -1)
        row[records] = np.arange(len(records))
        rows = row[numbers[last]]
        there = rows >= 0
        self._seen.append(_Last(distinct, there, picked(columns, rows[there])))

    def finish(self) -> Made:
        """What changes: old rows of the keys, and new ones."""
        if not self._seen:
            return nothing(self._types, Counts(filtered=self._open))
        keys, fresh = _newest(self._seen)
        self._seen = []
        old = self._stored.rows(keys)
        every = concat([Block(old.columns, np.zeros(len(old), np.int64), -old.diffs), fresh])
        expired = 0
        if bounded(self._output):
            alive = still_valid(every.columns[-2], self._now)
            expired = int((~alive[len(old) :]).sum())
            every = every.take(alive)
        made, kept = summed(every, by_time=False), len(fresh) - expired
        diffs = None if (made.diffs == 1).all() else made.diffs
        counts = Counts(kept=kept, filtered=self._open - kept - expired, expired=expired)
        return Made(made.columns, diffs, [], counts, np.sort(hashes(keys)))


class _Last:
    """Of some keys the last records: whether each has a row, and the rows of those that have."""

    def __init__(self, keys: pa.Array, there: np.ndarray, columns: list[pa.Array]) -> None:
        self.keys, self.there, self.columns = keys, there, columns


def _newest(seen: list[_Last]) -> tuple[pa.Array, Block]:
    """The keys of all chunks, and the rows of their last records with the key behind them."""
    keys = pa.concat_arrays([one.keys for one in seen])
    there = np.concatenate([one.there for one in seen])
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(one.columns for one in seen), strict=True)]
    distinct, last = _last(keys)
    found = last[there[last]]
    rows = (np.cumsum(there) - 1)[found]
    filled = [*picked(columns, rows), keys.take(pa.array(found))]
    return distinct, Block(filled, np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64))


def _last(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The distinct keys, and where each stands for the last time."""
    coded = keys.dictionary_encode()
    last = np.zeros(len(coded.dictionary), np.int64)
    codes = coded.indices.to_numpy()
    np.maximum.at(last, codes, np.arange(len(codes)))
    return coded.dictionary, last


def hashes(keys: pa.Array) -> np.ndarray:
    """64 bits for each key: the sum of its bytes, each times a power of an odd number, then mixed. Equal keys, equal bits."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset :][: len(keys) + 1].astype(np.int64)
    sizes = np.diff(offsets)
    letters = raw_bytes(keys).astype(np.uint64) + np.uint64(1)
    powers = np.multiply.accumulate(np.full(max(int(sizes.max(initial=0)), 1), _ODD))
    place = np.arange(len(letters)) - np.repeat(offsets[:-1] - offsets[0], sizes)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(letters * powers[place], dtype=np.uint64)])
    mixed = sums[offsets[1:] - offsets[0]] - sums[offsets[:-1] - offsets[0]]
    for shift in (30, 27):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    last: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return last
