"""The frame of a window function: which rows around the current one it sees.

    ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE TIES

| unit | a distance counts |
|---|---|
| rows | rows |
| groups | groups of rows that are equal in the window's order |
| range | in the values of the window's only sort key: numbers, or an interval of times |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as Choice

from tidegate.expr.model import Literal

UNFRAMED = frozenset(
    ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead")
)
"""Window functions that see the whole partition, whatever the frame."""
Way = Choice["preceding", "current row", "following"]
WAYS: tuple[Way, ...] = ("preceding", "current row", "following")
"""The ends of a frame, from its start on."""
Unit = Choice["rows", "range", "groups"]
Exclusion = Choice["current row", "group", "ties"]


@dataclass(frozen=True)
class FrameEnd:
    """One end of a frame.

    Without a distance it is unbounded, or the current row, in RANGE and GROUPS with its peers.
    """

    way: Way
    distance: Literal | None = None

    def sql(self, distance: Callable[[Literal], str]) -> str:
        """As SQL writes it, a distance as `distance` does."""
        if self.way == "current row":
            return "CURRENT ROW"
        return f"{'UNBOUNDED' if self.distance is None else distance(self.distance)} {self.way.upper()}"


@dataclass(frozen=True)
class FrameSpec:
    """From where to where a window function sees rows, and which of these are left out."""

    unit: Unit
    first: FrameEnd
    last: FrameEnd
    exclude: Exclusion | None = None

    @property
    def has_distance(self) -> bool:
        """Whether an end is so and so far from the current row."""
        return self.first.distance is not None or self.last.distance is not None

    def sql(self, distance: Callable[[Literal], str]) -> str:
        """As SQL writes it, a distance as `distance` does."""
        ends = f"{self.first.sql(distance)} AND {self.last.sql(distance)}"
        exclude = f" EXCLUDE {self.exclude.upper()}" if self.exclude else ""
        return f"{self.unit.upper()} BETWEEN {ends}{exclude}"
