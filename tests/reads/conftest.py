"""Small parts are read as large ones are: in stages, and several at the same time.

Both cost more than they save where a part is small, so `query/late/steps.py` and `query/paths/local.py` have constants below
which they do neither. Here they are 0, or the tests would say nothing of either.
"""

from __future__ import annotations

import pytest

from tidegate.query.late import steps
from tidegate.query.paths import local


@pytest.fixture(autouse=True)
def as_large_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MIN_STAGED_ROWS", 0)
    monkeypatch.setattr(local, "PARALLEL", 0)
