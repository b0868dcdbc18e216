"""What each engine reads of twenty parts to answer a filter that one of them can match.

    make bench-prune

The parts are written by Tidegate. DuckDB, Polars, DataFusion and pyarrow's dataset are given the very same files by hard links;
deltalake has them in a table of its own, made by `convert_to_deltalake` with statistics of every column. `filters.py` has the 29
filters in everyone's words.

| counted | how |
|---|---|
| files opened | by the kernel: inotify tells which were opened while the query ran, be it only for a footer |
| files read | by breaking them, one after the other: data pages are overwritten, and a query that fails has read them |
| rows | the ids that came out, compared with those that are right |

What is broken keeps its footer, page index and length. Every query has its own session, so that no footer is known from the one
before. Asked for are 27 of the 29 filters for which we need not open all files.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench.filters import ENGINES, FILTERS, NOW, PARTS, TABLE, Filter, rows

RESULTS = Path(__file__).parent / "results"
ASKED = 27
IN_OPEN = 0x20


# ---------------------------------------------------------------- the parts


def make(root: Path) -> None:
    """A lake of twenty parts, and links to them for the others."""
    import tidegate
    from tidegate.clock import ManualClock

    with tidegate.open(root / "lake", clock=ManualClock(_now())) as db:
        db.sql(TABLE)
        seen: set[Path] = set()
        for folder in ("files", "delta"):
            (root / folder).mkdir()
        for part in range(PARTS):
            db.append("t", rows(part), at=part + 1)
            (new,) = {p for p in (root / "lake" / "part").rglob("*") if p.is_file()} - seen
            seen.add(new)
            for folder in ("files", "delta"):
                os.link(new, root / folder / f"{part:02d}.parquet")
    from deltalake import convert_to_deltalake

    convert_to_deltalake(root / "delta")


def _now() -> int:
    return int(NOW.timestamp() * 1000)


@contextmanager
def broken(path: Path) -> Iterator[None]:
    """The file with its data pages overwritten; footer, page index and length stay."""
    metadata = pq.read_metadata(path)
    chunks = [
        metadata.row_group(g).column(c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    ]
    starts = [
        c.data_page_offset if c.dictionary_page_offset is None else c.dictionary_page_offset for c in chunks
    ]
    begin = min(starts)
    end = max(s + c.total_compressed_size for s, c in zip(starts, chunks, strict=True))
    with open(path, "r+b") as file:
        file.seek(begin)
        good = file.read(end - begin)
        file.seek(begin)
        file.write(b"\xff" * (end - begin))
    try:
        yield
    finally:
        with open(path, "r+b") as file:
            file.seek(begin)
            file.write(good)


class Opened:
    """Which files of a folder are opened, as the kernel tells it."""

    def __init__(self, folder: Path) -> None:
        """Watches the folder until the process ends."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK)
        if self._fd < 0 or self._libc.inotify_add_watch(self._fd, os.fsencode(folder), IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def since(self) -> set[str]:
        """The files that were opened since this was last asked."""
        found: set[str] = set()
        while True:
            try:
                events = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(events):
                length = struct.unpack_from("iIII", events, at)[3]
                found.add(events[at + 16 : at + 16 + length].rstrip(b"\0").decode())
                at += 16 + length


# ---------------------------------------------------------------- the engines: ids that pass a filter


def ask_tidegate(root: Path, words: str) -> list[int]:
    """Ours."""
    import tidegate
    from tidegate.clock import ManualClock
    from tidegate.config import Config

    with tidegate.open(root / "lake", clock=ManualClock(_now()), config=Config(audit=0.0)) as db:
        return list(db.sql(f"SELECT id FROM t WHERE {words}").arrow()["id"].to_pylist())


def ask_duckdb(root: Path, words: str) -> list[int]:
    """DuckDB."""
    import duckdb

    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'; SET enable_external_file_cache = false; SET threads = 1")
        found = db.execute(f"SELECT id FROM read_parquet('{root}/files/*.parquet') WHERE {words}").fetchall()
    return [id_ for (id_,) in found]


def ask_polars(root: Path, words: Any) -> list[int]:
    """Polars."""
    import polars as pl

    return list(pl.scan_parquet(root / "files" / "*.parquet").filter(words).select("id").collect()["id"])


def ask_datafusion(root: Path, words: str) -> list[int]:
    """DataFusion."""
    from datafusion import SessionConfig, SessionContext

    config = SessionConfig({"datafusion.execution.time_zone": "+00:00"})
    session = SessionContext(config.with_target_partitions(1))
    session.register_parquet("t", str(root / "files"))
    return [
        i for batch in session.sql(f"SELECT id FROM t WHERE {words}").collect() for i in batch[0].to_pylist()
    ]


def ask_deltalake(root: Path, words: str) -> list[int]:
    """deltalake: files by its log, then DataFusion."""
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    builder = QueryBuilder().register("t", DeltaTable(root / "delta"))
    found = builder.execute(f"SELECT id FROM t WHERE {words}").read_all()
    return list(pa.table(found)["id"].to_pylist())


def ask_pyarrow(root: Path, words: Any) -> list[int]:
    """pyarrow's dataset."""
    import pyarrow.dataset as ds

    return list(ds.dataset(root / "files").to_table(columns=["id"], filter=words)["id"].to_pylist())


ASK: dict[str, Callable[[Path, Any], list[int]]] = {
    "tidegate": ask_tidegate,
    "DuckDB": ask_duckdb,
    "Polars": ask_polars,
    "DataFusion": ask_datafusion,
    "deltalake": ask_deltalake,
    "pyarrow": ask_pyarrow,
}


# ---------------------------------------------------------------- measured in a process of its own


def folder_of(root: Path, engine: str) -> Path:
    """Where an engine finds the parts."""
    match engine:
        case "tidegate":
            return next((root / "lake" / "part").iterdir())
        case "deltalake":
            return root / "delta"
        case _:
            return root / "files"


def measure(root: Path, engine: str) -> list[dict[str, Any] | None]:
    """For each filter: files opened, files read, and the rows; None where the engine cannot say it."""
    ask, folder = ASK[engine], folder_of(root, engine)
    files = sorted(p for p in folder.iterdir() if p.is_file())
    assert len(files) == PARTS
    opened = Opened(folder)
    found = [_one(ask, root, filter_, engine, opened) for filter_ in FILTERS]
    for file in files:
        with broken(file):
            for filter_, told in zip(FILTERS, found, strict=True):
                if told is not None and "failed" not in told:
                    told["read"] += _fails(ask, root, filter_.words(engine))
    return found


def _one(
    ask: Callable[[Path, Any], list[int]], root: Path, filter_: Filter, engine: str, opened: Opened
) -> dict[str, Any] | None:
    if filter_.words(engine) is None:
        return None
    opened.since()
    try:
        got = ask(root, filter_.words(engine))
    except BaseException as error:  # noqa: BLE001  # Rust panics are not Exceptions; all are noted in the table
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    names = {name for name in opened.since() if name and not name.startswith("_")}
    return {"opened": len(names), "read": 0, "ids": sorted(got)}


def _fails(ask: Callable[[Path, Any], list[int]], root: Path, words: Any) -> bool:
    try:
        ask(root, words)
    except BaseException:  # noqa: BLE001  # as above
        return True
    return False


# ---------------------------------------------------------------- the table


def right() -> dict[str, list[int]]:
    """The ids that pass each filter, by plain Python over all rows where it can be told from the id alone."""
    from bench.filters import DAY, LEAST, START

    day = int((DAY - START).total_seconds() // 60)
    after = {f.sql: list(range(LEAST, 40_000)) for f in FILTERS}
    special: dict[str, list[int]] = {
        "list": [17, 39_990],
        "column to column": [i for i in range(40_000) if i > LEAST + i % 5],
        "distance": list(range(LEAST - 10, LEAST + 11)),
        "cast to date": list(range(day, 40_000)),
        "date_trunc": list(range(day, 40_000)),
        "COALESCE": [i for i in range(LEAST, 40_000) if i % 7 != 3],
        "CASE of numbers": list(range(LEAST, 40_000, 2)),
        "number to text": [LEAST],
        "prefix": list(range(38_000, 40_000)),
        "infix": list(range(38_000, 40_000)),
        "substring": list(range(38_000, 40_000)),
    }
    return after | {f.sql: special[f.kind] for f in FILTERS if f.kind in special}


def needed(ids: list[int]) -> int:
    """How many parts hold these rows."""
    return len({i // 2_000 for i in ids})


def run() -> dict[str, Any]:
    """Everything that is in the table."""
    truth = right()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        root = Path(folder)
        make(root)
        told = {}
        for engine in ENGINES:
            print(f"{engine} …", file=sys.stderr)
            command = [sys.executable, "-m", "bench.prune", engine, str(root)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{engine}: {done.stderr}")
            told[engine] = json.loads(done.stdout.splitlines()[-1])
    lines = []
    for i, filter_ in enumerate(FILTERS):
        line: dict[str, Any] = {
            "kind": filter_.kind,
            "sql": filter_.sql,
            "needed": needed(truth[filter_.sql]),
        }
        for engine in ENGINES:
            one = told[engine][i]
            if one is not None and "ids" in one:
                one["right"] = one.pop("ids") == truth[filter_.sql]
            line[engine] = one
        lines.append(line)
    return {"parts": PARTS, "filters": lines}


def cell(one: dict[str, Any] | None) -> str:
    """Files read, and opened, of twenty."""
    if one is None:
        return "cannot say it"
    if "failed" in one:
        return "fails"
    return f"{one['read']} / {one['opened']}" + ("" if one["right"] else " **wrong rows**")


def score(data: dict[str, Any], engine: str, what: str) -> int:
    """For how many filters an engine reads (opens) fewer files than there are, and gives the right rows."""
    told = [line[engine] for line in data["filters"]]
    return sum(
        bool(one) and "failed" not in one and one["right"] and one[what] < data["parts"] for one in told
    )


def markdown(data: dict[str, Any]) -> str:
    """The table."""
    lines = [f"| filter | needed | {' | '.join(ENGINES)} |", "|---|---:|" + "---:|" * len(ENGINES)]
    for line in data["filters"]:
        sql = line["sql"].replace("|", "\\|")
        lines.append(f"| `{sql}` | {line['needed']} | {' | '.join(cell(line[e]) for e in ENGINES)} |")
    for label, what in (
        ("filters that avoid **reading** files", "read"),
        ("filters that avoid **opening** files", "opened"),
    ):
        scores = [f"**{score(data, e, what)}** of {len(FILTERS)}" for e in ENGINES]
        lines.append(f"| {label} | | {' | '.join(scores)} |")
    failed = [
        f"- {e}, `{line['sql']}`: {line[e]['failed']}"
        for line in data["filters"]
        for e in ENGINES
        if line[e] and "failed" in line[e]
    ]
    return "\n".join(
        [*lines, *(["", "What failed, with the engine's own words:", "", *failed] if failed else [])]
    )


def main() -> None:
    """Prints the table, and keeps it in bench/results/prune.md, with a plot of it."""
    from bench import plot

    data = run()
    text = markdown(data)
    print(text)
    plot.keep("prune", data, PREFACE + text)
    mine = score(data, "tidegate", "opened")
    wrong = [line["sql"] for line in data["filters"] if not (line["tidegate"] or {}).get("right")]
    if mine < ASKED or wrong:
        sys.exit(
            f"{mine} of {len(FILTERS)} filters open no needless file, asked are {ASKED}; wrong rows: {wrong}"
        )


PREFACE = """# How many of twenty parts are read

Measured by `make bench-prune`. Each cell shows, of 20 files, how many have rows read / how many are opened at all (reading a
footer counts). "needed" is the number of parts that contain a matching row. Times are timestamptz. "cannot say it" means that
the engine cannot express the filter. "wrong rows" means this: DataFusion (and deltalake, which runs it) compares the difference
of two times with an interval by days first. The difference consists only of nanoseconds, so all rows pass.

"""

if __name__ == "__main__":
    match sys.argv[1:]:
        case [engine_, root_]:
            print(
                json.dumps(
                    measure(Path(root_), engine_),
                    default=lambda v: int(v) if isinstance(v, np.integer) else str(v),
                )
            )
        case _:
            main()
