"""Which filters stand above a relation, at a moment when Spark asks for something without saying: for the text of EXPLAIN.

Spark makes that text node by node, and asks our index for its root paths, with no filters. But the call comes on the thread that
makes the text, and py4j answers on the same one, so that the plan can be found:

| text | the plan is in |
|---|---|
| `df.explain("formatted")`, `EXPLAIN FORMATTED`, Spark's UI | a variable of that thread, in which Spark numbers the nodes |
| `df.explain()` in any other mode | the call of `explain` that waits for it in this process |
| `EXPLAIN` and `EXPLAIN EXTENDED` in SQL | nowhere: only the number of all parts is shown |
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
    from tidegate.spark.index import PartIndex

_EXPLAIN = DataFrame.explain.__code__


def filters_shown(jvm: Jvm, index: PartIndex) -> list[tuple[str, Any]]:
    """The filters above each scan of `index` that is being shown now, as text and as they are, if they can be found."""
    numbered = jvm.explained.get()
    size = int(numbered.size())
    if not size:
        return _by_index(_waiting(jvm)).get(index.toString(), [])
    # A plan is asked for many times, once for each text of each scan in it: what was found is good until it grows.
    plan = get_ident(), int(jvm.identity(numbered)), size
    known = jvm.shown
    if known is None or known[0] != plan:
        known = jvm.shown = plan, _by_index(_scans(jvm, numbered.keySet()))
    return known[1].get(index.toString(), [])


def _by_index(scans: Iterator[Any]) -> dict[str, list[tuple[str, Any]]]:
    """The filters of scans, by what their indexes say that they are."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for scan in scans:
        filters = scan.dataFilters()
        found.setdefault(str(scan.relation().location().toString()), []).append(
            (str(filters.toString()), filters)
        )
    return found


def _scans(jvm: Jvm, nodes: Any) -> Iterator[Any]:
    found = jvm.of_class(nodes, jvm.scans).iterator()
    while found.hasNext():
        yield found.next()


def _waiting(jvm: Jvm) -> Iterator[Any]:
    """The scans of every DataFrame whose `explain` waits for its text."""
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            if at.f_code is _EXPLAIN:
                plan = at.f_locals["self"]._jdf.queryExecution().executedPlan()
                leaves = jvm.jvm.scala.jdk.javaapi.CollectionConverters.asJava(plan.collectLeaves())
                yield from _scans(jvm, leaves)
            at = at.f_back
