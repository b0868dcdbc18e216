"""Keys of rows that are in memory prune the parts of the scans that they are joined with.

    MERGE INTO orders t USING (VALUES (7, 1.5), (12, 3)) AS s (id, price) ON t.id = s.id

The source was computed before, and orders gets `id >= 7 AND id <= 12 AND id IN (7, 12)`. As in `semi_join.py` the join itself stays
as it is. Either side of the equality may be an expression, `t.id = s.id::int8`, as long as that of the table cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Call, Column, Expr, permute, subexpressions, support, walk
from tidegate.metrics import Metrics
from tidegate.plan import logical
from tidegate.query.relational.scans import RelationalScan
from tidegate.query.relational.semi_join import KEY_KINDS, conditions, drops
from tidegate.text import plural

MAX_HELD_KEYS = 100_000
"""Up to this many distinct keys become a list; more become only a range."""


def reduce_by_held_keys(
    query: logical.LogicalQuery, scans: Sequence[RelationalScan], metrics: Metrics
) -> None:
    """Adds conditions to scans from the keys of rows that are held."""
    of_column = {column.index: scan for scan in scans for column in scan.scan.columns}
    held = [
        rel
        for rel in logical.walk(query.rel)
        if isinstance(rel, logical.ConstantRows) and rel.arrays is not None
    ]
    for rows in held:
        for mine, theirs in _equalities(query.rel, rows):
            owners = {id(of_column[i]): of_column[i] for i in support(theirs) if i in of_column}
            if len(owners) != 1 or not support(theirs) <= of_column.keys():
                continue
            (scan,) = owners.values()
            keys = None if scan.is_read else _values(mine, rows)
            if keys is not None:
                _narrow(scan, theirs, keys, metrics)


def _narrow(scan: RelationalScan, theirs: Expr, keys: pa.Array, metrics: Metrics) -> None:
    places = {column.index: i for i, column in enumerate(scan.scan.columns)}
    before = scan.planned.pruned.left
    scan.narrow(*conditions(keys, permute(theirs, places), MAX_HELD_KEYS))
    after = scan.planned.pruned.left
    metrics.add("join_reductions")
    metrics.add("join_reduction_parts", before - after)
    scan.notes.append(
        f"reduced by the rows to be merged: {before - after:,} of {plural(before, 'part')} pruned"
    )


def _values(expr: Expr, rows: logical.ConstantRows) -> pa.Array | None:
    """The values of an expression over rows that are held; None if it fails for one."""
    assert rows.arrays is not None
    place = {column.index: i for i, column in enumerate(rows.columns)}
    outcome = evaluate(permute(expr, place), list(rows.arrays), len(rows.arrays[0]))
    if outcome.errors is not None and outcome.errors.null_count < len(outcome.errors):
        return None
    return outcome.values


def _equalities(root: logical.Rel, rows: logical.ConstantRows) -> Iterator[tuple[Expr, Expr]]:
    """Yields (held, other): only rows whose `other` is among the values of `held` can matter."""
    own = {column.index for column in rows.columns}
    for rel in logical.walk(root):
        if not isinstance(rel, logical.Join):
            continue
        sides = [(rel.left, rel.right, ("inner", "left")), (rel.right, rel.left, ("inner", "right"))]
        for here, other, kinds in sides:
            if rel.kind not in kinds or not own <= {c.index for c in logical.output_columns(here)}:
                continue
            for condition in rel.on:
                yield from _sides(condition, own, other)


def _sides(condition: Expr, own: set[int], other: logical.Rel) -> Iterator[tuple[Expr, Expr]]:
    if not isinstance(condition, Call) or condition.function.name != "=":
        return
    beside = {column.index for column in logical.output_columns(other)}
    for mine, theirs in (condition.args, condition.args[::-1]):
        fits = support(mine) and support(mine) <= own and support(theirs) and support(theirs) <= beside
        same = mine.type == theirs.type and mine.type.kind in KEY_KINDS
        fixed = not subexpressions.volatile_calls(mine) and not subexpressions.volatile_calls(theirs)
        if not fits or not same or not fixed or subexpressions.may_fail(theirs):
            continue
        if all(drops(other, node) for node in walk(theirs) if isinstance(node, Column)):
            yield mine, theirs
