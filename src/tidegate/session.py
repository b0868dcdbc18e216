"""A session: one client of an open database, with its own settings and a life of its own.

    with db.session() as session:
        session.set("statement_timeout_ms", 500)
        session.sql("SELECT …")

| method | implemented in |
|---|---|
| `sql` | `statements/execute.py` |
| `append`, `recluster`, `backfill_statistics`, `status`, `maps` | `statements/` |
| `table`, `attach` | `spark/` |
| `ingest` | `ingest/runtime/`; splits are read in this process, or by `spark/tasks/` |
| `compact`, `sweep`, `repair` | `storage/maintain/` |
| `doctor` | `doctor/` |
| `metrics` | `metrics.py`; `statements/observe.py` says what is counted |

`Database` (`database.py`) is the session of the database's owner. Threads may share a session.
"""

from __future__ import annotations

import importlib.util
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeAlias, overload

from tidegate.access import Reach
from tidegate.boundary import callback, instance, milliseconds, public, text
from tidegate.context import Context
from tidegate.errors import StoreError, TidegateError, UnsupportedError
from tidegate.logs import log_maintenance
from tidegate.progress import Meter, Report
from tidegate.query import CancelToken, Result
from tidegate.query.relational import PinnedQuery
from tidegate.sql.parse import Parameters
from tidegate.statements import Status, append, contents, execute, explain_last, status
from tidegate.storage.maintain import Compacted, Swept, compact_shard, sweep_shard

if (
    TYPE_CHECKING
):  # what ingests and maintains takes as long to import as what reads, and a query must not wait for it
    from tidegate.doctor import Diagnosis, ReportStep
    from tidegate.ingest.runtime import BatchRunner, Ingestion, IngestionGroup, ReportIngestion
    from tidegate.statements.preview import Maps
    from tidegate.storage.maintain import Learnt, Reclustered, Repaired, TaskRunner

P = ParamSpec("P")
Spark: TypeAlias = Any
"""A SparkSession. Its name would import pyspark, which tidegate.spark alone does."""


class SparkEngine:
    """Runs queries of any shape on Spark. pyspark is imported by the first of them."""

    def select(self, context: Context, pinned: PinnedQuery, watch: CancelToken) -> Result:
        """Runs a query."""
        _check_pyspark()
        from tidegate import spark

        return spark.select(context, pinned, watch)

    def plan(self, context: Context, pinned: PinnedQuery, watch: CancelToken) -> str:
        """The plan by which Spark would run a query; this starts it."""
        _check_pyspark()
        from tidegate import spark

        return spark.plan(context, pinned, watch)


def _check_pyspark(
    what: str = "this query runs on Spark, which is not installed",
    instead: str = "",
) -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise UnsupportedError(what, hint=f"pip install 'tidegate[spark]'{instead and '; '}{instead}")


def _as_callback(report: Callable[P, None] | None) -> Callable[P, None] | None:
    """A callback of the caller, whose exceptions pass the API boundary unchanged."""
    return None if report is None else callback(report)


