"""Counts JSON values by lane, for all stretches of a column at once.

A part with few documents is decoded in Python, exactly: all keys are visited, so its maps are *closed*. In a
larger one only the paths chosen by `paths.py` are read: in most documents by a template, in the others by
DuckDB, which extracts all paths after parsing a document once. The value of a path is its JSON text, and the
first letter gives the lane:

    "…   text      -0…9   number      t f n   true, false, null      [   list      {   map

Integers are cast together. Reals have passed through DuckDB's doubles and may be off by half of a last digit,
so their bounds are moved outwards by one. The bounds of strings are computed without copying them out of
their quotes: over the bytes `"a""bc"` we build a zero-copy view with 2n entries. Even entries are the strings
without their quotes; odd entries are the pairs of quotes in between, and are marked null.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import to_bools
from tidegate.expr.primitives import (
    KeyStep,
    canonical_json,
    duckdb_kernels,
    exact_json,
    json_path,
    sql_list,
)
from tidegate.storage.stats.accumulate import JsonTally
from tidegate.storage.stats.extremes import Bounds, count, decimals, extremes, one_by_one, valid_counts
from tidegate.storage.stats.json import model as lane
from tidegate.storage.stats.json.paths import MAX_DEPTH, plan
from tidegate.storage.stats.json.template import Template, reach, read
from tidegate.storage.stats.time_like import Place

MAX_PARSED_WHOLE = 128
"""If there are no more documents, all of them are decoded in Python."""
SAMPLE = 64
"""Documents that tell what to look at in a larger part."""
MOST_KEYS = 1000
SURELY_INT8 = 18
"""Digits (or a minus and digits) that fit 64 bits; a cast that fails for one row costs 0.4 µs for each."""
_BACKSLASH = ord("\\")
_EXACT = 2.0**53
_WIDE = Context(prec=60)
_LAST_DIGIT = Decimal(1).scaleb(-lane.SCALE)

_LANE_OF_LETTER = np.full(256, lane.NUMBER, np.int8)
for _letter, _kind in zip(
    b'ntf"[{', (lane.NULL, lane.TRUE, lane.FALSE, lane.TEXT, lane.LIST, lane.MAP), strict=True
):
    _LANE_OF_LETTER[_letter] = _kind


def tally_documents(
    documents: pa.Array, starts: np.ndarray, column: Place, keep: frozenset[Place]
) -> JsonTally:
    """The lanes of canonical JSON documents in each stretch; `column` is what they are called."""
    present = documents.drop_null()
    if len(present) <= MAX_PARSED_WHOLE:
        return _exactly(documents, starts)
    picked = present.take(pa.array(np.linspace(0, len(present) - 1, SAMPLE).astype(np.int64))).to_pylist()
    chosen = plan(picked, column, keep)
    paths = [path for path in chosen.paths if _readable(path)]
    if not paths:
        return tally_values(documents, starts)
    found, rest = _by_templates(present, paths, [(t, reach(picked, t)) for t in chosen.templates])
    others = present.take(pa.array(rest))
    if len(rest):
        found.append((rest, extract(others, paths)))
    if documents.null_count:
        rows = np.flatnonzero(to_bools(documents.is_valid()))
        found, rest = [(rows[at], columns) for at, columns in found], rows[rest]
    root = _roots(documents, rest, others, starts)
    for i, path in enumerate(paths):
        values = _assembled(len(documents), [(at, columns[i]) for at, columns in found])
        _put(root, path, tally_values(values, starts))
    return root


def _by_templates(
    documents: pa.Array, paths: list[Place], templates: list[tuple[Template, int]]
) -> tuple[list[tuple[np.ndarray, list[pa.Array]]], np.ndarray]:
    """Rows that fit a template, with the values of each path; and the rows that fit none."""
    found: list[tuple[np.ndarray, list[pa.Array]]] = []
    rest = np.arange(len(documents))
    for template, size in templates:
        left = documents if len(rest) == len(documents) else documents.take(pa.array(rest))
        values, passed = read(left, template, size)
        places = [template.place(path) for path in paths]
        nothing = pa.nulls(int(passed.sum()), pa.string())
        told = [nothing if place is None else values[place] for place in places]
        if passed.all():
            return [*found, (rest, told)], rest[:0]
        found.append((rest[passed], told))
        rest = rest[~passed]
    return found, rest


def _roots(documents: pa.Array, rest: np.ndarray, others: pa.Array, starts: np.ndarray) -> JsonTally:
    """The lanes of the documents themselves. What fits a template is a map; the others are looked at."""
    counts = np.zeros((len(lane.LANES), len(starts) - 1), np.int64)
    counts[lane.MAP] = valid_counts(documents, starts)
    if not len(rest):
        return JsonTally(counts, np.ones(len(starts) - 1, bool))
    root = tally_values(_assembled(len(documents), [(rest, others)]), starts)
    counts[lane.MAP] -= np.diff(np.searchsorted(rest, starts))
    root.counts[lane.MAP] += counts[lane.MAP]
    return root


def _assembled(n: int, pieces: list[tuple[np.ndarray, pa.Array]]) -> pa.Array:
    """The values of all pieces at their rows, null elsewhere."""
    if len(pieces) == 1 and len(pieces[0][0]) == n:
        return pieces[0][1]
    return canonical_json.scatter(n, *pieces)


def _readable(path: Place) -> bool:
    """Whether DuckDB can take out the path in one go, whatever is in the documents."""
    plan = json_path.segments(tuple(KeyStep(name) for name in path))
    return len(plan) == 1 and len(plan[0]) == 1 and "\0" not in plan[0][0]


def extract(documents: pa.Array, paths: Sequence[Place]) -> list[pa.Array]:
    """The JSON text at each path, null where there is none, after one parse."""
    asked = sql_list(json_path.segments(tuple(KeyStep(name) for name in path))[0][0] for path in paths)
    columns = ", ".join(f"x[{i + 1}] AS c{i}" for i in range(len(paths)))
    con = duckdb_kernels.duckdb_connection()
    con.register("documents", pa.table({"j": documents}))
    try:
        found = con.sql(
            f"SELECT {columns} FROM (SELECT json_extract(j, {asked})::VARCHAR[] AS x FROM documents)"
        )
        table = found.to_arrow_table()
    finally:
        con.unregister("documents")
    return [
        pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
        for column in table.columns
    ]


def _put(root: JsonTally, path: Place, leaf: JsonTally) -> None:
    """Adds the counts of a path to the tree. If every document has it, its parents are maps."""
    total = root.counts.sum(axis=0)
    every = leaf.counts.sum(axis=0) == total
    node = root
    for name in path[:-1]:
        inner = node.keys.get(name)
        if inner is None:
            counts = np.zeros_like(root.counts)
            inner = node.keys[name] = JsonTally(counts, np.zeros(len(total), bool))
        inner.known[every] = True
        inner.counts[lane.MAP][every] = total[every]
        node = inner
    node.keys[path[-1]] = leaf


def tally_values(values: pa.Array, starts: np.ndarray) -> JsonTally:
    """The lanes of JSON values; what maps hold is not looked at."""
    n = len(starts) - 1
    counts = np.zeros((len(lane.LANES), n), np.int64)
    lanes = _lanes(values)
    least, most = int(lanes.min(initial=lane.MAP)), int(lanes.max(initial=-1))
    kinds = [least] if least == most else [kind for kind in range(least, most + 1) if (lanes == kind).any()]
    for kind in (kind for kind in kinds if kind >= 0):
        counts[kind] = np.diff(starts) if least == most else count(lanes == kind, starts)
    number = whole = text = None
    if lane.NUMBER in kinds:
        number, whole = _numbers(_only(values, lanes == lane.NUMBER), starts)
    if lane.TEXT in kinds:
        text = _texts(values, lanes == lane.TEXT, starts)
    return JsonTally(counts, np.ones(n, bool), number, whole, text)


def _lanes(values: pa.Array) -> np.ndarray:
    """The lane of each JSON value, -1 for none."""
    if values.null_count or not len(values):
        lanes = _LANE_OF_LETTER[json_path.first_bytes(values)]
        return np.where(to_bools(values.is_valid()), lanes, np.int8(-1))
    _, offsets, data = values.buffers()
    return _LANE_OF_LETTER[
        np.frombuffer(data, np.uint8)[np.frombuffer(offsets, np.int32, len(values), values.offset * 4)]
    ]


def _only(values: pa.Array, mask: np.ndarray) -> pa.Array:
    return values if mask.all() else pc.if_else(pa.array(mask), values, pa.scalar(None, values.type))


def _numbers(values: pa.Array, starts: np.ndarray) -> tuple[Bounds, np.ndarray]:
    """Bounds of the numbers in each stretch, and where all of them are whole."""
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8)[at[0] : at[-1]]
    odd = (raw == ord(".")) | (raw > ord("9"))  # a point, or an exponent
    if odd.any() or np.diff(at).max() > SURELY_INT8:
        return _reals(values, count(odd, at[starts] - at[0]) == 0, starts)
    low, high = extremes(values.cast(pa.int64()), starts)
    one = 10**lane.SCALE
    ends = [decimals([None if v is None else v * one for v in bound.to_pylist()]) for bound in (low, high)]
    return (ends[0], ends[1]), np.ones(len(starts) - 1, bool)


def _reals(values: pa.Array, whole: np.ndarray, starts: np.ndarray) -> tuple[Bounds, np.ndarray]:
    """Numbers of which some may be no 64-bit integers, by way of doubles."""
    try:
        low, high = (bound.to_pylist() for bound in extremes(values.cast(pa.float64()), starts))
    except pa.ArrowInvalid:
        nothing = decimals([None] * len(whole))
        return (nothing, nothing), whole  # a number beyond all doubles: there are no bounds
    ends = []
    for bound, side in ((low, -1), (high, 1)):
        outer = [None if v is None else _outward(v, side, bool(w)) for v, w in zip(bound, whole, strict=True)]
        ends.append(decimals(outer))
    return (ends[0], ends[1]), whole


def _outward(value: float, side: int, whole: bool) -> int | None:
    """A double that may be rounded as a bound; None beyond the range."""
    if not (whole and abs(value) < _EXACT):
        value = float(np.nextafter(value, side * np.inf))
    if not np.isfinite(value):
        return None
    unscaled = Fraction(value) * 10**lane.SCALE
    return _within(ceil(unscaled) if side > 0 else floor(unscaled))


def _within(unscaled: int) -> int | None:
    return unscaled if abs(unscaled) < lane.LIMIT else None


def _texts(values: pa.Array, mask: np.ndarray, starts: np.ndarray) -> Bounds:
    """Bounds of the strings in each stretch."""
    _, offsets, data = values.buffers()
    raw = np.frombuffer(data, np.uint8)
    at = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    if (raw[at[0] : at[-1]] == _BACKSLASH).any():
        return one_by_one(json_path.to_text(_only(values, mask)), starts)
    between = np.empty(2 * len(values) + 1, np.int32)
    between[0:-1:2] = at[:-1] + 1
    between[1:-1:2] = at[1:] - 1
    between[-1] = at[-1]
    # What is no string gives entries of negative length: an empty one in its place is just as null.
    odd = np.flatnonzero(~mask)
    between[2 * odd], between[2 * odd + 1] = at[odd], at[odd]
    seen = np.zeros(2 * len(values), bool)
    seen[0::2] = mask
    bits = pa.py_buffer(np.packbits(seen, bitorder="little").tobytes())
    inside = pa.Array.from_buffers(pa.string(), 2 * len(values), [bits, pa.py_buffer(between), data])
    return one_by_one(inside, 2 * starts)


def _exactly(documents: pa.Array, starts: np.ndarray) -> JsonTally:
    """All that there is to know, one document at a time."""
    containers = []
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        some = documents.slice(begin, end - begin).drop_null().to_pylist()
        containers.append([exact_json.decode(text) for text in some])
    return tally_decoded(containers)


def tally_decoded(containers: list[list[exact_json.Json]], depth: int = 0) -> JsonTally:
    """The lanes of decoded values."""
    counts = np.array(
        [[_lane_of(value) for value in values].count(kind) for kind in range(7) for values in containers]
    )
    maps = [[value for value in values if isinstance(value, dict)] for values in containers]
    names = dict.fromkeys(name for some in maps for value in some for name in value)
    deep = depth >= MAX_DEPTH
    keys = {
        name: tally_decoded([[value[name] for value in some if name in value] for some in maps], depth + 1)
        for name in list(names)[: 0 if deep else MOST_KEYS]
    }
    closed = np.array([all(value.keys() <= keys.keys() for value in some) for some in maps], bool)
    number, whole = _decoded_numbers(containers)
    texts = [[value for value in values if isinstance(value, str)] for values in containers]
    low, high = (pa.array([pick(some, default=None) for some in texts], pa.string()) for pick in (min, max))
    known = np.ones(len(containers), bool)
    return JsonTally(counts.reshape(7, -1), known, number, whole, (low, high), keys, closed)


def _lane_of(value: exact_json.Json) -> int:
    match value:
        case None:
            return lane.NULL
        case bool():
            return lane.TRUE if value else lane.FALSE
        case str():
            return lane.TEXT
        case list():
            return lane.LIST
        case dict():
            return lane.MAP
        case _:
            return lane.NUMBER


def _decoded_numbers(containers: list[list[exact_json.Json]]) -> tuple[Bounds, np.ndarray]:
    numbers = [[value for value in values if isinstance(value, Decimal)] for values in containers]
    low = decimals([_unscaled(min(some), ROUND_FLOOR) if some else None for some in numbers])
    high = decimals([_unscaled(max(some), ROUND_CEILING) if some else None for some in numbers])
    whole = np.array([all(value == value.to_integral_value() for value in some) for some in numbers], bool)
    return (low, high), whole


def _unscaled(number: Decimal, rounding: str) -> int | None:
    if number.adjusted() > 20:
        return None
    rounded = number.quantize(_LAST_DIGIT, rounding=rounding, context=_WIDE)
    return _within(int(rounded.scaleb(lane.SCALE, _WIDE)))
