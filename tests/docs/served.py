"""What pages need beside files: a PostgreSQL, and servers of ours that run behind the commands of a page.

servers.filled("… HOST 'db', PORT 5432, DATABASE 'shop' …")    the same, with a database of the tests
servers.postgres("CREATE TABLE …")                             run there
servers.start(["tidegate", "serve", …])                        until the page ends
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

POSTGRES = re.compile(r"HOST 'db', PORT 5432, DATABASE 'shop', USER '\w+'[^)]*")
"""How pages call the PostgreSQL that they follow."""


class Servers:
    """Those of one page."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._database: Any = None
        self._ports: dict[str, str] = {}

    def _postgres(self) -> Any:
        if self._database is None:
            from tests.ingest.postgres_lab import database

            self._database = self._open.enter_context(database())
        return self._database

    def postgres(self, text: str) -> None:
        """Runs statements there."""
        from tidegate.sql.parse.lexer import split_statements

        self._postgres().run(*split_statements(text))

    def filled(self, text: str) -> str:
        """SQL of ours, with the server of the tests for the one that the page names."""
        if not POSTGRES.search(text):
            return text
        given = self._postgres().connection.options
        options = f"HOST '{given['host']}', DATABASE '{given['database']}', USER '{given['user']}'"
        return POSTGRES.sub(options, text)

    def start(self, words: list[str]) -> None:
        """Starts a server; it is there when its ports answer. Ports of the page become ones that are free."""
        given = [self._free(one) if one in ("8080", "5433") else one for one in words]
        if "--port" not in given:
            given += ["--port", self._free("8080")]
        server = subprocess.Popen([str(Path(sys.executable).parent / given[0]), *given[1:]])
        self._open.callback(_ended, server)
        for port in self._ports.values():
            _wait(int(port), server)

    def _free(self, port: str) -> str:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self._ports[port] = str(s.getsockname()[1])
        return self._ports[port]

    def ports(self, line: str) -> str:
        """A command, with the ports that servers of this page really have."""
        for said, real in self._ports.items():
            line = re.sub(rf"\b{said}\b", real, line)
        return line

    def close(self) -> None:
        """Ends them."""
        self._open.close()


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start at port {port}") from None
            time.sleep(0.05)
        else:
            return


def _ended(server: subprocess.Popen[bytes]) -> None:
    os.kill(server.pid, 15)
    server.wait(30)
