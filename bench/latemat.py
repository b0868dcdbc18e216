"""Reading few rows of wide parts: CPU time with late materialisation and without, beside DuckDB, Polars and DataFusion.

    make bench-latemat                                         2,000,000 rows; some twenty minutes
    python -m bench.latemat --rows 5000000                     all that was asked for; an hour
    python -m bench.latemat --rows 1000000 --kinds er rn --columns 60 --repeat 1     while tuning: a minute or two

The table and the questions are those of `hits.py`: 60 columns, parts of a million rows, matches in a range, in runs, or scattered.
Every engine reads the very same Parquet files (ours through the lake, the others by hard links to its parts), gives an Arrow table
of all columns or of five, and has a process and one thread to itself. Counted is the CPU time of that process, user and system; the
page cache is warm, so no waiting for disks is in it. Engines take turns on each question, the best of several turns counts, and all
must give as many rows.

| engine | how |
|---|---|
| on, off | `db.sql(…)`, with `late_materialization` on and off, audit 0 |
| DuckDB | `read_parquet`, threads 1 |
| Polars | lazy scan with `parallel="prefiltered"`, its own late materialisation |
| DataFusion | `pushdown_filters` on, and off: the better of the two counts for each question |

Asked for: on at least 5 times faster than off for runs at 1e-3 and 60 columns; nowhere slower than 1.1 times off; no slower than
the best of the other three where matches come in a range or in runs, and within 1.3 times where they are scattered. The first is
told by `lr`: for `er` the rosters (`storage/stats/page_values.py`) leave out the same pages whether it is on or off, which
makes off 30 times
faster than it was without them, and leaves on little to win.

The table is kept (`--dir`, by default tidegate-hits in the folder for temporary files)
until the layout of parts or the generator changes.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import hits
from bench.hits import KINDS, LIE, PART_ROWS, Query

RESULTS = Path(__file__).parent / "results"
ENGINES = ("on", "off", "DuckDB", "Polars", "DataFusion", "DataFusion, no pushdown")
OTHERS = ("DuckDB", "Polars", "DataFusion")
SHORT = 0.005
"""CPU seconds by which two engines may differ without being told apart: what an interpreter's whim costs."""


# ---------------------------------------------------------------- the table


