"""Where a database is: a URL → the stores that hold it.

| URL | blobs | metadata |
|---|---|---|
| `lake`, `/data/lake`, `file:///data/lake` | files below the folder | SQLite in the folder |
| `s3://bucket/lake`, `gs://…`, `az://…` | objects below the prefix | numbered objects in the bucket itself |
| any of them `?metadata=postgresql://host/db` | the same | PostgreSQL |
| a folder `?metadata=log` | the same | numbered files in the folder |
| `memory://`, `memory://name` | a dictionary | a dictionary; with a name, the same one each time in this process |

Other options after the `?` of a bucket are obstore's: `endpoint`, `region`, `access_key_id`, …; those that are not given come from
the environment. A metadata URL has a `?` and `&` of its own, so it comes last and takes everything that follows; or it is
percent-encoded, and may come anywhere:

    s3://bucket/lake?region=eu-west-1&metadata=postgresql://me@db/meta?sslmode=require&application_name=tidegate
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from tidegate import fork
from tidegate.errors import StoreError
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.object_store import OBJECT_SCHEMES, ObjectBlob
from tidegate.storage.blob.protocol import Blob, MemoryBlob
from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus
from tidegate.storage.consensus.sql import PostgresConsensus, SqliteConsensus

Metadata = Literal["memory", "sqlite", "postgres", "log"]
SQLITE_FILE = "metadata.sqlite"
_POSTGRES = ("postgresql://", "postgres://")

_MEMORY_DATABASES: dict[str, Location] = {}
"""Registry of the named databases in memory."""
_memory_lock = fork.lock()


@dataclass(frozen=True)
class RootIdentity:
    """Identifies the root object by properties that a copy does not have."""

    url: str
    """The folder, without links; or the bucket and prefix."""
    changed: int
    """When it was last changed, by the store: no copy has the same time."""
    inode: int = 0
    """The number of its file; 0: it is in no file."""

    def is_same(self, other: RootIdentity) -> bool:
        """Whether it is still the same object.

        It is if the owner of the file changed, or if the file system numbers its files anew.
        """
        same_file = self.inode == other.inode != 0
        return self.url == other.url and (self.changed == other.changed or same_file)


@dataclass(frozen=True)
class Location:
    """A parsed URL."""

    kind: Literal["memory", "files", "objects"]
    root: str
    """The folder, the bucket and prefix, or the name."""
    metadata: Metadata
    postgres: str = ""
    options: tuple[tuple[str, str], ...] = ()
    memory: tuple[MemoryBlob, MemoryConsensus] = field(
        default_factory=lambda: (MemoryBlob(), MemoryConsensus()), repr=False, compare=False
    )

    def __reduce__(self) -> tuple[type[Location], tuple[Any, ...]]:
        """Tasks in other processes open the same stores; a database in memory is in this process alone."""
        if self.kind == "memory":
            raise StoreError(
                "a database in memory cannot be reached from other processes, such as Spark's tasks",
                hint="open a folder or a bucket instead",
            )
        return Location, (self.kind, self.root, self.metadata, self.postgres, self.options)

    def blob(self) -> Blob:
        """The blob store."""
        match self.kind:
            case "memory":
                return self.memory[0]
            case "files":
                return FileBlob(self.root)
            case "objects":
                return ObjectBlob.open(self.root, **dict(self.options))

    def identity(self, blob: Blob, name: str) -> RootIdentity | None:
        """The identity of an object at this location; None if it does not exist."""
        if isinstance(blob, ObjectBlob):
            changed = blob.changed(name)
            url = f"s3://{self.root.removeprefix('s3a://')}" if self.root.startswith("s3a://") else self.root
            return None if changed is None else RootIdentity(url, changed)
        try:
            folder = Path(self.root).resolve()
            status = Path(folder, name).stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.root}: {os.strerror(error.errno or 0)}") from None
        return RootIdentity(str(folder), status.st_ctime_ns, status.st_ino)

    def consensus(self, blob: Blob, database: str) -> Consensus:
        """The consensus store. Several databases may share a PostgreSQL; `database` separates them there."""
        match self.metadata:
            case "memory":
                return self.memory[1]
            case "sqlite":
                return SqliteConsensus(Path(self.root, SQLITE_FILE))
            case "log":
                return LogConsensus(blob)
            case "postgres":
                return _postgres(self.postgres, database)


def _text(url: object) -> str:
    """A path or URL as text; empty if it cannot be stored as text."""
    found = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(found, str):
        return ""
    try:
        found.encode("utf-8", "surrogateescape")  # what os.listdir gives for names that are not UTF-8
    except UnicodeEncodeError:
        return ""
    return found


def parse_location(url: str | os.PathLike[str]) -> Location:
    """The location that a URL names."""
    text = _text(url)
    if not text or "\0" in text:
        raise StoreError("a database needs a location", hint="a folder, or a URL such as s3://bucket/lake")
    if text.startswith("memory://"):
        place = Location("memory", text.removeprefix("memory://"), "memory")
        with _memory_lock:
            return _MEMORY_DATABASES.setdefault(place.root, place) if place.root else place
    if text.startswith(OBJECT_SCHEMES):
        root, options, metadata = _query(text)
        kind, postgres = _metadata(metadata, "log")
        if kind == "sqlite":
            raise StoreError(
                f"{root}: SQLite is a file, and needs a folder", hint="metadata=log, or a postgresql:// URL"
            )
        return Location("objects", root.rstrip("/"), kind, postgres, tuple(options.items()))
    if text in ("memory:", "memory:/"):
        raise StoreError(f"{text} would be a folder of that name", hint="memory:// is a database in memory")
    scheme, found, _ = text.partition("://")
    if found and scheme != "file" and scheme.isalnum():
        known = ", ".join(("file://", "memory://", *OBJECT_SCHEMES))
        raise StoreError(
            f"{scheme}:// is not a location that Tidegate supports", hint=f"a folder, or one of {known}"
        )
    path, _, metadata = text.partition("?metadata=")
    kind, postgres = _metadata(metadata, "sqlite")
    folder = unquote(path.removeprefix("file://")) if found else path
    return Location("files", str(Path(folder).absolute()), kind, postgres)


def _query(text: str) -> tuple[str, dict[str, str], str]:
    """The part before the `?`, the options after it, and the metadata option."""
    root, _, query = text.partition("?")
    before, found, rest = f"&{query}".partition("&metadata=")
    if not found or rest.startswith(_POSTGRES):
        return root, dict(parse_qsl(before)), rest
    options = dict(parse_qsl(query))
    return root, options, options.pop("metadata", "")


def _metadata(given: str, default: Metadata) -> tuple[Metadata, str]:
    given = given if given.startswith(_POSTGRES) else unquote(given)
    if given.startswith(_POSTGRES):
        return "postgres", given
    match given or default:
        case "sqlite":
            return "sqlite", ""
        case "log":
            return "log", ""
        case other:
            raise StoreError(
                f"metadata cannot be kept in {other!r}", hint="sqlite, log, or a postgresql:// URL"
            )


def _postgres(url: str, database: str) -> Consensus:
    try:
        return PostgresConsensus(url, lake=f"{database}/")
    except ImportError:
        raise StoreError(
            "metadata in PostgreSQL needs psycopg", hint="pip install 'tidegate[postgres]'"
        ) from None
