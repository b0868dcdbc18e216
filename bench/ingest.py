"""Files through a transform: a source of ours beside Spark's own read → select → where → write, in one session.

    make bench-ingest                                             # 4,000,000 lines of JSON, and of CSV, in 8 files each
    PYTHONPATH=. .venv/bin/python -m bench.ingest 500000 1        # fewer lines, and turns

Every line has 40 fields; 5 of them and a tenth of the rows are kept, in their types (bigint, text, decimal, text, timestamp).

| way | does |
|---|---|
| spark | `read.schema(…).json/csv → select → where → write.parquet`: told its schema, so it reads once; zstd, as ours |
| tidegate on Spark | `db.ingest(source, once=True)`: fused tasks; bad lines found, parts and pages described, one commit |
| tidegate alone | `db.ingest(source, once=True, spark=False)`: the same in this process |

Counted are the seconds of all processors together: this process, the JVM, and Spark's Python processes, those that ended meanwhile
included, as Linux tells in /proc. CREATE SOURCE, starting a stream and its processes, planning and commits are in it: about 4 s,
whatever the size of the data. The least of several turns counts, as the machine is noisy; the first turn warms up and does not
count. Wanted: no more than Spark's own.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tidegate
from bench.spark_write import cpu_seconds
from tidegate.spark.session import prepare

ROWS = 4_000_000
FILES = 8
DRAWN = 20_000
"""Rows that are drawn; others are the same with another id."""
TURNS = 2
WANTED = 1.0
RESULTS = Path(__file__).parent / "results" / "ingest.json"
COUNTRIES = ("de", "fr", "us", "uk", "it", "es", "nl", "pl", "se", "br")
KINDS = {"id": "bigint", "country": "string", "amount": "decimal(12,2)", "user": "string", "at": "timestamp"}
NAMES = (*KINDS, *(f"f{j:02d}" for j in range(35)))
ORDER = tuple(NAMES[at * 7 % 40] for at in range(40))
"""As they stand in a line: what is kept lies between what is not."""
OF_JSON = """SELECT (data->>'id')::int8 AS id, data->>'country' AS country, (data->>'amount')::numeric(12,2) AS amount,
    data->>'user' AS "user", (data->>'at')::timestamptz AS at FROM {name} WHERE data->>'country' = 'de'"""
OF_CSV = """SELECT id::int8 AS id, country, amount::numeric(12,2) AS amount, "user", at::timestamptz AS at
    FROM {name} WHERE country = 'de'"""


def drawn(count: int) -> list[dict[str, Any]]:
    """Events of 40 fields, 540 bytes as JSON."""
    chance = random.Random(1)
    words = [f"w{i:05d}" for i in range(500)]
    found = []
    for i in range(count):
        event: dict[str, Any] = {
            "id": i,
            "country": chance.choice(COUNTRIES),
            "amount": round(chance.random() * 1000, 2),
            "user": f"u{chance.randrange(10**6)}",
            "at": f"2026-01-{chance.randrange(1, 29):02d}T{chance.randrange(24):02d}:00:00Z",
        }
        more = {f"f{j:02d}": chance.choice(words) if j % 3 else chance.randrange(10**5) for j in range(35)}
        found.append(event | more)
    return found


def make(folder: Path, rows: int) -> dict[str, Path]:
    """The files, by format."""
    events = [{name: event[name] for name in ORDER} for event in drawn(min(DRAWN, rows))]
    places = {}
    for kind in ("json", "csv"):
        lines = []
        for event in events:
            marked = {**event, "id": "@"}  # where the id goes
            plain = ",".join(map(str, marked.values()))
            text = json.dumps(marked, separators=(",", ":")) if kind == "json" else plain
            lines.append(text.replace('"@"', "@").split("@"))
        places[kind] = folder / kind
        places[kind].mkdir(parents=True)
        for file in range(FILES):
            with (places[kind] / f"{file}.{kind}").open("w") as out:
                if kind == "csv":
                    out.write(",".join(ORDER) + "\n")
                numbers = range(file, rows, FILES)
                out.writelines(str(i).join(lines[i % len(lines)]) + "\n" for i in numbers)
    return places


class Processors:
    """Processor time of this process and of all that are or were below it, looked at five times a second."""

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.seconds()
            time.sleep(0.2)

    def seconds(self) -> float:
        """All of it so far; of a process that has ended, what it had spent when it was last seen."""
        with self._lock:
            self._spent |= cpu_seconds()
            return sum(self._spent.values())

    def timed(self, work: Callable[[], None]) -> tuple[float, float]:
        """Seconds on the clock, and of the processors."""
        clock, before = time.perf_counter(), self.seconds()
        work()
        wall = time.perf_counter() - clock
        return wall, self.seconds() - before


def spark_way(spark: SparkSession, kind: str, place: Path, out: Path) -> Callable[[], None]:
    """Spark's own."""
    other = {name: "bigint" if int(name[1:]) % 3 == 0 else "string" for name in NAMES[5:]}
    types = KINDS | other
    schema = ", ".join(f"`{name}` {types[name]}" for name in ORDER)

    def work() -> None:
        reader = spark.read.schema(schema)
        df = reader.json(str(place)) if kind == "json" else reader.option("header", "true").csv(str(place))
        kept = df.select(*KINDS).where("country = 'de'")
        kept.write.option("compression", "zstd").mode("overwrite").parquet(str(out))

    return work


