"""`tidegate demo`, `make demo`: the main use case, from raw events to answers, on this machine.

    raw events ──▶ two sources, TRANSFORM USING, on Spark ──▶ a lake in a folder ──▶ queries

Each query runs on the lake and on Spark reading the same rows as plain Parquet; the answers must be equal, or the demo fails. Then
time moves on, and expired rows are gone: from answers at once, from the lake without being read.
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
from tidegate.cli.demo.clicks import DAYS, write_clicks
from tidegate.clock import SystemClock
from tidegate.config import Config
from tidegate.errors import UnsupportedError
from tidegate.query import Result
from tidegate.text import format_bytes, format_duration, plural

LATER_DAYS = 10
T = TypeVar("T")


def demo_config(rows: int) -> Config:
    """Returns a config with parts of at most 1 MiB: the small lake then has as many as a large one."""
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
        help="number of orders; there are a fifth as many clicks (default %(default)s)",
    )
    parser.add_argument(
        "--lake", type=Path, help="folder for the lake; by default a temporary one that is removed"
    )
    options = parser.parse_args(arguments)
    with _folder(options.lake) as folder:
        run(folder, max(options.rows, 1_000))


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """Yields a folder for everything: the chosen one, or a temporary one that is removed at the end."""
    if chosen is not None:
        if chosen.exists() and any(chosen.iterdir()):
            raise SystemExit(f"{chosen} is not empty: choose another folder, or remove it")
        yield chosen.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as temporary:
        yield Path(temporary)


def run(folder: Path, rows: int) -> None:
    """Runs all steps of the demo."""
    began, now = time.monotonic(), SystemClock().now()
    say(
        f"Tidegate {tidegate.__version__}: {rows:,} orders and {rows // 5:,} clicks of the last {DAYS} days,\nin {folder}"
    )
    with tidegate.open(folder / "lake", config=demo_config(rows)) as db:
        spark = _spark()
        _ingest(db, folder, rows, now, spark)
        _write_plain_parquet(db, folder, spark)
        _compare_queries(db, spark, now)
        _explain(db, now)
    _show_expiry(folder)
    _show_next_steps(time.monotonic() - began)
    spark.stop()


# ---------------------------------------------------------------- ingestion


def _spark() -> Any:
    """Starts a Spark session; imports pyspark."""
    try:
        from tidegate.spark.session import session
    except ImportError:
        raise UnsupportedError(
            "the demo ingests on Spark, which is not installed", hint="pip install 'tidegate[spark]'"
        ) from None
    with _quiet():  # Spark prints a dozen lines when it starts
        return session(settings={"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "2g"})


@contextmanager
def _quiet() -> Iterator[None]:
    """Discards what is written to stderr, also by child processes."""
    sys.stderr.flush()
    stderr, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nothing)


def _ingest(db: tidegate.Database, folder: Path, rows: int, now: int, spark: Any) -> None:
    """Creates and ingests both sources."""
    title("Two sources, each with a transform that runs before anything is stored")
    start = datetime.fromtimestamp(now // 1000 - DAYS * 86_400, UTC)
    clicks = folder / "clicks"
    written = write_clicks(clicks, rows // 5, 8, now)
    orders = f"""
CREATE SOURCE orders_30d
FROM GENERATOR orders (
    ROWS {rows}, START AT '{start:%Y-%m-%d %H:%M:%S}+00', RATE {rows / (DAYS * 86_400):.6f}
)
TRANSFORM USING (
    SELECT id, created_at, customer_id, status, item, total, payload
    FROM orders_30d
    WHERE mz_now() <= created_at + '30 days'
)"""
    clicks_only = f"""
