"""Reading by Spark: a collection through `db.table`, beside `spark.read.parquet` of the very same files, in one run.

    make bench-spark                    ten minutes, more the first time
    python -m bench.spark --rounds 3    quicker

| question | what is timed | asked for |
|---|---|---|
| full scan | all columns of 10 parts of 500,000 rows, to nowhere | ≤ 1.1 × |
| aggregate | `GROUP BY customer % 100`, of the same | ≤ 1.1 × |
| temporal | `at + INTERVAL 10 DAYS >= '…'`, which is 1 % of 1,000 parts of 5,000 rows | ≥ 5 × faster |
| plan | 10,000 parts, a filter that 10 of them may match: from the name to Spark's tasks | no slower than 10 files |
| plan all | the same without a filter, all 10,000 listed | the same |

Both sides take turns, and of each the best round counts: a busy minute of the machine hits them alike. The session is local[2].
Plain Parquet is given its DataFrame of the 1,000 files beforehand, so that listing them is not counted against it; for the plans
both begin with nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

LARGE, MANY = (10, 500_000), (1_000, 5_000)
"""Parts, and rows of each."""
PLANNED, FEW = 10_000, 10
TABLE = (
    "orders (id int8, at timestamptz, customer int8, kind text, total float8, price numeric(12,2), note text)"
)
DAY = 86_400_000_000
START = 1_600_000_000_000_000
SLOWER, FASTER, PLANS = 1.1, 5.0, 1.0
ROUNDS = 5


def rows(day: int, count: int) -> pa.Table:
    """The rows of a part: one day."""
    id_ = np.arange(count) + day * count
    micros = START + day * DAY + np.arange(count) * (DAY // count)
    spread = id_ * 7919 % 100_003
    return pa.table(
        {
            "id": pa.array(id_),
            "at": pa.array(micros).cast(pa.timestamp("us", "UTC")),
            "customer": pa.array(spread),
            "kind": pa.array(np.array(["new", "paid", "sent", "done"])[spread % 4]),
            "total": pa.array(spread / 7),
            "price": pa.array((spread * 3).astype(np.int32)).cast(pa.decimal128(12, 2)),
            "note": pa.array(np.char.add("order ", spread.astype(str))),
        }
    )


def made(folder: Path, parts: int, count: int) -> Path:
    """A lake of so many parts, made if it is not there."""
    from tidegate.storage.part import encode as part

    mark = f"{inspect.getsource(part.layout)} {inspect.getsource(rows)} {TABLE}"
    root = folder / f"{parts}x{count}-{hashlib.sha256(mark.encode()).hexdigest()[:8]}"
    if not (root / "done").exists():
        import tidegate

        shutil.rmtree(root, ignore_errors=True)
        print(f"writing {parts:,} parts of {count:,} rows", file=sys.stderr)
        with tidegate.open(root / "lake") as db:
            db.sql(f"CREATE TABLE {TABLE}")
            for day in range(parts):
                db.append("orders", rows(day, count))
        (root / "done").touch()
    return root / "lake"


def session() -> Any:
    """Spark as it comes, but for its memory and its messages."""
    from tidegate.spark.session import session as started

    spark = started("local[2]", {"spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def best(rounds: int, *asked: Callable[[], object]) -> list[float]:
    """The best wall time of each, taking turns; one round warms up."""
    took: list[list[float]] = [[] for _ in asked]
    for turn in range(rounds + 1):
        for times, ask in zip(took, asked, strict=True):
            begin = time.perf_counter()
            ask()
            if turn:
                times.append(time.perf_counter() - begin)
    return [min(times) for times in took]


def folder_of(lake: Path) -> str:
    """Where the parts are."""
    (found,) = (lake / "part").iterdir()
    return str(found)


def to_nowhere(df: Any) -> None:
    """Reads all of it."""
    df.write.format("noop").mode("overwrite").save()


def planned(df: Any) -> int:
    """Plans up to the tasks; how many there would be."""
    return int(df._jdf.queryExecution().toRdd().getNumPartitions())


# ---------------------------------------------------------------- the questions


def scans(spark: Any, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Full scan and aggregate."""
    import tidegate

    lake = made(folder, *LARGE)
    with tidegate.open(lake) as db:
        columns = [column.split()[0] for column in TABLE[8:-1].split(", ")]
        plain, ours = spark.read.parquet(folder_of(lake)).select(*columns), db.table("orders", spark)

        def grouped(df: Any) -> Any:
            return df.groupBy((df.customer % 100).alias("c")).agg(
                {"total": "sum", "price": "max", "id": "count"}
            )

        assert sorted(map(tuple, grouped(plain).select("c", "count(id)").collect())) == sorted(
            map(tuple, grouped(ours).select("c", "count(id)").collect())
        )
        whole = best(rounds, lambda: to_nowhere(plain), lambda: to_nowhere(ours))
        group = best(rounds, lambda: to_nowhere(grouped(plain)), lambda: to_nowhere(grouped(ours)))
    return [_line("full scan", *whole, most=SLOWER), _line("aggregate", *group, most=SLOWER)]


