"""The data source "tidegate": what Spark asks for when it is told `format("tidegate")`.

register(spark)                                          once for each session; `db.attach(spark)` does it
df.write.format("tidegate").mode("append").save("lake:t")          write.py
df.writeStream.format("tidegate").start("lake:t")                  stream.py
spark.read.format("tidegate").load("lake:t")                       reading.py
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from tidegate.spark.stream import StreamWriter
from tidegate.spark.write import Writer, planned

FORMAT = "tidegate"


class TidegateSource(DataSource):
    """Collections, as Spark knows them by the name "tidegate"."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of a read."""
        from tidegate.spark import (
            reading,
        )  # not for those who write: each process of Spark's imports this module

        return reading.schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a read."""
        from tidegate.spark import reading

        return reading.reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For a batch write."""
        return Writer(planned(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # as Spark calls it
        """For a micro-batch."""
        return StreamWriter(self.options, schema, overwrite=overwrite)


_known: WeakSet[SparkSession] = WeakSet()
"""Sessions that know the source: Spark warns of one that is registered twice."""


def register(spark: SparkSession) -> None:
    """Makes `format("tidegate")` known to a session, in this thread.

    Spark looks for sources written in Python in the *active* session, which each thread of the JVM has for itself: a thread that
    has none does not find them. So whoever writes from several threads calls this in each of them; again does no harm.
    """
    if spark not in _known:
        spark.dataSource.register(TidegateSource)
        _known.add(spark)
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:  # a client of Spark Connect has no JVM, and its server sees to it
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
