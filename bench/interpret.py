"""How fast a filter is interpreted over the statistics of many parts, beside deltalake's planning over as many files.

    make bench-interpret            # 10,000, 100,000 and 1,000,000 parts

Ours is given the filter as a user writes it: temporal, a JSON path with a cast, and an IN list. deltalake cannot prune by any
of the three as they stand (its predicates compare columns with constants), so it is given the same question with the
arithmetic done by hand: `created_at >= …`, and a plain column in place of the JSON path. Both keep the same parts, which is
checked. Both have their statistics in memory; CPU time of this process, best of several, as the machine is noisy.

The second table interprets 1, 10 and 100 ORed conditions over 100,000 parts: the cost must grow no faster than their number.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.json_domain import JsonDomain, JsonRange
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.model.types import INT8, JSONB, NUMERIC, TIMESTAMPTZ
from tidegate.sql.bind.query import bind_expression

START = 1_700_000_000
"""Seconds since 1970 at which the first part begins; each part holds one minute."""
COLUMNS = [("created_at", TIMESTAMPTZ), ("payload", JSONB), ("customer", INT8)]
CUSTOMERS = ", ".join(str(17 + 991 * i) for i in range(100))
RESULTS = Path(__file__).parent / "results"


def columns_of(parts: int) -> list[Specs]:
    """Statistics of so many parts: time and payload->'ts' rise from part to part, customers wander."""
    minute = np.arange(parts)
    begin = (START + minute * 60) * 1_000_000
    created = Specs.ranged(
        TIMESTAMPTZ, *(pa.array(begin + shift).cast(TIMESTAMPTZ.arrow) for shift in (0, 59_000_000))
    )
    numbers = [
        pa.array(minute * 60 + shift).cast(pa.decimal128(38, 0)).cast(NUMERIC.arrow) for shift in (0, 59)
    ]
    stamp = Specs.ranged(JSONB, None, None, json=JsonDomain(number=JsonRange(YES, *numbers, whole=YES)))
    payload = Specs.ranged(JSONB, None, None, json=JsonDomain(map=YES, keys={"ts": stamp}, closed=NO))
    wander = minute * 7 % 100_000
    customer = Specs.ranged(INT8, pa.array(wander), pa.array(wander + 50))
    return [created, payload, customer]


def question(parts: int) -> tuple[str, int, int]:
    """The filter, the time it is asked at in ms, and the least `ts`: the last tenth of the history matters."""
    now = (START + (parts - parts // 10) * 60 + 30 * 86_400) * 1000
    least = (parts - parts // 20) * 60
    sql = f"mz_now() <= created_at + '30 days' AND (payload->>'ts')::numeric > {least} AND customer IN ({CUSTOMERS})"
    return sql, now, least


def cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """The least CPU time of several runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def ours(parts: int) -> tuple[float, int]:
    """Seconds to interpret the filter over all parts, and the parts kept."""
    columns, (sql, now, _) = columns_of(parts), question(parts)
    condition = bind_expression(sql, COLUMNS)
    kept = int((Interpretation(columns, (now, now)).of(condition).verdict() > 0).sum())
    return cpu_seconds(lambda: Interpretation(columns, (now, now)).of(condition).verdict(), 7), kept


