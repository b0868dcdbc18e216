"""Recovers the filters of a scan for EXPLAIN, which calls `rootPaths()` without passing them.

Spark's FileIndex interface has no better moment: filters are passed to `listFiles`, which EXPLAIN does not call. So the plan
that is being rendered is looked for where it can be found:

| text | the plan is in |
|---|---|
| `df.explain("formatted")`, `EXPLAIN FORMATTED`, Spark's UI | a thread-local of the JVM, in which Spark numbers the plan's nodes |
| `df.explain()` in any other mode | a Python thread that waits inside `explain`: its `self` is the DataFrame |
| `EXPLAIN` and `EXPLAIN EXTENDED` in SQL | nowhere: EXPLAIN then shows the number of all parts |

The second needs `sys._current_frames()`: py4j runs callbacks on a thread of its own, and nothing else connects it to the one that
waits. Nothing but the number of parts in EXPLAIN depends on this module. If it finds nothing, that number is that of all parts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame

from tidegate.spark.jvm import Jvm

if TYPE_CHECKING:
    from tidegate.spark.read.file_index import PartIndex

Filters = list[tuple[str, Any]]
"""The filters above each scan of an index: their text, and the Scala sequence of expressions."""
_EXPLAIN = DataFrame.explain.__code__


def explained_filters(jvm: Jvm, index: PartIndex) -> Filters:
    """Returns the filters above each scan of `index` in the plan that Spark renders, if it is found."""
    numbered = jvm.explained.get()
    size = int(numbered.size())
    if not size:
        return _by_index(_explained_scans(jvm)).get(index.toString(), [])
    # Spark asks many times for one plan, once for each text of each scan: an answer holds until the map of nodes grows.
    plan = get_ident(), int(jvm.identity(numbered)), size
    cached = jvm.explained_plan
    if cached is None or cached[0] != plan:
        cached = jvm.explained_plan = plan, _by_index(_scans(jvm, numbered.keySet()))
    return cached[1].get(index.toString(), [])


def _by_index(scans: Iterator[Any]) -> dict[str, Filters]:
    """Returns the filters of scans by the identity of their file index."""
    by_index: dict[str, Filters] = {}
    for scan in scans:
        filters = scan.dataFilters()
        identity = str(scan.relation().location().toString())
        by_index.setdefault(identity, []).append((str(filters.toString()), filters))
    return by_index


def _scans(jvm: Jvm, nodes: Any) -> Iterator[Any]:
    scans = jvm.of_class(nodes, jvm.scans).iterator()
    while scans.hasNext():
        yield scans.next()


def _explained_scans(jvm: Jvm) -> Iterator[Any]:
    """Yields the scans of each DataFrame whose `explain` waits for its text, in any thread."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code is _EXPLAIN:
                plan = frame.f_locals["self"]._jdf.queryExecution().executedPlan()
                leaves = jvm.jvm.scala.jdk.javaapi.CollectionConverters.asJava(plan.collectLeaves())
                yield from _scans(jvm, leaves)
            frame = frame.f_back
