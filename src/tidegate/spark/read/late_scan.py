"""Our own scan inside Spark tasks: the rows that leave a plan over a snapshot, as a DataFrame.

    with snapshot(shard) as pinned:
        df = scan_frame(spark, lake, pinned, plan, ["id", "total"], now)
        df.groupBy("id").sum("total").collect()

Spark's Parquet reader is better if most of a part is needed. If our evaluator must run (a filter on jsonb that Spark cannot
express), or few rows of wide parts survive, tasks read as `query/late/staged_scan.py` does: pages are skipped by their statistics,
columns with conditions are read first, and other columns only where rows are left. Only these rows cross into the JVM, as Arrow.

| process | |
|---|---|
| driver | prunes parts, decides the stages once, groups the remaining parts into partitions of similar size |
| planner | a Python process in which Spark creates the data source `tidegate_scan` from one option and asks for its partitions |
| task | opens the blob store and nothing else: the plan, the schema and its parts arrive with it; no log is read |

What travels is one `ScanSpec` for all tasks and a `ScanPartition` for each: its parts as an Arrow table, so that a million parts
never become Python objects.

Rows must be consolidated with their retractions, so a snapshot with retractions is a single partition. `fits_tasks` tells whether
it is small enough; if not, Spark consolidates it (`relation.py`). A store in memory exists only in this process, and a little data
is not worth a job: both are read in the driver and handed to Spark as a table.

**The lease.** Parts must not be swept while tasks read them. The snapshot holds the lease, and its owner keeps it open until the
DataFrame has run. If that moment is unknown, `hold_snapshot(df, snapshot)` attaches it to the DataFrame's plan: it is closed when
the JVM has collected the plan and all plans derived from it.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidegate.config import Config
from tidegate.context import Context
from tidegate.errors import PlanError
from tidegate.expr.model import Type, tree
from tidegate.plan import MapFilterProject
from tidegate.query import ResultShape, ScanMetrics, ScanRequest
from tidegate.query.late import ColumnGroups, StagedScan
from tidegate.query.paths import local
from tidegate.query.prune import PruneResult, prune
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.jvm import java_interface
from tidegate.spark.session import use_session
from tidegate.spark.task_errors import errors_to_driver
from tidegate.storage import Location
from tidegate.storage.consensus import MemoryConsensus
from tidegate.storage.shard import (
    Machine,
    Shard,
    Snapshot,
    State,
    offline_snapshot,
)

NAME = "tidegate_scan"
OPTION = "tidegate.secret"
"""The only option. It may hold credentials of the store; Spark redacts options with such a name in its logs."""
MAX_PARTITION_BYTES = 64 << 20
"""Bytes of parts that one task reads at most, unless it is a single part."""
MIN_PARTITION_BYTES = 4 << 20
"""Bytes below which a partition is not divided further, however many cores are idle."""
MAX_DRIVER_BYTES = 1 << 20
"""Up to this many bytes are read in the driver: a job takes longer."""
MAX_CONSOLIDATED_BYTES = 512 << 20
"""Bytes of parts with retractions that one task consolidates."""
MAX_PLANS = 16
"""Plans without proven conditions; parts beyond that evaluate all conditions."""
BATCH_ROWS = 65_536
"""Rows of a batch that Spark gets."""


@dataclass(frozen=True)
class ScanSpec:
    """What all tasks of a scan need to know."""

    place: tuple[str, str, tuple[tuple[str, str], ...]]
    """Kind, root and options of the blob store; tasks do not get the address of the metadata."""
    key: str
    state: State
    """Only what readers need: schema and options, no parts."""
    plans: tuple[tuple[MapFilterProject, ColumnGroups], ...]
    """For each set of proven conditions: the plan without them, and the stages in which columns are read."""
    as_of: int
    now: int
    config: Config
    retracts: bool

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the output columns."""
        return self.plans[0][0].types


class ScanPartition(InputPartition):
    """The parts that one task reads."""

    def __init__(self, parts: pa.Table, plans: np.ndarray) -> None:
        """`parts` has a row for each part; `plans` is the number of the plan for each of them."""
        self.parts, self.plans = parts, plans


# ---------------------------------------------------------------------------------------------- in the driver


