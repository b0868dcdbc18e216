"""Queries of several scans: what pruning leaves of each, and how the keys of one prune the others.

    pinned = PinnedQuery(query, scans, now, config, metrics)      `tidegate.statements` makes it
    pinned.reduced                                                keys of small scans prune the parts of others (`semi_join.py`)
    pinned.bytes                                                  what is left: it decides which engine runs the query

The rows of the result are computed by an engine: `query/embedded` in this process, or `spark/engine`. Uses `plan` for the logical
tree, and the local path for reading; knows no SQL text.
"""

from tidegate.query.relational.query import PinnedQuery, replace_now
from tidegate.query.relational.scans import RelationalScan, ScanPlan, plain_arrays, total_cost

__all__ = ["PinnedQuery", "RelationalScan", "ScanPlan", "plain_arrays", "replace_now", "total_cost"]
