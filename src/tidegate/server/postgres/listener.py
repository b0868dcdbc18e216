"""The PostgreSQL port: accepts connections, enforces limits, and delivers cancel requests.

    server = PostgresServer(gateway, host="127.0.0.1", port=0, password="…", tls=None)
    await server.start(); server.port; await server.close()

The server trusts no client. Exceeding a limit (`ConnectionLimits`) closes that connection, with a message if the client still
listens, and affects no other connection.

| a client that | sees |
|---|---|
| sends garbage, or announces two gigabytes | the connection closes |
| connects and sends nothing | the connection closes after `startup` seconds |
| begins a message and never ends it | the connection closes after `body` seconds |
| opens a thousand connections and sends nothing | the oldest beyond `unauthenticated` closes; other clients still get in |
| connects while `connections` others are open | "too many connections" |
| sends large messages on many connections | "too many messages", when all of them together hold more than `held` bytes |
| loses its network | TCP keep-alive notices, and its query is cancelled |
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

from tidegate.logs import ids
from tidegate.server.gateway import Gateway
from tidegate.server.postgres.connection import ClientConnection
from tidegate.server.postgres.wire import messages, sqlstate
from tidegate.server.postgres.wire.messages import ProtocolError
from tidegate.server.postgres.wire.scram import PasswordVerifier
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.server.postgres.wire.startup import CancelRequest, CountingReader, authenticate, read_startup
from tidegate.statements.postgres_catalog import PostgresCatalog

log = logging.getLogger("tidegate.server.postgres")


@dataclass(frozen=True)
class ConnectionLimits:
    """What clients may use of the server before a statement runs."""

    connections: int = 200
    """Connections that completed the handshake."""
    unauthenticated: int = 100
    """Connections in the handshake. One more closes the oldest, so that silent connections keep nobody out."""
    startup: float = 15.0
    """Seconds for the whole handshake, password included."""
    body: float = 60.0
    """Seconds from the first byte of a message to its last."""
    message: int = 16 << 20
    """Bytes of one message."""
    held: int = 256 << 20
    """Bytes of all messages that are being received or answered, together."""


class PostgresServer:
    """Serves the PostgreSQL protocol for a gateway, on the event loop that starts it."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        host: str,
        port: int,
        password: str | None,
        tls: ssl.SSLContext | None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.gateway, self.host, self.port, self.tls = gateway, host, port, tls
        self.limits = limits or ConnectionLimits()
        self.catalog = PostgresCatalog.of(gateway.db.context)
        self.connections: dict[int, ClientConnection] = {}
        self._verifier = None if password is None else PasswordVerifier.of(password)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unauthenticated: dict[asyncio.Task[None], None] = {}
        """Connections in the handshake, the oldest first."""
        self._closing = False
        self._held = 0
        self._last_pid = 0

    async def start(self) -> None:
        """Opens the port; `port` is then the one in use, where 0 asked for any."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(CountingReader(), self._accept)

    async def close(self) -> None:
        """Closes every connection and cancels their queries."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def hold(self, size: int) -> None:
        """Reserves memory for a message; raises if there is none left."""
        if size > self.limits.message:
            raise PostgresError(
                "54000",
                f"a message of {size:,} bytes is too long",
                hint=f"the limit is {self.limits.message:,} bytes",
            )
        if self._held + size > self.limits.held:
            raise PostgresError("53200", "the server holds too many messages", hint="try again later")
        self._held += size

    def release(self, size: int) -> None:
        """Returns the memory of a message."""
        self._held -= size

    def body_timeout(self) -> float:
        """Seconds within which a message must arrive whole."""
        return self.limits.body

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection from its first byte to its last."""
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(reader, CountingReader)
        self._tasks.add(task)
        try:
            self._unauthenticated[task] = None
            if len(self._unauthenticated) > self.limits.unauthenticated:
                oldest = next(iter(self._unauthenticated))
                del self._unauthenticated[oldest]
                oldest.cancel()
            await self._serve(reader, writer, task)
        except PostgresError as error:
            fields = {"peer": writer.get_extra_info("peername"), "sqlstate": error.code}
            log.warning("a client was disconnected", extra={"tidegate": fields})
            writer.write(messages.error_response(error, severity="FATAL"))
        except ProtocolError as error:
            writer.write(messages.error_response(PostgresError("08P01", str(error)), severity="FATAL"))
        except (OSError, EOFError, TimeoutError):  # ssl.SSLError is an OSError
            pass
        except asyncio.CancelledError:
            if self._closing:
                writer.write(
                    messages.error_response(
                        PostgresError("57P01", "the server is shutting down"), severity="FATAL"
                    )
                )
        except Exception as error:  # noqa: BLE001  # one connection's failure stays its own
            writer.write(messages.error_response(sqlstate.to_postgres_error(error), severity="FATAL"))
        finally:
            self._tasks.discard(task)
            self._unauthenticated.pop(task, None)
            await _close(writer)

    async def _serve(
        self, reader: CountingReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        _enable_keep_alive(writer)
        async with asyncio.timeout(self.limits.startup):
            request = await read_startup(reader, writer, self.tls)
            if isinstance(request, CancelRequest):
                return self._cancel(request)
            if len(self.connections) >= self.limits.connections:
                raise PostgresError("53300", "too many connections", hint="try again later")
            await authenticate(reader, writer, self._verifier, request.user)
        self._unauthenticated.pop(task, None)
        pid = self._next_pid()
        connection = self.connections[pid] = ClientConnection(self, reader, writer, request, pid)
        with ids(session=connection.commands.lake.session_id):
            log.info(
                "connected",
                extra={"tidegate": {"pid": pid, "user": request.user, "database": request.database}},
            )
            try:
                await connection.run(request)
            finally:
                del self.connections[pid]
                log.info("disconnected", extra={"tidegate": {"pid": pid}})

    def _next_pid(self) -> int:
        while True:
            self._last_pid = self._last_pid % 0x7FFFFFFF + 1
            if self._last_pid not in self.connections:
                return self._last_pid

    def _cancel(self, request: CancelRequest) -> None:
        connection = self.connections.get(request.pid)
        key = b"" if connection is None else connection.secret.to_bytes(4, "big")
        if connection is not None and hmac.compare_digest(key, request.secret.to_bytes(4, "big")):
            connection.cancel()


def _enable_keep_alive(writer: asyncio.StreamWriter) -> None:
    """Lets TCP notice when a client has vanished without closing its connection."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection: gracefully within a second, then by force."""
    with suppress(OSError, TimeoutError, asyncio.CancelledError):
        writer.close()
        async with asyncio.timeout(1):
            await writer.wait_closed()
    transport = writer.transport
    if transport is not None:
        transport.abort()
