"""Bad records: rows of `<source>_errors`, with everything needed to replay them.

    at          collection  position                       message                                raw        included
    2026-11-16  orders      {"partition": 0, "offset": 7}  invalid input syntax for type int8 …   7b2261…  Arrow, or NULL

If a source has INCLUDE or ENVELOPE UPSERT, a record is more than its bytes: its offset, its headers, its key, whether it retracts.
`included` holds what is not in `raw`, as an Arrow table of one row in its exact types: the columns `0`, `1`, … are those of
INCLUDE, `key` and `diff` are those of the chunk.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, build, types
from tidegate.ingest.protocol import RecordChunk, UpstreamPosition

MAX_RAW_BYTES = 16 << 20
"""The maximum number of stored bytes of a record. A longer record is truncated, and cannot be replayed."""


class FailedRecord(NamedTuple):
    """A record that becomes a row of `<source>_errors`."""

    raw: bytes
    position: UpstreamPosition
    message: str
    included: bytes = b""
    """The rest of the record (`encode_context`), so that it can be replayed."""


def encode_context(chunk: RecordChunk, record: int) -> bytes:
    """Encodes the included columns, key and diff of a record; empty if it has none."""
    columns = {str(i): column for i, column in enumerate(chunk.included)}
    if chunk.keys is not None:
        columns["key"] = chunk.keys
    if chunk.diffs is not None:
        columns["diff"] = pa.array(chunk.diffs)
    if not columns:
        return b""
    # Arrow would write a slice of a struct or list together with the whole array.
    row = {name: column.take(pa.array([record])) for name, column in columns.items()}
    batch = pa.RecordBatch.from_pydict(row)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_context(data: bytes) -> dict[str, pa.Array]:
    """Decodes the result of `encode_context` into arrays of one value."""
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def error_rows(collection: str, failures: Sequence[FailedRecord], now: int) -> list[pa.Array]:
    """Builds the columns of `ERRORS_COLUMNS` for failed records."""
    count = len(failures)
    texts = pa.array([json.dumps(failure.position, sort_keys=True) for failure in failures], pa.string())
    positions, _ = evaluate(build.cast(Column(0, types.TEXT), types.JSONB), [texts])
    return [
        pa.array(np.full(count, now * 1000), pa.int64()).cast(types.TIMESTAMPTZ.arrow),
        pa.array([collection] * count, pa.string()),
        positions,
        pa.array([failure.message for failure in failures], pa.string()),
        pa.array([failure.raw[:MAX_RAW_BYTES] for failure in failures], pa.binary()),
        pa.array([failure.included or None for failure in failures], pa.binary()),
    ]
