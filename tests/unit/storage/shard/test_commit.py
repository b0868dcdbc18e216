"""The end of a Spark write without Spark: what tasks gathered, as messages, appended once, whatever others do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import tidegate
from tidegate import Database
from tidegate.config import Config
from tidegate.errors import ConflictError, EvaluationError, StoreError
from tidegate.spark.write.batch import WritePlan, plan_write
from tidegate.spark.write.stream import MAX_STREAMS, StreamSink
from tidegate.storage.part.conform import conform
from tidegate.storage.shard import AppendOptions
from tidegate.storage.shard.changes import Forget
from tidegate.storage.shard.commit import commit_built_parts, discard_built_parts
from tidegate.storage.shard.part_builder import BuiltParts
from tidegate.storage.shard.state import State

FAR = 10**6
"""The number of a partition that may send nothing inside of its message."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with tidegate.open(tmp_path / "lake") as found:
        found.sql("CREATE TABLE t (id int8 NOT NULL, name text)")
        yield found


def table(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})


def plan_of(db: Database, given: pa.Table, *, overwrite: bool = False, **options: str) -> WritePlan:
    root = db.context.root.place.root
    return plan_write({"path": f"{root}:t", **options}, from_arrow_schema(given.schema), overwrite=overwrite)


def gather(plan: WritePlan, given: pa.Table, partition: int = 0) -> BuiltParts:
    return plan.gathering().all(iter(given.to_batches(2)), partition)


def ids(db: Database, as_of: int | None = None) -> list[int]:
    return sorted(row[0] for row in db.sql("SELECT id FROM t", as_of=as_of).rows())


def batch_of(plan: WritePlan, **more: Any) -> AppendOptions:
    return AppendOptions(plan.token, plan.schema.id, overwrite=plan.overwrite, **more)


def test_few_rows_travel_and_many_are_parts(db: Database) -> None:
    plan = plan_of(db, table(1), part_bytes="5")
    inline, part = (
        gather(replace(plan, config=Config()), table(1, 2, 3)),
        gather(plan, table(4, 5, 6, 7), FAR),
    )
    assert (len(inline.parts), bool(inline.inline)) == (0, True)
    assert len(part.parts) == 2
    assert not part.inline
    assert gather(plan, table(1).slice(1)) == BuiltParts((), b"")
    commit_built_parts(plan.shard(), [inline, part], batch_of(plan))
    commit_built_parts(plan.shard(), [inline, part], batch_of(plan))
    assert ids(db) == [1, 2, 3, 4, 5, 6, 7], "twice with one token is once"


def test_diffs_of_rows(db: Database) -> None:
    db.append("t", table(1, 2, 2))
    given = table(1, 2, 9).append_column("d", pa.array([-1, -2, 3], pa.int8()))
    plan = plan_of(db, given, diffColumn="d")
    commit_built_parts(plan.shard(), [gather(plan, given)], batch_of(plan))
    assert ids(db) == [9, 9, 9]
    for bad, words in ((0, "a diff is 0"), (None, "a diff is NULL")):
        with pytest.raises(EvaluationError, match=words):
            gather(plan, given.set_column(2, "d", pa.array([1, bad, 1], pa.int8())))


def once(work: Callable[[], Any]) -> Callable[[State], None]:
    """A check that does something the first time it is asked."""
    left = [work]

    def check(_: State) -> None:
        if left:
            left.pop()()

    return check


@pytest.mark.parametrize("partition", [0, FAR])
@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda db: db.append("t", table(3, 4)),
        lambda db: db.append("t", table(1), diff=-1),
        lambda db: db.sql("ALTER TABLE t ADD COLUMN more int4"),
        lambda db: db.sql("DELETE FROM t WHERE id = 2"),
        lambda db: db.compact("t", full=True),
    ],
)
def test_an_overwrite_follows_what_others_do(
    db: Database, partition: int, meanwhile: Callable[[Database], Any]
) -> None:
    db.append("t", table(1, 2), at=1000)
    plan = plan_of(db, table(), overwrite=True)
    gathered = gather(plan, table(2, 7, 8), partition)
    commit_built_parts(plan.shard(), [gathered], batch_of(plan, check=once(lambda: meanwhile(db))))
    assert ids(db) == [2, 7, 8]
    assert ids(db, as_of=1000) == [1, 2]