def made(folder: Path, rows: int) -> Path:
    """The folder with the lake and links to its parts, made if it is not there yet."""
    from tidegate.storage.part import encode as part
    from tidegate.storage.stats import page_values as roster

    sources = "".join(map(inspect.getsource, (part.encode_part, part.layout, roster, hits)))
    mark = f"1 part a million {part.ROW_GROUP_ROWS} {part.PAGE_ROWS} {sources}"
    root = folder / f"{rows}-{hashlib.sha256(mark.encode()).hexdigest()[:8]}"
    if (root / "done").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    (root / "files").mkdir(parents=True)
    _make(root, rows // PART_ROWS)
    (root / "done").touch()
    return root


def _make(root: Path, parts: int) -> None:
    import tidegate
    from tidegate.config import Config

    with tidegate.open(root / "lake", config=Config(part_bytes=1 << 30)) as db:
        for number in range(parts):
            begin = time.perf_counter()
            rows = hits.part(number)
            if number == 0:
                db.sql(hits.table_sql(rows.schema))
            db.append("hits", rows)
            print(f"part {number + 1} of {parts}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    for i, path in enumerate(sorted(p for p in (root / "lake" / "part").rglob("*") if p.is_file())):
        os.link(path, root / "files" / f"{i:02d}.parquet")


# ---------------------------------------------------------------- the engines, each in a process of its own


def tidegate_engine(root: Path, late: bool) -> Callable[[Query], pa.Table]:
    """Ours."""
    import tidegate
    from tidegate.config import Config

    pa.set_cpu_count(1)
    config = Config(audit=0.0, late_materialization=late, max_result_bytes=1 << 40, read_threads=1)
    db = tidegate.open(root / "lake", config=config)
    return lambda query: db.sql(query.sql()).arrow()


def duckdb_engine(root: Path) -> Callable[[Query], pa.Table]:
    """DuckDB."""
    import duckdb

    db = duckdb.connect()
    db.execute("SET threads = 1; SET TimeZone = 'UTC'")
    view = f"SELECT * EXCLUDE (_time, _diff, _pos) FROM read_parquet('{root}/files/*.parquet')"
    db.execute(f"CREATE VIEW hits AS {view}")
    return lambda query: db.sql(query.sql()).to_arrow_table()


def polars_engine(root: Path) -> Callable[[Query], pa.Table]:
    """Polars."""
    import polars as pl

    def run(query: Query) -> pa.Table:
        scan = pl.scan_parquet(root / "files" / "*.parquet", parallel="prefiltered").filter(query.polars())
        wanted = (
            scan.select(hits.FIVE) if query.columns == len(hits.FIVE) else scan.drop("_time", "_diff", "_pos")
        )
        return wanted.collect().to_arrow()

    return run


def datafusion_engine(root: Path, push: bool) -> Callable[[Query], pa.Table]:
    """DataFusion."""
    from datafusion import SessionConfig, SessionContext

    on = str(push).lower()
    options = {
        "datafusion.execution.parquet.pushdown_filters": on,
        "datafusion.execution.parquet.reorder_filters": on,
    }
    config = SessionConfig({**options, "datafusion.execution.time_zone": "+00:00"}).with_target_partitions(1)
    session = SessionContext(config)
    session.register_parquet("parts", str(root / "files"))
    session.sql("CREATE VIEW hits AS SELECT * EXCLUDE (_time, _diff, _pos) FROM parts").collect()
    return lambda query: session.sql(query.sql()).to_arrow_table()


def engine_of(name: str, root: Path) -> Callable[[Query], pa.Table]:
    """An engine by its name in the table."""
    match name:
        case "on" | "off":
            return tidegate_engine(root, name == "on")
        case "DuckDB":
            return duckdb_engine(root)
        case "Polars":
            return polars_engine(root)
        case _:
            return datafusion_engine(root, name == "DataFusion")


def work(name: str, root: Path) -> None:
    """Answers the questions that come in, a line each, with rows and CPU seconds."""
    run = engine_of(name, root)
    for line in sys.stdin:
        query = Query(*json.loads(line))
        before = time.process_time()
        rows = run(query).num_rows
        print(json.dumps({"rows": rows, "cpu": time.process_time() - before}), flush=True)


class Worker:
    """An engine in its process."""

    def __init__(self, name: str, root: Path) -> None:
        """Starts it."""
        one = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "1"}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.latemat", "--work", name, "--dir", str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **one},
        )  # fmt: skip

    def ask(self, query: Query) -> dict[str, float]:
        """One turn."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        fields = [query.kind, query.selectivity, query.columns, query.rows]
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended at {query}: {query.sql()}")
        told: dict[str, float] = json.loads(line)
        return told

    def stop(self) -> None:
        """Ends it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(root: Path, asked: Sequence[Query], repeat: int) -> list[dict[str, Any]]:
    """Every question to every engine, in turns; the best of each."""
    workers = [Worker(name, root) for name in ENGINES]
    warm = Query("er", 1e-3, 5, asked[0].rows)
    for worker in workers:
        worker.ask(warm)
    found = []
    for query in asked:
        cpu = dict.fromkeys(ENGINES, float("inf"))
        rows: dict[str, int] = {}
        for _ in range(repeat):
            for worker in workers:
                told = worker.ask(query)
                cpu[worker.name] = min(cpu[worker.name], told["cpu"])
                rows[worker.name] = int(told["rows"])
        if len(set(rows.values())) > 1 or (query.kind != "rn" and rows["on"] != query.matches):
            sys.exit(f"{query}: rows differ, {query.matches} are right: {rows}")
        line = {
            "kind": query.kind,
            "selectivity": query.selectivity,
            "columns": query.columns,
            "rows": rows["on"],
        }
        found.append({**line, "cpu": cpu})
        print(_progress(query, cpu), file=sys.stderr, flush=True)
    for worker in workers:
        worker.stop()
    return found


def _progress(query: Query, cpu: dict[str, float]) -> str:
    return f"{query!s:14} " + "  ".join(f"{name} {seconds * 1e3:.0f}" for name, seconds in cpu.items())


