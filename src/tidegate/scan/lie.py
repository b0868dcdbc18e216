"""What is raised when statistics are found to be wrong, and the dice that decide who is checked (`audit.py`, `late.py`)."""

from __future__ import annotations

import logging
import random

from tidegate.errors import CorruptError
from tidegate.shard.change import Part

CHANCE = random.Random()
"""Decides which parts and pages are audited; seeded by the machine, and by tests as they like."""
_LOG = logging.getLogger(__name__)


class AuditError(CorruptError):
    """Statistics said that a part holds nothing for a query, and it does; `part` is its name."""

    def __init__(self, message: str, *, part: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.part = part


def page_lie(part: Part) -> AuditError:
    """The statistics of some page of a part say that none of its rows passes, and one does, or fails."""
    _LOG.error("statistics are wrong", extra={"tidegate": {"event": "audit_failed", "part": part.name}})
    return AuditError(
        f"the statistics of pages of {part.name} are wrong: by them no row of a page passes or fails, and one does",
        part=part.name,
        hint="SET stats_filter = off reads every page; please report this with the part, other queries may lack rows too",
    )
