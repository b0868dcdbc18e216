"""GENERATOR: the same records for everybody, however they are cut, and whichever of their columns are made."""

import hashlib
import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.ingest.files_bench import Got, asked, drain, planned
from tidegate.clock import ManualClock
from tidegate.errors import BindError, SourceError, UnsupportedError
from tidegate.expr.model.types import JSONB
from tidegate.expr.primitives.json.exact import canonical_text
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.options import check_options
from tidegate.ingest.protocol import BatchLimit, IncludedColumn, ReadRequest, RecordFormat
from tidegate.ingest.upstreams.generator import upstream as generator_room
from tidegate.ingest.upstreams.generator.tables import TABLES
from tidegate.ingest.upstreams.generator.upstream import (
    GENERATOR,
    GeneratorDecoder,
    GeneratorFormat,
    GeneratorUpstream,
    format_from_json,
)
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream
from tidegate.plan.run.safe_plan import SafePlan

ALL = [(name, table) for name, tables in TABLES.items() for table in tables]


def made(name: str, clock: ManualClock | None = None, **options: Any) -> GeneratorUpstream:
    given = UpstreamSpec("s", {key.replace("_", " "): value for key, value in options.items()}, target=name)
    checked = check_options("FROM GENERATOR", GENERATOR.options, given.options)
    nothing = check_options("FROM GENERATOR", GENERATOR.with_options, {})
    return GeneratorUpstream.create(replace(given, options=checked, with_options=nothing), clock)


def rows(
    name: str, table: str, sql: str = "SELECT * FROM s", limit: BatchLimit | None = None, **options: Any
) -> Got:
    source = made(name, **options)
    return drain(source, source.tables()[table], sql=sql, table=table, limit=limit)[0]


def _digest(got: Got) -> str:
    return hashlib.sha256(json.dumps(got.rows, default=str).encode()).hexdigest()[:16]


DIGESTS = {
    "counter": "4cdecabb288ccf2d",
    "events": "6b47e66bff71a4e2",
    "orders": "db59873c98018f55",
    "users": "f7753e1e165b665d",
    "auctions": "af22fa4dd4977b33",
    "bids": "8ac0292ebf3387bb",
}


@pytest.mark.parametrize(("name", "table"), ALL)
def test_records_are_for_ever(name: str, table: str) -> None:
    """A seed means its data: demos, tests and figures of others build on it."""
    got = rows(name, table, rows=3_000, seed=7)
    assert _digest(got) == DIGESTS[table]
    assert got.errors == []
    if name != "counter":
        assert rows(name, table, rows=3_000, seed=8).rows != got.rows


