"""`make demo`: what exists so far, at work on a year of orders.

It makes a year of orders in memory, one part a day, asks the questions that matter, and for each shows what was read against
what there is, beside evaluating everything; the answers are compared. Then the last month becomes a database in a temporary
folder: durable parts with statistics of their own, read as of now and of earlier, compacted. Reads that fetch only what can matter
follow (`demo_reads.py`), and it ends with a transform taken apart and an error. Spark and sources are not part of this yet.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import textwrap
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from tidegate.demo_reads import show_reads
from tidegate.errors import TidegateError
from tidegate.expr.interpret import Interpretation
from tidegate.expr.lanes import Lanes, Range
from tidegate.expr.reasons import reasons
from tidegate.expr.specs import NO, YES, Specs, Verdict
from tidegate.expr.types import INT8, JSONB, NUMERIC, TEXT, TIMESTAMPTZ, numeric
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import SafePlan
from tidegate.plan.temporal import decompose
from tidegate.plan.verdict import verdicts
from tidegate.sql import bind
from tidegate.sql.catalog import Names, Relation

DAYS = 365
START = 1_704_067_200_000_000
"""2024-01-01, in microseconds."""
DAY = 86_400_000_000
NOW = START // 1000 + DAYS * 86_400_000
"""The end of the year, in milliseconds: the time of every question."""
TOTAL = numeric(10, 2)
ORDERS = Relation(
    "orders",
    (("id", INT8), ("created_at", TIMESTAMPTZ), ("total", TOTAL), ("customer", TEXT), ("payload", JSONB)),
)
COLUMNS = ", ".join(f"{name} {type_}" for name, type_ in ORDERS.columns)
QUESTIONS = (
    (
        "the last 30 days, as seed 003 writes it",
        "SELECT id, total FROM orders WHERE mz_now() <= created_at + '30 days'",
    ),
    (
        "a number inside JSON",
        "SELECT id FROM orders WHERE (payload->>'ts')::int8 >= 1735500000000 AND payload->>'kind' = 'web'",
    ),
    (
        "a month, by a function of the time, through a subquery",
        "SELECT id FROM (SELECT id, date_trunc('month', created_at) AS month FROM orders) WHERE month = '2024-03-01'",
    ),
    (
        "arithmetic, CASE and a prefix",
        "SELECT id * 2 FROM orders WHERE CASE WHEN id % 2 = 0 THEN id / 5000 ELSE -1 END > 360 AND customer LIKE 'c%'",
    ),
    ("a day that never was", "SELECT * FROM orders WHERE created_at::date = '2025-03-01'"),
)


@dataclass(frozen=True)
class Year:
    """The parts of a year, a list of columns each, and the statistics of all of them at once."""

    parts: list[list[pa.Array]]
    statistics: list[Specs]


def make_year(rows: int) -> Year:
    """Orders of a year, `rows` a day."""
    random = np.random.default_rng(7)
    parts, stamps = [], []
    for day in range(DAYS):
        at = START + day * DAY + np.sort(random.integers(0, DAY, rows))
        ids = pa.array(np.arange(day * rows, (day + 1) * rows))
        kind = pa.array(["web", "app", "shop"]).take(pa.array(random.integers(0, 3, rows)))
        stamp = pa.array(at // 1000)
        stamps.append(stamp)
        document = pc.binary_join_element_wise('{"ts":', stamp.cast(pa.string()), ',"kind":"', kind, '"}', "")
        customer = pc.binary_join_element_wise(
            "c", pa.array(random.integers(0, 5000, rows)).cast(pa.string()), ""
        )
        total = pa.array(random.integers(1, 1000, rows)).cast(pa.decimal128(21, 2)).cast(TOTAL.arrow)
        parts.append([ids, pa.array(at).cast(TIMESTAMPTZ.arrow), total, customer, document])
    return Year(parts, _statistics(parts, stamps))


def _statistics(parts: list[list[pa.Array]], stamps: list[pa.Array]) -> list[Specs]:
    """The least and the greatest value of each column in each part, and of two paths inside the JSON."""
    described = []
    for column, (_, type_) in enumerate(ORDERS.columns[:4]):
        ends = [pc.min_max(part[column]) for part in parts]
        low, high = (pa.array([end[side].as_py() for end in ends], type_.arrow) for side in ("min", "max"))
        described.append(Specs.ranged(type_, low, high))
    ends = [pc.min_max(stamp) for stamp in stamps]
    low, high = (
        pa.array([end[side].as_py() for end in ends]).cast(pa.decimal128(38, 0)).cast(NUMERIC.arrow)
        for side in ("min", "max")
    )
    words = (pa.array([word] * len(parts)) for word in ("app", "web"))
    keys = {
        "ts": Specs.ranged(JSONB, None, None, lanes=Lanes(number=Range(YES, low, high, YES))),
        "kind": Specs.ranged(JSONB, None, None, lanes=Lanes(text=Range(YES, *words))),
    }
    return [*described, Specs.ranged(JSONB, None, None, lanes=Lanes(map=YES, keys=keys, closed=NO))]


def ask(year: Year, title: str, sql: str) -> None:
    """One question: what the statistics say, what is read, and that the answer is that of reading everything."""
    print(f"\n— {title}\n")
    print(textwrap.indent("\n".join(textwrap.wrap(sql, 74)), "  "))
    plan = bind.query(sql, Names({"orders": ORDERS}), now_ms=NOW).mfp.at(NOW).optimise()
    start = time.perf_counter()
    found = verdicts(plan, year.statistics, (NOW, NOW), len(year.parts))
    pruning = time.perf_counter() - start
    kept = np.flatnonzero(found.keep)
    start = time.perf_counter()
    answer = _run(plan, [year.parts[i] for i in kept])
    reading = time.perf_counter() - start
    start = time.perf_counter()
    whole = _run(plan, year.parts)
    everything = time.perf_counter() - start
    if answer != whole:
        raise SystemExit("the answers differ: this is a bug")
    proven = int((found.verdict == Verdict.ALL).sum())
    print(
        f"\n  {len(kept)} of {len(year.parts)} parts are read ({proven} proven to match whole); {answer[0]:,} rows"
    )
    print(
        f"  {pruning * 1e3:.1f} ms to decide, {reading * 1e3:.0f} ms to evaluate; {everything * 1e3:.0f} ms for everything"
    )
    print("  the same rows either way")
    interpretation = Interpretation(year.statistics, (NOW, NOW))
    for part in (0, int(kept[0])) if len(kept) else (0,):
        # Of several conditions the one that says most: the first that no row passes, else the first that is open.
        telling = min(found.by_condition, key=lambda one: one[1][part])[0]
        verdict = Verdict(found.verdict[part]).name.lower()
        why = f"part {part} ({verdict}): {reasons(telling, interpretation, part)[0]}"
        print(textwrap.indent("\n".join(textwrap.wrap(why, 76, subsequent_indent="    ")), "  "))


def _run(plan: MapFilterProject, parts: list[list[pa.Array]]) -> tuple[int, str]:
    """How many rows leave the plan, and a digest of all that leaves."""
    safe, rows, digest = SafePlan(plan), 0, hashlib.sha256()
    for part in parts:
        got = safe.evaluate(part, len(part[0]), NOW)
        if len(got.failures):
            raise SystemExit(f"a row failed: {got.failures.messages[0]}")
        rows += len(got.selection)
        for column in got.columns if rows else ():
            digest.update(str(column.slice(0, 50)).encode() if len(column) else b"")
            digest.update(np.ascontiguousarray(got.selection).tobytes())
    return rows, digest.hexdigest()


def keep(year: Year) -> None:
    """The last month as a database in a folder: appended, read, read as of earlier, retracted, compacted."""
    print("\n— a lake in a folder: Parquet parts, and metadata in SQLite\n")
    with tempfile.TemporaryDirectory() as folder, tidegate.open(folder) as db:
        db.sql(f"CREATE TABLE orders ({COLUMNS}) CLUSTER BY (created_at)")
        start = time.perf_counter()
        month = [db.append("orders", day) for day in last_month(year)]
        took = time.perf_counter() - start
        size = db.status().collections["orders"].bytes
        print(f"  30 days appended, each all or nothing, in {took:.1f} s: {size / 1e6:.1f} MB")
        _look(db, "SELECT id FROM orders WHERE created_at >= '2024-12-29'")
        _look(db, f"SELECT id FROM orders AS OF {month[9]}")
        bad = db.sql("SELECT * FROM orders WHERE created_at < '2024-12-02'").arrow()
        db.append("orders", bad, diff=-1)
        print(f"  {len(bad):,} rows retracted")
        _look(db, "SELECT id FROM orders")
        _look(db, f"SELECT id FROM orders AS OF {month[-1]}")
        done = db.compact("orders", full=True)
        print(f"  compacted: {done.removed} parts became {done.added}; all times can still be read")
        _look(db, "SELECT id FROM orders")
        _look(db, f"SELECT id FROM orders AS OF {month[-1]}")


def last_month(year: Year) -> list[pa.Table]:
    """The last 30 days, a table each."""
    names = [name for name, _ in ORDERS.columns]
    return [pa.table(part, names) for part in year.parts[-30:]]


def _look(db: tidegate.Database, sql: str) -> None:
    result = db.sql(sql)
    print(f"  {sql}")
    print(f"    {len(result):,} rows from {result.scan.parts_read} of {result.scan.parts_total} parts")


def take_apart() -> None:
    """A maintained transform: what is done before storing, what expires, and what is left for reading."""
    print("\n— TRANSFORM USING, taken apart so that it can stop and go on without its past\n")
    sql = "SELECT id, total FROM orders WHERE mz_now() <= created_at + '30 days' AND payload->>'kind' = 'web'"
    print(textwrap.indent("\n".join(textwrap.wrap(sql, 74)), "  "))
    pieces = decompose(bind.transform(sql, Names({"orders": ORDERS})).mfp)
    for name, piece in zip(("before storing", "expires by", "at reading"), pieces, strict=True):
        print(textwrap.indent(f"\n{name}:\n{textwrap.indent(piece.show(), '  ')}", "  "))


def make_a_mistake() -> None:
    """An error as a user sees it."""
    print("\n— and when something is wrong\n")
    try:
        bind.query(
            "SELECT id FROM orders WHERE totl > 5 AND created_at + '30 days' > 7", Names({"orders": ORDERS})
        )
    except TidegateError as error:
        print(textwrap.indent(str(error), "  "))


def main() -> None:
    """Runs the demo."""
    parser = argparse.ArgumentParser(prog="tidegate demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=5000, help="orders a day (default 5,000: 1.8 million in all)"
    )
    rows = parser.parse_args().rows
    print("Tidegate: what exists so far — expressions that are evaluated over rows")
    print("and interpreted over statistics, by the same declarations; and collections")
    print("that are kept with their statistics, and read as of any time.")
    print(f"\nMaking a year of orders, one part a day, {rows * DAYS:,} rows … ", end="", flush=True)
    start = time.perf_counter()
    year = make_year(rows)
    print(f"{time.perf_counter() - start:.1f} s")
    for title, sql in QUESTIONS:
        ask(year, title, sql)
    keep(year)
    show_reads(COLUMNS, last_month(year), rows)
    take_apart()
    make_a_mistake()
    print("\nNot here yet: Spark, sources, the command line and the web page.")
    print("Next: docs/tour.md follows a query through the code; `make test` proves it;")
    print("`make bench-interpret` prunes a million parts beside deltalake.")


if __name__ == "__main__":
    main()
