"""DELETE and UPDATE over a shard, and a model of what every time must show afterwards.

    history = History(world.create(SCHEMA))
    history.append(shard, [(1, 10, "a")])            the rows, and the time that they got
    history.change(shard, DELETE_ODD)                through the code of the statement, positions, races and all
    history.check(world.open())                      every time that can be read, and every change

A change is written twice: as SQL, and as a function of a row. The model is a list of (row, time, diff); a change is put into it at
the time of its entry in the log, so that of two changes that raced the later one meets what the earlier one left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from tests.unit.storage.shards import World
from tidegate.context import relation_of
from tidegate.errors import UnsupportedError
from tidegate.expr.model.types import INT8, TEXT
from tidegate.query import Result
from tidegate.query.cancellation import CancelToken
from tidegate.sql.bind import DictCatalog, Relation, bind_change
from tidegate.sql.changes import ChangeTarget, bind_merge, bind_update, needs_query
from tidegate.sql.parse import parse_statement
from tidegate.sql.parse.statement import Delete, Merge, Update
from tidegate.statements.modify import by_value, commit, general, run
from tidegate.statements.modify.change import BoundModification
from tidegate.statements.modify.concurrency import Attempts
from tidegate.statements.pinned import Pinned
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.changes import Change
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import Snapshot, open_snapshot
from tidegate.storage.shard.state import State

SCHEMA = Schema.of([("id", INT8, False), ("v", INT8, True), ("s", TEXT, True)])

Row = tuple[Any, ...]


@dataclass(frozen=True)
class RowChange:
    """DELETE or UPDATE, as SQL and as what it does to a row."""

    sql: str
    passes: Callable[[Row], bool]
    becomes: Callable[[Row], Row] | None = None
    """The new row; None: it is deleted."""


DELETE_ALL = RowChange("DELETE FROM t", lambda _: True)
DELETE_ODD = RowChange("DELETE FROM t WHERE id % 2 = 1", lambda row: row[0] % 2 == 1)
DELETE_LOW = RowChange("DELETE FROM t WHERE id < 4", lambda row: row[0] < 4)
DELETE_HIGH = RowChange("DELETE FROM t WHERE id >= 8", lambda row: row[0] >= 8)
RAISE_EVEN = RowChange(
    "UPDATE t SET v = v + 100 WHERE id % 2 = 0",
    lambda row: row[0] % 2 == 0,
    lambda row: (row[0], None if row[1] is None else row[1] + 100, row[2]),
)
MOVE_LOW = RowChange(
    "UPDATE t SET id = id + 50 WHERE id < 4", lambda row: row[0] < 4, lambda row: (row[0] + 50, *row[1:])
)


MERGE_LOW = RowChange(
    "MERGE INTO t USING (VALUES (1), (2), (3)) AS x (id) ON t.id = x.id WHEN MATCHED THEN DELETE",
    lambda row: row[0] in (1, 2, 3),
)
RAISE_JOINED = RowChange(
    "UPDATE t SET v = t.v + x.n FROM (VALUES (0, 100), (5, 7)) AS x (rest, n) WHERE t.id % 2 = x.rest",
    RAISE_EVEN.passes,
    RAISE_EVEN.becomes,
)


def run_change(shard: Shard, sql: str, token: str = "") -> int:
    """Runs a statement that changes `t` over a shard, as the statement does; returns how many rows it concerned."""
    given = parse_statement(sql)
    assert isinstance(given, Delete | Update | Merge)
    attempts, count = Attempts(given, CancelToken()), 0

    def name(_: int) -> str:
        nonlocal count
        count += 1
        return f"{token}#{count}"

    while True:
        tokens = SimpleNamespace(token_hex=name)
        with (
            open_snapshot(shard) as found,
            mock.patch.object(commit, "secrets", tokens if token else commit.secrets),
            mock.patch.object(by_value, "secrets", tokens if token else by_value.secrets),
        ):
            wall = shard.clock.now()
            relation = relation_of("t", found.schema, found.state.options)
            context: Any = SimpleNamespace(config=shard.config, metrics=shard.metrics, engine=None)
            if isinstance(given, Merge) or needs_query(given):
                result = _attempt_query(context, given, shard, relation, found, attempts, wall)
            else:
                change = bind_change(given, relation, _no_default, wall)
                bound = BoundModification(given, shard, found.schema, change, wall)
                result = run._attempt(context, bound, found, attempts)
        if result is not None:
            return int(result.text().split()[-1])
        attempts.again()


def _attempt_query(
    context: Any,
    given: Update | Delete | Merge,
    shard: Shard,
    relation: Relation,
    found: Snapshot,
    attempts: Attempts,
    wall: int,
) -> Result | None:
    """One attempt of a statement whose rows a query finds."""
    target, catalog = ChangeTarget(relation, _no_default), DictCatalog({"t": relation})
    bind: Any = bind_merge if isinstance(given, Merge) else bind_update
    bound = general.BoundModificationQuery(given, shard, found.schema, bind(given, target, catalog, wall))
    seen: Any = None
    return general._LocatedAttempt(context, Pinned(bound, {"t": found}, seen, wall), attempts).result()


def _no_default(place: int) -> Any:
    raise UnsupportedError(f"column {place} has no default here")


def as_table(rows: Sequence[Row], schema: Schema = SCHEMA) -> dict[str, list[Any]]:
    """Rows as `append` takes them."""
    return {column.name: [row[i] for row in rows] for i, column in enumerate(schema.columns)}


@dataclass
class History:
    """What was done to a shard, and so what it must hold at every time."""

    updates: list[tuple[Row, int, int]] = field(default_factory=list)
    waiting: dict[str, RowChange] = field(default_factory=dict)
    """By token: changes that may have been made; the log says whether, and at which time."""
    said: dict[str, int] = field(default_factory=dict)
    """By token: how many rows a change said it concerned."""
    count: int = 0

    def append(self, shard: Shard, rows: Sequence[Row], diff: int = 1, at: int | None = None) -> None:
        """Appends rows."""
        done = shard.append(as_table(rows), diff=diff, at=at)
        self.updates += [(row, done.at, diff) for row in rows]

    def change(self, shard: Shard, change: RowChange) -> int:
        """Deletes or updates rows."""
        self.count += 1
        token = f"change {self.count}"
        self.waiting[token] = change
        self.said[token] = rows = run_change(shard, change.sql, token)
        there = any(known.startswith(f"{token}#") for known in shard.machine.fetch().tokens)
        assert there or not rows or change.becomes is not None, "it says that it did what is not in the log"
        return rows

    def learn(self, state: State) -> None:
        """Puts the changes that were made into the model, in the order of their times."""
        made = []
        for token, upper in state.tokens.items():
            name = token.rpartition("#")[0]
            change = self.waiting.pop(name, None)
            if change is not None:
                made.append((upper - 1, name, change))
        for time, name, change in sorted(made, key=lambda one: one[0]):
            passing = {row: n for row, n in self.rows_at(time - 1).items() if change.passes(row)}
            assert self.said.get(name, sum(passing.values())) == sum(passing.values()), change.sql
            for row, count in passing.items():
                self.updates.append((row, time, -count))
                if change.becomes is not None:
                    self.updates.append((change.becomes(row), time, count))

    def sums_at(self, as_of: int) -> Counter[Row]:
        """The sum of the diffs of each row."""
        sums: Counter[Row] = Counter()
        for row, time, diff in self.updates:
            sums[row] += diff if time <= as_of else 0
        return sums

    def rows_at(self, as_of: int) -> Counter[Row]:
        """The rows that are there at a time."""
        return +self.sums_at(as_of)

    def move_back(self, to: int) -> None:
        """Moves later times back to `to`, as a repair does."""
        self.updates = [(row, min(time, to), diff) for row, time, diff in self.updates]

    def times(self, state: State) -> list[int]:
        """The times to be looked at: those of changes, those before them, the first and the last."""
        seen = {time + by for _, time, _ in self.updates for by in (-1, 0)} | {state.since, state.upper - 1}
        return sorted(time for time in seen if state.since <= time < state.upper)

    def check(self, *shards: Shard) -> None:
        """Every time that can be read shows what it must, and changes add up to the differences."""
        for shard in shards:
            state = shard.machine.fetch()
            self.learn(state)
            for as_of in self.times(state):
                assert read(shard, as_of) == self.rows_at(as_of), f"as of {as_of}"
            self.check_changes(shard, state)
            self.check_totals(state)

    def check_changes(self, shard: Shard, state: State) -> None:
        """The feed from each time that can be told apart is the model's updates."""
        starts = [time for time in self.times(state) if time > state.since]
        for start in starts[:: max(1, len(starts) // 4)]:
            want: Counter[tuple[Row, int]] = Counter()
            for row, time, diff in self.updates:
                want[row, time] += diff if time >= start else 0
            got = feed(shard, start)
            assert {k: n for k, n in got.items() if n} == {k: n for k, n in want.items() if n}, start

    def check_totals(self, state: State) -> None:
        """The state's counts agree with the model's sum of diffs."""
        deleted = sum(state.parts.deletions.records.column("diffs").to_pylist())
        stored = sum(part.diffs for part in state.parts.all())
        assert stored - deleted == sum(self.sums_at(state.upper).values())


def read(shard: Shard, as_of: int | None = None) -> Counter[Row]:
    """The rows of a shard."""
    with open_snapshot(shard, as_of) as found:
        return Counter(tuple(row.values()) for batch in found.batches() for row in batch.to_pylist())


def feed(shard: Shard, start: int, stop: int | None = None) -> Counter[tuple[Row, int]]:
    """The changes of a shard: by row and time, the sum of the diffs."""
    found: Counter[tuple[Row, int]] = Counter()
    with open_changes(shard, start, stop) as changes:
        for batch in changes.batches():
            for row in batch.to_pylist():
                *values, time, diff = row.values()
                found[tuple(values), time] += diff
    return found


def before_entry(shard: Shard, wanted: Callable[[Change], bool], *works: Callable[[], object]) -> list[int]:
    """Others work after this process has decided on a wanted entry of the log, and before it is made.

    One of `works` each time; the list counts how often there was one.
    """
    update, left, met = shard.machine.update, list(works), [0]

    def meddled(propose: Callable[[State], Change | None]) -> State:
        def deciding(state: State) -> Change | None:
            change = propose(state)
            if left and change is not None and wanted(change):
                met[0] += 1
                left.pop(0)()
            return change

        return update(deciding)

    shard.machine.update = meddled  # type: ignore[method-assign]  # others come between
    return met


def tasks_of(world: World) -> Any:
    """Where tasks find the parts of a world."""
    return SimpleNamespace(blob=lambda: world.blob)
