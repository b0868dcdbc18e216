"""Where a database is: a URL → the stores that hold it.

| URL | blobs | metadata |
|---|---|---|
| `lake`, `/data/lake`, `file:///data/lake` | files below the folder | SQLite in the folder |
| `s3://bucket/lake`, `gs://…`, `az://…` | objects below the prefix | numbered objects in the bucket itself |
| any of them `?metadata=postgresql://host/db` | the same | PostgreSQL |
| a folder `?metadata=log` | the same | numbered files in the folder |
| `memory://`, `memory://name` | a dictionary | a dictionary; with a name, the same one each time in this process |

What else stands behind the `?` of a bucket is obstore's: `endpoint`, `region`, `access_key_id`, …; what is left out comes from the
environment. A metadata URL has a `?` and `&` of its own, so it goes last and takes all that follows; or it is
percent-encoded, and may stand anywhere:

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
from tidegate.store.blob import Blob, MemoryBlob
from tidegate.store.consensus import Consensus, MemoryConsensus
from tidegate.store.file import FileBlob
from tidegate.store.log import LogConsensus
from tidegate.store.object import SCHEMES, ObjectBlob
from tidegate.store.sql import PostgresConsensus, SqliteConsensus

Metadata = Literal["memory", "sqlite", "postgres", "log"]
SQLITE_FILE = "metadata.sqlite"
_POSTGRES = ("postgresql://", "postgres://")

_memory: dict[str, Place] = {}
_memory_lock = fork.lock()


@dataclass(frozen=True)
class Location:
    """Where an object is, by what does not travel along when it is copied."""

    url: str
    """The folder, without links; or the bucket and prefix."""
    changed: int
    """When the store says that it was last changed: no copy has the same."""
    inode: int = 0
    """The number of its file; 0: it is in no file."""

    def is_same(self, other: Location) -> bool:
        """Whether it is the same object still. A file whose owner was changed is, and one whose file system numbers files anew."""
        same_file = self.inode == other.inode != 0
        return self.url == other.url and (self.changed == other.changed or same_file)


@dataclass(frozen=True)
class Place:
    """A URL taken apart."""

    kind: Literal["memory", "files", "objects"]
    root: str
    """The folder, the bucket and prefix, or the name."""
    metadata: Metadata
    postgres: str = ""
    options: tuple[tuple[str, str], ...] = ()
    memory: tuple[MemoryBlob, MemoryConsensus] = field(
        default_factory=lambda: (MemoryBlob(), MemoryConsensus()), repr=False, compare=False
    )

    def __reduce__(self) -> tuple[type[Place], tuple[Any, ...]]:
        """Tasks in other processes open the same stores; what is in memory is in this one alone."""
        if self.kind == "memory":
            raise StoreError(
                "a database in memory cannot be reached from other processes, such as Spark's tasks",
                hint="open a folder or a bucket instead",
            )
        return Place, (self.kind, self.root, self.metadata, self.postgres, self.options)

    def blob(self) -> Blob:
        """The store of parts."""
        match self.kind:
            case "memory":
                return self.memory[0]
            case "files":
                return FileBlob(self.root)
            case "objects":
                return ObjectBlob.open(self.root, **dict(self.options))

    def location(self, blob: Blob, name: str) -> Location | None:
        """Where an object of this place is; None if it is not there."""
        if isinstance(blob, ObjectBlob):
            changed = blob.changed(name)
            url = f"s3://{self.root.removeprefix('s3a://')}" if self.root.startswith("s3a://") else self.root
            return None if changed is None else Location(url, changed)
        try:
            folder = Path(self.root).resolve()
            status = Path(folder, name).stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.root}: {os.strerror(error.errno or 0)}") from None
        return Location(str(folder), status.st_ctime_ns, status.st_ino)

    def consensus(self, blob: Blob, database: str) -> Consensus:
        """The store of metadata. Several databases may share a PostgreSQL: there, `database` tells them apart."""
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
    """A path or URL as text; empty if it is none that could be stored."""
    found = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(found, str):
        return ""
    try:
        found.encode("utf-8", "surrogateescape")  # what os.listdir gives for names that are not UTF-8
    except UnicodeEncodeError:
        return ""
    return found


def parse(url: str | os.PathLike[str]) -> Place:
    """The place that a URL names."""
    text = _text(url)
    if not text or "\0" in text:
        raise StoreError("a database needs a place", hint="a folder, or a URL such as s3://bucket/lake")
    if text.startswith("memory://"):
        place = Place("memory", text.removeprefix("memory://"), "memory")
        with _memory_lock:
            return _memory.setdefault(place.root, place) if place.root else place
    if text.startswith(SCHEMES):
        root, options, metadata = _query(text)
        kind, postgres = _metadata(metadata, "log")
        if kind == "sqlite":
            raise StoreError(
                f"{root}: SQLite is a file, and needs a folder", hint="metadata=log, or a postgresql:// URL"
            )
        return Place("objects", root.rstrip("/"), kind, postgres, tuple(options.items()))
    if text in ("memory:", "memory:/"):
        raise StoreError(f"{text} would be a folder of that name", hint="memory:// is a database in memory")
    scheme, found, _ = text.partition("://")
    if found and scheme != "file" and scheme.isalnum():
        known = ", ".join(("file://", "memory://", *SCHEMES))
        raise StoreError(
            f"{scheme}:// is not a place that Tidegate knows", hint=f"a folder, or one of {known}"
        )
    path, _, metadata = text.partition("?metadata=")
    kind, postgres = _metadata(metadata, "sqlite")
    folder = unquote(path.removeprefix("file://")) if found else path
    return Place("files", str(Path(folder).absolute()), kind, postgres)


def _query(text: str) -> tuple[str, dict[str, str], str]:
    """What stands before the `?`, the options behind it, and what is said of the metadata."""
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
