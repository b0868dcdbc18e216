"""ALTER SOURCE … REPLAY ERRORS: decodes and transforms bad records again.

    replay(source, shards)            ReplayResult(tried=120, succeeded=118)

A record that succeeds is appended to its collection and retracted from `<source>_errors`; one that fails again stays. Two shards
change, one after the other, so each records, with its rows, what was done:

    the collection    replay          {"token": "7c…", "done": [digests of the errors that its new rows came from]}
    the errors        replay/<shard>  "7c…"                      once they are retracted

If a collection has a token that the shard of errors does not have, an earlier replay was interrupted. The next replay finishes it:
it retracts the errors with these digests, and appends nothing. So each record is stored once, wherever a process is killed, even
if the transform has changed in between. A thousand errors are replayed at a time.

Only sources that never retract rows can be replayed. A record that failed in ENVELOPE UPSERT may have been replaced since, and a
row of PostgreSQL deleted: adding it now would bring it back.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConflictError, UnsupportedError
from tidegate.ingest.batch.position import OpenShard
from tidegate.ingest.batch.task import conform_columns
from tidegate.ingest.definition import ERRORS_COLUMNS, SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.bad_records import MAX_RAW_BYTES, decode_context
from tidegate.ingest.envelopes.output import EnvelopeOutput, upstream_columns
from tidegate.ingest.envelopes.step import envelope_step
from tidegate.ingest.protocol import RecordChunk
from tidegate.storage.part import Block
from tidegate.storage.shard import Shard, State, open_snapshot

REPLAY = "replay"
REPLAY_CHUNK_ROWS = 1000
_NAMES = [name for name, _ in ERRORS_COLUMNS]


@dataclass(frozen=True)
class ReplayResult:
    """The number of bad records that a replay tried, and how many succeeded."""

    tried: int
    succeeded: int

    @property
    def left(self) -> int:
        """The number of records that failed again."""
        return self.tried - self.succeeded


def replay(source: SourceDefinition, shards: OpenShard) -> ReplayResult:
    """Tries every bad record of a source again."""
    if source.retracts:
        raise UnsupportedError(
            f'errors of "{source.name}" cannot be replayed: their rows may have been changed or deleted since',
            hint="write the records again at their origin; or drop the source and create it again",
        )
    tried = succeeded = 0
    for output in source.outputs:
        _finish(source, output, shards)
        for rows in _error_chunks(source, output, shards):
            good = _replay_chunk(source, output, shards, rows)
            tried, succeeded = tried + rows.num_rows, succeeded + good
    return ReplayResult(tried, succeeded)


def _error_chunks(source: SourceDefinition, output: SourceOutput, shards: OpenShard) -> Iterator[pa.Table]:
    """Yields the errors of one collection in chunks, as they were when the replay began."""
    with open_snapshot(shards(source.errors)) as errors:
        tables = [pa.Table.from_batches([batch]) for batch in errors.batches(_NAMES)]
    for table in tables:
        mine = table.filter(pc.equal(table.column("collection"), output.name))
        for begin in range(0, mine.num_rows, REPLAY_CHUNK_ROWS):
            yield mine.slice(begin, REPLAY_CHUNK_ROWS).combine_chunks()


def _replay_chunk(source: SourceDefinition, output: SourceOutput, shards: OpenShard, rows: pa.Table) -> int:
    """Replays a chunk of errors; returns how many succeeded."""
    shard = shards(output.shard)
    now = shard.clock.now()
    outputs, failed = _transform(source, output, rows, now)
    good = np.setdiff1d(np.arange(rows.num_rows), failed)
    if not len(good):
        return 0
    state = shard.machine.fetch()
    before = state.positions.get(REPLAY)
    token = secrets.token_hex(8)
    digests = [_digest(row) for row in rows.take(pa.array(good)).to_pylist()]
    columns = [
        pa.concat_arrays(pieces)
        for pieces in zip(*(conform_columns(state.schema, rows.columns) for rows in outputs), strict=True)
    ]
    positions = {REPLAY: {"token": token, "done": digests}}
    _append(shard, columns, 1, positions, REPLAY, before)
    _finish(source, output, shards)
    return len(good)


def _transform(
    source: SourceDefinition, output: SourceOutput, rows: pa.Table, now: int
) -> tuple[list[EnvelopeOutput], np.ndarray]:
    """Decodes and transforms the records of errors; returns their rows, and which errors fail again."""
    step = envelope_step(source, output, now, None)
    contexts = [decode_context(data) if data else {} for data in rows.column("included").to_pylist()]
    wanted = {str(i) for i in range(len(upstream_columns(source)))}
    whole = np.array([wanted <= context.keys() for context in contexts], bool)
    # Errors from before the source included these columns cannot be replayed; nor can truncated records.
    sizes = pc.fill_null(pc.binary_length(rows.column("raw")), 0).to_numpy()
    usable = np.flatnonzero(whole & (sizes < MAX_RAW_BYTES))
    raws = rows.column("raw").combine_chunks().take(pa.array(usable))
    raws = pa.concat_arrays(raws.chunks) if isinstance(raws, pa.ChunkedArray) else raws
    included = [
        pa.concat_arrays([contexts[i][str(at)] for i in usable]) for at in range(len(wanted)) if len(usable)
    ]
    if not len(usable):
        return [], np.arange(rows.num_rows)
    chunk = RecordChunk(step.decode.records(raws), included, lambda record: {"row": int(usable[record])})
    outputs = [step.chunk(chunk), step.finish()]
    failed = [failure.position["row"] for rows_ in outputs for failure in rows_.failures]
    return outputs, np.union1d(np.setdiff1d(np.arange(rows.num_rows), usable), np.array(failed, np.int64))


def _finish(source: SourceDefinition, output: SourceOutput, shards: OpenShard) -> None:
    """Retracts the errors whose records are now in a collection, unless they are already retracted."""
    mark = shards(output.shard).machine.fetch().positions.get(REPLAY)
    errors = shards(source.errors)
    key = f"{REPLAY}/{output.shard}"
    last_token = errors.machine.fetch().positions.get(key)
    if mark is None or last_token == mark["token"]:
        return
    digests = set(mark["done"])
    with open_snapshot(errors) as pinned:
        replayed = [
            row
            for batch in pinned.batches(_NAMES)
            for row in batch.filter(pc.equal(batch.column("collection"), output.name)).to_pylist()
            if _digest(row) in digests
        ]
    types = {name: type_.arrow for name, type_ in ERRORS_COLUMNS}
    columns = [pa.array([row[name] for row in replayed], types[name]) for name in _NAMES]
    _append(errors, columns, -1, {key: mark["token"]}, key, last_token)


def _append(
    shard: Shard, columns: list[pa.Array], diff: int, positions: Mapping[str, Any], key: str, before: Any
) -> None:
    """Appends rows, unless another replay has changed the shard in the meantime."""

    def check(now: State) -> None:
        if now.positions.get(key) != before:
            raise ConflictError("another process is replaying the errors", hint="wait until it has finished")

    state = shard.machine.fetch()
    count = len(columns[0]) if columns else 0
    with shard.writing() as parts:
        if count:
            times = np.full(count, max(shard.clock.now(), state.upper), np.int64)
            parts += shard.write(state, state.schema, Block(columns, times, np.full(count, diff, np.int64)))
        shard.commit(parts, at=None, token=secrets.token_hex(16), positions=positions, check=check)


def _digest(row: Mapping[str, Any]) -> str:
    """Returns a digest that identifies an error within its collection."""
    parts = [
        str(row["position"]).encode(),
        row["message"].encode(),
        row["raw"] or b"",
        row["included"] or b"",
    ]
    digest = hashlib.blake2b(digest_size=12)
    for part in (str(row["at"]).encode(), *parts):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
