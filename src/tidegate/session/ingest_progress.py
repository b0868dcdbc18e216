"""How an ingestion is doing: a value, for whoever asks, for a bar on a terminal, and as JSON in the logs.

    q.progress()             Progress(source='orders', state='running', batches=3, records=30000, …)
    q.progress().json()      {"source": "orders", "state": "running", …, "lag": {"records": 1200}, "collections": {…}}

    ingest orders  [########............]  40 %  30,000 in  2.1 MiB  2,950 kept  27,050 filtered  3 parts  0:12

How far it is of what there is can be said where upstream knows how much is left: `records / (records + lag)`.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tidegate import fork
from tidegate.ingest.made import Counts
from tidegate.ingest.source import Lag
from tidegate.progress import BAR, LOG, UNITS

State = Literal["starting", "running", "idle", "retrying", "paused", "stopped", "done", "failed"]

ENDED: tuple[State, ...] = ("stopped", "done", "failed")


@dataclass(frozen=True)
class Progress:
    """What was done since the ingestion was started, and what is left."""

    source: str
    state: State = "starting"
    batches: int = 0
    records: int = 0
    bytes: int = 0
    """Of the records, before they were decoded."""
    kept: int = 0
    filtered: int = 0
    expired: int = 0
    bad: int = 0
    parts: int = 0
    errors: int = 0
    """Bad records that `<source>_errors` holds now, from this ingestion and before."""
    lag: Lag = field(default_factory=Lag)
    collections: Mapping[str, Counts] = field(default_factory=dict)
    """The same by collection."""
    trouble: str | None = None
    """Why it retries, or has failed."""
    seconds: float = 0.0

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where it is not known how much is left."""
        if self.state == "done":
            return 1.0
        left = self.lag.records
        if left is not None:
            return self.records / (self.records + left) if self.records + left else 1.0
        if self.lag.bytes is not None:
            return self.bytes / (self.bytes + self.lag.bytes) if self.bytes + self.lag.bytes else 1.0
        return None

    def json(self) -> str:
        """As JSON."""
        return json.dumps(self.data(), ensure_ascii=False)

    def data(self) -> dict[str, Any]:
        """As what JSON is made of."""
        found = asdict(self)
        found["lag"] = {name: value for name, value in asdict(self.lag).items() if value not in (None, ())}
        found["collections"] = {name: counts._asdict() for name, counts in self.collections.items()}
        return found

    def line(self) -> str:
        """As one line, with a bar if it is known how much is left."""
        scale = max(i for i in range(len(UNITS)) if i == 0 or self.bytes >= 1024**i)
        minutes, seconds = divmod(int(self.seconds), 60)
        words = [f"{self.records:,} in", f"{self.bytes / 1024**scale:.1f} {UNITS[scale]}"]
        words += [
            f"{many:,} {what}"
            for what, many in (
                ("kept", self.kept),
                ("filtered", self.filtered),
                ("expired", self.expired),
                ("bad", self.bad),
                ("parts", self.parts),
            )
            if many or what == "kept"
        ]
        bar = ""
        if self.share is not None:
            filled = int(BAR * self.share)
            bar = f"  [{'#' * filled}{'.' * (BAR - filled)}]  {100 * self.share:.0f} %"
        trouble = f"  {self.state}: {self.trouble.splitlines()[0]}" if self.trouble else ""
        return f"ingest {self.source}{bar}  {'  '.join(words)}  {minutes}:{seconds:02d}{trouble}"


Report = Callable[[Progress], None]


def total(tables: Mapping[str, str | None], counts: Mapping[str, Counts]) -> Counts:
    """What became of all records. Collections that are made of the same records count them once, where they come in.

    `tables`: of which table upstream each collection is made; None, where there is only one stream of records.
    """
    come: dict[str | None, Counts] = {}
    for name, table in tables.items():
        mine, known = counts.get(name, Counts()), come.get(table, Counts())
        come[table] = mine if mine.records >= known.records else known
    every = summed(list(counts.values()))
    return every._replace(
        records=sum(one.records for one in come.values()), bytes=sum(one.bytes for one in come.values())
    )


def summed(counts: Sequence[Counts]) -> Counts:
    """All of them."""
    found = Counts()
    for one in counts:
        found = found.plus(one)
    return found


def logged(now: Progress) -> None:
    """As a log record."""
    level = logging.WARNING if now.state in ("retrying", "failed") else logging.INFO
    LOG.log(level, "ingest %s", now.source, extra={"tidegate": now.data()})


class Bars:
    """The lines of sources that are ingested at the same time, one below the other, each overwritten by its next."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._going: set[str] = set()
        self._drawn = 0
        self._lock = fork.lock()

    def text(self, now: Progress, width: int) -> str:
        """What to print so that this is what the terminal shows. A line that were wrapped would be two to go back over."""
        with self._lock:
            self._lines[now.source] = now.line()[: max(width - 1, 1)]
            (self._going.discard if now.state in ENDED else self._going.add)(now.source)
            back = f"\r\x1b[{self._drawn - 1}A" if self._drawn > 1 else "\r"
            found = back + "\n".join(f"\x1b[K{line}" for line in self._lines.values())
            self._drawn = len(self._lines)
            if self._going:
                return found
            self._lines.clear()  # all have ended: what comes next is printed below
            self._drawn = 0
            return f"{found}\n"


BARS = Bars()


def shown(now: Progress) -> None:
    """On a terminal a bar, which the next one overwrites; else a log record."""
    logged(now)
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(BARS.text(now, shutil.get_terminal_size().columns))
        sys.stderr.flush()
