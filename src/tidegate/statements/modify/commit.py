"""One commit of deleted positions and new rows, if what was read is still what is there.

with the entry of the log: positions 3 and 9 of part 12 are deleted, (6, 2) and (7, 5) are inserted
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.query import ScanRequest
from tidegate.statements.modify.change import ChangedTable
from tidegate.statements.modify.concurrency import Attempts, Moved, changes_since, check_unchanged
from tidegate.storage.part import Block, concat, deletion_records
from tidegate.storage.shard import PartSwept, State


@dataclass
class RowModification:
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


def commit_rows(
    question: ScanRequest, table: ChangedTable, found: RowModification, attempts: Attempts
) -> bool:
    """Commits, if nothing that matters has changed since; else changes nothing.

    `question` is how the table was read: what others change and its plan drops does not matter.
    """
    shard, state, token = table.shard, question.snapshot.state, secrets.token_hex(16)
    upper, records = state.upper, found.records()
    parts = records.column("part").to_numpy()
    with shard.writing() as written:
        if found.inserted:  # together: rows of many parts are one new part, not many small ones
            block = concat(found.inserted)
            stamped = replace(block, times=np.full(len(block), max(question.now, upper), np.int64))
            for part in shard.write(state, table.schema, stamped):
                question.cancel.check()
                written.append(part)
        stored = shard.store_deletions(state, records)
        while True:
            question.cancel.check()
            try:
                check = partial(
                    _check, parts, partial(check_unchanged, upper, table.schema.id, state.repaired)
                )
                shard.commit(written, at=None, token=token, check=check, deletions=stored)
                return True
            except PartSwept:
                break
            except Moved as moved:
                news = changes_since(question, table, upper, moved.upper)
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
