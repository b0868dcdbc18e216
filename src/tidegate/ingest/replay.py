"""ALTER SOURCE … REPLAY ERRORS: bad records are decoded and transformed again, after a fix of the transform or of Tidegate.

    replay(source, shards)            Replayed(tried=120, succeeded=118)

What succeeds is appended to its collection, and retracted from `<source>_errors`; what fails again stays as it was. Two shards are
changed, one after the other, so each keeps what was done, with its rows:

    the collection    replay          {"token": "7c…", "done": [digests of the errors that its new rows came from]}
    the errors        replay/<shard>  "7c…"                      once they are retracted

Whoever finds a token in a collection that the errors do not have finishes what another one began: the errors with these digests are
retracted, nothing is appended again. So each record is there once, whatever is killed when, even if the transform was changed in
between. A heap of a thousand errors is done at a time.

Only where rows are added and never taken away. A record that failed in ENVELOPE UPSERT may have been replaced since, a row of
PostgreSQL deleted: to add it now would bring it back.
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
from tidegate.ingest import bad
from tidegate.ingest.definition import ERRORS_COLUMNS, Output, Source
from tidegate.ingest.envelope import asked, step
from tidegate.ingest.made import Made
from tidegate.ingest.pipeline import exact, retracting
from tidegate.ingest.source import Chunk
from tidegate.ingest.standing import Shards
from tidegate.shard.merge import Block
from tidegate.shard.reader import snapshot
from tidegate.shard.state import State
from tidegate.shard.writer import Shard, schema_of

REPLAY = "replay"
HEAP = 1000
_NAMES = [name for name, _ in ERRORS_COLUMNS]


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    tried: int
    succeeded: int

    @property
    def left(self) -> int:
        """Those that failed again."""
        return self.tried - self.succeeded


def replay(source: Source, shards: Shards) -> Replayed:
    """Tries every bad record of a source again."""
    if retracting(source):
        raise UnsupportedError(
            f'errors of "{source.name}" cannot be tried again: what they were about may have been changed or deleted since',
            hint="write the records again at their origin; or drop the source and create it again",
        )
    tried = succeeded = 0
    for output in source.outputs:
        _finish(source, output, shards)
        for rows in _heaps(source, output, shards):
            good = _again(source, output, shards, rows)
            tried, succeeded = tried + rows.num_rows, succeeded + good
    return Replayed(tried, succeeded)


def _heaps(source: Source, output: Output, shards: Shards) -> Iterator[pa.Table]:
    """The errors of one collection, some at a time, as they were at the beginning."""
    with snapshot(shards(source.errors)) as found:
        tables = [pa.Table.from_batches([batch]) for batch in found.batches(_NAMES)]
    for table in tables:
        mine = table.filter(pc.equal(table.column("collection"), output.name))
        for begin in range(0, mine.num_rows, HEAP):
            yield mine.slice(begin, HEAP).combine_chunks()


def _again(source: Source, output: Output, shards: Shards, rows: pa.Table) -> int:
    """Tries some errors; how many succeeded."""
    shard = shards(output.shard)
    now = shard.clock.now()
    made, failed = _made(source, output, rows, now)
    good = np.setdiff1d(np.arange(rows.num_rows), failed)
    if not len(good):
        return 0
    state = shard.machine.fetch()
    before = state.positions.get(REPLAY)
    token = secrets.token_hex(8)
    done = [_digest(row) for row in rows.take(pa.array(good)).to_pylist()]
    columns = [
        pa.concat_arrays(pieces)
        for pieces in zip(*(exact(schema_of(state), one.columns) for one in made), strict=True)
    ]
    positions = {REPLAY: {"token": token, "done": done}}
    _append(shard, columns, 1, positions, REPLAY, before)
    _finish(source, output, shards)
    return len(good)


def _made(source: Source, output: Output, rows: pa.Table, now: int) -> tuple[list[Made], np.ndarray]:
    """What the records of some errors give now, and which of them fail."""
    work = step(source, output, now, None)
    known = [bad.unkept(one) if one else {} for one in rows.column("included").to_pylist()]
    wanted = {str(i) for i in range(len(asked(source)))}
    whole = np.array([wanted <= one.keys() for one in known], bool)
    # Those that were kept when the source included less cannot be tried; nor can a record that was not kept whole.
    sizes = pc.fill_null(pc.binary_length(rows.column("raw")), 0).to_numpy()
    usable = np.flatnonzero(whole & (sizes < bad.LONGEST))
    raws = rows.column("raw").combine_chunks().take(pa.array(usable))
    raws = pa.concat_arrays(raws.chunks) if isinstance(raws, pa.ChunkedArray) else raws
    included = [
        pa.concat_arrays([known[i][str(at)] for i in usable]) for at in range(len(wanted)) if len(usable)
    ]
    if not len(usable):
        return [], np.arange(rows.num_rows)
    chunk = Chunk(work.decode.records(raws), included, lambda record: {"row": int(usable[record])})
    made = [work.chunk(chunk), work.finish()]
    failed = [one.position["row"] for some in made for one in some.failures]
    return made, np.union1d(np.setdiff1d(np.arange(rows.num_rows), usable), np.array(failed, np.int64))


def _finish(source: Source, output: Output, shards: Shards) -> None:
    """Retracts the errors whose records a collection has, if that was not done."""
    mark = shards(output.shard).machine.fetch().positions.get(REPLAY)
    errors = shards(source.errors)
    key = f"{REPLAY}/{output.shard}"
    known = errors.machine.fetch().positions.get(key)
    if mark is None or known == mark["token"]:
        return
    done = set(mark["done"])
    with snapshot(errors) as found:
        gone = [
            row
            for batch in found.batches(_NAMES)
            for row in batch.filter(pc.equal(batch.column("collection"), output.name)).to_pylist()
            if _digest(row) in done
        ]
    types = {name: type_.arrow for name, type_ in ERRORS_COLUMNS}
    columns = [pa.array([row[name] for row in gone], types[name]) for name in _NAMES]
    _append(errors, columns, -1, {key: mark["token"]}, key, known)


def _append(
    shard: Shard, columns: list[pa.Array], diff: int, positions: Mapping[str, Any], key: str, before: Any
) -> None:
    """Appends rows, if what the shard knows of replays is what it was before."""

    def check(now: State) -> None:
        if now.positions.get(key) != before:
            raise ConflictError("the errors are being tried again by another process", hint="wait for it")

    state = shard.machine.fetch()
    count = len(columns[0]) if columns else 0
    with shard.writing() as parts:
        if count:
            times = np.full(count, max(shard.clock.now(), state.upper), np.int64)
            parts += shard.write(
                state, schema_of(state), Block(columns, times, np.full(count, diff, np.int64))
            )
        shard.commit(parts, at=None, token=secrets.token_hex(16), positions=positions, check=check)


def _digest(row: Mapping[str, Any]) -> str:
    """Tells one error from others of its collection."""
    parts = [
        str(row["position"]).encode(),
        row["message"].encode(),
        row["raw"] or b"",
        row["included"] or b"",
    ]
    found = hashlib.blake2b(digest_size=12)
    for part in (str(row["at"]).encode(), *parts):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()
