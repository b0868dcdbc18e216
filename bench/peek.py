"""Ten rows, please: LIMIT 10 on collections of 10 to 100,000 parts, in files and on an S3 server, beside Spark on the same parts.

    make bench-peek                             10, 1,000 and 100,000 parts; a quarter of an hour, more the first time
    python -m bench.peek --parts 10 1000        a few minutes

| question | |
|---|---|
| `SELECT * FROM orders LIMIT 10` | any ten rows |
| `SELECT * FROM orders WHERE kind = 'm' LIMIT 10` | nine parts of ten are proven to hold nothing but 'm' |

Of the first tenth nothing is proven: its parts hold 'a' and 'z', and no row of them matches. Who reads parts in order reads all of
these first.

Ours are measured in a fresh process for each shard and question: the database is opened, five queries warm it up, and p50 is the
median wall time of fifty, each from SQL text to an Arrow table; of three such processes the best counts. The S3 server is SeaweedFS
on this machine, with the same objects.

Spark reads the very same part files with `spark.read.parquet(folder).where(…).limit(10).collect()`, local[2], after warming up on
ten parts. It is also timed with a DataFrame that is made once and used again, so that listing files and reading a schema do not
count ("again"). Where one query does not end within `--timeout` seconds, it is stopped, and said so.

Asked for: p50 within 1.5 times between shards of all sizes, and at least 20 times below Spark's.
A hundred parts of a shard are written; more are the same bytes again, each a file (an object) of its own.
The shards are kept (`--dir`, by default tidegate-peek in the folder for temporary files) until the layout of parts changes.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa

from tidegate.storage.part.part import Part

RESULTS = Path(__file__).parent / "results"
SIZES = (10, 1_000, 100_000)
ROWS = 20
"""Rows of a part: what a LIMIT 10 costs must not depend on them, and 100,000 parts must be written."""
DISTINCT, AT_ONCE = 100, 2_000
"""Parts that are written, and parts that become part of the collection by one entry of its log."""
TABLE = "orders (id int8, at timestamptz, customer int8, kind text, total float8, note text, payload jsonb)"
QUERIES = {
    "LIMIT 10": "SELECT * FROM orders LIMIT 10",
    "WHERE … LIMIT 10": "SELECT * FROM orders WHERE kind = 'm' LIMIT 10",
}
WARM, TIMES, ROUNDS = 5, 50, 3
LOCAL, S3, SPARK, AGAIN = "Tidegate, local files", "Tidegate, S3", "Spark, local files", "Spark, again"
BETWEEN_SIZES, OVER_SPARK = 1.5, 20


# ---------------------------------------------------------------- the shards


def rows(parts: int) -> pa.Table:
    """The rows of so many parts."""
    id_ = np.arange(parts * ROWS)
    kind = np.where(id_ // ROWS < parts // 10, np.where(id_ % 2 == 0, "a", "z"), "m")
    micros = 1_700_000_000_000_000 + id_ * 1_000_000
    return pa.table(
        {
            "id": pa.array(id_),
            "at": pa.array(micros).cast(pa.timestamp("us", "UTC")),
            "customer": pa.array(id_ * 7919 % 100_003),
            "kind": pa.array(kind),
            "total": pa.array(id_ % 977 / 4),
            "note": pa.array([f"order {i:09d}, as wanted" for i in id_]),
            "payload": pa.array([f'{{"items":{i % 9},"ts":{1_700_000_000 + i:010d}}}' for i in id_]),
        }
    )


def made(folder: Path, parts: int, metadata: str) -> Path:
    """The folder of a lake of so many parts, made if it is not there."""
    from tidegate.storage.part import encode as part

    mark = f"{part.PAGE_ROWS} {inspect.getsource(part.layout)} {inspect.getsource(rows)} {inspect.getsource(_make)} {ROWS} {TABLE}"
    root = folder / f"{parts}-{metadata}-{hashlib.sha256(mark.encode()).hexdigest()[:8]}"
    if not (root / "done").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        _make(root, parts, metadata)
        (root / "done").touch()
    return root / "lake"


def _make(root: Path, parts: int, metadata: str) -> None:
    """Up to a hundred parts are written; more are the same files once more, under other names."""
    import tidegate
    from tidegate.config import Config
    from tidegate.storage.part.conform import conform
    from tidegate.storage.part.merge import Block
    from tidegate.storage.shard.shard import INFLATION

    distinct = min(DISTINCT, parts)
    given = rows(distinct)
    size = -(-(given.nbytes + 16 * len(given)) // (INFLATION * distinct))
    with tidegate.open(url_of(root / "lake", metadata), config=Config(part_bytes=size)) as db:
        db.sql(f"CREATE TABLE {TABLE}")
        shard = db.context.table("orders")
        state = shard.machine.fetch()
        columns = conform(state.schema, given)
        once = np.ones(len(given), np.int64)
        seeds = list(shard.write(state, state.schema, Block(columns, once, once)))
        assert len(seeds) == distinct, f"{len(seeds)} parts instead of {distinct}"
        copied = [_copy(root / "lake", seed, i) for seed in seeds for i in range(parts // distinct)]
        for first in range(0, parts, AT_ONCE):
            print(f"{metadata}, part {first:,} of {parts:,}", file=sys.stderr)
            shard.commit(copied[first : first + AT_ONCE], at=None, token=f"from {first}")
        shard.machine.roll(shard.machine.fetch())  # as is done every 128 entries; these were few, and large


def _copy(lake: Path, part: Part, number: int) -> Part:
    """The same part under another name; the first is itself."""
    if number == 0:
        return part
    name = f"{part.name}{number:04d}"
    os.link(lake / part.name, lake / name)
    return replace(part, name=name)


def url_of(lake: Path, metadata: str) -> str:
    """How the lake is opened."""
    return str(lake) if metadata == "sqlite" else f"{lake}?metadata={metadata}"


def upload(lake: Path, options: dict[str, str], prefix: str) -> str:
    """Puts all objects of a lake on the S3 server; the URL of the lake there."""
    from concurrent.futures import ThreadPoolExecutor

    from tidegate.storage.blob.object_store import ObjectBlob

    blob = ObjectBlob.open(f"s3://lake/{prefix}", **options)
    files = [path for path in lake.rglob("*") if path.is_file()]
    begin = time.perf_counter()

    def put(path: Path) -> None:
        blob.put(path.relative_to(lake).as_posix(), path.read_bytes())

    with ThreadPoolExecutor(16) as pool:
        for i, _ in enumerate(pool.map(put, files)):
            if i and i % 20_000 == 0:
                print(
                    f"{i:,} of {len(files):,} objects: {time.perf_counter() - begin:.0f} s", file=sys.stderr
                )
    return f"s3://lake/{prefix}?{urlencode(options)}"


# ---------------------------------------------------------------- measured in a process of its own


def work_tidegate(url: str, query: str) -> dict[str, float]:
    """Opens the lake and asks; seconds of opening, of the first query, and p50."""
    import tidegate
    from tidegate.config import Config

    begin = time.perf_counter()
    db = tidegate.open(url, config=Config(audit=0.0))
    opened = time.perf_counter() - begin
    sql, took = QUERIES[query], []
    for _ in range(WARM + TIMES):
        begin = time.perf_counter()
        got = db.sql(sql).arrow()
        took.append(time.perf_counter() - begin)
        assert got.num_rows == 10
        assert "WHERE" not in query or set(got["kind"].to_pylist()) == {"m"}
    return {"open": opened, "first": took[0], "p50": statistics.median(took[WARM:])}


def work_spark(folder: str, query: str, warm: str, seconds: float) -> dict[str, Any]:
    """The same by Spark: as many queries as half the time allows, by either way."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    )  # fmt: skip
    session.sparkContext.setLogLevel("ERROR")

    def frame(where: str) -> Any:
        found = session.read.parquet(where)
        return found.where("kind = 'm'") if "WHERE" in query else found

    def timed(ask: Callable[[], list[Any]]) -> float | None:
        took: list[float] = []
        end = time.perf_counter() + seconds / 2
        while len(took) < TIMES and time.perf_counter() < end:
            begin = time.perf_counter()
            assert len(ask()) == 10
            took.append(time.perf_counter() - begin)
        return statistics.median(took) if took else None

    for _ in range(WARM):
        frame(warm).limit(10).collect()
    whole = timed(lambda: frame(folder).limit(10).collect())
    print(json.dumps({"p50": whole, "again": None}), flush=True)  # if the rest takes too long
    same = frame(folder)
    same.limit(10).collect()
    return {"p50": whole, "again": timed(lambda: same.limit(10).collect())}


