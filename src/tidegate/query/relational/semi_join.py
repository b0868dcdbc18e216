"""Semi-join reduction: keys of a small side of a join prune the parts of the other side.

    orders JOIN customers ON orders.customer = customers.id        40 rows of customers pass its own filter

    customers is read first, here: ids 7 … 9,310
    orders    gets  customer >= 7 AND customer <= 9310 AND customer IN (7, 12, …)

The join itself stays as it is; these conditions are added. That is sound where a row without a match is dropped in any case: under
an inner join, on the side of an outer join that is filled with NULLs, under IN and EXISTS; and only if between the join and the
scan there is no window, limit or set operation, which would notice missing rows (`drops`).

Scans are taken from the smallest on: a scan that a reduction makes small can reduce others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Call, Column, Expr, Kind, Literal, Type, build, tree, types
from tidegate.metrics import Metrics
from tidegate.plan import equi_join_keys, logical, whole_condition_subqueries
from tidegate.query.relational.scans import RelationalScan
from tidegate.text import plural

MAX_SOURCE_BYTES = 1 << 20
"""Scans of fewer bytes are read first, for their keys."""
MAX_LISTED_KEYS = 1_000
"""Up to this many distinct keys become a list; more become only a range."""
KEY_KINDS = (
    Kind.INT2, Kind.INT4, Kind.INT8, Kind.NUMERIC, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.UUID,
)  # fmt: skip


def reduce_scans(query: logical.LogicalQuery, scans: Sequence[RelationalScan], metrics: Metrics) -> None:
    """Adds conditions to the scans of a query from the keys of its small scans."""
    of_column = {column.index: scan for scan in scans for column in scan.scan.columns}
    pairs = [
        (source, target)
        for source, target in _pairs(query.rel)
        if source.index in of_column and target.index in of_column
        and _comparable(source.type, target.type) is not None
    ]  # fmt: skip
    done: set[int] = set()
    while True:
        ready = [
            scan for scan in scans
            if id(scan) not in done and scan.planned.bytes < MAX_SOURCE_BYTES
            and any(of_column[source.index] is scan for source, _ in pairs)
        ]  # fmt: skip
        if not ready:
            return
        smallest = min(ready, key=lambda scan: scan.planned.bytes)
        done.add(id(smallest))
        for source, target in pairs:
            other = of_column[target.index]
            if (
                of_column[source.index] is smallest
                and other is not smallest
                and other.planned.bytes
                and not other.is_read
            ):
                _narrow(smallest, source, other, target, metrics)


def _narrow(
    scan: RelationalScan, source: Column, other: RelationalScan, target: Column, metrics: Metrics
) -> None:
    """Adds the keys of `scan` as conditions to the other scan."""
    leaving = [column.index for column in scan.scan.leaving()]
    if source.index not in leaving:
        return
    common = _comparable(source.type, target.type)
    assert common is not None
    keys = scan.table().column(leaving.index(source.index)).cast(common.arrow)
    position = [column.index for column in other.scan.columns].index(target.index)
    before = other.planned.pruned.left
    own: Expr = Column(position, target.type, target.name)
    own = own if target.type == common else build.cast(own, common)
    other.narrow(*conditions(keys, own))
    after = other.planned.pruned.left
    metrics.add("join_reductions")
    metrics.add("join_reduction_parts", before - after)
    other.notes.append(
        f"reduced by {scan.scan.source}.{source.name}: {before - after:,} of {plural(before, 'part')} pruned"
    )


def _comparable(one: Type, other: Type) -> Type | None:
    """The type in which keys are compared: integers in the wider one; None if they are not used."""
    if one.is_integer and other.is_integer:
        return one if one.arrow.bit_width >= other.arrow.bit_width else other
    return one if one == other and one.kind in KEY_KINDS else None


def conditions(keys: pa.ChunkedArray | pa.Array, column: Expr, most: int = MAX_LISTED_KEYS) -> list[Expr]:
    """Returns conditions that every row with one of these keys passes; up to `most` keys are listed."""
    distinct = pc.unique(keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys)
    if isinstance(distinct, pa.ChunkedArray):
        distinct = distinct.combine_chunks()
    values = distinct.drop_null()
    if not len(values):
        return [tree.FALSE]
    plain = values.cast(pa.binary()) if column.type.kind is Kind.UUID else values
    order = pc.sort_indices(plain)
    low, high = values[order[0].as_py()], values[order[-1].as_py()]
    bounds = [
        build.call(">=", column, Literal(low, column.type)),
        build.call("<=", column, Literal(high, column.type)),
    ]
    if 1 < len(values) <= most:
        offsets = pa.array([0, len(values)], pa.int32())
        array = pa.ListArray.from_arrays(offsets, values).cast(pa.list_(column.type.arrow))
        keys_list = Literal(array[0], types.array(column.type))
        bounds.append(build.call("in", column, keys_list))
    return bounds


# ---------------------------------------------------------------- which columns reduce which


def _equal_columns(on: Sequence[Expr]) -> list[tuple[Column, Column]]:
    """The pairs of columns that must be equal; integers of two sizes may be: `a.id::int8 = b.id`."""
    return equi_join_keys([tree.rewrite(condition, _without_widening) for condition in on])


def _without_widening(node: Expr) -> Expr:
    if isinstance(node, Call) and node.function.name == "=":
        return Call(node.function, tuple(map(_narrow_integer, node.args)), node.type)
    return node


def _narrow_integer(side: Expr) -> Expr:
    if not isinstance(side, Call) or side.function.name != "cast" or not side.type.is_integer:
        return side
    inner = side.args[0]
    widens = isinstance(inner, Column) and inner.type.is_integer
    return inner if widens and inner.type.arrow.bit_width <= side.type.arrow.bit_width else side


def _pairs(root: logical.Rel) -> Iterator[tuple[Column, Column]]:
    """Yields (source, target): only target rows whose value occurs in the source column can matter."""
    for rel in logical.walk(root):
        if isinstance(rel, logical.Join):
            left, right = set(logical.output_columns(rel.left)), set(logical.output_columns(rel.right))
            for a, b in _equal_columns(rel.on):
                one, other = (a, b) if a in left and b in right else (b, a)
                if one not in left or other not in right:
                    continue
                if rel.kind in ("inner", "left") and drops(rel.right, other):
                    yield one, other
                if rel.kind in ("inner", "right") and drops(rel.left, one):
                    yield other, one
        elif isinstance(rel, logical.Filter) and isinstance(rel.input, logical.SubqueryApply):
            for index, look in whole_condition_subqueries(rel, rel.input).items():
                whole = any(isinstance(c, Column) and c.index == index for c in rel.conditions)
                yield from _looked(rel.input, look, positive=whole)


def _looked(
    ask: logical.SubqueryApply, look: logical.Subquery, *, positive: bool
) -> Iterator[tuple[Column, Column]]:
    """Yields the pairs of IN and EXISTS: outer and inner column, each of which reduces the other."""
    inner = list(_equal_columns(look.tests)) if look.kind == "any" else _correlated(look.query)
    outside, inside = (
        set(logical.output_columns(ask.input)),
        {c for rel in logical.walk(look.query) for c in logical.output_columns(rel)},
    )
    for a, b in inner:
        outer, own = (a, b) if a in outside else (b, a)
        if outer not in outside or own not in inside:
            continue
        if positive and drops(ask.input, outer):
            yield own, outer
        if (positive or look.kind == "exists") and drops(look.query, own):
            yield outer, own


def _correlated(rel: logical.Rel) -> list[tuple[Column, Column]]:
    """The equi_join_keys at the top of a subquery."""
    while isinstance(rel, logical.Map | logical.Distinct) or (
        isinstance(rel, logical.Sort) and rel.limit is None and not rel.offset
    ):
        rel = rel.input
    if isinstance(rel, logical.Join) and rel.kind == "inner":
        return _equal_columns(rel.on)
    return _equal_columns(rel.conditions) if isinstance(rel, logical.Filter) else []


def drops(rel: logical.Rel, column: Column) -> bool:
    """Whether rows that are dropped above by this column's value may be left out in its scan already."""
    match rel:
        case logical.Scan():
            return column in rel.columns
        case (
            logical.Filter()
            | logical.Map()
            | logical.SubqueryApply()
            | logical.Distinct()
            | logical.TableFunctionApply()
        ):
            return drops(rel.input, column)
        case logical.Sort():
            return rel.limit is None and not rel.offset and drops(rel.input, column)
        case logical.Join():
            left = rel.kind in ("inner", "left") and drops(rel.left, column)
            return left or (rel.kind in ("inner", "right") and drops(rel.right, column))
        case logical.Group():
            return (
                not rel.sets
                and any(key == column == value for key, value in rel.keys)
                and drops(rel.input, column)
            )
        case _:
            return False
