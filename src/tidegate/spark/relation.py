"""A collection as a DataFrame: Spark's own reader over our parts, and above it only what some parts need.

    df = table(lake, "orders", spark)                  what is committed now
    df = table(lake, "orders", spark, as_of=ms)

The snapshot is pinned when the DataFrame is made. Whatever is derived of it, and whenever it runs, reads that same snapshot.

Parts differ in what must be done with their rows, and each kind is a branch of one union; most collections have the first alone:

| parts | branch |
|---|---|
| every diff is 1, all rows visible | the files as they are: no filter, no hidden column is read |
| some diff is greater | each row as often as `_diff` says |
| some times are after `as_of` | `_time <= as_of` |
| they retract, or may hold a row that is retracted (`meeting.py`) | equal rows added up (`settle.py`) |

Rows that come and go by themselves (`shard/validity.py`) are filtered above all branches, by conditions that Spark pushes down and
we prune by: those that are valid at the time of the DataFrame, `as_of` or else when it was made, however late it runs. Where rows
are added up, those that have ended are left out before.

A column is known by its id. Parts of a version of the schema in which a column had another name are read by that name; if another
column had its name then, it is NULL; if none had, Spark finds nothing in the file, and that is NULL too. So parts are grouped by
how they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it
from pyspark.sql.types import LongType, StructField, StructType

from tidegate.errors import UnsupportedError
from tidegate.expr.types import Type
from tidegate.plan.mfp import MapFilterProject
from tidegate.session.lake import Lake, reading_of
from tidegate.shard.catalog import view_of
from tidegate.shard.reader import Snapshot, snapshot
from tidegate.shard.schema import HIDDEN, ColumnDef, Schema
from tidegate.shard.times import present
from tidegate.spark import scan
from tidegate.spark.columns import quoted, spark_type, substituted
from tidegate.spark.evaluate import sql_of
from tidegate.spark.index import PartIndex
from tidegate.spark.jvm import Jvm
from tidegate.spark.meeting import meeting
from tidegate.spark.pinned import Pinned
from tidegate.spark.place import readable, settings_of
from tidegate.spark.settle import repeated, settled
from tidegate.text import identifier

OPTIONS = {
    # A session may say otherwise, and rows would be missing without a word.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Our days before 1582 are those of the proleptic Gregorian calendar, whatever the session thinks of old files.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def table(lake: Lake, name: str, spark: SparkSession, as_of: int | None = None) -> DataFrame:
    """A collection, or a view, at a time; None: what is committed."""
    if view_of(lake.item(name)) is not None:
        return _view(lake, name, spark, as_of)
    return pin(lake, name, as_of).frame(spark)


def pin(lake: Lake, name: str, as_of: int | None = None) -> Relation:
    """The snapshot of a collection that DataFrames can be made of."""
    wall = lake.clock.now()
    found = snapshot(lake.collection(name), as_of, timeout_ms=lake.config.as_of_timeout_ms)
    if as_of is None:
        as_of = present(wall, [found.state], lake.config, temporal=found.validity is not None)
    return Relation(Pinned(lake, name, found, as_of))


def _view(lake: Lake, name: str, spark: SparkSession, as_of: int | None) -> DataFrame:
    try:
        query = import_module("tidegate.spark.query")
    except ModuleNotFoundError:
        raise UnsupportedError(
            f'"{name}" is a view, and views are not read on Spark yet', hint="db.sql reads it"
        ) from None
    made: DataFrame = query.frame(lake, spark, f"SELECT * FROM {identifier(name)}", as_of)
    return made


@dataclass(frozen=True)
class Reading:
    """How the columns of the collection are read from the files of some parts."""

    names: tuple[str | None, ...]
    """Of each column of the collection, its name in the file; None: another column has that name, and ours is NULL."""


@dataclass(frozen=True, eq=False)
class Branch:
    """Parts with whose rows the same is done."""

    places: np.ndarray
    reading: Reading
    partly: bool
    """Some rows may be of a time after the snapshot's."""
    many: bool
    """Some diffs may be other than 1."""
    meets: bool
    """Rows must be added up with others."""
    label: str


