"""Sources on Spark, killed with -9 at random moments: the driver, its JVM, its Python workers. Every record is there once.

`make test` kills twice while 40 batches of a generator are read. With TIDEGATE_INGEST_KILLS=20 it is 20 times, and the same once
more with a million Kafka records in four partitions, and with the database restored from an older backup.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tests.ingest.broker import Missing, broker

KILLS = int(os.environ.get("TIDEGATE_INGEST_KILLS", "2"))
SEED = int(os.environ.get("TIDEGATE_SEED", "0")) or random.randrange(2**32)
ROWS, BATCHES = 40_000, 40


def processes() -> dict[int, tuple[int, str]]:
    """The parent and the command line of each process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = int(stat[1]), command
    return found


def below(pid: int) -> dict[int, str]:
    """The command lines of all processes that a process has started, and they."""
    known = processes()
    found: dict[int, str] = {}
    heads = [pid]
    while heads:
        heads = [one for one, (parent, _) in known.items() if parent in heads]
        found |= {one: known[one][1] for one in heads}
    return found


def victims(driver: int, role: str) -> list[int]:
    """The processes of a driver that play a role."""
    if role == "driver":
        return [driver]
    every = below(driver)
    if role == "jvm":
        return [pid for pid, command in every.items() if "java" in command.partition(" ")[0]]
    return [
        pid
        for pid, command in every.items()
        if "pyspark" in command and "java" not in command.partition(" ")[0]
    ]


class Driver:
    """A process that ingests, and those that it starts."""

    def __init__(self, lake: Path, *names: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.ingest_worker", str(lake), *names],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def end(self, timeout: float = 500) -> str:
        """What it said, when it has ended by itself."""
        try:
            return self.process.communicate(timeout=timeout)[0]
        finally:
            self.kill()

    def kill(self) -> None:
        """All of its processes, whoever is left of them."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def stored(lake: Path, name: str) -> int:
    with tidegate.open(lake) as db:
        return db.status().collections[name].rows


def killed(lake: Path, name: str, role: str, at: int, rng: random.Random) -> None:
    """Ingests until some rows are there and a moment longer, and kills."""
    if role != "driver":
        at = max(at, stored(lake, name) + 1)  # a JVM that is still being started has nothing to ingest
    driver = Driver(lake, name)
    try:
        end = time.monotonic() + 500
        while stored(lake, name) < at and driver.process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(rng.uniform(0, 0.5))  # anywhere: while tasks read, between two commits, before Spark knows
        assert driver.process.poll() is None, driver.end()[-3000:]
        found = victims(driver.process.pid, role)
        assert found, f"no {role}"
        os.kill(rng.choice(found), signal.SIGKILL)
        if role == "jvm":
            said = driver.end()
            assert "Spark has stopped" in said, said[-3000:]
        if role == "worker":
            said = driver.end(900)
            assert "all done" in said, said[-3000:]
    finally:
        driver.kill()


def moments(rows: int, rng: random.Random) -> Iterator[tuple[str, int]]:
    """Whom to kill, and when; after a worker is killed all is read, so that comes last."""
    roles = list(itertools.islice(itertools.cycle(rng.sample(["driver", "jvm"], 2)), KILLS - 1))
    yield from zip(roles, sorted(rng.sample(range(rows // 20, rows * 2 // 3), KILLS - 1)), strict=True)
    yield "worker", rows * 3 // 4


@pytest.mark.long
def test_every_record_once(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lake = tmp_path / "lake"
    with tidegate.open(lake) as db:
        db.sql(f"CREATE SOURCE n FROM GENERATOR counter (ROWS {ROWS}) WITH (BATCH ROWS {ROWS // BATCHES})")
    for role, at in moments(ROWS, rng):
        killed(lake, "n", role, at, rng)
    with tidegate.open(lake) as db:
        (column,) = [row[0] for row in db.sql("SHOW COLUMNS FROM n").rows()][:1]
        found = db.sql(
            f"SELECT count(*), count(DISTINCT {column}), min({column}), max({column}) FROM n"
        ).rows()[0]
        assert found[:2] == (ROWS, ROWS), f"seed {SEED}"
        assert found[3] - found[2] == ROWS - 1, f"seed {SEED}"


@pytest.mark.skipif(KILLS <= 2, reason="TIDEGATE_INGEST_KILLS=20 (make prove)")
def test_a_million_records_of_kafka(tmp_path: Path) -> None:
    try:
        kafka = broker()
    except Missing as missing:
        pytest.skip(f"{missing} is not here")
    rows, rng, lake, backup = 1_000_000, random.Random(SEED), tmp_path / "lake", tmp_path / "backup"
    topic = kafka.topic(4)
    kafka.produce(topic, ({"value": b'{"n": %d}' % n, "partition": n % 4} for n in range(rows)))
    with tidegate.open(lake) as db:
        db.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka.address}')")
        db.sql(f"""CREATE SOURCE n FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT JSON
            TRANSFORM USING (SELECT (data->>'n')::int8 AS n FROM n) WITH (BATCH ROWS {rows // 100})""")
    for i, (role, at) in enumerate(moments(rows, rng)):
        killed(lake, "n", role, at, rng)
        if i == KILLS // 2:
            shutil.copytree(lake, backup)
    check(lake, rows)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    assert stored(lake, "n") < rows
    said = Driver(lake, "n").end(900)
    assert "all done" in said, said[-3000:]
    check(lake, rows)


def check(lake: Path, rows: int) -> None:
    with tidegate.open(lake) as db:
        found = db.sql("SELECT count(*), count(DISTINCT n), min(n), max(n) FROM n").rows()
        assert found == [(rows, rows, 0, rows - 1)], f"seed {SEED}"
        assert db.sql("SELECT count(*) FROM n_errors").rows() == [(0,)]
