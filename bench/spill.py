"""Queries over more rows than the embedded engine may hold: do they end with the right rows, and what does it cost?

    make bench-spill                        10 GB of rows, embedded_memory = 1 GiB
    python -m bench.spill --gigabytes 2

One collection of `id`, `key` (the ids in another order) and a text of 200 random letters, in parts of some 500 MB, of which one row
in a hundred was deleted afterwards. Each question runs in a process of its own with `engine = embedded`, and its answer is compared
with what is known of the rows. Printed are the wall time, the most memory of the process, and the most that was on disk besides the
collection. The last question is cancelled while it spills: printed is how long it took to stop. A question that is refused prints
its message; a process that leaves a file behind fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate
from tests.large import WIDTH, bodies

RESULTS = Path(__file__).parent / "results"
LIMIT = 1 << 30
ROW = WIDTH + 4 + 8 + 8
"""Bytes of a row in Arrow's form."""
EACH_PART = 2_000_000
STEP = 7_368_787
"""A prime: `key = id * STEP % rows` puts the ids into another order."""
SORT = "SELECT key, row_number() OVER (ORDER BY key) AS place, body FROM t"
QUESTIONS = {
    "sort": f"SELECT count(*), sum(place), max(body) IS NOT NULL FROM ({SORT}) s",
    "group by text": "SELECT count(*), sum(n), true FROM (SELECT body, count(*) AS n, min(id) FROM t GROUP BY body) g",
    "join": "SELECT count(*), sum(b.key + 1), max(a.body || b.body) IS NOT NULL FROM t a JOIN t b ON a.key = b.id",
    "cancelled": f"SELECT max(body), sum(place) FROM ({SORT}) s",
}
CHILD = """
import json, sys, threading, time
import tidegate
lake, sql, cancel_s, memory = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
with tidegate.open(lake, config=tidegate.Config(engine="embedded", embedded_memory=memory)) as db:
    watch, stopped = tidegate.Watch(), []
    def stop():
        stopped.append(time.monotonic())
        watch.cancel()
    if cancel_s:
        timer = threading.Timer(cancel_s, stop)
        timer.start()
    try:
        result = db.sql(sql, watch=watch)
        told = {"path": result.path, "rows": [[int(value) for value in row] for row in result.rows()] if not cancel_s else []}
    except tidegate.CancelledError:
        told = {"stopped": time.monotonic() - stopped[0]}
    except tidegate.TidegateError as error:
        told = {"refused": str(error)}
    if cancel_s:
        timer.cancel()
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    print(json.dumps({**told, "memory": peak * 1024}))
"""


@dataclass(frozen=True)
class Run:
    """What a process said, and what was seen of it."""

    told: dict[str, object]
    seconds: float
    spilled: int
    """The most bytes that were in its temporary folder."""


