"""Sources that replace rows: what a batch costs, and what reading costs afterwards.

    python -m bench.retractions.sources upsert --rows 10000000 --share 0.01
    python -m bench.retractions.sources postgres --rows 1000000 --minutes 10

| command | |
|---|---|
| `upsert` | ENVELOPE UPSERT of a share of the keys, with `delete_by_position` on and off; then reads, `compact`, and reads again |
| `postgres` | a PostgreSQL source under constant UPDATEs: reads at the start, each minute, at the end, and after one `compact` |

`upsert` needs no server: its upstream is a list of JSON records with keys, read by the same tasks and commits as a Kafka topic.
The keys to replace are spread evenly over all parts. The old way has one task for each split, as it had before positions were kept.

`postgres` starts Debian's PostgreSQL. Before it reads, it stops the UPDATEs and waits until all of them are ingested, so that it
measures the collection and not the competition for the machine.

Times of reads are medians. CPU is that of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

import tidegate
from bench.retractions.keyed_records import keys_of, upstream_of
from tests.ingest.envelopes import Case, made
from tests.ingest.postgres_lab import Database, database
from tidegate.ingest.batch import BatchPlanner, run_task
from tidegate.ingest.batch.commit import commit_or_reread
from tidegate.ingest.definition import ERRORS_COLUMNS, UPSERT_KEY, SourceDefinition
from tidegate.ingest.protocol import Upstream
from tidegate.storage.part import Schema
from tidegate.storage.shard import shard_options

REPEATS = 7
ROWS_PER_APPEND = 500_000
UPSERT_SQL = (
    "SELECT (data->>'id')::int8 AS id, (data->>'amount')::int8 AS amount, data->>'name' AS name FROM s"
)
UPSERT_QUESTIONS = {
    "LIMIT 10": "SELECT * FROM t WHERE amount >= 0 LIMIT 10",
    "point": "SELECT * FROM t WHERE id = 4711",
    "count": "SELECT count(*) FROM t",
    "GROUP BY": "SELECT id % 10 AS g, sum(amount) AS s FROM t GROUP BY id % 10",
}
POSTGRES_QUESTIONS = {
    "LIMIT 10": "SELECT * FROM accounts WHERE balance > -1000000000 LIMIT 10",
    "point": "SELECT * FROM accounts WHERE aid = 4711",
    "count": "SELECT count(*) FROM accounts",
    "GROUP BY": "SELECT bid, sum(balance) AS s FROM accounts GROUP BY bid",
}


class Spent(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


def measured(work: Callable[[], Any]) -> Spent:
    """What one call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def read_costs(db: tidegate.Database, questions: dict[str, str], repeats: int) -> dict[str, Spent]:
    """The medians of each question, after one answer that does not count."""
    costs = {}
    for name, sql in questions.items():
        db.sql(sql).arrow()
        spent = [measured(lambda sql=sql: db.sql(sql).arrow()) for _ in range(repeats)]
        costs[name] = Spent(*(statistics.median(times) for times in zip(*spent, strict=True)))
    return costs


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def shown(spent: Spent, base: Spent | None = None) -> str:
    """Milliseconds of wall and CPU, and how many times the wall time of another."""
    times = "" if base is None else f" ({spent.wall / base.wall:.2f}×)"
    return f"{spent.wall * 1e3:,.1f} / {spent.cpu * 1e3:,.1f}{times}"


def parts_of(db: tidegate.Database, name: str) -> str:
    """How many parts a collection has, how many of them retract, and how many rows are deleted."""
    state = db.context.shard(db.context.catalog.find(name).shard).machine.fetch()
    table = pa.concat_tables(
        [pa.table({"retracts": pa.array([], pa.bool_())}), *state.parts.tables(["retracts"])]
    )
    retracting = pc.sum(table.column("retracts"), min_count=0).as_py()
    return f"{state.parts.count} / {retracting} / {state.parts.deletions.rows:,}"


# ---------------------------------------------------------------- ENVELOPE UPSERT


