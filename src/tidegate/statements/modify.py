"""DELETE and UPDATE: a snapshot says which rows, and one append takes them out, and for UPDATE puts others in.

    UPDATE t SET n = n + 1 WHERE id > 5

    read     at upper - 1: (6, 1) twice, (7, 4) once; parts that hold no id above 5 are not read
    append   at one time: (6, 1) -2, (7, 4) -1, (6, 2) +2, (7, 5) +1

What was there before can still be read AS OF before. A row that the filter or an assignment fails on fails the statement, and then
nothing is changed; a row whose new values are its old ones is counted, and nothing is written for it.

**Nothing is lost and nothing is done twice**, whoever else changes the table meanwhile. The append's entry is only made if the
table's `upper` is still the one that was read: so what was read is what is there. If others were faster, what they changed
is read, and put through the filter:

| meanwhile, somebody | `UPDATE t SET n = n + 1 WHERE id > 5` |
|---|---|
| inserts (3, 0) | nothing passes: ours are still the rows to be changed, and are appended behind it |
| inserts (8, 0), or updates (6, 1) too | what passes is added to our rows, whose diffs say what is left of them; then again |
| adds a column | all is bound and read again |
| compacts | nothing was changed |

All is read again, too, where following is not exact: if the filter reads floats or intervals (`scan/prune.py` says why), or
`mz_now()`, or rows end by themselves. Between two attempts a random while passes. One of those who compete always wins, so together
they come to an end. A statement that lost `ATTEMPTS` times is a `ConflictError`.
"""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.errors import ConflictError, LimitError, PlanError, TidegateError, TimeError, UnsupportedError
from tidegate.expr.tree import Expr, support
from tidegate.plan.safe import Failures, SafePlan
from tidegate.scan import local
from tidegate.scan.audit import audited
from tidegate.scan.failed import failed
from tidegate.scan.prune import prune
from tidegate.scan.question import Question
from tidegate.scan.result import Path, Result, Scan
from tidegate.scan.sort import Shape
from tidegate.scan.watch import Watch
from tidegate.session.insert import default_of
from tidegate.session.lake import Lake, at, relation_of
from tidegate.shard.batch import conform
from tidegate.shard.merge import Block, concat, repeated, settled, summed
from tidegate.shard.reader import Snapshot, snapshot, updates
from tidegate.shard.schema import Schema
from tidegate.shard.state import State
from tidegate.shard.times import present
from tidegate.shard.validity import labels
from tidegate.shard.writer import PartSwept, Shard, schema_of
from tidegate.sql import assign
from tidegate.sql.bind import BoundQuery
from tidegate.sql.statement import Delete, Update

ATTEMPTS = 100
LONGEST_PAUSE_S = 0.25
LARGEST = 2**31 - 1
"""Bytes that a column of one batch can have, whatever `max_result_bytes` allows."""


@dataclass(frozen=True)
class _Bound:
    given: Delete | Update
    shard: Shard
    schema: Schema
    change: assign.BoundChange
    wall: int


class _Moved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this module
    """The table is not as it was read."""

    def __init__(self, upper: int) -> None:
        super().__init__("the table was changed meanwhile")
        self.upper = upper
        self.news: Block | None = None
        """What it is that concerns us; None: that takes reading all again."""


def plan(lake: Lake, given: Delete | Update) -> BoundQuery:
    """The query by which a statement finds its rows: what EXPLAIN shows. It leaves all columns, then the new values."""
    return _bound(lake, given).change.read


def modify(lake: Lake, given: Delete | Update, watch: Watch | None = None) -> Result:
    """Runs the statement; the result says how many rows, as psql does."""
    tries = _Tries(given, watch or Watch(lake.config.statement_timeout_ms))
    while True:
        bound = _bound(lake, given)
        with snapshot(bound.shard) as found:
            if found.schema.id == bound.schema.id:
                result = _tried(lake, bound, found, tries)
                if result is not None:
                    return result
        tries.again()


class _Tries:
    """How often it was tried; the time between two tries."""

    def __init__(self, given: Delete | Update, watch: Watch) -> None:
        self.given, self.watch, self.lost = given, watch, 0

    def again(self) -> None:
        """Somebody was faster: waits a random while, or gives up."""
        self.lost += 1
        self.watch.check()
        if self.lost >= ATTEMPTS:
            raise ConflictError(
                f'others changed "{self.given.table.text}" each of the {ATTEMPTS} times that this statement was about to',
                hint="nothing was changed; try again, or with fewer writers at once",
                position=at(self.given.sql, self.given.table),
            )
        time.sleep(random.uniform(0, min(0.002 * 2 ** min(self.lost, 10), LONGEST_PAUSE_S)))


def _bound(lake: Lake, given: Delete | Update) -> _Bound:
    shard = lake.table(given.table.text, at(given.sql, given.table))
    state = shard.machine.fetch()
    schema = schema_of(state)
    wall = lake.clock.now()

    def default(place: int) -> Expr:
        return default_of(lake, shard, schema.columns[place])

    try:
        change = assign.change(given, relation_of(given.table.text, schema, state.options), default, wall)
    except PlanError as error:
        raise UnsupportedError(
            f"{error.construct or error.message} is not supported in {type(given).__name__.upper()}",
            hint="rows are chosen and changed one by one: by expressions of their own columns",
            position=error.position,
        ) from None
    return _Bound(given, shard, schema, change, wall)


