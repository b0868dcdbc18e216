"""Small databases with many parts, for tests of maintenance: what is in them is known, and can be asked for at any time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate import Database
from tidegate.clock import Clock, ManualClock
from tidegate.config import Config
from tidegate.storage.part.part import Part

SMALL = Config(part_bytes=150_000, compact_fanout=4, audit=1.0, recluster_parts=1000)
"""Parts large enough to have a table of pages, and small enough that a test has many."""


def opened(folder: Path, clock: Clock | None = None, **knobs: Any) -> Database:
    from dataclasses import replace

    return tidegate.open(folder, clock=clock, config=replace(SMALL, **knobs))


def events(db: Database, name: str, batches: int, rows: int, options: str = "", first: int = 0) -> None:
    """A table of batches, at times 1000, 2000, …: numbers in no order, texts, poison floats, NULLs."""
    db.sql(f"CREATE TABLE IF NOT EXISTS {name} (id int8, kind text, x float8, note text) {options}")
    poison = np.array([np.nan, np.inf, -0.0, 0.0, 1.5, -2.25])
    for i in range(first, first + batches):
        dice = np.random.default_rng(i)
        notes = np.char.add("note ", dice.integers(0, 99_999, rows).astype(str))
        db.append(
            name,
            pa.table(
                {
                    "id": dice.integers(0, 1_000_000, rows),
                    "kind": pa.array(dice.choice(["a", "b", "c"], rows), mask=dice.random(rows) < 0.01),
                    "x": dice.choice(poison, rows),
                    "note": notes,
                }
            ),
            at=1000 * (i + 1),
        )


def held(db: Database, name: str, as_of: int | None = None) -> Counter[str]:
    """The rows at a time, as text: NaN is NaN there."""
    return Counter(map(repr, db.sql(f"SELECT * FROM {name}", as_of=as_of).rows()))


def parts(db: Database, name: str) -> list[Part]:
    return db.context.collection(name).machine.fetch().parts.all()


def no_orphans(folder: Path, now: int) -> None:
    """When every grace is over, sweep leaves no object that the states do not name."""
    with opened(folder, ManualClock(now), sweep_grace_ms=0) as later:
        later.sweep()
        later.sweep()
        names = later.status().collections
        known = {part.name for name in names for part in parts(later, name)}
    there = {p.relative_to(folder).as_posix() for p in (folder / "part").rglob("*") if p.is_file()}
    assert there == known