# ---------------------------------------------------------------- what it means


def best_other(line: dict[str, Any]) -> tuple[float, str]:
    """The best of the other three, DataFusion by its better way."""
    cpu = line["cpu"]
    fusion = min(cpu["DataFusion"], cpu["DataFusion, no pushdown"])
    return min((cpu["DuckDB"], "DuckDB"), (cpu["Polars"], "Polars"), (fusion, "DataFusion"))


def verdicts(line: dict[str, Any]) -> list[str]:
    """What was asked for and is not met."""
    on, off, (other, name) = line["cpu"]["on"], line["cpu"]["off"], best_other(line)
    allowed = 1.3 if LIE[line["kind"]] == "scattered" else 1.0
    missed = []
    if (line["kind"], line["selectivity"], line["columns"]) == ("lr", 1e-3, 60) and off < 5 * on:
        missed.append(f"{off / on:.1f}× over off, 5× asked")
    if on > 1.1 * off + SHORT:
        missed.append(f"{on / off:.2f} of off, 1.1 asked")
    if on > allowed * other + SHORT:
        missed.append(f"{on / other:.2f} of {name}, {allowed} asked")
    return missed


def markdown(data: dict[str, Any]) -> str:
    """The tables: one for 60 columns, one for 5."""
    lines = []
    for columns in sorted({line["columns"] for line in data["lines"]}, reverse=True):
        lines += ["", f"## {columns} columns: CPU ms", ""]
        lines += [
            f"| matches | kind | selectivity | {' | '.join(ENGINES)} | off / on | on / best other | not met |"
        ]
        lines += ["|---|---|---:|" + "---:|" * (len(ENGINES) + 2) + "---|"]
        for line in data["lines"]:
            if line["columns"] == columns:
                lines.append(_row(line))
    missed = sum(bool(verdicts(line)) for line in data["lines"])
    lines += [
        "",
        f"{len(data['lines']) - missed} of {len(data['lines'])} queries meet all targets.",
    ]
    return "\n".join(lines)


def _row(line: dict[str, Any]) -> str:
    cpu = line["cpu"]
    times = " | ".join(f"{cpu[name] * 1e3:.0f}" for name in ENGINES)
    ratios = f"{cpu['off'] / max(cpu['on'], 1e-3):.1f}× | {cpu['on'] / max(best_other(line)[0], 1e-3):.2f}"
    head = f"| {LIE[line['kind']]} | {line['kind']} | {line['selectivity']:g}"
    return f"{head} | {times} | {ratios} | {'; '.join(verdicts(line))} |"


PREFACE = """# Reading few rows of wide parts

Measured by `python -m bench.latemat --rows {rows}`. Rows have 60 columns and are generated in the shape of a web analytics log,
in parts of a million rows. Figures are CPU time (user and system) of one thread, best of {repeat}, with a warm page cache. The
engines take turns on the same files. `bench/hits.py` describes the kinds of filters.
"""


def main() -> None:
    """Prints the table, and keeps it in bench/results/latemat.md, with a plot of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2 * PART_ROWS)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir(), "tidegate-hits"))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--columns", nargs="+", type=int, choices=(5, 60), default=(60, 5))
    parser.add_argument(
        "--selectivities", nargs="+", type=float, choices=hits.SELECTIVITIES, default=hits.SELECTIVITIES
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", choices=ENGINES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.dir)
        return
    if given.rows <= 0 or given.rows % PART_ROWS:
        parser.error(f"--rows must be a multiple of {PART_ROWS}")
    root = made(given.dir, given.rows)
    asked = hits.queries(given.rows, given.kinds)
    asked = [q for q in asked if q.columns in given.columns and q.selectivity in given.selectivities]
    data = {"rows": given.rows, "repeat": given.repeat, "lines": measure(root, asked, given.repeat)}
    text = PREFACE.format(**data) + markdown(data)
    print(text)
    if len(asked) == len(hits.queries(given.rows)):
        from bench import plot

        plot.keep("latemat", data, text)
    if any(verdicts(line) for line in data["lines"]):
        sys.exit("not everything that was asked for is met")


if __name__ == "__main__":
    main()