def delta_log(root: Path, parts: int) -> None:
    """A Delta table of so many files that are not there, with the same statistics, as one checkpoint."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    protocol_type = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    add, meta = _added(parts), _metadata()
    rows = [
        pa.table(
            {"add": pa.nulls(1, add.type), "protocol": pa.array([protocol], protocol_type), "metaData": meta}
        ),
        pa.table(
            {"add": add, "protocol": pa.nulls(parts, protocol_type), "metaData": pa.nulls(parts, meta.type)}
        ),
    ]
    log = root / "_delta_log"
    log.mkdir(parents=True)
    pq.write_table(pa.concat_tables(rows), log / f"{0:020d}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": parts + 1}))
    (log / f"{0:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")


def _added(parts: int) -> pa.Array:
    """One `add` action a file, with its statistics."""
    minute = np.arange(parts)
    times = [
        np.datetime_as_string(((START + minute * 60 + s) * 1000).astype("datetime64[ms]")) for s in (0, 59)
    ]
    stats = [
        f'{{"numRecords":1000,"minValues":{{"created_at":"{low}Z","ts":{60 * i},"customer":{7 * i % 100_000}}},'
        f'"maxValues":{{"created_at":"{high}Z","ts":{60 * i + 59},"customer":{7 * i % 100_000 + 50}}},'
        f'"nullCount":{{"created_at":0,"ts":0,"customer":0}}}}'
        for i, (low, high) in enumerate(zip(*times, strict=True))
    ]
    columns = {
        "path": pa.array([f"{i:08d}.parquet" for i in range(parts)]),
        "partitionValues": pa.array([[]] * parts, pa.map_(pa.string(), pa.string())),
        "size": pa.repeat(1_000_000, parts),
        "modificationTime": pa.repeat(START * 1000, parts),
        "dataChange": pa.repeat(pa.scalar(True), parts),
        "stats": pa.array(stats),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _metadata() -> pa.Array:
    """The table's schema, as Delta keeps it."""
    names = (("created_at", "timestamp"), ("ts", "long"), ("customer", "long"))
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in names]
    meta = {
        "id": "00000000-0000-0000-0000-000000000000",
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": [],
        "createdTime": START * 1000,
    }
    options = pa.map_(pa.string(), pa.string())
    types = {
        "id": pa.string(),
        "format": pa.struct([("provider", pa.string()), ("options", options)]),
        "schemaString": pa.string(),
        "partitionColumns": pa.list_(pa.string()),
        "configuration": options,
        "createdTime": pa.int64(),
    }
    return pa.array([meta], pa.struct(list(types.items())))


def deltas(parts: int) -> tuple[float, int]:
    """Seconds for deltalake to list the files that the same question keeps, and their number."""
    from deltalake import DeltaTable

    _, now, least = question(parts)
    root = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        delta_log(root, parts)
        table = DeltaTable(str(root))
        oldest = np.datetime_as_string(np.datetime64(now, "ms") - np.timedelta64(30, "D"))
        predicate = f"created_at >= '{oldest}Z' AND ts > {least} AND customer IN ({CUSTOMERS})"
        kept = len(table.file_uris(file_pruning_predicate=predicate))
        return cpu_seconds(lambda: table.file_uris(file_pruning_predicate=predicate), 3), kept
    finally:
        shutil.rmtree(root)


def either(conditions: int) -> float:
    """Seconds to interpret so many ORed conditions over 100,000 parts."""
    columns = columns_of(100_000)
    sql = " OR ".join(
        f"(payload->>'ts')::numeric BETWEEN {i * 999} AND {i * 999 + 5}" for i in range(conditions)
    )
    condition = bind_expression(sql, COLUMNS)
    return cpu_seconds(lambda: Interpretation(columns).of(condition).verdict(), 5)


def main(sizes: list[int]) -> None:
    """Prints the tables, and keeps them in bench/results/interpret.md."""
    lines = ["| parts | kept | tidegate, ms | deltalake, ms | ratio |", "|---:|---:|---:|---:|---:|"]
    for parts in sizes:
        (mine, kept), (theirs, kept_by_delta) = ours(parts), deltas(parts)
        if kept != kept_by_delta:
            sys.exit(f"{parts} parts: we keep {kept}, deltalake {kept_by_delta}: not the same question")
        lines.append(
            f"| {parts:,} | {kept:,} | {mine * 1e3:.1f} | {theirs * 1e3:.1f} | {theirs / mine:.1f}× |"
        )
        print(lines[-1], file=sys.stderr)
    lines += ["", "| ORed conditions, 100,000 parts | ms | relative to one |", "|---:|---:|---:|"]
    one = either(1)
    for conditions in (1, 10, 100):
        took = either(conditions)
        lines.append(f"| {conditions} | {took * 1e3:.1f} | {took / one:.1f}× |")
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "interpret.md").write_text(
        "# Interpreting a filter over the statistics of many parts\n\nMeasured by `make bench-interpret`, in CPU time.\n\n"
        + "\n".join(lines) + "\n"
    )  # fmt: skip


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
