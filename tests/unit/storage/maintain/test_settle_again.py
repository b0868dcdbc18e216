"""Retractions that find nothing are looked up once, and again only when parts come that may hold their rows."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.unit.storage.shards import World, ids, rows
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.database import Database
from tidegate.errors import StoreError
from tidegate.storage.maintain import settle
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.repair import repair_shard
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.changes import Configure, Evolve
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.shard_options import LOOKED_UP


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many retractions each look-up was for."""
    found: list[int] = []
    locate = settle.locate

    def counting(machine: Any, state: Any, wanted: Any, **options: Any) -> Any:
        found.append(len(wanted))
        return locate(machine, state, wanted, **options)

    monkeypatch.setattr(settle, "locate", counting)
    return found


def waiting() -> tuple[World, Shard]:
    """A part with a retraction whose row comes later, before a part of rows."""
    world = World()
    shard = world.create()
    shard.append(rows(1, 2))
    shard.append(rows(9), diff=-1)
    shard.append(rows(9))
    shard.append(rows(3, 4))
    return world, shard


def too_early() -> tuple[World, Shard]:
    """A part with a retraction of a row that comes later."""
    world = World()
    shard = world.create()
    shard.append(rows(1, 2))
    shard.append(rows(9), diff=-1)
    world.clock.advance(100)
    shard.append(rows(9, 3))
    return world, shard


def test_what_finds_nothing_is_looked_up_once(looked_up: list[int]) -> None:
    world, shard = waiting()
    for _ in range(3):
        assert compact_shard(shard).settled == 0
        shard.append(rows(5, 6))
    assert looked_up == [1]
    shard.machine.roll(shard.machine.fetch())
    number = shard.machine.fetch().number
    assert settle_retractions(world.open()) == 0
    assert looked_up == [1], "another process knows it"
    assert shard.machine.fetch().number == number, "and makes no entry"
    assert ids(world.open()) == [1, 2, 3, 4, 5, 5, 5, 6, 6, 6]


def test_only_new_retractions_are_looked_up(looked_up: list[int]) -> None:
    world, shard = waiting()
    settle_retractions(shard)
    shard.append(rows(2, 4, 8), diff=-1)
    shard.append(rows(8))
    assert settle_retractions(shard) == 2
    assert looked_up == [1, 3]
    assert settle_retractions(shard) == 0
    assert looked_up == [1, 3, 1], "-8 is in a new part, and -9 is earlier than that"
    assert settle_retractions(shard) == 0
    assert looked_up == [1, 3, 1]
    assert (ids(shard), ids(shard, 10_003), ids(world.open())) == ([1, 3], [1, 2, 3, 4], [1, 3])


def test_a_part_that_is_not_later_makes_it_look_again(looked_up: list[int]) -> None:
    """A row that was retracted before it came: the two meet once their times can no longer be told apart."""
    world, shard = too_early()
    settle_retractions(shard)
    assert looked_up == [1]
    shard.machine.update(lambda _: Configure({"retention_ms": 0}))
    world.clock.advance(1_000)
    for _ in range(3):
        compact_shard(shard, full=True)
        assert ids(shard) == ids(world.open()) == [1, 2, 3]
    assert shard.machine.fetch().monotonic


def test_what_an_older_version_did_not_find_is_looked_up_again(looked_up: list[int]) -> None:
    """Older versions found identical rows only, and remembered that by another option."""
    world = World()
    shard = world.create()
    shard.append(rows(9, x=0.0))
    shard.append(rows(9, x=-0.0), diff=-1)
    state = shard.machine.fetch()
    shard.machine.update(lambda _: Configure({"retractions_looked_up": [state.next_id, state.schema.id]}))
    assert compact_shard(world.open()).settled == 1
    assert looked_up == [1]
    assert shard.machine.fetch().monotonic


def test_after_a_repair_it_looks_again(looked_up: list[int]) -> None:
    world, shard = too_early()
    settle_retractions(shard)
    assert (looked_up, ids(shard)) == ([1], [1, 2, 3])
    repair_shard(shard, 10_001)  # the row is as early as its retraction now
    assert settle_retractions(shard) == 1
    assert looked_up == [1, 1]
    assert ids(shard) == ids(world.open()) == [1, 2, 3]
    assert shard.machine.fetch().monotonic


def test_with_another_schema_it_looks_again(looked_up: list[int]) -> None:
    world, shard = waiting()
    settle_retractions(shard)
    schema = shard.machine.fetch().schema
    fewer = Schema.from_json(
        {**schema.to_json(), "id": schema.id + 1, "columns": schema.to_json()["columns"][:2]}
    )
    shard.machine.update(lambda _: Evolve(fewer.to_json()))
    settle_retractions(shard)
    settle_retractions(world.open())
    assert looked_up == [1, 1]


def test_what_others_changed_each_time_is_not_remembered(
    looked_up: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, shard = waiting()
    shard.append(rows(1), diff=-1)
    monkeypatch.setattr(settle, "deletions_unchanged", lambda *_: False)
    assert settle_retractions(shard) == 0
    assert LOOKED_UP not in shard.machine.fetch().options
    monkeypatch.undo()
    assert settle_retractions(world.open()) == 1
    assert ids(shard) == [2, 3, 4]


def test_a_note_that_cannot_be_made_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: Any) -> Configure:
        raise StoreError("the store is away")

    _, shard = waiting()
    monkeypatch.setattr(settle, "Configure", away)
    assert settle_retractions(shard) == 0
    assert ids(shard) == [1, 2, 3, 4]


def test_settled_rows_are_counted() -> None:
    clock = ManualClock(1_000_000)
    config = Config(retraction_lookup_bytes=0)
    with Database.open(f"memory://{secrets.token_hex(6)}", clock=clock, config=config) as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": [1, 2, 3]})
        db.append("t", {"id": [1, 2]}, diff=-1)
        assert 'what="settled"' not in db.metrics()
        db.compact("t")
        assert 'tidegate_rows_total{what="settled"} 2.0' in db.metrics()
