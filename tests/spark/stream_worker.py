"""A driver to be killed: streams files of a folder into a collection, one file a batch, and says when all are done.

    python -m tests.spark.stream_worker <folder of JSON files> <checkpoint> <lake:collection>

    python -m tests.spark.stream_worker retry <lake:collection>

writes a DataFrame whose tasks fail at their first attempt, after they have stored parts.
"""

from __future__ import annotations

import sys

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tests.spark.conftest import JAVA
from tidegate.spark import register
from tidegate.spark.session import prepare


def session() -> SparkSession:
    """Two cores, four attempts for each task."""
    prepare()
    found = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", JAVA)
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    return found


def stream(source: str, checkpoint: str, path: str) -> None:
    """All files of the folder, each as a batch."""
    spark = session()
    read = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", 1).json(source)
    writer = read.repartition(2).writeStream.format("tidegate").option("checkpointLocation", checkpoint)
    query = writer.option("sink", "files").trigger(availableNow=True).start(path)
    query.awaitTermination()
    print("all done", flush=True)


def retry(path: str) -> None:
    """Tasks that fail at their first attempt, near their end, when parts are stored."""
    spark = session()

    def fails(number: int) -> int:
        context = TaskContext.get()
        if number % 20_000 == 19_999 and context is not None and context.attemptNumber() == 0:
            raise RuntimeError("this attempt was to fail")
        return number

    df = spark.range(0, 40_000, numPartitions=2).select(udf(fails, "bigint")("id").alias("id"))
    df = df.selectExpr("id", "concat('n', id) AS name")
    df.write.format("tidegate").mode("append").option("part_bytes", 20_000).save(path)
    print("all done", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "retry":
        retry(sys.argv[2])
    else:
        stream(*sys.argv[1:])
