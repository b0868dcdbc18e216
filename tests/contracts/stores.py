"""Every implementation of the two protocols, made fresh for each test, and again in other processes.

A store is named by a picklable recipe, so that a race can open it in eight processes at once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import servers
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.object_store import ObjectBlob
from tidegate.storage.blob.protocol import Blob, MemoryBlob
from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus
from tidegate.storage.consensus.sql import PostgresConsensus, SqliteConsensus

BLOBS = ("memory", "files", "s3")
LOGS = ("memory", "sqlite", "postgres", "log on memory", "log on files", "log on s3")


@dataclass(frozen=True)
class Recipe:
    """How to open one store, here or in another process."""

    kind: str
    place: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def shared(self) -> bool:
        """Whether other processes see it."""
        return "memory" not in self.kind

    def blob(self) -> Blob:
        match self.kind.removeprefix("log on "):
            case "memory":
                return MemoryBlob()
            case "files":
                return FileBlob(self.place)
            case _:
                return ObjectBlob.open(self.place, **dict(self.options))

    def consensus(self) -> Consensus:
        match self.kind:
            case "memory":
                return MemoryConsensus()
            case "sqlite":
                return SqliteConsensus(Path(self.place, "consensus.sqlite"))
            case "postgres":
                return PostgresConsensus(self.place, lake=dict(self.options)["lake"])
            case _:
                return LogConsensus(self.blob())


def recipe(kind: str, folder: Path) -> Recipe:
    """A new, empty store of that kind; skipped by name where its server is not to be had."""
    fresh = secrets.token_hex(6)
    try:
        if kind.endswith("s3"):
            return Recipe(kind, f"s3://lake/{fresh}", tuple(servers.s3().items()))
        if kind == "postgres":
            return Recipe(kind, servers.postgres(), (("lake", f"{fresh}/"),))
    except servers.Missing as missing:
        pytest.skip(f"{kind}: {missing} is not installed")
    return Recipe(kind, str(folder / fresh))
