"""Changes rows that a query of any shape finds: MERGE, UPDATE … FROM, ON CONFLICT, RETURNING.

    MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)

    read     t and s at one snapshot each: s first, whose ids prune the parts of t
    append   one entry: positions of t are deleted, new rows are inserted

The query (`sql/changes`) runs on the embedded engine, its source on whichever engine suits it. What is committed, and what
others do meanwhile, is as for every other UPDATE (`commit.py`, `concurrency.py`). If rows have no positions, they are retracted by
value; then any change of the table by others makes it begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import pyarrow as pa

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import ConflictError
from tidegate.expr.model import Expr
from tidegate.plan import logical
from tidegate.query import Result, ResultShape, ScanMetrics, ScanRequest
from tidegate.query.embedded import run_embedded
from tidegate.query.relational import PinnedQuery, RelationalScan, total_cost
from tidegate.sql import PreparedQuery
from tidegate.sql.bind import Relation
from tidegate.sql.changes import (
    ChangeQuery,
    ChangeTarget,
    bind_insert,
    bind_merge,
    bind_update,
    needs_query,
)
from tidegate.sql.lower import single_collection, uses_now
from tidegate.sql.parse import statement
from tidegate.statements.general import run_general
from tidegate.statements.insert import append_rows, default_of
from tidegate.statements.modify.by_value import commit_retractions
from tidegate.statements.modify.change import ChangedTable, Modification
from tidegate.statements.modify.collected import CollectedRows, collect
from tidegate.statements.modify.commit import commit_rows
from tidegate.statements.modify.concurrency import Attempts
from tidegate.statements.modify.source_rows import with_source_rows
from tidegate.statements.pinned import Pinned, PinnedSelect, pinned
from tidegate.statements.select import run_pinned
from tidegate.statements.tables.keys import primary_key
from tidegate.storage.part import Schema
from tidegate.storage.shard import Shard, resolve_now


@dataclass(frozen=True)
class BoundModificationQuery:
    """A statement that changes rows, bound to its query."""

    given: Modification
    shard: Shard
    schema: Schema
    changes: ChangeQuery

    @property
    def verb(self) -> str:
        """INSERT, UPDATE, DELETE or MERGE."""
        return type(self.given).__name__.upper()

    @property
    def is_located(self) -> bool:
        """Whether rows of the table are read, which may then be changed."""
        return bool(self.changes.columns.address)

    def sources(self) -> list[str]:
        """The collections that it reads."""
        return [scan.source for scan in self.changes.bound.scans()]


def modify_general(context: Context, given: Modification, attempts: Attempts) -> Result:
    """Runs the statement, until nobody was faster."""
    while True:
        with pinned(
            context, partial(bind_modification, context, given), BoundModificationQuery.sources
        ) as found:
            attempt = _LocatedAttempt if found.query.is_located else _InsertAttempt
            result = attempt(context, found, attempts).result()
        if result is not None:
            return result
        attempts.again()


def is_general(given: statement.Statement) -> TypeGuard[Modification]:
    """Whether a statement changes rows that only a query finds."""
    match given:
        case statement.Insert() | statement.Update() | statement.Delete() | statement.Merge():
            return needs_query(given)
        case _:
            return False


def bind_modification(
    context: Context, given: Modification, catalog: CatalogSnapshot, wall: int
) -> BoundModificationQuery:
    """Binds a statement to its query."""
    name = given.table.text
    relation = catalog.relation(name)
    context.table(name, position_of(given.sql, given.table))  # refuses what is no table
    if not isinstance(relation, Relation):
        raise ConflictError(f'"{name}" was replaced while the statement began', hint="try again")
    shard, schema = catalog.tables[name]

    def default(place: int) -> Expr:
        return default_of(context, shard, schema.columns[place])

    declared = primary_key(schema, shard.machine.cached_state().options)
    key = () if declared is None else tuple(column.name for column in declared.columns)
    target = ChangeTarget(relation, default, key)
    if isinstance(given, statement.Insert):
        changes = bind_insert(given, target, catalog, wall)
    elif isinstance(given, statement.Merge):
        changes = bind_merge(given, target, catalog, wall)
    else:
        changes = bind_update(given, target, catalog, wall)
    return BoundModificationQuery(given, shard, schema, changes)


class Attempt:
    """One attempt of a statement."""

    def __init__(self, context: Context, found: Pinned[BoundModificationQuery], attempts: Attempts) -> None:
        self.context, self.found, self.attempts = context, found, attempts
        self.bound, self.watch = found.query, attempts.watch
        states = [held.state for held in found.snapshots.values()]
        self.is_temporal = uses_now(self.bound.changes.bound.rel)
        self.now = resolve_now(found.wall, states, context.config, temporal=self.is_temporal)

    def finished(self, done: CollectedRows, scan: ScanMetrics, ran: Result) -> Result:
        """The result of the statement: how many rows, and those of RETURNING."""
        bound, rows = self.bound, done.modification.rows
        said = f"INSERT 0 {rows}" if bound.verb == "INSERT" else f"{bound.verb} {rows}"
        returning = bound.changes.columns.returning
        names, types = bound.changes.bound.names, [column.type for column in returning]
        arrays = [pa.chunked_array([a], t.arrow) for a, t in zip(done.returning, types, strict=True)]
        scan.rows_returned = rows if returning else 0
        if not returning:
            return Result((), (), (), ran.path, scan, said)
        return Result(names, types, arrays, ran.path, scan, tag=said)


class _InsertAttempt(Attempt):
    """INSERT … RETURNING, which reads no row of its table."""

    def result(self) -> Result | None:
        """Appends the rows."""
        tree, columns = self.bound.changes.query(with_before=False)
        query = PinnedSelect(PreparedQuery(tree, single_collection(tree)), self.found.snapshots, self.now)
        ran = run_pinned(self.context, query, self.watch)
        bound = self.bound
        done = collect(ran, columns, bound.changes, bound.schema, self.context.config, bound.verb)
        if done.modification.inserted:
            (block,) = done.modification.inserted
            if not append_rows(bound.shard, bound.schema, block.columns):
                return None
        return self.finished(done, ran.scan, ran)


class _LocatedAttempt(Attempt):
    """A statement that may change rows of the table."""

    def result(self) -> Result | None:
        """Runs the query and commits; None if others were faster."""
        table = self.found.snapshots[self.bound.given.table.text]
        by_value = self._is_by_value()
        with_before = by_value or "update" in self.bound.changes.actions
        tree, columns = self.bound.changes.query(with_before=with_before)
        plan = self._pinned(PreparedQuery(tree, None).lowered, by_value=by_value)
        plan, source = with_source_rows(plan, partial(run_general, self.context, watch=self.watch))
        ran = run_embedded(plan, self.watch)
        bound = self.bound
        done = collect(ran, columns, bound.changes, bound.schema, self.context.config, bound.verb)
        cost = ran.scan if source is None else total_cost([source.scan, ran.scan])
        scan = _target_scan(plan)
        request = ScanRequest(
            table, scan.planned.plan, (), ResultShape(), self.now, self.context.config, self.watch
        )
        return self.finished(done, cost, ran) if self._commit(request, done) else None

    def _commit(self, request: ScanRequest, done: CollectedRows) -> bool:
        bound, change = self.bound, done.modification
        reads = bound.sources().count(bound.given.table.text)
        changed = ChangedTable(bound.shard, bound.schema, follows=reads == 1 and not self.is_temporal)
        if done.retracted:
            return commit_retractions(request, changed, done.retracted, change.inserted)
        if not change.deleted and not change.inserted:
            return True
        return commit_rows(request, changed, change, self.attempts)

    def _is_by_value(self) -> bool:
        """Whether rows have no positions: retractions are still to meet them."""
        tree, _ = self.bound.changes.query(with_before=True)
        scan = _target_scan(self._pinned(PreparedQuery(tree, None).lowered, by_value=True))
        return not self.context.config.delete_by_position or scan.planned.pruned.retracts

    def _pinned(self, lowered: logical.LogicalQuery, *, by_value: bool) -> PinnedQuery:
        config, snapshots = self.context.config, self.found.snapshots
        scans = tuple(
            RelationalScan(config, scan, snapshots[scan.source], self.now, self.watch, by_value=by_value)
            for scan in lowered.scans()
        )
        return PinnedQuery(lowered, scans, self.now, config, self.context.metrics)


def _target_scan(plan: PinnedQuery) -> RelationalScan:
    return next(scan for scan in plan.scans if scan.scan.address)
