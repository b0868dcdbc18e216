"""One client connection: reads its messages one after the other, and answers them.

    reader → _read_ahead → inbox → _process → out → writer

`_read_ahead` reads a few messages while a query runs, so that it notices when the client disconnects; then the query is
cancelled, as by a cancel request (`cancel`). Statements and other slow work run in the gateway's threads; the event loop only
passes messages on. Rows are read and encoded batch by batch, and the next batch waits until the client has taken what was sent,
so memory is bounded whatever the size of the result and the speed of the client. An error in the middle of the rows is sent after
them.

An error in a simple query ends its text. After an error in an extended query, messages are skipped until Sync. Bytes that are no
message close the connection.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from tidegate.query import CancelToken
from tidegate.server.gateway import Gateway
from tidegate.server.postgres.commands import StatementRunner
from tidegate.server.postgres.copy.load import CopyLoad, receive
from tidegate.server.postgres.copy.output import CopyEncoder
from tidegate.server.postgres.extended_query import ExtendedQuery, Portal
from tidegate.server.postgres.parameters import names_parameters
from tidegate.server.postgres.rows import (
    ResultRows,
    RowSource,
    StatementResult,
    close_in_background,
)
from tidegate.server.postgres.settings import PostgresSettings
from tidegate.server.postgres.wire import encode, messages, sqlstate
from tidegate.server.postgres.wire.messages import (
    BareMessage,
    BindMessage,
    CloseMessage,
    DescribeMessage,
    ExecuteMessage,
    Message,
    ParseMessage,
    PasswordMessage,
    ProtocolError,
    QueryMessage,
)
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.server.postgres.wire.startup import StartupRequest
from tidegate.sql.parse import statement_texts
from tidegate.statements.postgres_catalog import ClientIdentity, PostgresCatalog

T = TypeVar("T")
MAX_READ_AHEAD = 8
"""Messages read ahead while a query runs."""
INLINE_LIMIT = 4_000
"""Characters or cells up to which work is done on the event loop instead of in a thread."""
FLUSH_BYTES = 1 << 16
CANCEL_CHECK_SECONDS = 0.25
"""How often a query whose client takes no rows is checked for cancellation and timeout."""


class SharedResources(Protocol):
    """What connections share: see `listener.py`."""

    gateway: Gateway
    catalog: PostgresCatalog

    def hold(self, size: int) -> None:
        """Reserves memory for a message; raises `PostgresError` if there is none."""
        ...

    def release(self, size: int) -> None:
        """Returns the memory of a message."""
        ...

    def body_timeout(self) -> float:
        """Seconds within which a message must arrive whole."""
        ...


class ClientConnection:
    """A client connection after the handshake."""

    def __init__(
        self,
        shared: SharedResources,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: StartupRequest,
        pid: int,
    ) -> None:
        self.shared, self.reader, self.writer, self.pid = shared, reader, writer, pid
        self.secret = secrets.randbits(32)
        self.commands = StatementRunner(
            shared.gateway.client(), shared.catalog, ClientIdentity(request.user, request.database, pid)
        )
        self.settings: PostgresSettings = self.commands.state.settings
        self.extended = ExtendedQuery(self.commands)
        self.inbox: asyncio.Queue[tuple[str, bytes] | PostgresError | None] = asyncio.Queue(MAX_READ_AHEAD)
        self.out = bytearray()
        self.skipping = False
        self.running: CancelToken | None = None

    def cancel(self) -> None:
        """Cancels the running query, if there is one."""
        if self.running is not None:
            self.running.cancel()

    async def run(self, request: StartupRequest) -> None:
        """Serves messages until the client disconnects."""
        self._send_greeting(request)
        await self._flush()
        reading = asyncio.ensure_future(self._read_ahead())
        try:
            while (item := await self.inbox.get()) is not None:
                if isinstance(item, PostgresError):
                    raise item
                try:
                    if not await self._process(*item):
                        return
                finally:
                    self.shared.release(len(item[1]))
        finally:
            self.cancel()
            self.extended.forget(None)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            while not self.inbox.empty():
                unread = self.inbox.get_nowait()
                self.shared.release(len(unread[1]) if isinstance(unread, tuple) else 0)

    def _send_greeting(self, request: StartupRequest) -> None:
        self.commands.state.begin(request.user, request.settings)
        for name, value in self.settings.reported().items():
            self.out += messages.parameter_status(name, value)
        self.out += messages.backend_key_data(self.pid, self.secret) + messages.ready_for_query("I")

    async def _read_ahead(self) -> None:
        """Puts messages into the inbox, and cancels the running query when the client disconnects."""
        try:
            while True:
                kind, size = struct.unpack(">cI", await self.reader.readexactly(5))
                self.shared.hold(max(size - 4, 0))
                try:
                    async with asyncio.timeout(self.shared.body_timeout()):
                        body = await self.reader.readexactly(size - 4)
                except BaseException:
                    self.shared.release(max(size - 4, 0))
                    raise
                await self.inbox.put((kind.decode("latin-1"), body))
        except PostgresError as error:
            await self.inbox.put(error)
        except (OSError, EOFError, ValueError, TimeoutError):
            self.cancel()
            await self.inbox.put(None)

    async def _process(self, kind: str, body: bytes) -> bool:
        """Answers a message; False: the client ends the connection."""
        if kind == "X":
            return False
        if self.skipping and kind != "S":
            return True
        simple = kind in "QF"
        try:
            await self._handle(messages.parse_message(kind, body))
        except (ProtocolError, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # the connection survives any failed statement
            self.commands.state.failed()
            self.out += messages.error_response(sqlstate.to_postgres_error(error))
            self.skipping = not simple
            await self._flush()  # a client that sent Flush and no Sync waits for it (asyncpg)
        if simple or kind == "S":
            self.skipping = False
            if self.commands.state.status == "I":
                self.extended.drop()
            self.out += messages.ready_for_query(self.commands.state.status)
            await self._flush()
        elif len(self.out) > FLUSH_BYTES:
            await self._flush()
        return True

    async def _handle(self, message: Message) -> None:
        extended = self.extended
        match message:
            case QueryMessage(text):
                await self._simple_query(text)
            case ParseMessage():
                await self._run_sized(len(message.text), lambda: extended.parse(message))
                self.out += messages.PARSE_COMPLETE
            case BindMessage():
                extended.bind(message)
                self.out += messages.BIND_COMPLETE
            case DescribeMessage("S", name):
                self.out += await self._run_cancellable(lambda watch: extended.describe_statement(name))
            case DescribeMessage(_, name):
                self.out += await self._run_cancellable(lambda watch: extended.describe_portal(name, watch))
            case ExecuteMessage(name, limit):
                await self._execute(extended.portal(name), limit)
            case CloseMessage(target, name):
                extended.close(target, name)
                self.out += messages.CLOSE_COMPLETE
            case BareMessage("H"):
                await self._flush()
            case BareMessage("F"):
                raise PostgresError("0A000", "function calls are not supported", hint="SELECT f(…)")
            case PasswordMessage():
                raise ProtocolError("unexpected password message")
            case BareMessage():
                pass  # Sync, and the rest of a failed COPY

    async def _simple_query(self, text: str) -> None:
        """Runs the statements of a simple query."""
        try:
            pieces = await self._run_sized(len(text), lambda: statement_texts(text))
        except Exception as error:
            raise sqlstate.to_postgres_error(error, text) from error
        if not pieces:
            self.out += messages.EMPTY_QUERY_RESPONSE
        for piece in pieces:
            if any(token.kind == "parameter" for token in piece.tokens) and not names_parameters(piece):
                raise PostgresError(
                    "42P02", "parameters need the extended query protocol", position=piece.start + 1
                )
            watch = self.commands.watch()
            answer = await self._run_cancellable(partial(self.commands.answer, piece), watch)
            sent = 0
            if answer.result.names or answer.copy is not None:
                sent = await self._send_result(answer, watch)
            self._finish(answer, sent)

    async def _send_result(self, answer: StatementResult, watch: CancelToken) -> int:
        """Sends all rows of an answer, or does its COPY; returns the number of rows."""
        if answer.copy is not None and not answer.copy.writes:
            return await self._copy(answer, None)
        if answer.copy is None:
            self.out += self.extended.header(answer, None)
        rows = ResultRows(answer.result, watch) if answer.rows is None else answer.rows
        try:
            if answer.copy is not None:
                return await self._copy(answer, rows)
            formats = [0] * len(answer.result.names)
            return await self._send_rows(rows, encode.row_encoder(answer.result.types, formats), None)
        finally:
            if isinstance(rows, ResultRows):
                close_in_background(self.shared.gateway.threads, [rows])

    async def _copy(self, answer: StatementResult, rows: RowSource | None) -> int:
        """Sends rows as data of COPY, or reads such data and appends its rows; returns their number."""
        assert answer.copy is not None
        if rows is None:
            watch = self.commands.watch()
            load = CopyLoad(self.commands.client.db, answer.copy, watch)
            self.out += load.start()
            await self._flush()
            self.running = watch
            try:
                await receive(load, lambda: self._next_message(watch), self.shared.release, self._run_sized)
            finally:
                self.running = None
            sent = await self._run_cancellable(lambda _: load.finish(), watch)
            self.commands.state.wrote = True
            return sent
        encoder = CopyEncoder(answer.copy.options, answer.result.names, answer.result.types)
        self.out += encoder.start()
        sent = await self._send_rows(rows, encoder.encode, None)
        self.out += encoder.end()
        return sent

    async def _next_message(self, watch: CancelToken) -> tuple[str, bytes]:
        """Waits for a message of the client, or until the watch stops the statement."""
        while True:
            try:
                async with asyncio.timeout(CANCEL_CHECK_SECONDS):
                    item = await self.inbox.get()
            except TimeoutError:
                watch.check()
                continue
            watch.check()
            if isinstance(item, PostgresError):
                raise item
            if item is None:
                raise ConnectionError("the client disconnected in the data of COPY")
            return item

    async def _execute(self, portal: Portal, limit: int) -> None:
        if portal.statement.piece is None:
            self.out += messages.EMPTY_QUERY_RESPONSE
            return
        answer = portal.answer
        if answer is None:  # no Describe has run it
            answer = await self._run_cancellable(partial(self.extended.run, portal))
        result = answer.result
        if not result.names or answer.copy is not None:
            if portal.done:
                raise PostgresError("55000", "this portal has already run")
            portal.done = True
            rows = portal.source if result.names else None
            self._finish(answer, 0 if answer.copy is None else await self._copy(answer, rows))
            return
        encoder = encode.row_encoder(result.types, portal.formats(len(result.names)))
        sent = await self._send_rows(portal.source, encoder, limit if limit > 0 else None)
        if limit > 0 and sent == limit:
            self.out += messages.PORTAL_SUSPENDED
        else:
            self._finish(answer, sent)

    def _finish(self, answer: StatementResult, sent: int) -> None:
        """Sends changed settings, a notice, and CommandComplete."""
        for name in answer.changed:
            if name in self.settings.reported():
                self.out += messages.parameter_status(name, self.settings.show(name))
        if answer.notice is not None:
            severity = "NOTICE" if answer.notice.code == sqlstate.NOTICE else "WARNING"
            self.out += messages.error_response(answer.notice, severity=severity)
        self.out += messages.command_complete(answer.completion_tag(sent))

    async def _send_rows(self, rows: RowSource, encoder: encode.RowEncoder, most: int | None) -> int:
        """Sends up to `most` rows, as fast as the client takes them; returns their number."""
        sent = 0
        rows.watch.restart()
        self.running = rows.watch
        try:
            while most is None or sent < most:
                left = None if most is None else most - sent
                batch = await self._run_sized(INLINE_LIMIT + 1 if rows.live else 0, partial(rows.take, left))
                if batch is None:
                    break
                for piece in encode.split_batch(batch):
                    cells = piece.num_rows * piece.num_columns
                    self.out += await self._run_sized(cells, partial(encoder, piece))
                    if len(self.out) > FLUSH_BYTES:
                        await self._flush(rows.watch)
                sent += batch.num_rows
        except asyncio.CancelledError:
            rows.watch.cancel()  # the thread runs until its next check
            raise
        finally:
            self.running = None
            rows.watch.pause()
        return sent

    async def _run_cancellable(self, work: Callable[[CancelToken], T], watch: CancelToken | None = None) -> T:
        """Runs a statement in a thread, where `cancel` can stop it."""
        watch = self.running = self.commands.watch() if watch is None else watch
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.shared.gateway.threads, work, watch)
        except asyncio.CancelledError:
            watch.cancel()  # the thread runs until its next check
            raise
        finally:
            self.running = None

    async def _run_sized(self, size: int, work: Callable[[], T]) -> T:
        """Runs work whose time grows with `size`: on the event loop if small, else in a thread."""
        if size <= INLINE_LIMIT:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.shared.gateway.threads, work)

    async def _flush(self, watch: CancelToken | None = None) -> None:
        """Sends the output, and waits until the client has taken most of it or the watch stops the query."""
        if self.out:
            self.writer.write(bytes(self.out))
            self.out.clear()
        while True:
            try:
                async with asyncio.timeout(None if watch is None else CANCEL_CHECK_SECONDS):
                    return await self.writer.drain()
            except TimeoutError:
                if watch is not None:
                    watch.check()