def temporal(spark: Any, folder: Path, rounds: int) -> dict[str, Any]:
    """A filter that 1 % of many parts can match."""
    import tidegate

    lake = made(folder, *MANY)
    with tidegate.open(lake) as db:
        wanted = (START + (MANY[0] + 1) * DAY - 1) // 1_000_000
        where = f"at + INTERVAL 11 DAYS >= timestamp_seconds({wanted}) AND total > 5"
        plain = spark.read.parquet(folder_of(lake)).select("id", "at", "total", "note").where(where)
        ours = db.table("orders", spark).select("id", "at", "total", "note").where(where)
        counts = plain.count(), ours.count()
        assert counts[0] == counts[1] > 0, counts
        text = spark._jvm.PythonSQLUtils.explainString(ours._jdf.queryExecution(), "formatted")
        shown = next(line for line in text.splitlines() if "Location" in line).split("[")[-1].rstrip("]")
        return _line(
            "temporal", *best(rounds, lambda: to_nowhere(plain), lambda: to_nowhere(ours)), most=1 / FASTER
        ) | {"parts": shown}


def plans(spark: Any, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """From a name to tasks."""
    import tidegate
    from bench.peek import made as made_for_peeks

    few = folder_of(made_for_peeks(folder, FEW, "sqlite"))
    found = []
    with tidegate.open(made_for_peeks(folder, PLANNED, "sqlite")) as db:
        # The parts of this lake are copies of a hundred, of 20 rows each: ids 0 to 19 are in a hundredth of them.
        for name, where in (("plan", "id + 1 < 3"), ("plan all", "true")):
            took = best(
                2 * rounds,
                lambda where=where: planned(spark.read.parquet(few).where(where)),
                lambda where=where: planned(db.table("orders", spark).where(where)),
            )
            found.append(_line(name, *took, most=PLANS))
    return found


def _line(name: str, plain: float, ours: float, most: float) -> dict[str, Any]:
    print(f"{name}: plain Parquet {plain:.3f} s, Tidegate {ours:.3f} s", file=sys.stderr, flush=True)
    return {"question": name, "plain": plain, "ours": ours, "ratio": ours / plain, "most": most}


def missed(data: dict[str, Any]) -> list[str]:
    """What was asked for and is not met."""
    return [
        f"{line['question']}: {line['ratio']:.2f}, at most {line['most']:.2f} asked"
        for line in data["lines"]
        if line["ratio"] > line["most"]
    ]


def markdown(data: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "| question | plain Parquet, ms | Tidegate, ms | ours / plain | asked |",
        "|---|---:|---:|---:|---:|",
    ]
    for line in data["lines"]:
        parts = f" ({line['parts']})" if "parts" in line else ""
        lines.append(
            f"| {line['question']}{parts} | {line['plain'] * 1e3:.0f} | {line['ours'] * 1e3:.0f}"
            f" | {line['ratio']:.2f} | ≤ {line['most']:.2f} |"
        )
    not_met = missed(data)
    return "\n".join([*lines, "", f"Not met: {'; '.join(not_met)}." if not_met else "All targets are met."])


PREFACE = """# Reading on Spark

Measured by `make bench-spark`: the best of {rounds} rounds in one session of Spark 4.3 with two cores, with both sides taking
turns. "Plain Parquet" is `spark.read.parquet` of the same files. The rows named "plan" measure planning, with {planned:,} parts
for Tidegate and {few} files for plain Parquet.

"""


def main() -> None:
    """Prints the table, and keeps it in bench/results/spark.md, with a plot of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir(), "tidegate-spark"))
    parser.add_argument("--only", nargs="*", default=["scans", "temporal", "plans"])
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = session()
    data: dict[str, Any] = {"lines": []}
    if "scans" in given.only:
        data["lines"] += scans(spark, given.dir, given.rounds)
    if "temporal" in given.only:
        data["lines"].append(temporal(spark, given.dir, given.rounds))
    if "plans" in given.only:
        data["lines"] += plans(spark, given.dir, given.rounds)
    spark.stop()
    text = PREFACE.format(rounds=given.rounds, planned=PLANNED, few=FEW) + markdown(data)
    print(text)
    if given.keep:
        from bench.plot import keep

        keep("spark", data, text)


if __name__ == "__main__":
    main()
