"""How far a long piece of work is: a value, handed to whoever wants to show it.

db.compact("orders", spark=spark, progress=print)        each Progress as it comes
db.compact("orders", spark=spark)                        a bar if stderr is a terminal; and log records

compact orders  [########............]  40 %  32 of 80 groups  4.1 of 10.2 GiB  1:12
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

LOG = logging.getLogger("tidegate.progress")
BAR = 20
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Progress:
    """Done so far, of what there is."""

    what: str
    groups: int = 0
    groups_total: int = 0
    rows: int = 0
    rows_total: int = 0
    bytes: int = 0
    bytes_total: int = 0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """From 0 to 1, by bytes; 1 where there is nothing to do."""
        return min(1.0, self.bytes / self.bytes_total) if self.bytes_total else 1.0

    def line(self) -> str:
        """As one line with a bar."""
        filled = int(BAR * self.share)
        scale = max(i for i in range(len(UNITS)) if i == 0 or self.bytes_total >= 1024**i)
        done, total = (size / 1024**scale for size in (self.bytes, self.bytes_total))
        minutes, seconds = divmod(int(self.seconds), 60)
        return (
            f"{self.what}  [{'#' * filled}{'.' * (BAR - filled)}]  {100 * self.share:.0f} %"
            f"  {self.groups} of {self.groups_total} groups"
            f"  {done:.1f} of {total:.1f} {UNITS[scale]}  {minutes}:{seconds:02d}"
        )


Report = Callable[[Progress], None]


class Meter:
    """Counts, and reports."""

    def __init__(self, what: str, report: Report | None = None) -> None:
        self.now = Progress(what)
        self._report = shown if report is None else report
        self._began = time.monotonic()

    def expect(self, groups: int, rows: int, size: int) -> None:
        """There is so much more to do."""
        now = self.now
        self._tell(
            replace(
                now,
                groups_total=now.groups_total + groups,
                rows_total=now.rows_total + rows,
                bytes_total=now.bytes_total + size,
            )
        )

    def add(self, groups: int, rows: int, size: int) -> None:
        """So much more is done."""
        now = self.now
        self._tell(replace(now, groups=now.groups + groups, rows=now.rows + rows, bytes=now.bytes + size))

    def _tell(self, now: Progress) -> None:
        self.now = replace(now, seconds=time.monotonic() - self._began)
        self._report(self.now)


def shown(now: Progress) -> None:
    """On a terminal a bar, which the next one overwrites; else a log record."""
    LOG.info("%s", now.what, extra={"tidegate": asdict(now)})
    if sys.stderr is not None and sys.stderr.isatty():
        last = "\n" if now.groups_total and now.groups >= now.groups_total else ""
        sys.stderr.write(f"\r\x1b[K{now.line()}{last}")
        sys.stderr.flush()
