"""DELETE and UPDATE by value: rows are retracted by rows with negative diffs.

    UPDATE t SET n = n + 1 WHERE id > 5

    read     at upper - 1: (6, 1) twice, (7, 4) once
    append   at one time: (6, 1) -2, (7, 4) -1, (6, 2) +2, (7, 5) +1

This is for tables with retractions that have not met their rows yet: a row that was retracted in part has no position of its own.
If others change rows that pass the filter meanwhile, their changes are added to ours, whose diffs say what is left of them.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.plan.run import SafePlan
from tidegate.query import ScanMetrics, ScanRequest, audit_parts, row_error
from tidegate.query.paths import local
from tidegate.query.prune import PruneResult
from tidegate.sql.parse import statement
from tidegate.statements.modify.change import BoundModification, ChangedTable, checked_size, new_rows
from tidegate.statements.modify.concurrency import Attempts, Moved, changes_since, check_unchanged
from tidegate.storage.part import Block, concat, consolidate, consolidate_rows, repeat_rows
from tidegate.storage.shard import PartSwept


def modify_by_value(
    question: ScanRequest,
    bound: BoundModification,
    pruned: PruneResult,
    scan: ScanMetrics,
    attempts: Attempts,
) -> int | None:
    """Does it, following what others do; returns how many rows, or None to read all again."""
    columns, upper = _picked(question, pruned, scan), question.snapshot.state.upper
    while True:
        block = _exchange(bound, columns)
        moved = _appended(question, bound, block, upper) if len(block) else None
        if moved is None:
            return len(columns[0])
        upper, news = moved
        if news is None:
            return None
        attempts.again()
        columns = _followed(question, columns, news)


def commit_retractions(
    question: ScanRequest, table: ChangedTable, retracted: list[Block], inserted: list[Block]
) -> bool:
    """Appends retractions and new rows in one entry; nothing if somebody has changed the table."""
    state, shard = question.snapshot.state, table.shard
    block = consolidate(concat([*retracted, *inserted]), by_time=False)
    if not len(block):
        return True
    stamped = replace(block, times=np.full(len(block), max(question.now, state.upper), np.int64))
    check = partial(check_unchanged, state.upper, table.schema.id, state.repaired)
    with shard.writing() as written:
        for part in shard.write(state, table.schema, stamped):
            question.cancel.check()
            written.append(part)
        try:
            shard.commit(written, at=None, token=secrets.token_hex(16), check=check)
        except (Moved, PartSwept):
            shard.discard(written)
            return False
    return True


def _picked(question: ScanRequest, pruned: PruneResult, scan: ScanMetrics) -> list[pa.Array]:
    """The rows to change, each as often as it occurs: all columns, then the new values."""
    pieces: list[list[pa.Array]] = [[pa.array([], type_.arrow) for type_ in question.plan.types]]
    size = 0
    for columns, _ in local.stream(question, pruned, scan):
        pieces.append(columns)
        size += checked_size(question, columns, size)
    audit_parts(question, pruned, scan)
    return [pa.concat_arrays(piece) for piece in zip(*pieces, strict=True)]


def _exchange(bound: BoundModification, columns: list[pa.Array]) -> Block:
    """The updates to append: rows that go, rows that come, equal rows as one; times are set later."""
    width = len(bound.schema.columns)
    times, ones = np.zeros(len(columns[0]), np.int64), np.ones(len(columns[0]), np.int64)
    blocks = [Block(columns[:width], times, -ones)]
    if isinstance(bound.given, statement.Update):
        blocks.append(Block(new_rows(bound, columns), times, ones))
    return consolidate(concat(blocks), by_time=False)


def _appended(
    question: ScanRequest, bound: BoundModification, block: Block, upper: int
) -> tuple[int, Block | None] | None:
    """Appends if nothing that matters has changed since; else the new `upper`, and what has changed."""
    shard, token = bound.shard, secrets.token_hex(16)
    stamped = replace(block, times=np.full(len(block), max(question.now, upper), np.int64))
    with shard.writing() as written:
        for part in shard.write(question.snapshot.state, bound.schema, stamped):
            question.cancel.check()
            written.append(part)
        while True:
            question.cancel.check()
            news: Block | None = None
            try:
                check = partial(check_unchanged, upper, bound.schema.id, question.snapshot.state.repaired)
                shard.commit(written, at=None, token=token, check=check)
                return None
            except PartSwept:
                pass
            except Moved as moved:
                news = changes_since(question, bound.table, upper, moved.upper)
                upper = moved.upper
            if news is None or len(news):
                shard.discard(written)
                return upper, news


def _followed(question: ScanRequest, columns: list[pa.Array], news: Block) -> list[pa.Array]:
    """What leaves the plan after what others did: our rows and theirs, added up."""
    names = [column.name for column in question.snapshot.schema.columns]
    ours = np.ones(len(columns[0]), np.int64)
    there = consolidate_rows(concat([Block(columns[: len(names)], ours, ours), news]), names)
    rows = repeat_rows(there)
    checked_size(question, rows)
    got = SafePlan(question.plan).evaluate(rows, int(there.diffs.sum()), question.now)
    if len(got.failures):
        raise row_error(got.failures, question.snapshot.labels, rows)
    return got.columns
