"""What a source is, once it is bound: a value that tasks are sent, and that the catalog keeps as JSON.

    CREATE SOURCE orders_30d FROM KAFKA CONNECTION k (TOPIC 'orders') FORMAT JSON
    INCLUDE OFFSET TRANSFORM USING (SELECT … FROM orders_30d WHERE mz_now() <= … )

    Source(name="orders_30d", kind="kafka", upstream=…, included=(offset,), envelope="none",
           outputs=(Output(name="orders_30d", shard="3f…", format=Json(), plan=…),), errors="77…")

Every output has a shard of its own, and so has the collection of bad rows. Each shard keeps, with its rows, how far the source
has come (`positions`, by keys that begin with `source/`). A batch brings all of them from one position to the next.

`stored.py` beside this writes it as JSON, and reads it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tidegate.expr.types import BYTEA, JSONB, TEXT, TIMESTAMPTZ
from tidegate.ingest.source import Columns, Format, Included, Limit, Upstream
from tidegate.plan.mfp import MapFilterProject

POSITION = "source/"
"""What the keys of a source's positions begin with, in the state of a shard."""
UPSERT_KEY = "upsert_key"
"""The option of a shard that names, by id, the hidden column with the raw key of ENVELOPE UPSERT."""

ERRORS = "_errors"
"""What the name of the collection of bad rows ends with."""
Envelope = Literal["none", "upsert", "debezium"]

ERRORS_COLUMNS: Columns = (
    ("at", TIMESTAMPTZ),
    ("collection", TEXT),
    ("position", JSONB),
    ("message", TEXT),
    ("raw", BYTEA),
    ("included", BYTEA),
)
"""A record that failed: when, for which collection, where it stands upstream, why, its bytes, and what else replay needs of it
(`ingest/bad.py`: its key and what INCLUDE adds, as Arrow; NULL if nothing)."""


@dataclass(frozen=True)
class Output:
    """A collection that a source fills."""

    name: str
    shard: str
    format: Format
    plan: MapFilterProject
    """From what the envelope gives (with NONE: the format's columns and behind them the included ones) to the shard's columns.

    It is `Q_safe` of `plan/temporal.py`: of a temporal transform its last two outputs are the hidden bounds. The hidden key of
    UPSERT is not among its outputs: the envelope adds it behind all others.
    """
    table: str | None = None
    """Which of the upstream's tables; None if it has one kind of records."""
    before: MapFilterProject | None = None
    """TRANSFORM BEFORE ENVELOPE: from the format's columns and the included ones to what the envelope is given.

    `plan` then reads what the envelope makes of its outputs, and nothing else: what INCLUDE adds reaches it through this.
    """
    hidden: int = 0
    """How many of the shard's last columns no reader sees: two bounds, a key."""


@dataclass(frozen=True)
class Source:
    """A source."""

    name: str
    kind: Literal["kafka", "files", "postgres", "generator"]
    upstream: Upstream
    outputs: tuple[Output, ...]
    errors: str
    """The shard of `<name>_errors`: `ERRORS_COLUMNS`."""
    included: tuple[Included, ...] = ()
    envelope: Envelope = "none"
    key_format: Format | None = None
    limit: Limit = field(default_factory=Limit)
    max_errors: int | None = None
    options: dict[str, Any] = field(default_factory=dict, compare=False)
    """What else WITH says."""

    @property
    def tables(self) -> dict[str, str | None]:
        """Of which table upstream each collection is made; None, where there is only one stream of records."""
        return {output.name: output.table for output in self.outputs}