def fill(folder: Path, case: Case, rows: int) -> None:
    """Creates the collection `t` of an UPSERT source with these rows, in parts by key."""
    options = {**case.shape.options, shard_options.CLUSTER_BY: [case.shape.options[UPSERT_KEY]]}
    with tidegate.open(folder) as db:
        context = db.context
        shard = context.shards.open(context.catalog.create_table("t", case.shape.schema, options))
        context.catalog.create_table("e", Schema.of(list(ERRORS_COLUMNS)), {})
        for begin in range(0, rows, ROWS_PER_APPEND):
            ids = np.arange(begin, min(begin + ROWS_PER_APPEND, rows))
            names = pc.binary_join_element_wise("name", pa.array(ids % 977).cast(pa.string()), " ")
            shard.append({"id": ids, "amount": ids % 1000, "name": names, "_key": keys_of(ids)})


def source_of(db: tidegate.Database, case: Case, upstream: Upstream) -> SourceDefinition:
    """The source over the collections of a database."""
    output, errors = (db.context.catalog.find(name).shard for name in ("t", "e"))
    return replace(
        case.source, upstream=upstream, errors=errors, outputs=(replace(case.output, shard=output),)
    )


def ingest_all(db: tidegate.Database, source: SourceDefinition, *, in_turn: bool) -> None:
    """Reads and commits all batches, in this process."""
    context = db.context
    planner = BatchPlanner(
        source, context.shard, context.root.place, db.context.config, context.clock, once=True
    )
    try:
        while (tasks := planner.next_tasks(in_turn=in_turn)) is not None:
            commit_or_reread(source, planner, [run_task(task) for task in tasks], run_task)
    finally:
        planner.close()


def bench_upsert(given: argparse.Namespace, folder: Path) -> None:
    """Measures UPSERT with positions and with retractions, and the reads afterwards."""
    case = made("upsert", UPSERT_SQL)
    _warm_up(folder / "warm", case)
    fill(folder / "base", case, given.rows)
    ids = np.arange(0, given.rows, max(1, round(1 / given.share)))
    upstream = upstream_of(ids, given.splits)
    with tidegate.open(folder / "base") as db:
        base = read_costs(db, UPSERT_QUESTIONS, given.repeats)
        lines = [["append-only", "", *map(shown, base.values()), parts_of(db, "t")]]
    for by_position in (True, False):
        copy = folder / f"positions {by_position}"
        shutil.copytree(folder / "base", copy)
        way = "by position" if by_position else "by retraction"
        config = tidegate.Config(
            delete_by_position=by_position, retraction_lookup_bytes=64 << 20 if by_position else 0
        )
        with tidegate.open(copy, config=config) as db:
            source = source_of(db, case, upstream)
            spent = measured(
                lambda db=db, source=source, way=by_position: ingest_all(db, source, in_turn=way)
            )
            lines.append(_line(f"UPSERT {way}", spent, db, base, given.repeats))
            compacted = measured(lambda db=db: db.compact("t"))
            lines.append(_line(f"… after `compact`, {way}", compacted, db, base, given.repeats))
        shutil.rmtree(copy)
    print(
        f"\n{given.rows:,} rows, {len(ids):,} keys replaced ({given.share:.2%}), {given.splits} splits; ms wall / CPU\n"
    )
    show_table(["", "statement", *UPSERT_QUESTIONS, "parts / retracting / rows deleted"], lines)


def _warm_up(folder: Path, case: Case) -> None:
    """Imports and connects what the first batch of a process does, polars for large parts included."""
    fill(folder, case, 200_000)
    with tidegate.open(folder) as db:
        upstream = upstream_of(np.arange(0, 200_000, 100), 1)
        ingest_all(db, source_of(db, case, upstream), in_turn=True)
        db.compact("t")


def _line(name: str, spent: Spent, db: tidegate.Database, base: dict[str, Spent], repeats: int) -> list[str]:
    costs = read_costs(db, UPSERT_QUESTIONS, repeats)
    return [name, shown(spent), *(shown(costs[q], base[q]) for q in costs), parts_of(db, "t")]


# ---------------------------------------------------------------- PostgreSQL


