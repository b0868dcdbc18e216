"""A database: what users hold in their hands. It wires the rooms together, and holds no logic of its own.

    db = tidegate.open("lake")
    db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")
    db.append("t", table)                      one atomic batch: all of it or none
    db.sql("SELECT id FROM t WHERE (payload->>'ts')::numeric > 5 LIMIT 10").rows()
    db.compact("t"); db.sweep(); db.status(); db.metrics()

| asked for | done by |
|---|---|
| `open` | `store/place.py` reads the URL, `shard/root.py` finds or makes the database |
| `sql` | `session/execute.py`: `sql/` binds, `scan/` reads, `shard/catalog.py` keeps names |
| `table`, `attach` | `spark/relation.py`, `spark/attach.py` |
| `metrics` | `metrics.py` counts, and `session/observe.py` says what |
| `ingest` | `session/ingest.py`, which has splits read here, or by `spark/ingest.py` |
| `append`, `compact`, `sweep`, `repair` | `shard/writer.py`, `compact.py`, `sweep.py`, `repair.py` |
| `recluster`, `backfill_statistics`; `compact` on Spark | `shard/maintain.py`, by a crew: this process, or `spark/maintain.py` |

Any number of processes may have the same database open. Threads may share one `Database`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeAlias, overload

from tidegate.boundary import callback, public
from tidegate.clock import Clock, SystemClock
from tidegate.config import Config
from tidegate.errors import StoreError, UnsupportedError
from tidegate.progress import Report
from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.session.append import append
from tidegate.session.arguments import instance, milliseconds, text
from tidegate.session.execute import execute
from tidegate.session.lake import Lake
from tidegate.session.reach import ANYWHERE, Reach
from tidegate.session.status import Status, status
from tidegate.shard import compact, sweep
from tidegate.shard.compact import Compacted
from tidegate.shard.root import open_root
from tidegate.shard.sweep import Swept
from tidegate.sql import syntax
from tidegate.store.place import parse

if (
    TYPE_CHECKING
):  # what ingests and maintains takes as long to import as what reads, and a query must not wait for it
    from tidegate.session.ingest import Crew as Readers
    from tidegate.session.ingest import Ingesting, Ingestion
    from tidegate.session.ingest_progress import Report as ReportIngestion
    from tidegate.session.querymap import Maps
    from tidegate.shard.maintain import Crew, Learnt, Reclustered
    from tidegate.shard.repair import Repaired

P = ParamSpec("P")
Spark: TypeAlias = Any
"""A SparkSession. Its name would import pyspark, which tidegate.spark alone does."""


class _OnSpark:
    """Queries that are more than rows and groups of one collection. pyspark is imported by the first of them."""

    def select(self, lake: Lake, parsed: syntax.Query, as_of: int | None, watch: Watch) -> Result:
        """Runs a query."""
        _check_pyspark()
        from tidegate.spark import query

        return query.select(lake, parsed, as_of, watch)

    def explain(self, lake: Lake, parsed: syntax.Query, as_of: int | None, *, analyze: bool) -> Result:
        """What it would do, and with `analyze` what it did."""
        _check_pyspark()
        from tidegate.spark import query

        return query.explain(lake, parsed, as_of, analyze=analyze)


def _check_pyspark(
    what: str = "joins, windows, subqueries and set operations run on Spark, which is not installed",
    instead: str = "",
) -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise UnsupportedError(what, hint=f"pip install 'tidegate[spark]'{instead and '; '}{instead}")


def _own(report: Callable[P, None] | None) -> Callable[P, None] | None:
    """A function that the caller wants to be told by: what it raises is the caller's."""
    return None if report is None else callback(report)


