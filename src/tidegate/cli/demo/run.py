"""`tidegate demo`, `make demo`: the main job, from raw events to answers, on this machine.

    raw events ──▶ two sources, TRANSFORM USING, on Spark ──▶ a lake in a folder ──▶ the questions that matter

Each question is asked of the lake and of Spark reading the very same rows as plain Parquet; the answers must be equal, or the demo
fails. Then time moves on, and what has expired is gone: from answers at once, from the lake without being read.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import tidegate
from tidegate.clock import SystemClock
from tidegate.config import Config
from tidegate.demo_data import DAYS, write_clicks
from tidegate.errors import UnsupportedError
from tidegate.plan.explain import size
from tidegate.scan.result import Result

LATER_DAYS = 10
T = TypeVar("T")


def small(rows: int) -> Config:
    """Parts of 1 MiB and less, so that a small lake has as many of them as a large one has of 128 MiB."""
    return Config(part_bytes=min(1 << 20, max(1 << 16, rows // 2)))


def main(arguments: list[str] | None = None) -> None:
    """Runs the demo."""
    parser = argparse.ArgumentParser(
        "tidegate demo", description="From raw events to answers, in a few minutes."
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=2_000_000,
        help="orders; of clicks there are a fifth (default %(default)s)",
    )
    parser.add_argument(
        "--lake", type=Path, help="where to keep the lake; else it is in a temporary folder and removed"
    )
    given = parser.parse_args(arguments)
    with _folder(given.lake) as folder:
        run(folder, max(given.rows, 1_000))


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """A folder for everything: one that stays, or one that is removed at the end."""
    if kept is not None:
        if kept.exists() and any(kept.iterdir()):
            raise SystemExit(f"{kept} is not empty: choose another folder, or remove it")
        yield kept.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as made:
        yield Path(made)


def run(folder: Path, rows: int) -> None:
    """The whole story."""
    began, now = time.monotonic(), SystemClock().now()
    say(
        f"Tidegate {tidegate.__version__}: {rows:,} orders and {rows // 5:,} clicks of the last {DAYS} days,\nin {folder}"
    )
    with tidegate.open(folder / "lake", config=small(rows)) as db:
        spark = _spark()
        _ingest(db, folder, rows, now, spark)
        _plain(db, folder, spark)
        _questions(db, spark, now)
        _explain(db, now)
    _later(folder)
    _next(time.monotonic() - began)
    spark.stop()


# ---------------------------------------------------------------- ingestion


def _spark() -> Any:
    """A session of our own; pyspark is imported here first."""
    try:
        from tidegate.spark.session import session
    except ImportError:
        raise UnsupportedError(
            "the demo ingests on Spark, which is not installed", hint="pip install 'tidegate[spark]'"
        ) from None
    with _quiet():  # Spark greets with a dozen lines
        return session(settings={"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "2g"})


@contextmanager
def _quiet() -> Iterator[None]:
    """What is started in here has no stderr to write to."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _ingest(db: tidegate.Database, folder: Path, rows: int, now: int, spark: Any) -> None:
    title("Two sources, each with a transform that runs before anything is stored")
    start = datetime.fromtimestamp(now // 1000 - DAYS * 86_400, UTC)
    rate = rows / (DAYS * 86_400)
    clicks = folder / "clicks"
    written = write_clicks(clicks, rows // 5, 8, now)
    orders = f"""
CREATE SOURCE orders_30d
FROM GENERATOR orders (
    ROWS {rows}, START AT '{start:%Y-%m-%d %H:%M:%S}+00', RATE {rate:.6f}
)
TRANSFORM USING (
    SELECT id, created_at, customer_id, status, item, total, payload
    FROM orders_30d
    WHERE mz_now() <= created_at + '30 days'
)"""
    thin = f"""
CREATE SOURCE clicks
FROM FILES '{clicks}/*.json' FORMAT JSON
TRANSFORM USING (
    SELECT (data->>'id')::int8 AS id, (data->>'at')::timestamptz AS at,
           (data->>'user')::int8 AS user_id, data->>'url' AS url,
           data->'device' AS device
    FROM clicks
    WHERE data->>'kind' = 'click'
)"""
    for sql in (orders, thin):
        say(sql.replace(str(folder), "…"))
        db.sql(sql)
    say("\ningesting on Spark …")
    for name in ("orders_30d", "clicks"):
        began = time.monotonic()
        done = db.ingest([name], once=True, spark=spark).progress()
        one, kept = done[name], db.status().collections[name]
        raw = f" ({size(written)} of JSON)" if name == "clicks" else ""
        say(
            f"  {name}: {one.records:,} records in{raw}, {one.kept:,} kept, {one.filtered:,} filtered,\n"
            f"    {one.expired:,} expired before they were stored, {one.bad:,} bad;"
            f" {kept.parts} part{'s' if kept.parts != 1 else ''}, {size(kept.bytes)}, {time.monotonic() - began:.1f} s"
        )


def _plain(db: tidegate.Database, folder: Path, spark: Any) -> None:
    """The same rows as plain Parquet, written by Spark in as many files, for comparison."""
    for name in ("orders_30d", "clicks"):
        parts = max(1, db.status().collections[name].parts)
        path = str(folder / "plain" / name)
        db.table(name, spark).coalesce(parts).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(f"plain_{name}")


# ---------------------------------------------------------------- questions


@dataclass(frozen=True)
class Question:
    """Asked here in our SQL, and in Spark's where that differs."""

    what: str
    ours: str
    spark: str
    exact: bool = True
    """LIMIT without ORDER BY may give any rows: then only their number is compared."""


def questions(now: int) -> list[Question]:
    """Those that matter, for a lake that was filled at `now`."""
    day = f"{datetime.fromtimestamp(now // 1000 - 86_400, UTC):%Y-%m-%d %H:%M:%S}"
    recent = now - 3 * 86_400_000
    day_ours, day_spark = f"created_at > '{day}+00'", f"created_at > timestamp '{day}+00:00'"
    joined = (
        "SELECT o.status, count(*) FROM {orders} o JOIN {clicks} c ON o.customer_id = c.user_id"
        " WHERE o.{day} GROUP BY 1 ORDER BY 1"
    )
    return [
        Question(
            "the last day, of thirty",
            f"SELECT count(*), sum(total) FROM orders_30d WHERE {day_ours}",
            f"SELECT count(*), sum(total) FROM plain_orders_30d WHERE {day_spark}",
        ),
        Question(
            "a number inside JSON",
            f"SELECT count(*) FROM orders_30d WHERE (payload->>'ts')::int8 > {recent} AND payload->>'channel' = 'app'",
            f"SELECT count(*) FROM plain_orders_30d WHERE cast(get_json_object(payload, '$.ts') AS bigint) > {recent}"
            " AND get_json_object(payload, '$.channel') = 'app'",
        ),
        both(
            "a text in the middle of texts",
            "SELECT id, url, device FROM {clicks} WHERE url LIKE '%checkout/42%' ORDER BY id",
        ),
        both("ten rows, any", "SELECT * FROM {orders} LIMIT 10", exact=False),
        both("how many", "SELECT count(*) FROM {clicks}"),
        Question(
            "a join, on Spark either way",
            joined.format(orders="orders_30d", clicks="clicks", day=day_ours),
            joined.format(orders="plain_orders_30d", clicks="plain_clicks", day=day_spark),
        ),
    ]


def both(what: str, sql: str, *, exact: bool = True) -> Question:
    """A question that is written alike."""
    ours, plain = (sql.format(orders=f"{of}orders_30d", clicks=f"{of}clicks") for of in ("", "plain_"))
    return Question(what, ours, plain, exact=exact)


def _questions(db: tidegate.Database, spark: Any, now: int) -> None:
    title("Questions, beside Spark reading the same rows as plain Parquet (best of 3)")
    for one in questions(now):
        result, ours = _best(partial(db.sql, one.ours))
        rows, theirs = _best(partial(_on_spark, spark, one.spark))
        _compare(one, result, rows)
        scan = result.scan
        say(f"{one.what}\n  {_folded(one.ours)}")
        say(
            f"  {len(result):,} row{'s' if len(result) != 1 else ''} from {result.path};"
            f" read {scan.parts_read} of {scan.parts_total} parts, {size(scan.bytes_read)} of {size(scan.bytes_total)}"
        )
        say(f"  {1000 * ours:,.0f} ms, and Spark on plain Parquet {1000 * theirs:,.0f} ms: the same answer\n")


def _on_spark(spark: Any, sql: str) -> list[Any]:
    found: list[Any] = spark.sql(sql).collect()
    return found


def _best(work: Callable[[], T], times: int = 3) -> tuple[T, float]:
    """What it gives, and the shortest that it took."""
    tried = []
    for _ in range(times):
        began = time.perf_counter()
        found = work()
        tried.append((found, time.perf_counter() - began))
    return tried[-1][0], min(took for _, took in tried)


def _compare(asked: Question, ours: Result, theirs: list[Any]) -> None:
    """Ends the demo if the answers differ."""
    mine = [tuple(map(str, row)) for row in ours.rows()]
    others = [tuple(map(str, row)) for row in theirs]
    if (mine != others) if asked.exact else len(mine) != len(others):
        raise SystemExit(f"the answers differ, which is a bug:\n{asked.ours}\n{mine[:5]}\n{others[:5]}")


def _explain(db: tidegate.Database, now: int) -> None:
    title("Why a part was read, and why others were not")
    day = f"{datetime.fromtimestamp(now // 1000 - 86_400 // 8, UTC):%Y-%m-%d %H:%M:%S}"
    sql = f"EXPLAIN SELECT id, total FROM orders_30d WHERE created_at > '{day}+00' AND total > 100"
    say(f"{_folded(sql)}\n")
    for line in db.sql(sql).text().splitlines():
        _narrow(line)


# ---------------------------------------------------------------- time moves on


class Later:
    """The clock of somebody who looks at the lake some days from now."""

    def __init__(self, days: int) -> None:
        self._clock, self._ahead = SystemClock(), days * 86_400_000

    def now(self) -> int:
        """Milliseconds since 1970, as it will be."""
        return self._clock.now() + self._ahead


def _later(folder: Path) -> None:
    title(f"The same lake, {LATER_DAYS} days from now (by a clock that is set ahead)")
    sql = "SELECT count(*), min(created_at) FROM orders_30d"
    with tidegate.open(folder / "lake") as db:
        count, oldest = db.sql(sql, as_of=None).rows()[0]
        say(f"  now            {count:>9,} orders, the oldest of {oldest:%Y-%m-%d %H:%M}")
        before = db.status().collections["orders_30d"]
    with tidegate.open(folder / "lake", clock=Later(LATER_DAYS)) as db:
        count, oldest = db.sql(sql).rows()[0]
        say(f"  in {LATER_DAYS} days     {count:>9,} orders, the oldest of {oldest:%Y-%m-%d %H:%M}")
        done = db.compact("orders_30d")
        after = db.status().collections["orders_30d"]
        say(
            f"  then compact   dropped {done.expired} of {before.parts} parts whole, without reading them:"
            f"\n                 {size(before.bytes)} became {size(after.bytes)}"
        )


def _next(took: float) -> None:
    title(f"Done in {took:.0f} s. What to try next")
    say(
        "  tidegate demo --lake demo --rows 10000000   keep it, and make it larger\n"
        "  tidegate sql --lake demo/lake               ask it yourself\n"
        "  tidegate ingest --lake demo/lake            put files into demo/clicks, and\n"
        "                                              see them come in\n"
        "  tidegate serve --lake demo/lake --pg 5433   the map of its parts in a browser,\n"
        "                                              and psql -h 127.0.0.1 -p 5433\n"
        "  tidegate status --lake demo/lake            how it is doing\n"
        "\n(tidegate is in .venv/bin, if it was `make` that set it up.)"
    )


def title(text: str) -> None:
    """A heading."""
    say(f"\n── {text} {'─' * max(0, 76 - len(text))}\n" if len(text) < 74 else f"\n── {text}\n")


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _folded(sql: str) -> str:
    """SQL on lines of 78."""
    return "\n  ".join(textwrap.wrap(sql, 76))


def _narrow(line: str) -> None:
    """A line of EXPLAIN, which is made for 100 columns, on 80."""
    start = len(line) - len(line.lstrip(" │└├─"))
    said = re.sub(r"(?<=\S) {3,}", "   ", line)
    rest = textwrap.wrap(
        said, 79, subsequent_indent=" " * (start + 2), drop_whitespace=True, replace_whitespace=False
    )
    say("\n".join(rest) if len(said) > 79 else said)


if __name__ == "__main__":
    main()
