"""Queries of any shape: bound and pruned by us, run by Spark.

| module | |
|---|---|
| `query.py` | `select` and `plan`: runs a pinned query, and describes how |
| `scans.py` | one scan of a query: which of three readers is used |
| `aggregate_sql.py` | the words of Spark SQL in which `plan/sql/writer.py` writes the logical tree |
| `run.py` | runs a DataFrame with a limit on memory, cancellation and a progress bar |

Depends on `read/` for the scans, on `translate/` for scalar expressions, and on `tasks/` for errors of tasks.
"""
