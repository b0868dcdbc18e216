"""DELETE and UPDATE by position: the rows that are found are deleted where they are.

A DELETE reads the columns of its filter and nothing else, and writes a bitmap for each part that holds such rows. Rows that are
stored with a diff above 1 go as a whole; an UPDATE inserts as many.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.query import ScanMetrics, ScanRequest, audit_parts
from tidegate.query.late import Taken
from tidegate.query.paths import local
from tidegate.query.prune import PruneResult
from tidegate.sql.parse import statement
from tidegate.statements.modify.change import BoundModification, checked_size, new_rows
from tidegate.statements.modify.concurrency import Attempts, Moved, changes_since, check_unchanged
from tidegate.storage.part import Block, concat, deletion_records, exact_keys
from tidegate.storage.shard import PartSwept, State


@dataclass
class _Modification:
    """The rows to delete, by part, and those to insert."""

    rows: int = 0
    """How many rows the statement concerns, also those that it leaves as they are."""
    deleted: dict[int, list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)
    inserted: list[Block] = field(default_factory=list)

    def records(self) -> pa.Table:
        """The deletions; their time is set when they are committed."""
        located = {}
        for part, pieces in self.deleted.items():
            positions, diffs = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
            located[part] = positions, diffs
        return deletion_records.deletion_records(located, 0)


def modify_by_position(
    question: ScanRequest,
    bound: BoundModification,
    pruned: PruneResult,
    scan: ScanMetrics,
    attempts: Attempts,
) -> int | None:
    """Does it; returns how many rows, or None if all must be read again."""
    if isinstance(bound.given, statement.Delete):
        question = replace(question, plan=question.plan.project(()))
    found = _find(question, bound, pruned, scan)
    return found.rows if not found.deleted or _commit(question, bound, found, attempts) else None


def _find(
    question: ScanRequest, bound: BoundModification, pruned: PruneResult, scan: ScanMetrics
) -> _Modification:
    """Finds the rows to change."""
    found, size = _Modification(), 0
    for taken in local.locate_rows(question, pruned, scan):
        diffs = np.ones(taken.rows, np.int64) if taken.diffs is None else taken.diffs
        found.rows += int(diffs.sum())
        size += checked_size(question, taken.columns, size)
        _add(found, bound, taken, diffs)
    audit_parts(question, pruned, scan)
    return found


def _add(found: _Modification, bound: BoundModification, taken: Taken, diffs: np.ndarray) -> None:
    """Adds rows of a part; those whose new values are the old ones stay."""
    assert taken.positions is not None
    positions = taken.positions
    if isinstance(bound.given, statement.Update):
        before, after = taken.columns[: len(bound.schema.columns)], new_rows(bound, taken.columns)
        same = pc.equal(exact_keys(before, taken.rows), exact_keys(after, taken.rows))
        changed = np.flatnonzero(~same.to_numpy(zero_copy_only=False))
        block = Block(after, diffs, diffs).take(changed)
        positions, diffs = positions[changed], diffs[changed]
        found.inserted.append(block)
    if len(positions):
        found.deleted.setdefault(taken.part.id, []).append((positions, diffs))


def _commit(
    question: ScanRequest, bound: BoundModification, found: _Modification, attempts: Attempts
) -> bool:
    """Commits, if nothing that matters has changed since; else changes nothing."""
    shard, state, token = bound.shard, question.snapshot.state, secrets.token_hex(16)
    upper, records = state.upper, found.records()
    parts = records.column("part").to_numpy()
    with shard.writing() as written:
        if found.inserted:  # together: rows of many parts are one new part, not many small ones
            block = concat(found.inserted)
            stamped = replace(block, times=np.full(len(block), max(question.now, upper), np.int64))
            for part in shard.write(state, bound.schema, stamped):
                question.cancel.check()
                written.append(part)
        stored = shard.store_deletions(state, records)
        while True:
            question.cancel.check()
            try:
                check = partial(
                    _check, parts, partial(check_unchanged, upper, bound.schema.id, state.repaired)
                )
                shard.commit(written, at=None, token=token, check=check, deletions=stored)
                return True
            except PartSwept:
                break
            except Moved as moved:
                news = changes_since(question, bound, upper, moved.upper)
                if news is None or len(news):
                    break
                attempts.again()
                upper = moved.upper
        shard.discard(written)
        shard.discard_objects(list(stored.objects))
        return False


def _check(parts: np.ndarray, unchanged: partial[None], state: State) -> None:
    """Raises `Moved` if the table has changed, or parts with our rows were replaced by a compaction."""
    unchanged(state)
    if not state.parts.holds(parts):
        raise Moved(state.upper)
