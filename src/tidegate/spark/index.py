"""A FileIndex in Python: Spark asks it for files while it plans, and hands it the filters, of any shape; we prune by them.

    index = PartIndex(Jvm.of(spark), pinned, places, columns, branch)
    HadoopFsRelation(index, …)          Spark's vectorised Parquet reader reads what `listFiles` says

Spark calls `listFiles` once for every query, with all deterministic conjuncts over this relation's columns as Catalyst expressions,
also those that it pushed through joins and aggregates. `catalyst.py` says what they mean in our terms, where their meaning is
exactly the same; `pinned.py` asks the statistics of all parts. Filters are hints: Spark evaluates them on the rows again, so a
part may be kept for nothing, and must never be left out wrongly.

| what goes wrong | what happens |
|---|---|
| a filter cannot be translated, or our translation fails | nothing is pruned by it; a failure is logged and counted |
| statistics are unreadable or our interpreter fails | the parts are read |
| an audited part holds a row after all | the query fails, and names the part |
| anything else | the query fails with our message: an index never says *no files* because of an error |

Spark compares relations, to reuse what is cached or shuffled, by `equals`: two indexes are equal if they list the same parts of
the same snapshot. So a cached view is used until something is appended, and no longer.

EXPLAIN prints what `rootPaths` says. Spark calls it without filters; `told.py` finds them.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tidegate.expr.tree import Expr
from tidegate.expr.types import Type
from tidegate.spark.catalyst import translate
from tidegate.spark.jvm import Jvm
from tidegate.spark.pinned import Kept, Pinned
from tidegate.spark.place import scan_uri, uri_of
from tidegate.spark.told import filters_shown

_LOG = logging.getLogger(__name__)


class PartIndex:
    """Some parts of a snapshot, as files."""

    class Java:
        """What py4j must know."""

        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)

    def __init__(
        self,
        jvm: Jvm,
        pinned: Pinned,
        places: np.ndarray,
        columns: Mapping[str, tuple[int, Type]],
        branch: str,
        *,
        meets: bool = False,
    ) -> None:
        """`places`: of the parts, in the snapshot's table; `columns`: by their names in Spark, places and types in the schema."""
        self.jvm, self.pinned, self.places, self.columns = jvm, pinned, places, columns
        self.branch, self.meets = branch, meets
        self._shown: dict[str, str] = {}
        self._roots: dict[str, Any] = {}

    # ---------------------------------------------------------------- what Spark calls; names are Scala's

    def listFiles(self, _: Any, filters: Any) -> Any:  # noqa: N802  # Scala's name
        """The files that a query with these filters must read."""
        kept = self.kept(filters)
        self.pinned.count(self.places, kept)
        uris = self.pinned.uris(kept.places, scan_uri(self.pinned.lake.root.place))
        return self.jvm.listed(uris, self.pinned.sizes[kept.places])

    def rootPaths(self) -> Any:  # noqa: N802  # Scala's name
        """What EXPLAIN shows as Location."""
        shown = self._text()
        if shown not in self._roots:
            self._roots[shown] = self.jvm.to_seq([self.jvm.path(shown)])
        return self._roots[shown]

    def sizeInBytes(self) -> int:  # noqa: N802  # Scala's name
        """For Spark's choice of joins."""
        return int(self.pinned.sizes[self.places].sum())

    def inputFiles(self) -> Any:  # noqa: N802  # Scala's name
        """For `df.inputFiles()`: as users write them, who read with credentials of their own."""
        uris = self.pinned.uris(self.places, uri_of(self.pinned.lake.root.place)).to_pylist()
        found = self.jvm.gateway.new_array(self.jvm.jvm.java.lang.String, len(uris))
        for i, uri in enumerate(uris):
            found[i] = uri
        return found

    def refresh(self) -> None:
        """Nothing: what was pinned does not change."""

    def partitionSchema(self) -> Any:  # noqa: N802  # Scala's name
        """There are no partition columns."""
        return self.jvm.no_partitions

    def isTimeTravel(self) -> bool:  # noqa: N802  # Scala's name
        """Whether what is written below `rootPaths` changes nothing here. Spark asks it of what is cached, after every write."""
        return True

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802  # Scala's name
        """How long listing took is not told."""
        return self.jvm.none

    def toString(self) -> str:  # noqa: N802  # Scala's name
        """What two indexes that list the same have in common, and no others."""
        return self._identity

    def hashCode(self) -> int:  # noqa: N802  # Scala's name
        """Equal for equal indexes."""
        return zlib.crc32(self._identity.encode()) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Whether another FileIndex, which comes as a Java object, lists the same."""
        return other is self or (other is not None and str(other.toString()) == self._identity)

    # ---------------------------------------------------------------- how it is done

    @cached_property
    def _identity(self) -> str:
        snapshot = self.pinned.snapshot
        # The set of parts is a value that is replaced when it changes; while this index lives no other has its id.
        version = f"{id(snapshot.state.parts)} {snapshot.as_of} {snapshot.schema.id}"
        return f"tidegate({snapshot.shard.machine.key} {version} {self.branch})"

    def kept(self, filters: Any) -> Kept:
        """What is left of the parts by these filters."""
        return self.pinned.kept(self.places, self._conditions(filters), meets=self.meets)

    def _conditions(self, filters: Any) -> list[Expr]:
        found = (self._condition(filters.apply(i)) for i in range(filters.length()))
        return [condition for condition in found if condition is not None]

    def _condition(self, expression: Any) -> Expr | None:
        """What a filter means to us; None: something that we do not know."""
        try:
            return translate(expression, self.columns)
        except Exception:  # noqa: BLE001  # a filter is a hint: what cannot be read prunes nothing
            _LOG.exception("a filter is not used", extra={"tidegate": {"event": "translation_failed"}})
            self.pinned.lake.metrics.add("translation_failures")
            return None

    def _text(self) -> str:
        """The collection, and how many of its parts are read, where the filters can be found out."""
        whole = f"tidegate:/{self.pinned.name}{self.branch}"
        try:
            shown = [self._kept_text(*one) for one in filters_shown(self.jvm, self)]
        except Exception:  # noqa: BLE001  # what is only shown must not make a query fail
            _LOG.exception("EXPLAIN shows no parts", extra={"tidegate": {"event": "explain_failed"}})
            shown = []
        if not shown:
            return f"{whole} {len(self.places)} parts"
        return f"{whole} {' and '.join(dict.fromkeys(shown))} of {self.pinned.total} parts"

    def _kept_text(self, key: str, filters: Any) -> str:
        if key not in self._shown:
            if len(self._shown) > 64:
                self._shown.clear()
            self._shown[key] = str(len(self.kept(filters).places))
        return self._shown[key]
