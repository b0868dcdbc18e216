r"""Takes the data of COPY … FROM STDIN, and appends its rows as one atomic batch.

    load = CopyLoad(session, parse_copy(piece), watch)
    load.feed(b"1,ham\n"); load.finish()      1: the number of rows

Texts are read as a cast from text to the type of the column reads them. What cannot be read fails the whole COPY, and the error
says on which line and in which column. Rows are kept as Arrow columns until the end, up to `MAX_BYTES`.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import BindError, ErrorCode, EvaluationError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Expr, Type, types
from tidegate.query import CancelToken
from tidegate.server.postgres.copy.binary import BinaryReader
from tidegate.server.postgres.copy.lines import CsvReader, RawRows, TextReader
from tidegate.server.postgres.copy.statement import CopyStatement
from tidegate.server.postgres.wire import sqlstate
from tidegate.server.postgres.wire.messages import ProtocolError, copy_fail_reason, frame
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.session import Session
from tidegate.sql.bind import bind_expression
from tidegate.statements import default_of
from tidegate.statements.postgres_catalog import postgres_types
from tidegate.storage.part import SchemaColumn
from tidegate.storage.shard import visible_columns
from tidegate.text import format_bytes

MAX_BYTES = 1 << 30
"""Bytes of rows that one COPY appends."""


class CopyLoad:
    """The rows of one COPY, until they are appended."""

    def __init__(self, db: Session, copy: CopyStatement, watch: CancelToken) -> None:
        self.db, self.copy, self.watch = db, copy, watch
        try:
            self.shard = db.context.table(copy.table)
            state = self.shard.machine.fetch()
            self.all = visible_columns(state.schema, state.options)
            self.columns = self._columns()
        except BindError as error:
            raise self._at_table(error) from error
        names = [column.name for column in self.columns]
        self.reader: TextReader | CsvReader | BinaryReader
        match copy.options.format:
            case "binary":
                self.reader = BinaryReader([postgres_types.oid(column.type) for column in self.columns])
            case "csv":
                self.reader = CsvReader(copy.options, names)
            case _:
                self.reader = TextReader(copy.options, names)
        self.casts = [_cast(column.type) for column in self.columns]
        self.batches: list[list[pa.Array]] = []
        self.rows = self.size = 0

    def _at_table(self, error: BindError) -> PostgresError:
        reported = sqlstate.to_postgres_error(error)
        reported.position = self.copy.at
        return reported

    def _columns(self) -> list[SchemaColumn]:
        by_name = {column.name: column for column in self.all}
        for name in self.copy.columns:
            if name not in by_name:
                message = f'column "{name}" of "{self.copy.table}" does not exist'
                raise BindError(message, code=ErrorCode.UNDEFINED_COLUMN)
        if len(set(self.copy.columns)) < len(self.copy.columns):
            raise PostgresError("42701", "COPY names a column twice", position=self.copy.at)
        return [by_name[name] for name in self.copy.columns] or list(self.all)

    def start(self) -> bytes:
        """CopyInResponse: the format of the whole, and of each column."""
        form, count = int(self.copy.options.format == "binary"), len(self.columns)
        return frame(b"G", struct.pack(f">bh{count}h", form, count, *(form,) * count))

    def feed(self, data: bytes) -> None:
        """Takes a piece of the data."""
        self._take(self.reader.feed(data))

    def finish(self) -> int:
        """Reads what is left and appends all rows; returns their number."""
        self._take(self.reader.finish())
        self.watch.check()
        if self.rows:
            given = {
                column.name: pa.chunked_array([batch[i] for batch in self.batches])
                for i, column in enumerate(self.columns)
            }
            absent = [column for column in self.all if column.name not in given]
            given |= {column.name: self._default(column) for column in absent}
            self.db.append(
                self.copy.table, pa.table({column.name: given[column.name] for column in self.all})
            )
        return self.rows

    def _take(self, pieces: Iterable[RawRows]) -> None:
        try:
            for raw in pieces:
                self.watch.check()
                self._add(raw)
        except PostgresError as error:
            if error.context is not None and not error.context.startswith("COPY "):
                error.context = f"COPY {self.copy.table}, {error.context}"
            raise

    def _add(self, raw: RawRows) -> None:
        """Converts texts to values."""
        values = [self._values(i, raw) for i in range(len(self.columns))]
        self.batches.append(values)
        self.rows += len(raw.lines)
        self.size += sum(column.nbytes for column in values)
        if self.size > MAX_BYTES:
            raise PostgresError(
                "54000",
                f"one COPY appends at most {format_bytes(MAX_BYTES)}",
                hint="copy the rows in several pieces",
            )

    def _values(self, place: int, raw: RawRows) -> pa.Array:
        texts, column = raw.columns[place], self.columns[place]
        outcome = evaluate(self.casts[place], [texts], len(texts))
        values = outcome.values
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        failed = _first_failure(outcome.errors)
        message = None if failed is None or outcome.errors is None else outcome.errors[failed].as_py()
        if failed is None and column.type.length is not None:
            failed, message = _too_long(values, column.type)
        if failed is None and not column.nullable and values.null_count:
            failed, message = values.is_null().index(True).as_py(), None
        if failed is None:
            return values
        where = f"line {raw.lines[failed]}, column {column.name}: {_shown(texts[failed].as_py())}"
        if message is None:
            raise PostgresError("23502", f'column "{column.name}" is NOT NULL', context=where)
        reported = sqlstate.to_postgres_error(EvaluationError(message))
        reported.context = where
        raise reported

    def _default(self, column: SchemaColumn) -> pa.Array:
        expr = default_of(self.db.context, self.shard, column)
        outcome = evaluate(expr, [], self.rows)
        failed = _first_failure(outcome.errors)
        if failed is not None and outcome.errors is not None:
            raise EvaluationError(outcome.errors[failed].as_py())
        return outcome.values


async def receive(
    load: CopyLoad,
    next_message: Callable[[], Awaitable[tuple[str, bytes]]],
    release: Callable[[int], None],
    run_sized: Callable[[int, Callable[[], None]], Awaitable[None]],
) -> None:
    """Feeds messages of the client until the data ends; Sync and Flush between them mean nothing."""
    while True:
        kind, body = await next_message()
        try:
            if kind == "d":
                await run_sized(len(body), partial(load.feed, body))
            elif kind == "c":
                return
            elif kind == "f":
                raise PostgresError("57014", f"the client ended COPY: {copy_fail_reason(body)}")
            elif kind not in "HS":
                raise ProtocolError(f"message {kind!r} in the data of COPY")
        finally:
            release(len(body))


def _cast(type_: Type) -> Expr:
    return bind_expression(f"x::{type_.without_lengths}", [("x", types.TEXT)])


def _first_failure(errors: pa.Array | None) -> int | None:
    """Returns the first row with an error."""
    if errors is None or errors.null_count == len(errors):
        return None
    return int(errors.is_valid().index(True).as_py())


def _too_long(values: pa.Array, type_: Type) -> tuple[int | None, str]:
    place = pc.greater(pc.utf8_length(values), type_.length).fill_null(False).index(True).as_py()
    return (None, "") if place < 0 else (place, f"value too long for type character varying({type_.length})")


def _shown(text: str | None) -> str:
    return "null" if text is None else f'"{text[:100]}"'
