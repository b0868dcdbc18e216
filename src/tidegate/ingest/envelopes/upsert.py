"""ENVELOPE UPSERT: the last record of a key is its row, and a record without a value deletes it.

The raw bytes of the key are stored with the row, in a hidden column, so the rows of a key can be looked up in the collection itself
and no other state is needed. The result of a split is determined after all of its records are read:

    records          k1 = a    k2 = b    k1 = c    k3 = (none)        in the order of the upstream
    last             k1 = c    k2 = b    k3 = (none)
    stored           (b, k2)   (d, k3)                                looked up by key: k1, k2, k3
    output           +(c, k1)  (d, k3) is deleted                     (b, k2) is stored already: nothing changes

A stored row is deleted at its position in its part. Where positions are not known, its retraction is written: -(d, k3).

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

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    StoredRows,
    empty_output,
    failed_records,
)
from tidegate.ingest.protocol import RecordChunk
from tidegate.plan.run import SafePlan
from tidegate.storage.part import Block, concat, consolidate, exact_keys
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
        """Returns the changes: the new rows, and deletions or retractions of the old rows of the keys."""
        if not self._last_records:
            return empty_output(self._types, RecordCounts(filtered=self._undecided))
        keys, fresh = _merge_last(self._last_records)
        self._last_records = []
        old, count = self._stored.rows(keys), len(fresh)
        if has_bounds(self._output):
            fresh = fresh.take(validity.still_valid(fresh.columns[-2], self._now))
            old = old.take(validity.still_valid(old.rows.columns[-2], self._now))
        kept, expired = len(fresh), count - len(fresh)
        counts = RecordCounts(kept=kept, filtered=self._undecided - count, expired=expired)
        hashes = np.sort(hash_keys(keys))
        if old.parts is not None:
            gone, new = _differences(old, fresh)
            deletions = self._stored.deletions(gone) if len(gone) else None
            return EnvelopeOutput(new.columns, None, [], counts, hashes, deletions)
        changes = consolidate(concat([replace(old.rows, diffs=-old.rows.diffs), fresh]), by_time=False)
        diffs = None if (changes.diffs == 1).all() else changes.diffs
        return EnvelopeOutput(changes.columns, diffs, [], counts, hashes)


def _differences(old: StoredRows, fresh: Block) -> tuple[StoredRows, Block]:
    """The stored rows to delete, and the rows to add: one that is stored exactly once, and fresh, stays."""
    stored = exact_keys(old.rows.columns, len(old))
    wanted = exact_keys(fresh.columns, len(fresh))
    single = np.flatnonzero(old.rows.diffs == 1)
    coded = stored.take(pa.array(single)).dictionary_encode()
    # A key has one row. If a row is stored at several positions nevertheless, one of them is left.
    _, first = np.unique(coded.indices.to_numpy(), return_index=True)
    same = pc.is_in(coded.dictionary, value_set=wanted).to_numpy(zero_copy_only=False)
    gone = np.ones(len(old), bool)
    gone[single[first[same]]] = False
    left = stored.take(pa.array(np.flatnonzero(~gone)))
    known = pc.is_in(wanted, value_set=left).to_numpy(zero_copy_only=False)
    return old.take(gone), fresh.take(~known)


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
