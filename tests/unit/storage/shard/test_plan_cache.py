"""What planning keeps for the next query is never out of date, and never much."""

import pickle
import threading

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.cache import LruCache
from tidegate.config import Config
from tidegate.expr.model.types import TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time.text import parse_times
from tidegate.storage.shard.parts import MAX_CACHED_ARRAYS, MAX_CACHED_PLANS, Parts

ROWS = 40_000


def table(first: int, shift: int = 0) -> dict[str, pa.Array]:
    ids = np.arange(first, first + ROWS)
    return {
        "id": pa.array(ids),
        "run": pa.array((ids // 100 + shift) % 50),
        "wide": pa.array([f"{i * 7919 % 10_007:06}{'x' * 50}" for i in ids.tolist()]),
    }


def test_it_forgets_what_was_not_asked_for_longest() -> None:
    known, made = LruCache[str, str](3), list[str]()

    def make(key: str) -> str:
        made.append(key)
        return key

    for key in "abcadab":
        assert known.get_or_compute(key, lambda key=key: make(key)) == key  # type: ignore[misc]  # mypy knows no default there
    assert "".join(made) == "abcdb"
    assert len(known) == 3


def test_it_is_kept_with_the_parts_and_goes_with_them() -> None:
    one, two = Parts(), Parts()
    assert one.plans is one.plans is not two.plans
    assert one.arrays is not one.plans
    for i in range(100):
        one.plans.get_or_compute(i, object)
        one.arrays.get_or_compute(i, object)
    assert (len(one.plans), len(one.arrays), len(two.plans)) == (MAX_CACHED_PLANS, MAX_CACHED_ARRAYS, 0)
    assert one.add([]).plans is not one.plans
    assert len(pickle.loads(pickle.dumps(one)).plans) == 0


def test_threads_that_ask_for_the_same_get_the_same() -> None:
    known, got, begin = LruCache[int, int](32), list[list[int]](), threading.Barrier(8)

    def ask() -> None:
        begin.wait()
        got.append([known.get_or_compute(i % 40, lambda i=i: i % 40) for i in range(2000)])  # type: ignore[misc]  # as above

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[i % 40 for i in range(2000)]] * 8
    assert len(known) == 32


def test_the_same_query_sees_what_changed_since() -> None:
    """Every query is asked twice, so that the second time it is answered from what the first left behind."""
    with tidegate.open("memory://", config=Config(audit=1.0)) as db:
        db.sql("CREATE TABLE t (id int8, run int8, wide text)")

        def ids(where: str, as_of: int | None = None) -> list[int]:
            found = [
                sorted(r for (r,) in db.sql(f"SELECT id FROM t WHERE {where}", as_of=as_of).rows())
                for _ in "ab"
            ]
            assert found[0] == found[1]
            return found[0]

        db.append("t", table(0), at=10)
        seven = [i for i in range(ROWS) if i // 100 % 50 == 7]
        assert ids("run = 7") == seven
        db.append("t", table(ROWS, shift=1), at=20)
        more = [i for i in range(ROWS, 2 * ROWS) if (i // 100 + 1) % 50 == 7]
        assert ids("run = 7") == seven + more
        assert ids("run = 7", as_of=15) == seven
        assert ids("run = 7", as_of=20) == seven + more
        db.sql("ALTER TABLE t ADD COLUMN late int8")
        assert ids("run = 7 AND late IS NULL") == seven + more
        db.sql("ALTER TABLE t DROP COLUMN run")
        db.sql("ALTER TABLE t ADD COLUMN run int8")
        assert ids("run = 7") == []
        db.sql("DELETE FROM t WHERE id < 1000")
        assert len(ids("id < 2000")) == 1000


def test_settings_count_although_the_plan_is_known() -> None:
    with tidegate.open("memory://", config=Config(audit=0.0)) as db:
        db.sql("CREATE TABLE t (id int8, run int8, wide text)")
        db.append("t", table(0))
        sql = "SELECT * FROM t WHERE run = 7"
        stages = [{stage.name for stage in db.sql(sql).scan.stages} for _ in "ab"]
        assert stages[0] == stages[1]
        assert "filter run" in stages[0]
        off = db.sql(f"{sql} OPTIONS (late_materialization = off)")
        assert "filter run" not in {stage.name for stage in off.scan.stages}
        every = db.sql(f"{sql} OPTIONS (stats_filter = off)")
        assert every.scan.pages_skipped == 0
        assert every.arrow().equals(off.arrow())


@pytest.mark.parametrize(
    "where", ["id >= 13 AND id < 199987", "id < 150000", "id < 13 OR id >= 8192", "id = 77777"]
)
def test_pages_of_which_all_rows_pass_are_read_apart(where: str) -> None:
    with tidegate.open("memory://", config=Config(audit=0.0, part_bytes=1 << 30)) as db:
        db.sql("CREATE TABLE t (id int8, wide text)")
        db.append("t", {"id": np.arange(200_000), "wide": [f"{i * 7919 % 200_003}" for i in range(200_000)]})
        for select in ("*", "wide", "id + 1, upper(wide)"):
            sql = f"SELECT {select} FROM t WHERE {where}"
            plain = db.sql(f"{sql} OPTIONS (late_materialization = off, stats_filter = off)")
            assert sorted(db.sql(sql).rows()) == sorted(plain.rows())


@pytest.mark.parametrize("type_", [TIMESTAMP, TIMESTAMPTZ])
@pytest.mark.parametrize(
    "zone", ["", "Z", "z", "+00", "-15:59", "+16", "+0530", "-05:30", "+15:60", "+00:00:00", " UTC"]
)
@pytest.mark.parametrize(
    "clock",
    [
        "00:00:00",
        "23:59:59.999999",
        "23:59:59.9999999",
        "24:00:00",
        "12:60:00",
        "1:02:03",
        "10:00:60",
        "10:00:00.",
    ],
)
def test_a_single_time_is_read_as_many_are(type_: Type, zone: str, clock: str) -> None:
    for day in (
        "2024-02-29",
        "2023-02-29",
        "0000-01-01",
        "0001-01-01",
        "9999-12-31",
        "1969-12-31",
        "2024-13-01",
        "2024-1-1",
    ):
        for between in "T t":
            text = f"{day}{between}{clock}{zone}"
            one, two = (parse_times(pa.array([text] * n), type_) for n in (1, 2))
            assert one.values[0] == two.values[0], text
            assert one.values.type == two.values.type
            errors = [None if found.errors is None else found.errors[0].as_py() for found in (one, two)]
            assert errors[0] == errors[1], text
