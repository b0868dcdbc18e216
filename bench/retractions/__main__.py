"""Runs the benchmark: `python -m bench.retractions`. What it measures is said in the package's docstring."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.retractions.lakes import Lake, append_only, changed, opened, part_count, states
from bench.retractions.measure import Effort, by_spark, by_sql, measure, s3_jars, session
from bench.retractions.peers import NO_DELTA_ON_SPARK, peers
from bench.retractions.report import AFTER, BEFORE, COPY, ON_SPARK, Line, report, wrong
from bench.retractions.rows import (
    APPEND_ONLY,
    KINDS,
    LAYOUTS,
    LIMITS,
    ONE_ROW,
    Expected,
    Question,
    Variant,
    change_of,
    questions_of,
    unchanged,
)

RESULTS = Path(__file__).parent.parent / "results"
SQL, FILES, S3 = "db.sql", "files", "S3"
SHARES = [ONE_ROW, 0.001, 0.01, 0.1, 0.5]
LIMIT_PARTS, HUGE, LIMIT_ROWS = [10, 100, 1_000, 10_000], 100_000, 20
QUICK = {
    "rows": 40_000, "parts": [10], "shares": [0.1], "layouts": ["scattered"], "limit_parts": [10, 100], "rounds": 1,
    "seconds": 0.5, "patience": 20.0,
}  # fmt: skip
JARS_MISSING = "db.table on S3 is not measured: there are no jars for it, which `make hadoop` fetches."


@contextmanager
def _folder(given: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tidegate-retractions-", dir=given.dir) as folder:
        yield Path(folder)


def _clock(given: argparse.Namespace, *, in_process: bool = True) -> Callable[[], float]:
    """CPU time if it is asked for and this process does the work."""
    return time.process_time if in_process and given.clock == "cpu" else time.perf_counter


def _effort(given: argparse.Namespace) -> Effort:
    return Effort(given.rounds, given.seconds, given.patience)


# ---------------------------------------------------------------- every question


def lines_of(
    about: dict[str, Any],
    questions: Sequence[Question],
    variants: Sequence[Variant],
    effort: Effort,
    clock: Callable[[], float],
) -> list[Line]:
    """Every question of one group of variants, of which the first is append-only."""
    lines = []
    for question in questions:
        cells = measure(question, variants, effort, clock)
        shown = ", ".join(cell.show() for cell in cells)
        print(f"{', '.join(map(str, about.values()))}: {question.name}: {shown}", file=sys.stderr, flush=True)
        line = {"question": question.name, "is_limit": question.is_limit, "cells": [asdict(c) for c in cells]}
        lines.append({**about, **line})
    return lines


def ours(
    about: dict[str, Any],
    lakes: Sequence[Lake],
    questions: Sequence[Question],
    spark: Any,
    given: argparse.Namespace,
) -> list[Line]:
    """Our collections at one place, through both paths."""
    lines = []
    expected = [Expected(lake.change) for lake in lakes]
    prefix = "-".join(map(str, about.values())) if about["place"] == S3 else ""
    with opened(lakes, given.patience, prefix) as dbs:
        counts = {"part_counts": [part_count(db) for db in dbs]}
        for path in (SQL, ON_SPARK) if spark is not None else (SQL,):
            asks = [by_sql(db) if path == SQL else by_spark(db, spark, given.patience) for db in dbs]
            variants = [
                Variant(lake.change.label, lake.compacted, ask, right)
                for lake, ask, right in zip(lakes, asks, expected, strict=True)
            ]
            clock = _clock(given, in_process=path == SQL and about["place"] == FILES)
            found = lines_of({"engine": path, **about}, questions, variants, _effort(given), clock)
            lines += [line | counts for line in found]
    return lines


def group(parts: int, layout: str, kind: str, spark: Any, given: argparse.Namespace) -> list[Line]:
    """One number of parts, layout and kind of change: at all places, and the peers."""
    changes = [unchanged(given.rows, COPY)]
    changes += [change_of(given.rows, share, layout, kind) for share in given.shares]
    questions, lines = questions_of(changes), []
    about = {"parts": parts, "layout": layout, "kind": kind}
    for place, metadata in ((FILES, "sqlite"), (S3, "log")) if given.s3 else ((FILES, "sqlite"),):
        with _folder(given) as folder:
            lakes = states(folder, parts, changes, metadata, given.retention)
            usable = spark if place == FILES or s3_jars() else None
            lines += ours({"place": place, **about}, lakes, questions, usable, given)
    if given.peers:
        with _folder(given) as folder:
            tables = [unchanged(given.rows, APPEND_ONLY), *changes]
            for name, variants in peers(folder, parts, tables):
                asked = [v for v in variants if v.label != APPEND_ONLY or not v.compacted]
                lines += lines_of(
                    {"engine": name, "place": FILES, **about}, questions, asked, _effort(given), _clock(given)
                )
    return lines


# ---------------------------------------------------------------- LIMIT by the number of parts


def limits(given: argparse.Namespace) -> list[Line]:
    """LIMIT on collections of more and more parts, append-only and with rows deleted in every part."""
    lines, variants, counts = [], [], []
    with _folder(given) as folder, ExitStack() as stack:
        for parts in given.limit_parts:
            rows = parts * LIMIT_ROWS
            base = append_only(folder / f"{parts}", rows, parts, "sqlite", given.retention)
            tenth = change_of(rows, 0.1, "scattered", "delete")
            lakes = [base, changed(base, folder / f"{parts}-deleted", tenth, compacted=False)]
            dbs = stack.enter_context(opened(lakes, given.patience))
            counts.append(part_count(dbs[0]))
            variants += [
                Variant(f"{parts}", compacted=False, ask=by_sql(db), expected=Expected(lake.change))
                for lake, db in zip(lakes, dbs, strict=True)
            ]
        for question in LIMITS:
            cells = [asdict(cell) for cell in measure(question, variants, _effort(given), _clock(given))]
            for i, count in enumerate(counts):
                lines.append({"question": question.name, "parts": count, "cells": cells[2 * i : 2 * i + 2]})
    return lines


# ---------------------------------------------------------------- all of it


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for."""
    spark = session() if given.spark else None
    lines = []
    for parts in given.parts:
        for layout in given.layouts:
            for kind in given.kinds:
                lines += group(parts, layout, kind, spark, given)
    if spark is not None:
        spark.stop()
    remarks = [JARS_MISSING] if given.spark and given.s3 and not s3_jars() else []
    remarks += [NO_DELTA_ON_SPARK] if given.peers and given.spark else []
    return {
        "rows": given.rows, "rounds": given.rounds, "clock": given.clock, "lines": lines,
        "limits": limits(given) if given.limit_parts else [], "remarks": remarks,
    }  # fmt: skip


