"""Queries of any shape: bound and pruned by us, run by Spark.

| module | |
|---|---|
| `query.py` | `select` and `explain`: binds the query, pins its snapshots, runs it |
| `scans.py` | one scan of a query: what pruning leaves, and which of three readers is used |
| `semi_join.py` | keys of a small side of a join prune the parts of the other side |
| `sql_text.py`, `aggregate_sql.py` | the logical tree as Spark SQL |
| `run.py` | runs a DataFrame with a limit on memory, cancellation and a progress bar |

Depends on `read/` for the scans, on `translate/` for scalar expressions, and on `tasks/` for errors of tasks.
"""
