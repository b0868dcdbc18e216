"""DELETE and UPDATE: read the rows at a snapshot, then retract and insert them in one append.

    UPDATE t SET n = n + 1 WHERE id > 5

    read     at upper - 1: (6, 1) twice, (7, 4) once; parts that hold no id above 5 are not read
    append   at one time: (6, 1) -2, (7, 4) -1, (6, 2) +2, (7, 5) +1

What was there before can still be read AS OF before. A row that the filter or an assignment fails on fails the statement, and then
nothing is changed; a row whose new values are its old ones is counted, and nothing is written for it.

**Nothing is lost and nothing is done twice**, whatever else changes the table meanwhile. The append commits only if the
table's `upper` is still the one that was read: so what was read is what is there. If others were faster, what they changed
is read, and put through the filter:

| meanwhile, somebody | `UPDATE t SET n = n + 1 WHERE id > 5` |
|---|---|
| inserts (3, 0) | nothing passes: ours are still the rows to be changed, and are appended behind it |
| inserts (8, 0), or updates (6, 1) too | what passes is added to our rows, whose diffs say what is left of them; then again |
| adds a column | all is bound and read again |
| compacts | nothing was changed |

All is read again, too, where following is not exact: if the filter reads floats or intervals (`query/prune/parts.py` says why), or
`mz_now()`, or rows end by themselves. Between two attempts a random while passes. One of those who compete always wins, so together
they come to an end. A statement that lost `retry.CONTENTION.times` times is a `ConflictError`.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import ConflictError, LimitError, PlanError, TidegateError, TimeError, UnsupportedError
from tidegate.expr.model import Expr, support
from tidegate.plan.run import Failures, SafePlan
from tidegate.query import (
    CancelToken,
    Path,
    Result,
    ResultShape,
    ScanMetrics,
    ScanRequest,
    audit_parts,
    row_error,
)
from tidegate.query.paths import local
from tidegate.query.prune import prune
from tidegate.sql.bind import BoundChange, BoundQuery, Relation, bind_change
from tidegate.sql.parse import statement
from tidegate.statements.insert import default_of
from tidegate.statements.pinned import Pinned, pinned
from tidegate.storage import CONTENTION
from tidegate.storage.part import Block, Schema, concat, conform, consolidate, consolidate_rows, repeat_rows
from tidegate.storage.shard import (
    PartSwept,
    Shard,
    Snapshot,
    State,
    open_changes,
    resolve_now,
    validity,
)

LARGEST = 2**31 - 1
"""Bytes that a column of one batch can have, whatever `max_result_bytes` allows."""


@dataclass(frozen=True)
class BoundModification:
    """DELETE or UPDATE of one table, bound."""

    given: statement.Delete | statement.Update
    shard: Shard
    schema: Schema
    change: BoundChange
    wall: int


class _Moved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this module
    """The table is not as it was read."""

    def __init__(self, upper: int) -> None:
        super().__init__("the table was changed meanwhile")
        self.upper = upper
        self.news: Block | None = None
        """What it is that concerns us; None: that takes reading all again."""


def plan_modification(context: Context, given: statement.Delete | statement.Update) -> BoundQuery:
    """The query that finds the rows to change: all their columns, then the new values."""
    return _bind(context, given, CatalogSnapshot(context), context.clock.now()).change.read


def modify(
    context: Context, given: statement.Delete | statement.Update, watch: CancelToken | None = None
) -> Result:
    """Runs the statement; the result says how many rows, as psql does."""
    tries = _Tries(given, watch or CancelToken(context.config.statement_timeout_ms))
    while True:
        with pinned_change(context, given) as found:
            result = _tried(context, found.query, found.snapshots[given.table.text], tries)
        if result is not None:
            return result
        tries.again()


def pinned_change(
    context: Context, given: statement.Delete | statement.Update
) -> AbstractContextManager[Pinned[BoundModification]]:
    """DELETE or UPDATE, bound, with the snapshot of its table pinned."""
    return pinned(context, partial(_bind, context, given), lambda _: [given.table.text])


class _Tries:
    """How often it was tried; the time between two tries."""

    def __init__(self, given: statement.Delete | statement.Update, watch: CancelToken) -> None:
        self.given, self.watch, self.lost = given, watch, 0

    def again(self) -> None:
        """Somebody was faster: waits a random while, or gives up."""
        self.lost += 1
        self.watch.check()
        if self.lost >= CONTENTION.times:
            raise ConflictError(
                f'concurrent changes of "{self.given.table.text}" made all {CONTENTION.times} attempts of this statement fail',
                hint="nothing was changed; try again, or with fewer concurrent writers",
                position=position_of(self.given.sql, self.given.table),
            )
        CONTENTION.wait(self.lost)


def _bind(
    context: Context, given: statement.Delete | statement.Update, catalog: CatalogSnapshot, wall: int
) -> BoundModification:
    name = given.table.text
    relation = catalog.relation(name)
    context.table(name, position_of(given.sql, given.table))  # refuses what is no table
    if not isinstance(relation, Relation):
        raise ConflictError(f'"{name}" was replaced while the statement began', hint="try again")
    shard, schema = catalog.tables[name]

    def default(place: int) -> Expr:
        return default_of(context, shard, schema.columns[place])

    try:
        change = bind_change(given, relation, default, wall)
    except PlanError as error:
        raise UnsupportedError(
            f"{error.construct or error.message} is not supported in {type(given).__name__.upper()}",
            hint="rows are chosen and changed one by one: by expressions of their own columns",
            position=error.position,
        ) from None
    return BoundModification(given, shard, schema, change, wall)


def _tried(context: Context, bound: BoundModification, found: Snapshot, tries: _Tries) -> Result | None:
    """Does it, following what others do meanwhile; None if all must be read again."""
    read, upper = bound.change.read, found.state.upper
    now = resolve_now(bound.wall, [found.state], context.config, temporal=read.mfp.is_temporal)
    question = ScanRequest(
        found, read.mfp.at(now).optimise(), read.names, ResultShape(), now, context.config, tries.watch
    )
    columns, scan = _picked(question)
    while True:
        block = _exchange(bound, columns)
        moved = _appended(question, bound, block, upper) if len(block) else None
        if moved is None:
            said = f"{type(bound.given).__name__.upper()} {len(columns[0])}"
            path: Path = "local" if scan.parts_read else "metadata"
            return Result((), (), (), path, scan, said)
        if moved.news is None:
            return None
        tries.again()
        columns, upper = _followed(question, columns, moved.news), moved.upper


def _picked(question: ScanRequest) -> tuple[list[pa.Array], ScanMetrics]:
    """The rows to change, each as often as it occurs: all columns, then the new values."""
    pruned = prune(question.snapshot, question.plan, question.now, use=question.config.stats_filter)
    scan = ScanMetrics(parts_total=pruned.total, bytes_total=pruned.size)
    pieces: list[list[pa.Array]] = [[pa.array([], type_.arrow) for type_ in question.plan.types]]
    size = 0
    for columns, _ in local.stream(question, pruned, scan):
        pieces.append(columns)
        size += _checked_size(question, columns, size)
    audit_parts(question, pruned, scan)
    return [pa.concat_arrays(piece) for piece in zip(*pieces, strict=True)], scan


def _checked_size(question: ScanRequest, columns: list[pa.Array], before: int = 0) -> int:
    """The bytes of these columns, if there may be so many more."""
    size: int = sum(column.nbytes for column in columns)
    limit = min(question.config.max_result_bytes, LARGEST)
    if before + size > limit:
        raise LimitError(
            f"the rows to be changed have more than {limit} bytes",
            hint="change fewer at once, by a narrower WHERE, or SET max_result_bytes; nothing was changed",
        )
    return size


def _exchange(bound: BoundModification, columns: list[pa.Array]) -> Block:
    """The updates to append: rows that go, rows that come, equal rows as one; times are set later."""
    width, places = len(bound.schema.columns), bound.change.places
    times, ones = np.zeros(len(columns[0]), np.int64), np.ones(len(columns[0]), np.int64)
    blocks = [Block(columns[:width], times, -ones)]
    if isinstance(bound.given, statement.Update):
        after = columns[:width]
        for place, values in zip(places, columns[width:], strict=True):
            after[place] = values
        _check_nulls(bound, bound.given, columns[:width], after)
        blocks.append(Block(conform(bound.schema, after), times, ones))
    return consolidate(concat(blocks), by_time=False)


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


def _appended(question: ScanRequest, bound: BoundModification, block: Block, upper: int) -> _Moved | None:
    """Appends, if nothing that matters has changed since `upper`; else nothing, and what has."""
    shard, token = bound.shard, secrets.token_hex(16)
    stamped = replace(block, times=np.full(len(block), max(question.now, upper), np.int64))
    with shard.writing() as written:
        for part in shard.write(question.snapshot.state, bound.schema, stamped):
            question.cancel.check()
            written.append(part)
        while True:
            question.cancel.check()
            try:
                check = partial(_unchanged, upper, bound.schema.id, question.snapshot.state.repaired)
                shard.commit(written, at=None, token=token, check=check)
                return None
            except PartSwept:
                moved = _Moved(upper)
            except _Moved as error:
                moved = error
                moved.news = _news(question, bound, upper, moved.upper)
            if moved.news is None or len(moved.news):
                shard.discard(written)
                return moved
            upper = moved.upper


def _unchanged(upper: int, schema: int, repaired: int, state: State) -> None:
    if (state.upper, state.schema.id, state.repaired) != (upper, schema, repaired):
        raise _Moved(state.upper)


def _news(question: ScanRequest, bound: BoundModification, lower: int, upper: int) -> Block | None:
    """The rows others appended that pass or fail the filter; None if following is not exact."""
    snapshot, plan, schema = question.snapshot, question.plan, bound.schema
    exact = all(plan.inputs[i].identity_is_equality for i in support(*plan.conditions))
    followed = exact and not bound.change.read.mfp.is_temporal and snapshot.validity is None
    if not followed or lower == upper:  # the latter if only the columns are others
        return None
    filtering = SafePlan(plan.project(()))
    pieces = [
        Block([pa.array([], t.arrow) for t in plan.inputs], np.zeros(0, np.int64), np.zeros(0, np.int64))
    ]
    size = 0
    try:
        with open_changes(bound.shard, lower, upper, repaired=snapshot.state.repaired) as changes:
            if changes.schema.id != schema.id:
                return None
            for block in changes.rows([column.id for column in schema.columns]):
                question.cancel.check()
                got = filtering.evaluate(block.columns, len(block), question.now)
                pieces.append(block.take(np.union1d(got.selection, got.failures.rows).astype(np.int64)))
                size += _checked_size(question, pieces[-1].columns, size)
    except TimeError:
        return None  # these times can no longer be told apart
    return concat(pieces)


def _followed(question: ScanRequest, columns: list[pa.Array], news: Block) -> list[pa.Array]:
    """What leaves the plan after what others did: our rows and theirs, added up."""
    names = [column.name for column in question.snapshot.schema.columns]
    ours = np.ones(len(columns[0]), np.int64)
    there = consolidate_rows(concat([Block(columns[: len(names)], ours, ours), news]), names)
    rows = repeat_rows(there)
    _checked_size(question, rows)
    got = SafePlan(question.plan).evaluate(rows, int(there.diffs.sum()), question.now)
    if len(got.failures):
        raise row_error(got.failures, question.snapshot.labels, rows)
    return got.columns
