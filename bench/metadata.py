"""What a shard of a million parts costs before a single part is read, beside deltalake with as many files.

    make bench-metadata             # 1,000,000 parts, metadata alone: no part is ever written

| step | ours | deltalake |
|---|---|---|
| open | the newest rollup and the log behind it, from SQLite and files | `DeltaTable(path)`, from one checkpoint |
| append | one part: an entry in the log | one add action: an entry in the log |
| prune | `mz_now() <= created_at + '30 days'` and a JSON path, as the user writes them | the same question on plain columns |

Each side runs in a process of its own, so that memory can be told: the growth of its resident peak by opening and pruning.
Appending is also done in a shard of 1,000 parts: it must cost the same. Asked for are opening at least 5× faster, and less
than half the memory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.interpret import START, delta_log
from tidegate.expr.model.types import INT8, JSONB, TIMESTAMPTZ
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.consensus.sql import SqliteConsensus
from tidegate.storage.part.part import Part
from tidegate.storage.part.parts_table import PARTS_SCHEMA
from tidegate.storage.shard.changes import Append, Create
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.parts import Parts, Segment
from tidegate.storage.shard.state import FORMAT
from tidegate.storage.stats import Form, Frame, fact_name
from tidegate.storage.stats import encode as codec
from tidegate.storage.stats.columns import WHOLE_BIT
from tidegate.storage.stats.json.model import MAP, NUMBER, JsonStats
from tidegate.storage.stats.model import ColumnStats

COLUMNS = [("created_at", TIMESTAMPTZ), ("payload", JSONB), ("customer", INT8)]
TIERS = (0.8, 0.16, 0.032, 0.008)
"""Shares of the parts in segments, as rollups leave them."""
ONE = 10**18
RESULTS = Path(__file__).parent / "results"


def hexadecimal(rng: np.random.Generator, n: int, digits: int, prefix: str = "") -> pa.Array:
    """n random names."""
    raw = np.frombuffer(rng.bytes(n * digits // 2).hex().encode(), np.uint8).reshape(n, digits)
    head = np.tile(np.frombuffer(prefix.encode(), np.uint8), (n, 1))
    data = np.ascontiguousarray(np.concatenate([head, raw], axis=1))
    offsets = np.arange(n + 1, dtype=np.int32) * data.shape[1]
    return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def segment(rng: np.random.Generator, first: int, n: int) -> Segment:
    """Parts `first` and on: each holds a minute of events."""
    minute = np.arange(first, first + n)
    at = (START + minute * 60) * 1000
    fixed = {
        "rows": 1000,
        "size": 10**6,
        "diffs": 1000,
        "retracts": False,
        "schema": 0,
        "level": 0,
        "tail": 0,
        "tail_digest": "",
        "stats": b"",
    }
    columns: dict[str, pa.Array] = {
        name: pa.repeat(pa.scalar(value, PARTS_SCHEMA.field(name).type), n) for name, value in fixed.items()
    }
    columns |= {
        "id": pa.array(minute),
        "first": pa.array(at),
        "last": pa.array(at + 59_999),
        "written": pa.array(at),
    }
    columns |= {"name": hexadecimal(rng, n, 24, "part/s1/"), "digest": hexadecimal(rng, n, 32)}
    columns |= {
        "expires": pa.nulls(n, pa.int64()),
        "order": pa.array([[]] * n, PARTS_SCHEMA.field("order").type),
    }
    table = pa.table({name: columns[name] for name in PARTS_SCHEMA.names}, schema=PARTS_SCHEMA)
    return Segment("", table, known=Frame(np.full(n, 1000), facts(minute)))


def facts(minute: np.ndarray) -> dict[str, pa.Array]:
    """The statistics of parts: times and payload.ts rise, customers wander."""
    n, zero = len(minute), pa.repeat(pa.scalar(0, pa.int64()), len(minute))
    begin, wander = (START + minute * 60) * 1_000_000, minute * 7 % 100_000
    lanes = {(1,): 1 << MAP, (1, "ts"): 1 << NUMBER | 1 << WHOLE_BIT}
    result = {fact_name("nulls", node): zero for node in ((0,), (1,), (1, "ts"), (2,))}
    result |= {
        fact_name("lanes", node): pa.repeat(pa.scalar(bits, pa.uint16()), n) for node, bits in lanes.items()
    }
    for side, time_, number in (("low", 0, 0), ("high", 59_000_000, 59)):
        result[fact_name(side, (0,))] = pa.array(begin + time_)
        result[fact_name(f"number_{side}", (1, "ts"))] = unscaled(minute * 60 + number)
        result[fact_name(side, (2,))] = pa.array(wander + (50 if number else 0))
    return result


def unscaled(numbers: np.ndarray) -> pa.Array:
    """Integers as unscaled numeric(38, 18)."""
    scaled = pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 18))
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(scaled), scaled.buffers())


def machine(root: Path) -> Machine:
    """The shard under a folder."""
    return Machine(SqliteConsensus(root / "log.sqlite"), FileBlob(root / "blobs"), "shard/s1")


def make(root: Path, parts: int) -> None:
    """A shard of so many parts, as if they had been appended and rolled up."""
    shard = machine(root)
    state = shard.create(Create(FORMAT, "s1", {"id": 0, "columns": []}, {}))
    rng, first, segments = np.random.default_rng(3), 0, []
    for share in TIERS:
        many = parts - first if share == TIERS[-1] else int(parts * share)
        segments.append(segment(rng, first, many))
        first += many
    all_ = Parts(tuple(segments), (), parts, parts * 1000, parts * 10**6)
    shard.roll(replace(state, parts=all_, next_id=parts, upper=(START + parts * 60) * 1000))


def new_part(at: int, minute: int) -> Part:
    """One more part, with encoded statistics."""
    begin = (START + minute * 60) * 1_000_000
    ts = JsonStats((0, 0, 0, 1000, 0, 0, 0), minute * 60 * ONE, (minute * 60 + 59) * ONE, whole=True)
    stats = {
        0: ColumnStats(Form.INTEGER, 1000, 0, begin, begin + 59_000_000, distinct=990),
        1: ColumnStats(Form.JSON, 1000, 0, json=JsonStats((0, 0, 0, 0, 0, 0, 1000), keys={"ts": ts})),
        2: ColumnStats(Form.INTEGER, 1000, 0, 5, 55, distinct=50),
    }
    encoded = codec.encode(stats)
    return Part(f"part/s1/{minute}", 1000, 10**6, 1000, False, at, at, 0, "0" * 32, at, stats=encoded)


# ---------------------------------------------------------------- measured in a process of its own


def peak() -> float:
    """The resident peak of this process, in MB. Not `ru_maxrss`, which a child inherits from its parent."""
    return _status("VmHWM")


def resident() -> float:
    """The memory that this process has now, in MB."""
    return _status("VmRSS")


def _status(key: str) -> float:
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(found.split()[1]) / 1024


def ours(root: Path, parts: int) -> dict[str, float]:
    """Opening, appending and pruning."""
    from bench.interpret import question
    from tidegate.expr.domain.interpret import Interpretation
    from tidegate.sql.bind.query import bind_expression

    sql, now, _ = question(parts)
    condition = bind_expression(sql, COLUMNS)
    base, start = resident(), time.perf_counter()
    shard = machine(root)
    state = shard.fetch()
    opened = time.perf_counter() - start
    assert state.parts.count == parts

    def prune() -> int:
        places, parts = [], shard.fetch().parts
        for frame in parts.frames():
            kept = [np.zeros(0, np.int64)]
            for begin, block in frame.blocks():
                specs: list[Any] = list(block.specs([(i, type_) for i, (_, type_) in enumerate(COLUMNS)]))
                verdict = Interpretation(specs, (now, now)).of(condition).verdict()
                kept.append(begin + np.flatnonzero(np.broadcast_to(verdict, len(block)) > 0))
            places.append(np.concatenate(kept))
        return parts.pick(places).num_rows

    first, kept = timed(prune)
    again, _ = timed(prune)
    memory = peak() - base
    appends = []
    for i in range(40):
        made = new_part(shard.fetch().upper, parts + i)
        appends.append(
            timed(lambda p=made: shard.update(lambda s: Append(s.upper, s.upper + 1, (p,), p.name)))[0]
        )
    appends.sort()
    found = {"open": opened, "prune": first, "again": again, "memory": memory, "kept": kept}
    return found | {"append": appends[len(appends) // 2]}


def theirs(root: Path, parts: int) -> dict[str, float]:
    """The same by deltalake."""
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction

    from bench.interpret import CUSTOMERS, question

    _, now, least = question(parts)
    oldest = np.datetime_as_string(np.datetime64(now, "ms") - np.timedelta64(30, "D"))
    predicate = f"created_at >= '{oldest}Z' AND ts > {least} AND customer IN ({CUSTOMERS})"
    base, start = resident(), time.perf_counter()
    table = DeltaTable(str(root))
    opened = time.perf_counter() - start
    first, uris = timed(lambda: table.file_uris(file_pruning_predicate=predicate))
    again, _ = timed(lambda: table.file_uris(file_pruning_predicate=predicate))
    memory = peak() - base
    stats = '{"numRecords":1000}'
    appends = []
    for i in range(5):
        action = AddAction(f"new{i}.parquet", 10**6, {}, START * 1000, True, stats)
        schema: Schema = table.schema()
        appends.append(timed(lambda a=action, s=schema: table.create_write_transaction([a], "append", s))[0])
    appends.sort()
    found = {"open": opened, "prune": first, "again": again, "memory": memory, "kept": len(uris)}
    return found | {"append": appends[len(appends) // 2]}


def timed(work: Any) -> tuple[float, Any]:
    """Seconds, and what it gave."""
    start = time.perf_counter()
    got = work()
    return time.perf_counter() - start, got


def measured(side: str, root: Path, parts: int) -> dict[str, float]:
    """One side in a process of its own, three times; the best of each."""
    runs = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as copy:
            there = shutil.copytree(root, Path(copy) / "copy")
            command = [sys.executable, "-m", "bench.metadata", side, str(there), str(parts)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            runs.append(json.loads(done.stdout))
    return {key: min(run[key] for run in runs) for key in runs[0]}


def main(parts: int) -> None:
    """Prints the table, and keeps it in bench/results/metadata.md."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        root = Path(folder)
        for name, many in (("many", parts), ("few", 1000)):
            (root / name).mkdir()
            make(root / name, many)
        delta_log(root / "delta", parts)
        mine, few = measured("ours", root / "many", parts), measured("ours", root / "few", 1000)
        other = measured("theirs", root / "delta", parts)
    if mine["kept"] != other["kept"]:
        sys.exit(f"we keep {mine['kept']} parts, deltalake {other['kept']}: not the same question")
    lines = [f"| {parts:,} parts | tidegate | deltalake | ratio |", "|---|---:|---:|---:|"]
    for label, key, unit in (
        ("open", "open", "s"), ("prune, first", "prune", "s"), ("prune, again", "again", "s"), ("append one", "append", "s"),
        ("memory", "memory", "MB"),
    ):  # fmt: skip
        a, b = mine[key], other[key]
        digits = 0 if unit == "MB" else 3
        lines.append(f"| {label}, {unit} | {a:.{digits}f} | {b:.{digits}f} | {b / a:.1f}× |")
    lines += [
        "",
        f"Appending one part to a shard of 1,000 takes {few['append']:.3f} s. Both keep {mine['kept']:,} parts.",
    ]
    text = "\n".join(lines)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "metadata.md").write_text(
        f"# A million parts\n\nMeasured by `make bench-metadata`; each figure is the best of three.\n\n{text}\n"
    )
    if other["open"] < 5 * mine["open"] or other["memory"] < 2 * mine["memory"]:
        sys.exit("opening is less than 5× faster, or takes more than half the memory")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ours", root_, parts_]:
            print(json.dumps(ours(Path(root_), int(parts_))))
        case ["theirs", root_, parts_]:
            print(json.dumps(theirs(Path(root_), int(parts_))))
        case [parts_]:
            main(int(parts_))
        case _:
            main(1_000_000)
