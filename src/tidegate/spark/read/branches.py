"""Groups the parts of a snapshot by what a DataFrame must do with their rows.

| parts | branch |
|---|---|
| every diff is 1, all rows visible | the files as they are: no filter, no hidden column is read |
| all rows are deleted | none |
| some rows are deleted | the files with their deleted positions, which a condition skips (`deleted_rows.py`) |
| they are few, and others like them have deleted rows | with those, as parts of which no row is deleted: see below |
| some diff is greater | each row as often as `_diff` says |
| some times are after `as_of` | `_time <= as_of` |
| they retract, or may hold a retracted row (`retraction_candidates`) | equal rows are consolidated (`consolidate.py`) |

Most collections have only the first branch, and the second after a DELETE or an UPDATE. Several of the others may apply at once.

Each branch is a scan, and a scan takes Spark some 30 ms to plan and a task of its own to run, also if it reads nothing. The
condition on deleted rows takes some nanoseconds a row. So a branch of parts without deleted rows is joined to the one with deleted
rows if it has few rows: up to `MAX_JOINED_ROWS`, or as many as the other. 100 million rows, one of them deleted, are two branches.

A column is identified by its id. Parts written with a schema in which the column had another name are read by that name; if
another column had its name then, it is NULL; if none had, Spark finds no such column and gives NULL too. A column that was added
with a default is a constant where files lack it. So parts are grouped by the names of their columns as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import product

import numpy as np

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Type
from tidegate.query.prune import retraction_candidates
from tidegate.storage.part import HIDDEN_COLUMNS, Schema, SchemaColumn
from tidegate.storage.shard import Snapshot

MAX_JOINED_ROWS = 4_000_000
"""Rows of parts without deleted rows that are read together with parts that have some, however few those are."""


class Diffs(IntEnum):
    """What the diffs of some parts mean for their rows."""

    ONE = 0
    """Every row is there once."""
    REPEATED = 1
    """Some rows are there several times."""
    CONSOLIDATED = 2
    """Rows must be added up with retractions."""


@dataclass(frozen=True)
class FileColumns:
    """The names that the collection's columns have in the files of some parts."""

    names: tuple[str | None, ...]
    """For each column of the collection; None: it is not in the file, and NULL, or as it was added."""


@dataclass(frozen=True, eq=False)
class Branch:
    """Parts whose rows are read in the same way."""

    positions: np.ndarray
    """Of the parts, in the table of the snapshot."""
    columns: FileColumns
    has_later_rows: bool
    """Whether some rows may be later than the snapshot."""
    has_deleted_rows: bool
    diffs: Diffs
    label: str
    """What EXPLAIN shows, and what tells the branches of a snapshot apart."""


def branches(snap: Snapshot, case_sensitive: bool) -> Iterator[Branch]:
    """Yields the branches of a snapshot; at least one, also if it has no rows."""
    table = snap.table(["rows", "diffs", "retracts", "last", "schema"])
    versions = table.column("schema").to_numpy()
    later = table.column("last").to_numpy() > snap.as_of
    repeated = table.column("diffs").to_numpy() != table.column("rows").to_numpy()
    diffs = np.where(
        retraction_candidates(snap), Diffs.CONSOLIDATED, np.where(repeated, Diffs.REPEATED, Diffs.ONE)
    )
    rows = table.column("rows").to_numpy()
    totals = snap.deleted()
    deleted = np.zeros(len(rows), np.int64) if totals is None else totals[0]
    by_version = _file_columns(snap, np.unique(versions).tolist(), case_sensitive)
    layouts = list(dict.fromkeys(by_version.values()))
    of_version = np.zeros(max(by_version) + 1, np.int64)
    of_version[list(by_version)] = [layouts.index(layout) for layout in by_version.values()]
    layout_of = of_version[versions]
    left = deleted < rows
    if not left.any():
        yield Branch(np.zeros(0, np.int64), layouts[0], False, False, Diffs.ONE, "")
        return
    for (number, layout), is_later, kind in product(enumerate(layouts), (False, True), Diffs):
        alike = np.flatnonzero((layout_of == number) & (later == is_later) & (diffs == kind) & left)
        for positions, is_deleted in _by_deletions(alike, deleted[alike], rows[alike]):
            version = f" version {number}" if len(layouts) > 1 else ""
            label = version + " partly" * is_later + " deleted" * is_deleted
            label += "" if kind is Diffs.ONE else f" {kind.name.lower()}"
            yield Branch(positions, layout, is_later, is_deleted, kind, label)


