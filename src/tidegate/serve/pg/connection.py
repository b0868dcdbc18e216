"""One client: its messages are heard one after the other, and answered.

    reader → pump → inbox → handle → out → writer

The pump reads ahead a few messages while a query runs, so that it sees when the client hangs up: then the query is cancelled, as it
is when somebody brings the key (`cancel`). Statements run in the desk's threads, and so does whatever else takes long; the loop
itself only passes on. Rows are read and made batch by batch, and the next batch waits until the client has taken what was sent:
memory is bounded, whatever a result has and however slowly it is taken. An error in the middle of the rows is told behind them.

An error of a simple query ends its text. One in an extended query is told, and messages are passed over until Sync. Bytes that are
no message end the connection.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from tidegate.expr.types import Type
from tidegate.scan.watch import Watch
from tidegate.serve.desk import Desk
from tidegate.serve.pg import encode, holes, messages, sqlstate
from tidegate.serve.pg.catalog import Catalog, Who
from tidegate.serve.pg.commands import Commands, Stop
from tidegate.serve.pg.extended import Extended, Portal
from tidegate.serve.pg.messages import (
    Ask,
    Bind,
    Broken,
    Close,
    Describe,
    Execute,
    Message,
    Parse,
    Password,
    Plain,
)
from tidegate.serve.pg.own import Answer
from tidegate.serve.pg.rows import Rows, Source, dispose
from tidegate.serve.pg.settings import Settings
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.serve.pg.startup import Hello

T = TypeVar("T")
INBOX = 8
"""Messages that are read ahead."""
SMALL = 4_000
"""Characters, or cells, up to which work is done at once, and not in a thread."""
FLUSH = 1 << 16
LOOK_S = 0.25
"""How often it is looked whether a query was cancelled, or is out of time, whose client takes nothing."""


class House(Protocol):
    """What connections share: see `listen.py`."""

    desk: Desk
    catalog: Catalog

    def hold(self, size: int) -> None:
        """Room for a message; raises `Trouble` if there is none."""
        ...

    def release(self, size: int) -> None:
        """Gives it back."""
        ...

    def body_timeout(self) -> float:
        """Seconds within which all of a message must be there."""
        ...


class Connection:
    """One client, once it said who it is."""

    def __init__(
        self, house: House, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: Hello, pid: int
    ) -> None:
        self.house, self.reader, self.writer, self.pid = house, reader, writer, pid
        self.secret = secrets.randbits(32)
        self.commands = Commands(house.desk.client(), house.catalog, Who(who.user, who.database, pid))
        self.settings: Settings = self.commands.own.settings
        self.extended = Extended(self.commands)
        self.inbox: asyncio.Queue[tuple[str, bytes] | Trouble | None] = asyncio.Queue(INBOX)
        self.out = bytearray()
        self.skipping = False
        self.running: Watch | None = None

    def cancel(self) -> None:
        """Ends the query that runs now, if one does."""
        if self.running is not None:
            self.running.cancel()

    async def run(self, who: Hello) -> None:
        """Until the client goes."""
        self._introduce(who)
        await self._flush()
        pump = asyncio.ensure_future(self._pump())
        try:
            while (got := await self.inbox.get()) is not None:
                if isinstance(got, Trouble):
                    raise got
                try:
                    if not await self._heard(*got):
                        return
                finally:
                    self.house.release(len(got[1]))
        finally:
            self.cancel()
            self.extended.forget(None)
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump
            while not self.inbox.empty():
                left = self.inbox.get_nowait()
                self.house.release(len(left[1]) if isinstance(left, tuple) else 0)

    def _introduce(self, who: Hello) -> None:
        self.commands.own.begin(who.user, who.settings)
        for name, value in self.settings.reported().items():
            self.out += messages.parameter(name, value)
        self.out += messages.key(self.pid, self.secret) + messages.ready("I")

    async def _pump(self) -> None:
        """Reads ahead."""
        try:
            while True:
                kind, size = struct.unpack(">cI", await self.reader.readexactly(5))
                self.house.hold(max(size - 4, 0))
                try:
                    async with asyncio.timeout(self.house.body_timeout()):
                        body = await self.reader.readexactly(size - 4)
                except BaseException:
                    self.house.release(max(size - 4, 0))
                    raise
                await self.inbox.put((kind.decode("latin-1"), body))
        except Trouble as trouble:
            await self.inbox.put(trouble)
        except (OSError, EOFError, ValueError, TimeoutError):
            self.cancel()
            await self.inbox.put(None)

    async def _heard(self, kind: str, body: bytes) -> bool:
        """Answers a message; False: it was goodbye."""
        if kind == "X":
            return False
        if self.skipping and kind != "S":
            return True
        simple = kind in "QF"
        try:
            await self._handle(messages.read(kind, body))
        except (Broken, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever a statement did, the connection goes on
            self.commands.own.failed()
            self.out += messages.told(sqlstate.of(error))
            self.skipping = not simple
            await self._flush()  # a client that sent Flush and no Sync waits for it (asyncpg)
        if simple or kind == "S":
            self.skipping = False
            if self.commands.own.status == "I":
                self.extended.drop()
            self.out += messages.ready(self.commands.own.status)
            await self._flush()
        elif len(self.out) > FLUSH:
            await self._flush()
        return True

    async def _handle(self, message: Message) -> None:
        extended = self.extended
        match message:
            case Ask(text):
                await self._ask(text)
            case Parse():
                await self._think(len(message.text), lambda: extended.parse(message))
                self.out += messages.PARSED
            case Bind():
                extended.bind(message)
                self.out += messages.BOUND
            case Describe("S", name):
                self.out += await self._work(lambda watch: extended.describe_statement(name))
            case Describe(_, name):
                self.out += await self._work(lambda watch: extended.describe_portal(name, watch))
            case Execute(name, limit):
                await self._execute(extended.portal(name), limit)
            case Close(what, name):
                extended.close(what, name)
                self.out += messages.CLOSED
            case Plain("H"):
                await self._flush()
            case Plain("F"):
                raise Trouble("0A000", "function calls are not done here", hint="SELECT f(…)")
            case Password():
                raise Broken("nobody asked for a password")
            case Plain():
                pass  # Sync; and what is left of a COPY that failed

    async def _ask(self, text: str) -> None:
        """A simple query."""
        try:
            pieces = await self._think(len(text), lambda: holes.cut(text))
        except Exception as error:
            raise sqlstate.of(error, text) from error
        if not pieces:
            self.out += messages.EMPTY
        for piece in pieces:
            if any(token.kind == "parameter" for token in piece.tokens):
                raise Trouble("42P02", "there are no values for parameters here", position=piece.start + 1)
            watch = self.commands.watch()
            answer = await self._work(partial(self.commands.answer, piece), watch)
            sent = 0
            if answer.result.names:
                self.out += self.extended.header(answer, None)
                sent = await self._all(answer, watch)
            self._finish(answer, sent)

    async def _all(self, answer: Answer, watch: Stop) -> int:
        """Sends all rows of an answer; how many there were."""
        types, formats = answer.result.types, [0] * len(answer.result.names)
        if answer.rows is not None:
            return await self._sent(answer.rows, types, formats, None)
        rows = Rows(answer.result, watch)
        try:
            return await self._sent(rows, types, formats, None)
        finally:
            dispose(self.house.desk.threads, [rows])

    async def _execute(self, portal: Portal, limit: int) -> None:
        if portal.statement.piece is None:
            self.out += messages.EMPTY
            return
        answer = portal.answer
        if answer is None:  # Describe has not run it
            answer = await self._work(partial(self.extended.run, portal))
        result = answer.result
        if not result.names:
            if portal.done:
                raise Trouble("55000", "this portal was run")
            self._finish(answer, 0)
            portal.done = True
            return
        formats = portal.formats(len(result.names))
        sent = await self._sent(portal.source, result.types, formats, limit if limit > 0 else None)
        if limit > 0 and sent == limit:
            self.out += messages.SUSPENDED
        else:
            self._finish(answer, sent)

    def _finish(self, answer: Answer, sent: int) -> None:
        """What is told at the end of a statement."""
        for name in answer.changed:
            if name in self.settings.reported():
                self.out += messages.parameter(name, self.settings.show(name))
        if answer.notice is not None:
            self.out += messages.told(answer.notice, severity="WARNING")
        self.out += messages.done(answer.ended(sent))

    async def _sent(self, rows: Source, types: Sequence[Type], formats: list[int], most: int | None) -> int:
        """Sends rows as fast as the client takes them, up to a number; how many there were."""
        sent = 0
        rows.watch.restart()
        self.running = rows.watch
        try:
            while most is None or sent < most:
                left = None if most is None else most - sent
                batch = await self._think(SMALL + 1 if rows.live else 0, partial(rows.take, left))
                if batch is None:
                    break
                for piece in encode.slices(batch):
                    cells = piece.num_rows * piece.num_columns
                    self.out += await self._think(cells, partial(encode.rows, piece, types, formats))
                    if len(self.out) > FLUSH:
                        await self._flush(rows.watch)
                sent += batch.num_rows
        except asyncio.CancelledError:
            rows.watch.cancel()  # the thread goes on until it looks
            raise
        finally:
            self.running = None
            rows.watch.pause()
        return sent

    async def _work(self, work: Callable[[Stop], T], watch: Stop | None = None) -> T:
        """A statement, in a thread, which `cancel` ends."""
        watch = self.running = self.commands.watch() if watch is None else watch
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.house.desk.threads, work, watch)
        except asyncio.CancelledError:
            watch.cancel()  # the thread goes on until it looks
            raise
        finally:
            self.running = None

    async def _think(self, size: int, work: Callable[[], T]) -> T:
        """Work that takes longer the larger it is: here if it is small, else in a thread."""
        if size <= SMALL:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.house.desk.threads, work)

    async def _flush(self, watch: Watch | None = None) -> None:
        """Sends what there is, and waits until the client has taken most of it, or until a watch is over."""
        if self.out:
            self.writer.write(bytes(self.out))
            self.out.clear()
        while True:
            try:
                async with asyncio.timeout(None if watch is None else LOOK_S):
                    return await self.writer.drain()
            except TimeoutError:
                if watch is not None:
                    watch.check()
