"""Which values are on which pages: what is listed is there, what is not listed is not, and filters lose no row by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.errors import CorruptError, EvaluationError
from tidegate.expr.model.types import INT4, TEXT
from tidegate.storage.stats import page_values as roster
from tidegate.storage.stats.collect import PAGE_ROWS, ColumnValues
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.page_values import PageValues, rosters

PAGES = 12
ROWS = PAGES * PAGE_ROWS - 100
RARE = "netscape"


def in_runs(rng: np.random.Generator, many: int, length: int = 1500) -> np.ndarray:
    """Values that stay the same for some rows."""
    return np.repeat(rng.integers(0, many, -(-ROWS // length)), length)[:ROWS]


def texts(rng: np.random.Generator) -> pa.Array:
    """A few that are everywhere, one that is rare, and NULL on some pages."""
    common = np.array(["chrome", "firefox", "safari"], object)[rng.integers(0, 3, ROWS)]
    common[[5, 3 * PAGE_ROWS]] = RARE
    common[PAGE_ROWS : PAGE_ROWS + 10] = None
    return pa.array(common, pa.string())


def test_what_is_listed_is_there() -> None:
    rng = np.random.default_rng(3)
    columns = [
        ColumnValues(4, "run", INT4, pa.array(in_runs(rng, 200), pa.int32())),
        ColumnValues(9, "browser", TEXT, texts(rng)),
    ]
    found = PageValues.read(rosters(columns, ROWS), PAGES, StatsCounters())
    for column in columns:
        made = found.of(column.id)
        assert made is not None
        assert made.values.type == column.values.type
        for page in range(PAGES):
            here = set(column.values.slice(page * PAGE_ROWS, PAGE_ROWS).to_pylist())
            listed = {
                value for value, at in zip(made.values.to_pylist(), made.there[:, page], strict=True) if at
            }
            assert here <= listed
            often = {v for v, at in zip(made.values.to_pylist(), made.there, strict=True) if at.all()}
            assert listed - here <= often
    assert found.of(5) is None


@pytest.mark.parametrize(
    "values",
    [
        pa.array(np.arange(ROWS)),
        pa.array(np.zeros(ROWS, np.int32)),
        pa.array(np.arange(ROWS) % 3),
        pa.array((np.arange(ROWS) // 2000).astype(float)),
        pa.array([["a"]] * ROWS),
        pa.array(np.arange(ROWS) // 2000 % 2 == 0),
        pa.array([], pa.int8()),
    ],
    ids=["distinct", "one", "everywhere", "floats", "nested", "bools", "none"],
)
def test_what_would_tell_nothing_has_none(values: pa.Array) -> None:
    assert roster.roster(values) is None


def test_too_many_or_too_long_values_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    some = pa.array(np.arange(ROWS) // 2000)
    assert roster.roster(some) is not None
    monkeypatch.setattr(roster, "MAX_VALUES", 10)
    assert roster.roster(some) is None
    monkeypatch.undo()
    monkeypatch.setattr(roster, "MAX_VALUE_BYTES", 100)
    assert roster.roster(some) is None


def test_small_parts_have_none() -> None:
    few = ColumnValues(1, "x", INT4, pa.array(np.arange(4 * PAGE_ROWS) // PAGE_ROWS, pa.int32()))
    assert rosters([few], 4 * PAGE_ROWS) == b""


@pytest.mark.parametrize(
    "data", [b"not base 85 \xff", b"00000", roster.base64.b85encode(b"no stream at all")]
)
def test_what_cannot_be_read_is_as_if_it_were_not_there(data: bytes) -> None:
    counters = StatsCounters()
    assert PageValues.read(data, 3, counters).of(1) is None
    assert counters.unreadable["rosters"] == 1


@pytest.mark.parametrize("there", [b"", b"\xff"])
@pytest.mark.parametrize("values", [b"", b"no stream"])
def test_a_column_that_cannot_be_read_is_as_if_it_had_none(values: bytes, there: bytes) -> None:
    good = roster._stream(pa.table({"v": [1, 2, 3]}))
    for given in ((values, b"\xff" * 2), (good, there)):
        lines = [{"id": 1, "values": given[0], "there": given[1]}]
        data = roster.base64.b85encode(roster._stream(pa.Table.from_pylist(lines, roster._SCHEMA)))
        counters = StatsCounters()
        found = PageValues.read(data, 4, counters)
        assert found.of(1) is None
        assert found.of(1) is None
        assert counters.unreadable["rosters"] == 1


# ---------------------------------------------------------------- in queries


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    """One part, every page of which has bounds that tell nothing of the filters below; what is left out is audited."""
    rng = np.random.default_rng(11)
    with tidegate.open("memory://", config=Config(audit=1.0, read_threads=1)) as made:
        made.sql("CREATE TABLE t (id int8, run int4, browser text, maybe int8, n int4)")
        run, browser = in_runs(rng, 300), texts(rng)
        maybe = np.where(in_runs(rng, 40, 700) % 5 == 0, -1, in_runs(rng, 40, 700))
        given: dict[str, Any] = {
            "id": pa.array(np.arange(ROWS)),
            "run": pa.array(run, pa.int32()),
            "browser": browser,
            "maybe": pa.array(maybe, mask=maybe == -1),
            "n": pa.array(rng.integers(0, 3, ROWS), pa.int32()),
        }
        made.append("t", given)
        yield made


CONDITIONS = (
    "run = 17",
    "run IN (3, 250, 9999)",
    "run % 100 = 7",
    "NOT (run <> 17)",
    "CASE WHEN run > 150 THEN run = 200 ELSE run = 20 END",
    f"browser = '{RARE}'",
    "browser LIKE '%scap%'",
    "upper(browser) = 'NETSCAPE'",
    "length(browser) > 7",
    "browser IS NULL",
    "coalesce(browser, 'x') = 'x'",
    "maybe = 7",
    "maybe IS NULL",
    "maybe = 7 OR maybe IS NULL",
    f"run < 20 AND browser = '{RARE}'",
    "run = 100000",
)


@pytest.mark.parametrize("where", CONDITIONS)
def test_filters_lose_no_row(db: tidegate.Database, where: str) -> None:
    sql = f"SELECT * FROM t WHERE {where}"
    found = db.sql(sql)
    plain = db.sql(f"{sql} OPTIONS (late_materialization = off, stats_filter = off)")
    assert found.arrow().equals(plain.arrow())


@pytest.mark.parametrize(
    ("where", "pages"),
    [
        (f"browser = '{RARE}'", 2),
        ("upper(browser) LIKE 'NET%'", 2),
        ("browser IS NULL", 1),
        ("run * 2 = 301", 0),
        (f"browser = '{RARE}' AND 10 / (n + 1) > 1", 2),
    ],
)
def test_pages_without_such_a_value_are_passed_over(db: tidegate.Database, where: str, pages: int) -> None:
    found = db.sql(f"SELECT id FROM t WHERE {where} OPTIONS (audit = 0)")
    assert found.scan.pages_skipped == PAGES - pages


def test_an_error_behind_null_is_told(db: tidegate.Database) -> None:
    """Where the rare value makes the condition NULL, another that fails must still be asked."""
    with pytest.raises(EvaluationError, match="division by zero"):
        db.sql(f"SELECT id FROM t WHERE nullif(browser, '{RARE}') > 'zzz' AND 1 / (n - n) = 1")
    ((run,),) = db.sql("SELECT run FROM t LIMIT 1").rows()
    with pytest.raises(EvaluationError, match="division by zero"):
        db.sql(f"SELECT id FROM t WHERE 10 / (run - {run}) = 3 OPTIONS (audit = 0)")


def test_a_roster_that_lies_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = roster.roster

    def lying(values: pa.Array) -> Any:
        made = real(values)
        if made is not None:
            made.there[:] = False
        return made

    with tidegate.open("memory://", config=Config(audit=1.0)) as db:
        db.sql("CREATE TABLE t (id int8, run int4)")
        monkeypatch.setattr(roster, "roster", lying)
        run = pa.array(in_runs(np.random.default_rng(1), 300), pa.int32())
        db.append("t", {"id": pa.array(np.arange(ROWS)), "run": run})
        with pytest.raises(CorruptError, match="part/"):
            db.sql(f"SELECT id FROM t WHERE run = {run[0]}")