@public
class Database:
    """An open database. Use as a context, or `close` it; what is committed is safe either way."""

    def __init__(self, lake: Lake, parent: Database | None = None) -> None:
        """Use `tidegate.open`, or `session` of an open database, which is then the `parent`."""
        self._lake: Lake | None = lake
        self._parent = parent
        """The database of a session, which stays open as long as the session is referred to."""
        self._shown = lake.root.place.root or "memory"
        self._attached: list[Any] = []
        self._results: weakref.WeakSet[Result] = weakref.WeakSet()
        """Those whose rows are still to be read."""
        if parent is None:
            # Who forgets to close it still gives back the connection when Python collects it, or at the end.
            self._finalizer = weakref.finalize(self, lake.root.consensus.close)

    @staticmethod
    def open(
        url: str | os.PathLike[str], *, clock: Clock | None = None, config: Config | None = None
    ) -> Database:
        """The database at `url`, made if there is none; see `tidegate.open`."""
        clock = clock or SystemClock()
        lake = Lake(open_root(parse(url), clock), clock, config or Config())
        lake.spark = _OnSpark()
        return Database(lake)

    def sql(self, sql: str, *, as_of: int | None = None, watch: Watch | None = None) -> Result:
        """Runs statements; the result of the last.

        `as_of` is the time to read at, in ms, as AS OF is in SQL. With a `watch` another thread can end the queries:
        `watch.cancel()`, or `Watch(timeout_ms=500)` beforehand. Of a large result the rest is read as it is asked for, and
        the time-out counts on until then: see `Result`.
        """
        watch = None if watch is None else instance(watch, Watch, "watch")
        result = execute(self._open, text(sql, "SQL"), milliseconds(as_of, "as_of"), watch)
        if result.live:
            self._results.add(result)
        for attached in self._attached:
            attached.follow()
        return result

    def append(
        self, name: str, rows: Any, at: int | None = None, diff: Any = 1, *, token: str | None = None
    ) -> int:
        """Appends rows to a table as one atomic batch; the time they were given.

        `rows` is an Arrow table, or a mapping of names to arrays or lists. `at` is their time in ms, at or above the
        collection's `upper`; without it, now. `diff` is how often each row is added: -1 retracts it; an array gives each row
        its own. With a `token`, doing it again changes nothing.
        """
        return append(self._open, name, rows, at, diff, token)

    def table(self, name: str, spark: Spark | None = None, as_of: int | None = None) -> Any:
        """A collection or view as an ordinary Spark DataFrame: filters on it, of any shape, leave out parts.

        It is a snapshot, pinned when it is made, at `as_of` or what is committed now. `spark` is the session; without it the
        active one, or a new one on this machine.
        """
        from tidegate.spark.relation import table
        from tidegate.spark.session import session

        return table(self._open, name, spark or session(), milliseconds(as_of, "as_of"))

    def attach(self, spark: Spark | None = None) -> Any:
        """Every collection and view as a temporary view of a Spark session, as new as each query that names it.

        What comes back can `refresh()` and `detach()`; see `tidegate/spark/attach.py`.
        """
        from tidegate.spark.attach import attach
        from tidegate.spark.session import session

        self._attached.append(attach(self._open, spark or session()))
        return self._attached[-1]

    @overload
    def ingest(
        self,
        name: str,
        *,
        once: bool = False,
        spark: Spark | Literal[False] | None = None,
        progress: ReportIngestion | None = None,
    ) -> Ingestion: ...

    @overload
    def ingest(
        self,
        name: list[str] | tuple[str, ...] | None = None,
        *,
        once: bool = False,
        spark: Spark | Literal[False] | None = None,
        progress: ReportIngestion | None = None,
    ) -> Ingesting: ...

    def ingest(
        self,
        name: str | Sequence[str] | None = None,
        *,
        once: bool = False,
        spark: Spark | Literal[False] | None = None,
        progress: ReportIngestion | None = None,
    ) -> Ingestion | Ingesting:
        """Runs a source, several, or all; what comes back has `progress()`, `stop()`, `wait()`, `error`.

        In the background until it is stopped; with `once` until everything that upstream has now is ingested, and only then it
        returns. On Spark: in the session that is given, the active one, or a new one on this machine; with `spark=False` in this
        process alone. `progress` is called with each change; without it there is a bar on a terminal, and a log record.
        """
        from tidegate.session.ingest import ingest

        return ingest(self._open, name, lambda: self._tasks(spark), once=once, report=_own(progress))

    def _tasks(self, spark: Spark | Literal[False] | None) -> Readers:
        """Whoever reads the splits of sources."""
        from tidegate.session.ingest import Here

        place = self._open.root.place
        if spark is False or (spark is None and place.kind == "memory"):
            return Here()
        _check_pyspark("sources are read on Spark, which is not installed", "or spark=False: in this process")
        from tidegate.spark.ingest import SparkTasks
        from tidegate.spark.session import session

        return SparkTasks(spark or session("local[*,4]"), place)

    def compact(
        self,
        name: str,
        *,
        full: bool = False,
        spark: Spark | None = None,
        progress: Report | None = None,
    ) -> Compacted:
        """Merges small parts of a table, and forgets times that its retention no longer keeps; what was done.

        In this process; or on Spark, if a session is given, or one is active and there is much to do (`spark_compact_bytes`).
        """
        lake = self._open
        shard, place = lake.collection(name), lake.root.place
        if spark is None and "pyspark" in sys.modules:
            from tidegate.spark.maintain import active

            spark = active(shard, place, full=full)
        if spark is None:
            return compact.compact(shard, full=full)
        from tidegate.shard.maintain import compact_by

        return compact_by(
            self._crew(spark, f"compact {name}"), shard, place, full=full, report=_own(progress), name=name
        )

    def recluster(
        self,
        name: str,
        *,
        by: Sequence[str] | None = None,
        spark: Spark | None = None,
        progress: Report | None = None,
    ) -> Reclustered:
        """Sorts the rows of a table by its CLUSTER BY columns across parts, within stretches of time; what was done.

        With `by`, these are its CLUSTER BY from here on. On Spark if a session is given, else in this process.
        """
        from tidegate.session.maintain import recluster

        crew = None if spark is None else self._crew(spark, f"recluster {name}")
        return recluster(self._open, name, by, crew, _own(progress))

    def backfill_statistics(
        self, name: str, *, spark: Spark | None = None, progress: Report | None = None
    ) -> Learnt:
        """Gives statistics to the parts of a table that have none, as `stats_collection` was off; what was done."""
        from tidegate.session.maintain import backfill_statistics

        crew = None if spark is None else self._crew(spark, f"statistics {name}")
        return backfill_statistics(self._open, name, crew, _own(progress))

    def _crew(self, spark: Spark, what: str) -> Crew:
        from tidegate.spark.maintain import SparkCrew

        return SparkCrew(spark, self._open.root.place, what)

    def sweep(self) -> Swept:
        """Deletes objects that nothing refers to any more; what was deleted."""
        lake = self._open
        done = lake.catalog.sweep(lake.open)
        for name in status(lake).collections:
            found = sweep.sweep(lake.collection(name))
            done.garbage += found.garbage
            done.orphans += found.orphans
            done.temporary += found.temporary
            done.leases += found.leases
        return done

    def repair(self, name: str, to: int | None = None) -> Repaired:
        """Gives rows of a collection that were written with a time far ahead of the clock the time `to`, in ms; else now.

        All rows stay, and can be read at that time and later; `upper` goes back. One entry of the log; see `shard/repair.py`.
        """
        from tidegate.shard.repair import repair

        return repair(self._open.collection(name), milliseconds(to, "to"))

    def status(self) -> Status:
        """The collections, with parts, rows, bytes, `since`, `upper`, leases; from metadata alone."""
        return status(self._open)

    def metrics(self) -> str:
        """What was done since it was opened, in the text format of Prometheus: see `tidegate/metrics.py`."""
        return self._open.metrics.text()

    @property
    def maps(self) -> Maps:
        """Where parts lie, and what a query would do with them, for pictures: see `session/partmap.py` and `querymap.py`."""
        from tidegate.session.querymap import Maps

        return Maps(self._open)

    def session(self, reach: Reach = ANYWHERE) -> Database:
        """The same open database for one client, with settings of its own.

        SET in it counts for its own statements; what concerns everybody, such as `lease_ms`, it cannot change. Closing it ends it
        alone: ingestions and open collections belong to the database. It need not be closed, and ends with the database.
        """
        return Database(self._open.session(reach), self)

    def set(self, name: str, value: object) -> None:
        """Changes a setting as SET does: of this open database for everybody, or of this session. None: back to its default."""
        self._open.set(name, value)

    def close(self) -> None:
        """Gives back leases and connections, and ends results that are still to be read. Nothing is lost without it.

        Of a session: ends it and its results, and nothing else.
        """
        for result in list(self._results):
            result.close()
        while self._attached:
            self._attached.pop().detach()
        if self._parent is None:
            if self._lake is not None:
                self._lake.close()
            self._finalizer()
        self._lake = None

    @property
    def _open(self) -> Lake:
        if self._parent is not None:
            self._parent._open  # noqa: B018  # raises if the database was closed
        if self._lake is None:
            if self._parent is not None:
                raise StoreError(f"this session was closed: {self._shown}", hint="db.session() makes another")
            raise StoreError(f"{self._shown} was closed", hint="open it again: tidegate.open(…)")
        return self._lake

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tidegate.Database {self._shown}{' (closed)' if self._lake is None else ''}>"
