"""What a table is joined with is computed first: its keys then prune the table's parts.

    MERGE INTO orders t USING (SELECT id, max(price) AS price FROM changes GROUP BY id) AS s ON t.id = s.id …

The source runs by itself, on the engine that suits it, and its rows stand in the query in its place: `held_keys.py` of
`query/relational` takes the keys from there. That is not done where the source is larger than the table, whose keys rather prune
the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from tidegate.plan import logical
from tidegate.query import Result, ScanMetrics
from tidegate.query.relational import PinnedQuery, RelationalScan

MIN_BYTES = 1 << 20
"""Sources of fewer bytes are computed first in any case."""


def with_source_rows(
    pinned: PinnedQuery, run: Callable[[PinnedQuery], Result]
) -> tuple[PinnedQuery, Result | None]:
    """The query with the rows of its source in place of it, and the result that they come from."""
    commons, join = _join_of_target(pinned.query.rel)
    if join is None:
        return pinned, None
    source = join.right if _is_target(join.left) else join.left
    columns = logical.output_columns(source)
    scans = {id(scan.scan): scan for scan in pinned.scans}
    own = [scans[id(node)] for node in logical.walk(source) if isinstance(node, logical.Scan)]
    if not columns or logical.outer_columns(source) or not _is_smaller(own, pinned):
        return pinned, None
    if any(common.is_volatile for common in commons):
        return pinned, None
    rel = source
    for common in reversed(commons):
        rel = replace(common, input=rel)
    query = logical.LogicalQuery(rel, ("",) * len(columns), columns, pinned.query.count)
    needed = {id(node) for node in logical.walk(rel)}
    first = replace(
        pinned, query=query, scans=tuple(scan for scan in pinned.scans if id(scan.scan) in needed)
    )
    result = run(first)
    arrays = tuple(_column(result, i) for i in range(len(columns)))
    rows = logical.ConstantRows(columns, (), arrays)
    left = replace(pinned.query, rel=_replaced(pinned.query.rel, source, rows))
    kept = {id(node) for node in logical.walk(left.rel)}
    # Scans of common tables are read in both: once more for what else asks for them.
    others = tuple(
        replace(scan, cost=ScanMetrics()) if id(scan.scan) in needed else scan
        for scan in pinned.scans
        if id(scan.scan) in kept
    )
    return replace(pinned, query=left, scans=others), result


def _column(result: Result, i: int) -> pa.Array:
    column = result.columns[i]
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_smaller(own: list[RelationalScan], pinned: PinnedQuery) -> bool:
    """Whether the source reads less than the table."""
    size = sum(scan.planned.bytes for scan in own)
    target = sum(scan.planned.bytes for scan in pinned.scans if scan.scan.address)
    return size <= max(target, MIN_BYTES)


def _is_target(rel: logical.Rel) -> bool:
    return any(isinstance(node, logical.Scan) and node.address for node in logical.walk(rel))


def _join_of_target(rel: logical.Rel) -> tuple[list[logical.Common], logical.Join | None]:
    """The outermost join that has the table on one side, and the definitions around it."""
    commons: list[logical.Common] = []
    for node in _downwards(rel):
        if isinstance(node, logical.Common):
            commons.append(node)
        if isinstance(node, logical.Join):
            lateral = node.lateral or _is_target(node.left) == _is_target(node.right)
            return commons, None if lateral else node
    return commons, None


def _downwards(rel: logical.Rel) -> Iterator[logical.Rel]:
    while True:
        yield rel
        match rel:
            case (
                logical.Filter()
                | logical.Map()
                | logical.SubqueryApply()
                | logical.Window()
                | logical.Common()
            ):
                rel = rel.input
            case _:
                return


def _replaced(rel: logical.Rel, old: logical.Rel, new: logical.Rel) -> logical.Rel:
    """The tree with another node in place of one; all else stays the same object."""
    if rel is old:
        return new
    below = logical.inputs(rel)
    changed = tuple(_replaced(one, old, new) for one in below)
    if all(a is b for a, b in zip(below, changed, strict=True)):
        return rel
    return logical.with_inputs(rel, changed)
