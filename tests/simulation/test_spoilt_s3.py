"""A real S3 server whose answers are lost, with writers, a compactor and a sweeper at work: what was acknowledged is there once.

Nothing that was deleted comes back: two of the writers DELETE and UPDATE, with their bitmaps in objects of their own.

TIDEGATE_SPOILT_S says for how many seconds: 10 by default, 180 in `make prove`. Before the log decided (see
`storage/shard/machine.py`),
each of the first three tests lost rows.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests import servers
from tests.simulation.spoiling_proxy import SPOILS, Spoiling, spoiling
from tests.unit.storage.deleting import run_change
from tests.unit.storage.shards import SCHEMA, ids, rows
from tidegate.config import Config
from tidegate.errors import ConflictError, IndeterminateError, StoreError
from tidegate.storage.blob.object_store import ObjectBlob
from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard

CONFIG = Config(part_bytes=12_000, compact_fanout=3, lease_ms=60_000, sweep_grace_ms=500)
MOVED = 500_000
"""By how much an update moves a number."""
SECONDS = float(os.environ.get("TIDEGATE_SPOILT_S", "10"))


@pytest.fixture(scope="module")
def options() -> dict[str, str]:
    try:
        return dict(servers.s3())
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")


def open_shard(
    place: str, options: dict[str, str], endpoint: str | None = None, *, in_log: bool = False
) -> Shard:
    """The shard as a process of its own, straight or through a proxy, with small commits as files or in the log."""
    there = {**options, "timeout": "1s", **({"endpoint": endpoint} if endpoint else {})}
    blob = ObjectBlob.open(place, **there)
    config = CONFIG if in_log else replace(CONFIG, inline_bytes=0)
    return Shard(Machine(LogConsensus(blob), blob, "shard/s1", retries=RetryPolicy(6, 0.01, 0.2)), config)


def create(place: str, options: dict[str, str]) -> Shard:
    shard = open_shard(place, options)
    return Shard.create(shard.machine, SCHEMA, {"retention_ms": 200}, config=CONFIG)


class OneSpoil(Spoiling):
    """Spoils one request that creates an entry of the log: the next, or one after it."""

    armed = ""
    skip = 0

    def pick(self, method: str, path: str) -> str:
        if method == "PUT" and "/log/" in path and self.armed:
            self.skip -= 1
            if self.skip < 0:
                kind, self.armed = self.armed, ""
                self.spoilt[kind] += 1
                return kind
        return ""


CHANGES = ("delete", "update", "settle")
LOST = [(what, kind) for what in ("append", "append in the log", "compact", *CHANGES) for kind in SPOILS]
"""By default each kind of spoiling meets one of the changes, in `make prove` all of them."""
if SECONDS <= 10:
    LOST = [one for one in LOST if one[0] not in CHANGES or SPOILS.index(one[1]) % 3 == CHANGES.index(one[0])]


@pytest.mark.parametrize(("what", "kind"), LOST)
def test_one_lost_answer(
    options: dict[str, str], kind: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", 10)
    place = f"s3://lake/{secrets.token_hex(6)}"
    direct = create(place, options)
    for i in range(4):
        direct.append(rows(i))
    if what == "settle":
        Shard(direct.machine, replace(CONFIG, retraction_lookup_bytes=0)).append(rows(1), diff=-1)
    with spoiling(options["endpoint"], seed=1, often=0, kind=OneSpoil) as proxy:
        assert isinstance(proxy, OneSpoil)
        shard = open_shard(place, options, proxy.url, in_log=what == "append in the log")
        proxy.armed = kind
        proxy.skip = {"append": 0, "append in the log": 0, "compact": 2}.get(
            what, 1
        )  # `since` moves, a lease is made, then comes the entry
        match what:
            case "compact":
                compact_shard(shard, full=True)
            case "delete":
                assert run_change(shard, "DELETE FROM t WHERE id IN (1, 2)") == 2
            case "update":
                assert run_change(shard, "UPDATE t SET id = id + 10 WHERE id IN (1, 2)") == 2
            case "settle":
                assert settle_retractions(shard) == 1
        shard.append(rows(4))
        assert proxy.spoilt[kind] == 1
    expected = {"delete": [0, 3, 4], "update": [0, 3, 4, 11, 12], "settle": [0, 2, 3, 4]}
    assert ids(open_shard(place, options)) == expected.get(what, [0, 1, 2, 3, 4])


@dataclass
class Work:
    """What several processes do through one proxy, until the time is over, and what became of it."""

    place: str
    options: dict[str, str]
    acknowledged: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    failures: list[BaseException] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    """Rows that were deleted, or updated to others."""
    maybe: list[tuple[int, int | None]] = field(default_factory=list)
    """Rows that are there still, or deleted, or what they became instead."""

    def delete(self, shard: Shard, number: int) -> None:
        """Appends a row, and deletes it."""
        self._change(shard, number, None, f"DELETE FROM t WHERE id = {number}")

    def update(self, shard: Shard, number: int) -> None:
        """Appends a row, and gives it another number."""
        self._change(shard, number, number + MOVED, f"UPDATE t SET id = id + {MOVED} WHERE id = {number}")

    def _change(self, shard: Shard, number: int, becomes: int | None, sql: str) -> None:
        self.append(shard, number)
        if number not in self.acknowledged:
            return
        try:
            assert run_change(shard, sql) == 1
            self.gone.append(number)
            self.acknowledged.remove(number)
            self.acknowledged += [] if becomes is None else [becomes]
            self.done["change"] += 1
        except IndeterminateError:
            self.acknowledged.remove(number)
            self.maybe.append((number, becomes))
        except (StoreError, ConflictError):
            self.done["change, failed"] += 1

    def append(self, shard: Shard, number: int) -> None:
        try:
            shard.append(rows(number), token=str(number))
            self.acknowledged.append(number)
        except IndeterminateError:
            self.unknown.append(number)
        except StoreError:
            self.refused.append(number)

    def compact(self, shard: Shard, _: int) -> None:
        self._maintain("compact", lambda: compact_shard(shard))

    def sweep(self, shard: Shard, _: int) -> None:
        self._maintain("sweep", lambda: sweep_shard(shard))

    def _maintain(self, name: str, work: Callable[[], object]) -> None:
        try:
            work()
            self.done[name] += 1
        except StoreError:
            self.done[f"{name}, failed"] += 1

    def run(self, job: Callable[[Shard, int], None], start: int, endpoint: str) -> None:
        end = time.monotonic() + SECONDS
        try:
            shard, number = open_shard(self.place, self.options, endpoint, in_log=True), start
            while time.monotonic() < end:
                job(shard, number)
                number += 1
                if number % 40 == 0:  # a process that starts
                    shard = open_shard(self.place, self.options, endpoint, in_log=True)
        except BaseException as error:  # noqa: BLE001  # told in the test's own thread
            self.failures.append(error)


def test_some_minutes_of_spoilt_answers(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", 10)
    work = Work(f"s3://lake/{secrets.token_hex(6)}", options)
    create(work.place, options)
    with spoiling(options["endpoint"], seed=int(os.environ.get("TIDEGATE_SEED", "5")), often=0.15) as proxy:
        jobs = [work.append, work.append, work.delete, work.update, work.compact, work.sweep]
        threads = [
            threading.Thread(target=work.run, args=(job, 1_000_000 * (i + 1), proxy.url))
            for i, job in enumerate(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not work.failures, work.failures[0]
    there = Counter(ids(open_shard(work.place, options)))
    print(f"{len(work.acknowledged)} acknowledged, {len(work.refused)} refused, {len(work.unknown)} unknown")
    print(f"{len(work.gone)} deleted or updated, {len(work.maybe)} perhaps")
    print(work.done, proxy.spoilt)
    assert not [number for number in work.acknowledged if there[number] != 1]
    assert not [number for number in work.refused if there[number]]
    assert not [number for number in work.unknown if there[number] > 1]
    assert not [number for number in work.gone if there[number]]
    for number, becomes in work.maybe:
        assert there[number] + there[becomes or 0] <= 1, number
        assert becomes is None or there[number] + there[becomes] == 1, number
    uncertain = [*work.unknown, *(number for one in work.maybe for number in one if number is not None)]
    assert sum(there.values()) == len(work.acknowledged) + sum(there[number] for number in uncertain)
    assert len(work.acknowledged) > 5
    assert set(proxy.spoilt) == set(SPOILS)
    assert work.done["change"]
    assert work.done["compact"]
    assert work.done["sweep"]
