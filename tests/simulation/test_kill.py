"""`kill -9` at random moments of append, DELETE, UPDATE, maintenance after them, compact, sweep and rollup, on files and SQLite.

Each round starts a worker (`worker.py`) on the folder that the last one left, lets it run for up to half a second, and kills it.
Afterwards everything it acknowledged is there once, what it was about to append, delete or update is done as a whole or not at all,
no deleted row comes back, and nothing else is there. At the end, when the grace is over, sweep leaves no object and no temporary
file that the state does not know.

TIDEGATE_KILLS says how many rounds: 8 by default, 200 in `make prove`. A round takes about a second and a half, most of it to start
Python. TIDEGATE_SEED repeats the moments as well as a machine can.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.simulation.worker import CONFIG, open_shard
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.shard.snapshot import open_snapshot

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("TIDEGATE_KILLS", "8"))
SEED = int(os.environ.get("TIDEGATE_SEED", "0")) or random.randrange(2**32)


def run_and_kill(folder: Path, seed: int, seconds: float) -> list[str]:
    """What a worker said before it was killed, whole lines only."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.simulation.worker", str(folder), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(seconds)
        worker.kill()
        said = worker.stdout.read()
    return said.split("\n")[:-1]


def there(folder: Path, clock: ManualClock | None = None, config: Config = CONFIG) -> Counter[int]:
    shard = open_shard(folder, clock, config)
    with open_snapshot(shard) as found:
        rows = Counter(
            n
            for batch in found.batches()
            for n, note in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            if note == f"row {n}"
        )
    shard.machine.consensus.close()
    return rows


def test_nothing_is_lost_doubled_or_left_behind(tmp_path: Path) -> None:
    print(f"seed {SEED}: repeat with TIDEGATE_SEED={SEED}")
    dice = random.Random(SEED)
    expected: Counter[int] = Counter()
    last: Counter[str] = Counter()
    for _ in range(KILLS):
        said = run_and_kill(tmp_path, dice.randrange(2**32), dice.uniform(0, 0.5))
        tried: list[int] = []
        for line in said:
            word, *numbers = line.split()
            if word == "try":
                tried = [int(n) for n in numbers]
            elif word == "ack":
                for n in tried:
                    expected[abs(n)] += 1 if n > 0 else -1
                tried = []
        expected = +expected
        last[said[-1].split()[0] if said else "start"] += 1
        with_the_last = expected.copy()
        for n in tried:
            with_the_last[abs(n)] += 1 if n > 0 else -1
        found = there(tmp_path)
        assert found in (expected, +with_the_last), (SEED, (found - expected), (expected - found))
        expected = found
    print("killed during", dict(last))
    no_orphan_is_left(tmp_path, expected)


def no_orphan_is_left(folder: Path, expected: Counter[int]) -> None:
    # Far in the future every lease is over, and with no grace all that is unreferenced goes at once.
    later = ManualClock(int(time.time() * 1000) + 3_600_000)
    config = Config(sweep_grace_ms=0)
    shard = open_shard(folder, later, config)
    sweep_shard(shard)
    state = shard.machine.fetch()
    known = {part.name for part in state.parts.all() if not part.data} | set(state.segments)
    known |= state.parts.deletions.objects
    known |= {state.rollup[0]} if state.rollup else set()
    known |= {item.name for item in state.garbage}
    blobs = folder / "blobs"
    assert {path.relative_to(blobs).as_posix() for path in blobs.rglob("*") if path.is_file()} == known
    shard.machine.consensus.close()
    assert there(folder, later, config) == expected
