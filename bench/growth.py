"""How the work of maintenance, opening, planning and status grows with the number of parts.

    make bench-growth               # 1,250 to 10,000 parts; PARTS=20000 for more

Two collections grow by small appends, as a stream of events makes them: `plain` with its metadata in SQLite, and `changed`, with
metadata in the blob store itself (`metadata=log`), of which every eighth append takes rows back and which is updated and deleted
from. At each size everything is done once and its CPU time taken. What changes something is done to a copy of the lake.

The exponent is that of CPU time between the last two sizes: 1 is linear, 2 quadratic. A line is marked where it is above 1.3
although the work takes more than 0.1 s: less than that is noise.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import tidegate
from tidegate.storage.maintain.compact import plan_groups
from tidegate.storage.maintain.distribute import lacking
from tidegate.storage.maintain.merge_parts import parts_of
from tidegate.storage.maintain.recluster_plan import time_windows, unsorted

STEEP, NOISE_S = 1.3, 0.1
ROWS = 8
QUERIES = {
    "count(*)": "SELECT count(*) FROM t",
    "count(*) of a filter": "SELECT count(*) FROM t WHERE at >= '2020-01-01 01:00:00+00'",
    "min and max": "SELECT min(at), max(id) FROM t",
    "peek": "SELECT * FROM t LIMIT 10",
    "peek of a filter": "SELECT * FROM t WHERE name = 'name 77' LIMIT 10",
    "top k": "SELECT * FROM t ORDER BY at DESC LIMIT 10",
    "one row": "SELECT * FROM t WHERE id = 5000",
    "GROUP BY over all": "SELECT name, count(*) FROM t GROUP BY name",
    "EXPLAIN": "EXPLAIN SELECT * FROM t WHERE at >= '2020-01-01 01:00:00+00' AND name LIKE 'name 7%'",
    "EXPLAIN FILTER PUSHDOWN": "EXPLAIN FILTER PUSHDOWN FOR SELECT * FROM t WHERE id > 70 AND name < 'name 8'",
    "SHOW TABLES": "SHOW TABLES",
    "SHOW SOURCES": "SHOW SOURCES",
    "SHOW CREATE TABLE": "SHOW CREATE TABLE t",
}
CHANGES = {
    "INSERT": "INSERT INTO t VALUES (-1, '2020-01-01 00:00:00+00', 'new')",
    "UPDATE one row": "UPDATE t SET name = 'updated' WHERE id = 4000",
    "DELETE one row": "DELETE FROM t WHERE id = 4008",
    "DROP TABLE": "DROP TABLE t",
}


@dataclass
class Lake:
    """A lake that grows."""

    name: str
    root: Path
    query: str
    changes: bool
    parts: int = 0
    seconds: dict[str, dict[int, float]] = field(default_factory=dict)

    def open(self, root: Path | None = None) -> tidegate.Database:
        """The lake, or a copy of it, opened anew."""
        parts_stay = tidegate.Config(maintenance=False, inline_bytes=0)
        db = tidegate.open(f"{root or self.root}{self.query}", config=parts_stay)
        db.set("audit", 0.0)
        return db

    def grow(self, parts: int) -> None:
        """Appends until there are so many parts."""
        with self.open() as db:
            if not self.parts:
                db.sql("CREATE TABLE t (id int8, at timestamptz, name text)")
            while self.parts < parts:
                self._append(db)
            if self.changes:
                first = self.parts * ROWS // 2
                db.sql(f"UPDATE t SET name = 'other' WHERE id BETWEEN {first} AND {first + 20}")
                db.sql(f"DELETE FROM t WHERE id BETWEEN {first + 40} AND {first + 60}")

    def _append(self, db: tidegate.Database) -> None:
        number = self.parts - 7 if self.changes and self.parts % 8 == 7 else self.parts
        ids = range(number * ROWS, (number + 1) * ROWS)
        at = pa.array([1_577_836_800_000_000 + id_ * 1_000_000 for id_ in ids], pa.timestamp("us", "UTC"))
        rows = pa.table({"id": list(ids), "at": at, "name": [f"name {id_ % 100}" for id_ in ids]})
        db.append(
            "t", rows if number == self.parts else rows.slice(0, 4), diff=1 if number == self.parts else -1
        )
        self.parts += 1

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Notes the CPU time of what is done."""
        began = time.process_time()
        yield
        self.seconds.setdefault(what, {})[self.parts] = time.process_time() - began

    @contextmanager
    def copy(self) -> Iterator[tidegate.Database]:
        """A copy of the lake, opened."""
        with tempfile.TemporaryDirectory(prefix="tidegate-growth-") as folder:
            root = Path(folder) / "lake"
            shutil.copytree(self.root, root)
            with self.open(root) as db:
                yield db


