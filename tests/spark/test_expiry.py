"""Rows that come and go by themselves, read on Spark: each gives what RAW says (`tests/ingest/expiring.py`), at each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.sql import SparkSession

from tests.ingest.expiring import TRANSFORMS, World
from tests.spark.reading import parts_read
from tidegate.spark.engine.scans import FORCED_READER, Reader

WINDOWED = "SELECT id, x, count(*) OVER () FROM c"
"""A query of one collection that is Spark's to run."""


@pytest.fixture(params=["upto", "window", "window retract"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Some history, of several parts; the last rows are to end soon."""
    name, _, retracts = request.param.partition(" ")
    made = World(tmp_path / "lake", random.Random(request.param), TRANSFORMS[name], bool(retracts), 400)
    for _ in range(12):
        made.ingest()
        made.clock.advance(20)
    made.ingest()
    yield made
    made.db.close()


def readers(world: World, spark: SparkSession) -> dict[str, Callable[[int | None], list[Any]]]:
    """The ways to read on Spark, each at a time or now."""
    db, lake = world.db, f"{world.place}:c"

    def general(reader: Reader, as_of: int | None) -> list[Any]:
        token = FORCED_READER.set(reader)
        try:
            found = db.sql(f"{WINDOWED} OPTIONS (engine = spark)", as_of=as_of)
        finally:
            FORCED_READER.reset(token)
        assert found.path == "spark"
        assert all(row[2] == len(found) for row in found.rows())
        return [row[:2] for row in found.rows()]

    return {
        "db.table": lambda as_of: db.table("c", spark, as_of).collect(),
        "a filter": lambda as_of: db.table("c", spark, as_of).where("id > 0").collect(),
        "a view": lambda as_of: db.table("v", spark, as_of).selectExpr("next - 1", "x").collect(),
        "attached": lambda as_of: spark.sql(
            "SELECT * FROM c" if as_of is None else f"SELECT * FROM tidegate('c', {as_of})"
        ).collect(),
        "load": lambda as_of: spark.read.format("tidegate").option("as_of", str(as_of)).load(lake).collect(),
    } | {reader: lambda as_of, reader=reader: general(reader, as_of) for reader in get_args(Reader)}


def test_each_reader_at_each_time(world: World, spark: SparkSession) -> None:
    attached = world.db.attach(spark)
    try:
        for name, read in readers(world, spark).items():
            for as_of in (None, *world.times(1)):
                if name == "load" and as_of is None:
                    continue  # whoever loads by a path has the machine's clock
                truth = world.truth(world.now if as_of is None else as_of)
                assert Counter(tuple(row) for row in read(as_of)) == truth, (name, as_of)
            world.wait()
        assert spark.sql("DESCRIBE c").count() == 2
        assert spark.sql("SELECT * FROM c").columns == world.db.table("c", spark).columns == ["id", "x"]
    finally:
        attached.detach()


def test_a_frame_is_of_the_time_at_which_it_was_made(world: World, spark: SparkSession) -> None:
    before, then = world.db.table("c", spark), world.truth(world.now)
    world.clock.advance(10**6)
    after, now = world.db.table("c", spark), world.truth(world.now)
    assert Counter(map(tuple, before.collect())) == then
    assert Counter(map(tuple, after.collect())) == now
    assert then != now
    # By their statistics alone; where rows are deleted, so few parts are left that all may be needed.
    assert sum(parts_read(after)) < sum(parts_read(before)) + world.retracts
