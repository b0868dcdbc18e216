"""The progress of an ingestion: a value, a line on a terminal, and JSON in the logs.

    q.progress()             IngestionProgress(source='orders', state='running', batches=3, records=30000, …)
    q.progress().json()      {"source": "orders", "state": "running", …, "lag": {"records": 1200}, "collections": {…}}

    ingest orders  ━━━━━━━━────────────  40 %  30,000 in  2.1 MB  2,950 kept  27,050 filtered  3 parts  0:00:12

The share is shown if the upstream knows how much is left: `records / (records + lag)`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tidegate.ingest.envelopes.output import RecordCounts, sum_counts
from tidegate.ingest.protocol import Lag
from tidegate.progress import LOG, ProgressBars
from tidegate.text import format_bytes

IngestionState = Literal["starting", "running", "idle", "retrying", "paused", "stopped", "done", "failed"]

FINAL_STATES: tuple[IngestionState, ...] = ("stopped", "done", "failed")


@dataclass(frozen=True)
class IngestionProgress:
    """The counts since the ingestion was started, and the lag.

    now = db.ingest("orders", once=True).progress()
    now.records, now.kept, now.bad, now.lag
    """

    source: str
    state: IngestionState = "starting"
    batches: int = 0
    records: int = 0
    bytes: int = 0
    """The size of the records before decoding."""
    kept: int = 0
    filtered: int = 0
    expired: int = 0
    bad: int = 0
    parts: int = 0
    errors: int = 0
    """Bad records in `<source>_errors` now, from this ingestion and earlier ones."""
    lag: Lag = field(default_factory=Lag)
    collections: Mapping[str, RecordCounts] = field(default_factory=dict)
    """The counts by collection."""
    trouble: str | None = None
    """Why it is retrying or has failed."""
    seconds: float = 0.0

    @property
    def share(self) -> float | None:
        """The share that is ingested, from 0 to 1; None if the amount left is unknown."""
        if self.state == "done":
            return 1.0
        left = self.lag.records
        if left is not None:
            return self.records / (self.records + left) if self.records + left else 1.0
        if self.lag.bytes is not None:
            return self.bytes / (self.bytes + self.lag.bytes) if self.bytes + self.lag.bytes else 1.0
        return None

    def json(self) -> str:
        """Returns the progress as JSON text."""
        return json.dumps(self.data(), ensure_ascii=False)

    def data(self) -> dict[str, Any]:
        """Returns the progress as a JSON-compatible dict."""
        data = asdict(self)
        data["lag"] = {name: value for name, value in asdict(self.lag).items() if value not in (None, ())}
        data["collections"] = {name: counts._asdict() for name, counts in self.collections.items()}
        return data

    def line(self) -> str:
        """Returns the counts as text, and why it is retrying or has failed."""
        counts = (
            ("kept", self.kept),
            ("filtered", self.filtered),
            ("expired", self.expired),
            ("bad", self.bad),
            ("parts", self.parts),
        )
        words = [f"{self.records:,} in", format_bytes(self.bytes)]
        words += [f"{count:,} {what}" for what, count in counts if count or what == "kept"]
        trouble = f"  {self.state}: {self.trouble.splitlines()[0]}" if self.trouble else ""
        return "  ".join(words) + trouble


ReportIngestion = Callable[[IngestionProgress], None]


def total_counts(tables: Mapping[str, str | None], counts: Mapping[str, RecordCounts]) -> RecordCounts:
    """Adds the counts of a source's collections; records that several collections read count once.

    `tables` is the upstream table of each collection; None if the upstream has only one stream of records.
    """
    by_table: dict[str | None, RecordCounts] = {}
    for name, table in tables.items():
        own, largest = counts.get(name, RecordCounts()), by_table.get(table, RecordCounts())
        by_table[table] = own if own.records >= largest.records else largest
    read = sum_counts(by_table.values())
    return sum_counts(counts.values())._replace(records=read.records, bytes=read.bytes)


def log_progress(now: IngestionProgress) -> None:
    """Logs the progress."""
    level = logging.WARNING if now.state in ("retrying", "failed") else logging.INFO
    LOG.log(level, "ingest %s", now.source, extra={"tidegate": now.data()})


def show_progress(bars: ProgressBars, now: IngestionProgress) -> None:
    """Logs the progress, and draws it on a terminal."""
    log_progress(now)
    bars.draw(f"ingest {now.source}", now.share, now.line(), done=now.state in FINAL_STATES)
