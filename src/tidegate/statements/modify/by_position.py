"""DELETE and UPDATE by position: the rows that are found are deleted where they are.

A DELETE reads the columns of its filter and nothing else, and writes a bitmap for each part that holds such rows. Rows that are
stored with a diff above 1 go as a whole; an UPDATE inserts as many.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from tidegate.query import ScanMetrics, ScanRequest, audit_parts
from tidegate.query.late import Taken
from tidegate.query.paths import local
from tidegate.query.prune import PruneResult
from tidegate.sql.parse import statement
from tidegate.statements.modify.change import BoundModification, checked_size, new_rows
from tidegate.statements.modify.commit import RowModification, commit_rows
from tidegate.statements.modify.concurrency import Attempts
from tidegate.storage.part import Block, exact_keys


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
    return found.rows if not found.deleted or commit_rows(question, bound.table, found, attempts) else None


def _find(
    question: ScanRequest, bound: BoundModification, pruned: PruneResult, scan: ScanMetrics
) -> RowModification:
    """Finds the rows to change."""
    found, size = RowModification(), 0
    for taken in local.locate_rows(question, pruned, scan):
        diffs = np.ones(taken.rows, np.int64) if taken.diffs is None else taken.diffs
        found.rows += int(diffs.sum())
        size += checked_size(question, taken.columns, size)
        _add(found, bound, taken, diffs)
    audit_parts(question, pruned, scan)
    return found


def _add(found: RowModification, bound: BoundModification, taken: Taken, diffs: np.ndarray) -> None:
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
