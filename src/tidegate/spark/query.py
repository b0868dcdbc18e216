"""Queries of any shape: bound and split by us, run by Spark.

    select(lake, parsed, as_of, watch)     a Result with path 'spark'
    explain(lake, parsed, as_of, …)        the scans, with their plans, what pruning leaves and how they are read; then Spark's plan
    frame(lake, spark, sql, as_of)         a DataFrame, for `db.table` of a view

What happens to `SELECT c.name, sum(o.price) FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de' GROUP BY 1`:

1. `sql/split_query.py` binds it, and moves `c.country = 'de'` into the scan of customers.
2. Both collections are pinned, at `as_of` or at what is committed, and stay so until it is done.
3. Each scan is pruned. Of customers little is left: it is read here. Its ids are a range, and a list if they are few, which prunes
   orders too (`query_reduce.py`).
4. `query_scan.py` chooses how orders is read; each scan becomes a view of a Spark session of this query's own.
5. `query_text.py` writes the rest as Spark SQL; `query_run.py` runs it, and hands back Arrow in our types, as it is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import EvaluationError, TidegateError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.show import show
from tidegate.expr.tree import Column, Expr, Literal, Now, has_now, rewrite
from tidegate.expr.types import MZ_TIMESTAMP
from tidegate.plan import explain as words
from tidegate.scan.result import Result, Scan, Stage
from tidegate.scan.stream import Batch, RowStream
from tidegate.scan.watch import Watch
from tidegate.session.lake import Lake, Seen
from tidegate.shard.reader import Snapshot, snapshot
from tidegate.shard.times import present
from tidegate.spark import scan
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.evaluate import udf_sql
from tidegate.spark.expression import SETTINGS
from tidegate.spark.query_reduce import reduced
from tidegate.spark.query_run import run, watched
from tidegate.spark.query_scan import Reading, added
from tidegate.spark.query_text import Writer
from tidegate.spark.session import active, beside, session, users_session
from tidegate.sql import syntax
from tidegate.sql.split import General, Rows, every
from tidegate.sql.split_query import general
from tidegate.text import identifier

REBINDS = 10
READY = 64 << 20
"""Bytes of rows that are collected at once; a larger result is read partition by partition."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A query, and the scans that it reads, pinned."""

    lake: Lake
    query: General
    readings: tuple[Reading, ...]
    now: int


def select(lake: Lake, parsed: syntax.Query, as_of: int | None, watch: Watch) -> Result:
    """Runs a query; what it reads stays pinned until its last row is read."""
    with ExitStack() as stack:
        found = stack.enter_context(opened(lake, parsed, as_of, watch))
        result = _run(found, watch)
        result.when_over(partial(_unpin, stack.pop_all()))
        return result


def _unpin(stack: ExitStack, error: BaseException | None) -> None:
    del error
    stack.close()


def _run(found: Opened, watch: Watch) -> Result:
    began, most = time.perf_counter(), found.lake.config.max_result_bytes
    with own_session(session()) as spark, _views(spark) as views:
        with watched(spark, watch):
            df = _frame(found, spark, views, lasting=False)
        planned = time.perf_counter()
        rows = run(df, found.query.types, watch, min(READY, most) if most else READY)
    cost = added([reading.cost for reading in found.readings])
    cost.stages.append(Stage("plan", seconds=planned - began))
    stream = RowStream(_counted(rows.batches(watch), cost, planned), watch)
    stream.fill(READY if rows.collected is not None else 0)
    return Result(found.query.names, found.query.types, stream, path="spark", scan=cost, max_bytes=most)


def _counted(rows: Iterator[Batch], cost: Scan, began: float) -> Iterator[Batch]:
    for columns, count in rows:
        cost.rows_returned += count
        yield columns, count
    spent = time.perf_counter() - began
    cost.stages.append(Stage("spark", cost.rows_read, cost.rows_returned, cost.bytes_read, spent))


