"""`spark.read.format("tidegate").load("lake:t")`: a collection read by our own scan, where `db.table` cannot be had.

    spark.read.format("tidegate").option("where", "total > 5").option("columns", "id, total").load("lake:orders")

`db.table("orders", spark)` is the better way: filters on it reach the statistics, and Spark reads only the columns that a query
needs. This one needs nothing but a path. Spark hands a Python source neither columns nor filters (in what it could hand over there
is a bug that gives wrong rows), so they are options:

| option | |
|---|---|
| `columns` | names with commas between them; all, if it is not given |
| `where` | a condition in Tidegate's SQL: it prunes parts and pages, and only rows that pass leave the tasks |
| `as_of` | the time to read at, in ms; the newest, if it is not given |

The snapshot is pinned when a DataFrame is first run, and so stays the same for that DataFrame. The lease on it is kept for
`lease_ms`; after that the parts stay for `sweep_grace_ms` more. One that is gone after that is an error, never fewer rows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark.sql.types import StructType

from tidegate.errors import BindError, PlanError, TidegateError
from tidegate.scan.prune import prune
from tidegate.scan.question import Question
from tidegate.scan.sort import Shape
from tidegate.session.lake import Lake, Seen
from tidegate.shard.reader import Snapshot, snapshot
from tidegate.shard.times import present
from tidegate.spark.arrow import spark_schema
from tidegate.spark.scan import ScanReader, splits_of, suits, work_of
from tidegate.spark.target import Target, target, whole_number
from tidegate.sql import bind
from tidegate.sql.bind import BoundQuery
from tidegate.text import identifier

SPLITS = 16
"""Tasks that are made at least, if there are that many parts of some size: a planner does not know how many cores there are."""
REBINDS = 10


def schema_of(options: Mapping[str, str]) -> StructType:
    """The columns that a load gives."""
    found = target(options)
    lake = found.lake()
    lake.item(found.collection)
    bound = _bound(found, options, lake, Seen(lake))
    return spark_schema(bound.names, bound.mfp.types)


def reader(options: Mapping[str, str], schema: StructType) -> ScanReader:
    """What reads it: the splits of a snapshot that is pinned now."""
    found = target(options)
    lake, as_of = found.lake(), whole_number(options, "as_of")
    lake.item(found.collection)
    for _ in range(REBINDS):
        seen = Seen(lake)
        bound = _bound(found, options, lake, seen)
        if [field.name for field in schema] != list(bound.names):
            raise BindError(
                f"the schema given has other columns than the collection: {', '.join(bound.names)}",
                hint='leave it out, or name them by option("columns", …)',
            )
        assert bound.source is not None
        shard, known = seen.tables[bound.source]
        pinned = snapshot(shard, as_of, timeout_ms=lake.config.as_of_timeout_ms)
        if pinned.schema.id == known.id:
            return _reader(lake, bound, pinned, as_of, schema)
        pinned.close()
    raise TidegateError("the collection's columns change faster than they can be read", hint="try again")


def _reader(
    lake: Lake, bound: BoundQuery, pinned: Snapshot, as_of: int | None, schema: StructType
) -> ScanReader:
    wall, temporal = lake.clock.now(), bound.mfp.is_temporal
    now = present(wall, [pinned.state], lake.config, temporal=temporal) if as_of is None else as_of
    plan = bound.mfp.at(now).optimise()
    left = prune(pinned, plan, now, use=lake.config.stats_filter)
    question = Question(pinned, plan, bound.names, Shape(), now, lake.config)
    if not suits(pinned, left):
        pinned.close()
        raise PlanError(
            "what is to be read has retractions, and is too large for one task",
            hint="read it through db.table, whose rows Spark adds up; or compact it",
        )
    made = ScanReader(work_of(lake, question, left), splits_of(question, left, SPLITS), schema)
    # This process does not know when the DataFrame is done with, and may live as long as the application.
    timer = threading.Timer(lake.config.lease_ms / 1000, pinned.close)
    timer.daemon = True
    timer.start()
    return made


def _bound(found: Target, options: Mapping[str, str], lake: Lake, seen: Seen) -> BoundQuery:
    """The query that the options mean."""
    given = [name.strip() for name in options.get("columns", "").split(",") if name.strip()]
    columns = ", ".join(map(identifier, given)) or "*"
    where = options.get("where")
    sql = f"SELECT {columns} FROM {identifier(found.collection)}" + (f" WHERE ({where})" if where else "")
    bound = bind.query(sql, seen, lake.clock.now())
    shaped = bound.order_by or bound.offset or bound.limit is not None
    if bound.source is None or bound.aggregation is not None or shaped:
        raise BindError(
            f'"{found.collection}" is not rows of one collection', hint="read a table, or such a view"
        )
    return bound
