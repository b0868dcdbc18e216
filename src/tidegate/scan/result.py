"""What a statement gives: columns of rows, how they were come by, and at what cost.

    r = db.sql("SELECT id, price FROM orders WHERE price > 5")
    r.arrow()                 a pyarrow.Table; r.schema is its schema
    r.rows()                  a list of tuples of Python values
    r.path                    'metadata' if no part had to be read, 'peek' if few, else 'local'
    r.scan.parts_read         of r.scan.parts_total
    r.scan.stages             what was done, one after the other: rows in and out, bytes, seconds (EXPLAIN ANALYZE prints them)
    r.text()                  for EXPLAIN and SHOW CREATE: the text; else what psql would print below a result

| type | Arrow | Python |
|---|---|---|
| jsonb | string | str: the JSON text |
| interval | month_day_nano_interval | `Interval(months, days, microseconds)` |
| uuid | fixed_size_binary[16] | uuid.UUID |
| numeric | decimal128 | decimal.Decimal |
| timestamptz, timestamp, date, time | the same | datetime, with UTC for timestamptz; date; time |
| array, record | list, struct | list; dict |
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from tidegate import fork
from tidegate.boundary import public
from tidegate.expr.types import Kind, Type
from tidegate.shard.change import Part

Path = Literal["metadata", "peek", "local", "spark"]


class Interval(NamedTuple):
    """A span of time: months and days have no fixed length, so the three parts stay apart."""

    months: int
    days: int
    microseconds: int


@dataclass
class Stage:
    """One kind of work of a query, over all its parts: `filter url`, `read id, price`."""

    name: str
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    seconds: float = 0.0


_ADDING = fork.lock()
"""Parts of one query may be read by several threads; what they add up is held for less than a microsecond."""


@dataclass
class Scan:
    """What was read, of what there is. Parts that are read only to check a verdict are audited, not read.

    scan.add("filter url", rows_in=8_192, rows_out=3, bytes=40_000, seconds=0.001)

    with scan.stage("read id, price") as stage:          the same, timed
        stage.rows_out, stage.bytes = 3, 512
    """

    parts_total: int = 0
    parts_read: int = 0
    parts_audited: int = 0
    bytes_total: int = 0
    bytes_read: int = 0
    rows_read: int = 0
    parts_pruned: int = 0
    """Left out by their statistics."""
    bytes_pruned: int = 0
    parts_proven: int = 0
    """Of those kept, the ones of which statistics prove that every row passes."""
    bytes_proven: int = 0
    bytes_audited: int = 0
    pages_skipped: int = 0
    """Inside of the parts read, what late materialisation did not have to fetch or decode."""
    bytes_skipped: int = 0
    stages: list[Stage] = field(default_factory=list)

    def count(self, parts: Sequence[Part]) -> None:
        """These parts are read."""
        with _ADDING:
            self.parts_read += len(parts)
            self.bytes_read += sum(part.size for part in parts)
            self.rows_read += sum(part.rows for part in parts)

    def open(self, size: int = 0) -> None:
        """A part of so many bytes is read; how much of it, `close` tells."""
        with _ADDING:
            self.parts_read += 1
            self.bytes_skipped += size

    def close(self, fetched: int) -> None:
        """So many bytes of it were fetched; the others were not needed."""
        with _ADDING:
            self.bytes_read += fetched
            self.bytes_skipped = max(0, self.bytes_skipped - fetched)

    def see(self, rows: int) -> None:
        """So many rows were looked at."""
        with _ADDING:
            self.rows_read += rows

    def skip(self, pages: int) -> None:
        """So many pages of 8,192 rows were passed over."""
        with _ADDING:
            self.pages_skipped += pages

    def add(
        self,
        name: str,
        *,
        rows_in: int = 0,
        rows_out: int = 0,
        bytes: int = 0,  # noqa: A002  # the word that Stage and all of its readers use
        seconds: float = 0.0,
    ) -> None:
        """Some work of a stage; that of the same name is added up, in the order in which names first came."""
        with _ADDING:
            stage = next((one for one in self.stages if one.name == name), None)
            if stage is None:
                self.stages.append(stage := Stage(name))
            stage.rows_in += rows_in
            stage.rows_out += rows_out
            stage.bytes += bytes
            stage.seconds += seconds

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Times what is done inside; whoever does it says on what is given how many rows and bytes it was."""
        one, began = Stage(name), time.perf_counter()
        try:
            yield one
        finally:
            spent = time.perf_counter() - began
            self.add(name, rows_in=one.rows_in, rows_out=one.rows_out, bytes=one.bytes, seconds=spent)


@public
@dataclass(frozen=True, eq=False)
class Result:
    """See the module's docstring."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    columns: tuple[pa.ChunkedArray, ...]
    path: Path = "metadata"
    scan: Scan = field(default_factory=Scan)
    said: str | None = None
    """What there is to say beside, or instead of, rows."""

    @staticmethod
    def of(names: Sequence[str], types: Sequence[Type], columns: Sequence[Any], **more: Any) -> Result:
        """From lists or arrays of values."""
        chunked = [
            column
            if isinstance(column, pa.ChunkedArray)
            else pa.chunked_array([pa.array(column, type_.arrow)], type_.arrow)
            for column, type_ in zip(columns, types, strict=True)
        ]
        return Result(tuple(names), tuple(types), tuple(chunked), **more)

    @staticmethod
    def done(said: str) -> Result:
        """Of a statement that gives no rows."""
        return Result((), (), (), said=said)

    @property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of the columns; a name may occur twice, as in SQL."""
        fields = zip(self.names, self.types, strict=True)
        return pa.schema([pa.field(name, type_.arrow) for name, type_ in fields])

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_arrays(list(self.columns), schema=self.schema)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        columns = []
        for column, type_ in zip(self.columns, self.types, strict=True):
            convert = _converter(type_)
            values = column.to_pylist()
            columns.append(values if convert is None else [None if v is None else convert(v) for v in values])
        return list(zip(*columns, strict=True))

    def text(self) -> str:
        """What the statement has to say: the explanation of EXPLAIN, else what was done."""
        if self.said is not None:
            return self.said
        count = len(self)
        return f"{count} row" if count == 1 else f"{count} rows"

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __repr__(self) -> str:
        return f"<Result: {self.text().partition(chr(10))[0]}, {', '.join(self.names) or 'no columns'}>"


def _converter(type_: Type) -> Callable[[Any], Any] | None:
    """How a value that Arrow gives becomes the one that we promise; None: it is."""
    match type_.kind:
        case Kind.INTERVAL:
            return lambda v: Interval(v.months, v.days, v.nanoseconds // 1000)
        case Kind.UUID:
            return lambda v: uuid.UUID(bytes=v)
        case Kind.TIMESTAMPTZ:
            return lambda v: v.astimezone(UTC)  # Arrow gives whatever time zone library it finds
        case Kind.ARRAY:
            assert type_.element is not None
            inner = _converter(type_.element)
            return None if inner is None else lambda v: [None if x is None else inner(x) for x in v]
        case Kind.RECORD:
            each = [(name, _converter(t)) for name, t in type_.fields]
            return lambda v: {n: v[n] if c is None or v[n] is None else c(v[n]) for n, c in each}
        case _:
            return None
