"""The status of sources, from their shards and from the ingestion in this process, if there is one.

| state | meaning |
|---|---|
| `ready` | this process does not ingest it; another process may |
| `paused` | ALTER SOURCE … PAUSE |
| `stopped` | it has more bad rows than MAX ERRORS |
| `running`, `idle`, `retrying`, `failed`, … | the state of the ingestion in this process; `trouble` is the reason |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.context import Context
from tidegate.ingest.batch.commit import count_bad_records
from tidegate.ingest.batch.position import SourcePosition, committed_position, read_positions
from tidegate.ingest.define.catalog import load_source_item
from tidegate.ingest.envelopes.output import RecordCounts
from tidegate.ingest.protocol import Lag
from tidegate.ingest.runtime.progress import total_counts
from tidegate.storage.catalog import SourceItem


@dataclass(frozen=True)
class SourceStatus:
    """The status of one source: `db.status().sources["clicks"].state`."""

    kind: str
    state: str
    errors: int = 0
    """Bad rows in `<source>_errors`."""
    batches: int = 0
    committed: int | None = None
    """When the last batch was committed, in ms."""
    collections: Mapping[str, RecordCounts] = field(default_factory=dict)
    """Record counts since the source was created, by collection."""
    total: RecordCounts = field(default_factory=RecordCounts)
    """The total of all collections; records that several collections read count once."""
    position: Mapping[str, Any] = field(default_factory=dict, repr=False)
    trouble: str | None = None
    """Why it has stopped or is retrying."""
    notes: tuple[str, ...] = ()
    """Warnings of the upstream in this process, such as files that changed after they were read."""
    lag: Lag | None = None
    """The lag of the ingestion in this process; None: this process does not ingest the source."""


def source_status(context: Context, name: str, item: SourceItem) -> SourceStatus:
    """Returns the status of a source."""
    definition = item.definition
    errors = context.shard(definition["errors"])
    shards = {output["name"]: context.shard(output["shard"]) for output in definition["outputs"]}
    positions = {output: SourcePosition.of(shard.machine.fetch()) for output, shard in shards.items()}
    last = min(positions.values(), key=lambda position: position.batch)
    running = context.ingestions.get(name)
    lag = None if running is None else running.progress().lag
    state, trouble = _state(context, name, item, bad := count_bad_records(errors))
    counts = {output: position.counts for output, position in positions.items()}
    return SourceStatus(
        definition["kind"],
        state,
        bad,
        max(last.batch, 0),
        last.committed_at,
        counts,
        total_counts({output["name"]: output["table"] for output in definition["outputs"]}, counts),
        last.at,
        trouble,
        () if lag is None else tuple(lag.notes),
        lag,
    )


def upstream_lag(context: Context, item: SourceItem) -> Lag:
    """Asks the upstream of a source how far the stored position is behind its end; this connects to it."""
    source = load_source_item(context, item)
    try:
        return source.upstream.lag(committed_position(read_positions(source, context.shard)))
    finally:
        source.upstream.close()


def _state(context: Context, name: str, item: SourceItem, errors: int) -> tuple[str, str | None]:
    max_errors = item.definition["max_errors"]
    if max_errors is not None and errors > max_errors:
        return "stopped", f"{errors} bad rows are more than MAX ERRORS {max_errors}"
    if item.paused:
        return "paused", None
    running = context.ingestions.get(name)
    progress = None if running is None else running.progress()
    if progress is None or progress.state in ("done", "stopped"):
        return "ready", None
    return str(progress.state), progress.trouble