CREATE SOURCE clicks
FROM FILES '{clicks}/*.json' FORMAT JSON
TRANSFORM USING (
    SELECT (data->>'id')::int8 AS id, (data->>'at')::timestamptz AS at,
           (data->>'user')::int8 AS user_id, data->>'url' AS url,
           data->'device' AS device
    FROM clicks
    WHERE data->>'kind' = 'click'
)"""
    for sql in (orders, clicks_only):
        say(sql.replace(str(folder), "…"))
        db.sql(sql)
    say("\ningesting on Spark …")
    for name in ("orders_30d", "clicks"):
        began = time.monotonic()
        progress = db.ingest([name], once=True, spark=spark).progress()[name]
        status = db.status().collections[name]
        raw = f" ({format_bytes(written)} of JSON)" if name == "clicks" else ""
        say(
            f"  {name}: {progress.records:,} records in{raw}, {progress.kept:,} kept, {progress.filtered:,} filtered,\n"
            f"    {progress.expired:,} expired before they were stored, {progress.bad:,} bad;"
            f" {status.parts} part{'s' if status.parts != 1 else ''}, {format_bytes(status.bytes)},"
            f" {time.monotonic() - began:.1f} s"
        )


def _write_plain_parquet(db: tidegate.Database, folder: Path, spark: Any) -> None:
    """Writes the same rows as plain Parquet, by Spark, in as many files, for comparison."""
    for name in ("orders_30d", "clicks"):
        parts = max(1, db.status().collections[name].parts)
        path = str(folder / "plain" / name)
        db.table(name, spark).coalesce(parts).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(f"plain_{name}")


# ---------------------------------------------------------------- queries


@dataclass(frozen=True)
class QueryPair:
    """A query in our SQL and the same in Spark SQL."""

    what: str
    ours: str
    spark: str
    exact: bool = True
    """False for LIMIT without ORDER BY, which may return any rows: only their number is compared."""


def query_pairs(now: int) -> list[QueryPair]:
    """Returns the queries of the demo, for a lake that was filled at `now`."""
    day = f"{datetime.fromtimestamp(now // 1000 - 86_400, UTC):%Y-%m-%d %H:%M:%S}"
    recent = now - 3 * 86_400_000
    day_ours, day_spark = f"created_at > '{day}+00'", f"created_at > timestamp '{day}+00:00'"
    joined = (
        "SELECT o.status, count(*) FROM {orders} o JOIN {clicks} c ON o.customer_id = c.user_id"
        " WHERE o.{day} GROUP BY 1 ORDER BY 1"
    )
    return [
        QueryPair(
            "the last day of thirty",
            f"SELECT count(*), sum(total) FROM orders_30d WHERE {day_ours}",
            f"SELECT count(*), sum(total) FROM plain_orders_30d WHERE {day_spark}",
        ),
        QueryPair(
            "a number inside JSON",
            f"SELECT count(*) FROM orders_30d WHERE (payload->>'ts')::int8 > {recent} AND payload->>'channel' = 'app'",
            f"SELECT count(*) FROM plain_orders_30d WHERE cast(get_json_object(payload, '$.ts') AS bigint) > {recent}"
            " AND get_json_object(payload, '$.channel') = 'app'",
        ),
        both(
            "a substring",
            "SELECT id, url, device FROM {clicks} WHERE url LIKE '%checkout/42%' ORDER BY id",
        ),
        both("any ten rows", "SELECT * FROM {orders} LIMIT 10", exact=False),
        both("a count", "SELECT count(*) FROM {clicks}"),
        QueryPair(
            "a join, which needs no Spark here",
            joined.format(orders="orders_30d", clicks="clicks", day=day_ours),
            joined.format(orders="plain_orders_30d", clicks="plain_clicks", day=day_spark),
        ),
    ]


def both(what: str, sql: str, *, exact: bool = True) -> QueryPair:
    """Returns a query that is the same text in both dialects."""
    ours, plain = (sql.format(orders=f"{of}orders_30d", clicks=f"{of}clicks") for of in ("", "plain_"))
    return QueryPair(what, ours, plain, exact=exact)


def _compare_queries(db: tidegate.Database, spark: Any, now: int) -> None:
    """Runs each query on the lake and on plain Parquet, and prints the times."""
    title("Queries, and the same in Spark on plain Parquet (best of 3)")
    for pair in query_pairs(now):
        result, ours = _best(partial(db.sql, pair.ours))
        rows, theirs = _best(partial(_on_spark, spark, pair.spark))
        _compare(pair, result, rows)
        scan = result.scan
        say(f"{pair.what}\n  {_wrap(pair.ours)}")
        say(
            f"  {plural(len(result), 'row')} from {result.path};"
            f" read {scan.parts_read} of {plural(scan.parts_total, 'part')}, {format_bytes(scan.bytes_read)}"
            f" of {format_bytes(scan.bytes_total)}"
        )
        say(
            f"  {format_duration(ours)}, and Spark on plain Parquet {format_duration(theirs)}: the same answer\n"
        )


def _on_spark(spark: Any, sql: str) -> list[Any]:
    rows: list[Any] = spark.sql(sql).collect()
    return rows


def _best(work: Callable[[], T], times: int = 3) -> tuple[T, float]:
    """Returns the result of some work and the shortest time that it took."""
    runs = []
    for _ in range(times):
        began = time.perf_counter()
        result = work()
        runs.append((result, time.perf_counter() - began))
    return runs[-1][0], min(seconds for _, seconds in runs)


def _compare(pair: QueryPair, ours: Result, theirs: list[Any]) -> None:
    """Ends the demo if the answers differ."""
    mine = [tuple(map(str, row)) for row in ours.rows()]
    others = [tuple(map(str, row)) for row in theirs]
    if (mine != others) if pair.exact else len(mine) != len(others):
        raise SystemExit(f"the answers differ, which is a bug:\n{pair.ours}\n{mine[:5]}\n{others[:5]}")


def _explain(db: tidegate.Database, now: int) -> None:
    """Prints an EXPLAIN."""
    title("Why parts are read or pruned")
    day = f"{datetime.fromtimestamp(now // 1000 - 86_400 // 8, UTC):%Y-%m-%d %H:%M:%S}"
    sql = f"EXPLAIN SELECT id, total FROM orders_30d WHERE created_at > '{day}+00' AND total > 100"
    say(f"{_wrap(sql)}\n")
    for line in db.sql(sql).text().splitlines():
        _say_wrapped(line)


# ---------------------------------------------------------------- time moves on


class ShiftedClock:
    """A clock that is some days ahead."""

    def __init__(self, days: int) -> None:
        self._clock, self._ahead = SystemClock(), days * 86_400_000

    def now(self) -> int:
        """Returns the shifted time in milliseconds since 1970."""
        return self._clock.now() + self._ahead


def _show_expiry(folder: Path) -> None:
    """Shows that expired rows leave answers at once, and the lake by `compact` without being read."""
    title(f"The same lake, {LATER_DAYS} days from now (with a clock that is set ahead)")
    sql = "SELECT count(*), min(created_at) FROM orders_30d"
    with tidegate.open(folder / "lake") as db:
        count, oldest = db.sql(sql, as_of=None).rows()[0]
        say(f"  now            {count:>9,} orders, the oldest of {oldest:%Y-%m-%d %H:%M}")
        before = db.status().collections["orders_30d"]
    with tidegate.open(folder / "lake", clock=ShiftedClock(LATER_DAYS)) as db:
        count, oldest = db.sql(sql).rows()[0]
        say(f"  in {LATER_DAYS} days     {count:>9,} orders, the oldest of {oldest:%Y-%m-%d %H:%M}")
        compacted = db.compact("orders_30d")
        after = db.status().collections["orders_30d"]
        say(
            f"  then compact   dropped {compacted.expired} of {before.parts} parts whole, without reading them:"
            f"\n                 {format_bytes(before.bytes)} became {format_bytes(after.bytes)}"
        )


def _show_next_steps(took: float) -> None:
    """Prints commands to try."""
    title(f"Done in {took:.0f} s. What to try next")
    say(
        "  tidegate demo --lake demo --rows 10000000   keep the lake, and make it larger\n"
        "  tidegate sql --lake demo/lake               query it\n"
        "  tidegate ingest --lake demo/lake            add files to demo/clicks and\n"
        "                                              see them ingested\n"
        "  tidegate serve --lake demo/lake --pg 5433   its parts in a browser,\n"
        "                                              and psql -h 127.0.0.1 -p 5433\n"
        "  tidegate status --lake demo/lake            its collections and their sizes\n"
        "\n(tidegate is in .venv/bin if `make` has installed it.)"
    )


def title(text: str) -> None:
    """Prints a heading."""
    say(f"\n── {text} {'─' * max(0, 76 - len(text))}\n" if len(text) < 74 else f"\n── {text}\n")


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _wrap(sql: str) -> str:
    """Wraps SQL to lines of 78 characters."""
    return "\n  ".join(textwrap.wrap(sql, 76))


def _say_wrapped(line: str) -> None:
    """Prints a line of EXPLAIN, which is up to 100 columns wide, on 80."""
    start = len(line) - len(line.lstrip(" │└├─"))
    text = re.sub(r"(?<=\S) {3,}", "   ", line)
    lines = textwrap.wrap(
        text, 79, subsequent_indent=" " * (start + 2), drop_whitespace=True, replace_whitespace=False
    )
    say("\n".join(lines) if len(text) > 79 else text)


if __name__ == "__main__":
    main()
