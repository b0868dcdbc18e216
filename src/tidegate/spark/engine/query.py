"""Queries of any shape: bound and pruned by us, run by Spark.

    select(lake, parsed, as_of, watch)     a Result with path 'spark'
    explain(lake, parsed, as_of, …)        the scans with plan, pruning and reader; then Spark's plan
    query_frame(lake, spark, sql, as_of)   a DataFrame, for `db.table` of a view

What happens to `SELECT c.name, sum(o.price) FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de' GROUP BY 1`:

1. `sql/bind/general/query.py` binds it and pushes `c.country = 'de'` into the scan of customers.
2. Both collections are pinned, at `as_of` or at what is committed, until the query ends.
3. Each scan is pruned. Little of customers is left: it is read here. Its ids become a range, and a list if they are few, which
   prunes orders too (`semi_join.py`).
4. `scans.py` chooses how orders is read; each scan becomes a view of a Spark session that belongs to this query.
5. `sql_text.py` writes the rest as Spark SQL; `run.py` runs it and returns Arrow in our types, on demand.
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

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import EvaluationError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Expr, Literal, Now, show, tree, types
from tidegate.plan import explain as explain_text
from tidegate.plan import logical
from tidegate.query import Batch, CancelToken, Result, RowStream, ScanMetrics, Stage
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.engine.run import cancel_with, run
from tidegate.spark.engine.scans import QueryScan, total_cost
from tidegate.spark.engine.semi_join import reduce_scans
from tidegate.spark.engine.sql_text import SparkSqlWriter
from tidegate.spark.read import late_scan
from tidegate.spark.session import session, sibling_session, use_session, user_session
from tidegate.spark.translate.evaluator_udf import udf_sql
from tidegate.spark.translate.to_spark_sql import SETTINGS
from tidegate.sql.bind import bind_general
from tidegate.sql.parse import syntax
from tidegate.statements import Pinned, pin
from tidegate.storage.shard import resolve_now
from tidegate.text import format_bytes, identifier

MAX_COLLECTED_BYTES = 64 << 20
"""Bytes of rows that are collected at once; a larger result is read partition by partition."""


@dataclass(frozen=True, eq=False)
class PinnedQuery:
    """A bound query whose scans read pinned snapshots."""

    lake: Context
    query: logical.LogicalQuery
    scans: tuple[QueryScan, ...]
    now: int


def select(lake: Context, parsed: syntax.Query, as_of: int | None, watch: CancelToken) -> Result:
    """Runs a query; its snapshots stay pinned until its last row is read."""
    with ExitStack() as stack:
        pinned = stack.enter_context(pinned_query(lake, parsed, as_of, watch))
        result = _run(pinned, watch)
        result.when_over(partial(_unpin, stack.pop_all()))
        return result


def _unpin(stack: ExitStack, error: BaseException | None) -> None:
    del error
    stack.close()


def _run(pinned: PinnedQuery, watch: CancelToken) -> Result:
    began, limit = time.perf_counter(), pinned.lake.config.max_result_bytes
    with query_session(session()) as spark, _views(spark) as views:
        with cancel_with(spark, watch):
            df = _frame(pinned, spark, views, lasting=False)
        planned = time.perf_counter()
        rows = run(
            df, pinned.query.types, watch, min(MAX_COLLECTED_BYTES, limit) if limit else MAX_COLLECTED_BYTES
        )
    cost = total_cost([scan.cost for scan in pinned.scans])
    cost.stages.append(Stage("plan", seconds=planned - began))
    stream = RowStream(_count_rows(rows.batches(watch), cost, planned), watch)
    stream.fill(MAX_COLLECTED_BYTES if rows.collected is not None else 0)
    return Result(pinned.query.names, pinned.query.types, stream, path="spark", scan=cost, max_bytes=limit)


def _count_rows(rows: Iterator[Batch], cost: ScanMetrics, began: float) -> Iterator[Batch]:
    for columns, count in rows:
        cost.rows_returned += count
        yield columns, count
    spent = time.perf_counter() - began
    cost.stages.append(Stage("spark", cost.rows_read, cost.rows_returned, cost.bytes_read, spent))


@contextmanager
def _views(spark: SparkSession) -> Iterator[list[str]]:
    """Yields a list for the names of views; these are dropped at the end."""
    views: list[str] = []
    try:
        yield views
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def query_frame(lake: Context, spark: SparkSession, sql: str, as_of: int | None) -> DataFrame:
    """Returns a query as a DataFrame of the user's session, which keeps its snapshots pinned."""
    pinned = _pin(lake, sql, as_of, CancelToken())
    with query_session(spark) as own, cancel_with(own, CancelToken()):
        df = _frame(pinned, own, [], lasting=True)
    if any(scan.planned.reader == "late" for scan in pinned.scans):
        with use_session(spark):  # the DataFrame runs in this session, in which Spark looks up its sources
            late_scan.register(spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    plan = df._jdf.queryExecution().analyzed()
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(dataset, spark).toDF(*pinned.query.names)


def explain(lake: Context, parsed: syntax.Query, as_of: int | None, *, analyze: bool) -> Result:
    """Describes how a query runs; with `analyze` it is run too."""
    watch = CancelToken(lake.config.statement_timeout_ms)
    with pinned_query(lake, parsed, as_of, watch) as pinned:
        with query_session(session()) as spark, cancel_with(spark, watch), _views(spark) as views:
            df = _frame(pinned, spark, views, lasting=False)
            jvm: Any = spark.sparkContext._jvm
            plan = str(jvm.PythonSQLUtils.explainString(df._jdf.queryExecution(), "formatted"))
        lines = [line for scan in pinned.scans for line in _explain_scan(scan)]
        text = "\n".join(["Spark", *(f"  {line}" for line in lines), plan.strip()])
        if not analyze:
            return Result.message(text)
        began = time.perf_counter()
        ran = _run(pinned, watch)
        rows = ran.exhaust()
        took = 1000 * (time.perf_counter() - began)
        text += f"\nAnswered from spark in {took:.1f} ms: {rows:,} rows"
        return Result((), (), (), path="spark", scan=ran.scan, said=text)


def _explain_scan(scan: QueryScan) -> Iterator[str]:
    """Yields the lines of EXPLAIN about one scan."""
    names = [column.name for column in scan.snapshot.schema.columns]
    planned, plan, pruned = scan.planned, scan.planned.plan, scan.planned.pruned
    read = ", ".join(names[i] for i in sorted(plan.demand())) or "none"
    yield f"Scan {identifier(scan.scan.source)}: as of {scan.snapshot.as_of}, reader: {planned.reader}"
    if plan.conditions:
        yield f"  filter: {explain_text.conjoined(plan.conditions, names)}"
    if plan.expressions:
        yield f"  computed: {', '.join(show(output, names) for output in plan.outputs if not isinstance(output, Column))}"
    yield f"  columns: {read}"
    total = format_bytes(pruned.size)
    yield f"  parts: {pruned.left:,} of {pruned.total:,} kept; bytes: {format_bytes(planned.bytes)} of {total}"
    for line in scan.notes:
        yield f"  {line}"


# ---------------------------------------------------------------- binding and pinning


@contextmanager
def pinned_query(
    lake: Context, parsed: syntax.Query | str, as_of: int | None, watch: CancelToken
) -> Iterator[PinnedQuery]:
    """Binds a query and pins its collections while it is used."""
    pinned = _pin(lake, parsed, as_of, watch)
    try:
        yield pinned
    finally:
        for snap in {id(scan.snapshot): scan.snapshot for scan in pinned.scans}.values():
            snap.close()


def _pin(lake: Context, parsed: syntax.Query | str, as_of: int | None, watch: CancelToken) -> PinnedQuery:
    """Binds a query and pins snapshots of its collections."""

    def bind(catalog: CatalogSnapshot, wall: int) -> logical.LogicalQuery:
        return bind_general(parsed, catalog, wall)

    def sources(query: logical.LogicalQuery) -> list[str]:
        return [scan.source for scan in query.scans()]

    pinned = pin(lake, bind, sources, as_of, check=watch.check)
    now = _present(lake, parsed, pinned) if as_of is None else as_of
    snapshots = pinned.snapshots
    scans = tuple(QueryScan(lake, scan, snapshots[scan.source], now, watch) for scan in pinned.query.scans())
    return PinnedQuery(lake, pinned.query, scans, now)


def _present(lake: Context, parsed: syntax.Query | str, pinned: Pinned[logical.LogicalQuery]) -> int:
    """Returns mz_now(). A text that contains its name counts as using it: at worst too much is refused."""
    texts = (parsed if isinstance(parsed, str) else parsed.sql, *pinned.catalog.views())
    temporal = any("mz_now" in text.lower() for text in texts)
    temporal = temporal or any(snap.validity is not None for snap in pinned.snapshots.values())
    states = [snap.state for snap in pinned.snapshots.values()]
    return resolve_now(pinned.wall, states, lake.config, temporal=temporal)


@contextmanager
def query_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Yields a session beside the user's, which stays active, with the settings that our SQL needs."""
    own = sibling_session(spark)
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    own.conf.set("spark.sql.shuffle.partitions", str(spark.conf.get("spark.sql.shuffle.partitions")))
    before: Any = user_session() or spark
    try:
        yield own
    finally:  # pyspark's createDataFrame makes its own session the active one
        SparkSession._activeSession = before
        jvm: Any = own._jvm
        jvm.SparkSession.setActiveSession(before._jsparkSession)


# ---------------------------------------------------------------- as a DataFrame


def _frame(pinned: PinnedQuery, spark: SparkSession, views: list[str], *, lasting: bool) -> DataFrame:
    """Returns the query as a DataFrame; adds the names of the views that it needs to `views`."""
    if pinned.lake.config.join_reduction:
        reduce_scans(pinned.query, pinned.scans)
    view_of: dict[int, str] = {}
    for scan in pinned.scans:
        scan.frame(spark, lasting=lasting).createOrReplaceTempView(scan.view)
        view_of[id(scan.scan)] = scan.view
        views.append(scan.view)
    for i, rel in enumerate(logical.walk(pinned.query.rel)):
        if isinstance(rel, logical.ConstantRows):
            view = f"tg_values_{i}"
            _values(rel, spark, pinned.now).createOrReplaceTempView(view)
            view_of[id(rel)] = view
            views.append(view)

    def evaluated(expr: Expr, columns: Sequence[str]) -> str:
        return udf_sql(spark, replace_now(expr, pinned.now), columns, pinned.now)

    return spark.sql(SparkSqlWriter(pinned.query, view_of, evaluated).whole())


def replace_now(expr: Expr, now: int) -> Expr:
    """Replaces mz_now() by its value."""
    if not tree.has_now(expr):
        return expr
    value = Literal(pa.scalar(now, types.MZ_TIMESTAMP.arrow), types.MZ_TIMESTAMP)
    return tree.rewrite(expr, lambda node: value if isinstance(node, Now) else node)


def _values(rel: logical.ConstantRows, spark: SparkSession, now: int) -> DataFrame:
    """Returns VALUES as a DataFrame."""
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
