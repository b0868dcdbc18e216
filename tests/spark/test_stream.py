"""`df.writeStream.format("tidegate")`: each batch once, whatever is killed, replayed or started anew."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate import Database
from tidegate.errors import ConflictError
from tidegate.spark import register
from tidegate.spark.task_errors import tidegate_error

ROWS = 20
KILLS = int(os.environ.get("TIDEGATE_STREAM_KILLS", "1"))
"""How often the driver is killed while it streams 50 batches; each start costs ten seconds."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with tidegate.open(tmp_path / "lake") as found:
        found.sql("CREATE TABLE t (id int8 NOT NULL, name text)")
        yield found


def put(folder: Path, first: int, last: int) -> None:
    """Files of 20 rows each, in the order of their times."""
    folder.mkdir(exist_ok=True)
    for number in range(first, last):
        lines = [json.dumps({"id": number * ROWS + i, "name": f"n{i}"}) for i in range(ROWS)]
        path = folder / f"{number:04}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def run(
    spark: SparkSession, folder: Path, checkpoint: Path, path: str, mode: str = "append", **options: Any
) -> None:
    register(spark)
    read = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", 1).json(str(folder))
    if mode == "complete":
        read = read.groupBy("name").count().selectExpr("count AS id", "name")
    writer = read.writeStream.format("tidegate").outputMode(mode).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(path)
    assert query.awaitTermination(500), "still running"
    failed = query.exception()
    if failed is not None:
        raise failed


def counted(db: Database) -> tuple[int, int]:
    return db.sql("SELECT count(*), count(DISTINCT id) FROM t").rows()[0]


def test_replays_and_new_checkpoints(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    folder, first, path = tmp_path / "in", tmp_path / "cp1", f"{tmp_path / 'lake'}:t"
    put(folder, 0, 3)
    run(spark, folder, first, path, sink="files")
    assert counted(db) == (3 * ROWS, 3 * ROWS)
    parts = db.status().collections["t"].parts
    assert parts == 3, "a batch is one part"

    for commit in (first / "commits").glob("*2*"):  # 2 and .2.crc: as if killed before Spark wrote it down
        commit.unlink()
    put(folder, 3, 4)
    run(spark, folder, first, path, sink="files")
    assert counted(db) == (4 * ROWS, 4 * ROWS), "the replayed batch is passed over, the next one is not"
    objects = [path for path in (tmp_path / "lake" / "part").rglob("*") if path.is_file()]
    stored = [part for part in db.context.table("t").machine.fetch().parts.all() if not part.data]
    assert len(objects) == len(stored), "its tasks wrote nothing"

    with pytest.raises(Exception) as failed:  # noqa: PT011  # Spark wraps it
        run(spark, folder, tmp_path / "cp2", path, sink="files")
    error = tidegate_error(failed.value)
    assert isinstance(error, ConflictError)
    assert "another query" in str(error)
    assert "takeover" in str(error)
    assert counted(db) == (4 * ROWS, 4 * ROWS)

    run(spark, folder, tmp_path / "cp3", path)
    assert counted(db) == (8 * ROWS, 4 * ROWS), (
        "a new checkpoint without a sink is a new stream: nothing is lost silently"
    )
    put(folder, 4, 5)
    run(spark, folder, tmp_path / "cp2", path, sink="files", takeover="true")
    assert counted(db) == (13 * ROWS, 5 * ROWS)
    with pytest.raises(Exception) as failed:  # noqa: PT011  # Spark wraps it
        run(spark, folder, first, path, sink="files")
    assert isinstance(tidegate_error(failed.value), ConflictError), (
        "the one that was taken over from is refused"
    )
    for option in ("at", "token"):
        with pytest.raises(Exception, match="not to a stream"):
            run(spark, folder, tmp_path / "cp4", path, **{option: "7"})


def test_complete_mode_writes_what_differs(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    folder, path = tmp_path / "in", f"{tmp_path / 'lake'}:t"
    put(folder, 0, 2)
    run(spark, folder, tmp_path / "cp", path, "complete")
    assert sorted(db.sql("SELECT name, id FROM t").rows()) == sorted((f"n{i}", 2) for i in range(ROWS))
    (folder / "9999.json").write_text('{"id": 1, "name": "n0"}\n')
    before = db.status().collections["t"].rows
    run(spark, folder, tmp_path / "cp", path, "complete")
    assert dict(db.sql("SELECT name, id FROM t").rows()) == {f"n{i}": 2 for i in range(1, ROWS)} | {"n0": 3}
    assert db.status().collections["t"].rows == before + 1, "one row is deleted, one added"
    with pytest.raises(Exception, match="does not support Update mode"):
        run(spark, folder, tmp_path / "cp5", path, "update")


def _worker(*args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.spark.stream_worker", *map(str, args)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def _finish(worker: subprocess.Popen[str], timeout: float = 400) -> None:
    try:
        told_, errors = worker.communicate(timeout=timeout)
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
    assert "all done" in told_, errors[-3000:]


@pytest.mark.long
def test_killed_drivers(db: Database, tmp_path: Path) -> None:
    """50 batches; the driver, its JVM and workers are killed at random moments, and started again."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    batches, folder = 50, tmp_path / "in"
    put(folder, 0, batches)
    given = (folder, tmp_path / "cp", f"{tmp_path / 'lake'}:t")
    for stop in sorted(rng.sample(range(2, batches - 2), KILLS)):
        worker = _worker(*given)
        end = time.monotonic() + 600
        try:
            while counted(db)[0] < stop * ROWS and worker.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(
                rng.uniform(0, 0.4)
            )  # anywhere in a batch: before its tasks, between our commit and Spark's
            ended = worker.poll() is not None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)  # the driver, its JVM, their Python workers
            errors = worker.communicate()[1]
        assert not ended, errors[-3000:]
    _finish(_worker(*given))
    assert counted(db) == (batches * ROWS, batches * ROWS), f"seed {seed}"
    assert db.sql("SELECT min(id), max(id) FROM t").rows() == [(0, batches * ROWS - 1)]


def test_a_task_that_is_tried_again_leaves_nothing_doubled(db: Database, tmp_path: Path) -> None:
    _finish(_worker("retry", f"{tmp_path / 'lake'}:t"))
    assert counted(db) == (40_000, 40_000)
    objects = len([path for path in (tmp_path / "lake" / "part").rglob("*") if path.is_file()])
    assert objects > db.status().collections["t"].parts, "the attempt that failed had stored parts"
