"""SELECT: bind, pin a snapshot (`pinned.py`), choose a path, run. EXPLAIN does the same.

    SELECT id FROM orders WHERE price > 5 AS OF 1719792000000

Whether a query is a plan over one collection is asked of its tree (`sql/prepared.py`); the others are in `general.py`.

A result whose rows are not all read yet (`query/row_stream.py`) keeps its snapshot, and releases it when its last row is read,
when it fails or is closed, or when Python collects it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import astuple
from functools import partial

from tidegate.context import Context
from tidegate.expr.model import Type
from tidegate.plan import BoundQuery
from tidegate.query import (
    CancelToken,
    OrderBy,
    Result,
    ResultShape,
    ScanRequest,
    answer,
    interruptible,
)
from tidegate.query.aggregate import streaming as aggregate
from tidegate.query.embedded import groups_embedded
from tidegate.query.paths import local
from tidegate.query.prune import prune
from tidegate.sql import prepare
from tidegate.sql.bind import RelationCatalog
from tidegate.sql.parse import syntax
from tidegate.statements.general import select_general
from tidegate.statements.pinned import PinnedSelect, pinned_select
from tidegate.storage.shard import Snapshot


def names_of(parsed: syntax.Query | str, seen: RelationCatalog, now_ms: int) -> tuple[str, ...]:
    """The columns of a query of any shape; an error if it means nothing."""
    return columns_of(parsed, seen, now_ms)[0]


def columns_of(
    parsed: syntax.Query | str, seen: RelationCatalog, now_ms: int
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """The names and types of its columns."""
    found = prepare(parsed, seen, now_ms)
    return found.names, found.types


def select(
    context: Context, parsed: syntax.Query, as_of: int | None, watch: CancelToken | None = None
) -> Result:
    """Runs a query: here if it reads rows or groups of one collection, else on an engine (`general.py`)."""
    watch = watch or CancelToken(context.config.statement_timeout_ms)
    with interruptible(watch), ExitStack() as stack:
        query = stack.enter_context(pinned_select(context, parsed, as_of, watch.check))
        result = run_pinned(context, query, watch)
        if query.snapshots:
            result.when_over(partial(_unpin, stack.pop_all()))
        return result


def run_pinned(context: Context, query: PinnedSelect, watch: CancelToken) -> Result:
    """Runs a query whose snapshots stay pinned until its last row is read."""
    single = query.prepared.single
    if single is None:
        return select_general(context, query, watch)
    if query.snapshot is None:
        return run_without_from(single, query.now)
    request = question_of(context, single, query.snapshot, query.now, watch)
    return select_general(context, query, watch) if groups_on_engine(query, request) else answer(request)


def groups_on_engine(query: PinnedSelect, request: ScanRequest) -> bool:
    """Whether groups of one collection are made by the embedded engine."""
    if request.aggregation is None or query.prepared.tree.refusal is not None:
        return False
    pruned = prune(request.snapshot, request.plan, request.now, use=request.config.stats_filter)
    return groups_embedded(request, pruned)


def _unpin(stack: ExitStack, error: BaseException | None) -> None:
    del error
    stack.close()


def question_of(
    context: Context, bound: BoundQuery, found: Snapshot, now: int, watch: CancelToken | None = None
) -> ScanRequest:
    """A bound query over a snapshot."""
    watch = watch or CancelToken(context.config.statement_timeout_ms)
    plan = bound.plan(now)
    aggregation = None if bound.aggregation is None else bound.aggregation.at(now)
    shape = shape_of(bound)
    return ScanRequest(
        found, plan, bound.names, shape, now, context.config, watch, context.peek_slots, aggregation
    )


def run_without_from(bound: BoundQuery, now: int) -> Result:
    """Runs a query without FROM."""
    if bound.aggregation is not None:
        return aggregate.once(bound.mfp, bound.aggregation, bound.names, shape_of(bound), now)
    return local.once(bound.mfp, bound.names, shape_of(bound), now)


def shape_of(bound: BoundQuery) -> ResultShape:
    """What a query does with all rows together."""
    return ResultShape(tuple(OrderBy(*astuple(key)) for key in bound.order_by), bound.limit, bound.offset)
