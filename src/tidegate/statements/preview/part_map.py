"""The parts of a collection as arrays to draw: position, size, and what a query does with each.

    found = part_map(context, "orders", x="created_at", y="(payload->>'ts')::numeric")
    found.x.low, found.x.high       between which bounds each part's values lie, as numbers on an axis
    found.size, found.level         bytes, and how often it was compacted

An axis is any expression over the columns: its bounds in every part are what pruning itself would say of it
(`expr/domain/interpret.py`),
so a picture of `date_trunc('day', at)` shows exactly what a filter on it can tell apart. Beside expressions there are what parts
have without looking into them:

| axis | |
|---|---|
| `_time` | from the first to the last time of its updates |
| `_part` | its number: parts that were written later have greater ones |
| `_level` | how often it was compacted |
| `_rows`, `_size` | rows, bytes: as logarithms, since parts are of all sizes |

Texts have no distance, so on their axis stand ranks: all bounds in order, and `texts` says which is which. A bound that is not
known is NaN. Everything comes from metadata, and nothing loops over parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.context import Context
from tidegate.errors import BindError
from tidegate.expr.domain import Interpretation, Specs
from tidegate.expr.model import Expr, Kind, Type, support
from tidegate.plan import MapFilterProject
from tidegate.query.prune import PruningPredicate
from tidegate.sql.bind import bind_expression
from tidegate.storage.part import SchemaColumn
from tidegate.storage.shard import Snapshot, open_snapshot, shard_options, visible_columns
from tidegate.storage.stats import fact_name
from tidegate.text import identifier

PART_AXES = ("_time", "_part", "_rows", "_size", "_level")
"""Axes that are no expressions."""
_TIMES = (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE)
_NUMBERS = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.FLOAT4, Kind.FLOAT8, Kind.NUMERIC, Kind.BOOL)
_WHOLE = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.BOOL, Kind.DATE)
_TEXTS = (Kind.TEXT, Kind.BYTEA, Kind.UUID)
KEYS = 20
"""Keys of a JSON column that are offered as axes; others can be written."""
ORDERED = (*_TIMES, *_NUMBERS, *_TEXTS, Kind.MZ_TIMESTAMP)
"""Kinds that an axis can have."""


@dataclass(frozen=True, eq=False)
class Axis:
    """The range of each part, `low` to `high`: float64, NaN if unknown. Times are in milliseconds."""

    name: str
    scale: Literal["number", "time", "text", "log"]
    low: np.ndarray
    high: np.ndarray
    texts: tuple[str, ...] = ()
    """What the ranks of a text axis mean."""
    whole: bool = False
    """Only whole numbers occur, or of times only whole days."""

    @property
    def is_known(self) -> bool:
        """Whether the range of at least one part is known."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())


@dataclass(frozen=True, eq=False)
class PartMap:
    """All parts of a snapshot: arrays of the same length, in the order of `Snapshot.table`."""

    collection: str
    x: Axis
    y: Axis
    id: np.ndarray
    rows: np.ndarray
    size: np.ndarray
    level: np.ndarray
    written: np.ndarray
    choices: tuple[str, ...]
    """What else an axis may be: the columns, and the keys of JSON of which there are statistics."""
    as_of: int
    beyond: int = 0
    """Parts that are not among these, as they have ended or begin later."""
    verdict: np.ndarray | None = None
    """What a query does with each: a `Verdict`; None: there is none, or it reads all."""
    deleted: np.ndarray | None = None
    """How many rows of each are deleted; None: no row is."""

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True)
class ColumnFacts:
    """What statistics say of a column in all parts together."""

    name: str
    type: str
    nullable: bool
    low: Any
    high: Any
    """None: not known."""
    nulls: int | None
    known: int
    """Parts that know its bounds, or that it has none."""


def part_map(context: Context, name: str, x: str | None = None, y: str | None = None) -> PartMap:
    """The parts of a collection as it is now."""
    with open_snapshot(context.collection(name)) as found:
        return map_of(found, name, x, y, context.clock.now())


