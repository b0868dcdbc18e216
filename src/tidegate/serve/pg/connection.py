"""One client: its messages are heard one after the other, and answered.

    reader → pump → inbox → handle → out → writer

The pump reads ahead a few messages while a query runs, so that it sees when the client hangs up: then the query is cancelled, as it
is when somebody brings the key (`cancel`). Statements run in the desk's threads, and so does whatever else takes long; the loop
itself only passes on. Rows are made batch by batch, and the next batch waits until the client has taken what was sent.

An error of a simple query ends its text. One in an extended query is told, and messages are passed over until Sync. Bytes that are
no message end the connection.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeVar

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
from tidegate.serve.pg.settings import Settings
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.serve.pg.startup import Hello

T = TypeVar("T")
INBOX = 8
"""Messages that are read ahead."""
SMALL = 4_000
"""Characters, or cells, up to which work is done at once, and not in a thread."""
FLUSH = 1 << 16


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
        self.running: Stop | None = None

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
                self.extended.portals.clear()
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
            answer = await self._work(lambda watch, piece=piece: self.commands.answer(piece, watch))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            if answer.result.names:
                self.out += self.extended.header(answer, None)
                await self._send(answer, [0] * len(answer.result.names), 0, None)
            self._finish(answer)

    async def _execute(self, portal: Portal, limit: int) -> None:
        if portal.statement.piece is None:
            self.out += messages.EMPTY
            return
        answer = portal.answer
        if answer is None:  # Describe has not run it
            answer = await self._work(lambda watch: self.extended.run(portal, watch))
        result = answer.result
        if not result.names:
            if portal.at:
                raise Trouble("55000", "this portal was run")
            self._finish(answer)
            portal.at = 1
            return
        stop = min(portal.at + limit, len(result)) if limit > 0 else len(result)
        sent = stop - portal.at
        await self._send(answer, portal.formats(len(result.names)), portal.at, stop)
        portal.at = stop
        if stop < len(result) or (limit > 0 and sent == limit):
            self.out += messages.SUSPENDED
        else:
            tag = f"SELECT {sent}" if answer.tag.startswith("SELECT") else answer.tag
            self._finish(replace(answer, tag=tag))
            portal.emptied()

    def _finish(self, answer: Answer) -> None:
        """What is told at the end of a statement."""
        for name in answer.changed:
            if name in self.settings.reported():
                self.out += messages.parameter(name, self.settings.show(name))
        if answer.notice is not None:
            self.out += messages.told(answer.notice, severity="WARNING")
        self.out += messages.done(answer.tag)

    async def _send(self, answer: Answer, formats: list[int], start: int, stop: int | None) -> None:
        """Rows, as fast as the client takes them."""
        result = answer.result
        for at in encode.batches(result.columns, start, stop):
            cells = (at.stop - at.start) * len(result.names)
            self.out += await self._think(
                cells,
                lambda at=at: encode.rows(result.columns, result.types, formats, at),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            if len(self.out) > FLUSH:
                await self._flush()

    async def _work(self, work: Callable[[Stop], T]) -> T:
        """A statement, in a thread, which `cancel` ends."""
        watch = self.running = self.commands.watch()
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

    async def _flush(self) -> None:
        if self.out:
            self.writer.write(bytes(self.out))
            self.out.clear()
        await self.writer.drain()
