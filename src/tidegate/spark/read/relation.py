"""A collection as a DataFrame: Spark's own reader over our parts, plus operators that some need.

    df = pin(lake, "orders").frame(spark)              what is committed now
    df = pin(lake, "orders", as_of=ms).frame(spark)

The snapshot is pinned when the DataFrame is created. Everything derived from it reads the same snapshot, whenever it runs.

`branches.py` groups parts by what must be done with their rows; the DataFrame is the union of a branch for each group.

Rows that begin and end by themselves (`storage/shard/validity.py`) are filtered above all branches, by conditions that Spark pushes
down and that prune parts: a row is returned if it is valid at the time of the DataFrame, which is `as_of` or else when it was
created, however late it runs. Where rows are consolidated, those that have ended are left out before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it
from pyspark.sql.types import LongType, StructField, StructType

from tidegate.context import Context, visible_plan
from tidegate.errors import ReadOnlyError
from tidegate.expr.model import Literal
from tidegate.plan import MapFilterProject
from tidegate.spark.jvm import Jvm
from tidegate.spark.read import deleted_rows, late_scan
from tidegate.spark.read.branches import Branch, Diffs, FileColumns, branches
from tidegate.spark.read.consolidate import consolidate, repeat_rows
from tidegate.spark.read.file_index import PartIndex
from tidegate.spark.read.hadoop_paths import hadoop_settings, spark_can_read
from tidegate.spark.read.snapshot_index import SnapshotIndex
from tidegate.spark.translate.evaluator_udf import sql_of
from tidegate.spark.types import quoted, spark_type, substituted
from tidegate.storage.maintain import store_inline_parts
from tidegate.storage.part import SchemaColumn
from tidegate.storage.shard import open_snapshot, resolve_now

OPTIONS = {
    # If the session sets these to true, rows would be missing silently.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Our dates before 1582 are proleptic Gregorian, whatever the session assumes about old files.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def pin(lake: Context, name: str, as_of: int | None = None) -> SnapshotRelation:
    """Pins a snapshot of a collection: at `as_of`, else what is committed now."""
    wall = lake.clock.now()
    shard = lake.collection(name)
    with suppress(ReadOnlyError):  # then tasks of ours read them: `_has_files`
        store_inline_parts(shard)
    pinned = open_snapshot(shard, as_of, timeout_ms=lake.config.as_of_timeout_ms)
    if as_of is None:
        as_of = resolve_now(wall, [pinned.state], lake.config, temporal=pinned.validity is not None)
    return SnapshotRelation(SnapshotIndex(lake, name, pinned, as_of))


class SnapshotRelation:
    """A pinned snapshot as DataFrames."""

    def __init__(self, index: SnapshotIndex) -> None:
        self.index = index

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the valid rows with the visible columns."""
        snap = self.index.snapshot
        plan = visible_plan(snap.schema, snap.state.options)
        if plan is None:
            return self.stored(spark)
        plan = plan.at(self.index.now).optimise()
        names = [column.name for column in snap.schema.columns]
        visible = [names[i] for i in plan.projection]
        if not self._has_files(Jvm.of(spark)):
            return self._by_tasks(spark, plan, visible)
        # Columns have numbers meanwhile: conditions are texts, which cannot contain every name.
        columns = [f"c{i}" for i in range(len(names))]
        rows = self.stored(spark).toDF(*columns)
        for condition in plan.conditions:
            rows = rows.where(sql_of(spark, condition, columns, self.index.now))
        return rows.select(*(columns[i] for i in plan.projection)).toDF(*visible)

    @property
    def is_simple(self) -> bool:
        """Whether every diff is 1."""
        parts = self.index.snapshot.table(["rows", "diffs", "retracts"])
        rows, diffs, retracts = (parts.column(name).to_numpy() for name in ("rows", "diffs", "retracts"))
        return bool((rows == diffs).all()) and not retracts.any()

    def stored(self, spark: SparkSession) -> DataFrame:
        """Returns all rows with all columns, including hidden columns and rows that are not valid."""
        jvm = Jvm.of(spark)
        if not self._has_files(jvm):
            columns = self.index.snapshot.schema.columns
            whole = MapFilterProject.identity([column.type for column in columns])
            return self._by_tasks(spark, whole, [column.name for column in columns])
        case_sensitive = str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
        columns = self.index.snapshot.schema.columns
        frames: list[DataFrame] = []
        updates: list[DataFrame] = []
        for branch in branches(self.index.snapshot, case_sensitive):
            rows = self._branch(jvm, spark, branch)
            (updates if branch.diffs is Diffs.CONSOLIDATED else frames).append(rows)
        if updates:
            frames.append(consolidate(reduce(DataFrame.unionAll, updates), columns))
        return reduce(DataFrame.unionAll, frames)

    def _has_files(self, jvm: Jvm) -> bool:
        """Whether every part is a file that Spark can open.

        Not if a commit that is in the log came after `pin` stored the others, or nothing could be stored.
        """
        can_read = spark_can_read(jvm, self.index.lake.root.place)
        return can_read and not self.index.snapshot.state.parts.inline_bytes

    def _by_tasks(self, spark: SparkSession, plan: MapFilterProject, names: list[str]) -> DataFrame:
        """Reads by tasks of ours, if Spark cannot open the parts itself."""
        snap, lake = self.index.snapshot, self.index.lake
        return late_scan.hold_snapshot(
            late_scan.scan_frame(spark, lake, snap, plan, names, self.index.now), snap
        )

    def _branch(self, jvm: Jvm, spark: SparkSession, branch: Branch) -> DataFrame:
        snap = self.index.snapshot
        columns = snap.schema.columns
        rows = self._files(jvm, spark, branch)
        if branch.has_later_rows:
            # A text: `<=` of Column objects is looked up in the catalog, which is locked while Spark asks for the plan of a view.
            rows = rows.where(f"_time <= {snap.as_of}L")
        if branch.diffs is Diffs.CONSOLIDATED and snap.validity is not None:
            position = [column.id for column in columns].index(snap.validity.upper)
            ends = branch.columns.names[position]
            if ends is not None:
                rows = rows.where(F.col(quoted(ends)).isNull() | (F.col(quoted(ends)) > F.lit(snap.as_of)))
        same_names = branch.columns.names == tuple(column.name for column in columns)
        match branch.diffs:
            case Diffs.CONSOLIDATED:
                return _rename(rows, branch.columns, columns, "_diff")
            case Diffs.REPEATED:
                return repeat_rows(_rename(rows, branch.columns, columns, "_diff"), columns)
            case _:
                return (
                    rows
                    if same_names and not branch.has_later_rows
                    else _rename(rows, branch.columns, columns)
                )

    def _files(self, jvm: Jvm, spark: SparkSession, branch: Branch) -> DataFrame:
        """Returns the rows in the files of a branch that are not deleted, with the hidden columns it needs."""
        columns = self.index.snapshot.schema.columns
        read = [(i, name, columns[i].type) for i, name in enumerate(branch.columns.names) if name is not None]
        hidden = ["_time"] * branch.has_later_rows + ["_diff"] * (branch.diffs is not Diffs.ONE)
        hidden += [deleted_rows.POSITION] * branch.has_deleted_rows  # the last one
        fields = [StructField(name, spark_type(type_)) for _, name, type_ in read]
        schema = StructType([*fields, *(StructField(name, LongType()) for name in hidden)])
        by_name = {name: (i, type_) for i, name, type_ in read}
        files = PartIndex(
            jvm,
            self.index,
            branch.positions,
            by_name,
            branch.label,
            consolidates=branch.diffs is Diffs.CONSOLIDATED,
        )
        if branch.has_deleted_rows:
            return self._not_deleted(jvm, spark, files, schema)
        return self._read(jvm, spark, files, schema)

    def _not_deleted(self, jvm: Jvm, spark: SparkSession, files: PartIndex, schema: StructType) -> DataFrame:
        """Returns the rows in some files that are not deleted, without the column of positions."""
        name = deleted_rows.partition_name(schema.fieldNames())
        partitions = deleted_rows.partition_schema(name)
        files.partitions = jvm.from_json(partitions.json())
        files.numbered = not jvm.reads_batches(spark, StructType([*schema.fields, *partitions.fields]))
        indexes = self.index.deletion_indexes(files.positions) if files.numbered else None
        condition = deleted_rows.is_not_deleted(jvm, name, indexes)
        session: Any = spark._jsparkSession
        plan = jvm.visible_rows(self._relation(jvm, session, files, schema), condition, hidden=2)
        return DataFrame(jvm.dataset(session, plan), spark)

    def _read(self, jvm: Jvm, spark: SparkSession, files: PartIndex, schema: StructType) -> DataFrame:
        """Returns the rows that Spark's reader finds in some files."""
        session: Any = spark._jsparkSession
        return DataFrame(session.baseRelationToDataFrame(self._relation(jvm, session, files, schema)), spark)

    def _relation(self, jvm: Jvm, session: Any, files: PartIndex, schema: StructType) -> Any:
        options = jvm.map()
        for key, value in {**OPTIONS, **hadoop_settings(self.index.lake.root.place)}.items():
            options.put(key, value)
        return jvm.relation(
            files,
            files.partitionSchema(),
            jvm.from_json(schema.json()),
            jvm.none,
            jvm.parquet(),
            jvm.to_map(options),
            session,
        )


