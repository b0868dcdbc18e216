"""Compaction, re-clustering and statistics on Spark: the same rows at every time, in fewer and better parts."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests import servers
from tests.spark.lakes import SMALL, events, held, no_orphans, opened, parts
from tidegate import session
from tidegate.errors import CorruptError, StoreError, UnsupportedError
from tidegate.progress import Progress
from tidegate.storage.maintain import Compacted, compact_shard
from tidegate.storage.shard import Shard
from tidegate.storage.shard.changes import Configure
from tidegate.storage.shard.snapshot import open_snapshot

ROOT = Path(__file__).parents[2]


def test_groups_are_merged_as_they_are_here(spark: SparkSession, tmp_path: Path) -> None:
    """Byte for byte: the same function does it."""
    with opened(tmp_path / "here") as db:
        events(db, "t", 24, 400)
        events(db, "c", 24, 400, "CLUSTER BY (kind, id)")
    shutil.copytree(tmp_path / "here", tmp_path / "spark")
    seen: list[Progress] = []
    with opened(tmp_path / "here") as here, opened(tmp_path / "spark") as there:
        for name in ("t", "c"):
            before, early = held(there, name), held(there, name, 5000)
            one = here.compact(name)
            other = there.compact(name, spark=spark, progress=seen.append)
            assert (one.removed, one.added) == (other.removed, other.added)
            assert other.removed > other.added > 0
            a, b = (
                sorted((p.rows, p.diffs, p.first, p.last, p.level, p.order, p.digest, p.stats) for p in found)
                for found in (parts(here, name), parts(there, name))
            )
            assert a == b
            assert (held(there, name), held(there, name, 5000)) == (before, early)
    last = seen[-1]
    assert (last.groups, last.rows, last.bytes) == (last.groups_total, last.rows_total, last.bytes_total)
    assert (last.what, last.share, last.rows) == ("compact c", 1.0, 9600)
    assert "1 of 1 groups" in last.line()


def test_a_shard_with_retractions_is_cut_by_key(spark: SparkSession, tmp_path: Path) -> None:
    """While it is compacted, others read it as of times that they hold; a snapshot from before outlives it."""
    with opened(tmp_path, part_bytes=80_000, retraction_lookup_bytes=0) as db:
        events(db, "t", 8, 10_000)
        gone = db.sql("SELECT * FROM t WHERE id < 400000").arrow()
        db.append("t", gone, at=50_000, diff=-1)
        db.append("t", gone.slice(0, 100), at=60_000, diff=3)
        db.append("t", gone.slice(50, 10), at=70_000, diff=-2)
        shard = db.context.table("t")
        at = {time_: held(db, "t", time_) for time_ in (55_000, 60_000, 70_000)}
        shard.machine.update(lambda state: Configure({"retention_ms": 0}))
        wrong, over = list[object](), threading.Event()
        with opened(tmp_path) as other:
            pinned = open_snapshot(other.context.table("t"), 55_000)

            def read() -> None:
                while not over.is_set():
                    found = {time_: held(other, "t", time_) for time_ in at}
                    wrong.extend(time_ for time_ in at if found[time_] != at[time_])

            reader = threading.Thread(target=read)
            reader.start()
            done = db.compact("t", full=True, spark=spark)
            over.set()
            reader.join()
            assert wrong == []
            assert done.since == 55_000  # as far as the reader lets it
            assert done.removed > done.added > 4
            assert {time_: held(db, "t", time_) for time_ in at} == at
            db.sweep()
            assert sum(batch.num_rows for batch in pinned.batches()) == at[55_000].total()
            pinned.close()
        assert {part.retracts for part in parts(db, "t")} == {False}
        assert db.status().collections["t"].deleted > 0, (
            "the later retraction is a deletion that AS OF still needs"
        )
        assert db.compact("t", full=True, spark=spark).since == 70_000
        assert held(db, "t") == at[70_000]
        assert sum(part.rows for part in parts(db, "t")) <= at[70_000].total()
        assert db.compact("t", full=True, spark=spark).removed <= 2  # nothing to speak of is left to do


def test_recluster(spark: SparkSession, tmp_path: Path) -> None:
    """A filter on the key reads few parts afterwards, one on the time still does, and doing it again does nothing."""
    question = "SELECT * FROM t WHERE id BETWEEN 500000 AND 500500"
    with opened(tmp_path, recluster_parts=8) as db:
        events(db, "t", 12, 20_000)
        before, early = held(db, "t"), held(db, "t", 4000)
        with pytest.raises(tidegate.BindError, match="no CLUSTER BY"):
            db.recluster("t", spark=spark)
        first = db.sql(question)
        assert first.scan.parts_read == first.scan.parts_total
        done = db.recluster("t", by=["id"], spark=spark)
        assert (done.stretches, done.conflicts) == (2, 0)
        again = db.sql(question)
        assert Counter(map(repr, again.rows())) == Counter(map(repr, first.rows()))
        assert again.scan.parts_read <= 2 * done.stretches < again.scan.parts_total / 2
        assert (held(db, "t"), held(db, "t", 4000)) == (before, early)
        assert db.sql("SELECT note FROM t", as_of=4000).scan.parts_read < again.scan.parts_total
        assert db.recluster("t", spark=spark) == type(done)(stretches=2)
        events(db, "t", 2, 20_000, first=12)
        later = db.recluster("t", spark=spark)
        assert 0 < later.removed < 16  # the new ones, and not the stretches that were sorted before
        assert db.sql(question).scan.parts_read <= 8


def test_statistics_are_filled_in(spark: SparkSession, tmp_path: Path) -> None:
    """Stored segments, fresh parts, old schemas; the files stay."""
    question = "SELECT id FROM u WHERE id = 550 AND at >= '2024-01-01'"
    with opened(tmp_path, stats_collection=False) as db:
        db.sql("CREATE TABLE u (id int8, gone text, at timestamptz)")

        def put(i: int, **more: list[str | None]) -> None:
            hundred = list(range(100 * i, 100 * i + 100))
            db.append("u", {"id": hundred, "at": [datetime(2024, 5, 5, tzinfo=UTC)] * 100, **more})

        for i in range(5):
            put(i, gone=["x"] * 100)
        machine = db.context.table("u").machine
        machine.roll(machine.fetch())
        db.sql("ALTER TABLE u DROP COLUMN gone; ALTER TABLE u ADD COLUMN more int8")
        for i in range(5, 10):
            put(i, more=[None] * 100)
        names, rows = {part.name for part in parts(db, "u")}, held(db, "u")
        assert db.sql(question).scan.parts_read == 10
        with pytest.raises(UnsupportedError, match="not collected"):
            db.backfill_statistics("u", spark=spark)
        db.set("stats_collection", True)
        done = db.backfill_statistics("u", spark=spark)
        assert (done.lacking, done.described) == (10, 10)
        assert db.sql(question).scan.parts_read == 1
        assert ({part.name for part in parts(db, "u")}, held(db, "u")) == (names, rows)
        assert db.sql("SELECT count(*) FROM u WHERE more IS NOT NULL").rows() == [(0,)]
        assert db.backfill_statistics("u", spark=spark).lacking == 0
        machine.roll(machine.fetch())
    with opened(tmp_path) as again:
        assert again.sql(question).scan.parts_read == 1
        assert again.backfill_statistics("u").lacking == 0
        assert again.compact("u", full=True).removed == 10  # they can be replaced like any others
        assert held(again, "u") == rows


def test_where_it_runs_and_how_it_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, here = list[Progress](), list[Compacted]()

    def compact_here(shard: Shard, **options: Any) -> Compacted:
        here.append(compact_shard(shard, **options))
        return here[-1]

    monkeypatch.setattr(session, "compact_shard", compact_here)
    with tidegate.open("memory://") as memory:
        memory.sql("CREATE TABLE t (id int8)")
        with pytest.raises(UnsupportedError, match="in memory"):
            memory.compact("t", spark=spark)
        memory.set("spark_compact_bytes", 0)
        memory.compact("t", progress=seen.append)
    with opened(tmp_path) as db:
        events(db, "t", 8, 200)
        assert here.pop() == Compacted()
        db.compact("t", progress=seen.append)
        assert here.pop().removed == 8  # here, as there is little to do
        events(db, "t", 8, 200, first=8)
        db.set("spark_compact_bytes", 1000)
        assert db.compact("t", progress=seen.append).removed == 9
        assert (seen[-1].groups, here) == (1, [])  # on the active session
        events(db, "t", 8, 200, first=16)
        rows, state = held(db, "t"), parts(db, "t")
        victim = tmp_path / state[-1].name
        data = victim.read_bytes()
        victim.write_bytes(data[:-1] + b"?")
        with pytest.raises(CorruptError, match=victim.name):
            db.compact("t", spark=spark)
        victim.unlink()
        with pytest.raises(StoreError, match=f"{victim.name} is missing"):
            db.compact("t", spark=spark)
        victim.write_bytes(data)
        assert held(db, "t") == rows
        db.compact("t", spark=spark)
        assert held(db, "t") == rows
    no_orphans(tmp_path, 2 * int(time.time() * 1000))


def test_parts_in_a_bucket(spark: SparkSession) -> None:
    """Tasks find the bucket by the URL, and need no way to the metadata."""
    try:
        url = f"s3://lake/maintain?{urlencode(servers.s3())}"
    except servers.Missing as missing:
        pytest.skip(f"needs {missing}")
    with tidegate.open(url, config=SMALL) as db:
        events(db, "t", 8, 300)
        rows = held(db, "t")
        assert db.compact("t", spark=spark).removed == 8
        assert held(db, "t") == rows


RIVAL = """
import sys, time
from tests.spark.lakes import opened
from tidegate.spark.session import session
spark = session("local[1]", {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
with opened(sys.argv[1]) as db:
    spark.range(1).count()
    print("ready", flush=True)
    sys.stdin.readline()
    done = db.compact("race", spark=spark)
    print("done", done.removed, done.conflicts, flush=True)
    def slowly(now):
        print("group", now.groups, flush=True)
        time.sleep(0.3)
    db.compact("kill", spark=spark, progress=slowly)
    print("too late", flush=True)
"""


@pytest.mark.long
def test_two_at_once_and_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """Another process with a session of its own compacts the same table at the same time; then it is killed with -9."""
    with opened(tmp_path) as db:
        events(db, "race", 40, 2500)
        events(db, "kill", 40, 2500)
        race, kill = held(db, "race"), held(db, "kill")
        command = [sys.executable, "-c", RIVAL, str(tmp_path)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as rival:
            assert rival.stdin is not None
            assert rival.stdout is not None
            lines = iter(rival.stdout.readline, "")
            assert next(line for line in lines if line == "ready\n")
            rival.stdin.write("go\n")
            rival.stdin.flush()
            mine = db.compact("race", spark=spark)
            _, removed, _ = next(line for line in lines if line.startswith("done")).split()
            assert mine.removed + int(removed) == 40
            assert len(parts(db, "race")) == mine.added + int(removed) // 4
            assert held(db, "race") == race
            assert next(line for line in lines if line == "group 2\n")
            rival.kill()
        middle = parts(db, "kill")
        assert 10 < len(middle) < 40
        assert held(db, "kill") == kill
        assert db.compact("kill", spark=spark).removed > 0
        assert len(parts(db, "kill")) < len(middle)
        assert held(db, "kill") == kill
    no_orphans(tmp_path, 2 * int(time.time() * 1000))
    assert SMALL.compact_fanout == 4  # of which the arithmetic above is
