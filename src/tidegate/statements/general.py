"""Queries of any shape: run by the embedded engine or by Spark.

    with pinned_select(context, parsed, as_of, watch.check) as query:
        pinned = relational_query(context, query, watch)
        engine_for(context, pinned)          'embedded' or 'spark'

The embedded engine (`query/embedded`) runs a query while the parts that pruning leaves are smaller than `embedded_bytes`, and
Spark beyond; `SET engine` overrides it. Which engine ran does not show in the rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Literal

from tidegate.context import Context, GeneralEngine
from tidegate.errors import UnsupportedError
from tidegate.expr.model import Column, show
from tidegate.plan import explain as text
from tidegate.plan import explain_query
from tidegate.query import CancelToken, Path, Result, ScanMetrics
from tidegate.query.embedded import OperatorCost, analyze_embedded, can_run, run_embedded
from tidegate.query.relational import PinnedQuery, RelationalScan
from tidegate.statements.pinned import PinnedSelect
from tidegate.text import format_bytes, identifier, plural

Engine = Literal["embedded", "spark"]


def relational_query(context: Context, query: PinnedSelect, watch: CancelToken) -> PinnedQuery:
    """A query of any shape over its snapshots, for engines."""
    lowered = query.prepared.lowered
    scans = tuple(
        RelationalScan(context.config, scan, query.snapshots[scan.source], query.now, watch)
        for scan in lowered.scans()
    )
    return PinnedQuery(lowered, scans, query.now, context.config, context.metrics)


def engine_for(context: Context, pinned: PinnedQuery) -> Engine:
    """The engine that runs a query: the embedded one while what is left is small."""
    wanted = context.config.engine
    if wanted != "auto":
        return "spark" if wanted == "spark" else "embedded"
    if not can_run(pinned.query):
        return "spark"
    if context.engine is None:
        return "embedded"
    return "embedded" if pinned.bytes <= context.config.embedded_bytes else "spark"


def spark_engine(context: Context) -> GeneralEngine:
    """Spark; an error if it is not installed."""
    if context.engine is None:
        raise UnsupportedError("this query needs Spark", hint="pip install 'tidegate[spark]'")
    return context.engine


def select_general(context: Context, query: PinnedSelect, watch: CancelToken) -> Result:
    """Runs a query; the caller keeps its snapshots pinned until its last row is read."""
    return run_general(context, relational_query(context, query, watch), watch)


def run_general(context: Context, pinned: PinnedQuery, watch: CancelToken) -> Result:
    """Runs a pinned query on the engine that suits it."""
    if engine_for(context, pinned) == "embedded":
        return run_embedded(pinned, watch)
    return spark_engine(context).select(context, pinned, watch)


# ---------------------------------------------------------------- EXPLAIN


def explain_general(
    context: Context, query: PinnedSelect, *, analyze: bool, as_json: bool, head: str | None = None
) -> Result:
    """Describes how a query runs, and starts nothing; with `analyze` it is run, and costs are added.

    `head` says what a statement does with the rows of its query, which then runs on the embedded engine.
    """
    watch = CancelToken(context.config.statement_timeout_ms)
    pinned = relational_query(context, query, watch)
    engine = engine_for(context, pinned) if head is None else "embedded"
    _ = pinned.reduced
    scans = {id(scan.scan): scan for scan in pinned.scans}
    steps, names = explain_query.query_steps(pinned.query, lambda scan: scan_step(scans[id(scan)]))
    title = "Spark" if engine == "spark" else "Embedded engine"
    lines = [
        *([] if head is None else [head]),
        f"{title}: {format_bytes(pinned.bytes)} left after pruning",
        *explain_query.branching_tree(steps),
    ]
    document: dict[str, object] = {"Engine": engine, "Bytes": pinned.bytes}
    document |= {} if head is None else {"Statement": head}
    document["Plan"] = explain_query.plan_document(steps)
    if not analyze:
        return explained(lines, document if as_json else None)
    began = time.perf_counter()
    if engine == "embedded":
        operators, cost = analyze_embedded(pinned, watch)
        rows = operators[0].rows if operators else 0
        costs = _operator_table(operators, names)
        document["Operators"] = [_operator_document(one, names) for one in operators]
    else:
        costs = [spark_engine(context).plan(context, pinned, watch)]
        document["Spark Plan"] = costs[0]
        ran = run_general(context, pinned, watch)
        rows, cost = ran.exhaust(), ran.scan
    took = 1000 * (time.perf_counter() - began)
    lines += [f"Answered from {engine} in {took:.1f} ms: {plural(rows, 'row')}", _read_line(cost), *costs]
    document |= {"Execution Time": round(took, 3), "Actual Rows": rows, "Parts Read": cost.parts_read}
    return explained(lines, document if as_json else None, engine, cost)


def explained(
    lines: Sequence[str],
    document: dict[str, object] | None,
    path: Path = "metadata",
    scan: ScanMetrics | None = None,
) -> Result:
    """The result of EXPLAIN: its lines, or a document in a list, as PostgreSQL has it."""
    if document is None:
        return Result.explanation("\n".join(lines), path, scan)
    return Result.explanation(json.dumps([document], indent=2), path, scan, document=True)


def _operator_document(one: OperatorCost, names: Sequence[str]) -> dict[str, object]:
    """What an operator did; `Depth` is its place in DuckDB's plan."""
    done = {"Actual Rows": one.rows, "Actual Total Time": round(1000 * one.seconds, 3)}
    return {"Node Type": one.label(names).strip(), "Depth": one.depth, **done}


def _operator_table(operators: Sequence[OperatorCost], names: Sequence[str]) -> list[str]:
    """The operators, with the rows that leave each and the time spent in it."""
    rows = [(one.label(names), f"{one.rows:,}", f"{1000 * one.seconds:.2f}") for one in operators]
    return text.table(("operator", "rows", "ms"), rows) if rows else []


def _read_line(cost: ScanMetrics) -> str:
    amount = f"{format_bytes(cost.bytes_read)} of {format_bytes(cost.bytes_total)}"
    audited = plural(cost.parts_audited, "part")
    parts = f"{cost.parts_read:,} of {plural(cost.parts_total, 'part')}"
    return f"  read {parts}, {amount}, {plural(cost.rows_read, 'row')}; {audited} audited"


def scan_step(scan: RelationalScan) -> text.Step:
    """What EXPLAIN says about one scan."""
    names = [column.name for column in scan.snapshot.schema.columns]
    planned, plan, pruned = scan.planned, scan.planned.plan, scan.planned.pruned
    items = [f"as of {scan.snapshot.as_of}"]
    if plan.conditions:
        items.append(f"{text.PUSHED} {text.conjoined(plan.conditions, names)}")
    computed = [show(output, names) for output in plan.outputs if not isinstance(output, Column)]
    read = ", ".join(names[i] for i in sorted(plan.demand())) or "none"
    total = format_bytes(pruned.size)
    notes = [
        *([f"computed: {', '.join(computed)}"] if computed else []),
        f"columns: {read}",
        f"parts: {pruned.left:,} of {pruned.total:,} kept; bytes: {format_bytes(planned.bytes)} of {total}",
        *scan.notes,
    ]
    return text.Step(
        f"Scan {identifier(scan.scan.source)}",
        tuple(items),
        f"est {round(planned.rows):,} rows",
        tuple(notes),
    )
