"""PostgreSQL whose answers are lost: it did what it was asked, and the client hears nothing, or loses the connection."""

from __future__ import annotations

import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from tests import servers
from tests.unit.storage.deleting import before_entry, run_change
from tests.unit.storage.shards import CONFIG, QUICK, SCHEMA, ids, rows
from tidegate.clock import ManualClock
from tidegate.errors import IndeterminateError
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus import sql
from tidegate.storage.consensus.sql import PostgresConsensus
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.shard.changes import Append, Replace
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard

Spoil = Literal["silence", "drop"]


class Swallowing:
    """A proxy before PostgreSQL's socket that swallows the answer to the next entry of a log."""

    def __init__(self, upstream: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="tidegate-proxy-")
        self.url = f"postgresql://tidegate@/postgres?host={self.folder.name}"
        self.armed: Spoil | None = None
        self.swallowed = 0
        self._upstream = str(Path(upstream.partition("host=")[2], ".s.PGSQL.5432"))
        self._open: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(Path(self.folder.name, ".s.PGSQL.5432")))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in [self._server, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.folder.cleanup()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._upstream)
                self._open += [client, server]
                spoilt = threading.Event()
                threading.Thread(target=self._ask, args=(client, server, spoilt), daemon=True).start()
                threading.Thread(target=self._answer, args=(client, server, spoilt), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, spoilt: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                if self.armed and b"INSERT INTO tidegate_consensus" in data:
                    spoilt.set()
                server.sendall(data)

    def _answer(self, client: socket.socket, server: socket.socket, spoilt: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                if not spoilt.is_set():
                    client.sendall(data)
                    continue
                self.swallowed += 1
                kind, self.armed = self.armed, None
                if kind == "drop":
                    client.shutdown(socket.SHUT_RDWR)
                    return


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Swallowing]:
    try:
        upstream = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")
    monkeypatch.setattr(sql, "ANSWER_S", 0.5)
    running = Swallowing(upstream)
    yield running
    running.close()


@pytest.mark.parametrize("spoil", ["silence", "drop"])
def test_an_answer_that_never_comes_is_indeterminate(proxy: Swallowing, spoil: Spoil) -> None:
    lake = f"{secrets.token_hex(6)}/"
    log = PostgresConsensus(proxy.url, lake)
    assert log.compare_and_set("k", None, b"0")
    proxy.armed = spoil
    with pytest.raises(IndeterminateError):
        log.compare_and_set("k", 0, b"1")
    assert proxy.swallowed
    assert [entry.data for entry in log.scan("k", 0)] == [b"0", b"1"], "it was done"
    log.close()


def _arm_before(shard: Shard, proxy: Swallowing, spoil: Spoil) -> None:
    """The answer to the entry itself is lost, not that to a lease before it."""

    def arm() -> None:
        proxy.armed = spoil

    before_entry(shard, lambda change: isinstance(change, Append | Replace), arm)


@pytest.mark.parametrize("spoil", ["silence", "drop"])
@pytest.mark.parametrize("what", ["append", "compact", "delete", "update", "settle"])
def test_a_commit_whose_answer_is_lost(proxy: Swallowing, spoil: Spoil, what: str) -> None:
    blob, lake = MemoryBlob(), f"{secrets.token_hex(6)}/"
    log = PostgresConsensus(proxy.url, lake)
    shard = Shard.create(Machine(log, blob, "shard/s1", ManualClock(10_000), QUICK), SCHEMA, config=CONFIG)
    for i in range(3):
        shard.append(rows(i))
    if what == "settle":
        shard.append(rows(1), diff=-1)
    if what != "append":
        _arm_before(shard, proxy, spoil)
    match what:
        case "append":
            proxy.armed = spoil
        case "compact":
            compact_shard(shard, full=True)
        case "delete":
            assert run_change(shard, "DELETE FROM t WHERE id = 1") == 1
        case "update":
            assert run_change(shard, "UPDATE t SET id = id + 10 WHERE id = 1") == 1
        case "settle":
            assert settle_retractions(shard) == 1
    shard.append(rows(3))
    assert proxy.swallowed
    direct = PostgresConsensus(servers.postgres(), lake)
    expected = {"delete": [0, 2, 3], "settle": [0, 2, 3], "update": [0, 2, 3, 11]}.get(what, [0, 1, 2, 3])
    assert ids(Shard(Machine(direct, blob, "shard/s1", ManualClock(10_000)))) == expected
    log.close()
    direct.close()
