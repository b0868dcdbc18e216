"""Late materialisation: little is read, and it is the same as reading everything."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.query.result import Result

ROWS = 60_000


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    """One part of eight pages: a narrow column in runs, one scattered, a wide text, and a document."""
    rng = np.random.default_rng(7)
    with tidegate.open("memory://", config=Config(audit=1.0, read_threads=1)) as made:
        made.sql("CREATE TABLE t (id int8, run int8, scattered int8, wide text, doc jsonb, maybe int8)")
        ids = np.arange(ROWS)
        made.append(
            "t",
            {
                "id": pa.array(ids),
                "run": pa.array(ids // 500 * 7919 % 120),
                "scattered": pa.array(rng.permutation(ROWS)),
                "wide": pa.array([f"{i * 7919 % 100_003}" + "abcdefghij" * 20 for i in ids]),
                "doc": pa.array([f'{{"n": {i % 97}, "s": "v{i % 13}"}}' for i in ids]),
                "maybe": pa.array([None if i % 5 == 0 else i % 7 for i in ids], pa.int64()),
            },
            at=10,
        )
        yield made


def both(db: tidegate.Database, where: str, select: str = "*") -> tuple[Result, Result]:
    """With late materialisation and without, compared."""
    sql = f"SELECT {select} FROM t WHERE {where}"
    late, plain = db.sql(sql), db.sql(f"{sql} OPTIONS (late_materialization = off, stats_filter = off)")
    assert late.arrow().equals(plain.arrow()), where
    return late, plain


@pytest.mark.parametrize(
    ("where", "rows", "share"),
    [
        ("run = 7", 500, 0.35),
        ("id BETWEEN 9000 AND 9100", 101, 0.35),
        ("run = 7 AND wide LIKE '%1%'", None, 0.4),
        ("id < 9000 AND (doc->>'n')::int8 = 3", None, 0.5),
        ("scattered < 3", 3, 0.75),
        ("maybe = 3 AND run = 5", None, 0.4),
    ],
)
def test_little_is_read(db: tidegate.Database, where: str, rows: int | None, share: float) -> None:
    late, plain = both(db, where)
    assert rows is None or len(late) == rows
    assert late.scan.bytes_read < share * plain.scan.bytes_read


@pytest.mark.parametrize(
    "where",
    [
        "scattered % 2 = 0",
        "wide LIKE '%99%'",
        "maybe IS NULL",
        "NOT (maybe > 3)",
        "run <> 7 OR maybe = 1",
        "doc->>'s' = 'v3'",
    ],
)
def test_scattered_matches_are_the_same(db: tidegate.Database, where: str) -> None:
    both(db, where)
    both(db, where, "id + 1, upper(wide)")


def test_stages_are_told(db: tidegate.Database) -> None:
    late, _ = both(db, "run = 7")
    names = {stage.name: stage for stage in late.scan.stages}
    assert names["filter run"].rows_out == 500
    read = next(stage for name, stage in names.items() if name.startswith("read id"))
    assert (read.rows_in, read.rows_out) == (500, 500)
    narrow, _ = both(db, "id > 59990")
    assert narrow.scan.pages_skipped == 7


def test_false_beats_an_error_that_another_stage_would_meet(db: tidegate.Database) -> None:
    late, _ = both(db, "run = 7 AND 1 / (id - 3) < 5")
    assert len(late) == 500
    with pytest.raises(tidegate.EvaluationError, match="division by zero") as caught:
        db.sql("SELECT wide FROM t WHERE id < 5 AND 1 / (id - 3) < 5")
    assert "id = 3" in str(caught.value)


def test_a_null_waits_for_an_error(db: tidegate.Database) -> None:
    """NULL AND error is an error: a stage that meets the NULL first may not drop the row."""
    with pytest.raises(tidegate.EvaluationError):
        db.sql("SELECT id FROM t WHERE maybe > 100 AND 1 / (id % 5) > 0")


def test_a_time_that_has_not_come_is_not_seen(db: tidegate.Database) -> None:
    with tidegate.open("memory://") as own:
        own.sql("CREATE TABLE t (id int8, s text)")
        for at in (10, 20, 30):
            own.append("t", {"id": np.arange(30_000) + at, "s": [f"{at}"] * 30_000}, at=at)
        own.compact("t", full=True)
        for as_of, wanted in ((10, 1), (20, 2), (30, 3)):
            got = own.sql("SELECT id, s FROM t WHERE id = 500", as_of=as_of)
            assert sorted(got.rows()) == [(500, f"{at}") for at in (10, 20, 30)[:wanted]]


def test_a_column_is_not_taken_for_a_field_of_the_same_path() -> None:
    """To Parquet the column "r.x" and the field x of r are both r.x: bounds of the one are not those of the other."""
    with tidegate.open("memory://", config=Config(audit=0.0)) as own:
        own.sql('CREATE TABLE t (id int8, "r.x" text, r row(x text))')
        own.append("t", {"id": [1, 2], "r.x": ["a", "b"], "r": [{"x": "y"}, {"x": "z"}]})
        assert own.sql("SELECT id FROM t WHERE \"r.x\" = 'a'").rows() == [(1,)]
        assert own.sql("SELECT id FROM t WHERE \"r.x\" = 'y'").rows() == []


def test_conditions_that_are_proven_for_a_part_are_not_asked_of_it() -> None:
    """`doc` need not be read where statistics prove its condition, although another one is open."""
    with tidegate.open("memory://", config=Config(audit=1.0)) as own:
        own.sql("CREATE TABLE t (id int8, doc text, x int8)")
        for first in (0, 1000):
            ids = np.arange(20_000)
            docs = [f"{first + i % 7:06}" + "pad" * 30 for i in ids.tolist()]
            own.append("t", {"id": ids, "doc": docs, "x": ids * 7919 % 1000})
        got = own.sql("SELECT id FROM t WHERE doc >= '0' AND x = 7")
        plain = own.sql("SELECT id FROM t WHERE doc >= '0' AND x = 7 OPTIONS (stats_filter = off)")
        assert sorted(got.rows()) == sorted(plain.rows())
        assert len(got) == 40
        assert not any("doc" in stage.name for stage in got.scan.stages)
        assert any("doc" in stage.name for stage in plain.scan.stages)


def test_a_small_part_is_read_in_one_go_also_beside_a_large_one() -> None:
    with tidegate.open("memory://", config=Config(audit=1.0)) as own:
        own.sql("CREATE TABLE t (id int8, wide text, x int8)")
        for rows in (20_000, 5_000):
            ids = np.arange(rows)
            own.append("t", {"id": ids, "wide": [f"{i * 7919}" * 4 for i in ids.tolist()], "x": ids % 1000})
        got = own.sql("SELECT id, wide FROM t WHERE x = 7")
        assert len(got) == 25
        stages = {one.name: (one.rows_in, one.rows_out) for one in got.scan.stages if one.name != "prune"}
        assert stages == {"filter x": (20_000, 20), "read id, wide": (20, 20), "read id, wide, x": (5_000, 5)}
