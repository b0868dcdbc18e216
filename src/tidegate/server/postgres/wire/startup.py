"""The handshake of a connection, before its first query: TLS, authentication, and cancel requests.

    client                              server
    SSLRequest                     →    `S` and a TLS handshake, or `N`
    GSSENCRequest                  →    `N`
    StartupMessage user, database  →    SASL: SCRAM-SHA-256         (or AuthenticationOk at once)
    its nonce; its proof           →    our nonce; our proof
                                   ←    AuthenticationOk, settings, the key for cancelling, ReadyForQuery
    CancelRequest pid, key         →    nothing: the connection closes, whether the key was right or not

All of it must happen within `ConnectionLimits.startup` seconds and in a few kilobytes; a client that sends nothing, or announces a
megabyte, is disconnected. With TLS, only a CancelRequest is accepted unencrypted (drivers do not encrypt it). Bytes that arrive
before the TLS handshake are never read as if they were encrypted (CVE-2021-23222).
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from dataclasses import dataclass
from typing import Any

from tidegate.server.postgres.wire import messages
from tidegate.server.postgres.wire.messages import ProtocolError
from tidegate.server.postgres.wire.scram import (
    MECHANISM,
    AuthenticationFailed,
    PasswordVerifier,
    ScramExchange,
)
from tidegate.server.postgres.wire.sqlstate import PostgresError

_VERSION, _SSL, _GSS, _CANCEL = 3 << 16, 80877103, 80877104, 80877102
MAX_STARTUP_BYTES = 10_000


class CountingReader(asyncio.StreamReader):
    """A stream reader that knows how many bytes have arrived and were not read yet."""

    unread = 0

    def feed_data(self, data: Any) -> None:
        """Takes bytes from the transport."""
        self.unread += len(data)
        super().feed_data(data)

    async def readexactly(self, n: int) -> bytes:
        """Reads `n` bytes; the server reads in no other way."""
        data = await super().readexactly(n)
        self.unread -= n
        return data


@dataclass(frozen=True)
class CancelRequest:
    """A request to cancel the query of another connection."""

    pid: int
    secret: int


@dataclass(frozen=True)
class StartupRequest:
    """The user, the database and the settings that a client connects with."""

    user: str
    database: str
    settings: dict[str, str]


async def read_startup(
    reader: CountingReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext | None
) -> StartupRequest | CancelRequest:
    """Reads the first messages of a connection, and encrypts it if the client asks for TLS."""
    encrypted = False
    for _ in range(4):  # a client may ask for GSS, then for TLS, before its StartupMessage
        size = struct.unpack(">I", await reader.readexactly(4))[0]
        if not 8 <= size <= MAX_STARTUP_BYTES:
            raise ProtocolError("this is not the PostgreSQL protocol")
        body = await reader.readexactly(size - 4)
        code = struct.unpack(">I", body[:4])[0]
        if code == _CANCEL and size == 16:
            return CancelRequest(*struct.unpack(">II", body[4:]))
        if code == _GSS and size == 8:
            writer.write(b"N")
        elif code == _SSL and size == 8 and not encrypted:
            writer.write(b"N" if tls is None else b"S")
            if tls is not None:
                await _start_tls(reader, writer, tls)
                encrypted = True
        elif code >> 16 == 3:
            if tls is not None and not encrypted:
                raise PostgresError("28000", "this server requires TLS", hint="sslmode=require")
            return _parse_startup(writer, code, body[4:])
        else:
            raise ProtocolError("this protocol version is not supported")
    raise ProtocolError("no startup message")


async def _start_tls(reader: CountingReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> None:
    await writer.drain()
    if reader.unread:  # they came unencrypted, perhaps from an attacker in the middle
        raise ProtocolError("data before the TLS handshake")
    await writer.start_tls(tls)


def _parse_startup(writer: asyncio.StreamWriter, code: int, body: bytes) -> StartupRequest:
    try:
        words = body.decode("utf-8").split("\0")
    except UnicodeDecodeError:
        raise ProtocolError("the startup message is not UTF-8") from None
    if words[-2:] != ["", ""] or len(words) % 2:
        raise ProtocolError("the startup message is incomplete")
    settings = dict(zip(words[:-2:2], words[1:-2:2], strict=True))
    unsupported = [name for name in settings if name.startswith("_pq_.")]
    if (
        code != _VERSION or unsupported
    ):  # a newer minor version: answer with the newest that is supported here
        names = b"".join(messages.null_terminated(name) for name in unsupported)
        writer.write(messages.frame(b"v", struct.pack(">II", _VERSION, len(unsupported)) + names))
    user = settings.pop("user", "")
    if not user:
        raise PostgresError("28000", "the startup message names no user")
    database = settings.pop("database", user)
    return StartupRequest(
        user, database, {name: value for name, value in settings.items() if name not in unsupported}
    )


async def authenticate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, verifier: PasswordVerifier | None, user: str
) -> None:
    """Lets the client prove that it knows the password; raises 28P01 if it does not."""
    if verifier is not None:
        writer.write(
            messages.frame(b"R", struct.pack(">i", 10) + messages.null_terminated(MECHANISM) + b"\0")
        )
        exchange = ScramExchange(verifier)
        try:
            name, _, rest = (await _read_sasl_response(reader, writer)).partition(b"\0")
            if name != MECHANISM.encode() or len(rest) < 4:
                raise AuthenticationFailed
            challenge = exchange.first(rest[4:])
            writer.write(messages.frame(b"R", struct.pack(">i", 11) + challenge))
            proof = exchange.final(await _read_sasl_response(reader, writer))
        except AuthenticationFailed:
            raise PostgresError("28P01", f'password authentication failed for user "{user[:60]}"') from None
        writer.write(messages.frame(b"R", struct.pack(">i", 12) + proof))
    writer.write(messages.AUTHENTICATION_OK)


async def _read_sasl_response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    await writer.drain()
    kind, size = struct.unpack(">cI", await reader.readexactly(5))
    if kind != b"p" or not 4 <= size <= MAX_STARTUP_BYTES:
        raise ProtocolError("expected a password message")
    return await reader.readexactly(size - 4)