def asked(*words: str, timeout: float | None = None) -> dict[str, Any] | None:
    """What a process of its own tells last; None if it does not within the time."""
    command = [sys.executable, "-m", "bench.peek", "--work", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the group of this process alone, with its JVM
        out, err = process.communicate()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{' '.join(words)}: {err[-3000:]}")
    return json.loads(lines[-1]) if lines else None


# ---------------------------------------------------------------- all of it


def run(folder: Path, sizes: list[int], timeout: float, spark: bool) -> dict[str, Any]:
    """Every shard, question and engine. Ours take turns on all sizes, so that a busy minute of the machine hits them alike."""
    from tests.servers import s3

    lakes = {parts: made(folder, parts, "sqlite") for parts in sizes}
    buckets = {parts: upload(made(folder, parts, "log"), s3(), f"peek{parts}") for parts in sizes}
    lines: list[dict[str, Any]] = []
    for query in QUERIES:
        ours: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for _ in range(ROUNDS):
            for parts in sizes:
                for engine, url in ((LOCAL, url_of(lakes[parts], "sqlite")), (S3, buckets[parts])):
                    told = asked("tidegate", url, query)
                    assert told is not None
                    ours.setdefault((engine, parts), []).append(told)
        for (engine, parts), turns in ours.items():
            lines.append(_line(engine, parts, query, min(turns, key=lambda t: t["p50"]), timeout))
        for parts in sizes if spark else ():
            few = _parts(made(folder, 10, "sqlite"))
            words = ("spark", str(_parts(lakes[parts])), query, str(few), str(timeout))
            told = asked(*words, timeout=60 + 2 * timeout)
            lines.append(_line(SPARK, parts, query, told, timeout))
            lines.append(_line(AGAIN, parts, query, told and {**told, "p50": told["again"]}, timeout))
    return {"rows": ROWS, "lines": lines}


def _line(engine: str, parts: int, query: str, told: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
    p50 = None if told is None else told["p50"]
    shown = f"over {timeout:.0f} s" if p50 is None else f"{p50 * 1e3:.1f} ms"
    print(f"{engine}, {parts:,} parts, {query}: {shown}", file=sys.stderr, flush=True)
    return {"engine": engine, "parts": parts, "query": query, "p50": p50, "timeout": timeout, "told": told}


def _parts(lake: Path) -> Path:
    (folder,) = (lake / "part").iterdir()
    return folder


def found(data: dict[str, Any], engine: str, parts: int, query: str) -> float | None:
    """A p50, if it was measured."""
    key = (engine, parts, query)
    return next((x["p50"] for x in data["lines"] if (x["engine"], x["parts"], x["query"]) == key), None)


def missed(data: dict[str, Any]) -> list[str]:
    """What was asked for and is not met."""
    result = []
    for query in QUERIES:
        for engine in (LOCAL, S3):
            p50s = [x["p50"] for x in data["lines"] if (x["engine"], x["query"]) == (engine, query)]
            if max(p50s) > BETWEEN_SIZES * min(p50s):
                result.append(
                    f"{query}, {engine}: {max(p50s) / min(p50s):.1f}× between sizes, {BETWEEN_SIZES}× asked"
                )
        for parts in sorted({x["parts"] for x in data["lines"]}):
            ours, sparks = found(data, LOCAL, parts, query), found(data, SPARK, parts, query)
            if ours and sparks and sparks < OVER_SPARK * ours:
                result.append(
                    f"{query}, {parts:,} parts: {sparks / ours:.1f}× below Spark, {OVER_SPARK}× asked"
                )
    return result


def markdown(data: dict[str, Any]) -> str:
    """The table."""
    engines = list(dict.fromkeys(x["engine"] for x in data["lines"]))
    lines = [
        f"| question | parts | {' | '.join(f'{e}, ms' for e in engines)} | Spark / ours | Spark again / ours |"
    ]
    lines += ["|---|---:|" + "---:|" * (len(engines) + 2)]
    for query, parts in dict.fromkeys((x["query"], x["parts"]) for x in data["lines"]):
        times = [found(data, engine, parts, query) for engine in engines]
        limit = data["lines"][0]["timeout"]
        shown = [f"{t * 1e3:.1f}" if t else f"over {limit:.0f} s" for t in times]
        ours, *sparks = (found(data, engine, parts, query) for engine in (LOCAL, SPARK, AGAIN))
        ratios = [f"{spark / ours:.0f}×" if ours and spark else "" for spark in sparks]
        lines.append(f"| `{query}` | {parts:,} | {' | '.join(shown)} | {' | '.join(ratios)} |")
    not_met = missed(data)
    return "\n".join(
        [
            *lines,
            "",
            *([f"Not met: {'; '.join(not_met)}."] if not_met else ["All targets are met."]),
        ]
    )


PREFACE = """# Reading ten rows, by the number of parts

Measured by `make bench-peek`: the median time from SQL to Arrow of {times} queries after {warm} warm-up queries, in the best of
{rounds} fresh processes. Parts have {rows} rows. Spark 4.3 in local mode reads the same files; "again" uses an existing
DataFrame.

"""


def main() -> None:
    """Prints the table, and keeps it in bench/results/peek.md, with a plot of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir(), "tidegate-peek"))
    parser.add_argument(
        "--timeout", type=float, default=180.0, help="seconds for Spark's queries of one kind"
    )
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    match given.work:
        case ["tidegate", url, query]:
            print(json.dumps(work_tidegate(url, query)))
        case ["spark", folder, query, warm, seconds]:
            print(json.dumps(work_spark(folder, query, warm, float(seconds))))
        case _:
            data = run(given.dir, given.parts, given.timeout, not given.no_spark)
            text = PREFACE.format(times=TIMES, warm=WARM, rows=ROWS, rounds=ROUNDS) + markdown(data)
            print(text)
            if tuple(given.parts) == SIZES and not given.no_spark:
                from bench import plot

                plot.keep("peek", data, text)
            if missed(data):
                sys.exit("not everything that was asked for is met")


if __name__ == "__main__":
    main()
