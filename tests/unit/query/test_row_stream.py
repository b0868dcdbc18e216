"""Results as streams: rows come as they are read, in bounded memory, and whatever ends them gives back what they held."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tests.large as large
import tidegate
from tidegate.config import Config
from tidegate.errors import CancelledError, EvaluationError, LimitError, TidegateError
from tidegate.query.cancellation import CancelToken

pytestmark = pytest.mark.slow

BIG = "SELECT id, repeat(body, 16) AS b FROM {}"
"""About 15 times as large as what is stored."""
BOUND = 224 << 20
ENGINE = 32 << 20
"""What the embedded engine itself takes, beside the memory that it is allowed for rows."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """t: only appended to; u: also updated and deleted from. About 32 MB each."""
    path = tmp_path_factory.mktemp("lake") / "lake"
    with tidegate.open(path) as db:
        large.grow(db, "t", 32, 4)
        large.grow(db, "u", 32, 4)
        db.sql("DELETE FROM u WHERE id % 50 = 0")
        db.sql("UPDATE u SET grp = grp + 100 WHERE id % 50 = 1")
    return path


@pytest.fixture
def db(lake: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(lake) as opened:
        yield opened


def readers(db: tidegate.Database, name: str) -> int:
    """How many readers of this process hold a collection."""
    held = db.context.collection(name).machine.leases
    leases = [*held.retired, *([held.shared] if held.shared else [])]
    for lease in leases:
        lease.remove_closed()
    return sum(len(lease.open_readers) for lease in leases)


STREAM = """
    db = tidegate.open(sys.argv[1])
    db.set("max_result_bytes", 50_000_000)
    db.set("embedded_memory", 50_000_000)
    len(db.sql("SELECT * FROM t LIMIT 10"))
    begin()
    r = db.sql(sys.argv[2])
    rows = size = 0
    for batch in r.batches():
        rows, size = rows + batch.num_rows, size + batch.nbytes
    assert rows == len(r) == r.scan.rows_returned
    end(rows=rows, size=size, parts=r.scan.parts_read, total=r.scan.parts_total)
