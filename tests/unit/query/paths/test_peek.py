"""LIMIT and ORDER BY … LIMIT: few parts are read, whatever their number, and the rows are right."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.unit.storage.shards import World
from tidegate.config import Config
from tidegate.expr.model.types import INT8, MZ_TIMESTAMP
from tidegate.plan import MapFilterProject
from tidegate.query import ResultShape, ScanRequest, answer
from tidegate.query.admission import PeekSlots
from tidegate.query.cancellation import CancelToken
from tidegate.query.paths import peek
from tidegate.query.paths.prefetch import ahead
from tidegate.sql.bind.query import bind_expression
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard import Shard, shard_options
from tidegate.storage.shard.snapshot import open_snapshot

PARTS, ROWS = 30, 500


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    """Thirty parts, the k-th with ids from 500 k on."""
    rng = np.random.default_rng(3)
    with tidegate.open("memory://", config=Config(audit=1.0)) as made:
        made.sql("CREATE TABLE t (id int8, k int8, f float8, s text, n int8)")
        for part in range(PARTS):
            ids = np.arange(ROWS) + part * ROWS
            made.append(
                "t",
                {
                    "id": pa.array(ids),
                    "k": pa.array(rng.integers(0, 1000, ROWS)),
                    "f": pa.array(np.where(rng.random(ROWS) < 0.01, np.nan, rng.random(ROWS))),
                    "s": pa.array([f"s{i:06}" for i in ids]),
                    "n": pa.array(
                        [None if part == 4 and i % 100 == 0 else i for i in ids.tolist()], pa.int64()
                    ),
                },
            )
        yield made


def test_a_limit_reads_one_part(db: tidegate.Database) -> None:
    got = db.sql("SELECT * FROM t LIMIT 10")
    assert (got.path, len(got), got.scan.parts_read, got.scan.parts_total) == ("peek", 10, 1, PARTS)


def test_parts_that_are_proven_come_first(db: tidegate.Database) -> None:
    got = db.sql("SELECT id FROM t WHERE id >= 250 LIMIT 400")
    assert (got.path, got.scan.parts_read) == ("peek", 1)
    assert min(id_ for (id_,) in got.rows()) >= 500, "the part with ids from 250 on is not proven"


def test_a_few_proven_rows_are_read_last() -> None:
    """One updated row, proven to pass, does not spare a part that may hold ten."""
    with tidegate.open("memory://", config=Config(audit=1.0)) as own:
        own.sql("CREATE TABLE t (id int8, v int8)")
        own.append("t", {"id": np.arange(1000), "v": np.arange(1000)})
        own.sql("UPDATE t SET v = 7777 WHERE id < 2")
        for limit, read in ((2, 1), (5, 1), (1000, 2)):
            got = own.sql(f"SELECT v FROM t WHERE v > 5 LIMIT {limit}")
            assert (len(got), got.scan.parts_read) == (min(limit, 996), read)
        assert {v for (v,) in own.sql("SELECT v FROM t WHERE v > 5 LIMIT 2").rows()} == {7777}


def test_offset_and_more_than_there_is(db: tidegate.Database) -> None:
    assert len(db.sql("SELECT id FROM t LIMIT 9223372036854775807 OFFSET 1")) == PARTS * ROWS - 1
    assert db.sql("SELECT id FROM t LIMIT 10 OFFSET 15000").rows() == []
    got = db.sql("SELECT id FROM t LIMIT 0")
    assert (got.path, got.rows(), got.scan.parts_read) == ("metadata", [], 0)
    got = db.sql("SELECT id FROM t WHERE id < 0 LIMIT 5")
    assert (got.path, got.scan.parts_read) == ("metadata", 0)


def test_rows_that_are_there_several_times_count_as_often() -> None:
    with tidegate.open("memory://") as own:
        own.sql("CREATE TABLE t (id int8)")
        own.append("t", {"id": [1, 2]}, diff=np.array([3, 2]))
        assert own.sql("SELECT id FROM t LIMIT 4").rows() == [(1,), (1,), (1,), (2,)]
        assert own.sql("SELECT id FROM t ORDER BY id DESC LIMIT 3").rows() == [(2,), (2,), (1,)]


def test_rows_that_have_ended_are_not_counted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts at both ends are proven to pass and have enough rows, but most have ended: others must be asked too."""
    monkeypatch.setattr(peek, "FIRST", 1)
    schema = Schema.of([("id", INT8, False), ("lower", MZ_TIMESTAMP, True), ("upper", MZ_TIMESTAMP, True)])
    shard = World().create(schema, {shard_options.VALIDITY: [1, 2]})
    shard = Shard.open(shard.machine, shard.config)
    for at, ends in ((5, [50] * 9 + [90]), (6, [90] * 10), (7, [50] * 9 + [90])):
        shard.append({"id": range(10), "lower": [None] * 10, "upper": ends}, at=at)
    shard.append({"id": [0], "lower": [None], "upper": [None]}, at=100)
    plan = MapFilterProject.identity([INT8, MZ_TIMESTAMP, MZ_TIMESTAMP]).filter(
        bind_expression("id >= 0", [("id", INT8)])
    )
    for as_of in (10, 60, 89):
        with open_snapshot(shard, as_of) as found:
            assert found.validity is not None
            valid = plan.filter(*found.validity.conditions(found.schema)).project([0]).at(as_of)
            got = answer(ScanRequest(found, valid, ("id",), ResultShape(limit=5), as_of, Config()))
            assert (len(got), got.path) == (5, "peek")