def scan_frame(
    spark: SparkSession,
    lake: Context,
    snapshot: Snapshot,
    mfp: MapFilterProject,
    names: Sequence[str],
    now: int,
    *,
    pruned: PruneResult | None = None,
    in_driver: bool | None = None,
) -> DataFrame:
    """Returns the output of `mfp`, a plan over all columns of the snapshot, as columns of these names.

    `pruned` is what pruning leaves for this plan, if the caller has pruned already. `in_driver`: read at once, in this process;
    None: if that is cheaper or the only way. A row that fails makes the query fail with its message.
    """
    plan = mfp.at(now).optimise()
    if not names:  # Spark needs a column to count rows
        return scan_frame(
            spark, lake, snapshot, plan.map(tree.TRUE), ["_row"], now, pruned=pruned, in_driver=in_driver
        ).select()
    if len(names) != len(plan.types):
        raise ValueError(f"{len(plan.types)} columns leave the plan, but {len(names)} names are given")
    pruned = pruned or prune(snapshot, plan, now, use=lake.config.stats_filter)
    question = ScanRequest(snapshot, plan, tuple(names), ResultShape(), now, lake.config)
    schema = spark_schema([f"c{i}" for i in range(len(names))], plan.types)
    if in_driver is None:
        in_driver = lake.root.place.kind == "memory" or _size(pruned) <= MAX_DRIVER_BYTES
    if in_driver or not pruned.left:
        return spark.createDataFrame(_read_in_driver(question, pruned, schema), schema).toDF(*names)
    if not fits_tasks(snapshot, pruned):
        raise PlanError(
            "the remaining parts have retractions and are too large for one task",
            hint="read it through db.table, where Spark consolidates rows",
        )
    cores = spark.sparkContext.defaultParallelism
    payload = pickle.dumps((scan_spec(lake, question, pruned), partition_parts(question, pruned, cores)))
    option = base64.b64encode(zlib.compress(payload, 1)).decode()
    with use_session(spark):
        register(spark)
        return spark.read.format(NAME).schema(schema).option(OPTION, option).load().toDF(*names)


def fits_tasks(snapshot: Snapshot, pruned: PruneResult) -> bool:
    """Whether tasks can read these parts: not if they have retractions and are too large for one task."""
    return not pruned.retracts or _size(pruned) <= MAX_CONSOLIDATED_BYTES