def _by_deletions(
    positions: np.ndarray, deleted: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[np.ndarray, bool]]:
    """Yields parts, and whether they are read as parts with deleted rows; see the top."""
    touched = deleted > 0
    untouched_rows = int(rows[~touched].sum())
    if touched.any() and untouched_rows <= max(MAX_JOINED_ROWS, int(rows[touched].sum())):
        yield positions, True
        return
    for is_deleted in (False, True):
        if (touched == is_deleted).any():
            yield positions[touched == is_deleted], is_deleted


def _file_columns(snap: Snapshot, versions: list[int], case_sensitive: bool) -> dict[int, FileColumns]:
    """Returns how files are read, for each version of the schema that parts were written with."""
    _refuse_equal_columns(snap.schema.columns, case_sensitive, "the collection")
    for column in snap.schema.columns:
        _refuse_equal_fields(column.type, case_sensitive, f"column {column.name}")
    schemas = {stored.parsed.id: stored.parsed for stored in snap.state.schemas}
    by_version = {version: _columns_in(snap.schema, schemas[version], case_sensitive) for version in versions}
    return by_version or {snap.schema.id: _columns_in(snap.schema, snap.schema, case_sensitive)}


def _columns_in(schema: Schema, written: Schema, case_sensitive: bool) -> FileColumns:
    """Returns the names of the columns of `schema` in files that have the schema `written`."""
    names = {column.id: column.name for column in written.columns}
    taken = {_fold(name, case_sensitive) for name in names.values()}
    ids = {column.id for column in schema.columns}
    read = {_fold(column.name, case_sensitive) for column in written.columns if column.id in ids}
    alike = [column for column in written.columns if _fold(column.name, case_sensitive) in read]
    _refuse_equal_columns(alike, case_sensitive, f"parts of version {written.id} of the schema")

    def name_of(column: SchemaColumn) -> str | None:
        if column.id in names:
            return names[column.id]
        if column.missing is not None:
            return None
        return None if _fold(column.name, case_sensitive) in taken else column.name

    return FileColumns(tuple(map(name_of, schema.columns)))


def _fold(name: str, case_sensitive: bool) -> str:
    return name if case_sensitive else name.lower()


def _refuse_equal_columns(columns: Iterable[SchemaColumn], case_sensitive: bool, where: str) -> None:
    """Refuses columns whose names are equal to Spark, or equal to a hidden column of the files."""
    _refuse_equal(
        [*(column.name for column in columns), *HIDDEN_COLUMNS], case_sensitive, f"{where} has the columns"
    )


def _refuse_equal_fields(type_: Type, case_sensitive: bool, where: str) -> None:
    """Refuses records with fields whose names are equal to Spark, at any depth."""
    if type_.element is not None:
        _refuse_equal_fields(type_.element, case_sensitive, where)
    _refuse_equal([name for name, _ in type_.fields], case_sensitive, f"{where} has the fields")
    for _, inner in type_.fields:
        _refuse_equal_fields(inner, case_sensitive, where)


def _refuse_equal(names: Sequence[str], case_sensitive: bool, where: str) -> None:
    count = Counter(_fold(name, case_sensitive) for name in names)
    equal = [name for name in names if count[_fold(name, case_sensitive)] > 1]
    if equal:
        raise UnsupportedError(
            f"{where} {', '.join(equal)}, which Spark does not tell apart",
            hint='spark.conf.set("spark.sql.caseSensitive", "true") before reading',
        )
