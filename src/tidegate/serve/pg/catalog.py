"""pg_catalog and information_schema: a DuckDB in memory, which holds what PostgreSQL would say of the lake.

    catalog.ask("SELECT relname FROM pg_catalog.pg_class", lake, who, settings, watch)      a Result

Tools ask dozens of queries about what tables there are, with joins, arrays and subqueries of all kinds; and every tool other ones.
An engine answers them, over tables of ours:

    lake's names → relations() → pg_class, pg_attribute, … → DuckDB ← the client's text, in DuckDB's words (catalog_text.py)

The tables are filled again when the lake's names or columns are other ones than last time. The DuckDB has no way out (no files, no
extensions, no settings), little memory, one thread, and a query of it has little time: whatever a client thinks of, it can
waste its own ten seconds. What DuckDB cannot do is an ordinary error.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tidegate import fork
from tidegate.errors import TidegateError
from tidegate.expr import types as ours
from tidegate.expr.duck import locked
from tidegate.expr.types import Type
from tidegate.scan.result import Result
from tidegate.serve.pg.catalog_fill import Relation, fill, relations
from tidegate.serve.pg.catalog_text import named, spoken
from tidegate.serve.pg.settings import Settings
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.serve.pg.types import OID
from tidegate.session.lake import Lake

SECONDS = 10.0
MAX_BYTES = 64 << 20
"""Of a result: the catalog of ten thousand collections has less."""


@dataclass(frozen=True)
class Who:
    """A client: what it says its name and its database are, and its number here."""

    user: str
    database: str
    pid: int


class Watched(Protocol):
    """What stops a query: see `commands.Stop`."""

    also: Any

    def check(self) -> None:
        """Raises if it is to end."""
        ...


class Catalog:
    """The catalog of one server, for all of its connections. Threads may share it."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._pool = ThreadPoolExecutor(8, "tidegate-catalog")
        self._seen: tuple[Relation, ...] | None = None
        self._duck: Any = None
        self._start = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime())

    def ask(self, text: str, lake: Lake, who: Who, settings: Settings, watch: Watched) -> Result:
        """Answers a query."""
        said = spoken(text)
        cursor = self._cursor(lake)
        timer = threading.Timer(SECONDS, cursor.interrupt)
        watch.also = cursor.interrupt
        try:
            self._introduce(cursor, who, settings)
            watch.check()
            timer.start()
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            found = _read(cursor.sql(said))
        except (TidegateError, Trouble):
            raise
        except Exception as error:
            watch.check()
            if not type(error).__module__.startswith(("duckdb", "_duckdb")):
                raise  # ours: DuckDB's own, which are not imported here, are the query's
            raise _trouble(error) from None
        finally:
            timer.cancel()
            watch.also = None
            cursor.close()
        return _result(found)

    def close(self) -> None:
        """Forgets what was filled."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._duck = self._seen = None

    def _cursor(self, lake: Lake) -> Any:
        """A connection to the filled tables."""
        seen = relations(lake, self._pool)
        with self._lock:
            if self._duck is None or seen != self._seen:
                duck = locked()
                fill(duck, seen)
                self._duck, self._seen = duck, seen
            return self._duck.cursor()

    def _introduce(self, cursor: Any, who: Who, settings: Settings) -> None:
        for name, value in (
            ("user", who.user),
            ("database", who.database),
            ("pid", who.pid),
            ("start", self._start),
            ("names", list(settings.all())),
            ("values", list(settings.all().values())),
        ):
            cursor.execute(f"SET VARIABLE tg_{name} = $1", [value])


_CODES = {
    "ParserException": "42601",
    "CatalogException": "42P01",
    "BinderException": "42703",
    "OutOfMemoryException": "53200",
}


def _read(asked: Any) -> pa.Table:
    """The rows, as they are made: a query can be of more than there is room for."""
    if asked is None:
        raise Trouble("0A000", "the catalog can only be read")
    found, size = [], 0
    with asked.to_arrow_reader(1_024) as reader:
        for batch in reader:
            found.append(batch)
            size += batch.nbytes
            if size > MAX_BYTES:
                raise Trouble("54000", f"a query of the catalog gives at most {MAX_BYTES:,} bytes")
        return pa.Table.from_batches(found, reader.schema)


def _trouble(error: Exception) -> Trouble:
    """What DuckDB said, in a line."""
    kind = type(error).__name__
    if kind == "InterruptException":
        return Trouble("57014", "the catalog took too long to answer")
    code = _CODES.get(kind, "0A000")
    line = str(error).partition("\n")[0]
    hint = "SHOW TABLES and SHOW COLUMNS FROM t say what is there"
    return Trouble(code, f"the catalog cannot answer this: {line[:500]}", hint=hint)


_TYPES: tuple[tuple[Any, Type], ...] = (
    (pa.types.is_boolean, ours.BOOL),
    (pa.types.is_int8, ours.INT2),
    (pa.types.is_int16, ours.INT2),
    (pa.types.is_int32, ours.INT4),
    (pa.types.is_integer, ours.INT8),
    (pa.types.is_float32, ours.FLOAT4),
    (pa.types.is_floating, ours.FLOAT8),
    (pa.types.is_date, ours.DATE),
    (pa.types.is_binary, ours.BYTEA),
)


def _type(given: pa.DataType) -> Type:
    """Our type for one of Arrow's; text for what is none of ours."""
    for fits, type_ in _TYPES:
        if fits(given):
            return type_
    if pa.types.is_decimal128(given):
        return ours.numeric(given.precision, given.scale)
    if pa.types.is_timestamp(given):
        return ours.TIMESTAMP if given.tz is None else ours.TIMESTAMPTZ
    if pa.types.is_list(given) and pa.types.is_int64(given.value_type):
        return ours.array(OID)
    if pa.types.is_list(given) and not pa.types.is_nested(given.value_type):
        return ours.array(_type(given.value_type))
    return ours.TEXT


def _result(found: pa.Table) -> Result:
    found_types = [_type(field.type) for field in found.schema]
    try:
        columns = [column.cast(type_.arrow) for column, type_ in zip(found.columns, found_types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Trouble(
            "0A000", "the catalog gives a type that is none of ours", hint="cast it to text"
        ) from None
    return Result.of([named(name) for name in found.column_names], found_types, columns)
