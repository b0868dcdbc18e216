"""Random histories with deletions by position: every question at every time, against a list of updates in Python.

Rows come once or twice, are deleted, updated and (in some histories) retracted by rows with negative diffs, which are looked up at
once or settled later; parts are compacted, re-clustered and swept, `since` moves, rollups are made every few entries, and the
database is opened again as another process would. A question is asked as it is, or with some of the optimisations off; `audit` is
1, so that what statistics leave out is read.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.database import Database
from tidegate.query.paths import peek
from tidegate.storage.maintain.distribute import LocalTaskRunner, compact_distributed
from tidegate.storage.shard import machine, rollup
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.changes import Configure

pytestmark = pytest.mark.slow

CONFIG = Config(
    audit=1.0,
    part_bytes=20_000,
    batch_rows=7,
    compact_fanout=3,
    lease_ms=1_000,
    sweep_grace_ms=2_000,
    as_of_timeout_ms=0,
    max_ahead_ms=0,
)
SWITCHES = ("fast_path", "stats_filter", "late_materialization")
STEPS = 24
"""Enough for several rollups, compactions of compacted parts, and deletions of rows that were moved twice."""

Row = tuple[int, int | None, str | None]
Test = tuple[str, Callable[[Row], bool]]


def some_test(dice: random.Random) -> Test:
    """A filter, as SQL and as a function."""
    a, b = sorted(dice.sample(range(40), 2))
    word = dice.choice(["a", "b", "longer than the others"])
    return dice.choice(
        [
            (f"id BETWEEN {a} AND {b}", lambda row: a <= row[0] <= b),
            (f"id % 5 = {a % 5}", lambda row: row[0] % 5 == a % 5),
            (f"v > {b}", lambda row: row[1] is not None and row[1] > b),
            ("v IS NULL", lambda row: row[1] is None),
            (f"s = '{word}'", lambda row: row[2] == word),
            (f"id < {b} AND s <> '{word}'", lambda row: row[0] < b and row[2] is not None and row[2] != word),
            ("true", lambda _: True),
        ]
    )


def some_rows(dice: random.Random) -> list[Row]:
    start = dice.randrange(30)
    words = [None, "a", "b", "longer than the others"]
    return [
        (start + i, dice.choice([None, *range(-5, 45, 3)]), dice.choice(words))
        for i in range(dice.randrange(1, 9))
    ]


@dataclass
class Life:
    """A table, and what was done to it."""

    seed: int
    retracting: bool
    place: str = field(default_factory=lambda: f"memory://{secrets.token_hex(6)}")
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    updates: list[tuple[Row, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.config = replace(
            CONFIG,
            retraction_lookup_bytes=self.dice.choice([0, 1 << 20]),
            inline_bytes=self.dice.choice([0, 2_000, 16_384]),
        )
        self.db = Database.open(self.place, clock=self.clock, config=self.config)
        cluster = " CLUSTER BY (v)" if self.dice.random() < 0.4 else ""
        self.db.sql(f"CREATE TABLE t (id int8 NOT NULL, v int8, s text){cluster}")

    @property
    def state(self) -> Any:
        return self.db.context.table("t").machine.fetch()

    def rows_at(self, as_of: int) -> list[Row]:
        sums: Counter[Row] = Counter()
        for row, time, diff in self.updates:
            sums[row] += diff if time <= as_of else 0
        return list((+sums).elements())

    def step(self) -> None:
        """Something happens."""
        self.clock.advance(self.dice.choice([0, 1, 5, 700]))
        does = [self.append, self.append, self.delete, self.delete, self.update, self.maintain]
        self.dice.choice([*does, self.retract] if self.retracting else does)()

    def append(self) -> None:
        rows, diff = some_rows(self.dice), self.dice.choice([1, 1, 1, 2])
        self._append(rows, diff)

    def retract(self) -> None:
        rows = self.rows_at(2**62)
        if rows:
            self._append(self.dice.sample(rows, min(len(rows), 3)), -1)

    def _append(self, rows: list[Row], diff: int) -> None:
        columns = {name: [row[i] for row in rows] for i, name in enumerate(("id", "v", "s"))}
        self.db.append("t", columns, diff=diff)
        self.updates += [(row, self.state.upper - 1, diff) for row in rows]

    def delete(self) -> None:
        sql, passes = some_test(self.dice)
        gone = [row for row in self.rows_at(2**62) if passes(row)]
        assert self.db.sql(f"DELETE FROM t WHERE {sql}").text() == f"DELETE {len(gone)}"
        self.updates += [(row, self.state.upper - 1, -1) for row in gone]

    def update(self) -> None:
        sql, passes = some_test(self.dice)
        by, rows = self.dice.choice([0, 2, 30]), [row for row in self.rows_at(2**62) if passes(row)]
        said = self.db.sql(f"UPDATE t SET v = v + {by}, id = id + {by // 2} WHERE {sql}").text()
        assert said == f"UPDATE {len(rows)}"
        for row in rows if by else ():
            new = row[0] + by // 2, None if row[1] is None else row[1] + by, row[2]
            self.updates += [(row, self.state.upper - 1, -1), (new, self.state.upper - 1, 1)]

    def maintain(self) -> None:
        full, shard = self.dice.random() < 0.4, self.db.context.table("t")
        match self.dice.randrange(6):
            case 0 | 1:
                self.db.compact("t", full=full)
            case 2:
                compact_distributed(LocalTaskRunner(), shard, self.db.context.root.place, full=full)
            case 3:
                self.db.recluster("t", by=[self.dice.choice(["v", "id", "s"])])
            case 4:
                self.db.close()
                self.db = Database.open(self.place, clock=self.clock, config=self.config)
            case _:
                keep = self.dice.choice([0, 300, 2_000])
                shard.machine.update(lambda _: Configure({"retention_ms": keep}))
                self.clock.advance(5_000)
                self.db.sweep()

    def check(self, every: bool) -> None:
        """Asks several questions at some times, or all questions at all times."""
        state = self.state
        times = {time + by for _, time, _ in self.updates for by in (-1, 0)} | {state.since, state.upper - 1}
        there = sorted(time for time in times if state.since <= time < state.upper)
        for as_of in there if every else self.dice.sample(there, min(len(there), 3)):
            rows = self.rows_at(as_of)
            asked = QUESTIONS if every else self.dice.sample(QUESTIONS, 3)
            for question in asked:
                off = [f"{name} = off" for name in SWITCHES if self.dice.random() < 0.3]
                question(self, rows, as_of, f" OPTIONS ({', '.join(off)})" if off else "")

    def ask(self, sql: str, as_of: int, options: str) -> list[Any]:
        return self.db.sql(f"SELECT {sql}{options}", as_of=as_of).rows()


def everything(life: Life, rows: list[Row], as_of: int, options: str) -> None:
    assert Counter(life.ask("* FROM t", as_of, options)) == Counter(rows)


def filtered(life: Life, rows: list[Row], as_of: int, options: str) -> None:
    sql, passes = some_test(life.dice)
    assert Counter(life.ask(f"s, id, v FROM t WHERE {sql}", as_of, options)) == Counter(
        (s, id_, v) for id_, v, s in rows if passes((id_, v, s))
    )


def counted(life: Life, rows: list[Row], as_of: int, options: str) -> None:
    """One aggregate alone, and several together: metadata may answer the one, and not the others."""
    sql, passes = some_test(life.dice)
    some = [row for row in rows if passes(row)]
    want: dict[str, Any] = {"count(*)": len(some)}
    for i, name in enumerate(("id", "v", "s")):
        values: list[Any] = [row[i] for row in some if row[i] is not None]
        want[f"count({name})"] = len(values)
        want[f"min({name})"], want[f"max({name})"] = min(values, default=None), max(values, default=None)
    for asked in ([life.dice.choice(list(want))], ["count(v)"], list(want)):
        got = life.ask(f"{', '.join(asked)} FROM t WHERE {sql}", as_of, options)
        assert got == [tuple(want[name] for name in asked)], asked
    assert life.ask("count(*) FROM t", as_of, options) == [(len(rows),)]
    filled = sum(row[1] is not None for row in rows)
    assert life.ask("count(v) FROM t", as_of, options) == [(filled,)]


def limited(life: Life, rows: list[Row], as_of: int, options: str) -> None:
    sql, passes = some_test(life.dice)
    limit = life.dice.choice([1, 3, 10])
    some = Counter(row for row in rows if passes(row))
    got = Counter(life.ask(f"* FROM t WHERE {sql} LIMIT {limit}", as_of, options))
    assert got.total() == min(limit, some.total())
    assert got <= some
    got = Counter(life.ask(f"* FROM t LIMIT {limit}", as_of, options))
    assert (got.total(), got <= Counter(rows)) == (min(limit, len(rows)), True)


def best(life: Life, rows: list[Row], as_of: int, options: str) -> None:
    sql, passes = some_test(life.dice)
    limit = life.dice.choice([1, 3, 10])
    pairs = [(v, id_) for id_, v, s in rows if v is not None and passes((id_, v, s))]
    want = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:limit]
    where = f"v IS NOT NULL AND {sql}"
    assert life.ask(f"v, id FROM t WHERE {where} ORDER BY v DESC, id LIMIT {limit}", as_of, options) == want


def grouped(life: Life, rows: list[Row], as_of: int, options: str) -> None:
    want = Counter(s for _, _, s in rows)
    assert dict(life.ask("s, count(*) FROM t GROUP BY s", as_of, options)) == dict(want)


QUESTIONS = [everything, filtered, counted, limited, best, grouped]


@pytest.mark.parametrize("retracting", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_histories(seed: int, retracting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six seeds of each kind: in twelve histories of 24 steps every pair of neighbouring steps occurs several times."""
    monkeypatch.setattr(machine, "ROLL_EVERY", 3 + seed)
    monkeypatch.setattr(machine, "TRUNCATION_LAG", 2)
    monkeypatch.setattr(peek, "FIRST", 2)  # so that a LIMIT is proven by a few of the parts
    monkeypatch.setattr(rollup, "FANOUT", 2)
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", 10 if seed % 2 else 1 << 16)
    life = Life(seed, retracting)
    life.append()
    for _ in range(STEPS):
        life.step()
        life.check(every=False)
    life.check(every=True)
    life.db.close()


