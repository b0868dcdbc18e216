"""`spark.read.format("tidegate").load("lake:t")`: a collection read by our own scan.

    spark.read.format("tidegate").option("where", "total > 5").option("columns", "id, total").load("lake:orders")

`db.table("orders", spark)` is better: its filters prune parts, and Spark reads only the columns that a query needs. This way needs
nothing but a path. Spark passes neither columns nor filters to a Python source (its filter pushdown has a bug that returns wrong
rows), so they are options:

| option | |
|---|---|
| `columns` | names separated by commas; default: all |
| `where` | a condition in Tidegate's SQL: it prunes parts and pages, and only rows that pass leave the tasks |
| `as_of` | the time to read at, in ms; default: the newest |

The snapshot is pinned when a DataFrame first runs, and stays the same for that DataFrame. Its lease is held for `lease_ms`; after
that the parts stay for `sweep_grace_ms` more. A part that is gone after that is an error, never fewer rows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark.sql.types import StructType

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import BindError, PlanError
from tidegate.plan import BoundQuery
from tidegate.query import ResultShape, ScanRequest
from tidegate.query.prune import prune
from tidegate.spark.arrow import spark_schema
from tidegate.spark.read.late_scan import ScanReader, fits_tasks, partition_parts, scan_spec
from tidegate.spark.target import Target, integer_option, parse_target
from tidegate.sql import prepare
from tidegate.statements import pin
from tidegate.storage.shard import Snapshot, resolve_now
from tidegate.text import identifier

CORES = 16
"""The number of cores that partitions are made for: Spark's planner process does not know the real one."""


def schema_of(options: Mapping[str, str]) -> StructType:
    """Returns the columns of a read."""
    target = parse_target(options)
    lake = target.lake()
    lake.item(target.collection)
    bound = _bind(target, options, lake, CatalogSnapshot(lake))
    return spark_schema(bound.names, bound.mfp.types)


def reader(options: Mapping[str, str], schema: StructType) -> ScanReader:
    """Pins a snapshot and returns the reader of its partitions."""
    target = parse_target(options)
    lake, as_of = target.lake(), integer_option(options, "as_of")
    lake.item(target.collection)

    def bind(catalog: CatalogSnapshot, wall: int) -> BoundQuery:
        del wall
        bound = _bind(target, options, lake, catalog)
        if [field.name for field in schema] != list(bound.names):
            raise BindError(
                f"the schema has other columns than the collection: {', '.join(bound.names)}",
                hint='leave out the schema, or choose columns by option("columns", …)',
            )
        return bound

    pinned = pin(lake, bind, lambda bound: [bound.source or ""], as_of)
    (snap,) = pinned.snapshots.values()
    return _reader(lake, pinned.query, snap, as_of, schema)


def _reader(
    lake: Context, bound: BoundQuery, pinned: Snapshot, as_of: int | None, schema: StructType
) -> ScanReader:
    wall, temporal = lake.clock.now(), bound.mfp.is_temporal
    now = resolve_now(wall, [pinned.state], lake.config, temporal=temporal) if as_of is None else as_of
    plan = bound.mfp.at(now).optimise()
    pruned = prune(pinned, plan, now, use=lake.config.stats_filter)
    question = ScanRequest(pinned, plan, bound.names, ResultShape(), now, lake.config)
    if not fits_tasks(pinned, pruned):
        pinned.close()
        raise PlanError(
            "the remaining parts have retractions and are too large for one task",
            hint="read it through db.table, where Spark consolidates rows; or compact it",
        )
    scan_reader = ScanReader(
        scan_spec(lake, question, pruned), partition_parts(question, pruned, CORES), schema
    )
    _close_after(pinned, lake.config.lease_ms)
    return scan_reader


def _close_after(pinned: Snapshot, milliseconds: int) -> None:
    """Closes a snapshot after a fixed time.

    This runs in a planner process of Spark, which lives as long as the application. Spark does not tell it when a DataFrame has
    run, or that a DataFrame no longer exists, so nothing better than a time limit can end the lease.
    """
    timer = threading.Timer(milliseconds / 1000, pinned.close)
    timer.daemon = True
    timer.start()


def _bind(target: Target, options: Mapping[str, str], lake: Context, seen: CatalogSnapshot) -> BoundQuery:
    """Binds the query that the options describe."""
    names = [name.strip() for name in options.get("columns", "").split(",") if name.strip()]
    columns = ", ".join(map(identifier, names)) or "*"
    where = options.get("where")
    sql = f"SELECT {columns} FROM {identifier(target.collection)}" + (f" WHERE ({where})" if where else "")
    bound = prepare(sql, seen, lake.clock.now()).single
    shaped = bound is not None and (bound.order_by or bound.offset or bound.limit is not None)
    if bound is None or bound.source is None or bound.aggregation is not None or shaped:
        raise BindError(
            f'"{target.collection}" is a view with more than rows of one collection',
            hint="read a table, or a view of one table without GROUP BY, ORDER BY and LIMIT",
        )
    return bound
