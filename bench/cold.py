"""A cold process: `LIMIT 10` of one table, a join of two small tables, and a SELECT without FROM, each in a process of its own.

    make bench-cold                             7 rounds, taking turns
    python -m bench.cold --rounds 21
    python -m bench.cold --duckdb bin/duckdb    also beside DuckDB's program (pip install duckdb-cli)

A lake of two tables on files: orders (60,000 rows) and customers (130). Each question is asked once in a fresh interpreter, which
opens the lake, asks, prints the rows and ends; measured is the whole process from its start to its end, CPU time and wall time,
the median of the rounds; and, within it, the CPU time of the statement alone. `import` only imports tidegate and opens the lake,
as a floor. Asked for: the join takes at most 1.5 times what LIMIT 10 takes, and no process loads pyspark or starts a JVM
(asserted in each of them). The program `tidegate sql "SELECT 1"` is measured in the same way; asked for is at most 0.3 s of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate

RESULTS = Path(__file__).parent / "results"
ORDERS, CUSTOMERS = 60_000, 130
WANTED = 1.5
"""The join may take so many times what LIMIT 10 takes."""
PROGRAM_WANTED = 0.3
"""CPU seconds of the program."""

QUESTIONS = {
    "import": None,
    "LIMIT 10": "SELECT * FROM orders LIMIT 10",
    "SELECT 1": "SELECT 1",
    "join": "SELECT c.name, o.price FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de' AND o.id < 200",
    "join, grouped": (
        "SELECT c.country, count(*), sum(o.price) FROM orders o JOIN customers c ON o.customer = c.id "
        "GROUP BY c.country ORDER BY 1"
    ),
    "join, jsonb": (
        "SELECT c.name, count(*) FROM orders o JOIN customers c ON o.customer = c.id "
        "WHERE (o.doc->>'n')::int8 % 7 = 0 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5"
    ),
}

CHILD = """
import sys
import time
import tidegate
with tidegate.open(sys.argv[1]) as db:
    began = time.process_time()
    if sys.argv[2]:
        result = db.sql(sys.argv[2])
        rows = result.rows()
        assert rows
        assert result.path == sys.argv[3] or not sys.argv[3], result.path
    print(time.process_time() - began)
assert not {"pyspark", "py4j"} & set(sys.modules)
"""


@dataclass
class Spent:
    """What one question took in each round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    statement: list[float] = field(default_factory=list)
    """CPU time of the statement alone."""


def main() -> None:
    """Measures and writes the results."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument(
        "--duckdb", default=shutil.which("duckdb"), help="DuckDB's program, if there is one"
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lake = os.path.join(directory, "lake")
        make_lake(lake)
        spent = {name: Spent() for name in QUESTIONS}
        programs = {name: (command, Spent()) for name, command in commands(lake, given.duckdb).items()}
        for i in range(given.rounds + 1):
            for name, sql in QUESTIONS.items():
                cpu, wall, statement = run(lake, sql, "embedded" if name.startswith("join") else "")
                if i:  # the first round compiles modules and fills the cache of the system
                    spent[name].cpu.append(cpu)
                    spent[name].wall.append(wall)
                    spent[name].statement.append(statement)
            for command, times in programs.values():
                cpu, wall, _ = measured(command)
                if i:
                    times.cpu.append(cpu)
                    times.wall.append(wall)
        imported = import_milliseconds(lake)
    text = report(spent, given.rounds) + program_report(programs, imported)
    RESULTS.joinpath("cold.md").write_text(text)
    print(text)


def make_lake(path: str) -> None:
    """Two tables on files."""
    r = np.random.default_rng(17)
    with tidegate.open(path) as db:
        db.sql("CREATE TABLE customers (id int8, name text, country text)")
        db.sql("CREATE TABLE orders (id int8, customer int8, price numeric(12,2), doc jsonb)")
        names = [f"customer {i}" for i in range(CUSTOMERS)]
        db.append("customers", pa.table({
            "id": range(CUSTOMERS), "name": names, "country": ["de", "fr", "es", "it"] * 32 + ["de", "fr"],
        }))  # fmt: skip
        prices = (
            pa.array(r.integers(1, 100_000, ORDERS)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(22, 2))
        )
        db.append("orders", pa.table({
            "id": np.arange(ORDERS), "customer": r.integers(0, CUSTOMERS, ORDERS),
            "price": prices.cast(pa.decimal128(12, 2)),
            "doc": [json.dumps({"n": i}) for i in range(ORDERS)],
        }))  # fmt: skip


def run(lake: str, sql: str | None, path: str) -> tuple[float, float, float]:
    """CPU and wall seconds of a process that asks once, and the CPU seconds of the statement in it."""
    cpu, wall, said = measured([sys.executable, "-c", CHILD, lake, sql or "", path])
    return cpu, wall, float(said)


def commands(lake: str, duckdb: str | None) -> dict[str, list[str]]:
    """The programs that are started, and nothing else but Python."""
    asked = "SELECT 1"
    found = {
        f'`tidegate sql "{asked}"`': [sys.executable, "-m", "tidegate.cli", "sql", asked, "--lake", lake],
        "`python -c pass`": [sys.executable, "-c", "pass"],
    }
    return found | ({f'`duckdb -c "{asked}"`': [duckdb, "-c", asked]} if duckdb else {})


def import_milliseconds(lake: str) -> tuple[int, float]:
    """How many modules the program imports, and how long that takes, by `python -X importtime`."""
    program = [sys.executable, "-X", "importtime", "-m", "tidegate.cli", "sql", "SELECT 1", "--lake", lake]
    said = subprocess.run(program, env=_environment(), capture_output=True, text=True, check=True).stderr
    own = re.findall(r"(?m)^import time: +(\d+) \|", said)
    return len(own), sum(map(int, own)) / 1000


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # compiled once


def measured(command: list[str]) -> tuple[float, float, str]:
    """CPU and wall seconds of a process, and what it printed."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"a process failed: {command}")
    return usage.ru_utime + usage.ru_stime, wall, said


