"""From the first byte of a connection to its first question: TLS, the password, and what the server is like.

    client                              server
    SSLRequest                     →    `S` and a handshake, or `N`
    GSSENCRequest                  →    `N`
    StartupMessage user, database  →    SASL: SCRAM-SHA-256         (or at once: welcome)
    its nonce; its proof           →    our nonce; our proof
                                   ←    welcome, settings, the key for cancelling, ready
    CancelRequest pid, key         →    nothing: the connection closes, whether the key was right or not

All of it must happen within `Limits.startup` seconds and in a few kilobytes: whoever opens a connection and says nothing, or says
that a megabyte follows, is shown the door. Where there is TLS, nothing but a CancelRequest is heard without it (what drivers
of today send to cancel is not encrypted); and bytes that came before the handshake are not taken for what came after it.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from dataclasses import dataclass

from tidegate.serve.pg import messages
from tidegate.serve.pg.messages import Broken
from tidegate.serve.pg.scram import MECHANISM, Exchange, Refused, Secret
from tidegate.serve.pg.sqlstate import Trouble

_VERSION, _SSL, _GSS, _CANCEL = 3 << 16, 80877103, 80877104, 80877102
MAX_STARTUP = 10_000


@dataclass(frozen=True)
class Cancel:
    """Somebody wants a query of another connection to end."""

    pid: int
    secret: int


@dataclass(frozen=True)
class Hello:
    """Who is there, with which settings."""

    user: str
    database: str
    settings: dict[str, str]


async def hello(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext | None
) -> Hello | Cancel:
    """Hears who is there."""
    encrypted = False
    for _ in range(4):  # a client may ask for GSS, then for TLS, and then says hello
        size = struct.unpack(">I", await reader.readexactly(4))[0]
        if not 8 <= size <= MAX_STARTUP:
            raise Broken("this is no client of PostgreSQL")
        body = await reader.readexactly(size - 4)
        code = struct.unpack(">I", body[:4])[0]
        if code == _CANCEL and size == 16:
            return Cancel(*struct.unpack(">II", body[4:]))
        if code == _GSS and size == 8:
            writer.write(b"N")
        elif code == _SSL and size == 8 and not encrypted:
            writer.write(b"N" if tls is None else b"S")
            if tls is not None:
                await _handshake(reader, writer, tls)
                encrypted = True
        elif code >> 16 == 3:
            if tls is not None and not encrypted:
                raise Trouble("28000", "this server wants TLS", hint="sslmode=require")
            return _greeting(writer, code, body[4:])
        else:
            raise Broken("a protocol that is not spoken here")
    raise Broken("no hello")


async def _handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> None:
    await writer.drain()
    if reader._buffer:  # type: ignore[attr-defined]  # what lies there came unencrypted, and whoever sent it
        raise Broken("bytes before the handshake")
    await writer.start_tls(tls)


def _greeting(writer: asyncio.StreamWriter, code: int, body: bytes) -> Hello:
    try:
        words = body.decode("utf-8").split("\0")
    except UnicodeDecodeError:
        raise Broken("a hello that is not UTF-8") from None
    if words[-2:] != ["", ""] or len(words) % 2:
        raise Broken("a hello that does not end")
    given = dict(zip(words[:-2:2], words[1:-2:2], strict=True))
    strange = [name for name in given if name.startswith("_pq_.")]
    if code != _VERSION or strange:  # a newer minor version: we say which is the newest we know
        names = b"".join(messages.text(name) for name in strange)
        writer.write(messages.message(b"v", struct.pack(">II", _VERSION, len(strange)) + names))
    user = given.pop("user", "")
    if not user:
        raise Trouble("28000", "a client must say the name of its user")
    database = given.pop("database", user)
    return Hello(user, database, {name: value for name, value in given.items() if name not in strange})


async def prove(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: Secret | None, user: str
) -> None:
    """Has the client prove that it knows the password."""
    if secret is not None:
        wrong = Trouble("28P01", f'the password of user "{user[:60]}" is wrong')
        writer.write(messages.message(b"R", struct.pack(">i", 10) + messages.text(MECHANISM) + b"\0"))
        exchange = Exchange(secret)
        try:
            name, _, rest = (await _answer(reader, writer)).partition(b"\0")
            if name != MECHANISM.encode() or len(rest) < 4:
                raise Refused
            said = exchange.first(rest[4:])
            writer.write(messages.message(b"R", struct.pack(">i", 11) + said))
            said = exchange.final(await _answer(reader, writer))
        except Refused:
            raise wrong from None
        writer.write(messages.message(b"R", struct.pack(">i", 12) + said))
    writer.write(messages.AUTHENTICATED)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    await writer.drain()
    kind, size = struct.unpack(">cI", await reader.readexactly(5))
    if kind != b"p" or not 4 <= size <= MAX_STARTUP:
        raise Broken("no password")
    return await reader.readexactly(size - 4)
