"""Eight processes append, retract, compact and sweep one shard at once: nothing is lost, nothing doubled."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

from tests.simulation.test_kill import there
from tests.simulation.worker import open_shard
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import sweep_shard

PROCESSES, TIMES = 8, 6


def _work(folder: Path, number: int, start: Any) -> None:
    shard = open_shard(folder)
    start.wait()
    for i in range(TIMES):
        mine = [number * 1000 + 2 * i, number * 1000 + 2 * i + 1]
        shard.append({"n": mine, "note": [f"row {n}" for n in mine]})
        shard.append({"n": mine[1:], "note": [f"row {mine[1]}"]}, diff=-1)
        if i % 3 == number % 3:
            compact_shard(shard, full=number % 2 == 0)
            sweep_shard(shard)


def test_eight_processes_at_once(tmp_path: Path) -> None:
    open_shard(tmp_path).machine.consensus.close()
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(PROCESSES)
    racers = [context.Process(target=_work, args=(tmp_path, number, start)) for number in range(PROCESSES)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * PROCESSES
    assert there(tmp_path) == {number * 1000 + 2 * i: 1 for number in range(PROCESSES) for i in range(TIMES)}