@pytest.mark.parametrize(("name", "table"), ALL)
def test_however_they_are_cut(name: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(name, table, rows=600)
    assert whole.rows == rows(name, table, rows=600, limit=BatchLimit(rows=77)).rows
    assert whole.rows == rows(name, table, rows=600, limit=BatchLimit(bytes=3_000)).rows
    assert whole.rows == rows(name, table, rows=1_000).rows[: len(whole.rows)]
    monkeypatch.setattr(generator_room, "SPLIT_ROWS", 13)
    monkeypatch.setattr(generator_room, "_BATCH_ROWS", 5)
    cut = rows(name, table, rows=600)
    assert (cut.rows, cut.splits) == (whole.rows, 47)


@pytest.mark.parametrize(("name", "table"), ALL)
def test_columns(name: str, table: str) -> None:
    format_ = made(name, rows=500).tables()[table]
    got = rows(name, table, rows=500)
    for i, (column, type_) in enumerate(format_.columns):
        values = [row[i] for row in got.rows]
        assert [row[0] for row in rows(name, table, f'SELECT "{column}" FROM s', rows=500).rows] == values
        if type_ == JSONB:
            assert [canonical_text(value) for value in values] == values
        pa.array(values, type_.arrow).validate(full=True)


def test_only_what_is_demanded_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[tuple[str, int]] = []
    columns = GeneratorDecoder._columns

    def counting(self: GeneratorDecoder, wanted: Any, numbers: np.ndarray) -> list[pa.Array]:
        asked_for.extend((self.format.columns[i][0], len(numbers)) for i in wanted)
        return columns(self, wanted, numbers)

    monkeypatch.setattr(GeneratorDecoder, "_columns", counting)
    got = rows("orders", "orders", "SELECT id, payload->>'ts' FROM s WHERE status = 'cancelled'", rows=10_000)
    assert 100 < len(got.rows) < 300
    assert asked_for == [("status", 10_000), ("id", len(got.rows)), ("payload", len(got.rows))]


def test_orders_add_up() -> None:
    got = rows(
        "orders", "orders", "SELECT quantity, price, total, created_at, payload->>'ts' FROM s", rows=1_000
    )
    assert all(quantity * price == total for quantity, price, total, _, _ in got.rows)
    assert [int(ts) for *_, ts in got.rows] == [int(at.timestamp() * 1000) for _, _, _, at, _ in got.rows]
    assert got.rows[0][3] == datetime(2024, 1, 1, tzinfo=UTC)
    assert got.rows[-1][3] == datetime(2024, 1, 1, 0, 16, 39, tzinfo=UTC)


@pytest.mark.parametrize("count", [1, 2, 3, 13, 1_000])
def test_an_auction_is_sound_at_any_moment(count: int) -> None:
    """Whoever is named is there, an auction's bids come while it is one of the newest, and all records are counted."""
    users, auctions, bids = (
        rows("auction", table, rows=count).rows for table in ("users", "auctions", "bids")
    )
    assert len(users) + len(auctions) + len(bids) == count
    for table in (users, auctions, bids):
        assert [row[0] for row in table] == list(range(1, len(table) + 1))
    assert {row[1] for row in auctions} <= {row[0] for row in users}
    assert {row[1] for row in bids} <= {row[0] for row in users}
    assert {row[2] for row in bids} <= {row[0] for row in auctions}
    ends = {row[0]: row[3] for row in auctions}
    assert all(bid[4] < ends[bid[2]] for bid in bids)


def test_tables_are_made_together() -> None:
    source = made("auction", rows=100)
    formats = source.tables()
    wanted = [ReadRequest(table, _decode(format_)) for table, format_ in formats.items()]
    found: list[list[Any]] = [[] for _ in wanted]
    for split in source.splits(source.start(), source.latest(source.start(), BatchLimit())):
        for number, chunk in source.read(split, wanted, asked("offset")):
            found[number] += chunk.included[0].to_pylist()
            assert chunk.position(0) == {"row": chunk.included[0][0].as_py()}
    assert sorted(number for some in found for number in some) == list(range(100))


def _decode(format_: RecordFormat) -> Any:
    return format_.take(planned("SELECT * FROM s", format_.columns))[0]


# ---------------------------------------------------------------- the clock


def test_rate_follows_the_clock() -> None:
    clock = ManualClock(at=1_000_000)
    source = made("events", clock, rate=10, rows=25)
    assert source.latest({"row": 0}, BatchLimit()) == {"row": 1}
    clock.advance(1_050)
    assert source.latest({"row": 1}, BatchLimit()) == {"row": 11}
    assert source.latest({"row": 1}, BatchLimit(rows=3)) == {"row": 4}
    assert source.lag({}).records == 11, "it is asked before the first batch too"
    assert source.lag({"row": 4}).records == 7
    assert source.lag({"row": 4}).milliseconds == 650
    clock.advance(60_000)
    assert source.latest({"row": 11}, BatchLimit()) == {"row": 25}
    assert source.latest({"row": 25}, BatchLimit()) == {"row": 25}
    assert source.lag({"row": 25}).records == 0
    got, _ = drain(source, source.tables()["events"], sql="SELECT at FROM s")
    assert [row[0].timestamp() for row in got.rows] == [1_000 + i / 10 for i in range(25)]
    clock.set(0)  # clocks go backwards
    assert source.latest({"row": 11}, BatchLimit()) == {"row": 11}


def test_rates_and_starts() -> None:
    clock = ManualClock(at=1_000_000)
    assert made("counter", clock).latest({"row": 0}, BatchLimit()) == {"row": 1}
    clock.advance(5_000)
    assert made("counter", clock, start_at="1970-01-01 00:16:40").latest({"row": 0}, BatchLimit()) == {
        "row": 6
    }
    assert made("counter", clock, start_at="1970-01-01T01:16:40+01:00", rate=0.5).latest(
        {"row": 0}, BatchLimit()
    ) == {"row": 3}
    assert made("counter", clock, start_at="2100-01-01").latest({"row": 0}, BatchLimit()) == {"row": 0}
    assert made("counter", rows=0).latest({"row": 0}, BatchLimit()) == {"row": 0}


# ---------------------------------------------------------------- kept, replayed, refused


@pytest.mark.parametrize("name", TABLES)
def test_kept_as_json(name: str) -> None:
    source = made(name, rate=3, seed=4, start_at="2026-01-01")
    kept = json.loads(json.dumps(source.to_json()))
    assert GeneratorUpstream.from_json(kept, None) == source == pickle.loads(pickle.dumps(source))
    for format_ in source.tables().values():
        assert isinstance(format_, GeneratorFormat)
        assert format_from_json(json.loads(json.dumps(format_.to_json()))) == format_


def test_a_record_that_failed_can_be_made_again() -> None:
    source = made("counter", rows=30)
    format_ = source.tables()["counter"]
    sql = "SELECT counter, 1 / (counter % 10) FROM s WHERE counter > 5"
    got, _ = drain(source, format_, sql=sql)
    assert len(got.rows) == 22
    assert [where for where, _, _ in got.errors] == [{"row": 9}, {"row": 19}, {"row": 29}]
    decode, left = format_.take(planned("SELECT counter FROM s", format_.columns))
    raws = [raw for _, _, raw in got.errors]
    again = decode.records(pa.array([b"x", *raws, None, b"99999999999999999999"], pa.binary()))
    found = SafePlan(left).evaluate(again.columns, len(again.selection))
    assert found.columns[0].to_pylist() == [10, 20, 30]
    assert again.selection.tolist() == [1, 2, 3]
    assert [i for i, _ in again.failures] == [0, 4, 5]
    assert again.raw(0) == b"x"
    with pytest.raises(UnsupportedError):
        decode.file(None, "x")  # type: ignore[arg-type]  # it looks at nothing


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clicks", {}, "no generator clicks"),
        ("events", {"color": 1}, "no option COLOR"),
        ("events", {"rows": -1}, "ROWS is a whole number"),
        ("events", {"rows": 1.5}, "ROWS is a whole number"),
        ("events", {"rows": True}, "ROWS is a whole number"),
        ("events", {"rows": 10**12}, "after the year 9999"),
        ("events", {"rate": 0}, "RATE is a number"),
        ("events", {"rate": "fast"}, "RATE is a number"),
        ("events", {"seed": "x"}, "SEED is a whole number"),
        ("events", {"start at": "soon"}, "START AT is a time"),
    ],
)
def test_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BindError, match=message):
        create_upstream("generator", UpstreamSpec("s", options, target=name))


def test_refused_later() -> None:
    source = made("counter", rows=1)
    with pytest.raises(BindError, match="generators have no LINE"):
        source.includes(IncludedColumn("line", "l"))
    (split,) = source.splits({"row": 0}, {"row": 1})
    with pytest.raises(SourceError, match="format of their own"):
        list(source.read(split, [ReadRequest(None, _decode(PlainFormat(is_text=True)))], ()))
