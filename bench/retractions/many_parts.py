"""LIMIT 10 of collections of up to 100,000 parts, with rows deleted in every part.

    python -m bench.retractions.many_parts --parts 10 1000 100000

Writing 100,000 parts row by row takes longer than anyone waits. Here one part is written as usual. Its file gets more names, by
links, and each name is appended as a part with the same statistics, through the same commits as any other. Then two rows of each
part are deleted by one entry. So all parts hold the same rows; pruning, planning and reading do not know.

Times are the CPU time of this process, medians of `--repeats` queries after one that does not count. "first" is the first query
after the collection was opened, which reads the state. Each answer is checked: ten rows, none of them deleted.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.storage.part import deletion_records
from tidegate.storage.shard import Shard

ROWS = 20
"""Rows of each part."""
DELETED = np.array([0, 13])
"""Positions of the rows that are deleted in each part: the first, which a reader meets, and another."""
LINKS = 30_000
"""Names of one file: file systems allow about 65,000."""
AT_ONCE = 250
"""Parts of one entry of the log. SQLite reads whole entries while it searches for the newest, so large ones cost each query."""
QUESTIONS = {
    "LIMIT 10": "SELECT * FROM t LIMIT 10",
    "WHERE … LIMIT 10": "SELECT * FROM t WHERE v > 3 LIMIT 10",
}


def fill(folder: Path, parts: int) -> None:
    """Creates the collection `t` with so many parts."""
    with tidegate.open(folder, config=tidegate.Config(maintenance=False, inline_bytes=0)) as db:
        db.sql("CREATE TABLE t (id int8, v int8, note text)")
        ids = np.arange(ROWS)
        table = pa.table({"id": ids, "v": ids % 10, "note": [f"a note about {i}" for i in ids]})
        db.append("t", table)
        shard = db.context.table("t")
        (first,) = shard.machine.fetch().parts.all()
        names = list(_linked(folder, first.name, parts - 1))
        for begin in range(0, len(names), AT_ONCE):
            more = [replace(first, name=name, id=-1) for name in names[begin : begin + AT_ONCE]]
            shard.commit(more, at=None, token=secrets.token_hex(16))


def _linked(folder: Path, name: str, count: int) -> Iterator[str]:
    """Names of files with the same content as that of a part."""
    source = folder / name
    for i in range(count):
        if i % LINKS == LINKS - 1:  # a file of its own, which the next names are links to
            copy = source.with_name(secrets.token_hex(12))
            copy.write_bytes(source.read_bytes())
            source = copy
        else:
            copy = source.with_name(secrets.token_hex(12))
            os.link(source, copy)
        yield copy.relative_to(folder).as_posix()


def delete_in_all_parts(shard: Shard) -> None:
    """Deletes the rows at `DELETED` of each part, by one entry."""
    state = shard.machine.fetch()
    ids = np.concatenate([table.column("id").to_numpy() for table in state.parts.tables(["id"])])
    ones = np.ones(len(DELETED), np.int64)
    records = deletion_records.deletion_records({int(id_): (DELETED, ones) for id_ in ids}, 0)
    stored = shard.store_deletions(state, records)
    shard.commit([], at=None, token=secrets.token_hex(16), deletions=stored)


def cost(db: tidegate.Database, sql: str, deleted: Sequence[int]) -> float:
    """CPU milliseconds of one query, whose answer is checked."""
    began = time.process_time()
    table = db.sql(sql).arrow()
    took = 1e3 * (time.process_time() - began)
    assert table.num_rows == 10, sql
    assert not set(table.column("id").to_pylist()) & set(deleted), sql
    return took


def measure(folder: Path, name: str, deleted: Sequence[int], repeats: int) -> str:
    """A line of the table: the parts, and each question's first time and median."""
    cells = []
    for sql in QUESTIONS.values():
        with tidegate.open(folder, config=tidegate.Config(audit=0.0)) as db:
            first = cost(db, sql, deleted)
            again = statistics.median(cost(db, sql, deleted) for _ in range(repeats))
            count = db.sql("SELECT count(*) FROM t").rows()[0][0]
            cells.append(f"{again:.1f} | {first:,.0f}")
    return f"| {name} | {count:,} | {' | '.join(cells)} |"


def main() -> None:
    """Prints a table: a line for each number of parts, before and after rows are deleted."""
    parser = argparse.ArgumentParser(prog="python -m bench.retractions.many_parts", description=__doc__)
    parser.add_argument("--parts", type=int, nargs="+", default=[10, 1_000, 100_000])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--dir", default=os.environ.get("TMPDIR"))
    given = parser.parse_args()
    print(f"| parts | rows | {' | first | '.join(QUESTIONS)} | first |")
    print("|---|---:" + "|---:" * (2 * len(QUESTIONS)) + "|")
    for parts in given.parts:
        with tempfile.TemporaryDirectory(prefix="tidegate-parts-", dir=given.dir) as place:
            folder = Path(place)
            fill(folder, parts)
            print(measure(folder, f"{parts:,}, append-only", (), given.repeats), flush=True)
            with tidegate.open(folder) as db:
                delete_in_all_parts(db.context.table("t"))
            print(
                measure(folder, f"{parts:,}, deletions in all", DELETED.tolist(), given.repeats), flush=True
            )


if __name__ == "__main__":
    main()