def _tried(lake: Lake, bound: _Bound, found: Snapshot, tries: _Tries) -> Result | None:
    """Does it, following what others do meanwhile; None if all must be read again."""
    read, upper = bound.change.read, found.state.upper
    now = present(bound.wall, [found.state], lake.config, temporal=read.mfp.is_temporal)
    question = Question(
        found, read.mfp.at(now).optimise(), read.names, Shape(), now, lake.config, tries.watch
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


def _picked(question: Question) -> tuple[list[pa.Array], Scan]:
    """What leaves the plan: all columns of the rows to be changed, each as often as it is there, then the new values."""
    pruned = prune(question.snapshot, question.plan, question.now, use=question.config.stats_filter)
    scan = Scan(parts_total=pruned.total, bytes_total=pruned.size)
    pieces: list[list[pa.Array]] = [[pa.array([], type_.arrow) for type_ in question.plan.types]]
    size = 0
    for columns, _ in local.stream(question, pruned, scan):
        pieces.append(columns)
        size += _checked_size(question, columns, size)
    audited(question, pruned, scan)
    return [pa.concat_arrays(piece) for piece in zip(*pieces, strict=True)], scan


def _checked_size(question: Question, columns: list[pa.Array], before: int = 0) -> int:
    """The bytes of these columns, if there may be so many more."""
    size: int = sum(column.nbytes for column in columns)
    limit = min(question.config.max_result_bytes, LARGEST)
    if before + size > limit:
        raise LimitError(
            f"the rows to be changed have more than {limit} bytes",
            hint="change fewer at once, by a narrower WHERE, or SET max_result_bytes; nothing was changed",
        )
    return size


def _exchange(bound: _Bound, columns: list[pa.Array]) -> Block:
    """What is to be appended: rows that go, rows that come, those of equal values as one; times are still to be set."""
    width, places = len(bound.schema.columns), bound.change.places
    times, ones = np.zeros(len(columns[0]), np.int64), np.ones(len(columns[0]), np.int64)
    blocks = [Block(columns[:width], times, -ones)]
    if isinstance(bound.given, Update):
        after = columns[:width]
        for place, values in zip(places, columns[width:], strict=True):
            after[place] = values
        _check_nulls(bound, bound.given, columns[:width], after)
        blocks.append(Block(conform(bound.schema, after), times, ones))
    return summed(concat(blocks), by_time=False)


def _check_nulls(bound: _Bound, given: Update, before: list[pa.Array], after: list[pa.Array]) -> None:
    """NOT NULL, with the row that would break it."""
    for place, (target, _) in zip(bound.change.places, given.assignments, strict=True):
        column = bound.schema.columns[place]
        if not column.nullable and after[place].null_count:
            row = np.flatnonzero(after[place].is_null().to_numpy(zero_copy_only=False))[:1]
            broken = f'null value in column "{column.name}" violates not-null constraint'
            names = labels(bound.schema, bound.shard.machine.known().options)
            error = failed(Failures(row, pa.array([broken])), names, before)
            error.position = at(given.sql, target)
            raise error


def _appended(question: Question, bound: _Bound, block: Block, upper: int) -> _Moved | None:
    """Appends, if nothing that matters has changed since `upper`; else nothing, and what has."""
    shard, token = bound.shard, secrets.token_hex(16)
    stamped = replace(block, times=np.full(len(block), max(question.now, upper), np.int64))
    with shard.writing() as written:
        for part in shard.write(question.snapshot.state, bound.schema, stamped):
            question.watch.check()
            written.append(part)
        while True:
            question.watch.check()
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
    if (state.upper, schema_of(state).id, state.repaired) != (upper, schema, repaired):
        raise _Moved(state.upper)


def _news(question: Question, bound: _Bound, lower: int, upper: int) -> Block | None:
    """Of what others appended at these times, the rows that pass the filter or fail in it; None if it does not tell all."""
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
        with updates(bound.shard, lower, upper, repaired=snapshot.state.repaired) as changes:
            if changes.schema.id != schema.id:
                return None
            for block in changes.rows([column.id for column in schema.columns]):
                question.watch.check()
                got = filtering.evaluate(block.columns, len(block), question.now)
                pieces.append(block.take(np.union1d(got.selection, got.failures.rows).astype(np.int64)))
                size += _checked_size(question, pieces[-1].columns, size)
    except TimeError:
        return None  # these times can no longer be told apart
    return concat(pieces)


def _followed(question: Question, columns: list[pa.Array], news: Block) -> list[pa.Array]:
    """What leaves the plan after what others did: our rows and theirs, added up."""
    names = [column.name for column in question.snapshot.schema.columns]
    ours = np.ones(len(columns[0]), np.int64)
    there = settled(concat([Block(columns[: len(names)], ours, ours), news]), names)
    rows = repeated(there)
    _checked_size(question, rows)
    got = SafePlan(question.plan).evaluate(rows, int(there.diffs.sum()), question.now)
    if len(got.failures):
        raise failed(got.failures, question.snapshot.labels, rows)
    return got.columns
