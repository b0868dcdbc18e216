"""The port: who may come in, how many, and what they share.

    server = PgServer(desk, host="127.0.0.1", port=0, password="…", tls=None)
    await server.start(); server.port; await server.close()

A client is believed nothing: see `Limits`. Each limit ends the connection that goes beyond it, with a message if there is still
somebody to tell, and no other connection notices.

| somebody | sees |
|---|---|
| sends garbage, or says that two gigabytes follow | the connection closes |
| connects and says nothing | the connection closes after `startup` seconds |
| begins a message and never ends it | likewise after `body` seconds |
| connects a thousand times and says nothing | the oldest of more than `strangers` closes; clients get in between |
| comes when `connections` others are there | "too many clients" |
| sends large messages from many connections | "out of memory", when all of them together hold more than `held` |
| pulls the plug | TCP's keep-alive finds out, and what was asked is cancelled |
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

from tidegate.serve.desk import Desk
from tidegate.serve.pg import messages, sqlstate
from tidegate.serve.pg.catalog import Catalog
from tidegate.serve.pg.connection import Connection
from tidegate.serve.pg.messages import Broken
from tidegate.serve.pg.scram import Secret
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.serve.pg.startup import Cancel, hello, prove

log = logging.getLogger("tidegate.serve.pg")


@dataclass(frozen=True)
class Limits:
    """What one client, or all of them, may ask of the server before a statement even runs."""

    connections: int = 200
    """Clients that have said who they are."""
    strangers: int = 100
    """Connections that have not, yet. One more, and the oldest of them goes: a crowd that says nothing keeps nobody out."""
    startup: float = 15.0
    """Seconds from the first byte to the last of the password."""
    body: float = 60.0
    """Seconds that a message may take once it began."""
    message: int = 16 << 20
    """Bytes of one message."""
    held: int = 256 << 20
    """Bytes of all messages that are being received or answered."""


class PgServer:
    """Speaks PostgreSQL's protocol for a desk, on the loop that starts it."""

    def __init__(
        self,
        desk: Desk,
        *,
        host: str,
        port: int,
        password: str | None,
        tls: ssl.SSLContext | None,
        limits: Limits | None = None,
    ) -> None:
        self.desk, self.host, self.port, self.tls = desk, host, port, tls
        self.limits = limits or Limits()
        self.catalog = Catalog()
        self.connections: dict[int, Connection] = {}
        self._secret = None if password is None else Secret.of(password)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers: dict[asyncio.Task[None], None] = {}
        """Connections that have not said who they are, the oldest first."""
        self._closing = False
        self._held = 0
        self._last = 0

    async def start(self) -> None:
        """Listens; `port` is then the one that was found, if 0 was asked for."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Ends every connection, and cancels what they ask."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self.catalog.close()

    def hold(self, size: int) -> None:
        """Room for a message."""
        if size > self.limits.message:
            raise Trouble(
                "54000",
                f"a message of {size:,} bytes is too long",
                hint=f"{self.limits.message:,} is the most",
            )
        if self._held + size > self.limits.held:
            raise Trouble("53200", "the server holds too many messages", hint="try again")
        self._held += size

    def release(self, size: int) -> None:
        """Gives it back."""
        self._held -= size

    def body_timeout(self) -> float:
        """Seconds within which all of a message must be there."""
        return self.limits.body

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            self._strangers[task] = None
            if len(self._strangers) > self.limits.strangers:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                oldest.cancel()
            await self._serve(reader, writer, task)
        except Trouble as trouble:
            told = {"peer": writer.get_extra_info("peername"), "sqlstate": trouble.code}
            log.warning("a client was shown the door", extra={"tidegate": told})
            writer.write(messages.told(trouble, severity="FATAL"))
        except Broken as broken:
            writer.write(messages.told(Trouble("08P01", str(broken)), severity="FATAL"))
        except (OSError, EOFError, TimeoutError):  # ssl.SSLError is an OSError
            pass
        except asyncio.CancelledError:
            if self._closing:
                writer.write(messages.told(Trouble("57P01", "the server shuts down"), severity="FATAL"))
        except Exception as error:  # noqa: BLE001  # one client's trouble is nobody else's
            writer.write(messages.told(sqlstate.of(error), severity="FATAL"))
        finally:
            self._tasks.discard(task)
            self._strangers.pop(task, None)
            await _closed(writer)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        _keep_alive(writer)
        async with asyncio.timeout(self.limits.startup):
            who = await hello(reader, writer, self.tls)
            if isinstance(who, Cancel):
                return self._cancel(who)
            if len(self.connections) >= self.limits.connections:
                raise Trouble("53300", "too many clients are here already", hint="try again")
            await prove(reader, writer, self._secret, who.user)
        self._strangers.pop(task, None)
        pid = self._next()
        connection = self.connections[pid] = Connection(self, reader, writer, who, pid)
        try:
            await connection.run(who)
        finally:
            del self.connections[pid]

    def _next(self) -> int:
        while True:
            self._last = self._last % 0x7FFFFFFF + 1
            if self._last not in self.connections:
                return self._last

    def _cancel(self, asked: Cancel) -> None:
        found = self.connections.get(asked.pid)
        key = b"" if found is None else found.secret.to_bytes(4, "big")
        if found is not None and hmac.compare_digest(key, asked.secret.to_bytes(4, "big")):
            found.cancel()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Has the machine find out when a client is gone without a word."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Closes a connection: within a second politely, then at once."""
    with suppress(OSError, TimeoutError, asyncio.CancelledError):
        writer.close()
        async with asyncio.timeout(1):
            await writer.wait_closed()
    transport = writer.transport
    if transport is not None:
        transport.abort()