class Relation:
    """A pinned snapshot, from which DataFrames are made."""

    def __init__(self, pinned: Pinned) -> None:
        self.pinned = pinned

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows that are there, with the columns that are seen."""
        snap = self.pinned.snapshot
        plan = reading_of(snap.schema, snap.state.options)
        if plan is None:
            return self.stored(spark)
        plan = plan.at(self.pinned.now).optimise()
        names = [column.name for column in snap.schema.columns]
        seen = [names[i] for i in plan.projection]
        if not readable(Jvm.of(spark), self.pinned.lake.root.place):
            return self._by_tasks(spark, plan, seen)
        # By numbers meanwhile: the conditions are texts, in which not every name can stand.
        words = [f"c{i}" for i in range(len(names))]
        rows = self.stored(spark).toDF(*words)
        for condition in plan.conditions:
            rows = rows.where(sql_of(spark, condition, words, self.pinned.now))
        return rows.select(*(words[i] for i in plan.projection)).toDF(*seen)

    @property
    def is_simple(self) -> bool:
        """Whether every row is there once, so that nothing is done with diffs."""
        found = self.pinned.snapshot.table(["rows", "diffs", "retracts"])
        rows, diffs, retracts = (found.column(name).to_numpy() for name in ("rows", "diffs", "retracts"))
        return bool((rows == diffs).all()) and not retracts.any()

    def stored(self, spark: SparkSession) -> DataFrame:
        """All rows of the snapshot with all columns: what nobody sees, and rows that are not valid, too."""
        jvm = Jvm.of(spark)
        if not readable(jvm, self.pinned.lake.root.place):
            columns = self.pinned.snapshot.schema.columns
            whole = MapFilterProject.identity([column.type for column in columns])
            return self._by_tasks(spark, whole, [column.name for column in columns])
        sensitive = str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
        branches = list(_branches(self.pinned.snapshot, sensitive))
        columns = self.pinned.snapshot.schema.columns
        plain = [self._branch(jvm, spark, one) for one in branches if not one.meets]
        meeting_ = [self._branch(jvm, spark, one) for one in branches if one.meets]
        if meeting_:
            plain.append(settled(reduce(DataFrame.unionAll, meeting_), columns))
        return reduce(DataFrame.unionAll, plain)

    def _by_tasks(self, spark: SparkSession, plan: MapFilterProject, names: list[str]) -> DataFrame:
        """Where Spark cannot open the parts itself."""
        snap, lake = self.pinned.snapshot, self.pinned.lake
        return scan.keep(scan.frame(spark, lake, snap, plan, names, self.pinned.now), snap)

    def _branch(self, jvm: Jvm, spark: SparkSession, branch: Branch) -> DataFrame:
        snap = self.pinned.snapshot
        columns = snap.schema.columns
        rows = self._files(jvm, spark, branch)
        if branch.partly:
            rows = rows.where(F.col("_time") <= F.lit(snap.as_of))
        if branch.meets and snap.validity is not None:
            place = [column.id for column in columns].index(snap.validity.upper)
            ends = branch.reading.names[place]
            if ends is not None:
                rows = rows.where(F.col(quoted(ends)).isNull() | (F.col(quoted(ends)) > F.lit(snap.as_of)))
        same = branch.reading.names == tuple(column.name for column in columns)
        if same and not (branch.partly or branch.many or branch.meets):
            return rows
        if branch.meets:
            return _renamed(rows, branch.reading, columns, "_diff")
        if branch.many:
            return repeated(_renamed(rows, branch.reading, columns, "_diff"), columns)
        return _renamed(rows, branch.reading, columns)

    def _files(self, jvm: Jvm, spark: SparkSession, branch: Branch) -> DataFrame:
        """The files of a branch, with the hidden columns that it needs."""
        columns = self.pinned.snapshot.schema.columns
        read = [(i, name, columns[i].type) for i, name in enumerate(branch.reading.names) if name is not None]
        hidden = ["_time"] * branch.partly + ["_diff"] * (branch.many or branch.meets)
        fields = [StructField(name, spark_type(type_)) for _, name, type_ in read]
        schema = StructType([*fields, *(StructField(name, LongType()) for name in hidden)])
        known = {name: (i, type_) for i, name, type_ in read}
        index = PartIndex(jvm, self.pinned, branch.places, known, branch.label, meets=branch.meets)
        options = jvm.map()
        for key, value in {**OPTIONS, **settings_of(self.pinned.lake.root.place)}.items():
            options.put(key, value)
        session: Any = spark._jsparkSession
        relation = jvm.relation(
            index,
            jvm.no_partitions,
            jvm.from_json(schema.json()),
            jvm.none,
            jvm.parquet(),
            jvm.to_map(options),
            session,
        )
        return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _renamed(rows: DataFrame, reading: Reading, columns: Sequence[ColumnDef], *hidden: str) -> DataFrame:
    """The columns of the collection under their names, and these hidden ones."""
    # As texts: one call for all of them, where each Column object would be several.
    texts = [_aliased(name, column) for name, column in zip(reading.names, columns, strict=True)]
    if not any(map(substituted, texts)):
        return rows.selectExpr(*texts, *hidden)
    return rows.select(
        *(_column(name, column) for name, column in zip(reading.names, columns, strict=True)), *hidden
    )


def _column(name: str | None, column: ColumnDef) -> Column:
    value = F.lit(None).cast(spark_type(column.type)) if name is None else F.col(quoted(name))
    return value.alias(column.name)


def _aliased(name: str | None, column: ColumnDef) -> str:
    value = f"CAST(NULL AS {column.type.spark})" if name is None else quoted(name)
    return f"{value} AS {quoted(column.name)}"


def _branches(snap: Snapshot, sensitive: bool) -> Iterator[Branch]:
    """The parts by what must be done with them; one branch at least."""
    found = snap.table(["rows", "diffs", "retracts", "last", "schema"])
    last, written = found.column("last").to_numpy(), found.column("schema").to_numpy()
    partly = last > snap.as_of
    meets = meeting(snap)
    many = found.column("diffs").to_numpy() != found.column("rows").to_numpy()
    readings = _readings(snap, np.unique(written).tolist(), sensitive)
    numbers = {reading: i for i, reading in enumerate(dict.fromkeys(readings.values()))}
    of_version = np.zeros(max(readings) + 1, np.int64)
    of_version[list(readings)] = [numbers[reading] for reading in readings.values()]
    # As one number each, which sorts quickly.
    kinds = of_version[written] << 3 | partly << 2 | (many | meets) << 1 | meets
    for kind in np.unique(kinds).tolist() or [0]:
        number, is_partly, is_many, is_meeting = kind >> 3, kind & 4, kind & 2, kind & 1
        label = "".join(
            word
            for flag, word in (
                (len(numbers) > 1, f" version {number}"),
                (is_partly, " partly"),
                (is_meeting, " consolidated"),
                (is_many and not is_meeting, " repeated"),
            )
            if flag
        )
        yield Branch(
            np.flatnonzero(kinds == kind),
            list(numbers)[number],
            bool(is_partly),
            bool(is_many),
            bool(is_meeting),
            label,
        )


def _readings(snap: Snapshot, written: list[int], sensitive: bool) -> dict[int, Reading]:
    """For each version of the schema that parts were written with, how their files are read."""
    _no_twins(snap.schema.columns, sensitive, "the collection")
    for column in snap.schema.columns:
        _no_twin_fields(column.type, sensitive, f"column {column.name}")
    versions = {given["id"]: Schema.from_json(given) for given in snap.state.schemas}
    found = {version: _reading(snap.schema, versions[version], sensitive) for version in written}
    return found or {snap.schema.id: _reading(snap.schema, snap.schema, sensitive)}


def _reading(schema: Schema, written: Schema, sensitive: bool) -> Reading:
    names = {column.id: column.name for column in written.columns}
    taken = {_folded(name, sensitive) for name in names.values()}
    used = [column for column in written.columns if column.id in {c.id for c in schema.columns}]
    twins = {_folded(column.name, sensitive) for column in used}
    beside = [c for c in written.columns if _folded(c.name, sensitive) in twins]
    _no_twins(beside, sensitive, f"parts of version {written.id} of the schema")
    return Reading(
        tuple(
            names[column.id]
            if column.id in names
            else (None if _folded(column.name, sensitive) in taken else column.name)
            for column in schema.columns
        )
    )


def _folded(name: str, sensitive: bool) -> str:
    return name if sensitive else name.lower()


def _no_twins(columns: Iterable[ColumnDef], sensitive: bool, where: str) -> None:
    """Refuses columns that are one to Spark, in a part's file with its hidden columns too."""
    _refuse_twins([*(column.name for column in columns), *HIDDEN], sensitive, f"{where} has the columns")


def _no_twin_fields(type_: Type, sensitive: bool, where: str) -> None:
    """The same for the fields of records, however deep."""
    if type_.element is not None:
        _no_twin_fields(type_.element, sensitive, where)
    _refuse_twins([name for name, _ in type_.fields], sensitive, f"{where} has the fields")
    for _, inner in type_.fields:
        _no_twin_fields(inner, sensitive, where)


def _refuse_twins(names: Sequence[str], sensitive: bool, what: str) -> None:
    counted = Counter(_folded(name, sensitive) for name in names)
    twins = [name for name in names if counted[_folded(name, sensitive)] > 1]
    if twins:
        raise UnsupportedError(
            f"{what} {', '.join(twins)}, which Spark does not tell apart",
            hint='spark.conf.set("spark.sql.caseSensitive", "true") before it is read',
        )
