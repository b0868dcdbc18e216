"""Spark's classes on the other side of py4j, looked up once; and many files handed over by one call.

    jvm = Jvm.of(spark)
    jvm.listed(uris, sizes)        what a FileIndex answers: a Seq of one PartitionDirectory

Every dot in `jvm.org.apache.…` asks the JVM, so whatever is needed more than once is kept here.

A file is four calls if its FileStatus is made from here: 13 s for 10,000. So a whole array of them is handed over as bytes, in the
form in which Java itself writes objects, and read there by one `readObject`. How a FileStatus is written the JVM shows: three of
them, with sizes and paths that are easy to recognise, are written there, and the bytes between are kept as a stencil.

    head │ count │ A₁ size B₁ length path C₁ │ A₂ size B₂ length path C₂ │ A₂ size B₂ length path C₂ │ …

The first object names its classes, all others refer back to it; so there are two stencils. They are tried on other files before
they are used, and if anything is not as expected each file is made by itself.
"""

from __future__ import annotations

import logging
import tempfile
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tidegate.errors import UnsupportedError

BLOCK = 128 << 20
"""The size of a block that a FileStatus speaks of. Spark cuts files by a setting of its own."""
SMALL = 16 << 10
"""Bytes that are handed over by the call itself."""
_LOG = logging.getLogger(__name__)
_known: WeakKeyDictionary[Any, Jvm] = WeakKeyDictionary()


class Jvm:
    """What is used of a JVM."""

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
        self.trackers = single(jvm.org.apache.spark.sql.catalyst, "QueryPlanningTracker")
        self.explained = single(jvm.org.apache.spark.sql.execution, "ExplainUtils").localIdMap()
        self.scans = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.FileSourceScanExec")
        self.of_class = jvm.com.google.common.collect.Iterables.filter
        self.shown: tuple[tuple[int, int, int], dict[str, list[tuple[str, Any]]]] | None = None
        """What `told.py` last found."""
        self.active = jvm.org.apache.spark.sql.classic.SparkSession.active
        self._stencil = Stencil.learnt(self)

    @staticmethod
    def of(spark: SparkSession) -> Jvm:
        """That of a session, which must run in this process: a client of Spark Connect has none."""
        if not hasattr(spark, "_jsparkSession"):
            raise UnsupportedError(
                "a client of Spark Connect has no JVM of its own",
                hint="open the database in the process of the server, db.attach(spark) there, and read global_temp.<name>",
            )
        context: Any = spark.sparkContext
        gateway = context._gateway
        found = _known.get(gateway)
        if found is None:
            try:
                ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # Spark's
            except OSError as error:
                raise UnsupportedError(
                    f"Spark cannot call back into Python: {error}",
                    hint="it must be able to connect to a port of this machine's loopback address",
                ) from None
            found = _known[gateway] = Jvm(gateway, context._jvm)
        return found

    def listed(self, uris: pa.Array, sizes: np.ndarray) -> Any:
        """Files as a FileIndex hands them to Spark."""
        return self.to_seq([self.directory.apply(self.empty_row, self.statuses(uris, sizes))])

    def statuses(self, uris: pa.Array, sizes: np.ndarray) -> Any:
        """A FileStatus for each file."""
        if not len(uris):
            return self.gateway.new_array(self.status, 0)
        if self._stencil is not None:
            return self._read(self._stencil.filled(uris, sizes))
        made = self.gateway.new_array(self.status, len(uris))
        for i, (uri, size) in enumerate(zip(uris.to_pylist(), sizes.tolist(), strict=True)):
            made[i] = self.one_status(uri, size)
        return made

    def _read(self, written: bytes) -> Any:
        """An object from what Java would have written. py4j sends bytes as text: a file is faster, if they are many."""
        if len(written) <= SMALL:
            return self.objects(self.bytes_in(written)).readObject()
        with tempfile.NamedTemporaryFile(prefix="tidegate-") as file:
            file.write(written)
            file.flush()
            stream = self.objects(self.buffered(self.file_in(file.name)))
            try:
                return stream.readObject()
            finally:
                stream.close()

    def one_status(self, uri: str, size: int) -> Any:
        """A file by itself."""
        return self.status(size, False, 1, BLOCK, 0, self.path(self.jvm.java.net.URI(uri)))


def single(package: Any, name: str) -> Any:
    """The one instance of a Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


class Stencil:
    """How Java writes an array of FileStatus, with room for sizes and paths."""

    def __init__(
        self, head: bytes, first: tuple[bytes, bytes, bytes], other: tuple[bytes, bytes, bytes]
    ) -> None:
        self.head, self.first, self.other = head, first, other

    @staticmethod
    def learnt(jvm: Jvm) -> Stencil | None:
        """From what the JVM writes; None if it cannot be made sense of."""
        try:
            sizes, uris = (
                [0x1122334455667701 + i for i in range(3)],
                [f"file:/learnt/from/{i}" for i in range(3)],
            )
            found = _taken_apart(_written(jvm, uris, sizes), uris, sizes)
            others = ["file:/x", "s3a://b/%20%C3%BC", "file:/a/longer/path/than/others", "file:/y"]
            if found.filled(pa.array(others), np.array([1, 2, 3, 2**40])) == _written(
                jvm, others, [1, 2, 3, 2**40]
            ):
                return found
        except ValueError:  # something was not found where it should be
            pass
        _LOG.warning(
            "this version of Java or Hadoop writes a FileStatus differently: planning will take longer"
        )
        return None

    def filled(self, uris: pa.Array, sizes: np.ndarray) -> bytes:
        """The bytes of an array of these files; there must be one."""
        before, between, behind = (pa.scalar(piece, pa.large_binary()) for piece in self.other)
        paths = uris.cast(pa.large_binary())
        lengths = pc.binary_length(paths).to_numpy().astype(">u2")
        joined = pc.binary_join_element_wise(
            before,
            _fixed(sizes.astype(">i8")),
            between,
            _fixed(lengths),
            paths,
            behind,
            pa.scalar(b"", pa.large_binary()),
        )
        offsets = np.frombuffer(joined.buffers()[1], np.int64, len(joined) + 1)
        every = memoryview(joined.buffers()[2])
        count = len(uris).to_bytes(4, "big")
        path = uris[0].as_py().encode()
        first = _one(self.first, int(sizes[0]), path)
        return b"".join((self.head, count, first, every[offsets[1] : offsets[-1]]))


def _one(stencil: tuple[bytes, bytes, bytes], size: int, path: bytes) -> bytes:
    before, between, behind = stencil
    return b"".join((before, size.to_bytes(8, "big"), between, len(path).to_bytes(2, "big"), path, behind))


def _fixed(numbers: np.ndarray) -> pa.Array:
    """Numbers as their bytes."""
    width = numbers.dtype.itemsize
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)


def _written(jvm: Jvm, uris: list[str], sizes: list[int]) -> bytes:
    made = jvm.gateway.new_array(jvm.status, len(uris))
    for i, (uri, size) in enumerate(zip(uris, sizes, strict=True)):
        made[i] = jvm.one_status(uri, size)
    out = jvm.jvm.java.io.ByteArrayOutputStream()
    stream = jvm.jvm.java.io.ObjectOutputStream(out)
    stream.writeObject(made)
    stream.close()
    return bytes(out.toByteArray())


def _taken_apart(data: bytes, uris: list[str], sizes: list[int]) -> Stencil:
    """What stands between the sizes and paths of three files."""
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
    return Stencil(data[:count], first, other)
