"""SELECT: bind, pin a snapshot (`pinned.py`), choose a path, run. EXPLAIN does the same.

    SELECT id FROM orders WHERE price > 5 AS OF 1719792000000

Joins, windows, subqueries and set operations are in `general.py`.

A result whose rows are not all read yet (`query/row_stream.py`) keeps its snapshot, and releases it when its last row is read,
when it fails or is closed, or when Python collects it.

`mz_now()` is the time that is read: AS OF, or without it the wall clock, but never before the last committed time. `now()` is
always the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from functools import partial

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import PlanError
from tidegate.expr.model import Type
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
from tidegate.sql.bind import BoundQuery, RelationCatalog, bind_general, bind_query
from tidegate.sql.parse import syntax
from tidegate.statements.general import select_general
from tidegate.statements.pinned import pinned
from tidegate.storage.shard import Snapshot, resolve_now


@dataclass(frozen=True)
class PinnedSelect:
    """A query of one collection, bound and with its snapshot pinned."""

    bound: BoundQuery
    snapshot: Snapshot | None
    """None: the query has no FROM."""
    now: int
    """The value of `mz_now()`."""


def names_of(parsed: syntax.Query | str, seen: RelationCatalog, now_ms: int) -> tuple[str, ...]:
    """The columns of a query of any shape; an error if it means nothing."""
    return columns_of(parsed, seen, now_ms)[0]


def columns_of(
    parsed: syntax.Query | str, seen: RelationCatalog, now_ms: int
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """The names and types of its columns."""
    try:
        bound = bind_query(parsed, seen, now_ms)
        return bound.names, bound.types
    except PlanError:
        found = bind_general(parsed, seen, now_ms)
        return found.names, tuple(column.type for column in found.columns)


def select(
    context: Context, parsed: syntax.Query, as_of: int | None, watch: CancelToken | None = None
) -> Result:
    """Runs a query: here if it reads rows or groups of one collection, else on an engine (`general.py`)."""
    watch = watch or CancelToken(context.config.statement_timeout_ms)
    with interruptible(watch), ExitStack() as stack:
        query = stack.enter_context(pinned_select(context, parsed, as_of, watch.check))
        if isinstance(query, PlanError):
            return select_general(context, parsed, as_of, watch)
        if query.snapshot is None:
            return run_without_from(query.bound, query.now)
        request = question_of(context, query.bound, query.snapshot, query.now, watch)
        if groups_on_engine(request):
            stack.close()
            return select_general(context, parsed, as_of, watch)
        result = answer(request)
        result.when_over(partial(_unpin, stack.pop_all()))
        return result


def groups_on_engine(request: ScanRequest) -> bool:
    """Whether groups of one collection are made by the embedded engine."""
    if request.aggregation is None:
        return False
    pruned = prune(request.snapshot, request.plan, request.now, use=request.config.stats_filter)
    return groups_embedded(request, pruned)


def _unpin(stack: ExitStack, error: BaseException | None) -> None:
    del error
    stack.close()


@contextmanager
def pinned_select(
    context: Context, parsed: syntax.Query, as_of: int | None, check: Callable[[], None] | None = None
) -> Iterator[PinnedSelect | PlanError]:
    """Binds a query of one collection and pins its snapshot; `check` ends the wait for one.

    A query that is more than that is the `PlanError` of binding, as a value: an error while reading is never taken for it.
    """

    def bind(catalog: CatalogSnapshot, wall: int) -> BoundQuery | PlanError:
        try:
            return context.prepared.bound(parsed, catalog, wall)
        except PlanError as error:
            return error.with_traceback(None)

    with pinned(context, bind, _sources, as_of, check=check) as found:
        bound = found.query
        if isinstance(bound, PlanError):
            yield bound
        elif bound.source is None:
            yield PinnedSelect(bound, None, found.wall if as_of is None else as_of)
        else:
            held = found.snapshots[bound.source]
            now = _present(context, bound, held, found.wall) if as_of is None else as_of
            yield PinnedSelect(bound, held, now)


def _sources(bound: BoundQuery | PlanError) -> list[str]:
    return [] if isinstance(bound, PlanError) or bound.source is None else [bound.source]


def _present(context: Context, bound: BoundQuery, held: Snapshot, wall: int) -> int:
    above = None if bound.aggregation is None else bound.aggregation.above
    temporal = bound.mfp.is_temporal or (above is not None and above.is_temporal)
    return resolve_now(wall, [held.state], context.config, temporal=temporal)


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
