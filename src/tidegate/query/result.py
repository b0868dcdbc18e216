"""Result: the rows of a statement, the path that answered it, and what it cost.

    r = db.sql("SELECT id, price FROM orders WHERE price > 5")
    r.arrow()                 a pyarrow.Table; r.schema is its schema
    r.rows()                  a list of tuples of Python values; r.df() is a pandas DataFrame
    for batch in r.batches()  pyarrow.RecordBatch after RecordBatch, in bounded memory, whatever their number
    r.path                    'metadata' if no part had to be read, 'peek' if few, else 'local'
    r.scan.parts_read         of r.scan.parts_total
    r.scan.stages             what was done, one after the other: rows in and out, bytes, seconds (EXPLAIN ANALYZE prints them)
    r.text()                  for EXPLAIN and SHOW CREATE: the text; else what psql would print below a result

A query runs until it is done, or some 16 MiB of rows are there. What is left of it runs as rows are asked for: an error may come
there, `scan` counts on, and what is read stays pinned until the last row is read, the result is closed, or Python collects it.

| | |
|---|---|
| `arrow()`, `rows()`, `df()`, `len()`, `text()`, `columns` | hold all rows; more than `max_result_bytes` are a LimitError |
| `batches()` | holds none. Rows come once: after it `arrow()` is an error that says so, and `len()` tells how many came |
| both | `arrow()` first: `batches()` then gives what is held, as often as it is asked |
| `names`, `types`, `schema`, `path`, `scan`, `repr()` | read nothing |
| `with db.sql(…) as r:`, `r.close()` | ends a query of which no more is wanted |

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

import importlib.util
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from tidegate.boundary import public
from tidegate.errors import LimitError, TidegateError, UnsupportedError
from tidegate.expr.model import Type, types
from tidegate.query.python_values import python_rows
from tidegate.query.row_stream import Batch, Over, RowStream, size_of, sliced
from tidegate.storage.part import Part

Path = Literal["metadata", "peek", "local", "embedded", "spark"]


@dataclass
class Stage:
    """One kind of work of a query, over all its parts: `filter url`, `read id, price`."""

    name: str
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class ScanMetrics:
    """What a query read. Parts that are read only to check a verdict count as audited, not as read.

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
    rows_returned: int = 0
    """Rows of the result, as far as it was read."""
    parts_pruned: int = 0
    """Their statistics prove that they hold no matching row."""
    bytes_pruned: int = 0
    parts_proven: int = 0
    """Of those kept, the ones of which statistics prove that every row passes."""
    bytes_proven: int = 0
    bytes_audited: int = 0
    pages_skipped: int = 0
    """Inside of the parts read, what late materialisation did not have to fetch or decode."""
    bytes_skipped: int = 0
    stages: list[Stage] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    """Several threads may read parts of one query."""

    def count(self, parts: Sequence[Part]) -> None:
        """These parts are read."""
        with self._lock:
            self.parts_read += len(parts)
            self.bytes_read += sum(part.size for part in parts)
            self.rows_read += sum(part.rows for part in parts)

    def open(self, size: int = 0) -> None:
        """A part of so many bytes is read; how much of it, `close` tells."""
        with self._lock:
            self.parts_read += 1
            self.bytes_skipped += size

    def close(self, fetched: int) -> None:
        """So many bytes of it were fetched; the others were not needed."""
        with self._lock:
            self.bytes_read += fetched
            self.bytes_skipped = max(0, self.bytes_skipped - fetched)

    def see(self, rows: int) -> None:
        """So many rows were looked at."""
        with self._lock:
            self.rows_read += rows

    def skip(self, pages: int) -> None:
        """So many pages of 8,192 rows were passed over."""
        with self._lock:
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
        with self._lock:
            stage = next((one for one in self.stages if one.name == name), None)
            if stage is None:
                self.stages.append(stage := Stage(name))
            stage.rows_in += rows_in
            stage.rows_out += rows_out
            stage.bytes += bytes
            stage.seconds += seconds

    def absorb(self, other: ScanMetrics) -> None:
        """What another has counted."""
        with self._lock:
            for name in ("parts_read", "bytes_read", "rows_read", "pages_skipped", "bytes_skipped"):
                setattr(self, name, getattr(self, name) + getattr(other, name))
        for one in other.stages:
            self.add(
                one.name, rows_in=one.rows_in, rows_out=one.rows_out, bytes=one.bytes, seconds=one.seconds
            )

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Times the body, which sets rows and bytes on the Stage that it gets."""
        one, began = Stage(name), time.perf_counter()
        try:
            yield one
        finally:
            spent = time.perf_counter() - began
            self.add(name, rows_in=one.rows_in, rows_out=one.rows_out, bytes=one.bytes, seconds=spent)


@public
class Result:
    """See the module's docstring."""

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[Type],
        columns: Sequence[pa.ChunkedArray] | RowStream,
        path: Path = "metadata",
        scan: ScanMetrics | None = None,
        said: str | None = None,
        max_bytes: int = 0,
        tag: str | None = None,
    ) -> None:
        """`said`: text beside or instead of rows. `max_bytes`: how much of a stream may be held; 0: any.

        `tag`: what a statement with RETURNING did, `UPDATE 3`.
        """
        self.tag = tag
        self.names, self.types, self.path, self.said = tuple(names), tuple(types), path, said
        self.scan = ScanMetrics() if scan is None else scan
        self.count = 0
        """Rows that `batches` has given so far."""
        self._stream = columns if isinstance(columns, RowStream) else None
        self._held = None if isinstance(columns, RowStream) else tuple(columns)
        self._max_bytes, self._lock = max_bytes, threading.RLock()
        self._taken = False

    @staticmethod
    def of(names: Sequence[str], types: Sequence[Type], columns: Sequence[Any], **more: Any) -> Result:
        """From lists or arrays of values."""
        chunked = [
            column
            if isinstance(column, pa.ChunkedArray)
            else pa.chunked_array([pa.array(column, type_.arrow)], type_.arrow)
            for column, type_ in zip(columns, types, strict=True)
        ]
        return Result(names, types, chunked, **more)

    @staticmethod
    def message(said: str) -> Result:
        """Of a statement that gives no rows."""
        return Result((), (), (), said=said)

    @staticmethod
    def explanation(
        said: str, path: Path = "metadata", scan: ScanMetrics | None = None, *, document: bool = False
    ) -> Result:
        """Of EXPLAIN: a row for each line, as in psql; a document is one row."""
        lines = [said] if document else said.split("\n")
        return Result.of(["QUERY PLAN"], [types.TEXT], [lines], path=path, scan=scan, said=said)

    @property
    def is_text(self) -> bool:
        """Whether it is shown as text: there are no rows, or they are the lines of an explanation."""
        return len(self.names) < 2 and (self.said is not None or not self.names)

    @property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of the columns; a name may occur twice, as in SQL."""
        fields = zip(self.names, self.types, strict=True)
        return pa.schema([pa.field(name, type_.arrow) for name, type_ in fields])

    # ---------------------------------------------------------------- rows as they come

    @property
    def live(self) -> bool:
        """Whether the query still runs: rows are left that nobody has read yet."""
        return self._stream is not None and self._stream.live

    @property
    def ready(self) -> int:
        """How many rows are in memory; while it is `live`, there may be more."""
        with self._lock:
            if self._held is not None:
                return len(self._held[0]) if self._held else 0
            return self._stream.ready if self._stream is not None else 0

    @property
    def size(self) -> int:
        """Bytes of the rows that are in memory, not counting what a live query reads ahead."""
        with self._lock:
            if self._held is not None:
                return size_of(self._held)
            return self._stream.size if self._stream is not None else 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches, in bounded memory. They come once: see the module's docstring."""
        with self._lock:
            if self._held is None:
                self._check_there()
                self._taken = True
        return self._batches_once()

    def _batches_once(self) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        if self._held is not None:
            batches: Iterator[Batch] = sliced(self._held) if self._held else iter(())
        else:
            assert self._stream is not None
            batches = self._stream
        try:
            for columns, rows in batches:
                self.count += rows if self._held is None else 0
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
        finally:
            if self._held is None:
                self.close()

    def exhaust(self) -> int:
        """Reads what is left and keeps none of it: how many rows there were in all."""
        if self._held is not None:
            return len(self)
        if not self._taken:
            for _ in self.batches():
                pass
        return self.count

    def when_over(self, callback: Over) -> None:
        """Calls this when the query has ended: now, if it has; with the error, if it failed on the way."""
        if self._stream is None:
            callback(None)
        else:
            self._stream.when_over(callback)

    def close(self) -> None:
        """Ends the query, if it still runs; rows that are held stay."""
        if self._stream is not None:
            self._stream.close(TidegateError("this result was closed", hint="run the query again"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------- all rows at once

    @property
    def columns(self) -> tuple[pa.ChunkedArray, ...]:
        """All rows, by column, held from now on. More than `max_result_bytes` are a LimitError."""
        with self._lock:
            if self._held is None:
                self._check_there()
                self._held, self._stream = self._gathered(), None
            return self._held

    def _check_there(self) -> None:
        assert self._stream is not None
        if self._stream.error is not None:
            raise self._stream.error
        if self._taken:
            raise TidegateError(
                "the rows of this result were handed out by batches(), and are not held",
                hint="run the query again; or call arrow() or rows() first, then batches() as often as you like",
            )

    def _gathered(self) -> tuple[pa.ChunkedArray, ...]:
        assert self._stream is not None
        pieces: list[list[pa.Array]] = []
        size = 0
        for columns, _ in self._stream:
            size += size_of(columns)
            if self._max_bytes and size > self._max_bytes:
                error = too_large(self._max_bytes)
                self._stream.close(error)
                raise error
            pieces.append(columns)
        return tuple(
            pa.chunked_array([piece[i] for piece in pieces], type_.arrow)
            for i, type_ in enumerate(self.types)
        )

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_arrays(list(self.columns), schema=self.schema)

    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        table = self.arrow()
        if importlib.util.find_spec("pandas") is None:
            raise UnsupportedError("df() needs pandas, which is not installed", hint="pip install pandas")
        return table.to_pandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        return python_rows(self.columns, self.types)

    def text(self) -> str:
        """What the statement has to say: the explanation of EXPLAIN, else what was done."""
        if self.said is not None or self.tag is not None:
            return self.said or self.tag or ""
        count = len(self)
        return f"{count} row" if count == 1 else f"{count} rows"

    def __len__(self) -> int:
        if self._held is None and self._taken and not self.live:
            return self.count
        return len(self.columns[0]) if self.columns else 0

    def __bool__(self) -> bool:
        return bool(self.ready or self.count)

    def __repr__(self) -> str:
        if self._held is None:
            shown = (
                f"{self.count:,} rows read" + (" so far" if self.live else "")
                if self._taken
                else "not read yet"
            )
        else:
            shown = self.text().partition("\n")[0]
        return f"<Result: {shown}, {', '.join(self.names) or 'no columns'}>"


def too_large(most: int) -> LimitError:
    """The error for a result of which more is to be held than may be."""
    return LimitError(
        f"the result has more than {most:,} bytes",
        hint="batches() reads it in bounded memory; or ask for fewer rows or columns, or SET max_result_bytes to more",
    )
