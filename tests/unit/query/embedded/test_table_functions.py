"""Table functions and recursion on the embedded engine: long series, recursions without an end, scans that are read again."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import pytest

import tidegate
from tidegate.query.embedded import execution


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        opened.sql("CREATE TABLE e (a int4, b int4)")
        opened.sql("INSERT INTO e VALUES (1, 2), (2, 3), (3, 4), (4, 1)")
        yield opened


def test_a_long_series_is_no_list_in_memory(db: tidegate.Database) -> None:
    db.sql("SELECT count(*) FROM generate_series(1, 10)").rows()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sql = "SELECT count(*), max(x), sum(x) FROM generate_series(1, 5000000) x"
    assert db.sql(sql).rows() == [(5_000_000, 5_000_000, 12_500_002_500_000)]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 100 << 20  # as Python integers they would take 160 MB


def test_a_limit_ends_a_series_of_any_length(db: tidegate.Database) -> None:
    began = time.monotonic()
    assert db.sql("SELECT x FROM generate_series(1, 1000000000000000) x LIMIT 2").rows() == [(1,), (2,)]
    assert time.monotonic() - began < 5


ENDLESS = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT count(*) FROM r"


def test_a_recursion_without_an_end_fails_by_its_rows(db: tidegate.Database) -> None:
    db.set("recursion_rows", 500)
    with pytest.raises(tidegate.LimitError, match="WITH RECURSIVE gave more than 500 rows"):
        db.sql(ENDLESS)
    few = (
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 400) SELECT max(n) FROM r"
    )
    assert db.sql(few).rows() == [(400,)]


def test_a_recursion_without_an_end_stops_with_the_time_out(db: tidegate.Database) -> None:
    db.set("statement_timeout_ms", 300)
    began = time.monotonic()
    with pytest.raises(tidegate.CancelledError):
        db.sql(ENDLESS)
    assert time.monotonic() - began < 10


def test_a_limit_ends_a_recursion(db: tidegate.Database) -> None:
    sql = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r LIMIT 3"
    assert db.sql(sql).rows() == [(1,), (2,), (3,)]


def test_each_step_reads_a_streamed_scan_again(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of batches ends once; a step after the first would find no rows in it."""
    monkeypatch.setattr(execution, "MAX_TABLE_BYTES", -1)
    sql = """WITH RECURSIVE r (n, d) AS (SELECT 1, 0 UNION ALL SELECT e.b, d + 1 FROM r JOIN e ON e.a = r.n WHERE d < 10)
             SELECT count(*), max(d), sum(n) FROM r"""
    assert db.sql(sql).rows() == [(11, 10, 26)]