"""


@pytest.mark.parametrize(
    "sql",
    [
        BIG.format("t"),
        BIG.format("t") + " LIMIT 10000000",
        BIG.format("t") + " WHERE grp < 9",
        BIG.format("u"),
        BIG.format("u") + " WHERE grp >= 0",
        "SELECT id, min(repeat(body, 1)) AS b, repeat(min(body), 12) AS c FROM t WHERE grp < 3 GROUP BY id",
    ],
)
def test_memory_is_bounded_whatever_the_size(lake: Path, sql: str) -> None:
    found = large.peak(STREAM, str(lake), sql)
    assert found["size"] > 105_000_000, "the result is larger than what may be held"
    assert found["peak"] < BOUND + (ENGINE if "GROUP" in sql else 0), found
    assert found["parts"] == found["total"]
    if "GROUP" not in sql:
        assert found["size"] > 1.75 * BOUND, "the bound says something"


def test_what_is_held_is_bounded_and_what_is_streamed_is_not(db: tidegate.Database) -> None:
    db.set("max_result_bytes", 20_000_000)
    for read in (lambda r: r.arrow(), lambda r: r.rows(), lambda r: r.df(), len, lambda r: r.text()):
        result = db.sql(BIG.format("t"))
        for _ in range(2):
            with pytest.raises(LimitError, match="max_result_bytes"):
                read(result)
    assert readers(db, "t") == 0
    assert sum(batch.num_rows for batch in db.sql(BIG.format("t")).batches()) > 100_000


def test_rows_come_once_and_what_is_held_comes_again(db: tidegate.Database) -> None:
    for sql in ("SELECT id FROM t WHERE id < 5", "SELECT id, body FROM t"):
        result = db.sql(sql)
        count = sum(batch.num_rows for batch in result.batches())
        assert (len(result), result.count) == (count, count), "what came is still counted"
        for again in (result.arrow, result.rows, result.batches, result.df):
            with pytest.raises(TidegateError, match="handed out by batches"):
                again()
        held = db.sql(sql)
        table = held.arrow()
        for _ in range(2):
            assert pa.Table.from_batches(held.batches(), held.schema).equals(table)
        assert held.arrow().equals(table)
        assert len(held) == table.num_rows == count
    half = db.sql("SELECT id, body FROM t")
    next(iter(half.batches()))
    with pytest.raises(TidegateError, match=r"handed out by batches|closed"):
        half.arrow()


def test_what_reads_nothing(db: tidegate.Database) -> None:
    result = db.sql(BIG.format("t"))
    before = result.scan.rows_returned
    assert result.schema.names == ["id", "b"]
    assert (result.path, bool(result)) == ("local", True)
    assert "(more than " in repr(result)
    assert len(result.first_rows(3)) == 3
    assert result.scan.rows_returned == before
    assert result.live
    assert 0 < result.scan.parts_read <= 4
    assert result.exhaust() == result.scan.rows_returned > before
    assert (result.live, result.scan.parts_read, result.scan.parts_total) == (False, 4, 4)
    assert result.scan.bytes_read > 0.9 * result.scan.bytes_total


def test_whatever_ends_a_stream_gives_back_its_lease(db: tidegate.Database) -> None:
    assert readers(db, "t") == 0
    small = db.sql("SELECT id FROM t WHERE id < 5")
    assert readers(db, "t") == 0, "what is complete holds nothing"
    assert len(small) == 5
    one, two, three, four = (db.sql(BIG.format("t")) for _ in range(4))
    assert readers(db, "t") == 4
    one.close()
    with pytest.raises(TidegateError, match="closed"):
        one.arrow()
    rows = two.batches()
    next(rows)
    del rows
    assert readers(db, "t") == 2, "one was closed, and of the other no more is wanted"
    del three
    gc.collect()
    assert readers(db, "t") == 1
    with four:
        next(four.batches())
    assert readers(db, "t") == 0
    assert not [one for one in threading.enumerate() if one.name == "tidegate read"]


def test_a_database_that_is_closed_ends_its_streams(lake: Path) -> None:
    with tidegate.open(lake) as db:
        result = db.sql(BIG.format("t"))
        rows = result.batches()
        next(rows)
    with pytest.raises(TidegateError, match="closed"):
        for _ in rows:
            pass


def test_an_error_in_the_middle(db: tidegate.Database) -> None:
    last = db.sql("SELECT max(id) FROM t").rows()[0][0]
    result = db.sql(f"SELECT repeat(body, 12) AS b, 1 / (id - {last}) AS x FROM t")
    with pytest.raises(EvaluationError, match="division by zero"):
        for _ in result.batches():
            pass
    assert result.count > 10_000, "rows came before it"
    with pytest.raises(EvaluationError):
        result.arrow()
    assert readers(db, "t") == 0
    assert 'outcome="EvaluationError"' in db.metrics()


def test_time_out_and_cancel_in_the_middle(db: tidegate.Database) -> None:
    watch = CancelToken()
    rows = db.sql(BIG.format("t"), watch=watch).batches()
    next(rows)
    watch.cancel()
    with pytest.raises(CancelledError, match="cancelled"):
        for _ in rows:
            pass
    db.set("statement_timeout_ms", 1_500)
    rows = db.sql(BIG.format("t")).batches()
    next(rows)
    time.sleep(1.6)
    with pytest.raises(CancelledError, match="longer than 1500 ms"):
        for _ in rows:
            pass
    assert readers(db, "t") == 0


def test_limit_and_offset_of_a_stream(db: tidegate.Database) -> None:
    for fast in (True, False):
        db.set("fast_path", fast)
        result = db.sql("SELECT id, body FROM t WHERE id >= 0 LIMIT 90000 OFFSET 40000")
        ids = pa.concat_arrays([batch.column(0) for batch in result.batches()])
        assert len(ids) == len(set(ids.to_pylist())) == 90_000
        assert db.sql("SELECT id, body FROM t LIMIT 10 OFFSET 10000000").rows() == []


def test_a_slow_reader_keeps_what_it_reads(tmp_path: Path) -> None:
    """Meanwhile others delete, compact and sweep; its lease is renewed by the thread that tends leases."""
    config = Config(lease_ms=2_000, sweep_grace_ms=20_000, audit=0.0)
    with (
        tidegate.open(tmp_path / "lake", config=config) as db,
        tidegate.open(tmp_path / "lake", config=config) as other,
    ):
        count = large.grow(db, "t", 8, 4)
        rows = db.sql(BIG.format("t")).batches()
        seen = next(rows).num_rows
        other.sql("DELETE FROM t WHERE grp <> 3")
        time.sleep(2.5)
        other.compact("t", full=True)
        other.sweep()
        seen += sum(batch.num_rows for batch in rows)
        assert seen == count
        assert len(db.sql("SELECT id FROM t")) < count / 5
