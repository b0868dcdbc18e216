"""How many cases a law tries: as many as it says under `make test`, fifty times that under `make prove`."""

from __future__ import annotations

from hypothesis import settings

QUICK = 100
"""Cases of the quick profile (tests/conftest.py), by which laws scale their own number."""


def cases(quick: int) -> int:
    """`quick` cases, times how much more the current profile wants."""
    return max(1, quick * settings().max_examples // QUICK)
