"""The public contract (Design §2) over every kind of place, from the outside: only `tidegate.…` is called."""

from __future__ import annotations

import json
import multiprocessing
import secrets
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pytest

import tidegate
from tests import servers
from tidegate.clock import ManualClock
from tidegate.config import Config

PLACES = ("memory", "files", "files and log", "files and postgres", "s3")
SHARED = PLACES[1:]
NAIVE = datetime(2024, 2, 29, 1, tzinfo=UTC).replace(tzinfo=None)
ROWS = {
    "id": [1, 2, 3],
    "at": pa.array([0, 10**15, None], pa.timestamp("us", "UTC")),
    "payload": ['{"b":1,"a":1.50}', "[]", None],
}


def place(kind: str, folder: Path) -> str:
    """The URL of a new, empty place; skipped by name where its server is not to be had."""
    fresh = secrets.token_hex(6)
    try:
        match kind:
            case "memory":
                return f"memory://{fresh}"
            case "files":
                return str(folder / fresh)
            case "files and log":
                return f"{folder / fresh}?metadata=log"
            case "files and postgres":
                return f"{folder / fresh}?metadata={servers.postgres()}"
            case _:
                return f"s3://lake/{fresh}?{urlencode(servers.s3())}"
    except servers.Missing as missing:
        pytest.skip(f"{kind}: {missing} is not installed")


