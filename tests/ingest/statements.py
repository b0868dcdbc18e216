"""What tests of statements about sources share: rows, options, a file of JSON lines, and how a source is ingested here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.database import Database


def json_lines(folder: Path) -> str:
    """A file of JSON lines in a folder, as a pattern."""
    lines = [{"id": i, "kind": "ab"[i % 2], "at": "2024-01-01"} for i in range(10)]
    (folder / "one.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"{folder}/*.json"


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    """What a statement gives."""
    return db.sql(sql).rows()


def options(db: Database, name: str) -> dict[str, Any]:
    """The options of a collection's shard."""
    return db.context.collection(name).machine.fetch().options


def ingest(db: Database, name: str) -> None:
    """Brings in all that is there now, in this process."""
    running = db.ingest(name, once=True, spark=False)
    assert running.wait(60)
    assert running.error is None
