"""Bad records: rows of `<source>_errors`, from which each can be tried again.

    at          collection  position                       message                                raw        included
    2026-11-16  orders      {"partition": 0, "offset": 7}  invalid input syntax for type int8 …   7b2261…  Arrow, or NULL

A record is more than its bytes where a source has INCLUDE or ENVELOPE UPSERT: its offset, its headers, its key, whether it
retracts. What of these is not in `raw` is kept in `included` as Arrow, a table of one row, in its exact types: columns `0`, `1`, …
are those that INCLUDE adds, `key` and `diff` what the chunk had.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.expr.build import cast
from tidegate.expr.evaluate import evaluate
from tidegate.expr.tree import Column
from tidegate.expr.types import JSONB, TEXT, TIMESTAMPTZ
from tidegate.ingest.source import Chunk

if TYPE_CHECKING:
    from tidegate.ingest.made import Failed

LONGEST = 16 << 20
"""Bytes of a record that are kept; of a longer one these are the first, and it cannot be tried again."""


def kept(chunk: Chunk, record: int) -> bytes:
    """What else there is to a record; empty if nothing."""
    columns = {str(i): column for i, column in enumerate(chunk.included)}
    if chunk.keys is not None:
        columns["key"] = chunk.keys
    if chunk.diffs is not None:
        columns["diff"] = pa.array(chunk.diffs)
    if not columns:
        return b""
    # A slice would be written with all of what it is a slice of, where that is a struct or a list.
    row = {name: column.take(pa.array([record])) for name, column in columns.items()}
    batch = pa.RecordBatch.from_pydict(row)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unkept(data: bytes) -> dict[str, pa.Array]:
    """What `kept` gave, as arrays of one value."""
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def rows(collection: str, failures: Sequence[Failed], now: int) -> list[pa.Array]:
    """The columns of `ERRORS_COLUMNS`."""
    count = len(failures)
    texts = pa.array([json.dumps(one.position, sort_keys=True) for one in failures], pa.string())
    positions, _ = evaluate(cast(Column(0, TEXT), JSONB), [texts])
    return [
        pa.array(np.full(count, now * 1000), pa.int64()).cast(TIMESTAMPTZ.arrow),
        pa.array([collection] * count, pa.string()),
        positions,
        pa.array([one.message for one in failures], pa.string()),
        pa.array([one.raw[:LONGEST] for one in failures], pa.binary()),
        pa.array([one.included or None for one in failures], pa.binary()),
    ]