@contextmanager
def _views(spark: SparkSession) -> Iterator[list[str]]:
    """The names of views that are dropped at the end."""
    views: list[str] = []
    try:
        yield views
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def frame(lake: Lake, spark: SparkSession, sql: str, as_of: int | None) -> DataFrame:
    """A query as a DataFrame of a session of the user's; what it reads stays pinned as long as it lives."""
    found = _pinned(lake, sql, as_of, Watch())
    with own_session(spark) as own, watched(own, Watch()):
        made = _frame(found, own, [], lasting=True)
    if any(reading.reader == "late" for reading in found.readings):
        with active(spark):  # the session in which the DataFrame is run, and Spark looks for its sources
            scan.register(spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    plan = made._jdf.queryExecution().analyzed()
    moved = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(moved, spark).toDF(*found.query.names)


def explain(lake: Lake, parsed: syntax.Query, as_of: int | None, *, analyze: bool) -> Result:
    """What a query would do, and with `analyze` what it did."""
    watch = Watch(lake.config.statement_timeout_ms)
    with opened(lake, parsed, as_of, watch) as found:
        with own_session(session()) as spark, watched(spark, watch), _views(spark) as views:
            df = _frame(found, spark, views, lasting=False)
            jvm: Any = spark.sparkContext._jvm
            plan = str(jvm.PythonSQLUtils.explainString(df._jdf.queryExecution(), "formatted"))
        lines = [line for reading in found.readings for line in _told(reading)]
        said = "\n".join(["Spark", *(f"  {line}" for line in lines), plan.strip()])
        if not analyze:
            return Result.done(said)
        began = time.perf_counter()
        ran = _run(found, watch)
        rows = ran.exhaust()
        took = 1000 * (time.perf_counter() - began)
        said += f"\nAnswered from spark in {took:.1f} ms: {rows:,} rows"
        return Result((), (), (), path="spark", scan=ran.scan, said=said)


def _told(reading: Reading) -> Iterator[str]:
    """A scan in words."""
    names = [column.name for column in reading.snapshot.schema.columns]
    plan, found = reading.plan, reading.found
    read = ", ".join(names[i] for i in sorted(plan.demand())) or "none"
    yield f"Scan {identifier(reading.scan.source)}: as of {reading.snapshot.as_of}, reader: {reading.reader}"
    if plan.conditions:
        yield f"  filter: {words.conjoined(plan.conditions, names)}"
    if plan.expressions:
        yield f"  computed: {', '.join(show(one, names) for one in plan.outputs if not isinstance(one, Column))}"
    yield f"  columns: {read}"
    total = words.size(found.size)
    yield f"  parts: {found.left:,} of {found.total:,} kept; bytes: {words.size(reading.bytes)} of {total}"
    for line in reading.because:
        yield f"  {line}"


# ---------------------------------------------------------------- opening


@contextmanager
def opened(lake: Lake, parsed: syntax.Query | str, as_of: int | None, watch: Watch) -> Iterator[Opened]:
    """A query with its collections pinned, while it is used."""
    found = _pinned(lake, parsed, as_of, watch)
    try:
        yield found
    finally:
        for pinned in {id(r.snapshot): r.snapshot for r in found.readings}.values():
            pinned.close()


def _pinned(lake: Lake, parsed: syntax.Query | str, as_of: int | None, watch: Watch) -> Opened:
    """Binds, pins snapshots that fit, and prunes."""
    for _ in range(REBINDS):
        wall, seen = lake.clock.now(), Seen(lake)
        query = general(parsed, seen, wall)
        scans = query.scans()
        with ExitStack() as stack:
            pinned: dict[str, Snapshot] = {}
            for source in dict.fromkeys(scan.source for scan in scans):
                shard = seen.tables[source][0]
                timeout = lake.config.as_of_timeout_ms
                found = snapshot(shard, as_of, timeout_ms=timeout, check=watch.check)
                pinned[source] = stack.enter_context(found)
            if all(found.schema.id == seen.tables[name][1].id for name, found in pinned.items()):
                stack.pop_all()
                now = _present(lake, parsed, seen, pinned, wall) if as_of is None else as_of
                readings = tuple(Reading(lake, scan, pinned[scan.source], now, watch) for scan in scans)
                return Opened(lake, query, readings, now)
    raise TidegateError("the collections' columns change faster than they can be read", hint="try again")


def _present(
    lake: Lake, parsed: syntax.Query | str, seen: Seen, pinned: dict[str, Snapshot], wall: int
) -> int:
    """What `mz_now()` is. Whether it matters is told by the texts: a name like it would at most refuse what need not be."""
    texts = (parsed if isinstance(parsed, str) else parsed.sql, *seen.views())
    temporal = any("mz_now" in text.lower() for text in texts)
    temporal = temporal or any(found.validity is not None for found in pinned.values())
    return present(wall, [found.state for found in pinned.values()], lake.config, temporal=temporal)


@contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session beside the user's, with settings in which a text means what it says; the user's stays the active one."""
    own = beside(spark)
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    own.conf.set("spark.sql.shuffle.partitions", str(spark.conf.get("spark.sql.shuffle.partitions")))
    before: Any = users_session() or spark
    try:
        yield own
    finally:  # pyspark's createDataFrame makes the session that it is called on the active one
        SparkSession._activeSession = before
        jvm: Any = own._jvm
        jvm.SparkSession.setActiveSession(before._jsparkSession)


# ---------------------------------------------------------------- as Spark has it


def _frame(found: Opened, spark: SparkSession, views: list[str], *, lasting: bool) -> DataFrame:
    """The query as a DataFrame; `views` gets the names of those that were made for it."""
    if found.lake.config.join_reduction:
        reduced(found.query, found.readings)
    known: dict[int, str] = {}
    for reading in found.readings:
        reading.frame(spark, lasting=lasting).createOrReplaceTempView(reading.view)
        known[id(reading.scan)] = reading.view
        views.append(reading.view)
    for i, rel in enumerate(every(found.query.rel)):
        if isinstance(rel, Rows):
            view = f"tg_values_{i}"
            _values(rel, spark, found.now).createOrReplaceTempView(view)
            known[id(rel)] = view
            views.append(view)

    def evaluated(expr: Expr, columns: Sequence[str]) -> str:
        return udf_sql(spark, at(expr, found.now), columns, found.now)

    return spark.sql(Writer(found.query, known, evaluated).whole())


def at(expr: Expr, now: int) -> Expr:
    """An expression in which `mz_now()` is known."""
    if not has_now(expr):
        return expr
    value = Literal(pa.scalar(now, MZ_TIMESTAMP.arrow), MZ_TIMESTAMP)
    return rewrite(expr, lambda node: value if isinstance(node, Now) else node)


def _values(rel: Rows, spark: SparkSession, now: int) -> DataFrame:
    """VALUES as a table."""
    types = [column.type for column in rel.columns]
    arrays = []
    for i, type_ in enumerate(types):
        pieces = []
        for row in rel.rows:
            outcome = evaluate(row[i], [], 1, now)
            if outcome.errors is not None and outcome.errors[0].is_valid:
                raise EvaluationError(outcome.errors[0].as_py())
            pieces.append(
                outcome.values.cast(type_.arrow) if outcome.values.type != type_.arrow else outcome.values
            )
        arrays.append(pa.concat_arrays(pieces))
    names = [f"c{column.index}" for column in rel.columns]
    schema = spark_schema(names, types)
    wanted = arrow_schema(schema)
    return spark.createDataFrame(pa.Table.from_batches([batch(arrays, types, wanted)], wanted), schema)
