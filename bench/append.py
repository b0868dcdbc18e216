"""What collecting statistics costs beside writing the part: CPU time of both in one run, as a ratio.

    make bench-append               # a part of 1,048,576 rows

The part is written by bare `pyarrow.parquet.write_table` with the layout of `storage/part/encode.py` (zstd-1, pages
of 8,192 rows with an index and checksums, dictionaries where values repeat), once with 20 columns and once
with a JSON column of about 300 bytes more. The statistics are all that a writer makes: bounds of each page
and of the part, histograms, distinct estimates, JSON lanes, trimming to 1 KiB, encoding, and the page map.
Allowed are 10 % without JSON and 40 % with it. Both are timed by turns, one thread each, and the best of
several runs counts, as the machine is noisy.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    JSONB,
    TEXT,
    TIMESTAMPTZ,
    UUID,
    Type,
    numeric,
)
from tidegate.expr.primitives.duckdb_kernels import duckdb_connection
from tidegate.expr.primitives.json.exact import canonical_text
from tidegate.storage.part.encode import ROW_GROUP_ROWS, layout, text_bounds
from tidegate.storage.stats.collect import ColumnValues
from tidegate.storage.stats.part_stats import summarise

ROWS = 1_048_576
REPEAT = 7
ALLOWED = {"20 columns": 0.10, "20 columns and JSON": 0.40}
RESULTS = Path(__file__).parent / "results"


def plain_columns(rng: np.random.Generator, n: int) -> list[tuple[str, Type, pa.Array]]:
    """Twenty columns as an event table has them: ids, times, measures, a few categories, some text."""
    ids = [
        ("id", INT8, pa.array(np.arange(n) + 10**9)),
        ("customer", INT8, pa.array(rng.integers(0, 10**6, n))),
    ]
    ids += [("session", UUID, pa.array([rng.bytes(16) for _ in range(n)], pa.binary(16)))]
    begin = 1_700_000_000_000_000 + np.sort(rng.integers(0, 3_600_000_000, n))
    times = [
        (name, TIMESTAMPTZ, pa.array(begin + rng.integers(0, late, n)).cast(TIMESTAMPTZ.arrow))
        for name, late in (("created_at", 1), ("received_at", 10**6), ("updated_at", 10**9))
    ]
    day = [("day", DATE, pa.array((begin // 86_400_000_000).astype(np.int32)).view(pa.date32()))]
    counts = [
        (f"count_{i}", INT4, pa.array(rng.integers(0, 10 ** (2 + i), n).astype(np.int32))) for i in range(3)
    ]
    measures = [(f"measure_{i}", FLOAT8, pa.array(rng.normal(0, 100, n))) for i in range(3)]
    cents = pa.array(rng.integers(0, 10**7, n)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    price = [("price", numeric(12, 2), cents.cast(pa.decimal128(12, 2)))]
    flags = [("paid", BOOL, pa.array(rng.random(n) < 0.5)), ("mobile", BOOL, pa.array(rng.random(n) < 0.1))]
    words = np.array(["click", "view", "buy", "refund", "search"])
    texts = [
        ("kind", TEXT, pa.array(words[rng.integers(0, 5, n)])),
        ("country", TEXT, pa.array([f"c{i:03d}" for i in rng.integers(0, 200, n)])),
        ("name", TEXT, pa.array([f"customer number {i}" for i in rng.integers(0, 10**6, n)])),
        (
            "url",
            TEXT,
            pa.array(
                [f"https://example.com/shop/{i}/item?ref={j}" for i, j in rng.integers(0, 10**6, (n, 2))]
            ),
        ),
    ]
    return [*ids, *times, *day, *counts, *measures, *price, *flags, *texts]


def documents(rng: np.random.Generator, n: int) -> pa.Array:
    """Events of about 300 bytes in canonical form: 12 leaves in three levels, numbers, times, categories and free text."""
    texts = []
    for i in range(n):
        a, b, c, d = (int(v) for v in rng.integers(0, 10**6, 4))
        event = {
            "id": i + 10**9, "ts": 1_700_000_000_000 + i * 7, "ok": a % 7 > 0, "kind": ("click", "view", "buy")[a % 3],
            "user": {"id": b, "geo": {"lat": round(b / 11_111, 4), "lon": round(c / 5_555, 4)}, "name": f"customer number {c}"},
            "agent": f"Mozilla/5.0 (X11; Linux x86_64; rv:{d % 90}.0) Gecko/{d % 1000}", "amount": round(d / 100, 2), "referrer":
            f"https://example.com/shop/{c}/item?ref={d}",
        }  # fmt: skip
        texts.append(canonical_text(json.dumps(event)))
    return pa.array(texts)


def write(columns: list[tuple[str, Type, pa.Array]]) -> Callable[[], pa.BufferOutputStream]:
    """Bare `write_table` with our layout."""
    fields = [
        pa.field(n, a.type, metadata={"PARQUET:field_id": str(i + 1)}) for i, (n, _, a) in enumerate(columns)
    ]
    table = pa.Table.from_arrays([values for _, _, values in columns], schema=pa.schema(fields))
    options = layout(table)

    def work() -> pa.BufferOutputStream:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=ROW_GROUP_ROWS, **options)
        return sink

    return work


def describe(columns: list[ColumnValues], data: bytes) -> int:
    """All statistics of the part that was written as `data`."""
    summary = summarise(columns, len(columns[0].values))
    return len(summary.encoded(lambda: text_bounds(data))) + len(summary.pages)


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main(rows: int) -> None:
    """Prints the table, and keeps it in bench/results/append.md."""
    pa.set_cpu_count(1)
    duckdb_connection().execute("SET threads = 1")
    rng = np.random.default_rng(5)
    plain = plain_columns(rng, rows)
    payload = documents(rng, rows)
    cases = {"20 columns": plain, "20 columns and JSON": [*plain, ("payload", JSONB, payload)]}
    lines = [
        "| part | write, ns a row | statistics, ns a row | ratio | allowed |",
        "|---|---:|---:|---:|---:|",
    ]
    good = True
    for name, columns in cases.items():
        bare, given = write(columns), [ColumnValues(i, *column) for i, column in enumerate(columns)]
        data = bytes(bare().getvalue())
        both = [(timed(bare), timed(lambda g=given, d=data: describe(g, d))) for _ in range(REPEAT)]
        wrote, told = (min(pair[i] for pair in both) / rows * 1e9 for i in (0, 1))
        good &= told / wrote <= ALLOWED[name]
        lines.append(f"| {name} | {wrote:.0f} | {told:.0f} | {told / wrote:.1%} | {ALLOWED[name]:.0%} |")
        print(lines[-1], file=sys.stderr)
    mean = sum(map(len, payload.to_pylist())) / rows
    text = "\n".join([*lines, "", f"The part has {rows:,} rows; the JSON has {mean:.0f} bytes per row."])
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "append.md").write_text(
        f"# The cost of collecting statistics while writing\n\nMeasured by `make bench-append`, in CPU time.\n\n{text}\n"
    )
    if not good:
        sys.exit("statistics cost more than they may")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
