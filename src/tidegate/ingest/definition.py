"""A bound source: the value that tasks receive, and that the catalog stores as JSON.

    CREATE SOURCE orders_30d FROM KAFKA CONNECTION k (TOPIC 'orders') FORMAT JSON
    INCLUDE OFFSET TRANSFORM USING (SELECT … FROM orders_30d WHERE mz_now() <= … )

    SourceDefinition(name="orders_30d", kind="kafka", upstream=…, included=(offset,), envelope="none",
                     outputs=(SourceOutput(name="orders_30d", shard="3f…", format=JsonFormat(), plan=…),), errors="77…")

Each output has its own shard, and so does the collection of bad rows. Each shard stores, with its rows, how far the source has read
(`positions`, under keys that begin with `source/`). A batch advances all of them from one position to the next.

`define/serialize.py` converts a source to JSON and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.expr.model import types
from tidegate.ingest.protocol import BatchLimit, Columns, IncludedColumn, RecordFormat, Upstream
from tidegate.plan import MapFilterProject

POSITION_PREFIX = "source/"
"""The prefix of a source's position keys in the state of a shard."""
UPSERT_KEY = "upsert_key"
"""The shard option that holds the id of the hidden column with the raw key of ENVELOPE UPSERT."""

ERRORS_SUFFIX = "_errors"
"""The suffix of the name of the collection of bad rows."""
Envelope = Literal["none", "upsert", "debezium"]
RETRACTING_ENVELOPES: tuple[Envelope, ...] = ("upsert", "debezium")
"""Envelopes whose records may retract rows."""

ERRORS_COLUMNS: Columns = (
    ("at", types.TIMESTAMPTZ),
    ("collection", types.TEXT),
    ("position", types.JSONB),
    ("message", types.TEXT),
    ("raw", types.BYTEA),
    ("included", types.BYTEA),
)
"""A record that failed: the time, the collection, its position upstream, the reason, its bytes, and what else replay needs of it
(`ingest/envelopes/bad_records.py`: its key and the columns of INCLUDE, as Arrow; NULL if it has none)."""


def retracts(upstream: Upstream, envelope: Envelope) -> bool:
    """Whether a source may retract rows, because of its upstream or its envelope."""
    return upstream.retracts or envelope in RETRACTING_ENVELOPES


@dataclass(frozen=True)
class SourceOutput:
    """A collection that a source fills."""

    name: str
    shard: str
    format: RecordFormat
    plan: MapFilterProject
    """From the output of the envelope (with NONE: the format's columns followed by the included ones) to the shard's columns.

    It is `Q_safe` of `plan/temporal.py`: the last two outputs of a temporal transform are the hidden bounds. The hidden key of
    UPSERT is not among its outputs: the envelope adds it after all others.
    """
    table: str | None = None
    """The upstream's table; None if the upstream has only one kind of records."""
    before: MapFilterProject | None = None
    """TRANSFORM BEFORE ENVELOPE: from the format's columns and the included ones to the input of the envelope.

    `plan` then reads only what the envelope returns for these outputs: columns of INCLUDE reach it through this plan.
    """
    hidden: int = 0
    """The number of hidden columns at the end of the shard: two bounds, a key."""


@dataclass(frozen=True)
class SourceDefinition:
    """A bound source: its upstream, envelope and outputs."""

    name: str
    kind: str
    """The kind of its upstream: `kafka`, `files`, …"""
    upstream: Upstream
    outputs: tuple[SourceOutput, ...]
    errors: str
    """The shard of `<name>_errors`: `ERRORS_COLUMNS`."""
    included: tuple[IncludedColumn, ...] = ()
    envelope: Envelope = "none"
    key_format: RecordFormat | None = None
    limit: BatchLimit = field(default_factory=BatchLimit)
    max_errors: int | None = None
    options: dict[str, Any] = field(default_factory=dict, compare=False)
    """Other options of WITH."""

    @property
    def retracts(self) -> bool:
        """Whether the source may retract rows."""
        return retracts(self.upstream, self.envelope)

    @property
    def tables(self) -> dict[str, str | None]:
        """The upstream table of each collection; None if the upstream has only one stream of records."""
        return {output.name: output.table for output in self.outputs}
