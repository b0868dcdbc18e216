"""Result: the rows of a statement, the path that answered it, and what it cost.

    r = db.sql("SELECT id, price FROM orders WHERE price > 5")
    r                         in a notebook or a Python prompt: the first rows as a table; r.show(100) prints more of them
    for id, price in r        tuples of Python values; r.rows() is a list of them, len(r) their number
    r.arrow()                 a pyarrow.Table; r.schema is its schema
    r.df(), r.pl()            a pandas or a polars DataFrame
    pl.DataFrame(r)           whatever reads Arrow's C stream takes a result: polars, DuckDB, pandas, pyarrow.table(r)
    print(r.explain())        how the query runs, and why parts were read
    for batch in r.batches()  pyarrow.RecordBatch after RecordBatch, in bounded memory, whatever their number
    r.path                    'metadata' if no part had to be read, 'peek' if few, else 'local', 'embedded' or 'spark'
    r.scan.parts_read         of r.scan.parts_total
    r.scan.stages             what was done, one after the other: rows in and out, bytes, seconds (EXPLAIN ANALYZE prints them)
    r.text()                  for EXPLAIN and SHOW CREATE: the text; else what psql would print below a result

A query runs until it is done, or some 16 MiB of rows are there. What is left of it runs as rows are asked for: an error may come
there, `scan` counts on, and what is read stays pinned until the last row is read, the result is closed, or Python collects it.

| | |
|---|---|
| `arrow()`, `rows()`, `df()`, `pl()`, `len()`, `text()`, `columns` | hold all rows; more than `max_result_bytes` are a LimitError |
| `batches()` | holds none. Rows come once: after it `arrow()` is an error that says so, and `len()` tells how many came |
| `for row in r`, `__arrow_c_stream__` | as `batches()` while the query still runs; else as often as they are asked |
| both | `arrow()` first: `batches()` then gives what is held, as often as it is asked |
| `names`, `types`, `schema`, `path`, `scan`, `repr()`, `show()` | read nothing: what is shown is in memory |
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
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self, cast

import pyarrow as pa

from tidegate.boundary import public
from tidegate.errors import LimitError, TidegateError, UnsupportedError
from tidegate.expr.model import Type, types
from tidegate.query.python_values import intervals_as_structs, python_rows
from tidegate.query.row_stream import Batch, Over, RowStream, size_of, sliced
from tidegate.query.scan_metrics import ScanMetrics

Path = Literal["metadata", "peek", "local", "embedded", "spark"]


@public
class Result:
    """The rows of a statement, the path that answered it, and what it cost.

        r = db.sql("SELECT id, price FROM orders")
        r.df(); r.arrow(); r.rows(); r.show(); r.explain()
        for id, price in r: ...

    See the docstring of the module `tidegate.query.result` for what holds rows in memory, and what does not.
    """

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
        self._explain: Callable[[bool], Result] | None = None

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

    def pl(self) -> Any:
        """The rows as a polars DataFrame; an interval, which polars does not have, as a struct."""
        table = self.arrow()
        if importlib.util.find_spec("polars") is None:
            raise UnsupportedError("pl() needs polars, which is not installed", hint="pip install polars")
        import polars as pl

        columns = [intervals_as_structs(c) if c.type == types.INTERVAL.arrow else c for c in table.columns]
        return cast("pl.DataFrame", pl.from_arrow(pa.Table.from_arrays(columns, table.column_names)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's C stream, by which other libraries read the rows without copying them."""
        self._hold_if_over()
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        self._hold_if_over()
        for batch in self.batches():
            yield from python_rows(batch.columns, self.types)

    def _hold_if_over(self) -> None:
        """Holds the rows of a query that has ended: they are in memory, and can be asked for again."""
        with self._lock:
            if self._stream is not None and not self._taken and not self.live:
                self.columns  # noqa: B018  # holds them

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

    # ---------------------------------------------------------------- for people

    def first_rows(self, most: int) -> list[tuple[Any, ...]]:
        """The first rows as Python values, as far as they are in memory: this reads nothing."""
        with self._lock:
            if self._held is not None:
                return python_rows([column.slice(0, most) for column in self._held], self.types)
            found: list[tuple[Any, ...]] = []
            for columns, rows in () if self._taken or self._stream is None else self._stream.peek():
                left = min(rows, most - len(found))
                found += python_rows([column.slice(0, left) for column in columns], self.types)
                if len(found) >= most:
                    break
            return found

    def show(self, rows: int = 20, *, width: int | None = None) -> None:
        """Prints the first rows, in a table as wide as the terminal or `width`."""
        sys.stdout.write(self._shown(rows, width) + "\n")

    def explain(self, *, analyze: bool = False) -> Result:
        """How the query of this result runs, and why parts are read; `analyze` runs it again and measures.

        print(db.sql("SELECT id FROM orders WHERE price > 5").explain())
        """
        if self._explain is None:
            raise UnsupportedError("this result is not that of a statement", hint='db.sql("EXPLAIN …")')
        return self._explain(analyze)

    def explained_by(self, explain: Callable[[bool], Result]) -> None:
        """Says how `explain` gets the plan: the session that ran the statement knows it."""
        self._explain = explain

    def _shown(self, most: int, width: int | None = None) -> str:
        from tidegate.query.display import footer, preview, table_text, terminal_width

        if self.is_text:
            return self.text() or "(no rows)"
        if self._held is None and (self._taken or (self.size == 0 and not self.live and self._broken)):
            so_far = f"{self.count:,} rows read" + (" so far" if self.live else "")
            return f"<Result: {so_far}, {', '.join(self.names)}>"
        cells = preview(self, most)
        lines = table_text(cells, terminal_width() if width is None else width)
        return "\n".join([*lines, footer(self, shown=len(cells.rows))])

    @property
    def _broken(self) -> bool:
        return self._stream is not None and self._stream.error is not None

    def __repr__(self) -> str:
        return self._shown(20)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from tidegate.query.display import footer, preview, table_html, text_html

        if self.is_text or self._taken or self._broken:
            return text_html(self._shown(20))
        cells = preview(self)
        return table_html(cells, footer(self, shown=len(cells.rows)))


def too_large(most: int) -> LimitError:
    """The error for a result of which more is to be held than may be."""
    return LimitError(
        f"the result has more than {most:,} bytes",
        hint="batches() reads it in bounded memory; or ask for fewer rows or columns, or SET max_result_bytes to more",
    )
