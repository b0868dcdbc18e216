"""Spark's classes behind py4j, looked up once, and many files handed over by one call.

    jvm = Jvm.of(spark)
    jvm.partition_directories(uris, sizes)              what a FileIndex returns: a Seq of one PartitionDirectory
    jvm.partition_directories(uris, sizes, values)      of one for each file, with a value of bytes that its rows have in common

Every dot in `jvm.org.apache.…` is a call to the JVM, so everything that is needed more than once is stored here.

Files are sent as bytes, in Java's own serialisation format, and read there by one `readObject` (`java_template.py`). If this
version of Java or Spark does not serialise them as expected, each file is created by itself.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidegate.errors import UnsupportedError
from tidegate.spark.java_template import ArrayTemplate, Gaps, number_bytes, with_length

BLOCK_BYTES = 128 << 20
"""The block size of a FileStatus. Spark divides files by a setting of its own."""
MAX_INLINE_BYTES = 16 << 10
"""Up to this many bytes are sent in the call itself; more go through a file."""
_LOG = logging.getLogger(__name__)
_ATTRIBUTE = "_tidegate_jvm"
"""Attribute of a py4j gateway that holds its `Jvm`."""


class Jvm:
    """The classes and objects of a JVM that we use."""

    def __init__(self, gateway: Any, jvm: Any) -> None:
        sources = jvm.org.apache.spark.sql.execution.datasources
        self.gateway, self.jvm = gateway, jvm
        self.path, self.status = jvm.org.apache.hadoop.fs.Path, jvm.org.apache.hadoop.fs.FileStatus
        self.directory, self.relation = sources.PartitionDirectory, sources.HadoopFsRelation
        self.parquet = sources.parquet.ParquetFileFormat
        self.logical_relation = scala_object(sources, "LogicalRelation").apply
        logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self.filter, self.project = logical.Filter, logical.Project
        self.empty_row = jvm.org.apache.spark.sql.catalyst.InternalRow.empty()
        self.no_partitions = jvm.org.apache.spark.sql.types.StructType()
        self.from_json = jvm.org.apache.spark.sql.types.DataType.fromJson
        self.none, self.some = jvm.scala.Option.empty(), jvm.scala.Some
        self.map, self.to_map, self.to_seq = (
            jvm.java.util.HashMap, jvm.PythonUtils.toScalaMap, jvm.PythonUtils.toSeq,
        )  # fmt: skip
        self.row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow
        self.array_to_seq = jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray
        self.objects, self.bytes_in = jvm.java.io.ObjectInputStream, jvm.java.io.ByteArrayInputStream
        self.buffered, self.file_in = jvm.java.io.BufferedInputStream, jvm.java.io.FileInputStream
        self.identity = jvm.java.lang.System.identityHashCode
        self.no_files = gateway.new_array(jvm.java.lang.String, 0)
        self.trackers = scala_object(jvm.org.apache.spark.sql.catalyst, "QueryPlanningTracker")
        self.explained = scala_object(jvm.org.apache.spark.sql.execution, "ExplainUtils").localIdMap()
        self.scans = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.FileSourceScanExec")
        self.of_class = jvm.com.google.common.collect.Iterables.filter
        self.explained_plan: tuple[tuple[int, int, int], dict[str, list[tuple[str, Any]]]] | None = None
        """The filters of the plan that Spark rendered last (`explain_filters.py`)."""
        self.active = jvm.org.apache.spark.sql.classic.SparkSession.active
        self.is_wide = jvm.org.apache.spark.sql.execution.WholeStageCodegenExec.isTooManyFields
        self.dataset = scala_object(jvm.org.apache.spark.sql.classic, "Dataset").ofRows
        self.row_filters: dict[str, Any] = {}
        """Conditions on deleted rows, by the column with the positions (`read/deleted_rows.py`)."""

    @staticmethod
    def of(spark: SparkSession) -> Jvm:
        """Returns the JVM of a session of this process; an error for a Spark Connect client, which has none."""
        if not hasattr(spark, "_jsparkSession"):
            raise UnsupportedError(
                "a Spark Connect client has no JVM of its own",
                hint="open the database and call db.attach(spark) in the server's process, and read global_temp.<name>",
            )
        context: Any = spark.sparkContext
        gateway = context._gateway
        jvm: Jvm | None = vars(gateway).get(_ATTRIBUTE)  # getattr would ask the JVM
        if jvm is None:
            try:
                ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # Spark's
            except OSError as error:
                raise UnsupportedError(
                    f"Spark cannot call back into Python: {error}",
                    hint="it must be able to connect to a port of this machine's loopback address",
                ) from None
            jvm = Jvm(gateway, context._jvm)
            setattr(gateway, _ATTRIBUTE, jvm)
        return jvm

    def partition_directories(self, uris: pa.Array, sizes: np.ndarray, values: pa.Array | None = None) -> Any:
        """Returns files as `listFiles` of a FileIndex does; with `values`, each is a partition of its own."""
        if values is None:
            return self.to_seq([self.directory.apply(self.empty_row, self.statuses(uris, sizes))])
        if not len(uris):
            return self.to_seq([])
        if self._directory_template is not None:
            gaps = [*_file_gaps(uris, sizes), with_length(values, ">i4")]
            return self.array_to_seq(self._read(self._directory_template.fill(gaps)))
        each = zip(uris.to_pylist(), sizes.tolist(), values.to_pylist(), strict=True)
        return self.to_seq([self._directory(*file) for file in each])

    def statuses(self, uris: pa.Array, sizes: np.ndarray) -> Any:
        """Returns an array with a FileStatus for each file."""
        if len(uris) and self._status_template is not None:
            return self._read(self._status_template.fill(_file_gaps(uris, sizes)))
        each = zip(uris.to_pylist(), sizes.tolist(), strict=True)
        return self._array(self.status, [self.file_status(*file) for file in each])

    def visible_rows(self, relation: Any, condition: Any, hidden: int) -> Any:
        """Returns the plan of the rows of a relation that pass a condition, without the last so many columns.

        Spark analyses it as a whole. DataFrames that are derived from each other are analysed one after the other, 5 ms each.
        """
        rows = self.logical_relation(relation, False)
        return self.project(rows.output().dropRight(hidden), self.filter(condition, rows))

    def reads_batches(self, spark: SparkSession, schema: StructType) -> bool:
        """Whether Spark's Parquet reader returns all these columns in batches, and not row by row."""
        session: Any = spark._jsparkSession
        settings, columns = session.sessionState().conf(), self.from_json(schema.json())
        if not settings.wholeStageEnabled() or self.is_wide(settings, columns):
            return False
        return bool(self.parquet().supportBatch(session, columns))

    def array_data(self, values: pa.Array) -> Any:
        """Returns values of bytes as the ArrayData of a Spark array."""
        if len(values) and self._bytes_template is not None:
            array = self._read(self._bytes_template.fill([with_length(values, ">i4")]))
        else:
            array = self._array(self.jvm.java.lang.Object, values.to_pylist())
        return self.jvm.org.apache.spark.sql.catalyst.util.GenericArrayData(array)

    @cached_property
    def _bytes_template(self) -> ArrayTemplate | None:
        def serialise(gaps: Gaps) -> bytes:
            return self._serialise(self._array(self.jvm.java.lang.Object, [value[4:] for (value,) in gaps]))

        return _learn(serialise, [file[2:] for file in SAMPLES], [file[2:] for file in OTHERS])

    @cached_property
    def _status_template(self) -> ArrayTemplate | None:
        def serialise(gaps: Gaps) -> bytes:
            files = [self.file_status(_text(path), int.from_bytes(size, "big")) for size, path in gaps]
            return self._serialise(self._array(self.status, files))

        return _learn(serialise, [[size, path] for size, path, _ in SAMPLES], [file[:2] for file in OTHERS])

    @cached_property
    def _directory_template(self) -> ArrayTemplate | None:
        def serialise(gaps: Gaps) -> bytes:
            files = [
                self._directory(_text(path), int.from_bytes(size, "big"), value[4:])
                for size, path, value in gaps
            ]
            return self._serialise(self._array(self.directory, files))

        return _learn(serialise, SAMPLES, OTHERS)

    def _directory(self, uri: str, size: int, value: bytes) -> Any:
        """Returns a partition of one file, with this value."""
        row = self.row(1)
        row.update(0, value)
        return self.directory.apply(row, self._array(self.status, [self.file_status(uri, size)]))

    def _array(self, class_: Any, elements: list[Any]) -> Any:
        array = self.gateway.new_array(class_, len(elements))
        for i, element in enumerate(elements):
            array[i] = element
        return array

    def _serialise(self, array: Any) -> bytes:
        out = self.jvm.java.io.ByteArrayOutputStream()
        stream = self.jvm.java.io.ObjectOutputStream(out)
        stream.writeObject(array)
        stream.close()
        return bytes(out.toByteArray())

    def _read(self, written: bytes) -> Any:
        """Deserialises an object in the JVM. py4j sends bytes as text: for many bytes a file is faster."""
        if len(written) <= MAX_INLINE_BYTES:
            return self.objects(self.bytes_in(written)).readObject()
        with tempfile.NamedTemporaryFile(prefix="tidegate-") as file:
            file.write(written)
            file.flush()
            stream = self.objects(self.buffered(self.file_in(file.name)))
            try:
                return stream.readObject()
            finally:
                stream.close()

    def file_status(self, uri: str, size: int) -> Any:
        """Returns the FileStatus of one file."""
        return self.status(size, False, 1, BLOCK_BYTES, 0, self.path(self.jvm.java.net.URI(uri)))


