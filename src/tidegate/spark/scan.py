"""Our own scan inside of Spark's tasks: a plan over the parts of a snapshot, as a DataFrame of what leaves it.

    with snapshot(shard) as pinned:
        df = frame(spark, lake, pinned, plan, ["id", "total"], now)
        df.groupBy("id").sum("total").collect()

Spark's Parquet reader is the better one where most of a part is wanted. Where our evaluator must run (a filter on jsonb that Spark
has no words for), or few rows of wide parts survive, tasks read as `scan/late.py` does: pages by their statistics, the columns that
filter first, of the others only what is needed; only what leaves the plan crosses into the JVM, as Arrow.

    driver    prunes (`scan/prune.py`), decides the stages once, cuts the parts that are left into splits of about equal bytes
    planner   a Python process in which Spark makes the data source `tidegate_scan`, from one option, and asks it for its splits
    task      opens the blob store, and nothing else: the plan, the schema and its parts came with it; no log is read

What travels is a `Work` (the same for all tasks) and for each task a `Split`: its parts as an Arrow table of a few columns, so
that a million of them are no Python objects on the way.

Rows must meet what retracts them. A snapshot with retractions is therefore one split (`suits` says if it is small enough for that;
if not, the relation of `index.py` lets Spark add them up). A store in memory exists in this process alone, and little data is not
worth a job: both are read here, at once, and handed to Spark as a table.

**The lease.** Parts must not be swept while tasks read them. The snapshot holds the lease, and whoever made it keeps it open until
the DataFrame was run. Where that is not known, `keep(df, snapshot)` hangs it on the DataFrame's plan: it is closed when the JVM has
forgotten the plan, and those made from it.
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
from tidegate.errors import PlanError
from tidegate.expr.tree import TRUE
from tidegate.expr.types import Type
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.optimise import rebuild
from tidegate.scan import local
from tidegate.scan.late import Groups, Staged
from tidegate.scan.prune import Pruned, prune
from tidegate.scan.question import Question
from tidegate.scan.result import Scan
from tidegate.scan.sort import Shape
from tidegate.session.lake import Lake
from tidegate.shard.lease import Lease
from tidegate.shard.machine import Machine
from tidegate.shard.parts import SCHEMA, Parts, from_table
from tidegate.shard.reader import Snapshot
from tidegate.shard.state import State
from tidegate.shard.writer import Shard
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.session import active
from tidegate.store.consensus import MemoryConsensus
from tidegate.store.place import Place

NAME = "tidegate_scan"
OPTION = "tidegate.secret"
"""The one option. It may hold the store's credentials; Spark leaves out of its logs what has such a name."""
SPLIT = 64 << 20
"""Bytes of parts that one task reads at most, if there are several parts."""
SMALLEST = 4 << 20
"""Bytes below which a split is not cut further, however many cores are idle."""
HERE = 1 << 20
"""Bytes of parts that are read in the driver: a job takes longer than that."""
TOGETHER = 512 << 20
"""Bytes of parts with retractions that one task takes."""
VARIANTS = 16
"""Plans that are made for parts of which some conditions are proven; others are asked everything."""
ROWS = 65_536
"""Rows of a batch that is handed to Spark."""


@dataclass(frozen=True)
class Work:
    """What all tasks of a frame know."""

    place: tuple[str, str, tuple[tuple[str, str], ...]]
    """Kind, root and options of the blob store; the metadata's address stays with the driver."""
    key: str
    state: State
    """As far as readers ask for it: schema and options; no parts."""
    plans: tuple[tuple[MapFilterProject, Groups], ...]
    """Without the conditions that are proven of some parts, and the columns that are read first, then, and so on."""
    as_of: int
    now: int
    config: Config
    retracts: bool

    @property
    def types(self) -> tuple[Type, ...]:
        """Of what leaves."""
        return self.plans[0][0].types


class Split(InputPartition):
    """What one task reads."""

    def __init__(self, parts: pa.Table, plans: np.ndarray) -> None:
        """Parts as rows, and which plan goes for each of them."""
        self.parts, self.plans = parts, plans


# ---------------------------------------------------------------------------------------------- in the driver


