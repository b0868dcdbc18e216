"""A repair while others read, follow, compact and change; and what its entry means for parts of several times."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.storage.shard.test_time_check import ANY, NOW, YEAR, clock, found, poisoned, table, where
from tests.unit.storage.shards import QUICK, World, changes, ids, rows
from tidegate.clock import ManualClock
from tidegate.errors import TimeError
from tidegate.statements.modify import by_position
from tidegate.storage.maintain import compact
from tidegate.storage.maintain.repair import repair_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.part.checksum import seal, unseal
from tidegate.storage.part.parts_table import parts_from_table
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot

__all__ = ["clock", "where"]  # fixtures


def test_open_readers_go_on_and_followers_of_changes_are_told() -> None:
    world = World(clock=ManualClock(NOW))
    shard = world.create(max_ahead_ms=0)
    shard.append(rows(1), at=NOW)
    shard.append(rows(2), at=NOW + YEAR)
    other = world.open()
    with open_snapshot(other) as open_before:
        repair_shard(world.open())
        assert sorted(i for b in open_before.batches(["id"]) for i in b.column(0).to_pylist()) == [1, 2]
        open_before.lease.keep()
    assert changes(other, NOW) == [(1, NOW, 1), (2, NOW, 1)]
    with pytest.raises(TimeError, match="a repair moved later times back"):
        open_changes(other, NOW + YEAR + 1)
    state = other.machine.fetch()
    with pytest.raises(TimeError, match="a repair moved later times back"):
        open_changes(other, NOW, repaired=0)
    assert changes(other, NOW + 1) == []
    assert state.repaired > 0


def test_what_is_in_files_does_not_come_back() -> None:
    """Parts of several times, of which a repair takes some back: by every reader, after compaction, rollups and again."""
    world = World(clock=ManualClock(NOW))
    shard = world.create(max_ahead_ms=0, compact_fanout=2)
    wanted = []
    for i in range(8):
        at = NOW + i if i < 4 else NOW + YEAR + i
        shard.append(rows(i), at=at)
        wanted.append((i, min(at, NOW + 100), 1))
    shard.append(rows(0), diff=-1, at=NOW + 2 * YEAR)
    compact.compact_shard(shard, full=True)
    assert max(part.last - part.first for part in _parts(shard)) > YEAR
    world.clock.advance(100)
    repair_shard(shard)
    expected = sorted([*wanted, (0, NOW + 100, -1)])
    for step in range(3):
        fresh = world.open(compact_fanout=2)
        assert changes(fresh, NOW) == expected
        assert ids(fresh) == [1, 2, 3, 4, 5, 6, 7]
        assert ids(fresh, NOW + 2) == [0, 1, 2]
        assert ids(fresh, NOW + 99) == [0, 1, 2, 3]
        assert all(part.last < fresh.machine.fetch().upper for part in _parts(fresh))
        if step == 0:
            fresh.machine.roll(fresh.machine.fetch())
        else:
            world.clock.advance(10_000)
            fresh.append(rows(50 + step), at=None)
            fresh.append(rows(50 + step), diff=-1)
            expected = sorted([*expected, *[c for c in changes(fresh, NOW + 101) if c not in expected]])
            compact.compact_shard(fresh, full=True)
            sweep_shard(fresh)


def _parts(shard: Shard) -> list[Any]:
    return [part for table in shard.machine.fetch().parts.tables() for part in parts_from_table(table)]


def test_a_compaction_that_was_about_to_replace_a_part_is_refused() -> None:
    world = World(clock=ManualClock(NOW))
    shard = world.create(max_ahead_ms=0, compact_fanout=2)
    for i in range(4):
        shard.append(rows(i), at=NOW + YEAR + i)
    slow = world.open(compact_fanout=2)
    before, update = slow.machine.fetch(), slow.machine.update
    assert before.repaired == 0

    def late(propose: Callable[[Any], Any]) -> Any:
        wanted = propose(slow.machine.fetch())
        if type(wanted).__name__ == "Replace" and not shard.machine.fetch().repaired:
            repair_shard(world.open())
        return update(propose)

    slow.machine.update = late  # type: ignore[method-assign]  # a repair comes between its look and its entry
    compact.compact_shard(slow, full=True)
    assert ids(world.open()) == [0, 1, 2, 3]
    assert all(part.last < slow.machine.fetch().upper <= NOW + 1 for part in _parts(slow))


@pytest.mark.parametrize("statement", ["UPDATE t SET id = id + 10", "DELETE FROM t"])
def test_a_statement_that_read_before_the_repair_reads_again(
    where: str, clock: ManualClock, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the repair a row was added, at a time below the one that the statement had read at: it is changed as well."""
    with poisoned(where, clock) as other, table(where, clock, ANY) as db:
        find, done = by_position._find, []

        def late(*args: Any) -> Any:
            found = find(*args)
            if not done:
                done.append(other.repair("t"))
                other.sql("INSERT INTO t VALUES (3, NULL)")
            return found

        monkeypatch.setattr(by_position, "_find", late)
        db.sql(statement)
        assert done, "the repair came between"
        assert found(other) == ([11, 12, 13] if statement.startswith("UPDATE") else [])


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_keep_every_row(seed: int) -> None:
    """Appends (some far ahead), retractions, compactions, rollups, repairs by two clients, against a list of updates."""
    rng, world = random.Random(seed), World(clock=ManualClock(NOW))
    clients = [world.create(max_ahead_ms=0, compact_fanout=2), world.open(max_ahead_ms=0, compact_fanout=2)]
    model: list[list[int]] = []
    for step in range(60):
        shard = rng.choice(clients)
        world.clock.advance(rng.randrange(1, 2_000))
        match rng.choice(
            ["append", "append", "append", "ahead", "retract", "compact", "roll", "repair", "open"]
        ):
            case "append":
                model.append([step, shard.append(rows(step)).at, 1])
            case "ahead":
                at = max(shard.machine.fetch().upper, world.clock.now()) + rng.choice([1, 10**6, YEAR])
                model.append([step, shard.append(rows(step), at=at).at, 1])
            case "retract" if left := [
                row for row, _, _ in model if sum(d for r, _, d in model if r == row) > 0
            ]:
                gone = rng.choice(left)
                model.append([gone, shard.append(rows(gone), diff=-1).at, -1])
            case "compact":
                compact.compact_shard(shard, full=rng.random() < 0.5)
            case "roll":
                shard.machine.roll(shard.machine.fetch())
            case "repair":
                strict = replace(shard.config, max_ahead_ms=600_000)
                done = repair_shard(replace(shard, config=strict))
                for update in model:
                    update[1] = min(update[1], done.upper - 1)
            case "open":
                clients[rng.randrange(2)] = world.open(max_ahead_ms=0, compact_fanout=2)
        if step % 3 == 0:
            _check(world, model, rng)


def _check(world: World, model: list[list[int]], rng: random.Random) -> None:
    shard = world.open(max_ahead_ms=0)
    upper = shard.machine.fetch().upper
    for as_of in {None, upper - 1, *(at for _, at, _ in rng.sample(model, min(3, len(model))))} - {-1}:
        then = [(row, diff) for row, at, diff in model if as_of is None or at <= as_of]
        there = sorted(row for row in {r for r, _ in then} if sum(d for r, d in then if r == row) > 0)
        assert ids(shard, as_of) == there
    assert all(at < upper for _, at, _ in model)


def test_rollups_from_before_repairs_were_known() -> None:
    world = World(clock=ManualClock(NOW))
    shard = world.create()
    shard.append(rows(1))
    shard.machine.roll(shard.machine.fetch())
    (name,) = world.objects("roll/")
    body = json.loads(unseal(name, world.blob.get(name) or b""))
    assert body.pop("repaired") == 0
    world.blob.put(name, seal(json.dumps(body).encode()))
    assert Machine(world.log, world.blob, "shard/s1", world.clock, QUICK).fetch().repaired == 0
    assert ids(world.open()) == [1]
