"""A database whose audit reads everything that statistics leave out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidegate
from tidegate.clock import ManualClock


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://", clock=ManualClock(10_000)) as opened:
        opened.set("audit", 1.0)
        yield opened
