"""Which values occur on which pages, for columns with few distinct values.

    browser     122 pages      Chrome   on all of them
                               Safari   on all of them
                               NetPositive   on pages 17 and 80

A filter over that column alone is asked of each value once, whatever functions it is made of; pages that hold none of the values
that pass need not be read. Bounds tell nothing there: on every page there are values below and above.

    data = rosters(columns, rows)                 text for the file's own metadata
    found = Rosters.read(data, pages)
    found.of(7).on(passing)                       of each page, whether one of these values of column 7 is on it

Values that are on most pages are held to be on all: it is the rare ones that tell something. A column without any has no roster,
and neither have columns of many values, of floats (of which 0 and -0 are one value to a dictionary, and two to a filter), or of
small parts. NULL is a value like others.

>>> import pyarrow as pa
>>> made = roster(pa.array(["a"] * 8 + ["b", "a", "a", "a", None, "a", "a", "a"]), page_rows=4)
>>> made.values.to_pylist(), made.there.astype(int).tolist()
(['a', 'b', None], [[1, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.stats.collect import PAGE_ROWS, ColumnValues
from tidegate.storage.stats.counters import StatsCounters

ROSTERS_KEY = b"tidegate.rosters"
"""The name of the rosters among the metadata of a file."""
SAMPLE = 8192
"""Rows that are looked at to see whether a column repeats itself."""
MAX_VALUES = 2048
"""Values above which a column has no roster."""
MAX_VALUE_BYTES = 16 << 10
"""Bytes of a column's values above which it has none."""
PAGES = 4
"""Pages up to which a part has none: there is little to be passed over."""
_SCHEMA = pa.schema([("id", pa.int32()), ("values", pa.binary()), ("there", pa.binary())])


@dataclass(frozen=True, eq=False)
class ValuePages:
    """The values of a column, each once, and where they are."""

    values: pa.Array
    there: np.ndarray
    """Of each value and page, whether it may be on it; False: it is not."""

    def on(self, which: np.ndarray) -> np.ndarray:
        """Of each page, whether one of the values that `which` says may be on it."""
        found: np.ndarray = self.there[which].any(axis=0)
        return found


class PageValues:
    """The rosters of a part's columns."""

    def __init__(self, table: pa.Table, pages: int, counters: StatsCounters) -> None:
        """Use `read`."""
        self._table, self._pages, self._counters = table, pages, counters
        self._made: dict[int, ValuePages | None] = {}

    @staticmethod
    def read(data: bytes, pages: int, counters: StatsCounters) -> PageValues:
        """What `rosters` wrote for a part of so many pages; without any if it cannot be read."""
        try:
            packed = base64.b85decode(data)
            table = pa.ipc.open_stream(packed).read_all() if packed else _SCHEMA.empty_table()
            if table.schema != _SCHEMA:
                raise ValueError("these are no rosters")
        except (ValueError, pa.ArrowException, OSError):
            counters.count_unreadable("rosters")
            table = _SCHEMA.empty_table()
        return PageValues(table, pages, counters)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id_: i for i, id_ in enumerate(self._table.column("id").to_pylist())}

    def of(self, id_: int) -> ValuePages | None:
        """That of a column, if it has one."""
        if id_ not in self._places:
            return None
        if id_ not in self._made:
            self._made[id_] = self._read(self._places[id_])
        return self._made[id_]

    def _read(self, row: int) -> ValuePages | None:
        try:
            values = pa.ipc.open_stream(self._table.column("values")[row].as_py()).read_all().column(0)
            bits = np.frombuffer(self._table.column("there")[row].as_py(), np.uint8)
            there = np.unpackbits(bits)[: len(values) * self._pages].reshape(len(values), self._pages)
        except (ValueError, pa.ArrowException, OSError):
            self._counters.count_unreadable("rosters")
            return None
        return ValuePages(values.combine_chunks(), there.astype(bool))


def rosters(columns: Iterable[ColumnValues], rows: int) -> bytes:
    """Those of all columns that have one; empty if none has."""
    if rows <= PAGES * PAGE_ROWS:
        return b""
    made = [(column.id, found) for column in columns if (found := roster(column.values)) is not None]
    if not made:
        return b""
    lines = [
        {"id": id_, "values": _stream(pa.table({"v": one.values})), "there": np.packbits(one.there).tobytes()}
        for id_, one in made
    ]
    return base64.b85encode(_stream(pa.Table.from_pylist(lines, _SCHEMA)))


def roster(values: pa.Array, page_rows: int = PAGE_ROWS) -> ValuePages | None:
    """The roster of a column; None if it would tell nothing, or too much."""
    if pa.types.is_floating(values.type) or not repeats(values):
        return None
    coded = values.dictionary_encode(null_encoding="encode")
    each = coded.dictionary
    if len(each) < 2 or len(each) > MAX_VALUES or each.nbytes > MAX_VALUE_BYTES:
        return None
    pages = -(-len(values) // page_rows)
    there = np.zeros((len(each), pages), bool)
    there[coded.indices.to_numpy(), np.arange(len(values)) // page_rows] = True
    rare = there.sum(axis=1) <= pages // 2
    there[~rare] = True
    return ValuePages(each, there) if rare.any() else None


def repeats(array: pa.Array) -> bool:
    """Whether a dictionary is worth it: few distinct values in a sample spread over the column."""
    if pa.types.is_nested(array.type) or pa.types.is_boolean(array.type) or not len(array):
        return False
    step = max(1, len(array) // SAMPLE)
    sample = array.take(pa.array(np.arange(0, len(array), step)))
    distinct = pc.count_distinct(sample, mode="only_valid").as_py()
    return bool(distinct <= len(sample) // 8)


def _stream(table: pa.Table) -> bytes:
    """A table as bytes, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
