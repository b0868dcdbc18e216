"""Retractions of rows that are stored in an equal form: `-0.0` for `0.0`, `30 days` for a month.

A retraction takes an identical row if there is one at its time. Otherwise it takes an equal one, as readers do who add up rows
(`storage/part/merge.py`); so afterwards as many rows are there at every time as before:

    stored        0.0 at 10    -0.0 at 20
    retractions   -0.0 at 15   0.0 at 30         the first takes 0.0, the second what is left: -0.0

    retraction_pieces(stored, retractions, kinds)      each retraction with the value of the row that it takes

Only values that occur in several forms are walked through, one update after the other; they are rare. A retraction of several
occurrences becomes several pieces if it takes rows of several forms.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tidegate.storage.shard.retractions.match import CountedRows


@dataclass(frozen=True, eq=False)
class RetractionPieces:
    """Retractions, divided by the form of the rows that they take."""

    rows: CountedRows
    places: np.ndarray
    """The place of the retraction that each piece is of."""


def retraction_pieces(stored: CountedRows, retractions: CountedRows, kinds: np.ndarray) -> RetractionPieces:
    """Each retraction with the values of the rows that it takes; see the module docstring.

    `kinds`: for each value a number that equal values share. What finds no row keeps its value.
    """
    everywhere = np.arange(len(retractions))
    forms = np.bincount(kinds)
    several = forms[kinds] > 1
    walked = np.flatnonzero(several[retractions.values])
    if not len(walked):
        return RetractionPieces(retractions, everywhere)
    rows = np.flatnonzero(several[stored.values])
    pieces = _walk(stored, rows, retractions, walked, kinds)
    plain = everywhere[~several[retractions.values]]
    places, values, counts = (
        np.concatenate([before, [piece[i] for piece in pieces]]).astype(np.int64)
        for i, before in enumerate((plain, retractions.values[plain], retractions.counts[plain]))
    )
    return RetractionPieces(CountedRows(values, retractions.times[places], counts), places)


def _walk(
    stored: CountedRows, rows: np.ndarray, retractions: CountedRows, walked: np.ndarray, kinds: np.ndarray
) -> list[tuple[int, int, int]]:
    """The pieces of these retractions, in the order of time: place, value, count."""
    there: dict[int, dict[int, int]] = defaultdict(
        dict
    )  # by kind: how often each value is there, the latest last
    times = np.concatenate([stored.times[rows], retractions.times[walked]])
    later = np.arange(len(times)) >= len(rows)  # at one time rows come before retractions
    pieces = []
    for event in np.lexsort((later, times)).tolist():
        if event < len(rows):
            value, count = int(stored.values[rows[event]]), int(stored.counts[rows[event]])
            forms = there[int(kinds[value])]
            forms[value] = forms.pop(value, 0) + count
            continue
        place = int(walked[event - len(rows)])
        own, wanted = int(retractions.values[place]), int(retractions.counts[place])
        forms = there[int(kinds[own])]
        for value in (own, *(value for value in reversed(forms) if value != own)):
            if taken := min(wanted, forms.get(value, 0)):
                forms[value] -= taken
                wanted -= taken
                pieces.append((place, value, taken))
        if wanted:
            pieces.append((place, own, wanted))
    return pieces
