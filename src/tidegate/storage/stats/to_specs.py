"""From facts to Specs: what a column may be in each container, as the interpreter wants it.

Wherever a fact is null the Specs allow anything: NULL, NaN, months, every lane, unbounded. That no value
can occur is concluded from counts alone (`nulls == rows`), and of JSON keys from their lanes (none) or from
closed maps that do not list them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import NO, YES, JsonDomain, JsonRange, Specs
from tidegate.expr.model import Kind, Type, to_bools, types
from tidegate.expr.primitives import bytes_and_offsets
from tidegate.storage.stats.columns import ANY_LANE, CLOSED_BIT, STORED, WHOLE_BIT, FactPath
from tidegate.storage.stats.json import model as lane
from tidegate.storage.stats.model import Form, form_of

WIDEST_SCALE = 19
"""Digits after the point beside which 38 digits hold any integer."""


class FactReader(Protocol):
    """A frame, as it is read here."""

    @property
    def rows(self) -> np.ndarray:
        """How many rows each container has."""

    def fact(self, fact: str, node: FactPath) -> pa.Array | None:
        """A fact of a node, null where it is not known; None if no container knows it."""

    def keys(self, node: FactPath) -> list[str]:
        """The JSON keys below a node."""


def describe(source: FactReader, id_: int, type_: Type, absent: np.ndarray | None = None) -> Specs:
    """The Specs of a column. `absent`: where the rows lack the column, and so are NULL."""
    nulls = source.fact("nulls", (id_,))
    known, count = _counts(nulls, len(source.rows))
    null, empty = ~known | (count > 0), known & (count == source.rows)
    if absent is not None and absent.any():
        null, empty = null | absent, empty | absent
    return _node(source, (id_,), type_, _short(null), _short(empty))


def _short(flags: np.ndarray) -> np.ndarray:
    """One flag for all containers where it is the same in all of them."""
    return flags[:1] if len(flags) and (flags == flags[0]).all() else flags


def _node(source: FactReader, node: FactPath, type_: Type, null: np.ndarray, empty: np.ndarray) -> Specs:
    match form_of(type_):
        case Form.JSON:
            lanes = _lanes(source, node, len(source.rows))
            return Specs.ranged(types.JSONB, None, None, null=null, empty=empty, json=lanes)
        case Form.RECORD:
            fields = tuple(_inside(source, (*node, i), inner) for i, (_, inner) in enumerate(type_.fields))
            return Specs.ranged(type_, None, None, null=null, empty=empty, fields=fields)
        case Form.ARRAY:
            assert type_.element is not None
            element = _inside(source, (*node, None), type_.element)
            return Specs.ranged(type_, None, None, null=null, empty=empty, element=element)
        case _:
            return _plain(source, node, type_, null, empty)


def _plain(source: FactReader, node: FactPath, type_: Type, null: np.ndarray, empty: np.ndarray) -> Specs:
    low, high = (_bound(source, fact, node, type_) for fact in ("low", "high"))
    nan = _flag(source, "nan", node) if type_.is_float else None
    months = _flag(source, "months", node) if type_.kind is Kind.INTERVAL else None
    return Specs.ranged(type_, low, high, null=null, empty=empty, nan=nan, months=months)


def _inside(source: FactReader, node: FactPath, type_: Type) -> Specs:
    """A field of records, or the elements of arrays: they have row counts of their own."""
    n = len(source.rows)
    known, count = _counts(source.fact("nulls", node), n)
    sized, rows = _counts(source.fact("rows", node), n)
    return _node(source, node, type_, _short(~known | (count > 0)), _short(known & sized & (count == rows)))


def _counts(fact: pa.Array | None, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a count is known, and the counts."""
    if fact is None:
        return np.zeros(n, bool), np.zeros(n, np.int64)
    if not fact.null_count:
        return np.ones(n, bool), fact.to_numpy()
    return to_bools(fact.is_valid()), pc.fill_null(fact, 0).to_numpy()


def _flag(source: FactReader, fact: str, node: FactPath) -> np.ndarray:
    found = source.fact(fact, node)
    return YES if found is None else to_bools(pc.fill_null(found, True))


