"""Messages of the PostgreSQL protocol: parses those of clients, and builds those of the server.

A message is one letter, its length (four bytes, which count themselves) and its body. Integers are big-endian, texts end with a
zero byte. Names are those of PostgreSQL's documentation ("Message Formats"):

    Q 00 00 00 0d "SELECT 1" 00              parse_message("Q", body) → QueryMessage("SELECT 1")
    ready_for_query("I")                     Z 00 00 00 05 "I"

The first message of a connection has no letter (`startup.py`). A body that claims to hold more than it does
raises `ProtocolError` before anything is allocated for it: a Bind of "two billion parameters" costs its own 20 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.server.postgres.wire.sqlstate import PostgresError


class ProtocolError(Exception):  # reads as what it is
    """Bytes that are no message. Where the next one begins is unknown, so the connection closes."""


@dataclass(frozen=True)
class QueryMessage:
    """A simple query: statements separated by semicolons."""

    text: str


@dataclass(frozen=True)
class ParseMessage:
    """A statement to prepare, and the types of its parameters (0: the client names none)."""

    name: str
    text: str
    oids: tuple[int, ...]


@dataclass(frozen=True)
class BindMessage:
    """Values for a statement, which make a portal. Formats: 0 text, 1 binary; one may stand for all."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class DescribeMessage:
    """Asks for the columns of a statement (`S`) or a portal (`P`)."""

    target: str
    name: str


@dataclass(frozen=True)
class ExecuteMessage:
    """Asks for at most `limit` rows of a portal; 0: all."""

    portal: str
    limit: int


@dataclass(frozen=True)
class CloseMessage:
    """Closes a statement (`S`) or a portal (`P`)."""

    target: str
    name: str


@dataclass(frozen=True)
class PasswordMessage:
    """A step of the authentication."""

    data: bytes


@dataclass(frozen=True)
class BareMessage:
    """A message whose body is not used.

    `S` Sync, `H` Flush, `X` Terminate, `F` FunctionCall, `c` `d` `f` of COPY.
    """

    kind: str


Message: TypeAlias = (
    QueryMessage
    | ParseMessage
    | BindMessage
    | DescribeMessage
    | ExecuteMessage
    | CloseMessage
    | PasswordMessage
    | BareMessage
)


class _BodyReader:
    """Reads a message body from its beginning."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise ProtocolError("a text has no end")
        data, self.at = self.data[self.at : end], end + 1
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise PostgresError("22021", "the text is not valid UTF-8") from None

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        number: int = struct.unpack(form, self.bytes(size))[0]
        return number

    def bytes(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ProtocolError("a message is shorter than it claims")
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, form: str) -> tuple[int, ...]:
        count = self.number(">H")
        size = struct.calcsize(">" + form)
        return struct.unpack(f">{count}{form}", self.bytes(size * count))

    def end(self) -> None:
        if self.at != len(self.data):
            raise ProtocolError("a message is longer than its contents")


def parse_message(kind: str, data: bytes) -> Message:
    """Parses the body of a message by its letter."""
    body = _BodyReader(data)
    message: Message
    match kind:
        case "Q":
            message = QueryMessage(body.text())
        case "P":
            message = ParseMessage(body.text(), body.text(), body.numbers("I"))
        case "B":
            message = _bind(body)
        case "D" | "C":
            target = body.bytes(1).decode("latin-1")
            if target not in "SP":
                raise ProtocolError(f"cannot describe or close {target!r}")
            message = (
                DescribeMessage(target, body.text()) if kind == "D" else CloseMessage(target, body.text())
            )
        case "E":
            message = ExecuteMessage(body.text(), body.number(">i"))
        case "p":
            return PasswordMessage(data)
        case "d" | "c" | "f" | "F":
            return BareMessage(kind)
        case "S" | "H" | "X":
            message = BareMessage(kind)
        case _:
            raise ProtocolError(f"unknown message {kind!r}")
    body.end()
    return message


def copy_fail_reason(body: bytes) -> str:
    """Returns why the client ends its data of COPY."""
    return body.rstrip(b"\0").decode("utf-8", "replace")[:500]


def _bind(body: _BodyReader) -> BindMessage:
    portal, statement, formats = body.text(), body.text(), body.numbers("h")
    values = []
    for _ in range(body.number(">H")):  # each takes four bytes or more, so a body bounds their number
        size = body.number(">i")
        values.append(None if size == -1 else body.bytes(size))
    return BindMessage(portal, statement, formats, tuple(values), body.numbers("h"))


# ---------------------------------------------------------------- what the server sends


@dataclass(frozen=True)
class ColumnDescription:
    """A column as RowDescription announces it: type OID, width in bytes (-1: it varies), type modifier."""

    name: str
    oid: int
    size: int = -1
    modifier: int = -1
    format: int = 0


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """Builds a message from its letter and body."""
    return kind + struct.pack(">i", len(body) + 4) + body


def null_terminated(value: str) -> bytes:
    """Encodes a text that ends with a zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


PARSE_COMPLETE = frame(b"1")
BIND_COMPLETE = frame(b"2")
CLOSE_COMPLETE = frame(b"3")
EMPTY_QUERY_RESPONSE = frame(b"I")
NO_DATA = frame(b"n")
PORTAL_SUSPENDED = frame(b"s")
AUTHENTICATION_OK = frame(b"R", struct.pack(">i", 0))


def ready_for_query(status: str) -> bytes:
    """ReadyForQuery: `I` idle, `T` in a transaction block, `E` in a failed one."""
    return frame(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    """CommandComplete, with the tag of the statement: `SELECT 3`, `INSERT 0 5`."""
    return frame(b"C", null_terminated(tag))


def parameter_status(name: str, value: str) -> bytes:
    """ParameterStatus: a setting and its value."""
    return frame(b"S", null_terminated(name) + null_terminated(value))


def backend_key_data(pid: int, secret: int) -> bytes:
    """BackendKeyData: what a client needs to cancel a query."""
    return frame(b"K", struct.pack(">II", pid, secret))


def row_description(fields: Sequence[ColumnDescription]) -> bytes:
    """RowDescription: the columns of the rows that follow."""
    body = [struct.pack(">h", len(fields))]
    body.extend(
        null_terminated(field.name)
        + struct.pack(">IhIhih", 0, 0, field.oid, field.size, field.modifier, field.format)
        for field in fields
    )
    return frame(b"T", b"".join(body))


def parameter_description(oids: Sequence[int]) -> bytes:
    """ParameterDescription: the types of a statement's parameters."""
    return frame(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def error_response(error: PostgresError, *, severity: str = "ERROR") -> bytes:
    """ErrorResponse, or with another severity NoticeResponse."""
    fields = {
        "S": severity,
        "V": severity,
        "C": error.code,
        "M": error.message,
        "D": error.detail,
        "H": error.hint,
        "W": error.context,
        "P": None if error.position is None else str(error.position),
        "R": None if error.statement_id is None else f"statement {error.statement_id}",
    }
    body = b"".join(name.encode() + null_terminated(value) for name, value in fields.items() if value)
    return frame(b"E" if severity in ("ERROR", "FATAL") else b"N", body + b"\0")
