"""Many small commits: what one costs, what is left of them, and what reading that costs, beside other systems.

    make bench-commits                               3,000 commits of ten rows, each durable before the next
    python -m bench.commits --commits 30000 --writers 8

Each system commits the same batches, in a process of its own. Measured is the wall time and the CPU time of a commit, that of
PostgreSQL's server included, and the files and bytes that are left. `commits in files` is Tidegate with `inline_bytes = 0`: each
commit writes a file, as all did before. Then `count`, a filter and `LIMIT 10` are asked, and asked again after `compact`; the ratio
is what the small commits cost a reader. With `--writers` as many processes commit to one table at once.

SQLite and PostgreSQL are what an application would use for such rows, without columns, statistics or history.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate
from tests import servers

RESULTS = Path(__file__).parent / "results"
ROWS = 10
QUESTIONS = {
    "count, sum": "SELECT count(*), sum(v) FROM t",
    "filter": "SELECT count(*) FROM t WHERE v > 7 AND name LIKE '%5%'",
    "point look-up": "SELECT * FROM t WHERE id = 4321",
    "LIMIT 10": "SELECT * FROM t WHERE v > 3 LIMIT 10",
}
SYSTEMS = (
    "tidegate",
    "tidegate, commits in files",
    "tidegate, PostgreSQL metadata",
    "PostgreSQL",
    "SQLite",
    "deltalake",
)


def batches(commits: int, writer: int) -> Iterator[pa.Table]:
    """The batches of one writer."""
    for i in range(commits):
        first = (writer * commits + i) * ROWS
        ids = range(first, first + ROWS)
        yield pa.table({
            "id": pa.array(ids, pa.int64()), "at": pa.array([1_700_000_000_000_000 + 1000 * i] * ROWS, pa.timestamp("us", "UTC")),
            "name": [f"name {i % 1000}" for i in ids], "v": [float(i % 10) for i in ids],
        })  # fmt: skip


def main() -> None:
    """Measures, or commits as one writer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commits", type=int, default=3_000)
    parser.add_argument("--writers", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--writer", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        commit_all(given.system, given.place, given.commits, given.writer)
        return
    lines = [
        "# Many small commits",
        "",
        f"`python -m bench.commits --commits {given.commits} --writers {' '.join(map(str, given.writers))}`,",
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f} at the start. Commits of {ROWS} rows, each durable",
        "before the next one begins. CPU time is that of the writers' processes, and of PostgreSQL's. The systems",
        "take their turn one after the other.",
        "",
        "Asked for: at most 2 times PostgreSQL's heap, and a tenth of DuckLake (which is not measured: its extension is for",
        "another version of DuckDB); questions at most 1.2 times what they take after compaction. Not met: a commit takes more",
        "than ten times PostgreSQL's, and aggregates over small parts, of which up to 128 are left, many times what they take",
        "compacted. Several processes write rollups and merge the same parts at once, which costs CPU time and files.",
        "",
    ]
    for writers in given.writers:
        lines += measured(given.commits // writers, writers)
    text = "\n".join(lines)
    RESULTS.joinpath("commits.md").write_text(text)
    print(text)


def measured(commits: int, writers: int) -> list[str]:
    """The tables of a run with so many writers."""
    lines = [
        f"## {writers} writer{'s' * (writers > 1)}, {commits * writers:,} commits",
        "",
        "| system | ms of wall a commit | ms of CPU a commit | commits/s | files left | MB left |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    reads: list[str] = []
    for system in SYSTEMS:
        if system == "deltalake" and writers > 1:
            continue  # its writers conflict and give up
        with tempfile.TemporaryDirectory() as folder:
            place = create(system, folder)
            before = server_cpu(system)
            cpu, wall = run_writers(system, place, commits, writers)
            cpu += server_cpu(system) - before
            total = commits * writers
            files = [file for file in Path(folder).rglob("*") if file.is_file()]
            left = f"{len(files):,} | {sum(file.stat().st_size for file in files) / 1e6:,.1f}"
            left = "– | –" if system == "PostgreSQL" else left
            lines.append(
                f"| {system} | {1000 * wall / total:.2f} | {1000 * cpu / total:.2f} | {total / wall:,.0f} | {left} |"
            )
            print(lines[-1], flush=True)
            if system in ("tidegate", "tidegate, commits in files"):
                reads += read_costs(system, place, commits * writers * ROWS)
    return [
        *lines,
        "",
        "| Tidegate, question | as it was left, ms | after `compact --full`, ms | ratio |",
        "|---|---:|---:|---:|",
        *reads,
        "",
    ]


def create(system: str, folder: str) -> str:
    """Makes the empty table; returns where it is."""
    match system:
        case "PostgreSQL":
            import psycopg

            url = servers.durable_postgres()
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP TABLE IF EXISTS t")
                connection.execute("CREATE TABLE t (id int8, at timestamptz, name text, v float8)")
            return url
        case "SQLite":
            with sqlite3.connect(f"{folder}/t.sqlite") as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("CREATE TABLE t (id INTEGER, at TEXT, name TEXT, v REAL)")
            return f"{folder}/t.sqlite"
        case "deltalake":
            return f"{folder}/t"
        case _:
            place = f"{folder}/lake"
            if "PostgreSQL" in system:
                place += f"?metadata={servers.durable_postgres()}"
            with tidegate.open(place) as db:
                db.sql("CREATE TABLE t (id int8, at timestamptz, name text, v float8)")
            return place


def commit_all(system: str, place: str, commits: int, writer: int) -> None:
    """One writer: all of its batches; prints its CPU seconds for them, and when it began and ended."""
    given = list(batches(commits, writer))
    append = appender(system, place)
    append(given[0])  # imports, and opens files
    cpu, began = time.process_time(), time.time()
    for batch in given[1:]:
        append(batch)
    print(json.dumps([time.process_time() - cpu, began, time.time()]))


def appender(system: str, place: str) -> Callable[[pa.Table], Any]:
    """How this system commits a batch durably."""
    match system:
        case "PostgreSQL":
            import psycopg

            connection = psycopg.connect(place, autocommit=True)

            def insert(batch: pa.Table) -> None:
                rows = [
                    value
                    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
                    for value in row
                ]
                connection.execute("INSERT INTO t VALUES " + ", ".join(["(%s, %s, %s, %s)"] * ROWS), rows)

            return insert
        case "SQLite":
            database = sqlite3.connect(place, timeout=60, isolation_level=None)
            database.execute("PRAGMA synchronous = FULL")

            def insert_all(batch: pa.Table) -> None:
                rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
                database.execute("BEGIN IMMEDIATE")
                database.executemany(
                    "INSERT INTO t VALUES (?, ?, ?, ?)", [(a, str(b), c, d) for a, b, c, d in rows]
                )
                database.execute("COMMIT")

            return insert_all
        case "deltalake":
            import deltalake

            return lambda batch: deltalake.write_deltalake(place, batch, mode="append")
        case _:
            db = tidegate.open(place)
            if "files" in system:
                db.set("inline_bytes", 0)
            return lambda batch: db.append("t", batch)


def run_writers(system: str, place: str, commits: int, writers: int) -> tuple[float, float]:
    """Runs the writers at once; returns the CPU seconds of their commits, and the seconds from the first to the last."""
    command = [
        sys.executable,
        "-m",
        "bench.commits",
        "--system",
        system,
        "--place",
        place,
        "--commits",
        str(commits),
    ]
    children = [
        subprocess.Popen([*command, "--writer", str(i)], stdout=subprocess.PIPE, text=True)
        for i in range(writers)
    ]
    said = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise SystemExit(f"a writer of {system} failed")
    cpu, began, ended = zip(*map(json.loads, said), strict=True)
    return sum(cpu), max(ended) - min(began)


def server_cpu(system: str) -> float:
    """CPU seconds of PostgreSQL's processes so far, if the system uses them."""
    if "PostgreSQL" not in system:
        return 0.0
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if "(postgres)" in text:
            fields = text[text.rindex(")") + 2 :].split()
            ticks += sum(map(int, fields[11:15]))  # of itself and of its ended children
    return ticks / os.sysconf("SC_CLK_TCK")


def read_costs(system: str, place: str, rows: int) -> list[str]:
    """What questions take as the commits left the table, and after a full compaction."""
    times = []
    with tidegate.open(place) as db:
        db.set("audit", 0.0)
        for compacted in (False, True):
            if compacted:
                db.compact("t", full=True)
            assert db.sql("SELECT count(*) FROM t").rows() == [(rows,)]
            times.append({name: median_ms(db, sql) for name, sql in QUESTIONS.items()})
    return [
        f"| {system}: {name} | {before:.2f} | {after:.2f} | {before / after:.2f} |"
        for (name, before), after in zip(times[0].items(), times[1].values(), strict=True)
    ]


def median_ms(db: Any, sql: str) -> float:
    """The median of eleven times, after two that warm up."""
    took = []
    for _ in range(13):
        began = time.perf_counter()
        db.sql(sql).rows()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took[2:])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
