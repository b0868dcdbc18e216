"""ENVELOPE UPSERT: the last record of a key is its row, and a record without a value deletes it.

The raw bytes of the key are stored with the row, in a hidden column, so the rows of a key can be looked up in the collection itself
and no other state is needed. The result of a split is determined after all of its records are read:

    records          k1 = a    k2 = b    k1 = c    k3 = (none)        in the order of the upstream
    last             k1 = c    k2 = b    k3 = (none)
    stored           (b, k2)   (d, k3)                                looked up by key: k1, k2, k3
    output           +(c, k1)  -(d, k3)                               (b, k2) is stored already: nothing changes

| the last record of a key | its row |
|---|---|
| passes the transform | its transform |
| is dropped by the transform | none |
| fails: not JSON, a cast | none, and the record is among the errors |
| is a tombstone | none |
| is dropped by TRANSFORM BEFORE ENVELOPE | the record does not reach the envelope: the one before it counts |

Every record that fails is reported, even if a later record replaces it. Records without a key fail.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.expr.model import outcome
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.inputs import (
    ChunkInputs,
    bad_records,
    has_bounds,
    take_rows,
    without_records,
)
from tidegate.ingest.envelopes.output import (
    EnvelopeOutput,
    PlanInput,
    RecordCounts,
    StoredRowLookup,
    empty_output,
    failed_records,
)
from tidegate.ingest.protocol import RecordChunk
from tidegate.plan.run import SafePlan
from tidegate.storage.part import Block, concat, consolidate
from tidegate.storage.shard import validity

_KEY = pa.binary()
_HASH_FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)
_NO_KEY = "the record has no key, so ENVELOPE UPSERT cannot tell which row it replaces"


class UpsertStep:
    """ENVELOPE UPSERT for one split."""

    def __init__(
        self, source: SourceDefinition, output: SourceOutput, now: int, stored: StoredRowLookup
    ) -> None:
        self._output, self._now, self._stored = output, now, stored
        self._inputs = ChunkInputs(source, now)
        self.decode, left = output.format.take(output.plan if output.before is None else output.before)
        self._left = SafePlan(left)
        self._after = None if output.before is None else SafePlan(output.plan)
        self._types = [*(type_.arrow for type_ in output.plan.types), _KEY]
        self._last_records: list[_LastRecords] = []
        self._undecided = 0

    def chunk(self, chunk: RecordChunk) -> EnvelopeOutput:
        """Collects the last record of each key; returns only failures."""
        if chunk.keys is None:
            raise SourceError("ENVELOPE UPSERT needs records with keys, and these have none", again=False)
        count = chunk.decoded.count
        gone = np.zeros(count, bool) if chunk.gone is None else chunk.gone
        keyless = chunk.keys.is_null().to_numpy(zero_copy_only=False)
        rows = without_records(self._inputs.of(chunk), gone | keyless)
        bad, reached = list(rows.bad), ~keyless
        if self._after is not None:
            before = self._left.evaluate(rows.columns, len(rows))
            bad += bad_records(before, rows.records)
            rows = PlanInput(before.columns, rows.records[before.selection])
            reached = gone & ~keyless
            reached[rows.records] = True
            reached[[number for number, _ in bad]] = True
        result = (self._after or self._left).evaluate(rows.columns, len(rows))
        bad += bad_records(result, rows.records)
        bad += [(int(number), _NO_KEY) for number in np.flatnonzero(keyless)]
        self._collect_last(chunk.keys, reached, result.columns, rows.records[result.selection])
        self._undecided += count - len(bad)
        counts = RecordCounts(count, chunk.decoded.size, bad=len(bad))
        return EnvelopeOutput(empty_output(self._types).columns, None, failed_records(chunk, bad), counts)

    def _collect_last(
        self, keys: pa.Array, reached: np.ndarray, columns: list[pa.Array], records: np.ndarray
    ) -> None:
        """Collects the last record of each key of a chunk, and its row."""
        numbers = np.flatnonzero(reached)
        if not len(numbers):
            return
        keys = keys.cast(_KEY)
        all_reached = len(numbers) == len(keys)
        distinct, last = _last_places(keys if all_reached else keys.take(pa.array(numbers)))
        row = np.full(len(keys), -1)
        row[records] = np.arange(len(records))
        rows = row[numbers[last]]
        has_row = rows >= 0
        self._last_records.append(_LastRecords(distinct, has_row, take_rows(columns, rows[has_row])))

    def finish(self) -> EnvelopeOutput:
        """Returns the changes: retractions of the old rows of the keys, and the new rows."""
        if not self._last_records:
            return empty_output(self._types, RecordCounts(filtered=self._undecided))
        keys, fresh = _merge_last(self._last_records)
        self._last_records = []
        old = self._stored.rows(keys)
        every = concat([Block(old.columns, np.zeros(len(old), np.int64), -old.diffs), fresh])
        expired = 0
        if has_bounds(self._output):
            alive = validity.still_valid(every.columns[-2], self._now)
            expired = int((~alive[len(old) :]).sum())
            every = every.take(alive)
        changes, kept = consolidate(every, by_time=False), len(fresh) - expired
        diffs = None if (changes.diffs == 1).all() else changes.diffs
        counts = RecordCounts(kept=kept, filtered=self._undecided - kept - expired, expired=expired)
        return EnvelopeOutput(changes.columns, diffs, [], counts, np.sort(hash_keys(keys)))


class _LastRecords:
    """The last record of each key: whether it has a row, and the rows of those that do."""

    def __init__(self, keys: pa.Array, has_row: np.ndarray, columns: list[pa.Array]) -> None:
        self.keys, self.has_row, self.columns = keys, has_row, columns


def _merge_last(chunks: list[_LastRecords]) -> tuple[pa.Array, Block]:
    """Merges chunks: returns the distinct keys, and the rows of their last records followed by the key."""
    keys = pa.concat_arrays([chunk.keys for chunk in chunks])
    has_row = np.concatenate([chunk.has_row for chunk in chunks])
    columns = [pa.concat_arrays(parts) for parts in zip(*(chunk.columns for chunk in chunks), strict=True)]
    distinct, last = _last_places(keys)
    with_row = last[has_row[last]]
    rows = (np.cumsum(has_row) - 1)[with_row]
    keyed = [*take_rows(columns, rows), keys.take(pa.array(with_row))]
    return distinct, Block(keyed, np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64))


def _last_places(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Returns the distinct keys, and the last position of each."""
    coded = keys.dictionary_encode()
    last = np.zeros(len(coded.dictionary), np.int64)
    codes = coded.indices.to_numpy()
    np.maximum.at(last, codes, np.arange(len(codes)))
    return coded.dictionary, last


def hash_keys(keys: pa.Array) -> np.ndarray:
    """Hashes each key to 64 bits: a sum of its bytes times powers of an odd number, then mixed."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset :][: len(keys) + 1].astype(np.int64)
    sizes = np.diff(offsets)
    letters = outcome.raw_bytes(keys).astype(np.uint64) + np.uint64(1)
    powers = np.multiply.accumulate(np.full(max(int(sizes.max(initial=0)), 1), _HASH_FACTOR))
    place = np.arange(len(letters)) - np.repeat(offsets[:-1] - offsets[0], sizes)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(letters * powers[place], dtype=np.uint64)])
    mixed = sums[offsets[1:] - offsets[0]] - sums[offsets[:-1] - offsets[0]]
    for shift in (30, 27):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    hashes: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return hashes