def test_pages_of_rows_are_skipped_and_shown_as_they_are_deleted() -> None:
    """Parts of several pages, of which rows, runs, pages and all but a few rows are deleted, each at a time of its own."""
    clock = ManualClock(1_000_000)
    ids = np.arange(60_000)
    values = ids * 7919 % 60_000
    ends = np.full(len(ids), 2**62)
    with Database.open("memory://", clock=clock, config=Config(audit=1.0, max_ahead_ms=0)) as db:
        db.sql("CREATE TABLE t (id int8, v int8, pad text)")
        for part in np.split(ids, 2):
            db.append("t", {"id": part, "v": values[part], "pad": [f"pad {i % 50}" for i in part]})
        wheres = {
            "id = 12345": ids == 12_345,
            "id BETWEEN 8000 AND 17000": (ids >= 8_000) & (ids <= 17_000),
            "v % 3 = 1": values % 3 == 1,
            "id < 8192": ids < 8_192,
            "id > 30000 AND v > 100": (ids > 30_000) & (values > 100),
        }
        times = [db.status().collections["t"].upper - 1]
        for where, gone in wheres.items():
            clock.advance(10)
            gone &= ends == 2**62
            assert db.sql(f"DELETE FROM t WHERE {where}").text() == f"DELETE {gone.sum()}"
            times.append(db.status().collections["t"].upper - 1)
            ends[gone] = times[-1]
        for step in range(2):
            for as_of in times:
                _check_pages(db, as_of, ids[ends > as_of], values)
            if step == 0:
                db.compact("t", full=True)