def frame(
    spark: SparkSession,
    lake: Lake,
    snapshot: Snapshot,
    mfp: MapFilterProject,
    names: Sequence[str],
    now: int,
    *,
    found: Pruned | None = None,
    here: bool | None = None,
) -> DataFrame:
    """What leaves `mfp`, a plan over all columns of the snapshot, as columns of these names.

    `found` is what is left of the parts, if the caller has asked for this very plan. `here`: read at once, in this process;
    None: where that is cheaper, or nothing else is possible. A row that fails makes the query fail with its message.
    """
    plan = mfp.at(now).optimise()
    if not names:  # Spark counts rows by a column
        return frame(spark, lake, snapshot, plan.map(TRUE), ["_row"], now, found=found, here=here).select()
    if len(names) != len(plan.types):
        raise ValueError(f"{len(plan.types)} columns leave the plan, but {len(names)} names are given")
    found = found or prune(snapshot, plan, now, use=lake.config.stats_filter)
    question = Question(snapshot, plan, tuple(names), Shape(), now, lake.config)
    schema = spark_schema([f"c{i}" for i in range(len(names))], plan.types)
    if here is None:
        here = lake.root.place.kind == "memory" or _size(found) <= HERE
    if here or not found.left:
        return spark.createDataFrame(_read_here(question, found, schema), schema).toDF(*names)
    if not suits(snapshot, found):
        raise PlanError(
            "what is left to be read has retractions, and is too large for one task",
            hint="read it through db.table, whose rows Spark adds up",
        )
    cores = spark.sparkContext.defaultParallelism
    work, splits = work_of(lake, question, found), splits_of(question, found, cores)
    given = base64.b64encode(zlib.compress(pickle.dumps((work, splits)), 1)).decode()
    with active(spark):
        register(spark)
        return spark.read.format(NAME).schema(schema).option(OPTION, given).load().toDF(*names)


def suits(snapshot: Snapshot, found: Pruned) -> bool:
    """Whether tasks can read it: not where rows must meet their retractions and are too many for one task."""
    return not found.retracts or _size(found) <= TOGETHER


