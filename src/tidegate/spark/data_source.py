"""The data source "tidegate": what `format("tidegate")` stands for in Spark.

register(spark)                                          once per session; `db.attach(spark)` does it
df.write.format("tidegate").mode("append").save("lake:t")          write/batch.py
df.writeStream.format("tidegate").start("lake:t")                  write/stream.py
spark.read.format("tidegate").load("lake:t")                       read/format_reader.py
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from tidegate.spark.task_errors import errors_to_driver
from tidegate.spark.write.batch import BatchWriter, plan_write
from tidegate.spark.write.stream import StreamWriter

FORMAT = "tidegate"


class TidegateSource(DataSource):
    """Spark's entry to collections, by options."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format(…)`."""
        return FORMAT

    @errors_to_driver()
    def schema(self) -> StructType:
        """Returns the columns of a read."""
        from tidegate.spark.read import format_reader  # processes that write never import it

        return format_reader.schema_of(self.options)

    @errors_to_driver()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a read."""
        from tidegate.spark.read import format_reader

        return format_reader.reader(self.options, schema)

    @errors_to_driver()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns the writer of a batch write."""
        return BatchWriter(plan_write(self.options, schema, overwrite=overwrite))

    @errors_to_driver()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # as Spark calls it
        """Returns the writer of a micro-batch."""
        return StreamWriter(self.options, schema, overwrite=overwrite)


_REGISTERED = "_tidegate_registered"
"""Attribute of a session that knows the source: Spark warns of a source that is registered twice."""


def register(spark: SparkSession) -> None:
    """Makes `format("tidegate")` known to a session, for this thread.

    Spark looks up Python sources in the *active* session, which each thread of the JVM has for itself: a thread without one does
    not find them. A program that writes from several threads calls this in each of them; repeated calls do no harm.
    """
    if not hasattr(spark, _REGISTERED):
        spark.dataSource.register(TidegateSource)
        setattr(spark, _REGISTERED, True)
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:  # a Spark Connect client has no JVM; its server has
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
