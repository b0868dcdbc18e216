"""GROUP BY and aggregates over streams of rows.

| module | |
|---|---|
| `streaming` | groups rows batch by batch in bounded memory, and answers from metadata where statistics suffice |
| `groups` | numbers the groups of a batch |
| `reducers` | one reducer for each kind of aggregate |
"""

from tidegate.query.aggregate import streaming

__all__ = ["streaming"]
