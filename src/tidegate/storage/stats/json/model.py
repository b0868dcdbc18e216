"""JsonStats: statistics of the JSON values of a column or key, by JSON type.

    payload    map 1000                                  closed: no map has other keys than these
      ts       number 990  low 17 high 42  whole         10 maps lack it
      kind     text 700  low 'buy' high 'view'           and  null 300

A column of JSON mixes types, so each type keeps a *lane*: how many values are of it, and for numbers and
strings the bounds. The keys of maps are described in the same way, recursively. Numbers are bounded by
numeric(38, 18) rounded outwards (kept as unscaled integers), strings are cut as text columns are.

Looking at all paths of all documents would cost more than writing them. So for a large part only some paths
are looked at (`paths.py`): a map's other keys are then unknown, and it is not `closed`; and of a map that
was only passed through (`payload -> 'user' -> 'id'`) the `counts` may be missing: anything may be there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LANES = ("null", "true", "false", "number", "text", "list", "map")
NULL, TRUE, FALSE, NUMBER, TEXT, LIST, MAP = range(7)
SCALE = 18
"""Digits behind the point of the bounds of numbers."""
LIMIT = 10**38
"""Unscaled bounds are less than this, or missing."""


@dataclass(frozen=True)
class JsonStats:
    """The JSON values of one column, or under one key."""

    counts: tuple[int, ...] | None
    """How many values of each lane, in the order of `LANES`; None: not known, nor whether there are any."""
    number_low: int | None = None
    number_high: int | None = None
    whole: bool = False
    """No number has a fraction, so that `(payload->>'x')::int8` cannot fail for one."""
    text_low: str | None = None
    text_high: str | None = None
    keys: dict[str, JsonStats] = field(default_factory=dict)
    closed: bool = False
    """No map has keys beyond those listed."""

    @property
    def present(self) -> int | None:
        """How many values there are; None: not known."""
        return None if self.counts is None else sum(self.counts)
