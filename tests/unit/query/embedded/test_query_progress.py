"""The progress bar of a query of the embedded engine: when it is drawn, and that it vanishes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from io import StringIO

import pytest

from tidegate.progress import ProgressBars
from tidegate.query.embedded import query_progress
from tidegate.query.embedded.query_progress import QueryProgress

QUERY = """
import sys, tidegate
from tidegate.query.embedded import interrupt, query_progress
query_progress.SHOWN_AFTER_S = float(sys.argv[1])
interrupt.WAIT_S = 0.01
db = tidegate.open("memory://")
print(db.sql("SELECT count(*) FROM generate_series(1, 3000) a JOIN generate_series(1, 3000) b ON a % 7 <> b % 11").rows())
"""

NUMBERS = range(1, 3001)
PAIRS = len(NUMBERS) ** 2 - sum(
    sum(a % 7 == r for a in NUMBERS) * sum(b % 11 == r for b in NUMBERS) for r in range(7)
)


class Recorded(ProgressBars):
    """Bars that are only noted."""

    def __init__(self) -> None:
        super().__init__(StringIO())
        self.drawn: list[tuple[float | None, bool]] = []

    def draw(self, what: str, share: float | None, line: str, *, done: bool) -> None:
        self.drawn.append((share, done))


def on_a_terminal(shown_after_s: float) -> str:
    """What a process that runs a query writes to a terminal at its stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", QUERY, str(shown_after_s)], stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as child:
        os.close(theirs)
        written = b""
        while True:
            try:
                some = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            written += some
        assert child.stdout is not None
        assert child.stdout.read() == f"[({PAIRS},)]\n"
    os.close(ours)
    assert child.returncode == 0, written
    return written.decode()


def test_a_long_query_draws_on_a_terminal_and_leaves_nothing() -> None:
    written = on_a_terminal(0.0)
    assert "query" in written
    assert written.rstrip().endswith("\x1b[2K"), "the line of the bar is erased"


def test_a_short_query_draws_nothing() -> None:
    assert on_a_terminal(60.0) == ""


def test_the_share_is_drawn_until_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_progress, "SHOWN_AFTER_S", 0.0)
    bars, shares = Recorded(), iter([-1.0, 25.0, 50.0])
    progress = QueryProgress(lambda: next(shares), bars)
    for _ in range(3):
        progress.update()
    progress.close()
    progress.update()  # closed: asks for no share, of which there is none left
    progress.close()
    assert bars.drawn == [(None, False), (0.25, False), (0.5, False), (1.0, True)]


def test_a_query_that_was_short_asks_for_no_share() -> None:
    def refused() -> float:
        raise AssertionError("asked")

    progress = QueryProgress(refused, ProgressBars(StringIO()))
    progress.update()
    progress.close()