def _rename(
    rows: DataFrame, file_columns: FileColumns, columns: Sequence[SchemaColumn], *hidden: str
) -> DataFrame:
    """Selects the columns of the collection under their own names, and these hidden ones."""
    # Texts are one call to the JVM for all columns; each Column object would be several.
    if any(
        name is None and one.missing is not None
        for name, one in zip(file_columns.names, columns, strict=True)
    ):
        return rows.select(
            *(_column(name, column) for name, column in zip(file_columns.names, columns, strict=True)),
            *hidden,
        )
    texts = [_aliased(name, column) for name, column in zip(file_columns.names, columns, strict=True)]
    if not any(map(substituted, texts)):
        return rows.selectExpr(*texts, *hidden)
    return rows.select(
        *(_column(name, column) for name, column in zip(file_columns.names, columns, strict=True)), *hidden
    )


def _column(name: str | None, column: SchemaColumn) -> Column:
    value = _constant(column) if name is None else F.col(quoted(name))
    return value.alias(column.name)


def _constant(column: SchemaColumn) -> Column:
    """A column that files lack."""
    if column.missing is None:
        return F.lit(None).cast(spark_type(column.type))
    spark = SparkSession.active()
    return F.expr(sql_of(spark, Literal(column.missing, column.type), []))


def _aliased(name: str | None, column: SchemaColumn) -> str:
    value = f"CAST(NULL AS {column.type.spark})" if name is None else quoted(name)
    return f"{value} AS {quoted(column.name)}"