def _bound(source: FactReader, fact: str, node: FactPath, type_: Type) -> pa.Array | None:
    """A bound in the column's type; None if no container has it, or its form differs from the type's."""
    found = source.fact(fact, node)
    if found is not None and found.type == STORED[Form.INTEGER] and type_.kind is Kind.NUMERIC:
        return _widened(found, type_.arrow)
    if found is None or found.type != STORED[form_of(type_)]:
        return None
    arrow = type_.arrow
    if found.type == arrow:
        return found
    if pa.types.is_decimal(arrow):
        return _as_decimal(found, arrow)
    if pa.types.is_temporal(arrow):
        return found.cast(pa.int32()).view(arrow) if pa.types.is_date32(arrow) else found.view(arrow)
    return _padded(found, arrow) if pa.types.is_fixed_size_binary(arrow) else found.cast(arrow)


def _widened(bound: pa.Array, arrow: pa.DataType) -> pa.Array | None:
    """Bounds of integers in a column that is numeric by now."""
    if arrow.scale > WIDEST_SCALE:
        return None
    return bound.cast(pa.decimal128(38, arrow.scale)).cast(arrow)


def _padded(bound: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Bounds of uuids, padded with zeros where trimming has shortened them."""
    data, offsets = bytes_and_offsets(bound)
    sizes = np.diff(offsets)
    raw = np.zeros((len(bound), arrow.byte_width), np.uint8)
    for i in range(arrow.byte_width):
        there = sizes > i
        raw[there, i] = data[offsets[:-1][there] + i]
    whole = pa.Array.from_buffers(arrow, len(bound), [None, pa.py_buffer(raw.tobytes())])
    return pc.if_else(bound.is_valid(), whole, pa.scalar(None, arrow)) if bound.null_count else whole


def _as_decimal(unscaled: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Unscaled integers as decimals of a scale, without a copy."""
    return pa.Array.from_buffers(
        arrow, len(unscaled), unscaled.buffers(), unscaled.null_count, unscaled.offset
    )


def _lanes(source: FactReader, node: FactPath, n: int) -> JsonDomain:
    found = source.fact("lanes", node)
    if found is None:
        bits = np.full(min(n, 1), ANY_LANE, np.uint16)
    else:
        bits = _short((pc.fill_null(found, ANY_LANE) if found.null_count else found).to_numpy())
    flags = [(bits >> np.uint16(kind)) & np.uint16(1) == 1 for kind in range(CLOSED_BIT + 1)]
    closed = flags[CLOSED_BIT]
    number_low, number_high = (source.fact(f"number_{side}", node) for side in ("low", "high"))
    text_low, text_high = (source.fact(f"text_{side}", node) for side in ("low", "high"))
    numbers = [
        None if bound is None else _as_decimal(bound, types.NUMERIC.arrow)
        for bound in (number_low, number_high)
    ]
    return JsonDomain(
        null=flags[lane.NULL],
        true=flags[lane.TRUE],
        false=flags[lane.FALSE],
        number=JsonRange(flags[lane.NUMBER], numbers[0], numbers[1], whole=flags[WHOLE_BIT]),
        text=JsonRange(flags[lane.TEXT], text_low, text_high),
        list=flags[lane.LIST],
        map=flags[lane.MAP],
        keys={name: _key(source, (*node, name), closed) for name in source.keys(node)},
        closed=closed,
    )


def _key(source: FactReader, node: FactPath, closed: np.ndarray) -> Specs:
    """The Specs of a key. Without facts it is absent if maps are closed, otherwise anything."""
    n = len(source.rows)
    known, lacking = _counts(source.fact("nulls", node), n)
    lanes = source.fact("lanes", node)
    listed = np.zeros(n, bool) if lanes is None else to_bools(lanes.is_valid())
    nothing = (
        NO
        if lanes is None
        else to_bools(pc.equal(pc.bit_wise_and(lanes, pa.scalar(ANY_LANE, lanes.type)), 0))
    )
    null, empty = _short(~known | (lacking > 0)), _short(np.where(listed, nothing, closed))
    return Specs.ranged(types.JSONB, None, None, null=null, empty=empty, json=_lanes(source, node, n))
