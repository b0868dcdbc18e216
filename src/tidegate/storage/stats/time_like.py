"""Names of times: most filters use these columns and keys, so their statistics are never trimmed.

>>> time_like("created_at"), time_like("ts"), time_like("eventTime"), time_like("last_seen"), time_like("amount")
(True, True, True, True, False)
"""

from __future__ import annotations

import re
from typing import TypeAlias

Place: TypeAlias = tuple[str, ...]
"""A column's name, and the fields or JSON keys below it: `payload.ts` is ("payload", "ts")."""

_TIME_LIKE = re.compile(
    r"ts|date|day|receivedat|createdat|updatedat|last_.*|.*(?:_at|_ts|_tstamp|_date|time|timestamp)",
    re.IGNORECASE,
)


def time_like(name: str) -> bool:
    """Whether a column or key is called as times are."""
    return _TIME_LIKE.fullmatch(name) is not None


def is_forced(place: Place, keep: frozenset[Place]) -> bool:
    """Whether a path is never trimmed: KEEP STATISTICS names it or a parent, or its name means a time."""
    return time_like(place[-1]) or any(place[:size] in keep for size in range(1, len(place) + 1))