def main() -> None:
    """Measures and writes the results."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--gigabytes", type=float, default=10)
    arguments.add_argument("--dir", default=None, help="where the collection and temporary files go")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-spill-", dir=given.dir) as folder:
        lake, rows = f"{folder}/lake", int(given.gigabytes * 1e9) // ROW
        began = time.monotonic()
        expected = grow(lake, rows)
        stored = bytes_in(Path(lake))
        print(
            f"{expected[0]:,} rows, {stored / 1e9:.1f} GB on disk, written in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        lines = [line(name, lake, Path(folder) / "spill", expected) for name in QUESTIONS]
    text = report(given.gigabytes, expected[0], stored, lines)
    print(text)
    if given.gigabytes >= 10:
        (RESULTS / "spill.md").write_text(text)


def grow(lake: str, rows: int) -> tuple[int, int]:
    """Writes the collection and deletes a hundredth of it; how many rows are left, and the sum of 1 to that number."""
    with tidegate.open(lake) as db:
        db.sql("CREATE TABLE t (id int8, key int8, body text)")
        for start in range(0, rows, EACH_PART):
            ids = np.arange(start, min(start + EACH_PART, rows))
            columns = {
                "id": pa.array(ids),
                "key": pa.array(ids * STEP % rows),
                "body": bodies(len(ids), start),
            }
            db.append("t", pa.table(columns))
        # The rows of the largest keys, so that the keys that are left are 0 to left - 1 and the places of a sort are known.
        left = rows - rows // 100
        db.sql(f"DELETE FROM t WHERE key >= {left}")
    return left, left * (left + 1) // 2


def line(name: str, lake: str, folder: Path, expected: tuple[int, int]) -> str:
    """Runs a question; a row of the table. An answer that is wrong ends the benchmark."""
    cancel_s = 20.0 if name == "cancelled" else 0.0
    run = in_process(lake, QUESTIONS[name], cancel_s, folder)
    outcome = outcome_of(name, run, lake, expected)
    memory = int(str(run.told["memory"]))
    row = f"| {name} | {outcome} | {run.seconds:,.0f} | {memory / 1e9:.2f} | {run.spilled / 1e9:.2f} |"
    print(row, flush=True)
    return row


def outcome_of(name: str, run: Run, lake: str, expected: tuple[int, int]) -> str:
    """What became of the question, in words."""
    if "refused" in run.told:
        return f"refused: {run.told['refused']}".replace("\n", " ")
    if "stopped" in run.told:
        return f"stopped {float(str(run.told['stopped'])):.2f} s after it was cancelled"
    if name == "cancelled":
        raise SystemExit("the query ended before it was cancelled: ask for more gigabytes")
    right = joined(lake) if name == "join" else expected
    if name == "group by text":
        right = (expected[0], expected[0])
    if run.told["path"] != "embedded" or run.told["rows"] != [[*right, 1]]:
        raise SystemExit(f"wrong: {name} gave {run.told}, expected {right}")
    return "right"


def joined(lake: str) -> tuple[int, int]:
    """The number of pairs, and the sum of `b.key + 1`, of the join with itself: by numpy, from the two columns of numbers."""
    with tidegate.open(lake) as db:
        table = db.sql("SELECT id, key FROM t OPTIONS (engine = embedded)").arrow()
    ids, keys = table["id"].to_numpy(), table["key"].to_numpy()
    partners = keys[np.isin(ids, keys)]
    return len(partners), int(partners.sum()) + len(partners)


def in_process(lake: str, sql: str, cancel_s: float, folder: Path) -> Run:
    """Runs one query in a fresh process whose temporary files go to a folder of its own, which must be empty at its end."""
    folder.mkdir(exist_ok=True)
    words = [sys.executable, "-c", CHILD, lake, sql, str(cancel_s), str(LIMIT)]
    began, most = time.monotonic(), 0
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    ) as child:
        done = threading.Event()

        def sample() -> None:
            nonlocal most
            while not done.wait(0.2):
                most = max(most, bytes_in(folder))

        sampler = threading.Thread(target=sample)
        sampler.start()
        out, _ = child.communicate()
        done.set()
        sampler.join()
    left = [str(path) for path in folder.rglob("*") if path.is_file()]
    if child.returncode or left:
        raise SystemExit(f"exit code {child.returncode}, left behind: {left}")
    return Run(json.loads(out), time.monotonic() - began, most)


def bytes_in(folder: Path) -> int:
    """Bytes of all files below a folder, some of which may vanish meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def report(gigabytes: float, rows: int, stored: int, lines: list[str]) -> str:
    """The page of results."""
    return "\n".join(
        [
            "# Queries over more than the embedded engine may hold",
            "",
            f"`python -m bench.spill --gigabytes {gigabytes:g}`: {gigabytes:g} GB of rows in Arrow's form, of which one in a",
            f"hundred was deleted: {rows:,} are left, {stored / 1e9:.1f} GB on disk. `embedded_memory` is {LIMIT >> 30} GiB.",
            "Memory is the most of the whole process: Python, the scan that feeds the engine, and the engine. Spilled is",
            "the most that lay in its temporary folder, which is empty after each.",
            "",
            "| question | outcome | s | memory, GB | spilled, GB |",
            "|---|---|---:|---:|---:|",
            *lines,
            "",
            "```sql",
            *(f"{sql}  -- {name}" for name, sql in QUESTIONS.items()),
            "```",
            "",
        ]
    )


if __name__ == "__main__":
    main()
