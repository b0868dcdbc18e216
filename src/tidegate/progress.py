"""Progress of long work: a value for the caller, a bar on a terminal or in a notebook, a log record.

db.compact("orders", spark=spark, progress=print)        each Progress as it comes
db.compact("orders", spark=spark)                        a bar if stderr is a terminal, and log records

compact orders  ━━━━━━━━────────────  40 %  32 of 80 groups  4.1 of 10.2 GB  0:01:12
"""

from __future__ import annotations

import logging
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TextIO

from tidegate import fork
from tidegate.text import format_bytes

LOG = logging.getLogger("tidegate.progress")


@dataclass(frozen=True)
class Progress:
    """How much of a piece of work is done.

    db.compact("orders", spark=spark, progress=lambda now: print(now.what, now.share, now.line()))
    """

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

    @property
    def is_done(self) -> bool:
        """Whether all groups are done."""
        return bool(self.groups_total) and self.groups >= self.groups_total

    def line(self) -> str:
        """The counts in words."""
        return (
            f"{self.groups} of {self.groups_total} groups"
            f"  {format_bytes(self.bytes)} of {format_bytes(self.bytes_total)}"
        )


Report = Callable[[Progress], None]


class Meter:
    """Counts what is done, and reports it."""

    def __init__(self, what: str, report: Report | None = None) -> None:
        self.now = Progress(what)
        self._report = ProgressBars().show if report is None else report
        self._began = time.monotonic()

    def expect(self, groups: int, rows: int, size: int) -> None:
        """Adds work to be done."""
        now = self.now
        self._publish(
            replace(
                now,
                groups_total=now.groups_total + groups,
                rows_total=now.rows_total + rows,
                bytes_total=now.bytes_total + size,
            )
        )

    def add(self, groups: int, rows: int, size: int) -> None:
        """Adds work that is done."""
        now = self.now
        self._publish(replace(now, groups=now.groups + groups, rows=now.rows + rows, bytes=now.bytes + size))

    def _publish(self, now: Progress) -> None:
        self.now = replace(now, seconds=time.monotonic() - self._began)
        self._report(self.now)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, where rich draws bars as output of the cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")  # Jupyter, Colab


class ProgressBars:
    """Bars, one for each piece of work, on stderr if it is a terminal, or in a notebook; rich draws them."""

    def __init__(self, stream: TextIO | None = None, *, transient: bool = False) -> None:
        """Draws on `stream` whatever it is; without it on stderr if that is a terminal.

        Transient bars vanish when all are done.
        """
        self._stream, self._transient = stream, transient
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._running: set[str] = set()
        self._lock = fork.lock()

    def show(self, now: Progress) -> None:
        """Logs and draws the progress of a maintenance operation."""
        LOG.info("%s", now.what, extra={"tidegate": asdict(now)})
        self.draw(now.what, now.share, now.line(), done=now.is_done)

    def draw(self, what: str, share: float | None, line: str, *, done: bool) -> None:
        """Draws one bar; `share` is None if the total is unknown.

        Finished bars stay on the screen unless they are transient.
        """
        with self._lock:
            if self._bars is None and not self._start():
                return
            bars = self._bars
            if what not in self._tasks:
                self._tasks[what] = bars.add_task(what, total=None, line="")
            total = None if share is None else 1.0
            bars.update(self._tasks[what], total=total, completed=share or 0.0, line=line, refresh=True)
            (self._running.discard if done else self._running.add)(what)
            if not self._running:
                bars.stop()
                self._bars, self._tasks = None, {}

    def _start(self) -> bool:
        stream, notebook = self._stream or sys.stderr, self._stream is None and in_notebook()
        if stream is None or (self._stream is None and not notebook and not stream.isatty()):
            return False
        try:
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as RichProgress
        except ImportError:  # the extra `cli` is not installed
            return False
        self._bars = RichProgress(
            TextColumn("{task.description}"), BarColumn(20), TaskProgressColumn("{task.percentage:.0f} %"),
            TextColumn("{task.fields[line]}"), TimeElapsedColumn(),
            console=Console() if notebook else Console(file=stream), auto_refresh=False, transient=self._transient,
        )  # fmt: skip
        self._bars.start()
        weakref.finalize(self, self._bars.stop)  # an error must not leave the cursor hidden
        return True
