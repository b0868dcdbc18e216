"""The 29 filters of `make bench-prune`: the right rows, and no part is read that cannot hold one."""

from collections.abc import Iterator

import pytest

import tidegate
from bench.filters import FILTERS, NOW, PARTS, TABLE, Filter, rows
from bench.prune import needed, right
from tidegate import Database
from tidegate.clock import ManualClock
from tidegate.config import Config

READ_WHOLE = {"text to number", "infix"}
"""No bounds of texts tell about the numbers in them, or about what stands in their middle."""


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    clock = ManualClock(int(NOW.timestamp() * 1000))
    with tidegate.open("memory://", clock=clock, config=Config(audit=0.0)) as database:
        database.sql(TABLE)
        for part in range(PARTS):
            database.append("t", rows(part), at=part + 1)
        yield database


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda f: f.kind)
def test_right_rows_of_few_parts(db: Database, filter_: Filter) -> None:
    result = db.sql(f"SELECT id FROM t WHERE {filter_.sql}")
    ids = right()[filter_.sql]
    assert sorted(result.arrow()["id"].to_pylist()) == ids
    assert result.scan.parts_read == (PARTS if filter_.kind in READ_WHOLE else needed(ids))
