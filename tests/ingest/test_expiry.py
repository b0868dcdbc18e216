"""Rows that come and go by themselves: at every time, every reader gives exactly what seed 003's equations say.

A run is a random history on a clock of its own: rows arrive and are taken back, time passes (mostly to the very millisecond at
which something begins or ends, or the one before), parts are compacted, expired and swept, the database is closed and opened again.
After each step plain reads, reads AS OF, and the change feed are compared with RAW (`expiring.py`).

Every transform has a run without and one with retractions, of 15 steps each with two reads, some 1,300 queries of 15 ms: about
20 s. A round of them finds a bound that is off by one, a part or a row that is dropped a millisecond early, a feed that forgets a
lower bound, a reader that takes another time than it should; `tests/unit/storage/maintain/test_expire.py` has what it takes
luck to meet. More
rounds, from other seeds:

    TIDEGATE_EXPIRY=20 pytest tests/ingest/test_expiry.py

`tests/spark/test_expiry.py` asks the readers on Spark.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.expiring import TRANSFORMS, World

SEED = int(os.environ.get("TIDEGATE_SEED", "1"))
TIMES = int(os.environ.get("TIDEGATE_EXPIRY", "1"))
STEPS = 15
OFF = ("stats_filter", "late_materialization", "fast_path")


@pytest.mark.parametrize("seed", [SEED + i for i in range(TIMES)])
@pytest.mark.parametrize("retracts", [False, True], ids=["append", "retract"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_reader_at_every_time(tmp_path: Path, name: str, retracts: bool, seed: int) -> None:
    dice = random.Random(f"{name} {retracts} {seed}")
    world = World(tmp_path / "lake", dice, TRANSFORMS[name], retracts, dice.choice([0, 40, 40, 400, None]))
    story = [f"retention {world.retention}"]
    try:
        for _ in range(STEPS):
            story.append(f"{world.step()} at {world.clock.now()}")
            check(world, None)
            for time in world.times(1):
                story.append(f"as of {time}")
                check(world, time)
            world.check_feed()
    except BaseException as error:
        error.add_note("\n".join(story))
        raise
    finally:
        world.db.close()


Asked = Callable[[str], list[tuple[Any, ...]]]
Rows = list[tuple[int, int | None]]


def check(world: World, as_of: int | None) -> None:
    """All rows, and two other ways to read, by chance."""
    truth = world.truth(world.now if as_of is None else as_of)
    every = [row for row, many in truth.items() for _ in range(many)]

    def asked(sql: str) -> list[tuple[Any, ...]]:
        flag = world.dice.choice([None, None, *OFF])
        off = "" if flag is None else f" OPTIONS ({flag} = off)"
        return world.db.sql(sql + off, as_of=as_of).rows()

    assert Counter(asked("SELECT * FROM c")) == truth
    filtered(asked, every)
    world.dice.choice(WAYS)(asked, every)


def aggregates(asked: Asked, every: Rows) -> None:
    """What statistics tell among them."""
    ids, xs = [id_ for id_, _ in every], [x for _, x in every if x is not None]
    expected = (len(every), len(xs), min(ids, default=None), max(xs, default=None))
    assert asked("SELECT count(*), count(x), min(id), max(x) FROM c") == [expected]


def some(asked: Asked, every: Rows) -> None:
    """The fast path."""
    few = Counter(asked("SELECT * FROM c LIMIT 3"))
    assert few <= Counter(every)
    assert few.total() == min(3, len(every))


def best(asked: Asked, every: Rows) -> None:
    """Top-k."""
    ordered = sorted(every, key=lambda row: (-row[0], -1 if row[1] is None else row[1]))
    assert asked("SELECT * FROM c ORDER BY id DESC, x NULLS FIRST LIMIT 4") == ordered[:4]


def filtered(asked: Asked, every: Rows) -> None:
    found = asked("SELECT id FROM c WHERE x > 2")
    assert Counter(found) == Counter((id_,) for id_, x in every if x is not None and x > 2)


def grouped(asked: Asked, every: Rows) -> None:
    found = asked("SELECT x, count(*) FROM c GROUP BY x")
    assert Counter(found) == Counter(Counter(x for _, x in every).items())


def viewed(asked: Asked, every: Rows) -> None:
    assert Counter(asked("SELECT * FROM v")) == Counter((id_ + 1, x) for id_, x in every)


def failing(asked: Asked, every: Rows) -> None:
    """An expression that fails on rows that are not there does not fail."""
    gone = next((id_ for id_ in range(1, 10) if all(id_ != other for other, _ in every)), None)
    if gone is not None:
        found = asked(f"SELECT count(1 / (id - {gone})) FROM c WHERE 1 / (id - {gone}) < 5")
        assert found == [(len(every),)]


WAYS = (aggregates, some, best, filtered, grouped, viewed, failing)
