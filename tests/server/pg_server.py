"""A server of the PostgreSQL protocol for tests: in a thread with a loop of its own, on loopback, at a port that is free."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import tidegate
from tidegate.config import Config
from tidegate.server.gateway import Gateway
from tidegate.server.postgres.listener import ConnectionLimits, PostgresServer


@dataclass
class Serving:
    """A running server."""

    db: tidegate.Database
    server: PostgresServer
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return self.server.port

    def conninfo(self, **more: object) -> str:
        words = {"host": "127.0.0.1", "port": self.port, "user": "ann", "dbname": "lake", **more}
        return " ".join(f"{name}={value}" for name, value in words.items())

    @property
    def busy(self) -> bool:
        """Whether a statement runs now."""
        return any(one.running is not None for one in list(self.server.connections.values()))

    def wait_until(self, busy: bool) -> None:
        wait(lambda: self.busy is busy)


def wait(done: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.005)


@contextmanager
def serving(
    db: tidegate.Database,
    *,
    write: bool = True,
    password: str | None = None,
    tls: ssl.SSLContext | None = None,
    limits: ConnectionLimits | None = None,
) -> Iterator[Serving]:
    """Serves while the block runs."""
    gateway = Gateway(db, write=write)
    started, found = threading.Event(), list[Serving]()
    stop: list[asyncio.Event] = []

    async def main() -> None:
        server = PostgresServer(gateway, host="127.0.0.1", port=0, password=password, tls=tls, limits=limits)
        await server.start()
        stop.append(asyncio.Event())
        found.append(Serving(db, server, asyncio.get_running_loop()))
        started.set()
        await stop[0].wait()
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(30)
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(stop[0].set)
        thread.join(30)
        gateway.close()
        assert not thread.is_alive()


def psql(
    at: Serving, *commands: str, stdin: str | None = None, flags: tuple[str, ...] = (), **more: object
) -> subprocess.CompletedProcess[str]:
    """Runs psql with commands, one after the other."""
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    words = ["psql", "-X", *flags, at.conninfo(**more)]
    for one in commands:
        words += ["-c", one]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return subprocess.run(
        words, input=stdin, capture_output=True, text=True, timeout=60, env=env, check=False
    )


SLOW = "SELECT count(*) FROM big WHERE " + "md5(" * 60 + "s" + ")" * 60 + " = 'x'"
"""Many seconds of work; it can be stopped between parts, of which there are a hundred."""


@contextmanager
def shop() -> Iterator[Serving]:
    """A server of a small table `orders` and of `big`, which takes long to read."""
    with tidegate.open("memory://", config=Config(batch_rows=2_000, read_threads=1)) as db:
        db.sql("CREATE TABLE orders (id int8 NOT NULL, name text, price numeric(10,2))")
        db.sql("INSERT INTO orders VALUES (1, 'ham', 1.50), (2, 'eggs', 2.25), (3, 'O''Neill', NULL)")
        db.sql("CREATE TABLE big (s text)")
        for part in range(100):
            db.append("big", {"s": [f"row {part * 3_000 + i}" for i in range(3_000)]})
        with serving(db) as found:
            yield found
