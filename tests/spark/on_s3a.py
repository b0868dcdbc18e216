"""A driver on a cluster whose Spark reads parts from S3 itself: two databases, in buckets of one name at two endpoints.

    python -m tests.spark.on_s3a spark://… '{"lakes": ["s3://lake/…", "s3://lake/…"], "settings": {…}, "rows": 60000}'

It talks as `on_cluster.py` does.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from tests.spark.on_cluster import WRITERS, numbers, say, started, watched
from tidegate import Database
from tidegate.spark.data_source import register
from tidegate.spark.read import file_index as index
from tidegate.spark.read import hadoop_paths as place
from tidegate.spark.read import relation

Found = dict[str, Any]


def write(spark: SparkSession, dbs: list[Database], lakes: list[str], rows: int) -> Found:
    """Numbers into the first, their doubles into the second."""
    for factor, lake in enumerate(lakes, 1):
        doubled = numbers(spark, rows).withColumn("id", f.col("id") * factor)
        doubled.write.format("tidegate").mode("append").save(f"{lake}:big")
    return {"parts": [db.context.table("big").machine.fetch().parts.count for db in dbs]}


def read(spark: SparkSession, dbs: list[Database], lakes: list[str], rows: int) -> Found:
    """Both in one query, by Spark's own reader on the executors."""
    first, second = (db.table("big", spark) for db in dbs)
    both = first.unionAll(second).select("id", f.length("note").alias("n"))
    count, total, notes = both.agg(f.count("*"), f.sum("id"), f.sum("n")).collect()[0]
    joined = first.join(second, "id").agg(f.count("*")).collect()[0][0]
    shown = "".join(frame._jdf.queryExecution().toString() for frame in (first, second, both))
    return {"count": count, "sum": total, "notes": notes, "joined": joined, "shown": shown}


def alternate(spark: SparkSession, dbs: list[Database], lakes: list[str], rows: int) -> Found:
    """Each in turn, and what a filter leaves of the parts."""
    sums = [db.table("big", spark).agg(f.sum("id")).collect()[0][0] for db in (*dbs, *dbs)]
    tables = [db.table("sorted", spark) for db in dbs]
    before = [db.context.metrics.value("parts", what="read") for db in dbs]
    found = [table.where("id = 3").count() for table in tables]
    after = [db.context.metrics.value("parts", what="read") for db in dbs]
    return {
        "sums": sums,
        "found": found,
        "parts": [b - a for a, b in zip(before, after, strict=True)],
        "files": tables[0].inputFiles(),
    }


def intrude(spark: SparkSession, dbs: list[Database], lakes: list[str], rows: int) -> Found:
    """The session's own settings, which have no credentials, on the parts of the first: on the driver, and on executors."""
    first = dbs[0].table("sorted", spark)
    on_driver = refused(lambda: spark.read.parquet(*first.inputFiles()).count())
    # Executors are asked by a relation of ours that is not given the settings of the database.
    relation.hadoop_settings, index.scan_uri = (lambda _: {}), place.uri_of
    on_executors = refused(lambda: dbs[0].table("sorted", spark).where("id >= 0").count())
    return {"driver": on_driver, "executors": on_executors}


def refused(work: Callable[[], int]) -> str:
    """How Spark failed."""
    try:
        return f"read {work()} rows"
    except Py4JJavaError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # pyspark has its own for some
        return f"{type(error).__name__}: {error}"


STEPS = (write, read, alternate, intrude)
KILLED = {"write": 1, "read": 0}
"""Which worker is killed in the middle of a step: one that has an executor for sure, as it was there from the start."""


def prepare(db: Database, spark: SparkSession, lake: str, first: int) -> None:
    db.sql("CREATE TABLE big (id int8, kind int4, x float8, note text)")
    db.sql("CREATE TABLE sorted (id int8)")
    rows: DataFrame = spark.range(first, first + 400, 1, 4)
    rows.write.format("tidegate").mode("append").save(f"{lake}:sorted")


def run(url: str, given: dict[str, Any]) -> None:
    lakes, rows = given["lakes"], given["rows"]
    spark = started(url, given["settings"])
    register(spark)
    dbs = [tidegate.open(lake) for lake in lakes]
    for i, (db, lake) in enumerate(zip(dbs, lakes, strict=True)):
        prepare(db, spark, lake, 3 * i)
    say("ready", WRITERS)
    for step in STEPS:
        sys.stdin.readline()
        name = step.__name__
        found = watched(spark, name, partial(step, spark, dbs, lakes, rows))
        say("done", name, json.dumps(found))
    for db in dbs:
        db.close()
    spark.stop()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(240, repeat=True)  # into the driver's log
    run(sys.argv[1], json.loads(sys.argv[2]))
