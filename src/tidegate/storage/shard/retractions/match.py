"""Which stored update each retraction retracts, from their times and how often they occur.

Stored updates and retractions of identical rows are laid out on an axis, in the order of their times, each as long as it occurs
often. Where a stored update and a retraction lie above each other, the one retracts the other:

    stored        a  +1 at 10   +3 at 20             |---|-----------|
    retractions   a  -1 at 30   -2 at 40   -1 at 50  |---|-------|---|        at 30 the first, then two and one of the second

A stored update is deleted as a whole, by its position. If only some of its occurrences are retracted, it is deleted, and the rest
of them is stored anew from that time on:

    +3 at 20, deleted at 40; +1 at 40, deleted at 50          instead of -2 at 40 and -1 at 50

An update that is later than what lies above it is not used, and its retractions wait. That happens only if a row was retracted
more often than it existed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.storage.part.deletions import NEVER

MAX_COUNT = 1 << 31
"""Rows that occur more often are not matched: so sums cannot overflow."""


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Updates: the number of each row's value, its time, and how often it is stored, or retracted."""

    values: np.ndarray
    times: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def spans(self, order: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where each update begins and ends on the axis, in this order.

        Those of a value begin at its `base`.
        """
        values, counts = self.values[order], self.counts[order]
        ends = np.cumsum(counts)
        first = np.searchsorted(values, values, side="left")
        ends += base[values] - np.concatenate([[0], ends])[first]
        return ends - counts, ends


@dataclass(frozen=True, eq=False)
class Match:
    """The result. Places are those in the given updates."""

    deleted: np.ndarray
    """The places of the stored updates that are deleted."""
    times: np.ndarray
    """When each of them is."""
    counts: np.ndarray
    """How often each retraction is accounted for."""
    rest: np.ndarray
    """For each row that must be stored anew, the place of a retraction with its values."""
    rest_times: np.ndarray
    rest_counts: np.ndarray
    rest_ends: np.ndarray
    """When it is deleted again; `NEVER` if it is not."""


def match_retractions(
    stored: CountedRows, retractions: CountedRows, *, newest: bool = False, split: bool = True
) -> Match:
    """Matches retractions with stored updates of the same values; see the module docstring.

    With `newest`, the newest updates come first: right if all retractions are later than all of them. Earlier updates are then
    left for earlier retractions, which are still to be matched. These could not use what is stored anew from a later time on, so
    without `split` an update is used only if all of its occurrences are retracted.
    """
    above = np.lexsort((-stored.times if newest else stored.times, stored.values))
    below = np.lexsort((retractions.times, retractions.values))
    update, retraction, count = _meetings(stored, above, retractions, below)
    late = stored.times[above[update]] > retractions.times[below[retraction]]
    unused = np.zeros(len(stored) + 1, bool)
    unused[update[late]] = True
    if not split:
        sums = np.zeros(len(stored), np.int64)
        np.add.at(sums, update, count)
        unused[:-1] |= sums < stored.counts[above]
    usable = ~unused[update]
    update, retraction, count = update[usable], retraction[usable], count[usable]
    counts = np.zeros(len(retractions), np.int64)
    np.add.at(counts, below[retraction], count)
    # One step for each update and time at which some of its occurrences are retracted.
    times = retractions.times[below[retraction]]
    steps = np.flatnonzero(_changes(update) | _changes(times))
    update, times, retraction = update[steps], times[steps], retraction[steps]
    begins = _changes(update)
    sums = np.cumsum(np.add.reduceat(count, steps)) if len(steps) else count
    first = np.maximum.accumulate(np.where(begins, np.arange(len(steps)), 0)) if len(steps) else steps
    left = stored.counts[above[update]] - (sums - np.concatenate([[0], sums])[first])
    ends = np.full(len(steps), NEVER)
    ends[:-1] = np.where(begins[1:], NEVER, times[1:])
    rest = left > 0
    return Match(
        above[update[begins]],
        times[begins],
        counts,
        below[retraction[rest]],
        times[rest],
        left[rest],
        ends[rest],
    )


def _meetings(
    stored: CountedRows, above: np.ndarray, retractions: CountedRows, below: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The stretches of the axis with both: which update, which retraction, and the length.

    Updates and retractions are given by their places in their orders.
    """
    values = int(max(stored.values.max(initial=-1), retractions.values.max(initial=-1))) + 1
    totals = np.zeros((2, values), np.int64)
    np.add.at(totals[0], stored.values, stored.counts)
    np.add.at(totals[1], retractions.values, retractions.counts)
    widths = totals.max(axis=0)
    base = np.cumsum(widths) - widths
    spans = stored.spans(above, base), retractions.spans(below, base)
    borders = np.unique(np.concatenate([edge for span in spans for edge in span]))
    begins, lengths = borders[:-1], np.diff(borders)
    both = np.ones(len(begins), bool)
    places = []
    for starts, ends in spans:
        place = np.searchsorted(starts, begins, side="right") - 1
        both &= (place >= 0) & (begins < ends[np.maximum(place, 0)]) if len(ends) else False
        places.append(place)
    return places[0][both], places[1][both], lengths[both]


def _changes(values: np.ndarray) -> np.ndarray:
    """Where a value differs from the one before it."""
    return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
