"""A Spark FileIndex in Python: Spark's filters go in, the files of the parts to read come out.

    files = PartIndex(Jvm.of(spark), index, positions, columns, branch)
    HadoopFsRelation(files, …)          Spark's vectorised Parquet reader reads the files that `listFiles` returns

Spark calls `listFiles` once per query, with all deterministic conjuncts over this relation's columns as Catalyst expressions,
including those that it pushed through joins and aggregates. `translate/filters.py` translates them where the meaning is exactly the
same; `snapshot_index.py` compares them with the statistics of all parts. Filters are hints: Spark evaluates them on the rows again,
so a part may be read in vain, but must never be left out wrongly.

| what goes wrong | what happens |
|---|---|
| a filter cannot be translated, or our translation fails | it prunes nothing; a failure is logged and counted |
| statistics are unreadable, or our interpreter fails | the parts are read |
| an audited part holds a matching row after all | the query fails and names the part |
| anything else | the query fails with our message: an index never returns *no files* because of an error |

Spark compares relations by `equals` to reuse cached or shuffled data: indexes are equal if they list the same parts of the same
snapshot. So a cached view is used until something is appended, and no longer.

EXPLAIN prints `rootPaths`. Spark calls it without filters; `explain_filters.py` recovers them.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.cache import LruCache
from tidegate.expr.model import Expr, Type
from tidegate.spark.jvm import Jvm, java_interface
from tidegate.spark.read.deleted_rows import part_numbers
from tidegate.spark.read.explain_filters import explained_filters
from tidegate.spark.read.hadoop_paths import scan_uri, uri_of
from tidegate.spark.read.snapshot_index import PartSelection, SnapshotIndex
from tidegate.spark.translate.filters import translate

MAX_CACHED_COUNTS = 64
"""Filters whose number of parts is cached for EXPLAIN."""
_LOG = logging.getLogger(__name__)


class PartIndex:
    """Some parts of a snapshot as a FileIndex."""

    Java = java_interface("org.apache.spark.sql.execution.datasources.FileIndex")

    def __init__(
        self,
        jvm: Jvm,
        index: SnapshotIndex,
        positions: np.ndarray,
        columns: Mapping[str, tuple[int, Type]],
        branch: str,
        *,
        consolidates: bool = False,
    ) -> None:
        """`positions` are those of the parts in the snapshot; `columns` maps names to position and type."""
        self.jvm, self.index, self.positions, self.columns = jvm, index, positions, columns
        self.branch, self.consolidates = branch, consolidates
        self.partitions: Any = None
        """The schema of the column that holds the deleted positions of each file (`deleted_rows.py`), if any are."""
        self.numbered = False
        """Whether that column holds the place of the part in `positions` instead."""
        self._counts = LruCache[str, str](MAX_CACHED_COUNTS)
        self._roots: dict[str, Any] = {}

    # ---------------------------------------------------------------- called by Spark

    def listFiles(self, _: Any, filters: Any) -> Any:  # noqa: N802  # Scala's name
        """Returns the files that a query with these filters must read."""
        selection = self.select(filters)
        self.index.record(self.positions, selection)
        uris = self.index.uris(selection.positions, scan_uri(self.index.lake.root.place))
        values = self._partition_values(selection.positions)
        return self.jvm.partition_directories(uris, self.index.sizes[selection.positions], values)

    def rootPaths(self) -> Any:  # noqa: N802  # Scala's name
        """Returns what EXPLAIN shows as Location."""
        location = self._location()
        if location not in self._roots:
            self._roots[location] = self.jvm.to_seq([self.jvm.path(location)])
        return self._roots[location]

    def sizeInBytes(self) -> int:  # noqa: N802  # Scala's name
        """Returns the size by which Spark chooses joins."""
        return int(self.index.sizes[self.positions].sum())

    def inputFiles(self) -> Any:  # noqa: N802  # Scala's name
        """Returns the URIs for `df.inputFiles()`, as users with their own credentials write them."""
        uris = self.index.uris(self.positions, uri_of(self.index.lake.root.place)).to_pylist()
        files = self.jvm.gateway.new_array(self.jvm.jvm.java.lang.String, len(uris))
        for i, uri in enumerate(uris):
            files[i] = uri
        return files

    def refresh(self) -> None:
        """Does nothing: a snapshot does not change."""

    def partitionSchema(self) -> Any:  # noqa: N802  # Scala's name
        """Returns the column of deleted positions; an empty schema if there are none."""
        return self.jvm.no_partitions if self.partitions is None else self.partitions

    def isTimeTravel(self) -> bool:  # noqa: N802  # Scala's name
        """Returns True: writes below `rootPaths`, after which Spark asks, do not change this relation."""
        return True

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802  # Scala's name
        """Returns no figure for the time of listing."""
        return self.jvm.none

    def toString(self) -> str:  # noqa: N802  # Scala's name
        """Returns a text that is the same for equal indexes and for no others."""
        return self._identity

    def hashCode(self) -> int:  # noqa: N802  # Scala's name
        """Returns the same number for equal indexes."""
        return zlib.crc32(self._identity.encode()) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether another FileIndex, a Java object, lists the same parts."""
        return other is self or (other is not None and str(other.toString()) == self._identity)

    # ---------------------------------------------------------------- selecting parts

    @cached_property
    def _identity(self) -> str:
        snapshot = self.index.snapshot
        # The set of parts is immutable, and its id is not reused while this index refers to it.
        version = f"{id(snapshot.state.parts)} {snapshot.as_of} {snapshot.schema.id}"
        return f"tidegate({snapshot.shard.machine.key} {version} {self.branch})"

    def select(self, filters: Any) -> PartSelection:
        """Returns the parts that may hold rows that pass these filters."""
        return self.index.select(self.positions, self._conditions(filters), consolidates=self.consolidates)

    def _partition_values(self, positions: np.ndarray) -> pa.Array | None:
        """Returns what the files of these parts carry (`deleted_rows.py`)."""
        if self.partitions is None:
            return None
        if self.numbered:
            return part_numbers(np.searchsorted(self.positions, positions))
        return self.index.deletion_indexes(positions)

    def _conditions(self, filters: Any) -> list[Expr]:
        conditions = (self._condition(filters.apply(i)) for i in range(filters.length()))
        return [condition for condition in conditions if condition is not None]

    def _condition(self, expression: Any) -> Expr | None:
        """Translates a filter; None if it cannot be translated."""
        try:
            return translate(expression, self.columns)
        except Exception:  # noqa: BLE001  # a filter is a hint: without it nothing is pruned
            _LOG.exception("a filter is not used", extra={"tidegate": {"event": "translation_failed"}})
            self.index.lake.metrics.add("translation_failures")
            return None

    def _location(self) -> str:
        """Returns the collection and, if the filters can be recovered, the number of parts that are read."""
        whole = f"tidegate:/{self.index.name}{self.branch}"
        try:
            counts = [self._count(*scan) for scan in explained_filters(self.jvm, self)]
        except Exception:  # noqa: BLE001  # what is only shown must not make a query fail
            _LOG.exception("EXPLAIN shows no parts", extra={"tidegate": {"event": "explain_failed"}})
            counts = []
        if not counts:
            return f"{whole} {len(self.positions)} parts"
        return f"{whole} {' and '.join(dict.fromkeys(counts))} of {self.index.total} parts"

    def _count(self, text: str, filters: Any) -> str:
        return self._counts.get_or_compute(text, lambda: str(len(self.select(filters).positions)))
