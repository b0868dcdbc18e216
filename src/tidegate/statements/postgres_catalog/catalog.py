"""Answers queries of pg_catalog and information_schema from an in-memory DuckDB.

    catalog.query("SELECT relname FROM pg_catalog.pg_class", lake, who, settings, watch)      a Result

Tools send dozens of queries about tables and columns, with joins, arrays and subqueries, and each tool different ones. So an SQL
engine answers them:

    names in the lake → read_relations() → pg_class, pg_attribute, … → DuckDB ← the client's query in DuckDB's dialect (rewrite.py)

The tables are rebuilt when names or columns of the lake have changed. The DuckDB is sandboxed (no files, extensions or settings),
with little memory, one thread and ten seconds per query, so a client can waste no more than that. What DuckDB cannot do is an
ordinary error.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from tidegate import fork
from tidegate.config import Config, spelled
from tidegate.context import Context
from tidegate.errors import (
    BindError,
    CancelledError,
    ErrorCode,
    LimitError,
    ParseError,
    Position,
    TidegateError,
    UnsupportedError,
)
from tidegate.expr.model import Type
from tidegate.expr.model import types as ours
from tidegate.expr.primitives import duckdb_kernels
from tidegate.logs import LOG
from tidegate.query import CancelToken, Result
from tidegate.query.embedded import call_interruptibly, interrupting
from tidegate.sql.parse import Token, tokenize
from tidegate.statements.postgres_catalog.dialect import output_name, to_duckdb
from tidegate.statements.postgres_catalog.fill import (
    CatalogRelation,
    create_tables,
    read_relations,
    update_sizes,
)
from tidegate.statements.postgres_catalog.postgres_types import OID

QUERY_SECONDS = 10.0
MAX_RESULT_BYTES = 64 << 20
"""Bytes of a result; the catalog of ten thousand collections has fewer."""


@dataclass(frozen=True)
class ClientIdentity:
    """The user and database that a client names, and its process id."""

    user: str
    database: str
    pid: int


class PostgresCatalog:
    """The catalog of one open database, shared by its sessions and their threads."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._relations: tuple[CatalogRelation, ...] | None = None
        self._duck: Any = None
        self._process = 0
        """The process that made it: DuckDB does not survive a fork."""
        self._start = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime())

    @staticmethod
    def of(context: Context) -> PostgresCatalog:
        """The catalog of an open database."""
        catalog: PostgresCatalog = context.catalogs.get_or_compute("pg_catalog", PostgresCatalog)
        return catalog

    def query(
        self,
        sql: str,
        lake: Context,
        who: ClientIdentity,
        settings: Mapping[str, tuple[str, str]],
        watch: CancelToken,
    ) -> Result:
        """Runs a query of the catalog."""
        translated = to_duckdb(sql)
        cursor = self._cursor(lake)
        timer = threading.Timer(QUERY_SECONDS, cursor.interrupt)
        try:
            with interrupting(cursor, watch):
                self._set_variables(cursor, lake, who, settings)
                watch.check()
                timer.start()
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                table = call_interruptibly(lambda: _read(cursor.sql(translated)), cursor.interrupt)
        except TidegateError:
            raise
        except Exception as error:
            watch.check()
            if not type(error).__module__.startswith(("duckdb", "_duckdb")):
                raise  # not an error of the query: DuckDB's exceptions, which are not imported here, are
            LOG.debug("a catalog query failed: %s: %s", error, translated)
            raise _duckdb_error(error, sql) from None
        finally:
            timer.cancel()
            cursor.close()
        return _result(table)

    def _cursor(self, lake: Context) -> Any:
        """Returns a connection to tables that describe the lake as it is now."""
        relations = read_relations(lake)
        with self._lock:
            if self._duck is None or relations != self._relations or self._process != os.getpid():
                duck = duckdb_kernels.sandbox_connection()
                create_tables(duck, relations)
                self._duck, self._relations, self._process = duck, relations, os.getpid()
            elif _sizes(relations) != _sizes(self._relations):
                update_sizes(self._duck, relations)
                self._relations = relations
            return self._duck.cursor()

    def _set_variables(
        self, cursor: Any, lake: Context, who: ClientIdentity, settings: Mapping[str, tuple[str, str]]
    ) -> None:
        shown = {name: value for name, (value, _) in settings.items()} | _own_settings(lake.config)
        defaults = {name: default for name, (_, default) in settings.items()} | _own_settings(Config())
        for name, value in (
            ("user", who.user),
            ("database", who.database),
            ("pid", who.pid),
            ("start", self._start),
            ("names", list(shown)),
            ("values", list(shown.values())),
            ("defaults", [defaults[name] for name in shown]),
        ):
            cursor.execute(f"SET VARIABLE tg_{name} = $1", [value])


