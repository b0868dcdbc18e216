"""How sources are doing: what their shards say, and the ingestion of this process if it runs there.

| state | means |
|---|---|
| `ready` | nobody here ingests it; another process may |
| `paused` | ALTER SOURCE … PAUSE |
| `stopped` | it has more bad rows than MAX ERRORS |
| `running`, `idle`, `retrying`, `failed`, … | what the ingestion of this process says of itself; `trouble` says why |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.ingest.made import Counts
from tidegate.ingest.settle import errors_now
from tidegate.ingest.source import Lag
from tidegate.ingest.standing import Standing
from tidegate.session.ingest_progress import total
from tidegate.session.lake import Lake
from tidegate.shard.catalog import Source


@dataclass(frozen=True)
class SourceStatus:
    """One source."""

    kind: str
    state: str
    errors: int = 0
    """Bad rows that wait in `<source>_errors`."""
    batches: int = 0
    committed: int | None = None
    """When the last batch was committed, in ms."""
    collections: Mapping[str, Counts] = field(default_factory=dict)
    """What became of all records since the source was made, by collection."""
    total: Counts = field(default_factory=Counts)
    """The same of all of them: records of which several are made count once."""
    position: Mapping[str, Any] = field(default_factory=dict, repr=False)
    trouble: str | None = None
    """Why it does not go on."""
    notes: tuple[str, ...] = ()
    """What the upstream noticed in the last run of this process, such as files that changed after they were read."""
    lag: Lag | None = None
    """How far behind the ingestion of this process is; None: it does not run here."""


def source_status(lake: Lake, name: str, item: Source) -> SourceStatus:
    """How a source is doing."""
    kept = item.definition
    errors = lake.shard(kept["errors"])
    found = {output["name"]: lake.shard(output["shard"]) for output in kept["outputs"]}
    standings = {one: Standing.of(shard.machine.fetch()) for one, shard in found.items()}
    least = min(standings.values(), key=lambda one: one.batch)
    running = lake.ingesting.get(name)
    lag = None if running is None else running.progress().lag
    state, trouble = _state(lake, name, item, bad := errors_now(errors))
    counts = {one: standing.counts for one, standing in standings.items()}
    return SourceStatus(
        kept["kind"],
        state,
        bad,
        max(least.batch, 0),
        least.when,
        counts,
        total({output["name"]: output["table"] for output in kept["outputs"]}, counts),
        least.at,
        trouble,
        () if lag is None else tuple(lag.notes),
        lag,
    )


def _state(lake: Lake, name: str, item: Source, errors: int) -> tuple[str, str | None]:
    most = item.definition["max_errors"]
    if most is not None and errors > most:
        return "stopped", f"{errors} bad rows are more than MAX ERRORS {most}"
    if item.paused:
        return "paused", None
    running = lake.ingesting.get(name)
    progress = None if running is None else running.progress()
    if progress is None or progress.state in ("done", "stopped"):
        return "ready", None
    return str(progress.state), progress.trouble
