"""Runs DELETE and UPDATE: binds them, finds their rows, and tries again if others were faster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import ConflictError, PlanError, UnsupportedError
from tidegate.expr.model import Expr, Type
from tidegate.query import CancelToken, Path, Result, ResultShape, ScanMetrics, ScanRequest
from tidegate.query.prune import PruneResult, prune
from tidegate.sql.bind import Relation, bind_change
from tidegate.sql.changes import needs_query
from tidegate.sql.parse import statement
from tidegate.statements.insert import default_of
from tidegate.statements.modify.by_position import modify_by_position
from tidegate.statements.modify.by_value import modify_by_value
from tidegate.statements.modify.change import BoundModification, Modification
from tidegate.statements.modify.concurrency import Attempts
from tidegate.statements.modify.general import bind_modification, modify_general
from tidegate.statements.pinned import Pinned, pinned
from tidegate.statements.select import columns_of
from tidegate.storage.shard import Snapshot, resolve_now


def bind_returning(context: Context, given: Modification) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """Binds a statement without running it: the columns of RETURNING, None without it."""
    catalog, wall = CatalogSnapshot(context), context.clock.now()
    if isinstance(given, statement.Update | statement.Delete) and not needs_query(given):
        _bind(context, given, catalog, wall)
        return None
    if isinstance(given, statement.Insert) and not needs_query(given):
        if given.query is not None:
            columns_of(given.query, catalog, wall)
        return None
    changes = bind_modification(context, given, catalog, wall).changes
    types = tuple(column.type for column in changes.columns.returning)
    return (changes.bound.names, types) if types else None


def modify(context: Context, given: Modification, watch: CancelToken | None = None) -> Result:
    """Runs the statement; the result says how many rows, as psql does."""
    attempts = Attempts(given, watch or CancelToken(context.config.statement_timeout_ms))
    if isinstance(given, statement.Insert | statement.Merge) or needs_query(given):
        return modify_general(context, given, attempts)
    while True:
        with pinned_change(context, given) as found:
            result = _attempt(context, found.query, found.snapshots[given.table.text], attempts)
        if result is not None:
            return result
        attempts.again()


def pinned_change(
    context: Context, given: statement.Delete | statement.Update
) -> AbstractContextManager[Pinned[BoundModification]]:
    """DELETE or UPDATE, bound, with the snapshot of its table pinned."""
    return pinned(context, partial(_bind, context, given), lambda _: [given.table.text])


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


def deletes_by_position(question: ScanRequest, pruned: PruneResult) -> bool:
    """Whether rows are deleted where they are, or else by retractions.

    Rows that are still to meet their retractions have no positions of their own.
    """
    return question.config.delete_by_position and not pruned.retracts


def _attempt(
    context: Context, bound: BoundModification, found: Snapshot, attempts: Attempts
) -> Result | None:
    """Does it, following what others do meanwhile; None if all must be read again."""
    read = bound.change.read
    now = resolve_now(bound.wall, [found.state], context.config, temporal=read.mfp.is_temporal)
    question = ScanRequest(
        found, read.mfp.at(now).optimise(), read.names, ResultShape(), now, context.config, attempts.watch
    )
    pruned = prune(found, question.plan, now, use=question.config.stats_filter)
    scan = ScanMetrics(parts_total=pruned.total, bytes_total=pruned.size)
    way = modify_by_position if deletes_by_position(question, pruned) else modify_by_value
    rows = way(question, bound, pruned, scan, attempts)
    if rows is None:
        return None
    path: Path = "local" if scan.parts_read else "metadata"
    return Result((), (), (), path, scan, f"{bound.verb} {rows}")