class Updates:
    """Sessions that update random rows of PostgreSQL, like pgbench, until they are closed."""

    def __init__(self, url: str, rows: int, sessions: int, per_second: float) -> None:
        self.done, self._pause = 0, 1 / per_second * sessions
        self._closed, self._running = threading.Event(), threading.Event()
        self._idle = [threading.Event() for _ in range(sessions)]
        self._threads = [threading.Thread(target=self._work, args=(url, rows, i)) for i in range(sessions)]
        for thread in self._threads:
            thread.start()

    def _work(self, url: str, rows: int, number: int) -> None:
        luck = random.Random(number)
        with psycopg.connect(url, autocommit=True) as c:
            while not self._closed.is_set():
                if not self._running.is_set():
                    self._idle[number].set()
                    self._running.wait(0.1)
                    continue
                self._idle[number].clear()
                c.execute(
                    "UPDATE accounts SET balance = balance + %s WHERE aid = %s",
                    (luck.randint(-5000, 5000), luck.randrange(rows)),
                )
                self.done += 1
                time.sleep(self._pause)

    def resume(self) -> None:
        """Goes on."""
        for idle in self._idle:
            idle.clear()
        self._running.set()

    def pause(self) -> None:
        """Waits until no session updates."""
        self._running.clear()
        for idle in self._idle:
            idle.wait()

    def close(self) -> None:
        """Ends the sessions."""
        self._closed.set()
        self._running.set()
        for thread in self._threads:
            thread.join()


def bench_postgres(given: argparse.Namespace, folder: Path) -> None:
    """Measures reads of a PostgreSQL source while its table is updated."""
    with database() as pg:
        pg.run(
            "CREATE TABLE accounts (aid int8 PRIMARY KEY, bid int4, balance int8, filler text)",
            "ALTER TABLE accounts REPLICA IDENTITY FULL",
            f"INSERT INTO accounts SELECT i, i % 100, 0, 'account ' || i FROM generate_series(0, {given.rows - 1}) i",
            "CREATE PUBLICATION p FOR TABLE accounts",
        )
        with tidegate.open(folder / "lake") as db:
            options = pg.connection.options
            db.sql(
                f"CREATE CONNECTION pg TO POSTGRES (HOST '{options['host']}', DATABASE '{options['database']}', USER tidegate)"
            )
            db.sql(
                "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES "
                "(accounts TRANSFORM USING (SELECT aid, bid, balance, filler FROM accounts))"
            )
            db.ingest("s", once=True, spark=False, progress=lambda _: None).wait()
            _follow(given, db, pg)


def _follow(given: argparse.Namespace, db: tidegate.Database, pg: Database) -> None:
    """Ingests and reads while the table is updated."""
    base = read_costs(db, POSTGRES_QUESTIONS, given.repeats)
    lines = [["start", "0", *map(shown, base.values()), parts_of(db, "accounts")]]
    updates = Updates(pg.url, given.rows, given.sessions, given.per_second)
    ingestion = db.ingest("s", spark=False, progress=lambda _: None)

    def add(name: str) -> None:
        costs = read_costs(db, POSTGRES_QUESTIONS, given.repeats)
        row = [
            name,
            f"{updates.done:,}",
            *(shown(costs[q], base[q]) for q in costs),
            parts_of(db, "accounts"),
        ]
        lines.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)

    try:
        for minute in range(1, given.minutes + 1):
            updates.resume()
            time.sleep(given.minute_s)
            updates.pause()
            _catch_up(db, pg)
            add(f"minute {minute}")
    finally:
        updates.close()
        ingestion.stop()
    spent = measured(lambda: db.compact("accounts"))
    add(f"after `compact` ({shown(spent)} ms)")
    print(f"\n{given.rows:,} rows, {given.minutes} × {given.minute_s:g} s of UPDATEs; ms wall / CPU\n")
    show_table(["", "updates", *POSTGRES_QUESTIONS, "parts / retracting / rows deleted"], lines)


def _catch_up(db: tidegate.Database, pg: Database) -> None:
    """Waits until the collection has what PostgreSQL has."""
    ((wanted,),) = pg.rows("SELECT sum(balance)::int8 FROM accounts")
    end = time.monotonic() + 120
    while db.sql("SELECT sum(balance)::int8 FROM accounts").rows() != [(wanted,)]:
        assert time.monotonic() < end, "the source does not catch up"
        time.sleep(0.5)


def main() -> None:
    """Runs one of the two."""
    parser = argparse.ArgumentParser(prog="python -m bench.retractions.sources", description=__doc__)
    parser.add_argument("what", choices=["upsert", "postgres"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument(
        "--minute-s", type=float, default=60.0, help="seconds of UPDATEs between two measurements"
    )
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--per-second", type=float, default=500.0, help="UPDATEs per second at most")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--dir", default=os.environ.get("TMPDIR"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-sources-", dir=given.dir) as folder:
        (bench_upsert if given.what == "upsert" else bench_postgres)(given, Path(folder))


if __name__ == "__main__":
    main()