class Sources:
    """Ours: a new source for each turn, as each file is read once."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.db = tidegate.open(folder / "lake")
        self.spark = spark
        self.made = 0

    def way(self, kind: str, place: Path, *, on_spark: bool) -> Callable[[], None]:
        """Ingests all files once."""

        def work() -> None:
            self.made += 1
            name = f"s{self.made}"
            form, query = ("JSON", OF_JSON) if kind == "json" else ("CSV WITH HEADER", OF_CSV)
            self.db.sql(
                f"CREATE SOURCE {name} FROM FILES '{place}/*.{kind}' FORMAT {form} TRANSFORM USING ({query.format(name=name)})"
            )
            self.db.ingest(name, once=True, spark=self.spark if on_spark else False)

        return work

    def check(self, rows: int, spark: SparkSession, out: Path) -> None:
        """The last source holds what Spark wrote."""
        wanted = [
            tuple(row)
            for row in spark.read.parquet(str(out)).selectExpr("count(*)", "sum(id)", "sum(amount)").collect()
        ]
        found = self.db.sql(f"SELECT count(*), sum(id), sum(amount) FROM s{self.made}").rows()
        assert [tuple(map(str, row)) for row in found] == [tuple(map(str, row)) for row in wanted], (
            found,
            wanted,
        )
        assert self.db.sql(f"SELECT count(*) FROM s{self.made}_errors").rows() == [(0,)]
        assert wanted[0][0] > rows // 20


def measure(spark: SparkSession, folder: Path, rows: int, turns: int) -> dict[str, Any]:
    """The figures: each way's least seconds, and what they are of Spark's own."""
    places = make(folder / "source", rows)
    sources, processors = Sources(folder, spark), Processors()
    found: dict[str, Any] = {}
    for kind, place in places.items():
        out = folder / f"plain-{kind}"
        ways = {
            "spark": spark_way(spark, kind, place, out),
            "tidegate on Spark": sources.way(kind, place, on_spark=True),
            "tidegate alone": sources.way(kind, place, on_spark=False),
        }
        best = {name: (float("inf"), float("inf")) for name in ways}
        for (
            name,
            work,
        ) in ways.items():  # one after the other: Spark ends Python processes that wait for a minute
            for turn in range(turns + 1):
                wall, cpu = processors.timed(work)
                print(f"  {kind}, {name:20} {wall:7.2f} s, {cpu:7.2f} s of processors", flush=True)
                if turn:
                    best[name] = (min(best[name][0], wall), min(best[name][1], cpu))
        sources.check(rows, spark, out)
        base = best["spark"]
        for name, (wall, cpu) in best.items():
            found[f"{kind}, {name}"] = {
                "wall_s": round(wall, 2),
                "cpu_s": round(cpu, 2),
                "cpu_us_a_row": round(cpu / rows * 1e6, 2),
                "cpu_of_spark": round(cpu / base[1], 2),
            }
    sources.db.close()
    return found


def main() -> int:
    """Prints the table, and says whether it is as wanted."""
    prepare()
    given = list(map(int, sys.argv[1:]))
    rows, turns = (*given, *(ROWS, TURNS)[len(given) :])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    folder = Path(tempfile.mkdtemp(prefix="tidegate-ingest-"))
    try:
        found = measure(spark, folder, rows, turns)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for name, figures in found.items():
        print(f"{name:28}" + "  ".join(f"{key} {value:7.2f}" for key, value in figures.items()))
    if rows >= ROWS:
        RESULTS.write_text(json.dumps({"rows": rows, **found}, indent=1) + "\n")
    asked = [figures["cpu_of_spark"] for name, figures in found.items() if name.endswith("on Spark")]
    return 0 if max(asked) <= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
