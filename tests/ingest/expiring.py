"""A collection whose rows come and go by themselves, on a clock of its own, and what it must hold at every time.

What is stored is made as a source makes it: `decompose` takes the transform apart, its safe plan runs over RAW, its expiration
drops what is past, the rest is appended with the two hidden bounds. What must be there is told by RAW alone: seed 003's equation
is `C(t) = Q_mfp(RAW)(t)`, and each transform's `bounds` says in plain Python at which times it lets a row pass.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import tidegate
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.expr.model.types import FLOAT8, INT8, MZ_TIMESTAMP
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.plan.temporal import decompose
from tidegate.sql.bind import query as bind
from tidegate.sql.bind.catalog import DictCatalog, Relation
from tidegate.storage.maintain.expire import expire_parts
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.shard import Shard

MIN, MAX = -(2**63), 2**63 - 1
CONFIG = Config(audit=1.0, lease_ms=20_000, sweep_grace_ms=40_000, as_of_timeout_ms=0, compact_fanout=3)


class Row(NamedTuple):
    """A row of RAW."""

    id: int
    lo: int | None
    hi: int | None
    x: int | None


class Life(NamedTuple):
    """The times at which a row is there: `lower ≤ t < upper`, None: no bound."""

    lower: int | None = None
    upper: int | None = None

    def at(self, time: int) -> bool:
        return (self.lower is None or self.lower <= time) and (self.upper is None or time < self.upper)


class Bad(Exception):  # noqa: N818  # the row goes to the errors
    """The transform fails on a row."""


@dataclass(frozen=True)
class Transform:
    """A condition, and what it means."""

    where: str
    bounds: Callable[[Row], Life | None]
    """None: the row is never there."""


def _next(time: int | None) -> int | None:
    """The +1 of an upper bound that is included, or of a lower one that is not."""
    if time == MAX:
        raise Bad
    return None if time is None else time + 1


def _within(row: Row) -> Life | None:
    if row.x is not None and row.x <= 0:
        return None  # false beats an error
    upper = _next(row.hi)
    return None if None in (row.lo, row.hi, row.x) else Life(row.lo, upper)


def _both(row: Row) -> Life | None:
    other = _next(row.lo)
    return None if row.hi is None or other is None else Life(None, min(row.hi, other))


TRANSFORMS = {
    "upto": Transform("mz_now() <= hi", lambda row: None if row.hi is None else Life(None, _next(row.hi))),
    "window": Transform(
        "mz_now() >= lo AND mz_now() < hi",
        lambda row: None if row.lo is None or row.hi is None else Life(row.lo, row.hi),
    ),
    "between": Transform("mz_now() BETWEEN lo AND hi AND x > 0", _within),
    "equal": Transform("lo = mz_now()", lambda row: None if row.lo is None else Life(row.lo, _next(row.lo))),
    "both": Transform("hi > mz_now() AND mz_now() <= lo", _both),
    "after": Transform("mz_now() > lo", lambda row: None if row.lo is None else Life(_next(row.lo))),
    "always": Transform("x > 2", lambda row: Life() if row.x is not None and row.x > 2 else None),
}


@dataclass
class World:
    """The collection `c`, its clock, and RAW."""

    place: Path
    dice: random.Random
    transform: Transform
    retracts: bool
    retention: int | None = None
    clock: ManualClock = field(default_factory=lambda: ManualClock(10_000_000))
    raw: list[tuple[Row, int, int]] = field(default_factory=list)
    """Rows with the times and diffs by which they came."""

    def __post_init__(self) -> None:
        catalog = DictCatalog({"raw": Relation("raw", tuple((name, INT8) for name in Row._fields))})
        bound = bind.bind_transform(
            f"SELECT id, x::float8 AS x FROM raw WHERE {self.transform.where}", catalog
        )
        safe, expiration, self.final = decompose(bound.mfp.optimise())
        self.safe, self.expiration = SafePlan(safe), SafePlan(expiration)
        self.bounded = len(safe.types) == 4
        names = [
            ("id", INT8),
            ("x", FLOAT8),
            *[("_lower", MZ_TIMESTAMP), ("_upper", MZ_TIMESTAMP)][: 2 * self.bounded],
        ]
        options: dict[str, Any] = {} if self.retention is None else {"retention_ms": self.retention}
        options |= {"validity": [2, 3], "hidden": [2, 3]} if self.bounded else {}
        self.open()
        schema = Schema.of([(name, type_, True) for name, type_ in names])
        self.db.context.catalog.create_table("c", schema, options)
        self.db.sql("CREATE VIEW v AS SELECT id + 1 AS next, x FROM c")

    def open(self) -> None:
        self.db = tidegate.open(self.place, clock=self.clock, config=CONFIG)

    @property
    def shard(self) -> Shard:
        return self.db.context.table("c")

    # ---------------------------------------------------------------- what happens

    def step(self) -> str:
        """Something, by chance; its name."""
        happens: dict[str, tuple[Callable[[], object], int]] = {
            "ingest": (self.ingest, 8),
            "wait": (self.wait, 8),
            "compact": (lambda: self.db.compact("c"), 2),
            "compact all": (lambda: self.db.compact("c", full=True), 2),
            "expire": (lambda: expire_parts(self.shard), 3),
            "sweep": (self.db.sweep, 1),
            "restart": (self.restart, 2),
            "delete": (self.delete, 2 if self.retracts else 0),
        }
        (name,) = self.dice.choices(list(happens), [weight for _, weight in happens.values()])
        happens[name][0]()
        if (
            name == "wait" and self.dice.random() < 0.6
        ):  # at the very moment at which something ends, or just before
            then = self.dice.choice(["expire", "compact", "compact all"])
            if self.dice.random() < 0.5:
                self.ingest()
            happens[then][0]()
            return f"wait and {then}"
        return name

    def ingest(self) -> None:
        """Some rows come from upstream, some that came before are taken back."""
        now = self.clock.now()
        soon, many = self.dice.random() < 0.6, self.dice.choice([1, 1, 2, 5])  # whole parts are to end, too
        given = [(self.row(soon=soon), self.dice.choice([1, 1, 1, 2])) for _ in range(many)]
        there = [row for row, many in self.sums().items() if many > 0]
        there = [row for row in there if self.there(row, now)] or there
        if self.retracts and there and self.dice.random() < 0.6:
            given += [(self.row(), 1), *((row, -1) for row in self.dice.sample(there, min(2, len(there))))]
        columns = [pa.array([row[i] for row, _ in given], pa.int64()) for i in range(4)]
        made = self.safe.evaluate(columns, len(given))
        assert made.failures.rows.tolist() == [i for i, (row, _) in enumerate(given) if self.is_bad(row)]
        kept = self.expiration.evaluate(made.columns, len(made.selection), now)
        diffs = [given[made.selection[i]][1] for i in kept.selection]
        at = self.shard.append(kept.columns, diff=diffs or 1).at
        self.raw += [(row, at, diff) for row, diff in given if not self.is_bad(row)]

    def row(self, *, soon: bool = False) -> Row:
        """One whose bounds are anything; or whose life begins and ends soon."""
        dice, now, x = self.dice, self.clock.now(), self.dice.choice([None, 0, 1, 2, 3, 4, 5])
        if soon:
            return Row(dice.randint(1, 9), now + dice.randint(-2, 40), now + dice.randint(1, 60), x)
        return Row(dice.randint(1, 9), self.time(), self.time(), x)

    def time(self) -> int | None:
        """A bound: none, now, near, far, or beyond what a time can be."""
        now, dice = self.clock.now(), self.dice
        near = [now + dice.randint(-60, 200) for _ in range(8)]
        return dice.choice(
            [None, now, now + 1, *near, now + dice.choice([2_000, 10**7, 10**12]), -1, MIN, MAX - 1, MAX]
        )

    def wait(self) -> None:
        """Until a row comes or goes, or can no longer be asked for, or just before or after; or for some time."""
        now = self.clock.now()
        ends = [edge for row in self.sums() for edge in self.life(row) or () if edge is not None]
        edges = [edge + later for edge in ends for later in (0, self.retention or 0)]
        near = [edge for edge in edges if now < edge < now + 10**6]
        if near and self.dice.random() < 0.8:
            self.clock.set(self.dice.choice(near) + self.dice.choice([-1, -1, 0, 1]))
        else:
            self.clock.advance(self.dice.choice([1, 7, 60, 300, 6_000]))

    def restart(self) -> None:
        self.db.close()
        self.open()

    def delete(self) -> None:
        """By SQL, of what is seen: a row that is still to come stays."""
        shard, now = self.shard, self.now
        kind = self.dice.randint(0, 2)
        self.db.sql(f"DELETE FROM c WHERE id % 3 = {kind}")
        at = shard.machine.fetch().upper - 1
        self.raw += [
            (row, at, -many)
            for row, many in self.sums().items()
            if many and row.id % 3 == kind and self.there(row, now)
        ]

    # ---------------------------------------------------------------- what must be there

    @property
    def now(self) -> int:
        """The time that a plain query reads at."""
        return max(self.clock.now(), self.shard.machine.fetch().upper - 1)

    def sums(self, until: int = MAX) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for row, time, diff in self.raw:
            if time <= until:
                found[row] += diff
        return found

    def life(self, row: Row) -> Life | None:
        return self.transform.bounds(row)

    def is_bad(self, row: Row) -> bool:
        try:
            self.transform.bounds(row)
        except Bad:
            return True
        return False

    def there(self, row: Row, time: int) -> bool:
        life = self.life(row)
        return life is not None and life.at(time)

    def truth(self, time: int) -> Counter[tuple[int, int | None]]:
        """What the collection holds."""
        found: Counter[tuple[int, int | None]] = Counter()
        for row, many in self.sums(time).items():
            if many and self.there(row, time):
                found[row.id, row.x] += many
        return found

    # ---------------------------------------------------------------- what readers say

    def times(self, many: int) -> list[int]:
        """Times that can be asked for by AS OF, those at which something happens among them."""
        state = self.shard.machine.fetch()
        if state.since >= state.upper:
            return []
        last = state.upper - 1
        edges = [
            edge + step
            for row in self.sums()
            for edge in self.life(row) or ()
            if edge is not None
            for step in (-1, 0)
        ]
        inside = [edge for edge in edges if state.since <= edge <= last] or [last]
        ways = [state.since, last, self.dice.randint(state.since, last), self.dice.choice(inside)]
        return [self.dice.choice(ways) for _ in range(many)]

    def check_feed(self) -> None:
        """The changes since the first time that is kept add up to what is there at each later one."""
        state = self.shard.machine.fetch()
        if state.since >= state.upper:
            return
        first = state.since + 1 if state.since else 0
        with open_changes(self.shard, first) as changes:
            batches = list(changes.batches())
        assert all(batch.schema.names == ["id", "x", "_time", "_diff"] for batch in batches)
        rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        assert all(first <= at < state.upper for _, _, at, _ in rows)
        for time in self.times(3):
            there = self.truth(state.since) if state.since else Counter()
            for id_, x, at, diff in rows:
                if at <= time:
                    there[id_, x] += diff
            assert Counter({row: n for row, n in there.items() if n}) == self.truth(time), time
