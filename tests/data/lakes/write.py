"""Writes a lake with the version of Tidegate that is installed, and what that version answers about it.

    tests/data/lakes/<version>/sqlite/         a lake with its metadata in SQLite
    tests/data/lakes/<version>/log/            the same rows, with the metadata as numbered files (`?metadata=log`)
    tests/data/lakes/<version>/answers.json    the statements of `statements.sql`, and their rows

`tests/test_old_lakes.py` opens every lake that is kept here and compares the answers. A lake is written once and then never
again: it stands for the data that users of that version have. To add the lake of a new version, check out its tag, and

    .venv/bin/python tests/data/lakes/write.py        # makes the folder of `tidegate.__version__`; refuses one that is there
    git add tests/data/lakes && git status --ignored tests/data/lakes

When a version brings something new that is stored (a type, a kind of part, a statement), add it to `fill` and to
`statements.sql` first. Only the public API is used, so that the script runs with every version. All times come from a clock
that stands still: a lake that is written tomorrow gives the same answers.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate

HERE = Path(__file__).parent
LAKES = {"sqlite": "", "log": "?metadata=log"}
"""The lakes of a version: a folder each, and what follows the path when it is opened."""
START = 1_704_067_200_000  # 2024-01-01 00:00 UTC
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = START + 40 * DAY + HOUR
"""When the questions are asked: everything is written before, and no row ends within an hour of it."""
INPUT = Path("/tmp/tidegate-old-lakes")
"""Where the files of the source `clicks` are, as the lakes that are kept have it: a source keeps the whole path."""


class StoppedClock:
    """Tells the time it is set to."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        """The time in milliseconds since 1970."""
        return self.at


def day(number: float) -> dt.datetime:
    """The moment that many days after START."""
    return dt.datetime.fromtimestamp(START / 1000, dt.UTC) + dt.timedelta(days=number)


# ---------------------------------------------------------------- the lake


def fill(db: tidegate.Database, clock: StoppedClock, files: Path) -> None:
    """Makes every collection of the lake, each on a day of its own; `files` is a folder for the input of a source."""
    for number, make in enumerate((types, events, ledger, ticks, altered, pages, bare, views)):
        clock.at = START + number * DAY
        make(db, clock)
    clock.at = START + 8 * DAY
    sources(db, clock, files)


def types(db: tidegate.Database, clock: StoppedClock) -> None:
    """`types`: a column of every type; a part of plain values, one of extremes, one of NULLs, one that SQL wrote."""
    db.sql("""
        CREATE TABLE types (
            id int8 NOT NULL, flag bool, small int2, medium int4, large int8, exact numeric, price numeric(12,2), approx4 float4,
            approx8 float8, words text, short varchar(5), raw bytea, born date, alarm time, noted timestamp, moment timestamptz,
            lasted interval, uid uuid, doc jsonb, numbers int8[], tags text[], matrix int4[][], place row(x int8, y text),
            stops row(city text, at timestamptz)[], deep row(items jsonb[], nested row(q numeric(5,2))))
    """)
    for rows in (plain_rows(), extreme_rows(), {**{name: [None] for name in plain_rows()}, "id": [9]}):
        clock.at += MINUTE
        db.append("types", rows, at=clock.at)
    clock.at += MINUTE
    db.sql("""
        INSERT INTO types (id, price, words, lasted, doc, place, tags) VALUES
        (10, 12.345, 'from SQL', '1 year 2 days 03:04:05.678', '{"b": 1, "a": 2.50, "a": 3}', ROW(7, 'seven'), ARRAY['x', NULL])
    """)


def plain_rows() -> dict[str, list[Any]]:
    """Two rows of ordinary values."""
    return {
        "id": [1, 2],
        "flag": [True, False],
        "small": [-3, 4],
        "medium": [70_000, -70_000],
        "large": [5_000_000_000, -5],
        "exact": [Decimal("1.000000000000000001"), Decimal(-20)],
        "price": [Decimal("9.50"), Decimal("0.05")],
        "approx4": [1.5, -0.25],
        "approx8": [0.1, 1e100],
        "words": ["Kathmandu", "Zürich 漢字 🐢"],
        "short": ["abc", ""],
        "raw": [b"\x00\xff", b""],
        "born": [dt.date(2024, 2, 29), dt.date(1969, 12, 31)],
        "alarm": [dt.time(12, 30, 0, 5), dt.time(0)],
        "noted": [dt.datetime(2024, 1, 2, 3, 4, 5, 6), dt.datetime(1900, 1, 1)],  # noqa: DTZ001  # a timestamp has no zone
        "moment": [day(1.5), day(-20_000)],
        "lasted": pa.array([(1, 2, 3_000), (0, -1, 0)], pa.month_day_nano_interval()),
        "uid": [str(uuid.UUID(int=1)), str(uuid.UUID(int=2**128 - 1))],
        "doc": ['{"kind": "a", "ts": 5, "tags": [1, "x", null]}', '"only text"'],
        "numbers": [[1, 2, None], []],
        "tags": [["a"], None],
        "matrix": [[[1, 2], [3]], [[]]],
        "place": [{"x": 1, "y": "one"}, {"x": None, "y": "none"}],
        "stops": [[{"city": "Bonn", "at": day(0)}], []],
        "deep": [{"items": ['{"n": 1}', "2"], "nested": {"q": Decimal("1.25")}}, None],
    }


def extreme_rows() -> dict[str, list[Any]]:
    """The least and the greatest values of each type, and values that are easily lost: NaN, -0, long texts, exact numbers."""
    least, most = dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.UTC)
    return {
        "id": [3, 4],
        "flag": [None, True],
        "small": [-(2**15), 2**15 - 1],
        "medium": [-(2**31), 2**31 - 1],
        "large": [-(2**63), 2**63 - 1],
        "exact": [Decimal("-99999999999999999999.999999999999999999"), Decimal("1E-18")],
        "price": [Decimal("-9999999999.99"), Decimal("9999999999.99")],
        "approx4": [math.nan, -0.0],
        "approx8": [math.inf, math.nan],
        "words": ["a" * 150 + "z", "\U0010ffff" * 40],
        "short": ["ÄÖÜßé", " "],
        "raw": [b"\xff" * 120, bytes(range(256))],
        "born": [dt.date.min, dt.date.max],
        "alarm": [dt.time.min, dt.time.max],
        "noted": [least.replace(tzinfo=None), most.replace(tzinfo=None)],
        "moment": [least, most],
        "lasted": pa.array([(-1200, 40, -1_000), (24_000, -300_000, 10**15)], pa.month_day_nano_interval()),
        "uid": [str(uuid.UUID(int=0)), str(uuid.UUID("12345678-1234-5678-1234-567812345678"))],
        "doc": [
            '{"big": 12345678901234567890123456789.10, "ts": 1e2, "kind": null}',
            '[1.0, -0, {"nested": {"ts": "2024-01-01T00:00:00Z"}}]',
        ],
        "numbers": [[2**63 - 1], [None]],
        "tags": [["", "ü" * 60], []],
        "matrix": [None, [None, [5]]],
        "place": [{"x": -1, "y": None}, None],
        "stops": [[None, {"city": None, "at": most}], None],
        "deep": [{"items": [], "nested": None}, {"items": None, "nested": {"q": Decimal("-999.99")}}],
    }


def events(db: tidegate.Database, clock: StoppedClock) -> None:
    """`events`: five appended parts, then rows that are updated, deleted, retracted and counted twice. Nothing is compacted."""
    db.sql("""
        CREATE TABLE events (id int8 NOT NULL, at timestamptz, kind text, total numeric(12,2), payload jsonb)
        CLUSTER BY (at) KEEP STATISTICS (total, payload.ts)
    """)
    for part in range(5):
        clock.at += HOUR
        db.append("events", event_rows(range(part * 40, part * 40 + 40)), at=clock.at)
    clock.at += HOUR
    db.sql("UPDATE events SET total = total + 1000, kind = 'changed' WHERE id % 50 = 7")
    clock.at += HOUR
    db.sql("DELETE FROM events WHERE id BETWEEN 60 AND 69 OR (payload->>'ts')::int8 = 30")
    clock.at += HOUR
    db.append("events", event_rows(range(100, 103)), at=clock.at, diff=-1)
    clock.at += HOUR
    db.append("events", event_rows(range(110, 112)), at=clock.at, diff=pa.array([1, 2]))


def event_rows(ids: range) -> dict[str, list[Any]]:
    """Rows of `events`: four a day, with JSON of mixed types."""
    return {
        "id": list(ids),
        "at": [day(n / 4) for n in ids],
        "kind": [("view", "pay", "view", "refund", "view")[n % 5] for n in ids],
        "total": [None if n % 11 == 0 else Decimal(n * 7 % 300) / 4 for n in ids],
        "payload": [document(n) for n in ids],
    }


def document(n: int) -> str:
    """A payload: `ts` is a number, a text, null, or missing."""
    shapes = (
        {"ts": n * 10, "ip": f"10.0.0.{n}"},
        {"ts": str(n), "deep": {"n": [n]}},
        {"ts": None},
        {"n": n / 4},
    )
    return json.dumps(shapes[n % 4])


def ledger(db: tidegate.Database, clock: StoppedClock) -> None:
    """`ledger`: updated, compacted and swept, then appended to. It keeps past times for 22 days only, so `since` has moved."""
    db.sql("CREATE TABLE ledger (account int8, amount numeric(10,2), note text) WITH (RETENTION '22 days')")
    for part in range(10):
        clock.at += HOUR
        rows = {
            "account": [1, 2, part],
            "amount": [Decimal(part), Decimal("0.25"), None],
            "note": [f"n{part}", "same", "é"],
        }
        db.append("ledger", rows, at=clock.at)
    clock.at += HOUR
    db.sql("UPDATE ledger SET amount = amount * 2 WHERE account = 1; DELETE FROM ledger WHERE account = 5")
    clock.at += 24 * DAY
    db.compact("ledger", full=True)
    clock.at += 2 * DAY
    db.sweep()
    db.append(
        "ledger", {"account": [1, 77], "amount": [Decimal("1.11"), None], "note": ["late", None]}, at=clock.at
    )
    clock.at += HOUR
    db.sql("DELETE FROM ledger WHERE note = 'late'")


def ticks(db: tidegate.Database, clock: StoppedClock) -> None:
    """`ticks`: more entries of the log than a rollup holds, so that the state is a rollup and what follows it.

    Most of the batches have no row, as an entry without a part is small.
    """
    db.sql("CREATE TABLE ticks (n int8, at timestamptz)")
    for n in range(150):
        clock.at += MINUTE
        rows = [n] if n % 6 == 0 else []
        db.append("ticks", {"n": rows, "at": [day(n / 24) for n in rows]}, at=clock.at)
        if n in (100, 140):
            db.compact("ticks", full=True)
    clock.at += 2 * HOUR
    db.sweep()


def altered(db: tidegate.Database, clock: StoppedClock) -> None:
    """`altered`: a column is added, dropped, and added again by the same name with another type, between parts."""
    db.sql("CREATE TABLE altered (id int8, a text, b int4)")
    db.append("altered", {"id": [1, 2], "a": ["old", None], "b": [10, 20]}, at=clock.at)
    clock.at += HOUR
    db.sql("ALTER TABLE altered ADD COLUMN c row(x int8, y text)")
    db.append(
        "altered",
        {"id": [3], "a": ["with c"], "b": [30], "c": [{"x": 1, "y": "y"}]},
        at=clock.at,
    )
    clock.at += HOUR
    db.sql("ALTER TABLE altered DROP COLUMN b; ALTER TABLE altered ADD COLUMN b text")
    db.append("altered", {"id": [4], "a": ["b is text"], "c": [None], "b": ["forty"]}, at=clock.at)
    clock.at += HOUR
    db.sql("UPDATE altered SET b = 'set' WHERE id = 2; ALTER TABLE altered DROP COLUMN c")


def pages(db: tidegate.Database, clock: StoppedClock) -> None:
    """`pages`: one part of several pages, sorted across parts by `recluster`."""
    db.sql("CREATE TABLE pages (id int8, bucket int4, name text)")
    for part in range(2):
        ids = range(part, 17_000, 2)
        clock.at += HOUR
        db.append(
            "pages",
            {"id": list(ids), "bucket": [n // 1000 for n in ids], "name": [f"name {n // 500}" for n in ids]},
            at=clock.at,
        )
    db.recluster("pages", by=["id"])
    clock.at += 2 * HOUR
    db.sweep()


def bare(db: tidegate.Database, clock: StoppedClock) -> None:
    """`bare`: a part without statistics, one whose statistics came later, and one with; `empty` has no part; `gone` is dropped."""
    db.sql("CREATE TABLE bare (id int8, name text); CREATE TABLE gone (id int8)")
    db.sql("CREATE TABLE empty (id int8, \"order\" text DEFAULT 'none')")
    db.set("stats_collection", False)
    db.append("bare", {"id": [1, 2], "name": ["later", "later"]}, at=clock.at)
    db.set("stats_collection", None)
    db.backfill_statistics("bare")
    db.set("stats_collection", False)
    clock.at += HOUR
    db.append("bare", {"id": [3, 4], "name": ["never", "never"]}, at=clock.at)
    db.set("stats_collection", None)
    clock.at += HOUR
    db.append("bare", {"id": [5, 6], "name": ["always", "always"]}, at=clock.at)
    db.sql("DROP TABLE gone")


def views(db: tidegate.Database, clock: StoppedClock) -> None:
    """`recent`, whose rows depend on the time of the question, and a view of that view."""
    db.sql("""
        CREATE VIEW recent AS SELECT id, at, kind, total FROM events WHERE mz_now() <= at + '10 days';
        CREATE VIEW recent_pay AS SELECT id, total * 2 AS double_total FROM recent WHERE kind = 'pay'
    """)


def sources(db: tidegate.Database, clock: StoppedClock, files: Path) -> None:
    """`clicks`, of files, whose rows end by a temporal filter; `orders` of a generator; and a connection."""
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    db.sql(
        "CREATE CONNECTION broker TO KAFKA (BROKER 'localhost:9', SASL USERNAME 'me', SASL PASSWORD 'env:SECRET')"
    )
    db.sql(f"""
        CREATE SOURCE clicks FROM FILES '{files}/*.json' FORMAT JSON INCLUDE LINE
        TRANSFORM USING (
            SELECT (data->>'id')::int8 AS id, (data->>'at')::timestamptz AS at, data->>'page' AS page, data->'more' AS more, line
            FROM clicks
            WHERE mz_now() <= (data->>'at')::timestamptz + '30 days' AND mz_now() >= (data->>'at')::timestamptz
                AND data->>'page' <> 'test')
        CLUSTER BY (at) WITH (RETENTION '10 years')
    """)
    db.sql("""
        CREATE SOURCE orders FROM GENERATOR orders (ROWS 60, SEED 3, START AT '2024-01-02')
        TRANSFORM USING (SELECT id, created_at, status, total, payload->>'channel' AS channel FROM orders WHERE total > 50)
    """)
    for batch in range(2):
        lines = [click(n) for n in range(batch * 30, batch * 30 + 30)]
        (files / f"{batch}.json").write_text("\n".join([*lines, "not JSON"]) + "\n", "utf-8")
        clock.at += HOUR
        db.ingest("clicks", once=True, spark=False)
    db.ingest("orders", once=True, spark=False)
    clock.at = NOW - 2 * HOUR  # the times until then can be asked for: `upper` of `clicks` passes them
    (files / "2.json").write_text(f"{click(70)}\n{click(88)}\n", "utf-8")
    db.ingest("clicks", once=True, spark=False)
    shutil.rmtree(files)


def click(n: int) -> str:
    """A record of `clicks`: one a day, from 35 days before START on, so that some are past when they come."""
    page = "test" if n % 10 == 9 else f"/page/{n % 4}"
    at = day(n - 35).isoformat()
    return json.dumps(
        {"id": "bad" if n == 20 else n, "at": at, "page": page, "more": {"n": n, "list": [n, str(n)]}}
    )


# ---------------------------------------------------------------- the answers


def answer(db: tidegate.Database, sql: str) -> dict[str, Any]:
    """What a statement gives, as JSON: names, types and rows, each row as Python writes it; or the class of its error.

    Without ORDER BY any order of the rows is right, so they are sorted.
    """
    try:
        result = db.sql(sql)
        rows = [repr(row) for row in result.rows()]
    except tidegate.TidegateError as error:
        return {"sql": sql, "error": type(error).__name__}
    return {
        "sql": sql,
        "path": result.path,
        "columns": [f"{field.name}: {field.type}" for field in result.schema],
        "rows": rows if "ORDER BY" in sql else sorted(rows),
    }


def statements() -> list[str]:
    """The statements of `statements.sql`: one a line, beside empty lines and comments."""
    lines = (HERE / "statements.sql").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("--")]


def write(folder: Path, files: Path = INPUT) -> dict[str, Any]:
    """Writes the lakes of the installed version below a folder; the answers, which all of them give alike."""
    given: list[list[dict[str, Any]]] = []
    for name, suffix in LAKES.items():
        clock = StoppedClock(START)
        with tidegate.open(f"{folder / name}{suffix}", clock=clock) as db:
            fill(db, clock, files)
        with tidegate.open(f"{folder / name}{suffix}", clock=StoppedClock(NOW)) as db:
            given.append([answer(db, sql) for sql in statements()])
    for first, second in zip(*given, strict=True):
        assert first == second, f"the lakes differ: {first} and {second}"
    return {"version": tidegate.__version__, "now": NOW, "lakes": LAKES, "answers": given[0]}


def main() -> None:
    """Writes the lakes and answers.json of the installed version."""
    folder = HERE / tidegate.__version__
    if folder.exists():
        sys.exit(f"{folder} is there: the lake of a version is written once")
    folder.mkdir()
    text = json.dumps(write(folder), indent=1, ensure_ascii=False)
    (folder / "answers.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
