"""The catalog of names and the places of databases: races, kills and lost answers, one step at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tidegate
from tests.simulation.faults import Faults, FaultyBlob, FaultyConsensus
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.context import open_context
from tidegate.expr.model.types import INT4
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.catalog.catalog import Catalog
from tidegate.storage.catalog.items import (
    CatalogItem,
    ConnectionItem,
    SourceItem,
    SubsourceItem,
    ViewItem,
)
from tidegate.storage.catalog.root import open_root
from tidegate.storage.consensus.protocol import MemoryConsensus
from tidegate.storage.location import Location, parse_location
from tidegate.storage.part.schema import Schema
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.changes import Create, LogEntry, encode_entry
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import FORMAT, Conflict

QUICK = RetryPolicy(times=60, first_s=0.0, longest_s=0.0)
SCHEMA = Schema.of([("a", INT4, True)])
GRACE = Config().sweep_grace_ms


class Killed(BaseException):
    """As by kill -9: nothing of ours catches it."""


class World:
    """A catalog over stores that fail by a seed, and a clock that is moved by hand."""

    def __init__(self, often: float = 0.0) -> None:
        self.clock = ManualClock(1_000)
        self.blob, self.log = MemoryBlob(self.clock), MemoryConsensus()
        self.faults = Faults(3, often=often)

    def catalog(self) -> Catalog:
        consensus, blob = FaultyConsensus(self.log, self.faults), FaultyBlob(self.blob, self.faults)
        return Catalog.open(Machine(consensus, blob, Catalog.KEY, self.clock, QUICK), "d")

    def sweep(self) -> None:
        self.catalog().sweep(Shard)

    def loose(self) -> list[str]:
        return [key for key in self.catalog().machine.fetch().options if key.startswith("loose/")]


def test_two_who_make_the_same_name() -> None:
    """The second comes between the first one's shard and its name."""
    world = World()
    one, two = world.catalog(), world.catalog()
    shard_machine = one.shard_machine

    def meanwhile(shard: str) -> Machine:
        if not two.items():
            two.create_table("t", SCHEMA, {})
        return shard_machine(shard)

    one.shard_machine = meanwhile  # type: ignore[method-assign]  # the interleaving that is tested
    with pytest.raises(tidegate.BindError, match='table "t" already exists'):
        one.create_table("t", SCHEMA, {})
    assert len(world.loose()) == 1
    world.sweep()
    assert len(world.loose()) == 1  # the grace is not over
    world.clock.advance(GRACE + 1)
    world.sweep()
    assert world.loose() == []
    assert list(one.items()) == ["t"]


@pytest.mark.parametrize("survived", range(4))
def test_killed_while_a_table_is_made(survived: int) -> None:
    """After each number of changes to the log: the name can be made, and sweep leaves nothing behind."""
    world = World()
    catalog = world.catalog()
    left = [survived]
    consensus = catalog.machine.consensus
    assert isinstance(consensus, FaultyConsensus)
    propose = world.log.compare_and_set

    def killing(key: str, expected: int | None, data: bytes) -> bool:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return propose(key, expected, data)

    world.log.compare_and_set = killing  # type: ignore[method-assign]  # the kill that is tested
    try:
        catalog.create_table("t", SCHEMA, {})
        assert survived == 3
    except Killed:
        assert survived < 3
    del world.log.compare_and_set  # type: ignore[method-assign]  # as it was
    assert list(world.catalog().items()) == (["t"] if survived == 3 else [])
    world.clock.advance(GRACE + 1)
    world.sweep()
    assert world.loose() == []
    if survived < 3:
        world.catalog().create_table("t", SCHEMA, {})


SOURCE: dict[str, CatalogItem] = {
    "k": ConnectionItem("kafka", {"broker": "h:1", "sasl password": "x"}),
    "s": SourceItem("1", "CREATE SOURCE s", {"errors": "2"}, view=ViewItem("SELECT 1")),
    "s_errors": SubsourceItem("2", "s"),
}


@pytest.mark.parametrize("survived", range(5))
def test_killed_while_a_source_is_made(survived: int) -> None:
    """Two shards and three names: all of it is there, or none of it, and nothing is left."""
    world = World()
    catalog, left = world.catalog(), [survived]
    propose = world.log.compare_and_set

    def killing(key: str, expected: int | None, data: bytes) -> bool:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return propose(key, expected, data)

    world.log.compare_and_set = killing  # type: ignore[method-assign]  # the kill that is tested
    try:
        catalog.create(SOURCE, {"1": (SCHEMA, {"a": 1}), "2": (SCHEMA, {})})
        assert survived == 4
    except Killed:
        assert survived < 4
    del world.log.compare_and_set  # type: ignore[method-assign]  # as it was
    found = world.catalog()
    assert found.items() == (SOURCE if survived == 4 else {})
    world.clock.advance(GRACE + 1)
    world.sweep()
    assert world.loose() == []
    for shard in ("1", "2"):
        machine = found.shard_machine(shard)
        assert not machine.exists() or machine.fetch().dropped == (survived < 4)


