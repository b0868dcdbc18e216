"""A window of 30 days: what a restart and the first read cost when the history behind it grows, and what it costs to let go of it.

    make bench-restart                          77 and 973 days: 47 days behind the window, and 20 times as many
    python -m bench.restart --days 77 154

A collection as a source with `TRANSFORM USING (… WHERE mz_now() <= at + '30 days')` leaves it: every row has the hidden bound by
which it ends. On a clock of its own it lives through so many days: a batch a day, with its position upstream; expiry after each
batch, compaction every second night, once a week a sweep. Whatever the number of days (whole weeks, so that both end alike), 30
of them are valid at the end.

| measured, each in a fresh process | |
|---|---|
| restart | open the database, and know how far the source has come: what ingestion needs to go on |
| first read | `SELECT count(*), max(amount) FROM window_30d WHERE customer < 10`: reads rows of all of the 30 days |
| drop | `expire_parts` of one part that has ended, of so many rows |

What a restart reads is the newest rollup of the log and the entries behind it, of which there are up to 128. So that both databases
are met at the same point, both have written a rollup three weeks before the end: what follows it is what three weeks bring. Restart
and read are CPU time, as the machine may be busy, of the second time in a process (the first imports what is imported where it is
first needed), each time of a database that is opened anew; the least of several runs, short and long history in turn. Asked for:
with 20 times the history no more than 1.3 times the cost; and a large part dropped at the cost of a small one.

With `--beside`, the same rows in a table without bounds too, which keeps all of them, and is asked the same with the window in its
WHERE.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.expr.model.types import INT8, MZ_TIMESTAMP, TEXT, TIMESTAMPTZ
from tidegate.storage.maintain.expire import expire_parts
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.shard import Shard

RESULTS = Path(__file__).parent / "results"
START = 1_600_000_000_000
DAY = 86_400_000
WINDOW = 30 * DAY
BATCHES = 1
"""A day."""
ROWS = 5_000
"""Of a batch."""
COLUMNS = [("at", TIMESTAMPTZ), ("customer", INT8), ("amount", INT8), ("note", TEXT)]
BOUNDS = [("_lower", MZ_TIMESTAMP), ("_upper", MZ_TIMESTAMP)]
POSITION = "source/0"
SINCE_ROLLUP = 21
"""Days of which the entries lie behind the newest rollup."""
READ = "SELECT count(*), max(amount) FROM {} WHERE customer < 10{}"
RUNS = 5
KEPT = "kept"
"""The table that keeps everything."""
NAME = "window_30d"


def rows(rng: np.random.Generator, at: int) -> dict[str, pa.Array]:
    """A batch that arrived at `at`, of the hours before."""
    times = at - rng.integers(0, DAY // BATCHES, ROWS)
    return {
        "at": pa.array(times * 1000).cast(TIMESTAMPTZ.arrow),
        "customer": pa.array(rng.integers(0, 1000, ROWS)),
        "amount": pa.array(rng.integers(0, 10**6, ROWS)),
        "note": pa.array([f"note {i}" for i in rng.integers(0, 10**6, ROWS).tolist()]),
    }


def bounded(batch: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The same with what the transform adds: from when on a row is gone."""
    times = batch["at"].cast(pa.int64()).to_numpy() // 1000
    return {**batch, "_lower": pa.nulls(ROWS, pa.int64()), "_upper": pa.array(times + WINDOW + 1)}


