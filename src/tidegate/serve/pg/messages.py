"""The bytes of the protocol: what a client sends becomes a message, what we say becomes bytes.

A message is one letter, its length (four bytes, which count themselves) and its body. Integers are big-endian, texts end with a
zero byte:

    Q 00 00 00 0d "SELECT 1" 00              read("Q", body) → Ask("SELECT 1")
    ready("I")                               Z 00 00 00 05 "I"

The first message of a connection has no letter (`startup.py`). A body that says it holds more than it does is `Broken`, before
anything is allocated for what it claims: a Bind of "two billion parameters" costs its own 20 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.serve.pg.sqlstate import Trouble


class Broken(Exception):  # noqa: N818  # reads as what it is
    """What the client sent is no message. There is no telling where the next one begins, so the connection ends."""


@dataclass(frozen=True)
class Ask:
    """A simple query: statements with semicolons between."""

    text: str


@dataclass(frozen=True)
class Parse:
    """A statement to prepare, with the types of its parameters as far as the client knows them (0: not)."""

    name: str
    text: str
    oids: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    """Values for a statement: a portal comes of it. A format is 0 for text, 1 for binary; one may stand for all."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Describe:
    """What columns does a statement (`S`) or a portal (`P`) have?"""

    what: str
    name: str


@dataclass(frozen=True)
class Execute:
    """Up to so many rows of a portal; 0: all."""

    portal: str
    limit: int


@dataclass(frozen=True)
class Close:
    """Forget a statement (`S`) or a portal (`P`)."""

    what: str
    name: str


@dataclass(frozen=True)
class Password:
    """A step of the password's proof; the mechanism makes sense of it."""

    data: bytes


@dataclass(frozen=True)
class Plain:
    """A message that is its letter alone: `S` sync, `H` flush, `X` goodbye, `c`, `d`, `f` of a COPY, `F` a function call."""

    kind: str


Message: TypeAlias = Ask | Parse | Bind | Describe | Execute | Close | Password | Plain


class _Body:
    """A body, read from its beginning."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise Broken("a text does not end")
        found, self.at = self.data[self.at : end], end + 1
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            raise Trouble("22021", "the text is not valid UTF-8") from None

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        number: int = struct.unpack(form, self.bytes(size))[0]
        return number

    def bytes(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Broken("a message ends too soon")
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, form: str) -> tuple[int, ...]:
        count = self.number(">H")
        size = struct.calcsize(">" + form)
        return struct.unpack(f">{count}{form}", self.bytes(size * count))

    def end(self) -> None:
        if self.at != len(self.data):
            raise Broken("a message is longer than what it holds")


def read(kind: str, data: bytes) -> Message:
    """The message of a letter and a body."""
    body = _Body(data)
    found: Message
    match kind:
        case "Q":
            found = Ask(body.text())
        case "P":
            found = Parse(body.text(), body.text(), body.numbers("I"))
        case "B":
            found = _bind(body)
        case "D" | "C":
            what = body.bytes(1).decode("latin-1")
            if what not in "SP":
                raise Broken(f"there is nothing called {what!r} to describe or close")
            found = Describe(what, body.text()) if kind == "D" else Close(what, body.text())
        case "E":
            found = Execute(body.text(), body.number(">i"))
        case "p":
            return Password(data)
        case "d" | "c" | "f" | "F":
            return Plain(kind)
        case "S" | "H" | "X":
            found = Plain(kind)
        case _:
            raise Broken(f"there is no message {kind!r}")
    body.end()
    return found


def _bind(body: _Body) -> Bind:
    portal, statement, formats = body.text(), body.text(), body.numbers("h")
    values = []
    for _ in range(body.number(">H")):  # each takes at least four bytes, and a body has as many as it has
        size = body.number(">i")
        values.append(None if size == -1 else body.bytes(size))
    return Bind(portal, statement, formats, tuple(values), body.numbers("h"))


# ---------------------------------------------------------------- what we say


@dataclass(frozen=True)
class Field:
    """A column, as rows are announced: its type by number, its width in bytes (-1: it varies), what refines it."""

    name: str
    oid: int
    size: int = -1
    modifier: int = -1
    format: int = 0


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of ours."""
    return kind + struct.pack(">i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A text that ends with a zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


PARSED = message(b"1")
BOUND = message(b"2")
CLOSED = message(b"3")
EMPTY = message(b"I")
NO_DATA = message(b"n")
SUSPENDED = message(b"s")
AUTHENTICATED = message(b"R", struct.pack(">i", 0))


def ready(status: str) -> bytes:
    """We wait: `I` idle, `T` in what the client thinks is a transaction, `E` in one that failed."""
    return message(b"Z", status.encode())


def done(tag: str) -> bytes:
    """A statement is through: `SELECT 3`, `INSERT 0 5`."""
    return message(b"C", text(tag))


def parameter(name: str, value: str) -> bytes:
    """A setting that clients like to know."""
    return message(b"S", text(name) + text(value))


def key(pid: int, secret: int) -> bytes:
    """What a client must know to cancel a query."""
    return message(b"K", struct.pack(">II", pid, secret))


def columns(fields: Sequence[Field]) -> bytes:
    """Rows will follow, of these columns."""
    body = [struct.pack(">h", len(fields))]
    body.extend(
        text(one.name) + struct.pack(">IhIhih", 0, 0, one.oid, one.size, one.modifier, one.format)
        for one in fields
    )
    return message(b"T", b"".join(body))


def parameters(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def told(trouble: Trouble, *, severity: str = "ERROR") -> bytes:
    """An error, or with another severity a notice."""
    fields = {
        "S": severity,
        "V": severity,
        "C": trouble.code,
        "M": trouble.message,
        "D": trouble.detail,
        "H": trouble.hint,
        "P": None if trouble.position is None else str(trouble.position),
    }
    body = b"".join(name.encode() + text(value) for name, value in fields.items() if value)
    return message(b"E" if severity in ("ERROR", "FATAL") else b"N", body + b"\0")
