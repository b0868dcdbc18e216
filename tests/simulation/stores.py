"""The stores that simulations run over, and clocks that jump."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests import servers
from tidegate.clock import ManualClock
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.object_store import ObjectBlob
from tidegate.storage.blob.protocol import Blob, MemoryBlob
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus
from tidegate.storage.consensus.sql import PostgresConsensus, SqliteConsensus

SHARES = {
    "memory": 0.3,
    "log on memory": 0.3,
    "sqlite": 0.15,
    "postgres": 0.1,
    "log on files": 0.1,
    "log on s3": 0.05,
}
"""Of all runs so many are over each store: most where a run takes half a second, few where it takes ten."""


class Jumping:
    """The clock of one process: it goes with the others, and is off by something that changes."""

    def __init__(self, true: ManualClock) -> None:
        self.true, self.off = true, 0

    def now(self) -> int:
        return max(0, self.true.now() + self.off)


@dataclass(frozen=True)
class Stores:
    """Fresh, empty stores, and the clock that they go by."""

    clock: ManualClock
    blob: Blob
    log: Consensus | None
    """None: it is a log in the blob store."""
    folder: str

    @staticmethod
    def open(kind: str) -> Stores:
        """Those of a kind that `SHARES` names."""
        fresh, folder = secrets.token_hex(6), tempfile.mkdtemp(prefix="tidegate-simulation-")
        # Files and buckets have a clock of their own, which no test can move: the others start where it is.
        real = kind in ("log on files", "log on s3")
        clock = ManualClock(time.time_ns() // 1_000_000 if real else 1_000_000)
        match kind:
            case "memory":
                stores: tuple[Blob, Consensus | None] = MemoryBlob(clock), MemoryConsensus()
            case "log on memory":
                stores = MemoryBlob(clock), None
            case "sqlite":
                stores = MemoryBlob(clock), SqliteConsensus(Path(folder, "x.sqlite"))
            case "postgres":
                stores = MemoryBlob(clock), PostgresConsensus(servers.postgres(), f"{fresh}/")
            case "log on files":
                stores = FileBlob(folder), None
            case "log on s3":
                stores = ObjectBlob.open(f"s3://lake/{fresh}", **servers.s3()), None
            case _:
                raise AssertionError(kind)
        return Stores(clock, *stores, folder)

    def close(self) -> None:
        """Removes what is in files."""
        if self.log is not None:
            self.log.close()
        shutil.rmtree(self.folder)