@log_maintenance
@public
class Session:
    """One client of an open database, with its own settings. Closing it affects nobody else.

    with db.session() as session:
        session.set("statement_timeout_ms", 500)
        session.sql("SELECT count(*) FROM t").rows()
    """

    def __init__(self, context: Context, database: Session | None = None) -> None:
        """Use `Database.session`; `database` stays open as long as a session refers to it."""
        self._context: Context | None = context
        self._database = database
        self._shown = context.root.place.root or "memory"
        self._attached: list[Any] = []
        self._results: weakref.WeakSet[Result] = weakref.WeakSet()
        """Results with rows that are not read yet."""

    @property
    def context(self) -> Context:
        """What the next statement runs in: for the servers and Spark, and no part of the public contract."""
        if self._database is not None:
            self._database.context  # noqa: B018  # raises if the database was closed
        context = self._context  # read once: another thread may close the session meanwhile
        if context is None:
            raise self._closed_error()
        return context.current()

    def _closed_error(self) -> StoreError:
        return StoreError(f"this session was closed: {self._shown}", hint="db.session() makes another")

    def sql(
        self,
        sql: str,
        values: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        as_of: int | None = None,
        watch: CancelToken | None = None,
    ) -> Result:
        """Runs statements; the result of the last.

            db.sql("SELECT id FROM orders WHERE price > $1 AND buyer = $2", [5, "ann"]).df()
            db.sql("SELECT count(*) FROM orders WHERE price > :least", {"least": 5}, as_of=1767225600000)

        `values` are those of parameters: a list for `$1`, `$2` …, a dict for `:name`. They are never made part of the text.
        `as_of` is the time to read at, in ms, as AS OF is in SQL. With a `watch` another thread can end the queries:
        `watch.cancel()`, or `Watch(timeout_ms=500)` beforehand. Of a large result the rest is read as it is asked for, and
        the time-out counts on until then: see `Result`.
        """
        watch = None if watch is None else instance(watch, CancelToken, "watch", "Watch")
        parameters = None if values is None else Parameters.of(values)
        result = execute(self.context, text(sql, "SQL"), milliseconds(as_of, "as_of"), watch, parameters)
        if result.live:
            self._results.add(result)
        result.explained_by(partial(explain_last, self.sql, sql, values, as_of))
        for attached in self._attached:
            attached.follow()
        return result

    def append(
        self, name: str, rows: Any, at: int | None = None, diff: Any = 1, *, token: str | None = None
    ) -> int:
        """Appends rows to a table as one atomic batch; the time they were given.

            db.append("orders", {"id": [1, 2], "price": [9.5, 12.0]})
            db.append("orders", pyarrow.Table.from_pylist([{"id": 3, "price": 1.0}]))

        `rows` is an Arrow table, or a mapping of names to arrays or lists. `at` is their time in ms, at or above the
        collection's `upper`; without it, now. `diff` is how often each row is added: -1 retracts it; an array gives each row
        its own. With a `token`, doing it again changes nothing.
        """
        return append(self.context, name, rows, at, diff, token)

    def table(self, name: str, spark: Spark | None = None, as_of: int | None = None) -> Any:
        """A collection or view as an ordinary Spark DataFrame: filters on it, of any shape, prune parts.

            db.table("orders", spark).where("created_at + INTERVAL 3 DAYS > now()").show()

        It is a snapshot, pinned when it is made, at `as_of` or what is committed now. `spark` is the session; without it the
        active one, or a new one on this machine.
        """
        from tidegate.spark import table

        return table(self.context, name, spark, milliseconds(as_of, "as_of"))

    def attach(self, spark: Spark | None = None) -> Any:
        """Makes every collection and view a temporary view of a Spark session, always up to date.

        `db.attach(spark)`, then `spark.sql("SELECT … FROM orders")`. What comes back can `refresh()` and `detach()`.
        """
        from tidegate.spark import attach

        self._attached.append(attach(self.context, spark))
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
    ) -> IngestionGroup: ...

    def ingest(
        self,
        name: str | Sequence[str] | None = None,
        *,
        once: bool = False,
        spark: Spark | Literal[False] | None = None,
        progress: ReportIngestion | None = None,
    ) -> Ingestion | IngestionGroup:
        """Runs a source, several, or all; what comes back has `progress()`, `stop()`, `wait()`, `error`.

        `db.ingest("clicks")` runs in the background until it is stopped; with `once` it returns when everything that upstream
        has now is ingested. On Spark: in the session that is given, the active one, or a new one on this machine; with
        `spark=False` in this process alone. `progress` is called with each change; without it there is a bar on a terminal, and
        a log record.
        """
        from tidegate.ingest.runtime import ingest

        return ingest(
            self.context, name, lambda: self._tasks(spark), once=once, report=_as_callback(progress)
        )

    def _tasks(self, spark: Spark | Literal[False] | None) -> BatchRunner:
        """What reads the splits of sources: this process, or Spark."""
        from tidegate.ingest.runtime import LocalRunner

        place = self.context.root.place
        if spark is False or (spark is None and place.kind == "memory"):
            return LocalRunner()
        _check_pyspark("sources are read on Spark, which is not installed", "or spark=False: in this process")
        from tidegate.spark import ingest_crew

        return ingest_crew(spark, place)

    def compact(
        self,
        name: str,
        *,
        full: bool = False,
        spark: Spark | None = None,
        progress: Report | None = None,
    ) -> Compacted:
        """Merges small parts of a table, and forgets times that its retention no longer keeps; what was done.

        `db.compact("orders")` runs in this process; or on Spark, if a session is given, or one is active and there is much to do
        (`spark_compact_bytes`). With `full` it merges large parts too.
        """
        context = self.context
        shard, place = context.collection(name), context.root.place
        if spark is None and "pyspark" in sys.modules:
            from tidegate.spark import compaction_session

            spark = compaction_session(shard, place, full=full)
        if spark is None:
            return compact_shard(shard, full=full, meter=Meter(f"compact {name}", _as_callback(progress)))

        from tidegate.storage.maintain import compact_distributed

        return compact_distributed(
            self._crew(spark, f"compact {name}"),
            shard,
            place,
            full=full,
            report=_as_callback(progress),
            name=name,
        )

    def recluster(
        self,
        name: str,
        *,
        by: Sequence[str] | None = None,
        spark: Spark | None = None,
        progress: Report | None = None,
    ) -> Reclustered:
        """Sorts a table by its CLUSTER BY columns across parts, within ranges of time.

        `db.recluster("orders", by=["buyer"])` makes `buyer` its CLUSTER BY from here on. On Spark if a session is given.
        """
        from tidegate.statements import recluster

        crew = None if spark is None else self._crew(spark, f"recluster {name}")
        return recluster(self.context, name, by, crew, _as_callback(progress))

    def backfill_statistics(
        self, name: str, *, spark: Spark | None = None, progress: Report | None = None
    ) -> Learnt:
        """Collects statistics of parts that were written without them: `db.backfill_statistics("orders")`."""
        from tidegate.statements import backfill_statistics

        crew = None if spark is None else self._crew(spark, f"statistics {name}")
        return backfill_statistics(self.context, name, crew, _as_callback(progress))

    def _crew(self, spark: Spark, what: str) -> TaskRunner:
        from tidegate.spark import maintenance_crew

        return maintenance_crew(spark, self.context.root.place, what)

    def sweep(self) -> Swept:
        """Deletes files that nothing refers to any more; what was deleted: `db.sweep().garbage`."""
        context = self.context
        done = context.catalog.sweep(context.shards.open)
        for name in status(context).collections:
            found = sweep_shard(context.collection(name))
            done.garbage += found.garbage
            done.orphans += found.orphans
            done.temporary += found.temporary
            done.leases += found.leases
        return done

    def repair(self, name: str, to: int | None = None) -> Repaired:
        """Moves rows with a time far ahead of the clock to the time `to`, in ms, or to now.

        `db.repair("orders").parts` had such a time. All rows stay, and can be read at that time and later; `upper` goes back.
        """
        from tidegate.storage.maintain import repair_shard

        return repair_shard(self.context.collection(name), milliseconds(to, "to"))

    def status(self) -> Status:
        """What the lake holds, from metadata alone: `db.status().collections["orders"].rows`."""
        return status(self.context)

    def metrics(self) -> str:
        """What was done since it was opened, as Prometheus reads it: `print(db.metrics())`."""
        return self.context.metrics.text()

    def doctor(
        self, *, deep: bool = False, read_only: bool = False, progress: ReportStep | None = None
    ) -> Diagnosis:
        """Examines the lake and this machine; each finding says what it means and what to do.

            print(db.doctor().text())

        With `deep` it reads every part and verifies its checksum. It never changes user data; with `read_only` it does not even
        write the probes by which it tries the stores. `progress` gets what is checked, how much is done, and how much there is.
        """
        from tidegate.doctor import diagnose

        report = None if progress is None else callback(progress)
        return diagnose(self.context, deep=deep, read_only=read_only, report=report)

    @property
    def maps(self) -> Maps:
        """Where parts lie and what a query would read, for pictures: `db.maps.query("SELECT …")`."""
        from tidegate.statements.preview import Maps

        return Maps(self.context)

    def session(self, reach: Reach | None = None) -> Session:
        """A session for one client, with its own settings, which start as those of this one.

        `with db.session() as session: …` closes it at the end. `reach` limits the files and hosts that its statements may use.
        SET in it affects its own statements; settings that concern everybody, such as `lease_ms`, it cannot change. Closing it
        ends it alone: ingestions and open collections belong to the database. It ends with the database at the latest.
        """
        context = self.context
        limits = context.access if reach is None else instance(reach, Reach, "reach")
        return Session(context.for_session(limits), self._database or self)

    def set(self, name: str, value: object) -> None:
        """Changes a setting as SET does: `db.set("audit", 0.1)`. On a Database for all; None restores it."""
        self.context.set(name, value)

    def close(self) -> None:
        """Ends this session and the results that are not read to their end, and nothing else."""
        for result in list(self._results):
            result.close()
        while self._attached:
            self._attached.pop().detach()
        self._context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tidegate.{type(self).__name__} {self._shown}{self._contents()}>"

    def _contents(self) -> str:
        """How many collections, views and sources there are, from the catalog alone."""
        if self._context is None:
            return " (closed)"
        try:
            found = contents(self.context)
        except (
            TidegateError
        ):  # it is closed, or its store does not answer: what asks for a name is not told so
            return ""
        return f": {found}" if found else ": empty"

    def _repr_html_(self) -> str:
        """What notebooks show: the tables of `status()`."""
        return status(self.context)._repr_html_()
