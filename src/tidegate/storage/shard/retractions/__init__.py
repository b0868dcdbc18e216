"""Retractions that come as rows, and the stored rows that they retract.

| module | contents |
|---|---|
| `candidates` | which parts and pages may hold given rows, by their statistics |
| `match` | which stored row each retraction retracts, from their times and how often they occur |
| `equal` | retractions of rows that are stored in an equal but not identical form |
| `locate` | reads the candidates, and returns the positions of the rows |
| `located` | the deletions that result, and whether they still fit a newer state |
| `at_append` | the same for a batch that is about to be appended, if it is cheap |

Maintenance does the rest (`storage/maintain/settle.py`).
"""

from tidegate.storage.shard.retractions.located import LocatedDeletions, RowsMoved

__all__ = ["LocatedDeletions", "RowsMoved"]
