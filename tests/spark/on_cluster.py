"""A driver on a cluster: writes, joins, compacts, ingests. It says when it is in the middle of each, so that workers can be killed.

    python -m tests.spark.on_cluster spark://… LAKE ROWS

For each step it prints `middle STEP` when some of the step's tasks are done and others are not, and `done STEP {…}` with what it
found. It begins a step when it reads a line. What must come out does not depend on who was killed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from tidegate import Database
from tidegate.spark.data_source import register

WRITERS = 24
"""Tasks of the write, and so parts."""


def say(*words: object) -> None:
    print(*words, flush=True)


def started(url: str, more: Mapping[str, str] | None = None) -> SparkSession:
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": java,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        **(more or {}),
    }
    builder = SparkSession.builder.master(url).appName("tidegate on a cluster")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def watched(spark: SparkSession, step: str, work: Callable[[], Any]) -> Any:
    """Runs the step, and says when it is in the middle: a task is done, and more are to come."""
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()

    def look() -> None:
        before = set(tracker.getActiveStageIds())
        while not over.is_set():
            jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
            ids = {stage for job in jobs if job is not None for stage in job.stageIds}
            found = [info for id_ in ids - before if (info := tracker.getStageInfo(id_)) is not None]
            ended, all_ = (sum(getattr(i, name) for i in found) for name in ("numCompletedTasks", "numTasks"))
            if ended and all_ - ended > 1:
                say("middle", step)
                return
            time.sleep(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        return work()
    finally:
        over.set()
        watcher.join()


def numbers(spark: SparkSession, rows: int) -> DataFrame:
    """Rows in no order, as a pipeline would have them."""
    id_ = (f.col("id") * 7919) % rows
    return spark.range(0, rows, 1, WRITERS).select(
        id_.alias("id"),
        (id_ % 1000).cast("int").alias("kind"),
        (f.col("id") / 3).alias("x"),
        f.concat(f.lit("note "), f.md5(f.col("id").cast("string"))).alias("note"),
    )


def write(spark: SparkSession, db: Database, lake: str, rows: int) -> dict[str, Any]:
    numbers(spark, rows).write.format("tidegate").mode("append").save(f"{lake}:big")
    return told(db)


def join(spark: SparkSession, db: Database, lake: str, rows: int) -> dict[str, Any]:
    """Two collections, both shuffled."""
    big, marks = db.table("big", spark), db.table("marks", spark)
    joined = big.join(marks, "id").groupBy("kind").agg(f.count("*").alias("n"), f.sum("mark").alias("marks"))
    found = joined.agg(f.sum("n"), f.sum("marks"), f.count("*")).collect()[0]
    return {"rows": found[0], "marks": found[1], "kinds": found[2]}


def query(spark: SparkSession, db: Database, lake: str, rows: int) -> dict[str, Any]:
    """The same by SQL, which shuffles both."""
    found = db.sql(
        "SELECT sum(n), sum(marks), count(*) FROM (SELECT kind, count(*) AS n, sum(mark) AS marks "
        "FROM big JOIN marks ON big.id = marks.id GROUP BY kind) AS s OPTIONS (engine = spark)"
    )
    rows_, marks, kinds = found.rows()[0]
    return {"rows": int(rows_), "marks": int(marks), "kinds": kinds, "path": found.path}


def compact(spark: SparkSession, db: Database, lake: str, rows: int) -> dict[str, Any]:
    """Eight groups or so, of a table that others appended to."""
    sizes = [part.size for part in db.context.table("small").machine.fetch().parts.all()]
    db.set("part_bytes", int(2.5 * max(sizes)))
    done = db.compact("small", full=True, spark=spark)
    return {**told(db, "small"), "removed": done.removed, "added": done.added, "conflicts": done.conflicts}


def recluster(spark: SparkSession, db: Database, lake: str, rows: int) -> dict[str, Any]:
    """Sorted by id, across parts."""
    done = db.recluster("small", by=["id"], spark=spark)
    one = db.sql(f"SELECT id FROM small WHERE id = {rows // 2}")
    found = {"removed": done.removed, "found": len(one.rows()), "read": one.scan.parts_read}
    return {**told(db, "small"), **found}


def ingest(spark: SparkSession, db: Database, lake: str, rows: int) -> dict[str, Any]:
    """A source whose splits both workers read."""
    db.sql(
        f"CREATE SOURCE pulled FROM GENERATOR orders (ROWS {10 * rows}) "
        "TRANSFORM USING (SELECT id, customer_id FROM pulled WHERE id % 4 = 1)"
    )
    db.ingest("pulled", once=True, spark=spark)
    found = db.sql("SELECT count(*), sum(id), max(id) FROM pulled").rows()[0]
    return {"pulled": [int(n) for n in found]}


def told(db: Database, name: str = "big") -> dict[str, Any]:
    """What a loss or a doubling would change."""
    found = db.sql(
        f"SELECT count(*), sum(id), min(id), max(id), sum(id * id % 10007), count(note) FROM {name}"
    ).rows()
    parts = db.context.table(name).machine.fetch().parts
    return {"held": [int(n) for n in found[0]], "parts": parts.count}


def append(db: Database, rows: int) -> None:
    """Many appends, each a part."""
    db.sql("CREATE TABLE small (id int8, kind int4, x float8, note text)")
    for some in np.array_split(np.random.default_rng(7).permutation(rows), WRITERS):
        notes = pa.array(some).cast(pa.string())
        db.append(
            "small",
            pa.table({"id": some, "kind": (some % 1000).astype(np.int32), "x": some / 3, "note": notes}),
        )


STEPS = (write, query, compact, join, recluster, ingest)
KILLED = ("write", "query", "compact", "ingest")
"""The steps in the middle of which a worker is killed."""


def run(url: str, lake: str, rows: int) -> None:
    spark = started(url)
    register(spark)
    with tidegate.open(lake) as db:
        db.sql("CREATE TABLE big (id int8, kind int4, x float8, note text)")
        db.sql("CREATE TABLE marks (id int8, mark int4)")
        few = spark.range(0, rows // 4, 1, 4).select((f.col("id") * 4).alias("id"), f.lit(3).alias("mark"))
        few.write.format("tidegate").mode("append").save(f"{lake}:marks")
        append(db, rows)
        say("ready")
        for step in STEPS:
            sys.stdin.readline()
            name = step.__name__
            found = watched(spark, name, partial(step, spark, db, lake, rows))
            say("done", name, json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(
        240, repeat=True
    )  # into the driver's log, where it is shown if the test fails
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
