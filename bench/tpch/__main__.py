"""TPC-H: the 22 questions on the embedded engine, beside DuckDB on the same part files and our own Spark path.

    make bench-tpch                                    scale 1, all three; half an hour the first time
    python -m bench.tpch --scale 0.1 --no-spark         a minute

The eight tables are made by tpchgen-cli and appended to a lake (lineitem in parts of a million rows). DuckDB reads the very part
files with `read_parquet`. Each question is asked in turns, `--rounds` times, and of Spark, which has started before,
`--spark-rounds` times; CPU time and wall time are the least of these. Answers must be equal, numbers up to the digits that DuckDB
keeps (it computes averages and quotients in floating point).

Asked for: embedded at most 2 times DuckDB's CPU for each question, and at least 5 times less wall time than on Spark. With
`--changed` a hundredth of the rows of lineitem and orders is deleted and appended again before, so that parts have deleted rows.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate
from bench.tpch.tables import duckdb_over, lake, queries

MAX_CPU, MIN_SPARK = 2.0, 5.0


@dataclass
class Measured:
    """The least times of one way to answer a question, in seconds."""

    cpu: float = math.inf
    wall: float = math.inf
    answer: pa.Table | None = None


def measure(into: Measured, ask: Callable[[], pa.Table]) -> None:
    """Asks once more."""
    cpu, wall = _cpu(), time.perf_counter()
    into.answer = ask()
    into.wall = min(into.wall, time.perf_counter() - wall)
    into.cpu = min(into.cpu, _cpu() - cpu)


def _cpu() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def comparable(table: pa.Table | None) -> list[tuple[Any, ...]]:
    """The rows, in a form in which equal answers are equal."""
    assert table is not None
    return sorted(
        (tuple(_plain(value) for value in row.values()) for row in table.to_pylist()),
        key=repr,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    try:
        return f"{float(value):.10g}"
    except (TypeError, ValueError):
        return str(value)


def change(db: tidegate.Database) -> None:
    """Deletes some rows and appends them again."""
    for name, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
        rows = db.sql(f"SELECT * FROM {name} WHERE {key} % 100 = 7").arrow()
        db.sql(f"DELETE FROM {name} WHERE {key} % 100 = 7")
        db.append(name, rows)


def run(options: argparse.Namespace) -> int:
    """Asks everything and prints a table; how many bars were missed."""
    db = lake(options.dir, options.scale)
    peer = duckdb_over(db)  # before any change: the files of all rows
    if options.changed:
        change(db)
    db.set("audit", 0.0)
    if options.spark:  # the start of a JVM is nobody's answer
        db.sql(
            "SELECT count(*) FROM nation JOIN region ON n_regionkey = r_regionkey OPTIONS (engine = spark)"
        ).rows()
    missed = 0
    print(f"TPC-H at scale {options.scale:g}{', rows deleted and appended again' if options.changed else ''}")
    print("| question | embedded, CPU ms | DuckDB, CPU ms | ratio | embedded, ms | Spark, ms | ratio | |")
    print("|---:|---:|---:|---:|---:|---:|---:|---|")
    totals = [0.0, 0.0]
    for number, sql in queries().items():
        ours, theirs, spark = Measured(), Measured(), Measured()
        for _ in range(options.rounds):
            measure(ours, lambda sql=sql: db.sql(f"{sql} OPTIONS (engine = embedded)").arrow())
            measure(theirs, lambda sql=sql: peer.sql(sql).to_arrow_table())
        for _ in range(options.spark_rounds if options.spark else 0):
            measure(spark, lambda sql=sql: db.sql(f"{sql} OPTIONS (engine = spark)").arrow())
        said = verdict(ours, theirs, spark, with_spark=options.spark)
        missed += bool(said)
        totals[0] += ours.cpu
        totals[1] += theirs.cpu
        beside = f"{1000 * spark.wall:,.0f} | {spark.wall / ours.wall:.1f}" if options.spark else "– | –"
        print(
            f"| {number} | {1000 * ours.cpu:,.0f} | {1000 * theirs.cpu:,.0f} | {ours.cpu / theirs.cpu:.2f} | "
            f"{1000 * ours.wall:,.0f} | {beside} | {said} |",
            flush=True,
        )
    print(
        f"\nAll: {totals[0]:.1f} s CPU embedded, {totals[1]:.1f} s DuckDB, {totals[0] / totals[1]:.2f}×; {missed} missed"
    )
    return missed


def verdict(ours: Measured, theirs: Measured, spark: Measured, *, with_spark: bool) -> str:
    """What is not as asked for; a wrong answer ends the benchmark."""
    expected = comparable(theirs.answer)
    for name, other in (("embedded", ours), *((("Spark", spark),) if with_spark else ())):
        if comparable(other.answer) != expected:
            sys.exit(f"a wrong answer of {name}: {comparable(other.answer)[:3]} for {expected[:3]}")
    lost = ["CPU"] if ours.cpu > MAX_CPU * theirs.cpu else []
    lost += ["Spark"] if with_spark and spark.wall < MIN_SPARK * ours.wall else []
    return "missed: " + ", ".join(lost) if lost else ""


def main() -> None:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark-rounds", type=int, default=1)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "tidegate-tpch")
    parser.add_argument("--no-spark", dest="spark", action="store_false")
    parser.add_argument(
        "--changed", action="store_true", help="with deleted rows in the parts; the lake is then removed"
    )
    options = parser.parse_args()
    if options.changed:
        options.dir = Path(tempfile.mkdtemp(prefix="tidegate-tpch-"))
    print(f"{os.cpu_count()} cores")
    run(options)


if __name__ == "__main__":
    main()
