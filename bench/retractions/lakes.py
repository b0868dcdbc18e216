"""Collections in all states that are compared: append-only, changed, and compacted; as files or on S3.

    lakes = states(folder, parts=50, changes=changes, metadata="sqlite", retention="")
    with opened(lakes, patience=60, bucket_prefix="") as dbs:
        dbs[0].sql("SELECT count(*) FROM t")       # the append-only one; the others follow

For S3 the states are made in a folder, with metadata in the log, and uploaded.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import tidegate
from bench.retractions.rows import APPEND_ONLY, TABLE, Change, rows_of, unchanged

INFLATION = 4
"""Bytes in memory of a byte in a part, by which writers cut parts: `part_bytes` is chosen by it."""


@dataclass(frozen=True)
class Lake:
    """A folder with the collection `t`, in one state."""

    root: Path
    metadata: str
    config: tidegate.Config
    change: Change
    compacted: bool = False

    @property
    def url(self) -> str:
        """How it is opened."""
        return str(self.root) if self.metadata == "sqlite" else f"{self.root}?metadata={self.metadata}"


def append_only(root: Path, rows: int, parts: int, metadata: str, retention: str) -> Lake:
    """Writes the rows by one append, which is cut into so many parts."""
    table = rows_of(np.arange(rows))
    size = -(-(table.nbytes + 16 * rows) // (INFLATION * parts))
    lake = Lake(root, metadata, tidegate.Config(part_bytes=size, audit=0.0), unchanged(rows, APPEND_ONLY))
    with tidegate.open(lake.url, config=lake.config) as db:
        db.sql(f"CREATE TABLE {TABLE}" + (f" WITH (RETENTION '{retention}')" if retention else ""))
        db.append("t", table)
    return lake


def changed(base: Lake, root: Path, change: Change, *, compacted: bool) -> Lake:
    """A copy in another state. Parts are never written again, so they are linked."""

    def link_part(source: str, target: str) -> None:
        is_part = Path(source).relative_to(base.root).parts[0] == "part"
        (os.link if is_part else shutil.copy2)(source, target)

    shutil.copytree(base.root, root, copy_function=link_part)
    lake = replace(base, root=root, change=change, compacted=compacted)
    with tidegate.open(lake.url, config=lake.config) as db:
        for sql in change.statements:
            db.sql(sql)
        if compacted:
            db.compact("t", full=True)
            db.set("sweep_grace_ms", 0)
            db.sweep()
        state = f"{change.label}{', compacted' if compacted else ''}"
        print(f"{state}: {part_count(db):,} parts, metadata in {lake.metadata}", file=sys.stderr, flush=True)
    return lake


def states(folder: Path, parts: int, changes: Sequence[Change], metadata: str, retention: str) -> list[Lake]:
    """The append-only collection, and for each change a copy before and one after compaction."""
    rows = len(changes[0].deleted)
    lakes = [append_only(folder / "base", rows, parts, metadata, retention)]
    for number, change in enumerate(changes):
        for compacted in (False, True):
            lakes.append(changed(lakes[0], folder / f"{number}-{compacted}", change, compacted=compacted))
    return lakes


@contextmanager
def opened(
    lakes: Sequence[Lake], patience: float, bucket_prefix: str = ""
) -> Iterator[list[tidegate.Database]]:
    """All of them, open at once: where they are, or on S3 under a prefix, from which they are removed at the end."""
    with ExitStack() as stack:
        found = []
        for number, lake in enumerate(lakes):
            url = lake.url
            if bucket_prefix:
                url = stack.enter_context(_uploaded(lake, f"{bucket_prefix}-{number}"))
            config = replace(lake.config, statement_timeout_ms=int(1000 * patience))
            found.append(stack.enter_context(tidegate.open(url, config=config)))
        yield found


@contextmanager
def _uploaded(lake: Lake, prefix: str) -> Iterator[str]:
    """The URL of a copy on the S3 server."""
    from bench.peek import upload
    from tests.servers import s3
    from tidegate.storage.blob.object_store import ObjectBlob

    yield upload(lake.root, s3(), prefix)
    blob = ObjectBlob.open(f"s3://lake/{prefix}", **s3())
    for info in list(blob.list()):
        blob.delete(info.name)


def part_count(db: tidegate.Database) -> int:
    """The number of parts, whatever was asked for."""
    return db.sql("SELECT id FROM t WHERE id < 0").scan.parts_total
