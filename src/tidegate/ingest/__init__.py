"""Sources: everything between an external record and a row of a collection.

    CREATE SOURCE clicks FROM FILES 'in/*.json' FORMAT JSON
    TRANSFORM USING (SELECT data->>'user' AS u FROM clicks WHERE mz_now() <= (data->>'at')::timestamptz + '30 days')

    db.ingest("clicks", once=True)

One batch of `clicks` passes through these steps:

| step | where |
|---|---|
| the statement becomes a `SourceDefinition`, stored as JSON in the catalog | `define/` |
| a thread reads batch after batch, retries, reports progress | `runtime/` |
| the upstream determines where the next batch ends, and cuts it into splits | `upstreams/` |
| a task reads its split, and the format decodes what the transform demands | `batch/task.py`, `formats/` |
| the envelope turns decoded records into rows with diffs | `envelopes/` |
| the parts of all tasks and the new position are committed in one log entry per shard | `batch/commit.py` |

Sub-rooms import downwards only: runtime, define, batch, envelopes, upstreams, formats, and below them `definition.py` and
`protocol.py`. The room depends on `context`, `query` (to look up old rows of UPSERT), `sql` (to bind transforms), `storage`,
`plan` and `expr`. It does not depend on Spark: `tidegate.spark.tasks` runs the same tasks on executors.

This package exports what an author of an upstream or a format implements: the protocols `Upstream`, `RecordFormat` and `Decoder`,
and the values that pass through them. The sub-rooms export the rest:

| package | exports |
|---|---|
| `tidegate.ingest.define` | CREATE, ALTER and EXPLAIN of sources and connections |
| `tidegate.ingest.batch` | planning and running the tasks of a batch |
| `tidegate.ingest.runtime` | `db.ingest`: running ingestions, their progress and status |
| `tidegate.ingest.upstreams` | the registry of upstreams |
"""

from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.protocol import (
    BatchLimit,
    Columns,
    DecodedBatch,
    Decoder,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    RecordError,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)

__all__ = [
    "BatchLimit",
    "Columns",
    "DecodedBatch",
    "Decoder",
    "IncludedColumn",
    "InputSplit",
    "Lag",
    "ReadRequest",
    "RecordChunk",
    "RecordError",
    "RecordFormat",
    "SourceDefinition",
    "SourceOutput",
    "Upstream",
    "UpstreamPosition",
]
