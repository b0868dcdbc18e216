"""SELECT: bind, pin a snapshot, run. EXPLAIN (`explain.py`) goes the same way.

    SELECT id FROM orders WHERE price > 5 AS OF 1719792000000

Binding needs the collection's columns, and reading pins a state of the shard; between the two an ALTER TABLE may come. So the
snapshot's schema is compared with the one that was bound, and the query bound again if it is another.

What is more than an MFP or one aggregation of one collection (joins, windows, subqueries, set operations) is run by Spark: whoever
opened the database said how (`Lake.spark`), so that nothing here imports it.

A result that is not complete yet (`scan/stream.py`) keeps its snapshot, and gives it back when its last row is read, when it fails
or is closed, or when Python collects it.

`mz_now()` is the time that is read: AS OF, or without it the wall clock, but never before the last time that is committed. `now()`
is always the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import astuple
from functools import partial
from typing import TypeVar

from tidegate.errors import PlanError, TidegateError, UnsupportedError
from tidegate.expr.types import Type
from tidegate.scan import aggregate, local
from tidegate.scan.answer import answer
from tidegate.scan.question import Question
from tidegate.scan.result import Result
from tidegate.scan.sort import OrderBy, Shape
from tidegate.scan.watch import Watch, listening
from tidegate.session.lake import Beyond, Lake, Seen
from tidegate.shard.reader import Snapshot, snapshot
from tidegate.shard.times import present
from tidegate.sql import bind, syntax
from tidegate.sql.bind import BoundQuery
from tidegate.sql.catalog import Catalog

T = TypeVar("T")
REBINDS = 10


def bound_query(lake: Lake, parsed: syntax.Query | str, seen: Seen, now_ms: int) -> BoundQuery:
    """Binds a query of rows or groups of one collection; a PlanError if it is more."""
    return lake.prepared.bound(parsed, seen, now_ms)


def names_of(parsed: syntax.Query | str, seen: Catalog, now_ms: int) -> tuple[str, ...]:
    """The columns of a query of any shape; an error if it means nothing."""
    return columns_of(parsed, seen, now_ms)[0]


def columns_of(
    parsed: syntax.Query | str, seen: Catalog, now_ms: int
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """The names and types of its columns."""
    try:
        bound = bind.query(parsed, seen, now_ms)
        return bound.names, bound.types
    except PlanError:
        from tidegate.sql.split_query import general  # not for queries of one collection, and slow to import

        found = general(parsed, seen, now_ms)
        return found.names, tuple(column.type for column in found.columns)


def select(lake: Lake, parsed: syntax.Query, as_of: int | None, watch: Watch | None = None) -> Result:
    """Runs a query: here, if it is rows or groups of one collection, else on Spark."""
    watch = watch or Watch(lake.config.statement_timeout_ms)
    with listening(watch):
        try:
            bound, found, now = _pinned(lake, parsed, as_of, watch.check)
        except PlanError as error:
            return on_spark(lake, error).select(lake, parsed, as_of, watch)
        if found is None:
            return once(bound, now)
        with ExitStack() as stack:
            stack.enter_context(found)
            result = answer(question_of(lake, bound, found, now, watch))
            result.when_over(partial(_unpin, stack.pop_all()))
            return result


def _unpin(stack: ExitStack, error: BaseException | None) -> None:
    del error
    stack.close()


def on_spark(lake: Lake, error: PlanError) -> Beyond:
    """Who runs a query for which there is no plan of one collection."""
    if lake.spark is None:
        what = error.construct or error.message
        raise UnsupportedError(
            f"{what} needs Spark", hint="pip install 'tidegate[spark]'", position=error.position
        ) from None
    return lake.spark


def reading(
    lake: Lake,
    parsed: syntax.Query,
    as_of: int | None,
    read: Callable[[BoundQuery, Snapshot, int], T],
    once: Callable[[BoundQuery, int], T],
    check: Callable[[], None] | None = None,
) -> T:
    """Binds, pins a snapshot that fits, and reads; `check` ends the wait for one."""
    bound, found, now = _pinned(lake, parsed, as_of, check)
    if found is None:
        return once(bound, now)
    with found:
        return read(bound, found, now)


def _pinned(
    lake: Lake, parsed: syntax.Query, as_of: int | None, check: Callable[[], None] | None
) -> tuple[BoundQuery, Snapshot | None, int]:
    """A query as it is bound, a snapshot whose columns are those it was bound with (None: it reads none), and the time."""
    for _ in range(REBINDS):
        wall = lake.clock.now()
        seen = Seen(lake)
        bound = bound_query(lake, parsed, seen, wall)
        if bound.source is None:
            return bound, None, wall if as_of is None else as_of
        shard, schema = seen.tables[bound.source]
        found = snapshot(shard, as_of, timeout_ms=lake.config.as_of_timeout_ms, check=check)
        if found.schema.id == schema.id:
            return bound, found, _present(lake, bound, found, wall) if as_of is None else as_of
        found.close()
    raise TidegateError("the collection's columns change faster than they can be read", hint="try again")


def _present(lake: Lake, bound: BoundQuery, found: Snapshot, wall: int) -> int:
    above = None if bound.aggregation is None else bound.aggregation.above
    temporal = bound.mfp.is_temporal or (above is not None and above.is_temporal)
    return present(wall, [found.state], lake.config, temporal=temporal)


def question_of(
    lake: Lake, bound: BoundQuery, found: Snapshot, now: int, watch: Watch | None = None
) -> Question:
    """A bound query over a snapshot."""
    watch = watch or Watch(lake.config.statement_timeout_ms)
    plan = bound.plan(now)
    aggregation = None if bound.aggregation is None else bound.aggregation.at(now)
    shape = shape_of(bound)
    return Question(found, plan, bound.names, shape, now, lake.config, watch, lake.turns, aggregation)


def once(bound: BoundQuery, now: int) -> Result:
    """Runs a query without FROM."""
    if bound.aggregation is not None:
        return aggregate.once(bound.mfp, bound.aggregation, bound.names, shape_of(bound), now)
    return local.once(bound.mfp, bound.names, shape_of(bound), now)


def shape_of(bound: BoundQuery) -> Shape:
    """What a query does with all rows together."""
    return Shape(tuple(OrderBy(*astuple(key)) for key in bound.order_by), bound.limit, bound.offset)
