"""How far a query and a batch travel through the source: modules entered, calls, and switches between modules and packages.

    PYTHONPATH=. .venv/bin/python -m bench.trace            # the table below, of this tree
    PYTHONPATH=. .venv/bin/python -m bench.trace --list     # also the modules in order of first entry, and the pairs of packages

| what is traced | |
|---|---|
| cold | QUERY, the first query of the process that wrote the table: nothing of it is parsed, bound or read before |
| warm | the same query again |
| fresh | the same query, the first of a process that has just opened the lake |
| batch | one file of JSON through TRANSFORM USING with a filter, by `db.ingest(…, once=True, spark=False)` in this process |

Counted is every call of a Python function of `tidegate`, in all threads. A *switch* is a call or a return by which control passes
from a module (or package) to another: when `plan.mfp` calls `expr.tree`, which calls `expr.build`, and all return, there are four
switches of module and two of package. A package is the first name below `tidegate`: `tidegate.expr.functions.time` and
`tidegate.expr.tree` are both `expr`, `tidegate.database` is one of its own. What runs while a module is imported does not count.

Only the public API is used, so that trees of every arrangement can be traced and compared. Each is traced in a process of its own.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import tidegate

QUERY = "SELECT id, payload FROM t WHERE ts + '30 days' > mz_now() LIMIT 10"
SOURCE = """
    CREATE SOURCE s FROM FILES '{folder}/*.json' FORMAT JSON
    TRANSFORM USING (
        SELECT (data->>'id')::int8 AS id, (data->>'ts')::timestamptz AS ts, data->>'kind' AS kind FROM s
        WHERE data->>'kind' <> 'test' AND mz_now() <= (data->>'ts')::timestamptz + '30 days')
"""
PARTS, ROWS = 4, 1_000


@dataclass
class Trace:
    """What was counted while it was recorded."""

    calls: Counter[str] = field(default_factory=Counter)
    """Calls by module, in order of first entry."""
    module_switches: int = 0
    package_switches: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Switches by the package before and the one after."""

    def move(self, before: str, after: str) -> None:
        """Control passes from a module to another, or stays."""
        if before and before != after:
            self.module_switches += 1
            if package(before) != package(after):
                self.package_switches[package(before), package(after)] += 1

    def figures(self) -> list[int]:
        """Modules, calls, switches of modules, switches of packages."""
        return [len(self.calls), self.calls.total(), self.module_switches, self.package_switches.total()]


class Recorder:
    """Profiles this thread and every thread that starts later, for as long as the process lives."""

    def __init__(self) -> None:
        self._trace: Trace | None = None
        # A new thread replaces this by a profile function with a stack of its own at its first event.
        threading.setprofile(lambda *_: sys.setprofile(self._profile()))
        sys.setprofile(self._profile())

    @contextmanager
    def record(self, trace: Trace) -> Iterator[None]:
        """Counts into a trace."""
        self._trace = trace
        try:
            yield
        finally:
            self._trace = None

    def _profile(self) -> Callable[[FrameType, str, object], None]:
        """A profile function for one thread: `stack` has the modules of the functions of Tidegate that are running."""
        stack: list[str] = []
        last: tuple[Trace | None, str] = (None, "")
        imports = 0

        def profile(frame: FrameType, event: str, argument: object) -> None:
            nonlocal imports, last
            if event not in {"call", "return"}:
                return
            if frame.f_code.co_name == "<module>":
                imports += 1 if event == "call" else -1
            module = frame.f_globals.get("__name__", "")
            if imports or module.split(".")[0] != "tidegate":
                return
            trace = self._trace
            before = last[1] if last[0] is trace else ""
            if event == "call":
                stack.append(module)
            elif stack:
                stack.pop()
            after = stack[-1] if stack else before
            if trace is not None:
                if event == "call":
                    trace.calls[module] += 1
                trace.move(before, after)
            last = trace, after

        return profile


def package(module: str) -> str:
    """The first name below `tidegate`; `tidegate` for itself."""
    return (module.split(".")[1:] or ["tidegate"])[0]


# ---------------------------------------------------------------- what is traced