def keep(df: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The same DataFrame; the snapshot stays open as long as its plan is known to the JVM."""
    from pyspark.java_gateway import ensure_callback_server_started

    context: Any = df.sparkSession.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # Spark's
    tag = context._jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag("tidegate.lease")
    plan: Any = df._jdf.queryExecution().analyzed()
    while not plan.children().isEmpty():  # the relation itself: what is made of the DataFrame holds that
        plan = plan.children().head()
    plan.setTagValue(tag, _Held(snapshot))
    return df


class _Held:
    """A snapshot that the JVM refers to: py4j holds the Python object until the JVM has collected its proxy."""

    class Java:
        """What py4j must know."""

        implements = ("java.util.function.Supplier",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot  # its lease is given back when nothing refers to it any more

    def get(self) -> str:
        """What the JVM sees of it."""
        return repr(self._snapshot)


def _size(found: Pruned) -> int:
    sizes = found.snapshot.table(["size"]).column("size").to_numpy()
    return int((sizes if found.kept is None else sizes[found.kept]).sum())


def _read_here(question: Question, found: Pruned, schema: StructType) -> pa.Table:
    wanted = arrow_schema(schema)
    types = question.plan.types
    read = local.stream(question, found, Scan())
    return pa.Table.from_batches([batch(columns, types, wanted) for columns, _ in read], wanted)


def work_of(lake: Lake, question: Question, found: Pruned) -> Work:
    """What all tasks must know."""
    place, pinned = lake.root.place, question.snapshot
    state = State(
        pinned.state.number, pinned.state.shard, (pinned.state.schema,), options=pinned.state.options
    )
    return Work(
        (place.kind, place.root, place.options),
        pinned.shard.machine.key,
        state,
        _plans(question, found),
        pinned.as_of,
        question.now,
        replace(lake.config, read_threads=1),
        found.retracts,
    )


def _proven(found: Pruned) -> tuple[np.ndarray, np.ndarray]:
    """Which conditions are proven: the sets that occur, the empty one first; and of each kept part, the number of its set."""
    bits = np.array([0, *found.proven()], np.int64)
    if found.retracts:
        bits[:] = 0
    sets, of = np.unique(bits, return_inverse=True)  # none has the highest bit: 0 is the least
    return sets[:VARIANTS], np.where(of < VARIANTS, of, 0)[1:]


def _plans(question: Question, found: Pruned) -> tuple[tuple[MapFilterProject, Groups], ...]:
    """For each set of proven conditions, the plan without them, and its stages."""
    plan, made = question.plan, []
    for proven in _proven(found)[0].tolist():
        slim = plan
        if proven:
            assert found.verdicts is not None
            conditions = [c for i, (c, _) in enumerate(found.verdicts.by_condition) if not proven >> i & 1]
            slim = rebuild(plan, conditions, plan.outputs)
        made.append((slim, [] if found.retracts else local.groups(question, found, slim)))
    return tuple(made)


def splits_of(question: Question, found: Pruned, cores: int) -> list[Split]:
    """The parts in their order, cut where so many bytes have come together."""
    table = found.snapshot.rows_of(found.kept)
    nothing = pa.repeat(pa.scalar(b"", pa.binary()), table.num_rows)
    table = table.set_column(SCHEMA.get_field_index("stats"), SCHEMA.field("stats"), nothing).combine_chunks()
    if found.retracts:
        return [Split(table, np.zeros(table.num_rows, np.int64))]
    if not table.num_rows:
        return []
    sizes = table.column("size").to_numpy()
    aim = min(SPLIT, max(SMALLEST, int(sizes.sum()) // (2 * cores) + 1))
    before = np.cumsum(sizes) - sizes
    cuts = np.flatnonzero(np.diff(before // aim, prepend=-1)).tolist()
    plans = _proven(found)[1]
    return [
        Split(table.slice(start, stop - start), plans[start:stop])
        for start, stop in zip(cuts, [*cuts[1:], table.num_rows], strict=True)
    ]


def register(spark: SparkSession) -> None:
    """Makes the data source known to a session; it must be the active one where none or another knows it already."""
    known: Any = spark._jsparkSession.sessionState().dataSourceManager()
    if not known.dataSourceExists(NAME):
        spark.dataSource.register(ScanSource)


# ---------------------------------------------------------------------------------------------- in Spark's Python processes


class ScanSource(DataSource):
    """The data source. Use `frame`."""

    @classmethod
    def name(cls) -> str:
        """As it is registered."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads what the option says. It is taken out: tasks are sent this object, and each needs its own split alone."""
        given = zlib.decompress(base64.b64decode(self.options.pop(OPTION)))
        work, splits = pickle.loads(given)  # noqa: S301  # made by `frame`; who sets options runs code here anyway
        return ScanReader(work, splits, schema)


class ScanReader(DataSourceReader):
    """Gives the splits in the planner, and reads one in each task."""

    def __init__(self, work: Work, splits: list[Split], schema: StructType) -> None:
        self.work, self.splits, self.schema = work, splits, schema

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanReader, (self.work, [], self.schema)

    def partitions(self) -> Sequence[InputPartition]:
        """What each task reads; where nothing is left, Spark makes a partition of nothing."""
        return self.splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What leaves the plan of a split's rows."""
        return _batches(self.work, partition, self.schema)


def _batches(work: Work, split: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    if not isinstance(split, Split):
        return
    wanted = arrow_schema(schema)
    for columns, rows in _rows(work, split):
        found = batch(columns, work.types, wanted)
        yield from (found.slice(at, ROWS) for at in range(0, rows, ROWS))


def _rows(work: Work, split: Split) -> Iterator[tuple[list[pa.Array], int]]:
    parts = from_table(split.parts)
    pinned = _snapshot(work, parts)
    plan = work.plans[0][0]
    question = Question(pinned, plan, (), Shape(), work.now, work.config)
    if work.retracts:
        size = sum(part.size for part in parts)
        yield from local.stream(question, Pruned(len(parts), size, pinned, retracts=True), Scan())
        return
    staged = [Staged(question, Scan(), *one) for one in work.plans]
    for part, which in zip(parts, split.plans.tolist(), strict=True):
        yield from map(local.counted, staged[which].read(part, proven=False))


def _snapshot(work: Work, parts: Sequence[Any]) -> Snapshot:
    """The driver's snapshot as a task sees it: these parts, and no lease of its own."""
    shard = Shard(_machine(work.place, work.key), work.config)
    state = replace(work.state, parts=Parts().add(parts))
    return Snapshot(shard, Lease(shard, None, work.as_of, state), work.as_of)


@lru_cache(16)
def _machine(place: tuple[Any, str, tuple[tuple[str, str], ...]], key: str) -> Machine:
    """The shard's objects, without its log. Workers are used again, and what they keep of files too."""
    kind, root, options = place
    return Machine(MemoryConsensus(), Place(kind, root, "memory", options=options).blob(), key)
