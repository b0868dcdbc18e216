"""A client that speaks the protocol byte by byte, for what drivers never do."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack(">I", len(body) + 4) + body


def hello(user: str = "ann", **more: str) -> bytes:
    words = {"user": user, "database": "lake", **more}
    body = struct.pack(">I", 3 << 16) + b"".join(f"{k}\0{v}\0".encode() for k, v in words.items()) + b"\0"
    return struct.pack(">I", len(body) + 4) + body


def cancel(port: int, pid: int, secret: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as raw:
        raw.sendall(struct.pack(">IIII", 16, 80877102, pid, secret))
        assert raw.recv(1) == b""


class Wire:
    """A connection, past its hello."""

    def __init__(self, port: int) -> None:
        self.raw = socket.create_connection(("127.0.0.1", port), 30)
        self.raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.raw.makefile("rb")
        self.raw.sendall(hello())
        found = dict(self.until("Z"))
        self.pid, self.secret = struct.unpack(">II", found["K"])

    def read(self) -> tuple[str, bytes]:
        head = self.file.read(5)
        if len(head) < 5:
            raise EOFError
        kind, size = struct.unpack(">cI", head)
        return kind.decode(), self.file.read(size - 4)

    def until(self, last: str) -> list[tuple[str, bytes]]:
        found = [self.read()]
        while found[-1][0] != last:
            found.append(self.read())
        return found

    def rest(self) -> list[tuple[str, bytes]]:
        """All that comes until the other side closes."""
        found = []
        try:
            while True:
                found.append(self.read())
        except (EOFError, ConnectionError):
            return found

    def send(self, data: bytes) -> Self:
        self.raw.sendall(data)
        return self

    def ask(self, sql: str) -> Self:
        return self.send(message("Q", sql.encode() + b"\0"))

    def parse(self, sql: str, name: str = "", oids: tuple[int, ...] = ()) -> Self:
        types = struct.pack(f">H{len(oids)}I", len(oids), *oids)
        return self.send(message("P", f"{name}\0{sql}\0".encode() + types))

    def bind(self, portal: str = "", name: str = "") -> Self:
        return self.send(message("B", f"{portal}\0{name}\0".encode() + struct.pack(">HHH", 0, 0, 0)))

    def describe(self, what: str, name: str = "") -> Self:
        return self.send(message("D", f"{what}{name}\0".encode()))

    def execute(self, portal: str = "", limit: int = 0) -> Self:
        return self.send(message("E", portal.encode() + b"\0" + struct.pack(">i", limit)))

    def sync(self) -> Self:
        return self.send(message("S"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        self.raw.close()