def test_items_are_what_they_were() -> None:
    world = World()
    one = world.catalog()
    one.create(SOURCE, {"1": (SCHEMA, {}), "2": (SCHEMA, {})})
    assert world.catalog().items() == SOURCE
    assert list(world.catalog().readable()) == ["s", "s_errors"]
    source = SOURCE["s"]
    assert isinstance(source, SourceItem)
    paused = replace(source, paused=True)
    one.change("s", SOURCE["s"], paused)
    assert world.catalog().find("s") == paused
    with pytest.raises(Conflict, match='"s" was changed meanwhile'):
        one.change("s", SOURCE["s"], paused)
    with pytest.raises(tidegate.BindError, match='connection "k" already exists'):
        one.create({"x": ConnectionItem("aws"), "k": ConnectionItem("aws")}, {})
    assert "x" not in one.items()
    with pytest.raises(Conflict, match='"k" was changed'):
        one.create({"x": ConnectionItem("aws")}, {}, {"k": ConnectionItem("kafka")})
    with pytest.raises(tidegate.BindError, match="somebody needs it"):
        one.drop({"k": SOURCE["k"]}, _refuse)
    one.drop({"s": paused, "s_errors": SOURCE["s_errors"]})
    assert list(world.catalog().items()) == ["k"]


def _refuse(left: object) -> None:
    raise tidegate.BindError("somebody needs it")


def test_a_maker_that_slept_too_long() -> None:
    world = World()
    one = world.catalog()
    shard_machine = one.shard_machine

    def asleep(shard: str) -> Machine:
        world.clock.advance(GRACE + 1)
        world.sweep()
        return shard_machine(shard)

    one.shard_machine = asleep  # type: ignore[method-assign]  # the interleaving that is tested
    with pytest.raises(Conflict, match="took so long"):
        one.create_table("t", SCHEMA, {})
    assert one.items() == {}


def test_lost_answers_neither_double_nor_lose_names() -> None:
    world = World(often=0.3)
    for i in range(40):
        world.catalog().create_table(f"t{i}", SCHEMA, {})
        if i % 3 == 0:
            catalog = world.catalog()
            catalog.drop({f"t{i}": catalog.items()[f"t{i}"]})
    assert sorted(world.catalog().items()) == sorted(f"t{i}" for i in range(40) if i % 3)


@pytest.mark.usefixtures("commits_make_files")
def test_dropped_tables_are_swept_whole() -> None:
    clock = ManualClock(1_000)
    place = Location("memory", "", "memory", memory=(MemoryBlob(clock), MemoryConsensus()))
    lake = open_context(open_root(place, clock), clock, Config())
    db = tidegate.Database(lake)
    db.sql("CREATE TABLE t (a int4); CREATE TABLE u (a int4)")
    for name in ("t", "u"):
        db.append(name, {"a": [1, 2, 3]})
    lake.table("t").machine.roll(lake.table("t").machine.fetch())
    db.sql("DROP TABLE t")
    db.sweep()
    assert len(list(place.blob().list("part/"))) == 2
    clock.advance(2 * GRACE)
    db.sweep()
    left = [entry.name for folder in ("part", "seg", "roll") for entry in place.blob().list(f"{folder}/")]
    assert [name.partition("/")[0] for name in left] == ["part"]
    assert db.sql("SELECT a FROM u ORDER BY a").rows() == [(1,), (2,), (3,)]


def test_a_catalog_of_a_newer_format() -> None:
    world = World()
    Machine(world.log, world.blob, Catalog.KEY).create(Create(FORMAT, Catalog.KEY, {}, {"database": "d"}))
    data = encode_entry(LogEntry("t", 0, Create(FORMAT + 1, "catalog", {}, {})))
    log = MemoryConsensus()
    log.compare_and_set(Catalog.KEY, None, data)
    with pytest.raises(tidegate.TidegateError, match="upgrade Tidegate"):
        _ = Catalog(Machine(log, world.blob, Catalog.KEY)).database


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("url", "root", "metadata", "postgres", "options"),
    [
        ("/x/lake", "/x/lake", "sqlite", "", {}),
        ("file:///x/my%20lake", "/x/my lake", "sqlite", "", {}),
        ("/x/a?b", "/x/a?b", "sqlite", "", {}),
        ("/x?metadata=postgresql://h/d?a=1&b=2", "/x", "postgres", "postgresql://h/d?a=1&b=2", {}),
        ("s3://b/p/", "s3://b/p", "log", "", {}),
        ("s3://b/p?region=eu&endpoint=http://h:1", "s3://b/p", "log", "", {"region": "eu", "endpoint": "http://h:1"}),
        (
            "s3://b?region=eu&metadata=postgres://h/d?a=1&b=2",
            "s3://b", "postgres", "postgres://h/d?a=1&b=2", {"region": "eu"},
        ),
        (
            "s3://b?metadata=postgresql%3A%2F%2Fh%2Fd%3Fa%3D1&region=eu",
            "s3://b", "postgres", "postgresql://h/d?a=1", {"region": "eu"},
        ),
        ("gs://b/p?metadata=log&x=1", "gs://b/p", "log", "", {"x": "1"}),
    ],
)  # fmt: skip
def test_urls(url: str, root: str, metadata: str, postgres: str, options: dict[str, str]) -> None:
    found = parse_location(url)
    assert (found.root, found.metadata, found.postgres, dict(found.options)) == (
        root,
        metadata,
        postgres,
        options,
    )


def test_relative_paths_are_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = parse_location("lake")
    monkeypatch.chdir("/")
    assert found.root == str(tmp_path / "lake")