def scala_object(package: Any, name: str) -> Any:
    """Returns the instance of a Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def java_interface(name: str) -> type:
    """Returns the class that a Python class holds as `Java` to tell py4j which interface it implements."""
    return type("Java", (), {"implements": (name,)})


def _file_gaps(uris: pa.Array, sizes: np.ndarray) -> list[pa.Array]:
    return [number_bytes(sizes.astype(">i8")), with_length(uris, ">u2")]


def _gaps(size: int, uri: str, value: bytes) -> list[bytes]:
    columns = [*_file_gaps(pa.array([uri]), np.array([size])), with_length(pa.array([value]), ">i4")]
    return [column[0].as_py() for column in columns]


def _text(path: bytes) -> str:
    return path[2:].decode()


def _learn(serialise: Callable[[Gaps], bytes], samples: Gaps, others: Gaps) -> ArrayTemplate | None:
    template = ArrayTemplate.learn(serialise, samples, others)
    if template is None:
        _LOG.warning("this version of Java or Spark serialises files differently: planning takes longer")
    return template


SAMPLES = [_gaps(0x1122334455667701 + i, f"file:/learnt/from/{i}", b"a value, %d" % i) for i in range(3)]
"""Files that are easy to recognise."""
OTHERS = [
    _gaps(1, "file:/x", b"\0" * 70_000),
    _gaps(2, "s3a://b/%20%C3%BC", b"x"),
    _gaps(3, "file:/a/longer/path/than/others", b""),
    _gaps(2**40, "file:/y", b"\xff\0"),
]
"""Files that a template is tested on."""