@pytest.fixture(params=PLACES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return place(request.param, tmp_path)


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as made:
        yield made


def made(url: str) -> tidegate.Database:
    db = tidegate.open(url)
    db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")
    return db


def ids(db: tidegate.Database, sql: str = "SELECT id FROM t ORDER BY id", **more: int) -> list[int]:
    return [row[0] for row in db.sql(sql, **more).rows()]


# ---------------------------------------------------------------- everything once, everywhere


def test_the_contract(where: str) -> None:
    db = made(where)
    first = db.append("t", pa.table(ROWS), at=1000)
    assert first == 1000
    r = db.sql("SELECT id, payload FROM t WHERE (payload->>'a')::numeric > 1 LIMIT 10")
    assert r.rows() == [(1, '{"a":1.5,"b":1}')]
    assert r.arrow().to_pydict() == {"id": [1], "payload": ['{"a":1.5,"b":1}']}
    assert r.schema == pa.schema([("id", pa.int64()), ("payload", pa.string())])
    assert r.path == "peek"
    assert (r.scan.parts_total, r.scan.parts_read, r.scan.parts_audited, r.scan.rows_read) == (1, 1, 0, 3)
    assert r.scan.bytes_total == r.scan.bytes_read > 0
    db.append(
        "t",
        {"id": [1], "at": [datetime(1970, 1, 1, tzinfo=UTC)], "payload": ['{"a": 1.5, "b": 1.0}']},
        diff=-1,
    )
    assert ids(db) == [2, 3]
    assert ids(db, as_of=1000) == [1, 2, 3]
    assert ids(db, "SELECT id FROM t ORDER BY id AS OF 1000") == [1, 2, 3]
    assert db.compact("t", full=True).removed == 1
    assert db.sweep().garbage == 0  # the grace is not over
    assert (ids(db), ids(db, as_of=1000)) == ([2, 3], [1, 2, 3])
    status = db.status().collections["t"]
    assert (status.parts, status.since, status.leases, status.monotonic) == (2, 0, 1, True)
    assert status.upper > 1_700_000_000_000
    db.close()
    if not where.startswith("memory"):
        with tidegate.open(where) as again:
            assert (ids(again), ids(again, as_of=1000)) == ([2, 3], [1, 2, 3])
            again.sql("DROP TABLE t")
            assert again.status().collections == {}


@pytest.mark.parametrize("kind", SHARED)
def test_another_process_sees_everything(kind: str, tmp_path: Path) -> None:
    url = place(kind, tmp_path)
    db = made(url)
    db.append("t", ROWS)
    db.sql("CREATE VIEW v AS SELECT id * 2 AS twice FROM t")
    code = "import sys, json, tidegate; print(json.dumps(tidegate.open(sys.argv[1]).sql('SELECT twice FROM v ORDER BY 1').rows()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, url], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [[2], [4], [6]]


def _race(url: str, writer: int, batches: int) -> None:
    with tidegate.open(url) as db:
        db.sql("CREATE TABLE IF NOT EXISTS r (writer int4, batch int4)")
        for batch in range(batches):
            db.append("r", {"writer": [writer] * 3, "batch": [batch] * 3})


def in_processes(count: int, work: Callable[..., None], *args: object) -> None:
    context = multiprocessing.get_context("forkserver")  # which imports once for all that it starts
    context.set_forkserver_preload(["tidegate.database"])
    running = [context.Process(target=work, args=(args[0], i, *args[1:])) for i in range(count)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert [one.exitcode for one in running] == [0] * count


@pytest.mark.parametrize("kind", SHARED)
def test_eight_processes_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    """They also make the database and the table at once: one of them wins, and all use it."""
    url, batches = place(kind, tmp_path), 4
    in_processes(8, _race, url, batches)
    with tidegate.open(url) as db:
        assert db.sql("SHOW TABLES").rows() == [("r",)]
        found = db.sql("SELECT writer, batch FROM r ORDER BY writer, batch").rows()
    assert found == [(writer, batch) for writer in range(8) for batch in range(batches) for _ in range(3)]


# ---------------------------------------------------------------- values


def test_every_type_in_and_out(tmp_path: Path) -> None:
    """Written, read again from the disk by another handle, and given as Arrow and as Python values."""
    columns = {
        "b": ("bool", True), "i2": ("int2", -2), "i4": ("int4", 4), "i8": ("int8", 2**62), "f4": ("float4", 0.5),
        "f8": ("float8", float("inf")), "n": ("numeric(10,2)", Decimal("1.50")), "t": ("text", "ü\U0010ffff"),
        "y": ("bytea", b"\0\xff"), "d": ("date", date(2024, 2, 29)), "c": ("time", time(23, 59, 59, 999999)),
        "ts": ("timestamp", NAIVE), "tz": ("timestamptz", datetime(2024, 2, 29, 1, tzinfo=UTC)),
        "u": ("uuid", uuid.UUID(int=7)), "j": ("jsonb", '{"a":[1,null]}'), "a": ("int8[]", [1, None]),
        "r": ("row(x int8, y text)", {"x": 1, "y": "z"}),
    }  # fmt: skip
    db = tidegate.open(tmp_path)
    db.sql(
        f"CREATE TABLE v ({', '.join(f'{name} {type_}' for name, (type_, _) in columns.items())}, iv interval)"
    )
    given = {name: [str(value) if name == "u" else value, None] for name, (_, value) in columns.items()}
    iv = pa.array([pa.MonthDayNano([1, -2, 3000]), None])
    db.append("v", {**given, "iv": iv})
    again = tidegate.open(tmp_path).sql("SELECT * FROM v ORDER BY i2 NULLS LAST")
    assert again.rows() == [
        (*(value for _, value in columns.values()), tidegate.Interval(1, -2, 3)),
        (None,) * (len(columns) + 1),
    ]
    assert again.schema.field("u").type == pa.binary(16)
    assert again.schema.field("iv").type == pa.month_day_nano_interval()
    db.append("v", again.arrow())  # what comes out goes in
    assert len(db.sql("SELECT * FROM v")) == 4


def test_append_takes_any_arrow(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, s text)")
    table = pa.table({"id": [1, 2], "s": pa.array(["a", "b"]).dictionary_encode()})
    db.append("t", table)
    db.append("t", table.to_batches()[0])
    db.append("t", table.to_reader())
    db.append("t", [pa.array([5]), pa.array(["x"])])
    assert len(db.sql("SELECT * FROM t")) == 7


def test_diffs_one_by_one_and_tokens(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [1, 2]}, diff=[3, 1], token="a")
    db.append("t", {"id": [1, 2]}, diff=[3, 1], token="a")
    assert ids(db) == [1, 1, 1, 2]


# ---------------------------------------------------------------- time


def test_times() -> None:
    clock = ManualClock(5_000)
    db = tidegate.open("memory://", clock=clock, config=Config(as_of_timeout_ms=20))
    db.sql("CREATE TABLE t (id int8) WITH (RETENTION = '1 second')")
    assert db.append("t", {"id": [1]}) == 5_000
    assert db.append("t", {"id": [2]}) == 5_001
    with pytest.raises(
        tidegate.TimeError, match="cannot append at 5001: the collection is complete up to 5002"
    ):
        db.append("t", {"id": [3]}, at=5_001)
    assert db.append("t", {"id": [3]}, at=9_000) == 9_000
    # Everything committed is read, and mz_now() is no earlier than that.
    assert db.sql("SELECT id, mz_now() FROM t WHERE id = 3").rows() == [(3, 9_000)]
    assert ids(db, "SELECT id FROM t AS OF 5000") == [1]
    assert db.sql("SELECT mz_now() FROM t AS OF 5000").rows() == [(5_000,)]
    assert db.sql("SELECT mz_now() AS OF 77").rows() == [(77,)]
    assert ids(db, "SELECT id FROM t ORDER BY id AS OF TIMESTAMP '1970-01-01 00:00:05.001'") == [1, 2]
    with pytest.raises(
        tidegate.TimeError, match=r"cannot read at time 9001 yet: .* up to 9001(.|\n)*waited for 20 ms"
    ):
        db.sql("SELECT id FROM t AS OF 9001")
    clock.set(20_000)
    assert db.compact("t").since == 9_000
    with pytest.raises(
        tidegate.TimeError, match="cannot read at time 5000: the collection is kept from 9000 on"
    ):
        db.sql("SELECT id FROM t", as_of=5_000)
    with pytest.raises(tidegate.BindError, match="given twice"):
        db.sql("SELECT id FROM t AS OF 9000", as_of=9_000)
    with pytest.raises(tidegate.BindError, match="as_of is for queries"):
        db.sql("INSERT INTO t VALUES (1)", as_of=9_000)


def test_a_read_waits_for_its_time(tmp_path: Path) -> None:
    import threading

    db = tidegate.open(tmp_path)
    db.sql("CREATE TABLE t (id int8)")
    later = threading.Timer(0.2, lambda: tidegate.open(tmp_path).append("t", {"id": [1]}, at=100))
    later.start()
    assert ids(db, as_of=100) == [1]
    later.join()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ({"id": [1]}, tidegate.BindError, 'column "at" is missing'),
        ({**ROWS, "more": [1, 2, 3]}, tidegate.BindError, 'column "more" is not in the collection'),
        ({**ROWS, "id": ["a", "b", "c"]}, tidegate.TypeMismatch, 'column "id" is int8'),
        ({**ROWS, "id": [1, 2]}, tidegate.BindError, "different numbers of values"),
        ({**ROWS, "payload": ["{", None, None]}, tidegate.EvaluationError, "invalid input syntax for type json"),
        (None, tidegate.TypeMismatch, "rows must be an Arrow table"),
        ([{"id": 1}], tidegate.TypeMismatch, "rows must be an Arrow table"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(rows: object, error: type[Exception], message: str) -> None:
    db = made("memory://")
    with pytest.raises(error, match=message):
        db.append("t", rows)
    status = db.status().collections["t"]
    assert (status.parts, status.upper, status.garbage) == (0, 0, 0)


def test_bad_arguments(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8 NOT NULL)")
    with pytest.raises(tidegate.TypeMismatch, match="at must be an integer"):
        db.append("t", {"id": [1]}, at="soon")  # type: ignore[arg-type]  # the point
    with pytest.raises(tidegate.TypeMismatch, match="as_of must be an integer"):
        db.sql("SELECT 1", as_of="2024")  # type: ignore[arg-type]  # the point
    with pytest.raises(tidegate.EvaluationError, match="not-null"):
        db.append("t", {"id": [None]})
    with pytest.raises(tidegate.EvaluationError, match="not-null"):
        db.sql("INSERT INTO t VALUES (NULL)")
    with pytest.raises(tidegate.BindError, match=r'there is no table or view "tt"(.|\n)*did you mean t\?'):
        db.append("tt", {"id": [1]})
    db.sql("CREATE VIEW v AS SELECT id FROM t")
    with pytest.raises(tidegate.BindError, match="is a view"):
        db.append("v", {"id": [1]})
    db.append("t", {"id": [1]}, diff=-1)
    with pytest.raises(tidegate.CorruptError, match="retracted more often"):
        db.sql("SELECT * FROM t")


def test_errors_of_rows_name_the_row(db: tidegate.Database) -> None:
    db.sql(
        "CREATE TABLE t (id int8, name text, more text); INSERT INTO t VALUES (5, 'five', 'x'), (0, 'none', 'y')"
    )
    with pytest.raises(
        tidegate.EvaluationError, match=r"division by zero\nin the row id = 0, name = 'none'"
    ) as caught:
        db.sql("SELECT 10 / id, name FROM t")
    assert caught.value.row == {"id": 0, "name": "none"}
    assert ids(db, "SELECT 10 / id FROM t WHERE id <> 0") == [2]


def test_a_text_without_a_statement(db: tidegate.Database) -> None:
    with pytest.raises(tidegate.ParseError):
        db.sql("")
