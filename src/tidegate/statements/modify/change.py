"""DELETE or UPDATE as it is bound, and the new rows of an UPDATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.context import position_of
from tidegate.errors import LimitError
from tidegate.plan.run import Failures
from tidegate.query import ScanRequest, row_error
from tidegate.sql.bind import BoundChange
from tidegate.sql.parse import statement
from tidegate.storage.part import Schema, conform
from tidegate.storage.shard import Shard, validity

LARGEST = 2**31 - 1
"""Bytes that a column of one batch can have, whatever `max_result_bytes` allows."""


Modification: TypeAlias = statement.Insert | statement.Update | statement.Delete | statement.Merge


@dataclass(frozen=True)
class ChangedTable:
    """The table that a statement changes."""

    shard: Shard
    schema: Schema
    follows: bool
    """Whether what others change meanwhile matters only if it passes the filter by which the table is read."""


@dataclass(frozen=True)
class BoundModification:
    """DELETE or UPDATE of one table, bound."""

    given: statement.Delete | statement.Update
    shard: Shard
    schema: Schema
    change: BoundChange
    wall: int

    @property
    def table(self) -> ChangedTable:
        """The table."""
        return ChangedTable(self.shard, self.schema, follows=not self.change.read.mfp.is_temporal)

    @property
    def verb(self) -> str:
        """DELETE or UPDATE."""
        return type(self.given).__name__.upper()


def new_rows(bound: BoundModification, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The rows that an UPDATE inserts, from the rows that it found: all columns, then the new values."""
    assert isinstance(bound.given, statement.Update)
    width = len(bound.schema.columns)
    before, after = list(columns[:width]), list(columns[:width])
    for place, values in zip(bound.change.places, columns[width:], strict=True):
        after[place] = values
    _check_nulls(bound, bound.given, before, after)
    return conform(bound.schema, after)


def _check_nulls(
    bound: BoundModification, given: statement.Update, before: list[pa.Array], after: list[pa.Array]
) -> None:
    """NOT NULL, with the row that would break it."""
    for place, (target, _) in zip(bound.change.places, given.assignments, strict=True):
        column = bound.schema.columns[place]
        if not column.nullable and after[place].null_count:
            row = np.flatnonzero(after[place].is_null().to_numpy(zero_copy_only=False))[:1]
            broken = f'null value in column "{column.name}" violates not-null constraint'
            names = validity.visible_names(bound.schema, bound.shard.machine.cached_state().options)
            error = row_error(Failures(row, pa.array([broken])), names, before)
            error.position = position_of(given.sql, target)
            raise error


def checked_size(question: ScanRequest, columns: Sequence[pa.Array], before: int = 0) -> int:
    """The bytes of these columns, if there may be so many more."""
    return checked_bytes(question.config, columns, before)


def checked_bytes(config: Config, columns: Sequence[pa.Array], before: int) -> int:
    """The same by the settings."""
    size: int = sum(column.nbytes for column in columns)
    limit = min(config.max_result_bytes, LARGEST)
    if before + size > limit:
        raise LimitError(
            f"the rows to be changed have more than {limit} bytes",
            hint="change fewer at once, by a narrower WHERE, or SET max_result_bytes; nothing was changed",
        )
    return size