def _check_pages(db: Database, as_of: int, there: np.ndarray, values: np.ndarray) -> None:
    for options in ("", " OPTIONS (late_materialization = off, stats_filter = off, fast_path = off)"):

        def ask(sql: str, options: str = options) -> Any:
            return db.sql(f"SELECT {sql}{options}", as_of=as_of).arrow()

        assert ask("count(*) FROM t").column(0).to_pylist() == [len(there)]
        assert np.array_equal(np.sort(ask("id FROM t").column(0).to_numpy()), there)
        for low, high in ((8_100, 8_300), (16_000, 30_500), (0, 60_000)):
            inside = there[(there >= low) & (there < high)]
            got = ask(f"id, v, pad FROM t WHERE id >= {low} AND id < {high}")
            assert sorted(got.column("id").to_pylist()) == inside.tolist()
            assert np.array_equal(values[got.column("id").to_numpy()], got.column("v").to_numpy())
            got = ask(f"id FROM t WHERE id >= {low} AND id < {high} LIMIT 20").column(0).to_pylist()
            assert (len(got), set(got) <= set(inside.tolist())) == (min(20, len(inside)), True)
        top = ask("v FROM t ORDER BY v DESC LIMIT 9").column(0).to_pylist()
        assert top == sorted(values[there].tolist(), reverse=True)[:9]
        low = values[there].min() if len(there) else None
        assert ask("min(v) FROM t").column(0).to_pylist() == [low]


def test_rows_that_prove_a_limit_are_those_that_are_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of the newest and of the oldest part pass, but most of them are deleted: other parts are needed."""
    monkeypatch.setattr(peek, "FIRST", 1)
    with Database.open("memory://", config=Config(audit=1.0)) as db:
        db.sql("CREATE TABLE t (id int8)")
        for part in range(4):
            db.append("t", {"id": range(part * 10, part * 10 + 10)})
        db.sql("DELETE FROM t WHERE id > 31 OR id < 8")
        got = db.sql("SELECT id FROM t WHERE id >= 0 LIMIT 5")
        assert (len(got.rows()), got.path) == (5, "peek")
        assert all(8 <= id_ <= 31 for (id_,) in got.rows())
        assert len(db.sql("SELECT id FROM t WHERE id >= 0 LIMIT 100").rows()) == 24