PREFACE = """# Reading after UPDATE and DELETE

Measured by `make bench-retractions` with {rows:,} rows: the median {clock} time in milliseconds of up to {rounds} turns,
which all states of a collection take in the same loop, and its ratio to the append-only collection. "Changed" is as UPDATE and
DELETE left it, "compacted" after `db.compact(name, full=True)`. Bold is beyond the limit: {before}× up to 10 % (LIMIT: 2 ms
more), {after}× compacted. An "unchanged copy" is append-only too: its ratio is the noise of the run.

"""


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.retractions")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, nargs="+", default=[50, 1_000])
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="up to 0.5; 0 is one row")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["both"])
    parser.add_argument("--limit-parts", type=int, nargs="*", default=LIMIT_PARTS)
    parser.add_argument("--huge", action="store_true", help=f"LIMIT also on {HUGE:,} parts")
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument(
        "--seconds", type=float, default=Effort.seconds, help="after which a state is not asked again"
    )
    parser.add_argument(
        "--patience", type=float, default=Effort.patience, help="seconds until a query is stopped"
    )
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument(
        "--retention", default="", help="of the table, such as '1 millisecond'; empty: for ever"
    )
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="for the collections")
    for name in ("spark", "s3", "peers"):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--quick", action="store_true", help="few rows, one share, one layout, one turn: does it work?"
    )
    parser.add_argument("--keep", action="store_true", help="writes bench/results/retractions.md and .json")
    quick, _ = parser.parse_known_args()
    if quick.quick:
        parser.set_defaults(**QUICK)
    given = parser.parse_args()
    if not all(0 <= share <= 0.5 for share in given.shares):
        parser.error("a share is from 0, which is one row, to 0.5")
    given.limit_parts = [*given.limit_parts, *([HUGE] if given.huge else [])]
    return given


def main() -> None:
    """Prints the report, and keeps it if asked to."""
    given = arguments()
    data = run(given)
    text = PREFACE.format(**data, before=BEFORE, after=AFTER) + report(data)
    print(text)
    if given.keep:
        (RESULTS / "retractions.md").write_text(text + "\n")
        (RESULTS / "retractions.json").write_text(json.dumps(data, indent=1) + "\n")
    if wrong(data):
        sys.exit("some answers are wrong")


if __name__ == "__main__":
    main()