def reads(lake: Lake) -> None:
    """What changes nothing, each in a database that was opened anew."""
    with lake.timed("open and status"), lake.open() as db:
        db.status()
    for what, sql in QUERIES.items():
        with lake.open() as db:
            db.status()
            with lake.timed(what):
                db.sql(sql).rows()
    with lake.open() as db:
        shard = db.context.collection("t")
        state = shard.machine.fetch()
        for full in (False, True):
            with lake.timed(f"planning compaction{', full' if full else ''}"):
                for group in plan_groups(shard, state, full=full):
                    parts_of(state, group.ids)
        with lake.timed("planning recluster"):
            unsorted(state, (0,))
            for stretch in time_windows(state, 1 << 16):
                parts_of(state, stretch.ids)
        with lake.timed("parts without statistics"):
            lacking(state)
        with lake.timed("map of the parts"):
            db.maps.collection("t")
        with lake.timed("map of a query"):
            db.maps.query("SELECT * FROM t WHERE name = 'name 77'")
        with lake.timed("facts of the columns"):
            db.maps.columns("t")


def spark_planning(lake: Lake) -> None:
    """What `db.table` and a scan on Spark plan in this process, without a JVM."""
    from tidegate.spark.read.branches import branches
    from tidegate.spark.read.relation import pin

    with lake.open() as db:
        db.status()
        with lake.timed("db.table: pinning and branches"):
            relation = pin(db.context, "t")
            found = list(branches(relation.index.snapshot, False))
        with lake.timed("db.table: names and sizes of files"):
            for branch in found:
                relation.index.uris(branch.positions, "file:")
                relation.index.sizes.sum()


def writes(lake: Lake) -> None:
    """What changes something, each on a copy."""
    for what, sql in CHANGES.items():
        with lake.copy() as db, lake.timed(what):
            db.sql(sql)
    maintenance: dict[str, Callable[[tidegate.Database], object]] = {
        "compact": lambda db: db.compact("t"),
        "compact, small parts": _compact_small,
        "compact, full": lambda db: db.compact("t", full=True),
        "recluster": lambda db: db.recluster("t", by=["name"]),
        "statistics that are there": lambda db: db.backfill_statistics("t"),
        "sweep": lambda db: db.sweep(),
    }
    for what, work in maintenance.items():
        with lake.copy() as db:
            with lake.timed(what):
                work(db)
            if what == "compact":
                swept(lake, db)


def swept(lake: Lake, db: tidegate.Database) -> None:
    """What a compaction left behind is deleted."""
    place = Path(db.status().root)
    with lake.open(place) as other:
        other.set("sweep_grace_ms", 0)
        with lake.timed("status after compact"):
            other.status()
        with lake.timed("sweep after compact"):
            other.sweep()


def _compact_small(db: tidegate.Database) -> None:
    """Into parts of 64 kB: many groups, each replaced by itself."""
    db.set("part_bytes", 1 << 16)
    db.compact("t")


def growth(lake: Lake, what: str) -> tuple[str, bool]:
    """A line of the table, and whether it is too steep."""
    found = lake.seconds[what]
    *_, (small, before), (large, after) = sorted(found.items())
    exponent = math.log(max(after, 1e-6) / max(before, 1e-6)) / math.log(large / small)
    steep = exponent > STEEP and after > NOISE_S
    times = " | ".join(f"{seconds:.3f}" for _, seconds in sorted(found.items()))
    return f"| {lake.name}: {what} | {times} | {exponent:.2f}{' **steep**' if steep else ''} |", steep


def main() -> None:
    """Grows both lakes and prints the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--parts", type=int, default=10_000)
    options.add_argument("--only", default="")
    given = options.parse_args()
    sizes = [given.parts // 8, given.parts // 4, given.parts // 2, given.parts]
    steep = 0
    with tempfile.TemporaryDirectory(prefix="tidegate-growth-") as folder:
        lakes = [
            Lake("plain", Path(folder) / "plain", "", changes=False),
            Lake("changed", Path(folder) / "changed", "?metadata=log", changes=True),
        ]
        for lake in (lake for lake in lakes if given.only in lake.name):
            for size in sizes:
                began, before = time.process_time(), lake.parts
                lake.grow(size)
                each = (time.process_time() - began) / (size - before)
                lake.seconds.setdefault("1,000 appends", {})[size] = 1_000 * each
                reads(lake)
                spark_planning(lake)
                writes(lake)
            print(
                f"\n| work, seconds of CPU | {' | '.join(f'{size:,} parts' for size in sizes)} | exponent |"
            )
            print("|---|" + "---|" * (len(sizes) + 1))
            for what in lake.seconds:
                line, is_steep = growth(lake, what)
                steep += is_steep
                print(line, flush=True)
    print(f"\n{steep} too steep" if steep else "\nnothing grows faster than its parts")


if __name__ == "__main__":
    main()
