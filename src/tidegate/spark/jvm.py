"""Spark's classes behind py4j, looked up once, and many files handed over by one call.

    jvm = Jvm.of(spark)
    jvm.partition_directories(uris, sizes)        what a FileIndex returns: a Seq of one PartitionDirectory

Every dot in `jvm.org.apache.…` is a call to the JVM, so everything that is needed more than once is stored here.

Creating a FileStatus from Python takes four calls: 13 s for 10,000 files. So a whole array of them is sent as bytes, in Java's own
serialisation format, and read there by one `readObject`. The JVM shows how it serialises a FileStatus: three of them, with sizes
and paths that are easy to recognise, are serialised there, and the bytes between become a template.

    head │ count │ A₁ size B₁ length path C₁ │ A₂ size B₂ length path C₂ │ A₂ size B₂ length path C₂ │ …

The first object names its classes, all others refer back to it; so there are two templates. They are tested on other files before
they are used; if anything is not as expected, each file is created by itself.
"""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tidegate.errors import UnsupportedError

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
        self.empty_row = jvm.org.apache.spark.sql.catalyst.InternalRow.empty()
        self.no_partitions = jvm.org.apache.spark.sql.types.StructType()
        self.from_json = jvm.org.apache.spark.sql.types.DataType.fromJson
        self.none, self.some = jvm.scala.Option.empty(), jvm.scala.Some
        self.map, self.to_map, self.to_seq = (
            jvm.java.util.HashMap, jvm.PythonUtils.toScalaMap, jvm.PythonUtils.toSeq,
        )  # fmt: skip
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
        self._template = FileStatusTemplate.learn(self)

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

    def partition_directories(self, uris: pa.Array, sizes: np.ndarray) -> Any:
        """Returns files as `listFiles` of a FileIndex does."""
        return self.to_seq([self.directory.apply(self.empty_row, self.statuses(uris, sizes))])

    def statuses(self, uris: pa.Array, sizes: np.ndarray) -> Any:
        """Returns an array with a FileStatus for each file."""
        if not len(uris):
            return self.gateway.new_array(self.status, 0)
        if self._template is not None:
            return self._read(self._template.fill(uris, sizes))
        statuses = self.gateway.new_array(self.status, len(uris))
        for i, (uri, size) in enumerate(zip(uris.to_pylist(), sizes.tolist(), strict=True)):
            statuses[i] = self.file_status(uri, size)
        return statuses

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


class FileStatusTemplate:
    """Java's serialised form of an array of FileStatus, with gaps for sizes and paths."""

    def __init__(
        self, head: bytes, first: tuple[bytes, bytes, bytes], other: tuple[bytes, bytes, bytes]
    ) -> None:
        self.head, self.first, self.other = head, first, other

    @staticmethod
    def learn(jvm: Jvm) -> FileStatusTemplate | None:
        """Derives the template from what the JVM writes; None if that is not as expected."""
        try:
            sizes, uris = (
                [0x1122334455667701 + i for i in range(3)],
                [f"file:/learnt/from/{i}" for i in range(3)],
            )
            template = _parse(_serialise(jvm, uris, sizes), uris, sizes)
            others = ["file:/x", "s3a://b/%20%C3%BC", "file:/a/longer/path/than/others", "file:/y"]
            if template.fill(pa.array(others), np.array([1, 2, 3, 2**40])) == _serialise(
                jvm, others, [1, 2, 3, 2**40]
            ):
                return template
        except ValueError:  # a size or a path is not where it should be
            pass
        _LOG.warning(
            "this version of Java or Hadoop serialises a FileStatus differently: planning takes longer"
        )
        return None

    def fill(self, uris: pa.Array, sizes: np.ndarray) -> bytes:
        """Returns the bytes of an array of these files, of which there must be at least one."""
        before, between, behind = (pa.scalar(piece, pa.large_binary()) for piece in self.other)
        paths = uris.cast(pa.large_binary())
        lengths = pc.binary_length(paths).to_numpy().astype(">u2")
        joined = pc.binary_join_element_wise(
            before,
            _number_bytes(sizes.astype(">i8")),
            between,
            _number_bytes(lengths),
            paths,
            behind,
            pa.scalar(b"", pa.large_binary()),
        )
        offsets = np.frombuffer(joined.buffers()[1], np.int64, len(joined) + 1)
        data = memoryview(joined.buffers()[2])
        count = len(uris).to_bytes(4, "big")
        path = uris[0].as_py().encode()
        first = _fill_first(self.first, int(sizes[0]), path)
        return b"".join((self.head, count, first, data[offsets[1] : offsets[-1]]))


def _fill_first(template: tuple[bytes, bytes, bytes], size: int, path: bytes) -> bytes:
    before, between, behind = template
    return b"".join((before, size.to_bytes(8, "big"), between, len(path).to_bytes(2, "big"), path, behind))


def _number_bytes(numbers: np.ndarray) -> pa.Array:
    """Returns the bytes of each number."""
    width = numbers.dtype.itemsize
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)


def _serialise(jvm: Jvm, uris: list[str], sizes: list[int]) -> bytes:
    statuses = jvm.gateway.new_array(jvm.status, len(uris))
    for i, (uri, size) in enumerate(zip(uris, sizes, strict=True)):
        statuses[i] = jvm.file_status(uri, size)
    out = jvm.jvm.java.io.ByteArrayOutputStream()
    stream = jvm.jvm.java.io.ObjectOutputStream(out)
    stream.writeObject(statuses)
    stream.close()
    return bytes(out.toByteArray())


def _parse(data: bytes, uris: list[str], sizes: list[int]) -> FileStatusTemplate:
    """Cuts the serialised form of three files at their sizes and paths."""
    at_size = [data.index(size.to_bytes(8, "big")) for size in sizes]
    at_path = [data.index(len(uri).to_bytes(2, "big") + uri.encode()) for uri in uris]
    ends = [at + 2 + len(uri) for at, uri in zip(at_path, uris, strict=True)]
    behind = data[ends[2] :]
    before = data[ends[1] : at_size[2]].removeprefix(behind)
    count = data.index(len(uris).to_bytes(4, "big"))
    first = (
        data[count + 4 : at_size[0]],
        data[at_size[0] + 8 : at_path[0]],
        data[ends[0] : at_size[1]].removesuffix(before),
    )
    other = before, data[at_size[1] + 8 : at_path[1]], behind
    return FileStatusTemplate(data[:count], first, other)
