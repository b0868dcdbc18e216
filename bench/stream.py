"""What it costs to take a large result out: the most memory of the process that does it, and its time.

    make bench-stream               # 800 MB of Arrow; MEGABYTES=200 for less

Two collections of the same rows (id, a small number, a text of 200 random letters): one that was only appended to, and one of which
rows were deleted and updated since. Each line is a process of its own; `beyond` is its peak less what the same program has after a
small query. DuckDB and pyarrow read the first collection's parts as plain Parquet files. A client of psql's port and of the web
reads as fast as it can; the memory is the server's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import tidegate
from tests.large import grow, measured

RESULTS = Path(__file__).parent / "results" / "stream.json"
SMALL = "SELECT id, body FROM t LIMIT 10"
QUERIES = {
    "appended": "SELECT * FROM t",
    "changed": "SELECT * FROM u",
    "changed, filtered": "SELECT * FROM u WHERE grp >= 0",
}
API = """
import sys, tidegate
db = tidegate.open(sys.argv[1])
{}
"""
BATCHES = "rows = sum(batch.num_rows for batch in db.sql(sys.argv[2]).batches())"
ARROW = "rows = db.sql(sys.argv[2] + ' OPTIONS (max_result_bytes = 8000000000)').arrow().num_rows"
PYARROW = """
import sys, pyarrow.dataset as ds, pyarrow.csv as csv, pyarrow.parquet as pq
found = ds.dataset(sys.argv[1].split(","), format="parquet").scanner(columns=["id", "grp", "body"])
if sys.argv[2] == "csv":
    with csv.CSVWriter(sys.argv[3], found.projected_schema) as out:
        for batch in found.to_batches(): out.write_batch(batch)
else:
    with pq.ParquetWriter(sys.argv[3], found.projected_schema, compression="zstd") as out:
        for batch in found.to_batches(): out.write_batch(batch)
"""
DUCKDB = """
import sys, duckdb
files = sys.argv[1].split(",")
duckdb.sql(f"COPY (SELECT id, grp, body FROM read_parquet({files})) TO '{sys.argv[3]}' (FORMAT {sys.argv[2]})")
"""
PSQL = """
import sys, psycopg
with psycopg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="u", dbname="lake") as pg, pg.cursor("c") as cursor:
    cursor.itersize = 10000
    cursor.execute(sys.argv[2])
    for row in cursor: pass
"""
WEB = """
import sys, http.client
from urllib.parse import urlencode
asking = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=600)
fields = {"Content-Type": "application/x-www-form-urlencoded"}
asking.request("POST", "/download?format=csv", urlencode({"sql": sys.argv[2]}), fields)
answer = asking.getresponse()
while answer.read(1 << 20): pass
"""


def ran(words: list[str]) -> tuple[float, float]:
    """The peak of a process in MB, and its seconds."""
    began = time.perf_counter()
    code, peak = measured(words)
    if code:
        raise SystemExit(f"failed: {words}")
    return peak / 1e6, time.perf_counter() - began


def python(code: str, *arguments: str) -> list[str]:
    """A process that runs this."""
    return [sys.executable, "-c", code, *arguments]


def sql(lake: str, *arguments: str) -> list[str]:
    """`tidegate sql`."""
    return [sys.executable, "-m", "tidegate.cli", "sql", "--lake", lake, *arguments]


def served(lake: str, client: Callable[[int, int], list[str]]) -> tuple[float, float, float]:
    """The peak of a server in MB, what it had before, and the seconds of its client."""
    words = [sys.executable, "-m", "tidegate.cli", "serve", "--lake", lake, "--port", "0", "--pg", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        told = ""
        while "Ctrl-C" not in told:
            told += server.stdout.readline()
        web, pg = (int(port) for port in re.findall(r"(?:pages\s+\S+:|-p )(\d+)", told))
        subprocess.run(python(PSQL, str(pg), SMALL), check=True)
        status = Path(f"/proc/{server.pid}/status")
        before = int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0])
        _, seconds = ran(client(web, pg))
        peak = int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0])
        server.terminate()
    return peak * 1024 / 1e6, before * 1024 / 1e6, seconds


Line: TypeAlias = "tuple[str, float, float, float]"
"""What was done; the peak in MB, that beyond the peak of a small query, and seconds."""


def lake_of(folder: Path, megabytes: int) -> tuple[str, str]:
    """Makes both collections; where they are, and the files of the first."""
    lake = str(folder / "lake")
    with tidegate.open(lake) as db:
        rows = grow(db, "t", megabytes, max(4, megabytes // 40))
        parts = ",".join(str(path) for path in folder.rglob("part/**/*") if path.is_file())
        grow(db, "u", megabytes, max(4, megabytes // 40))
        db.sql("DELETE FROM u WHERE id % 50 = 0")
        db.sql("UPDATE u SET grp = grp + 100 WHERE id % 50 = 1")
    print(f"{rows:,} rows, {megabytes} MB of Arrow, two collections\n")
    return lake, parts


def lines_of(folder: Path, lake: str, parts: str) -> Iterator[Line]:
    """Every door, and others."""
    out = str(folder / "out")
    api, _ = ran(python(API.format(BATCHES), lake, SMALL))
    cli, _ = ran(sql(lake, SMALL, "--format", "csv"))
    for name, query in QUERIES.items():
        peak, seconds = ran(python(API.format(BATCHES), lake, query))
        yield f"r.batches(), {name}", peak, peak - api, seconds
        for form in ("csv", "json", "parquet"):
            peak, seconds = ran(sql(lake, query, "--format", form, "-o", out))
            yield f"tidegate sql --format {form}, {name}", peak, peak - cli, seconds
    peak, seconds = ran(python(API.format(ARROW), lake, QUERIES["appended"]))
    yield "r.arrow(), which holds all", peak, peak - api, seconds
    for name, client in (
        ("psql's port, a cursor", lambda web, pg: python(PSQL, str(pg), QUERIES["appended"])),
        ("the web, a csv", lambda web, pg: python(WEB, str(web), QUERIES["appended"])),
    ):
        peak, base, seconds = served(lake, client)
        yield name, peak, peak - base, seconds
    for engine, code in (("pyarrow", PYARROW), ("DuckDB", DUCKDB)):
        base, _ = ran(python(f"import {engine.lower()}"))
        for form in ("csv", "parquet"):
            peak, seconds = ran(python(code, parts, form, out))
            yield f"{engine}, parts as files to {form}", peak, peak - base, seconds


def main() -> None:
    """Prints a table, and keeps it."""
    megabytes = int(os.environ.get("MEGABYTES", "800"))
    folder = Path(tempfile.mkdtemp(prefix="bench-stream"))
    lines = []
    try:
        lake, parts = lake_of(folder, megabytes)
        print(f"{'':<44}{'peak MB':>8}{'beyond':>9}{'s':>8}")
        for name, peak, beyond, seconds in lines_of(folder, lake, parts):
            print(f"{name:<44}{peak:>8.0f}{beyond:>9.0f}{seconds:>8.1f}", flush=True)
            one = {
                "what": name,
                "peak_mb": round(peak),
                "beyond_mb": round(beyond),
                "seconds": round(seconds, 1),
            }
            lines.append(one)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    RESULTS.write_text(json.dumps({"megabytes": megabytes, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
