"""SELECT, and EXPLAIN of it: bind, pin a snapshot, run.

    SELECT id FROM orders WHERE price > 5 AS OF 1719792000000

Binding needs the collection's columns, and reading pins a state of the shard; between the two an ALTER TABLE may come. So the
snapshot's schema is compared with the one that was bound, and the query bound again if it is another.

`mz_now()` is the time that is read: AS OF, or without it the wall clock, but never before the last time that is committed. `now()`
is always the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import TypeVar

from tidegate.errors import PlanError, TidegateError, UnsupportedError
from tidegate.scan import local
from tidegate.scan.answer import answer
from tidegate.scan.prune import Pruned, prune
from tidegate.scan.question import Question
from tidegate.scan.result import Result
from tidegate.scan.sort import OrderBy, Shape
from tidegate.scan.watch import Watch
from tidegate.session.lake import Lake, Seen
from tidegate.shard.reader import Snapshot, snapshot
from tidegate.sql import bind, syntax
from tidegate.sql.bind import BoundQuery

T = TypeVar("T")
REBINDS = 10
EXPLAINED = 5
"""Parts of which EXPLAIN says why they are read."""


def bound_query(lake: Lake, parsed: syntax.Query | str, seen: Seen, now_ms: int) -> BoundQuery:
    """Binds a query; what is not row by row is refused as what it is: good, and not done yet."""
    try:
        return bind.query(parsed, seen, now_ms)
    except PlanError as error:
        raise UnsupportedError(
            f"{error.construct or error.message} is not supported yet",
            hint="so far a query reads one collection row by row: expressions, WHERE, ORDER BY, LIMIT; the rest comes with Spark",
            position=error.position,
        ) from None


def select(lake: Lake, parsed: syntax.Query, as_of: int | None) -> Result:
    """Runs a query."""

    def read(bound: BoundQuery, found: Snapshot, now: int) -> Result:
        watch = Watch(lake.config.statement_timeout_ms)
        plan = bound.mfp.at(now).optimise()
        return answer(Question(found, plan, bound.names, shape_of(bound), now, lake.config, watch))

    return _reading(lake, parsed, as_of, read, _once)


def explain(lake: Lake, parsed: syntax.Query, as_of: int | None, *, analyze: bool) -> Result:
    """What a query would do, and with `analyze` what it did."""

    def read(bound: BoundQuery, found: Snapshot, now: int) -> list[str]:
        plan = bound.mfp.at(now).optimise()
        columns = [found.schema.columns[i].name for i in sorted(plan.demand())]
        pruned = prune(found, plan, now, use=lake.config.stats_filter)
        lines = [f"Read {bound.source} as of {found.as_of}, mz_now() = {now}"]
        lines.append(f"  columns: {', '.join(columns) or 'none'}")
        lines += _plan_lines(plan.show(), bound)
        return lines + _part_lines(pruned, filtered=lake.config.stats_filter)

    def once(bound: BoundQuery, now: int) -> list[str]:
        return ["One row, nothing is read", *_plan_lines(bound.mfp.at(now).optimise().show(), bound)]

    lines = _reading(lake, parsed, as_of, read, once)
    if analyze:
        result = select(lake, parsed, as_of)
        scan = result.scan
        lines.append(
            f"Answered from {result.path}: {len(result)} rows; {scan.parts_read} of {scan.parts_total} parts, "
            f"{scan.bytes_read} of {scan.bytes_total} bytes, {scan.rows_read} rows read"
        )
    return Result.done("\n".join(lines))


def _reading(
    lake: Lake,
    parsed: syntax.Query,
    as_of: int | None,
    read: Callable[[BoundQuery, Snapshot, int], T],
    once: Callable[[BoundQuery, int], T],
) -> T:
    """Binds, pins a snapshot that fits, and reads."""
    for _ in range(REBINDS):
        wall = lake.clock.now()
        seen = Seen(lake)
        bound = bound_query(lake, parsed, seen, wall)
        if bound.source is None:
            return once(bound, wall if as_of is None else as_of)
        shard, schema = seen.tables[bound.source]
        with snapshot(shard, as_of) as found:
            if found.schema.id == schema.id:
                now = max(wall, found.state.upper - 1) if as_of is None else as_of
                return read(bound, found, now)
    raise TidegateError("the collection's columns change faster than they can be read", hint="try again")


def _once(bound: BoundQuery, now: int) -> Result:
    return local.once(bound.mfp, bound.names, shape_of(bound), now)


def shape_of(bound: BoundQuery) -> Shape:
    """What a query does with all rows together."""
    return Shape(tuple(OrderBy(*astuple(key)) for key in bound.order_by), bound.limit, bound.offset)


def _plan_lines(plan: str, bound: BoundQuery) -> list[str]:
    lines = [f"  {line}" for line in plan.split("\n")]
    if bound.order_by:
        keys = (f"#{key.column}{' desc' if key.descending else ''}" for key in bound.order_by)
        lines.append(f"  Order by {', '.join(keys)}")
    if bound.limit is not None:
        lines.append(f"  Limit {bound.limit}")
    if bound.offset:
        lines.append(f"  Offset {bound.offset}")
    return lines


def _part_lines(pruned: Pruned, *, filtered: bool) -> list[str]:
    size = sum(part.size for part in pruned.parts)
    lines = [f"Parts: {len(pruned.parts)} of {pruned.total} kept, {size} of {pruned.size} bytes"]
    if not filtered:
        lines.append("  all are read: stats_filter is off")
    elif pruned.verdicts is None and pruned.retracts:
        lines.append(
            "  all are read: rows are retracted, and the filter reads floats or intervals, or there is none"
        )
    elif pruned.verdicts is not None:
        for i, part in enumerate(pruned.parts[:EXPLAINED]):
            verdict, why = pruned.why(i)
            lines.append(f"  {part.name} ({verdict}):")
            lines += [f"    {line}" for line in why]
        if len(pruned.parts) > EXPLAINED:
            lines.append(f"  … and {len(pruned.parts) - EXPLAINED} more")
    return lines