def _sizes(relations: Sequence[CatalogRelation] | None) -> list[tuple[int, int]]:
    return [(relation.rows, relation.bytes) for relation in relations or ()]


def _own_settings(config: Config) -> dict[str, str]:
    """Returns Tidegate's settings as SHOW prints them."""
    return {field.name: spelled(getattr(config, field.name)) for field in fields(config)}


_NAMED = re.compile(r'"(\w+)"|\bname (\w+)|(?<=\')(\w+)(?=\()')
"""Names in a message of DuckDB."""


def _read(query: Any) -> pa.Table:
    """Reads the rows in batches, up to `MAX_RESULT_BYTES`."""
    if query is None:
        raise UnsupportedError("the catalog is read-only")
    batches, size = [], 0
    with query.to_arrow_reader(1_024) as reader:
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > MAX_RESULT_BYTES:
                raise LimitError(f"a catalog query returns at most {MAX_RESULT_BYTES:,} bytes")
        return pa.Table.from_batches(batches, reader.schema)


def _duckdb_error(error: Exception, sql: str) -> TidegateError:
    """Converts an exception of DuckDB. Its text is never shown: it is about another dialect."""
    hint = "SHOW TABLES and SHOW COLUMNS FROM t list tables and columns"
    message = "the catalog cannot answer this query"
    match kind := type(error).__name__:
        case "InterruptException":
            return CancelledError(f"the catalog query took longer than {QUERY_SECONDS:g} seconds")
        case "ParserException":
            return ParseError("a query of the catalog has a syntax error", hint=hint)
        case "CatalogException" | "BinderException":
            token = _token_in(str(error), sql)
            code = ErrorCode.UNDEFINED_TABLE if kind == "CatalogException" else ErrorCode.UNDEFINED_COLUMN
            if token is None:
                return BindError(message, hint=hint, code=code)
            message += f': it has no "{token.text}", or none that fits here'
            return BindError(message, hint=hint, code=code, position=Position(sql, token.start, token.end))
        case "OutOfMemoryException":
            return LimitError(message, hint=hint)
        case _:
            return UnsupportedError(message, hint=hint)


def _token_in(message: str, sql: str) -> Token | None:
    """Returns the client's token that a message of DuckDB names."""
    names = [next(filter(None, found)) for found in _NAMED.findall(message.split("\n", maxsplit=1)[0])]
    tokens = [token for token in tokenize(sql) if token.kind in ("word", "quoted")]
    return next((token for name in names for token in tokens if token.text.lower() == name.lower()), None)


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


def _type(arrow: pa.DataType) -> Type:
    """Returns the type of an Arrow type; text for those that Tidegate lacks."""
    for fits, type_ in _TYPES:
        if fits(arrow):
            return type_
    if pa.types.is_decimal128(arrow):
        return ours.numeric(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return ours.TIMESTAMP if arrow.tz is None else ours.TIMESTAMPTZ
    if pa.types.is_list(arrow) and pa.types.is_int64(arrow.value_type):
        return ours.array(OID)
    if pa.types.is_list(arrow) and not pa.types.is_nested(arrow.value_type):
        return ours.array(_type(arrow.value_type))
    return ours.TEXT


def _result(table: pa.Table) -> Result:
    column_types = [_type(field.type) for field in table.schema]
    try:
        columns = [
            column.cast(type_.arrow) for column, type_ in zip(table.columns, column_types, strict=True)
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UnsupportedError(
            "a column of the catalog query has an unsupported type", hint="cast it to text"
        ) from None
    return Result.of([output_name(name) for name in table.column_names], column_types, columns)