def test_an_error_that_is_met_is_told_and_one_behind_the_limit_is_not() -> None:
    with tidegate.open("memory://") as own:
        own.sql("CREATE TABLE t (id int8)")
        own.append("t", {"id": [1, 2, 0]})
        assert own.sql("SELECT 10 / id FROM t LIMIT 1").rows() == [(10,)]
        with pytest.raises(tidegate.EvaluationError, match="division by zero"):
            own.sql("SELECT 10 / id FROM t LIMIT 3")


@pytest.mark.parametrize(
    ("order", "most"),
    [
        ("id", 1),
        ("id DESC", 1),
        ("s DESC", 1),
        ("id * 2 + 1 DESC", 1),
        ("n", 1),
        ("n NULLS FIRST", 3),
        ("n DESC", 3),
        ("n DESC NULLS LAST", 1),
        ("k, id", PARTS),
        ("f DESC, id", PARTS),
        ("f, id DESC", PARTS),
        ("id % 10, id", PARTS),
    ],
)
@pytest.mark.parametrize("limit", ["LIMIT 5", "LIMIT 3 OFFSET 4", "LIMIT 600"])
def test_the_best_rows(db: tidegate.Database, order: str, most: int, limit: str) -> None:
    sql = f"SELECT id, n, f::text, k FROM t ORDER BY {order}, id {limit}"
    got, wanted = db.sql(sql), db.sql(f"{sql} OPTIONS (fast_path = off)")
    assert got.rows() == wanted.rows()
    assert (got.path, wanted.path, wanted.scan.parts_read) == ("peek", "local", PARTS)
    assert got.scan.parts_read <= most + (2 if "600" in limit else 0)


def test_all_keys_alike() -> None:
    with tidegate.open("memory://") as own:
        own.sql("CREATE TABLE t (id int8, same int8, w text)")
        for first in (0, 20_000):
            ids = np.arange(20_000) + first
            own.append(
                "t", {"id": ids, "same": pa.nulls(20_000, pa.int64()), "w": pa.array(ids).cast(pa.string())}
            )
        for order in ("same", "same DESC", "same NULLS FIRST"):
            assert len(own.sql(f"SELECT id, w FROM t ORDER BY {order} LIMIT 100")) == 100


def test_a_time_before_the_first_part() -> None:
    with tidegate.open("memory://") as own:
        own.sql("CREATE TABLE t (id int8)")
        own.append("t", {"id": [1]}, at=100)
        got = own.sql("SELECT id FROM t WHERE id > 0 ORDER BY id LIMIT 1", as_of=50)
        assert (got.rows(), got.path) == ([], "metadata")


