"""OVERLAPS: whether two spans of time have an instant in common.

    (date '2001-02-16', date '2001-12-21') OVERLAPS (date '2001-10-30', date '2002-10-30')      true
    (at, interval '1 hour') OVERLAPS (…)         the binder writes at + interval '1 hour' as the end

A span holds its start and not its end, unless both are the same; its ends may be given in either order. If one end is NULL the
other may still decide.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.expr.model.function import NEVER, scalar
from tidegate.expr.model.outcome import Datum, length, spread, to_bools, to_numpy
from tidegate.expr.model.types import BOOL, TIME, TIMESTAMP, TIMESTAMPTZ


class _Span:
    """The spans of all rows: a start that is known where any end is, and an end that may be unknown."""

    def __init__(self, one: pa.Array, other: pa.Array) -> None:
        a, b = to_numpy(one), to_numpy(other)
        has_a, has_b = to_bools(one.is_valid()), to_bools(other.is_valid())
        self.known = has_a | has_b
        self.ended = has_a & has_b
        self.start = np.where(self.ended, np.minimum(a, b), np.where(has_a, a, b))
        self.end = np.maximum(a, b)


@scalar(
    "overlaps", overloads=[((type_,) * 4, BOOL) for type_ in (TIMESTAMPTZ, TIMESTAMP, TIME)],
    lenient=True, errors=NEVER, stable=True,
)  # fmt: skip
def overlaps(*ends: Datum) -> pa.Array:
    """Whether two spans of time overlap, `(a, b) OVERLAPS (c, d)`."""
    n = length(*ends)
    first, second, third, fourth = (spread(end, n) for end in ends)
    one, other = _Span(first, second), _Span(third, fourth)
    later = one.start > other.start
    same = one.start == other.start
    # The span that starts first decides if it lasts until the other starts; else the other must have an end at all.
    lasts = np.where(later, other.ended & (one.start < other.end), one.ended & (other.start < one.end))
    decided = one.ended & other.ended
    early_ended = np.where(later, other.ended, one.ended)
    answer = np.where(same, decided, lasts)
    known = one.known & other.known & np.where(same, decided, early_ended & (lasts | decided))
    return pa.array(answer, mask=~known)
