"""Eight processes append, retract, delete, update, compact and sweep one shard at once: nothing is lost, nothing doubled.

Half of them store bitmaps of deleted rows in objects, and half of them leave retractions to settling.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.simulation.test_kill import there
from tests.simulation.worker import CONFIG, STEP, modify, open_shard
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.shard import shard as writer

PROCESSES, TIMES = 8, 6


def _work(folder: Path, number: int, start: Any) -> None:
    writer.MAX_INLINE_BYTES = 10 if number % 2 else writer.MAX_INLINE_BYTES
    lookup = CONFIG.retraction_lookup_bytes if number % 4 < 2 else 0
    inline = CONFIG.inline_bytes if number % 2 else 0
    shard = open_shard(folder, config=replace(CONFIG, retraction_lookup_bytes=lookup, inline_bytes=inline))
    start.wait()
    for i in range(TIMES):
        mine = [number * 1000 + 4 * i + j for j in range(4)]
        shard.append({"n": mine, "note": [f"row {n}" for n in mine]})
        shard.append({"n": [mine[1]], "note": [f"row {mine[1]}"]}, diff=-1)
        assert modify(shard, [mine[2]], 0) == []
        assert modify(shard, [mine[3]], STEP) == [mine[3] + STEP]
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
    first = [number * 1000 + 4 * i for number in range(PROCESSES) for i in range(TIMES)]
    assert there(tmp_path) == dict.fromkeys([*first, *(n + 3 + STEP for n in first)], 1)