def test_a_failing_part_is_read_although_its_keys_are_worse() -> None:
    with tidegate.open("memory://") as own:
        own.sql("CREATE TABLE t (id int8, d int8)")
        own.append("t", {"id": [1, 2], "d": [1, 1]})
        own.append("t", {"id": [100], "d": [0]})
        with pytest.raises(tidegate.EvaluationError):
            own.sql("SELECT id, 10 / d FROM t ORDER BY id LIMIT 1")


# ---------------------------------------------------------------- one after the other


def test_jobs_come_in_their_order_and_stop_with_their_consumer() -> None:
    made: list[int] = []

    def job(number: int) -> Iterator[int]:
        for i in range(100):
            made.append(number)
            yield number * 1000 + i

    before = threading.active_count()
    assert list(ahead([lambda n=n: job(n) for n in range(5)], 3)) == [
        n * 1000 + i for n in range(5) for i in range(100)
    ]
    made.clear()
    some = ahead([lambda n=n: job(n) for n in range(50)], 3)
    assert [next(some) for _ in range(3)] == [0, 1, 2]
    some.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() <= before
    assert len(made) < 50


def test_what_a_job_raises_is_raised() -> None:
    def wrong() -> Iterator[int]:
        yield 1
        raise KeyError("here")

    got = ahead([lambda: iter([0]), wrong, lambda: iter([2])], 2)
    assert [next(got), next(got)] == [0, 1]
    with pytest.raises(KeyError, match="here"):
        next(got)


def test_slots_are_taken_in_order_and_no_more_than_allowed() -> None:
    slots, seen, most = PeekSlots(), list[int](), 0
    gate = threading.Event()

    def wait(number: int) -> None:
        nonlocal most
        with slots.acquire(2, CancelToken()):
            seen.append(number)
            most = max(most, slots.running)
            gate.wait()

    threads = []
    for number in range(6):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while slots.running + slots.waiting < number + 1:
            time.sleep(0.001)
    assert (slots.running, slots.waiting) == (2, 4)
    impatient = CancelToken()
    impatient.cancel()
    with pytest.raises(tidegate.CancelledError), slots.acquire(2, impatient):
        pass
    assert slots.waiting == 4
    gate.set()
    for thread in threads:
        thread.join()
    assert (seen[:2], sorted(seen), most, slots.running) == ([0, 1], list(range(6)), 2, 0)


@pytest.mark.parametrize(
    ("where", "limit", "most"),
    [
        ("k >= 0 AND k < 999", 10, 1),  # no part passes whole: one of the newest has enough rows
        ("k = 5 OR k = 6", 40, PARTS),  # all parts are needed
        ("id < 750", 400, 1),  # the newest hold nothing, and the oldest is proven
        ("id >= 7000 AND id < 7400", 400, 2),  # neither the newest nor the oldest hold anything
        ("k < 0", 3, 0),
    ],
)
def test_a_few_parts_are_read_before_all_statistics_are_asked(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch, where: str, limit: int, most: int
) -> None:
    sql = f"SELECT id FROM t WHERE {where} LIMIT {limit}"
    for name, value in (("FIRST", 4), ("MIN_TRIED_PARTS", 1)):
        monkeypatch.setattr(peek, name, value)
    got = db.sql(sql)
    rows, every = got.rows(), db.sql(f"SELECT id FROM t WHERE {where}").rows()
    assert len(set(rows)) == len(rows) == min(limit, len(every))
    assert set(rows) <= set(every)
    assert got.scan.parts_read <= most


def test_parts_that_were_read_first_are_not_read_again(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT id FROM t WHERE k % 7 <> 3 LIMIT 16000"
    plain = sorted(db.sql("SELECT id FROM t WHERE k % 7 <> 3").rows())
    for name, value in (("FIRST", 4), ("MIN_TRIED_PARTS", 1)):
        monkeypatch.setattr(peek, name, value)
    monkeypatch.setattr(peek, "_sure", lambda request: np.full(PARTS, 1 << 20))  # each seems to have enough
    got = db.sql(sql)
    assert sorted(got.rows()) == plain
    assert (got.scan.parts_read, got.scan.parts_pruned) == (PARTS, 0)