def hold_snapshot(df: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Returns the DataFrame; the snapshot stays open as long as the JVM refers to its plan."""
    from pyspark.java_gateway import ensure_callback_server_started

    context: Any = df.sparkSession.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # Spark's
    tag = context._jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag("tidegate.lease")
    plan: Any = df._jdf.queryExecution().analyzed()
    while not plan.children().isEmpty():  # tags the relation itself, which derived DataFrames share
        plan = plan.children().head()
    plan.setTagValue(tag, _HeldSnapshot(snapshot))
    return df


class _HeldSnapshot:
    """A snapshot that the JVM refers to: py4j keeps this object until the JVM has collected its proxy."""

    Java = java_interface("java.util.function.Supplier")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot  # its lease is released when nothing refers to it any more

    def get(self) -> str:
        """Returns a text for the JVM."""
        return repr(self._snapshot)


def _size(pruned: PruneResult) -> int:
    sizes = pruned.snapshot.table(["size"]).column("size").to_numpy()
    return int((sizes if pruned.kept is None else sizes[pruned.kept]).sum())


def _read_in_driver(question: ScanRequest, pruned: PruneResult, schema: StructType) -> pa.Table:
    arrow, types = arrow_schema(schema), question.plan.types
    rows = local.stream(question, pruned, ScanMetrics())
    return pa.Table.from_batches([batch(columns, types, arrow) for columns, _ in rows], arrow)


def scan_spec(lake: Context, question: ScanRequest, pruned: PruneResult) -> ScanSpec:
    """Returns what all tasks need to know."""
    place, pinned = lake.root.place, question.snapshot
    state = State(
        pinned.state.number, pinned.state.shard, pinned.state.schemas[-1:], options=pinned.state.options
    )
    return ScanSpec(
        (place.kind, place.root, place.options),
        pinned.shard.machine.key,
        state,
        _plans(question, pruned),
        pinned.as_of,
        question.now,
        replace(lake.config, read_threads=1),
        pruned.retracts,
    )


def _proven(pruned: PruneResult) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sets of proven conditions, the empty one first, and the set of each part by number."""
    bits = np.array([0, *pruned.proven()], np.int64)
    if pruned.retracts:
        bits[:] = 0
    sets, of = np.unique(bits, return_inverse=True)  # no set has the sign bit: 0 is the least
    return sets[:MAX_PLANS], np.where(of < MAX_PLANS, of, 0)[1:]


def _plans(question: ScanRequest, pruned: PruneResult) -> tuple[tuple[MapFilterProject, ColumnGroups], ...]:
    """Returns, for each set of proven conditions, the plan without them and its stages."""
    plan, plans = question.plan, []
    for proven in _proven(pruned)[0].tolist():
        slim = plan
        if proven:
            assert pruned.verdicts is not None
            conditions = [c for i, (c, _) in enumerate(pruned.verdicts.by_condition) if not proven >> i & 1]
            slim = plan.rebuild(conditions, plan.outputs)
        plans.append((slim, [] if pruned.retracts else local.groups(question, pruned, slim)))
    return tuple(plans)


def partition_parts(question: ScanRequest, pruned: PruneResult, cores: int) -> list[ScanPartition]:
    """Divides the parts, in their order, into partitions of similar size."""
    table = pruned.snapshot.rows_of(pruned.kept, statistics=False).combine_chunks()
    if pruned.retracts:
        return [ScanPartition(table, np.zeros(table.num_rows, np.int64))]
    if not table.num_rows:
        return []
    sizes = table.column("size").to_numpy()
    target = min(MAX_PARTITION_BYTES, max(MIN_PARTITION_BYTES, int(sizes.sum()) // (2 * cores) + 1))
    before = np.cumsum(sizes) - sizes
    cuts = np.flatnonzero(np.diff(before // target, prepend=-1)).tolist()
    plans = _proven(pruned)[1]
    return [
        ScanPartition(table.slice(start, stop - start), plans[start:stop])
        for start, stop in zip(cuts, [*cuts[1:], table.num_rows], strict=True)
    ]


def register(spark: SparkSession) -> None:
    """Registers the data source with a session, which must be the active one."""
    sources: Any = spark._jsparkSession.sessionState().dataSourceManager()
    if not sources.dataSourceExists(NAME):
        spark.dataSource.register(ScanSource)


# ---------------------------------------------------------------------------------------------- in Spark's Python processes


class ScanSource(DataSource):
    """The data source behind `scan_frame`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format(…)`."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader for the scan in the option, which is removed: tasks need only their partition."""
        payload = zlib.decompress(base64.b64decode(self.options.pop(OPTION)))
        spec, partitions = pickle.loads(payload)  # noqa: S301  # from `scan_frame`; who sets options runs code here anyway
        return ScanReader(spec, partitions, schema)


class ScanReader(DataSourceReader):
    """Returns the partitions in the planner, and reads one of them in each task."""

    def __init__(self, spec: ScanSpec, scan_partitions: list[ScanPartition], schema: StructType) -> None:
        self.spec, self.scan_partitions, self.schema = spec, scan_partitions, schema

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanReader, (self.spec, [], self.schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Returns what each task reads; for an empty list Spark calls `read` with a partition of its own."""
        return self.scan_partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the output of the plan for a partition."""
        return _batches(self.spec, partition, self.schema)


def _batches(spec: ScanSpec, partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, ScanPartition):
        return
    arrow = arrow_schema(schema)
    with errors_to_driver():
        for columns, rows in _rows(spec, partition):
            rows_batch = batch(columns, spec.types, arrow)
            yield from (rows_batch.slice(at, BATCH_ROWS) for at in range(0, rows, BATCH_ROWS))


def _rows(spec: ScanSpec, partition: ScanPartition) -> Iterator[tuple[list[pa.Array], int]]:
    shard = Shard(_machine(spec.place, spec.key), spec.config)
    pinned = offline_snapshot(shard, spec.state, partition.parts, spec.as_of)
    parts = pinned.parts()
    plan = spec.plans[0][0]
    question = ScanRequest(pinned, plan, (), ResultShape(), spec.now, spec.config)
    if spec.retracts:
        size = sum(part.size for part in parts)
        yield from local.stream(question, PruneResult(len(parts), size, pinned, retracts=True), ScanMetrics())
        return
    staged = [StagedScan(question, ScanMetrics(), *plan) for plan in spec.plans]
    for part, which in zip(parts, partition.plans.tolist(), strict=True):
        yield from map(local.counted, staged[which].read(part, proven=False))


@lru_cache(16)
def _machine(place: tuple[Any, str, tuple[tuple[str, str], ...]], key: str) -> Machine:
    """Returns the shard's objects without its log; cached, because workers are reused."""
    kind, root, options = place
    return Machine(MemoryConsensus(), Location(kind, root, "memory", options=options).blob(), key)
