"""Semi-join reduction: the keys of a small side of a join are conditions for the other side, whose parts they prune.

    orders JOIN customers ON orders.customer = customers.id        of customers 40 rows are left after its own filter

    customers is read first, here: ids 7 … 9,310
    orders    gets  customer >= 7 AND customer <= 9310 AND customer IN (7, 12, …)

Only copies are made: the join itself still decides. That is sound wherever a row without a pair is dropped in any case: under an
inner join, on the side of an outer join that is filled with NULLs, under IN and EXISTS; and only if between the join and the scan
there is no window, no limit and no set operation, which would see that rows are missing (`_drops`).

Scans are taken from the smallest on: what a reduction leaves small can reduce others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import build
from tidegate.expr.tree import FALSE, Column, Expr, Literal
from tidegate.expr.types import Kind, array
from tidegate.spark.arrow import from_spark
from tidegate.spark.query_scan import LITTLE, Reading
from tidegate.spark.query_text import direct_looks
from tidegate.sql.split import (
    Ask,
    Distinct,
    Filter,
    General,
    Group,
    Join,
    Look,
    Map,
    Rel,
    Scan,
    Sorted,
    columns_of,
    every,
)  # fmt: skip
from tidegate.sql.split_push import equalities

FEW = 1_000
"""Different keys up to which they are listed; more are a range."""
_KEYS = (
    Kind.INT2, Kind.INT4, Kind.INT8, Kind.NUMERIC, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.UUID,
)  # fmt: skip


def reduced(query: General, readings: Sequence[Reading]) -> None:
    """Narrows the scans of a query by each other."""
    of_column = {column.index: reading for reading in readings for column in reading.scan.columns}
    pairs = [
        (source, target)
        for source, target in _pairs(query.rel)
        if source.index in of_column and target.index in of_column
        and source.type == target.type and source.type.kind in _KEYS
    ]  # fmt: skip
    done: set[int] = set()
    while True:
        ready = [
            r for r in readings
            if id(r) not in done and r.bytes < LITTLE and any(of_column[s.index] is r for s, _ in pairs)
        ]  # fmt: skip
        if not ready:
            return
        reading = min(ready, key=lambda one: one.bytes)
        done.add(id(reading))
        for source, target in pairs:
            other = of_column[target.index]
            if (
                of_column[source.index] is reading
                and other is not reading
                and other.bytes
                and not other.table
            ):
                _narrow(reading, source, other, target)


def _narrow(reading: Reading, source: Column, other: Reading, target: Column) -> None:
    leaving = [column.index for column in reading.scan.leaving()]
    if source.index not in leaving:
        return
    keys = reading.read_here().column(leaving.index(source.index))
    place = [column.index for column in other.scan.columns].index(target.index)
    before = other.found.left
    other.narrow(*conditions(keys, Column(place, target.type, target.name)))
    after = other.found.left
    metrics = reading.lake.metrics
    metrics.add("join_reductions")
    metrics.add("join_reduction_parts", before - after)
    other.because.append(
        f"reduced by {reading.scan.source}.{source.name}: {before - after:,} of {before:,} parts left out"
    )


def conditions(keys: pa.ChunkedArray, column: Column) -> list[Expr]:
    """What a column must be to be equal to one of these values."""
    distinct = pc.unique(keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys)
    if isinstance(distinct, pa.ChunkedArray):
        distinct = distinct.combine_chunks()
    values = from_spark(distinct, column.type).drop_null()
    if not len(values):
        return [FALSE]
    plain = values.cast(pa.binary()) if column.type.kind is Kind.UUID else values
    order = pc.sort_indices(plain)
    low, high = values[order[0].as_py()], values[order[-1].as_py()]
    found = [
        build.call(">=", column, Literal(low, column.type)),
        build.call("<=", column, Literal(high, column.type)),
    ]
    if 1 < len(values) <= FEW:
        listed = Literal(pa.scalar(values.to_pylist(), pa.list_(column.type.arrow)), array(column.type))
        found.append(build.call("in", column, listed))
    return found


# ---------------------------------------------------------------- which columns reduce which


def _pairs(root: Rel) -> Iterator[tuple[Column, Column]]:
    """A column, and another of which only rows with a value of the first can matter."""
    for rel in every(root):
        if isinstance(rel, Join):
            left, right = set(columns_of(rel.left)), set(columns_of(rel.right))
            for a, b in equalities(rel.on):
                one, other = (a, b) if a in left and b in right else (b, a)
                if one not in left or other not in right:
                    continue
                if rel.kind in ("inner", "left") and _drops(rel.right, other):
                    yield one, other
                if rel.kind in ("inner", "right") and _drops(rel.left, one):
                    yield other, one
        elif isinstance(rel, Filter) and isinstance(rel.input, Ask):
            for index, look in direct_looks(rel, rel.input).items():
                whole = any(isinstance(c, Column) and c.index == index for c in rel.conditions)
                yield from _looked(rel.input, look, positive=whole)


def _looked(ask: Ask, look: Look, *, positive: bool) -> Iterator[tuple[Column, Column]]:
    """Of IN and EXISTS: the outer column and the inner one, each of which reduces the other."""
    inner = list(equalities(look.tests)) if look.kind == "any" else _correlated(look.query)
    outside, inside = set(columns_of(ask.input)), {c for rel in every(look.query) for c in columns_of(rel)}
    for a, b in inner:
        outer, own = (a, b) if a in outside else (b, a)
        if outer not in outside or own not in inside:
            continue
        if positive and _drops(ask.input, outer):
            yield own, outer
        if (positive or look.kind == "exists") and _drops(look.query, own):
            yield outer, own


def _correlated(rel: Rel) -> list[tuple[Column, Column]]:
    """The equalities at the top of a subquery."""
    while isinstance(rel, Map | Distinct) or (
        isinstance(rel, Sorted) and rel.limit is None and not rel.offset
    ):
        rel = rel.input
    if isinstance(rel, Join) and rel.kind == "inner":
        return equalities(rel.on)
    return equalities(rel.conditions) if isinstance(rel, Filter) else []


def _drops(rel: Rel, column: Column) -> bool:
    """Whether rows of the scan that has this column may be left out below, if they are dropped by its value above."""
    match rel:
        case Scan():
            return column in rel.columns
        case Filter() | Map() | Ask() | Distinct():
            return _drops(rel.input, column)
        case Sorted():
            return rel.limit is None and not rel.offset and _drops(rel.input, column)
        case Join():
            left = rel.kind in ("inner", "left") and _drops(rel.left, column)
            return left or (rel.kind in ("inner", "right") and _drops(rel.right, column))
        case Group():
            return (
                not rel.sets
                and any(key == column == value for key, value in rel.keys)
                and _drops(rel.input, column)
            )
        case _:
            return False