def test_an_overwrite_of_much_reads_in_stretches(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.storage.shard.commit.MAX_CONSOLIDATED_BYTES", 0)
    for i in range(5):
        db.append("t", table(*range(100 * i, 100 * i + 100)))
    plan = plan_of(db, table(), overwrite=True, part_bytes="500")
    commit_built_parts(plan.shard(), [gather(plan, table(7))], batch_of(plan))
    assert ids(db) == [7]
    assert db.status().collections["t"].parts == 6, (
        "nothing is written but the row: the others are deleted by metadata"
    )
    assert db.sql("SELECT count(*) FROM t").rows() == [(1,)]


def test_an_overwrite_of_much_with_pending_retractions_reads_in_stretches(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.storage.shard.commit.MAX_CONSOLIDATED_BYTES", 0)
    for i in range(5):
        db.append("t", table(*range(100 * i, 100 * i + 100)))
    db.set("retraction_lookup_bytes", 0)
    db.append("t", table(3), diff=-1)
    plan = plan_of(db, table(), overwrite=True, part_bytes="500")
    commit_built_parts(plan.shard(), [gather(plan, table(7))], batch_of(plan))
    assert ids(db) == [7]
    assert db.status().collections["t"].parts > 8


def test_parts_that_sweep_is_about_to_delete_are_copied(db: Database) -> None:
    plan = plan_of(db, table())
    gathered, other = gather(plan, table(1, 2), FAR), gather(plan, table(3), FAR)
    shard, swept = plan.shard(), gathered.parts[0].name
    shard.machine.update(lambda _: Forget((), (swept,)))
    commit_built_parts(shard, [gathered, other], batch_of(plan))
    named = {part.name for part in shard.machine.fetch().parts.all()}
    assert len(named) == 2
    assert named & {part.name for part in other.parts}, "one that sweep never saw is appended as it is"
    Path(plan.place.root, swept).unlink()
    assert ids(db) == [1, 2, 3]
    late = gather(plan, table(4), FAR)
    shard.machine.update(lambda _: Forget((), (late.parts[0].name,)))
    Path(plan.place.root, late.parts[0].name).unlink()
    with pytest.raises(StoreError, match="was swept before it could be appended"):
        commit_built_parts(shard, [late], batch_of(replace(plan, token="another")))
    assert ids(db) == [1, 2, 3]


def test_what_a_failed_write_leaves(db: Database) -> None:
    plan = plan_of(db, table())
    one, two = gather(plan, table(1), FAR), gather(plan, table(2), FAR)
    folder = Path(plan.place.root, "part")

    def there() -> int:
        return len([path for path in folder.rglob("*") if path.is_file()])

    discard_built_parts(plan.shard(), [one, two])
    assert there() == 2, "the commit may have been made"
    discard_built_parts(plan.shard(), [one, None])
    assert there() == 1, "no commit was tried"


def test_positions_of_streams() -> None:
    state = State(0, "s", ({},))
    mine, theirs = StreamSink("q1", None, takeover=False), StreamSink("q2", "sink", takeover=False)
    assert not mine.is_appended(state.positions, 0)
    for i in range(MAX_STREAMS + 50):
        other = StreamSink(f"other{i}", None, takeover=False)
        state = replace(state, positions=_merged(state.positions, other.next_positions(state, 3, now=i)))
    state = replace(state, positions=_merged(state.positions, mine.next_positions(state, 7, now=9999)))
    state = replace(state, positions=_merged(state.positions, theirs.next_positions(state, 2, now=9999)))
    assert len(state.positions) == MAX_STREAMS
    assert [mine.is_appended(state.positions, batch) for batch in (0, 7, 8)] == [True, True, False]
    with pytest.raises(ConflictError, match="another query"):
        StreamSink("q3", "sink", takeover=False).is_appended(state.positions, 0)
    assert not StreamSink("q3", "sink", takeover=True).is_appended(state.positions, 0)


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**old, **new}.items() if value is not None}


def test_intervals_come_as_durations_and_structs(db: Database) -> None:
    db.sql("CREATE TABLE i (x interval)")
    parts = {"months": 1, "days": -2, "micros": 3}
    db.append("i", {"x": pa.array([parts, None])})
    db.append("i", {"x": pa.array([1500], pa.duration("ms"))})
    found = {str(row[0]) for row in db.sql("SELECT x::text FROM i").rows()}
    assert found == {"1 mon -2 days +00:00:00.000003", "None", "00:00:01.5"}
    schema = db.context.table("i").machine.fetch().schema
    for bad in (pa.array([{**parts, "months": 2**40}]), pa.array([1], pa.duration("ns"))):
        with pytest.raises(EvaluationError):
            conform(schema, {"x": bad})
