"""What stands behind the name of a time type: digits of seconds, and the fields of an interval.

    timestamp(3)                        digits 3
    interval hour to second(2)          fields "HOUR TO SECOND", digits 2

A column has no such modifier, since times are stored in microseconds: only casts and constants round or cut to it.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_DIGITS = 6


class TypeModifier(NamedTuple):
    """The modifier of a time type in a cast."""

    fields: str | None = None
    """Of an interval: `DAY`, `DAY TO SECOND`; what is smaller than the last is cut off."""
    digits: int | None = None
    """The digits of seconds that are kept; others are rounded away."""