def next_end(context: Context, name: str) -> int | None:
    """When the next part of a collection expires, in ms; None if none is known to expire."""
    now = context.clock.now()
    tables = context.collection(name).machine.fetch().parts.tables(["expires"])
    ends = [
        pc.min(pc.filter(one.column("expires"), pc.greater(one.column("expires"), now))).as_py()
        for one in tables
    ]
    return min((one for one in ends if one is not None), default=None)


def map_of(
    found: Snapshot, name: str, x: str | None, y: str | None, now: int, verdict: np.ndarray | None = None
) -> PartMap:
    """The parts of a snapshot; without axes, those that tell most."""
    table = found.table(["id", "rows", "size", "level", "first", "last", "written"])
    arrays = {one: table.column(one).to_numpy() for one in table.column_names}
    columns = visible_columns(found.schema, found.state.options)
    first, second = _defaults(found, columns)
    choices = tuple(one for column in columns for one in _choices(found, column))
    deleted = found.deleted()
    return PartMap(
        name,
        _axis(found, x or first, arrays, now),
        _axis(found, y or second, arrays, now),
        arrays["id"],
        arrays["rows"],
        arrays["size"],
        arrays["level"],
        arrays["written"],
        choices,
        found.as_of,
        found.state.parts.count - table.num_rows,
        verdict,
        None if deleted is None else deleted[0],
    )


def _choices(found: Snapshot, column: SchemaColumn) -> Iterator[str]:
    """Axes that a column can give."""
    name = identifier(column.name)
    if column.type.kind in ORDERED:
        yield name
    if column.type.kind is not Kind.JSONB:
        return
    frames = list(found.frames())
    facts = {fact for frame in frames for fact in frame.names}
    keys = dict.fromkeys(key for frame in frames for key in frame.keys((column.id,)))
    for key in list(keys)[:KEYS]:
        path = f"{name} ->> '{key.replace(chr(39), chr(39) * 2)}'"
        if fact_name("number_low", (column.id, key)) in facts:
            yield f"({path})::numeric"
        elif fact_name("text_low", (column.id, key)) in facts:
            yield path


def _defaults(found: Snapshot, columns: Sequence[SchemaColumn]) -> tuple[str, str]:
    """The default axes: time, and the CLUSTER BY column or else the size.

    Any other column, such as an id that rises with time, would draw one more line of what time shows already.
    """
    clustered = found.state.options.get(shard_options.CLUSTER_BY, ())
    able = [column for column in columns if column.type.kind in ORDERED]
    times = [identifier(column.name) for column in able if column.type.kind in _TIMES]
    keys = [identifier(column.name) for column in able if column.id in clustered]
    x = times[0] if times else "_time"
    return x, next((key for key in keys if key != x), "_size")


# ---------------------------------------------------------------- axes


def _axis(found: Snapshot, name: str, arrays: dict[str, np.ndarray], now: int) -> Axis:
    if name == "_time":
        return Axis(name, "time", arrays["first"].astype(float), arrays["last"].astype(float))
    if name in PART_AXES:
        values = arrays["id" if name == "_part" else name.removeprefix("_")].astype(float)
        if name in ("_rows", "_size"):
            values = np.log10(np.maximum(values, 1))
            return Axis(name, "log", values, values, whole=True)
        return Axis(name, "number", values, values, whole=True)
    names = [(column.name, column.type) for column in found.schema.columns]
    expr = bind_expression(name, names, now)
    if expr.type.kind not in ORDERED:
        raise BindError(
            f"{name} is of type {expr.type}, which has no place on an axis",
            hint=f"numbers, times and texts have; so have {', '.join(PART_AXES)}",
        )
    return _placed(name, expr.type, *bounds_of(found, expr, now))


def bounds_of(found: Snapshot, expr: Expr, now: int) -> tuple[pa.Array, pa.Array]:
    """Between which values an expression lies in each part, null where that is not known."""
    types = [column.type for column in found.schema.columns]
    asked = PruningPredicate.of(found, MapFilterProject.identity(types), now)
    lows, highs = [], []
    for specs, count in asked.stretches(support(expr)):
        low, high = _bounds(Interpretation(specs, (now, now)).of(expr), count)
        lows.append(low)
        highs.append(high)
    return pa.concat_arrays(lows), pa.concat_arrays(highs)


