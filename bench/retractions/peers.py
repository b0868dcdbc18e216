"""The peers of `bench.retractions`: Delta with deletion vectors, and DuckDB's own tables.

| peer | how it is changed | "compacted" |
|---|---|---|
| Delta | a deletion vector for each file with changed rows, and a new file with the updated ones | `optimize.compact()` |
| DuckDB | UPDATE and DELETE | `CHECKPOINT` |

Delta is read by the package `deltalake`, which answers SQL by DataFusion. It reads deletion vectors but cannot write them, so they
are written here, as Delta's protocol says and Spark does it (one file of roaring bitmaps). Delta on Spark is not among the peers:
there is no build of delta-spark for Spark 4.3, and 4.4.0, which is for 4.2, fails there.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.retractions.rows import Change, Expected, Ids, Question, Variant, rows_of, stream_totals

DELTA, DUCKDB = "Delta (deltalake)", "DuckDB"
NO_DELTA_ON_SPARK = "Delta on Spark is not measured: there is no build of delta-spark for Spark 4.3."
ARRAY_MOST = 4096
"""Values that a container of a roaring bitmap lists; with more it is 65,536 bits."""


def peers(folder: Path, parts: int, changes: Sequence[Change]) -> Iterator[tuple[str, list[Variant]]]:
    """Each peer with its tables; those that are not installed say so."""
    for name, make in ((DELTA, delta_variants), (DUCKDB, duckdb_variants)):
        try:
            made = make(folder, parts, changes)
        except ImportError as error:
            print(f"{name} is not measured: {error}", flush=True)
        else:
            yield name, made


def both_states(
    change: Change, plain: Callable[[Question], pa.Table], compacted: Callable[[Question], pa.Table]
) -> list[Variant]:
    """A changed table before and after compaction."""
    expected = Expected(change)
    return [
        Variant(change.label, compacted=False, ask=plain, expected=expected),
        Variant(change.label, compacted=True, ask=compacted, expected=expected),
    ]


# ---------------------------------------------------------------- DuckDB


def duckdb_variants(folder: Path, parts: int, changes: Sequence[Change]) -> list[Variant]:
    """The rows in a file of DuckDB for each change, before and after CHECKPOINT."""
    rows = len(changes[0].deleted)
    base = folder / "base.duckdb"
    with _duckdb(base) as connection:
        connection.register("given", rows_of(np.arange(rows)))
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    found = []
    for number, change in enumerate(changes):
        asked = []
        for state in ("plain", "compacted"):
            path = folder / f"{number}-{state}.duckdb"
            shutil.copy(base, path)
            connection = _duckdb(path)
            for sql in change.statements:
                connection.execute(sql)
            if state == "compacted":
                connection.execute("CHECKPOINT")
            asked.append(_ask_duckdb(connection))
        found += both_states(change, *asked)
    return found


def _duckdb(path: Path) -> Any:
    import duckdb

    connection = duckdb.connect(str(path))
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET checkpoint_threshold = '1TB'")  # not before CHECKPOINT is said
    return connection


def _ask_duckdb(connection: Any) -> Callable[[Question], pa.Table]:
    def ask(question: Question) -> pa.Table:
        reader = connection.sql(question.sql).to_arrow_reader(65_536)
        return stream_totals(reader) if question.is_scan else reader.read_all()

    return ask


# ---------------------------------------------------------------- Delta


def delta_variants(folder: Path, parts: int, changes: Sequence[Change]) -> list[Variant]:
    """The rows in a Delta table for each change, before and after `optimize.compact()`."""
    from deltalake import DeltaTable, convert_to_deltalake

    rows = len(changes[0].deleted)
    step = -(-rows // parts)
    base = folder / "delta-base"
    base.mkdir()
    for first in range(0, rows, step):
        ids = np.arange(first, min(first + step, rows))
        pq.write_table(rows_of(ids), base / f"{first:012d}.parquet", compression="zstd")
    convert_to_deltalake(base, configuration={"delta.enableDeletionVectors": "true"})
    found = []
    for number, change in enumerate(changes):
        asked = []
        for state in ("plain", "compacted"):
            root = folder / f"delta-{number}-{state}"
            shutil.copytree(base, root, copy_function=_link)
            change_delta(root, change)
            if state == "compacted":
                DeltaTable(root).optimize.compact()
            asked.append(_ask_delta(root))
        found += both_states(change, *asked)
    return found


def _link(source: str, target: str) -> None:
    os.link(source, target)


def _ask_delta(root: Path) -> Callable[[Question], pa.Table]:
    from deltalake import DeltaTable, QueryBuilder

    builder = QueryBuilder().register("t", DeltaTable(root))

    def ask(question: Question) -> pa.Table:
        reader = pa.RecordBatchReader.from_stream(builder.execute(question.sql))
        return stream_totals(reader) if question.is_scan else reader.read_all()

    return ask


def change_delta(root: Path, change: Change) -> None:
    """Marks updated and deleted rows in deletion vectors, and appends the updated ones."""
    from deltalake import DeltaTable, write_deltalake

    gone = np.flatnonzero(change.updated | change.deleted)
    if len(gone):
        _commit_vectors(root, DeltaTable(root), gone)
    if change.updated.any():
        ids = np.flatnonzero(change.updated)
        write_deltalake(root, rows_of(ids, np.ones(len(ids), bool)), mode="append")


def _commit_vectors(root: Path, table: Any, gone: Ids) -> None:
    """One entry of the log that gives each file with rows of `gone` a deletion vector."""
    now, file = int(time.time() * 1000), root / "deletion_vectors.bin"
    blob, actions = bytearray(b"\x01"), []
    for added in _added(root):
        first, count = int(Path(added["path"]).stem), json.loads(added["stats"])["numRecords"]
        inside = gone[(gone >= first) & (gone < first + count)] - first
        if not len(inside):
            continue
        data = roaring_array(inside)
        vector = {
            "storageType": "p", "pathOrInlineDv": file.as_uri(), "offset": len(blob), "sizeInBytes": len(data),
            "cardinality": len(inside),
        }  # fmt: skip
        blob += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        stats = json.dumps({**json.loads(added["stats"]), "tightBounds": False})
        removed = {"path": added["path"], "deletionTimestamp": now, "dataChange": True}
        actions += [{"remove": removed}, {"add": {**added, "stats": stats, "deletionVector": vector}}]
    actions.append({"commitInfo": {"timestamp": now, "operation": "DELETE"}})
    file.write_bytes(blob)
    entry = root / "_delta_log" / f"{table.version() + 1:020d}.json"
    entry.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _added(root: Path) -> list[dict[str, Any]]:
    """The files of a table that has only grown, as its log lists them."""
    entries = sorted((root / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
    return [action["add"] for action in actions if "add" in action]


def roaring_array(positions: Ids) -> bytes:
    """Sorted positions below 2**32 as Delta's array of roaring bitmaps, of which there is one.

    Each 65,536 positions are a container: the low 16 bits of each if they are few, else a bit for each possible one.
    """
    keys, starts = np.unique(positions >> 16, return_index=True)
    containers = np.split((positions & 0xFFFF).astype("<u2"), starts[1:])
    head = struct.pack("<II", 12346, len(keys))
    head += b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in zip(keys, containers, strict=True))
    bodies = [low.tobytes() if len(low) <= ARRAY_MOST else _bits(low) for low in containers]
    ends = np.cumsum([len(head) + 4 * len(keys), *map(len, bodies)])
    offsets = struct.pack(f"<{len(keys)}I", *ends[:-1].tolist())
    return struct.pack("<iqI", 1681511377, 1, 0) + head + offsets + b"".join(bodies)


def _bits(low: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    bits = np.zeros(1 << 16, bool)
    bits[low] = True
    return np.packbits(bits, bitorder="little").tobytes()