def report(spent: dict[str, Spent], rounds: int) -> str:
    """The results as a page."""
    base = spent["LIMIT 10"]
    base_cpu, base_wall = statistics.median(base.cpu), statistics.median(base.wall)
    lines = [
        "# Cold processes",
        "",
        f"`python -m bench.cold --rounds {rounds}`, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f} at the end.",
        "Each is asked once in a fresh process, which opens a lake of two small tables on files. Medians of whole processes,",
        "taking turns. No process loads pyspark (asserted in each). With a load above the number of cores, wall time hardly",
        "compares.",
        "",
        f"Asked for: a join takes at most {WANTED} times what `LIMIT 10` takes.",
        "",
        "| asked | CPU ms | wall ms | CPU, times LIMIT 10 | wall, times LIMIT 10 | the statement alone, CPU ms |  |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for name, times in spent.items():
        cpu, wall = statistics.median(times.cpu), statistics.median(times.wall)
        ratio = cpu / base_cpu
        missed = "missed" if name.startswith("join") and max(ratio, wall / base_wall) > WANTED else ""
        alone = 1000 * statistics.median(times.statement)
        own = f"{1000 * cpu:,.0f} | {1000 * wall:,.0f} | {ratio:.2f} | {wall / base_wall:.2f} | {alone:,.0f}"
        lines.append(f"| {name} | {own} | {missed} |")
    lines += ["", "The questions:", "", "```sql"]
    lines += [f"{sql};  -- {name}" for name, sql in QUESTIONS.items() if sql]
    return "\n".join([*lines, "```", ""])


def program_report(programs: dict[str, tuple[list[str], Spent]], imported: tuple[int, float]) -> str:
    """The section about the program."""
    rows = [
        f"| {name} | {1000 * statistics.median(times.cpu):,.0f} | {1000 * min(times.cpu):,.0f} |"
        f" {1000 * statistics.median(times.wall):,.0f} |"
        for name, (_, times) in programs.items()
    ]
    modules, milliseconds = imported
    about = (
        f"Asked for: at most {1000 * PROGRAM_WANTED:,.0f} ms of CPU. `python -X importtime` counts {modules} modules,\n"
        f"which are imported in {milliseconds:,.0f} ms."
    )
    head = ["| | CPU ms, median | CPU ms, least | wall ms |", "|---|---:|---:|---:|"]
    return "\n".join(["", "## The program", "", about, "", *head, *rows, ""])


if __name__ == "__main__":
    main()