def _bounds(specs: Specs, count: int) -> tuple[pa.Array, pa.Array]:
    low, high = (
        bound if len(bound) == count else pc.coalesce(pa.nulls(count, bound.type), bound[0])
        for bound in specs.bounds()
    )
    return low, high


def _placed(name: str, type_: Type, low: pa.Array, high: pa.Array) -> Axis:
    """Bounds as numbers."""
    if type_.kind in _TEXTS:
        return _ranked(name, low, high)
    time = type_.kind in _TIMES or type_.kind is Kind.MZ_TIMESTAMP
    return Axis(
        name,
        "time" if time else "number",
        _numbers(low, type_),
        _numbers(high, type_),
        whole=type_.kind in _WHOLE,
    )


def _numbers(bound: pa.Array, type_: Type) -> np.ndarray:
    if type_.kind in _TIMES:
        bound = bound.cast(pa.timestamp("us", getattr(bound.type, "tz", None))).cast(pa.int64())
    numbers = bound.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers / 1000 if type_.kind in _TIMES else numbers, np.float64)


def _ranked(name: str, low: pa.Array, high: pa.Array) -> Axis:
    """Texts as ranks among all bounds. Arrow orders them by UTF-8 bytes, which is by code point."""
    both = pa.concat_arrays([low, high]).dictionary_encode()
    order = pc.sort_indices(both.dictionary).to_numpy()
    rank = np.empty(len(order), np.float64)
    rank[order] = np.arange(len(order))
    codes = both.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    places = np.full(len(codes), np.nan)
    places[codes >= 0] = rank[codes[codes >= 0]]
    texts = tuple(map(_text, both.dictionary.take(pa.array(order)).to_pylist()))
    return Axis(name, "text", places[: len(low)], places[len(low) :], texts)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.hex()


# ---------------------------------------------------------------- columns


def column_facts(context: Context, name: str, most: int = 100) -> list[ColumnFacts]:
    """What is known of the first columns of a collection."""
    with open_snapshot(context.collection(name)) as found:
        columns = visible_columns(found.schema, found.state.options)[:most]
        places = {column.id: i for i, column in enumerate(found.schema.columns)}
        types = [column.type for column in found.schema.columns]
        asked = PruningPredicate.of(found, MapFilterProject.identity(types), found.as_of)
        wanted = frozenset(places[column.id] for column in columns)
        stretches = list(asked.stretches(wanted))
        nulls = {column.id: _nulls(found, column) for column in columns}
    return [
        _facts(column, [(specs[places[column.id]], count) for specs, count in stretches], nulls[column.id])
        for column in columns
    ]


def _nulls(found: Snapshot, column: SchemaColumn) -> int | None:
    counts = pa.chunked_array([frame.nulls(column.id) for frame in found.frames()], pa.int64())
    return None if counts.null_count else int(pc.sum(counts, min_count=0).as_py())


def _facts(
    column: SchemaColumn, stretches: Sequence[tuple[Specs | None, int]], nulls: int | None
) -> ColumnFacts:
    low = high = None
    known = 0
    if column.type.kind in ORDERED:
        bounds = [_bounds(specs, count) for specs, count in stretches if specs is not None and count]
        lows = pa.chunked_array([low for low, _ in bounds], column.type.arrow)
        highs = pa.chunked_array([high for _, high in bounds], column.type.arrow)
        known = int(pc.sum(pc.and_(lows.is_valid(), highs.is_valid()), min_count=0).as_py())
        try:
            low, high = pc.min(lows).as_py(), pc.max(highs).as_py()
        except pa.ArrowNotImplementedError:  # of uuid there is no least one to Arrow
            low = high = None
    return ColumnFacts(column.name, str(column.type), column.nullable, low, high, nulls, known)
