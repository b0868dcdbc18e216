"""An HTTP proxy before a real S3 server that spoils answers: the server does the work, and the client is told something else.

| what | the server | the client |
|---|---|---|
| `503`, `500` | does it | is told of an error |
| `drop` | does it | loses the connection |
| `refuse` | is not asked | loses the connection |
| `silence` | does it | hears nothing until it gives up |
| `twice` | does it twice | is told what came of the second request |

Requests are passed on as they came, headers and all, so that their signatures hold.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SPOILS = ("503", "500", "drop", "refuse", "silence", "twice")
SILENCE_S = 1.5


@dataclass
class Spoiling:
    """A proxy that runs."""

    upstream: str
    seed: int
    often: float
    url: str = ""
    spoilt: Counter[str] = field(default_factory=Counter)
    """How often each kind was planted, on requests that change something."""

    def __post_init__(self) -> None:
        self._random, self._lock = random.Random(self.seed), threading.Lock()

    def pick(self, method: str, path: str) -> str:
        """What becomes of this request: the name of a fault, or nothing."""
        with self._lock:
            if self._random.random() >= (
                self.often if method in ("PUT", "POST", "DELETE") else self.often / 4
            ):
                return ""
            kind = self._random.choice(SPOILS)
            if method in ("PUT", "POST", "DELETE"):
                self.spoilt[kind] += 1
            return kind


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    spoiling: Spoiling

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.spoiling.pick(self.command, self.path)
        if kind == "refuse":
            self._hang_up()
            return
        status, headers, data = self._forward(body)
        if kind == "twice":
            status, headers, data = self._forward(body)
        elif kind == "silence":
            time.sleep(SILENCE_S)
            self._hang_up()
            return
        elif kind == "drop":
            self._hang_up()
            return
        elif kind:
            status, headers, data = int(kind), [], b"<Error><Code>InternalError</Code></Error>"
        self._answer(status, headers, data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _handle  # noqa: N815  # as the base class wants them

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        parts = urlsplit(self.spoiling.upstream)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        with suppress(OSError):  # the client may have given up
            self.send_response_only(status)
            length = [value for name, value in headers if name.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length[0] if length and not data else str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def spoiling(upstream: str, seed: int, often: float, kind: type[Spoiling] = Spoiling) -> Iterator[Spoiling]:
    """Runs a proxy before `upstream`, on loopback."""
    state = kind(upstream, seed, often)
    handler = type("Handler", (_Handler,), {"spoiling": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