def write_table(db: tidegate.Database) -> None:
    """A table of a few parts, some of whose rows have ended, for the query."""
    now = dt.datetime.now(dt.UTC)
    db.sql("CREATE TABLE t (id int8, ts timestamptz, payload jsonb)")
    for part in range(PARTS):
        ids = range(part * ROWS, part * ROWS + ROWS)
        times = [now - dt.timedelta(days=part * 20, seconds=n) for n in range(ROWS)]
        db.append("t", {"id": list(ids), "ts": times, "payload": [f'{{"n": {n}}}' for n in ids]})


def ask(db: tidegate.Database, recorder: Recorder) -> Trace:
    """The trace of one run of the query."""
    trace = Trace()
    with recorder.record(trace):
        rows = db.sql(QUERY).rows()
    assert len(rows) == 10
    return trace


def trace_query(folder: Path, recorder: Recorder) -> dict[str, Trace]:
    """The query, cold and warm."""
    with tidegate.open(folder / "lake") as db:
        write_table(db)
        db.set("audit", 0.0)
        return {"cold": ask(db, recorder), "warm": ask(db, recorder)}


def trace_fresh(folder: Path, recorder: Recorder) -> dict[str, Trace]:
    """The query in a process that did nothing before."""
    with tidegate.open(folder / "lake") as db:
        db.set("audit", 0.0)
        return {"fresh": ask(db, recorder)}


def trace_batch(folder: Path, recorder: Recorder) -> dict[str, Trace]:
    """One batch of a source, in this process."""
    now = dt.datetime.now(dt.UTC)
    with (folder / "0.json").open("w") as file:
        for n in range(ROWS):
            at = now - dt.timedelta(days=n % 40)
            row = {"id": n, "ts": at.isoformat(), "kind": "test" if n % 10 == 0 else "a"}
            file.write(json.dumps(row) + "\n")
    trace = Trace()
    with tidegate.open(folder / "lake") as db:
        db.sql(SOURCE.format(folder=folder))
        with recorder.record(trace):
            db.ingest("s", once=True, spark=False)
        assert 0 < db.sql("SELECT count(*) FROM s").rows()[0][0] < ROWS
    return {"batch": trace}


STEPS = {"query": trace_query, "fresh": trace_fresh, "batch": trace_batch}
"""Each runs in a process of its own, in one folder."""


# ---------------------------------------------------------------- the report


def to_json(trace: Trace) -> dict[str, Any]:
    """A trace as it passes from the process that was traced."""
    pairs = [[*pair, count] for pair, count in trace.package_switches.most_common()]
    return {"figures": trace.figures(), "calls": trace.calls, "pairs": pairs}


def step(name: str, folder: Path) -> dict[str, Any]:
    """Runs a step in a process of its own; its traces."""
    command = [sys.executable, "-m", "bench.trace", "--step", name, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    traces: dict[str, Any] = json.loads(done.stdout)
    return traces


def show(traces: dict[str, Any], *, details: bool) -> None:
    """Prints the table, and with `details` what is behind each of its lines."""
    print("| | modules | Python calls | module switches | package switches |\n|---|---:|---:|---:|---:|")
    for name, trace in traces.items():
        print(f"| {name} | " + " | ".join(f"{figure:,}" for figure in trace["figures"]) + " |")
    for name, trace in traces.items() if details else ():
        print(f"\n{name}: modules in order of first entry, and their calls")
        for module, calls in trace["calls"].items():
            print(f"    {calls:6,}  {module}")
        print(f"\n{name}: switches of packages, from and to")
        for before, after, count in trace["pairs"]:
            print(f"    {count:6,}  {before} -> {after}")


def main() -> None:
    """Traces everything, each in a process of its own, and prints it."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--list", action="store_true", help="modules in order of first entry, and pairs of packages"
    )
    parser.add_argument("--step", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        traces = STEPS[given.step[0]](Path(given.step[1]), Recorder())
        print(json.dumps({name: to_json(trace) for name, trace in traces.items()}))
        return
    traced: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in STEPS:
            traced |= step(name, Path(folder))
    show(traced, details=given.list)


if __name__ == "__main__":
    main()
