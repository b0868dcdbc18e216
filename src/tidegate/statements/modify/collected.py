"""The rows of a statement's query as changes: which rows go, which come, and what RETURNING gives.

| statement | a row of the table that the query gives twice |
|---|---|
| UPDATE … FROM, DELETE … USING | is changed once, by one of them |
| MERGE | is an error, if both would change it |
| INSERT … ON CONFLICT DO UPDATE | is an error, once it was changed |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config import Config
from tidegate.errors import EvaluationError
from tidegate.query import Result
from tidegate.sql.changes import ChangeColumns, ChangeQuery
from tidegate.statements.modify.change import checked_bytes
from tidegate.statements.modify.commit import RowModification
from tidegate.storage.part import Block, Schema, conform, exact_keys, repeat_rows


@dataclass
class CollectedRows:
    """What a statement does."""

    modification: RowModification = field(default_factory=RowModification)
    """Rows to delete by position, and rows to insert."""
    retracted: list[Block] = field(default_factory=list)
    """Rows to retract by value."""
    returning: list[pa.Array] = field(default_factory=list)


def collect(
    result: Result, columns: ChangeColumns, changes: ChangeQuery, schema: Schema, config: Config, verb: str
) -> CollectedRows:
    """Reads the query, and says what is to be done."""
    rows = _ChangeRows(_arrays(result, columns, config), columns, changes)
    rows.keep(rows.once(verb))
    return rows.collected(schema)


def _arrays(result: Result, columns: ChangeColumns, config: Config) -> dict[str, list[pa.Array]]:
    """The columns of the query's result, by what they are for."""
    pieces: list[list[pa.Array]] = [[pa.array([], type_.arrow)] for type_ in result.types]
    size = 0
    for batch in result.batches():
        size += checked_bytes(config, batch.columns, size)
        for piece, column in zip(pieces, batch.columns, strict=True):
            piece.append(column)
    whole = iter([pa.concat_arrays(piece) for piece in pieces])
    return {name: [next(whole) for _ in group] for name, group in columns.groups()}


class _ChangeRows:
    """Rows of the query."""

    def __init__(
        self, arrays: dict[str, list[pa.Array]], columns: ChangeColumns, changes: ChangeQuery
    ) -> None:
        self.arrays, self.changes = arrays, changes
        count = next((len(array) for group in arrays.values() for array in group), 0)
        action = arrays["action"][0].to_numpy() if columns.action else np.zeros(count, np.int64)
        kinds = np.array(changes.actions, dtype=object)
        self.kinds = kinds[action.astype(np.int64)] if count else np.array([], dtype=object)
        self.is_addressed = bool(columns.address)

    def keep(self, places: np.ndarray) -> None:
        """Leaves out all rows but these."""
        index = pa.array(places)
        self.arrays = {name: [array.take(index) for array in group] for name, group in self.arrays.items()}
        self.kinds = self.kinds[places]

    def _is(self, *kinds: str) -> np.ndarray:
        return np.isin(self.kinds.astype(str), kinds)

    def _addresses(self) -> tuple[np.ndarray, np.ndarray]:
        part, position = (pc.fill_null(array, -2).to_numpy() for array in self.arrays["address"][:2])
        return part, position

    # ---------------------------------------------------------------- each row once

    def once(self, verb: str) -> np.ndarray:
        """The rows that count, each row of the table once."""
        count = len(self.kinds)
        if self._is("duplicate").any():
            raise _conflict_error()
        if not self.is_addressed:
            return np.arange(count)
        part, position = self._addresses()
        ordinal = self.arrays["ordinal"][0].to_numpy() if self.arrays["ordinal"] else np.arange(count)
        met = np.flatnonzero(self._is("update", "delete", "skip"))
        order = met[np.lexsort((ordinal[met], position[met], part[met]))]
        again = np.zeros(count, bool)
        again[order[1:]] = (part[order[1:]] == part[order[:-1]]) & (
            position[order[1:]] == position[order[:-1]]
        )
        if verb == "INSERT":
            _check_conflicts(order, again, self._is("update"))
            places = np.argsort(ordinal, kind="stable")
            return np.asarray(places[~self._is("skip")[places]])
        if verb == "MERGE" and again.any():
            raise EvaluationError(
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )
        return np.flatnonzero(~again)

    # ---------------------------------------------------------------- what is done

    def collected(self, schema: Schema) -> CollectedRows:
        """The changes; a row whose new values are its old ones counts, and stays."""
        done = CollectedRows()
        copies = self.arrays["address"][2] if self.is_addressed else None
        times = np.ones(len(self.kinds), np.int64) if copies is None else pc.fill_null(copies, 1).to_numpy()
        done.modification.rows = int(times.sum())
        arrives, leaves = self._is("insert", "update"), self._is("update", "delete")
        if arrives.any():
            new = self._new_rows(schema, arrives)
            stays = np.zeros(len(self.kinds), bool)
            stays[np.flatnonzero(arrives)] = self._unchanged(new, arrives)
            leaves &= ~stays
            coming = Block(new, times[arrives], times[arrives]).take(~stays[arrives])
            if len(coming):
                done.modification.inserted.append(coming)
        if leaves.any():
            self._leave(done, np.flatnonzero(leaves), times)
        returned = Block(self.arrays["returning"], times, times)
        done.returning = repeat_rows(returned) if (times != 1).any() else self.arrays["returning"]
        return done

    def _new_rows(self, schema: Schema, arrives: np.ndarray) -> list[pa.Array]:
        """The new rows, of all stored columns."""
        before, after = self.arrays["before"], self.arrays["after"]
        mask = pa.array(arrives)
        whole = [*before] if before else [*after]
        for place, values in zip(self.changes.places, after, strict=True):
            whole[place] = values
        return conform(schema, [array.filter(mask) for array in whole])

    def _unchanged(self, new: Sequence[pa.Array], arrives: np.ndarray) -> np.ndarray:
        """Which new rows are the rows that they replace."""
        updated = np.asarray(self._is("update")[arrives], bool)
        if not updated.any():
            return updated
        old = [array.filter(pa.array(arrives)) for array in self.arrays["before"]]
        count = int(arrives.sum())
        same = pc.equal(exact_keys(old, count), exact_keys(new, count)).to_numpy(zero_copy_only=False)
        return np.asarray(np.logical_and(same, updated), bool)

    def _leave(self, done: CollectedRows, places: np.ndarray, times: np.ndarray) -> None:
        part, position = self._addresses()
        if (part[places] < 0).any():
            old = [array.take(pa.array(places)) for array in self.arrays["before"]]
            done.retracted.append(Block(old, times[places], -times[places]))
            return
        for id_ in np.unique(part[places]).tolist():
            mine = places[part[places] == id_]
            mine = mine[np.argsort(position[mine])]
            done.modification.deleted[id_] = [(position[mine], times[mine])]


def _check_conflicts(order: np.ndarray, again: np.ndarray, updated: np.ndarray) -> None:
    """Raises if a row is met again after it was changed."""
    changed = False
    for place in order.tolist():
        if not again[place]:
            changed = False
        elif changed:
            raise _conflict_error()
        changed = changed or bool(updated[place])


def _conflict_error() -> EvaluationError:
    return EvaluationError(
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