def lived(place: Path, days: int, *, keep: bool) -> int:
    """Makes a database that has lived so long; its time at the end."""
    clock, rng = ManualClock(START), np.random.default_rng(1)
    with tidegate.open(place, clock=clock, config=Config(audit=0.0)) as db:
        columns = [(name, type_, True) for name, type_ in (*COLUMNS, *BOUNDS)]
        lake = db.context
        lake.catalog.create_table(NAME, Schema.of(columns), {"validity": [4, 5], "hidden": [4, 5]})
        lake.catalog.create_table(KEPT, Schema.of(columns[: len(COLUMNS)]), {})
        for batch in range(days * BATCHES):
            clock.advance(DAY // BATCHES)
            given = rows(rng, clock.now())
            shard = lake.table(NAME)
            shard.append(bounded(given), positions={POSITION: batch})
            expire_parts(shard)
            if keep:
                lake.table(KEPT).append(given)
            if batch % (2 * BATCHES) == 0 or batch % (7 * BATCHES) == 0:
                for name in [NAME, KEPT][: 1 + keep]:
                    db.compact(name)
            if batch % (7 * BATCHES) == 0:
                db.sweep()
            if batch == (days - SINCE_ROLLUP) * BATCHES:
                for name in [NAME, KEPT][: 1 + keep]:
                    lake.table(name).machine.roll(lake.table(name).machine.fetch())
    return clock.now()


# ---------------------------------------------------------------- in a process of its own


def restarted(place: Path, now: int, table: str) -> dict[str, Any]:
    """What opening and the first read cost."""
    where = "" if table == NAME else " AND mz_now() <= at + INTERVAL '30 days'"
    with tidegate.open(place, clock=ManualClock(now), config=Config(audit=0.0)) as db:
        db.sql(READ.format(table, where))
    before = time.process_time()
    with tidegate.open(place, clock=ManualClock(now), config=Config(audit=0.0)) as db:
        state = db.context.table(table).machine.fetch()
        reached = state.positions.get(POSITION)
        opened = time.process_time()
        result = db.sql(READ.format(table, where))
        read = time.process_time()
        return {
            "restart": opened - before,
            "read": read - opened,
            "answer": result.rows(),
            "position": reached,
            "parts": state.parts.count,
            "rows": state.parts.rows,
            "entries": state.number - (state.rollup or ("", 0))[1],
        }


def dropped(size: int) -> float:
    """CPU time of dropping one part of so many rows, in seconds."""
    clock = ManualClock(START)
    with tempfile.TemporaryDirectory() as folder, tidegate.open(Path(folder) / "lake", clock=clock) as db:
        schema = Schema.of([("id", INT8, True), *((name, type_, True) for name, type_ in BOUNDS)])
        db.context.catalog.create_table("t", schema, {"validity": [1, 2], "retention_ms": 0})
        shard = db.context.table("t")
        best = float("inf")
        for _ in range(RUNS):
            best = min(best, _dropped(shard, clock, size))
    return best


def _dropped(shard: Shard, clock: ManualClock, size: int) -> float:
    ends = pa.array(np.full(size, clock.now() + 5))
    shard.append({"id": np.arange(size), "_lower": pa.nulls(size, pa.int64()), "_upper": ends})
    clock.advance(DAY)
    before = time.process_time()
    many = expire_parts(shard)
    took = time.process_time() - before
    assert many == 1
    return took


# ---------------------------------------------------------------- here


def asked(place: Path, now: int, table: str) -> dict[str, Any]:
    """The same, in a fresh process."""
    given = [sys.executable, "-m", "bench.restart", "--child", str(place), str(now), table]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(places: dict[int, tuple[Path, int]], table: str) -> dict[int, dict[str, Any]]:
    """The least of several runs of each, in turn; they must answer alike."""
    best: dict[int, dict[str, Any]] = {}
    for _ in range(RUNS):
        for days, (place, now) in places.items():
            found = asked(place, now, table)
            known = best.setdefault(days, found)
            assert known["answer"] == found["answer"]
            for what in ("restart", "read"):
                known[what] = min(known[what], found[what])
    return best


def ratio(found: dict[int, dict[str, Any]], what: str) -> float:
    """The longest history's cost by the shortest's."""
    value: float = found[max(found)][what] / found[min(found)][what]
    return value


def told(found: dict[int, dict[str, Any]], drops: dict[int, float], beside: dict[int, dict[str, Any]]) -> str:
    """The figures as a page."""
    lines = [
        "| collection | days lived | parts | rows | entries behind the rollup | restart, ms CPU | first read, ms CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, some in ((NAME, found), *([("a table that keeps all", beside)] if beside else [])):
        for days, one in some.items():
            times = f"{1000 * one['restart']:.1f} | {1000 * one['read']:.1f}"
            sizes = f"{one['parts']:,} | {one['rows']:,} | {one['entries']:,}"
            lines.append(f"| {name} | {days:,} | {sizes} | {times} |")
        lines.append(f"| | ratio | | | | {ratio(some, 'restart'):.2f} | {ratio(some, 'read'):.2f} |")
    lines += ["", "| part of so many rows | dropped in ms CPU |", "|---|---|"]
    lines += [f"| {size:,} | {1000 * took:.2f} |" for size, took in drops.items()]
    return "\n".join(lines)


def main(days: list[int], *, keep: bool) -> int:
    """Makes the databases, measures, prints, and fails if what is asked for is not so."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-restart-"))
    try:
        places = {many: (folder / str(many), lived(folder / str(many), many, keep=keep)) for many in days}
        found = measured(places, NAME)
        beside = measured(places, KEPT) if keep else {}
        drops = {size: dropped(size) for size in (1_000, 100_000, 2_000_000)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    page = told(found, drops, beside)
    print(page)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "restart.md").write_text(
        f"# Restarting with {' and '.join(map(str, days))} days of history\n\nMeasured by `make bench-restart`.\n\n{page}\n"
    )
    good = all(ratio(found, what) <= 1.3 for what in ("restart", "read"))
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, nargs=2, default=[77, 973])
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--child", nargs=3)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(restarted(Path(args.child[0]), int(args.child[1]), args.child[2])))
    else:
        sys.exit(main(args.days, keep=args.beside))
