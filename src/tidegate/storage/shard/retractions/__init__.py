"""Retractions that come as rows, and the stored rows that they retract.

| module | contents |
|---|---|
| `candidates` | which parts and pages may hold given rows, by their statistics |
| `match` | which stored row each retraction retracts, from their times and how often they occur |
| `locate` | reads the candidates, and returns the positions of the rows |
| `at_append` | the same for a batch that is about to be appended, if it is cheap |

Maintenance does the rest (`storage/maintain/settle.py`).
"""
