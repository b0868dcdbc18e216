"""Queries of any shape: bound and pinned here, run by the embedded engine or by Spark.

    with pinned_query(context, parsed, as_of, watch) as pinned:
        engine_for(context, pinned)          'embedded' or 'spark'

The embedded engine (`query/embedded`) runs a query while the parts that pruning leaves are smaller than `embedded_bytes`, and
Spark beyond; `SET engine` overrides it. Which engine ran does not show in the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Literal

from tidegate.context import CatalogSnapshot, Context, GeneralEngine
from tidegate.errors import UnsupportedError
from tidegate.expr.model import Column, show
from tidegate.plan import branching_tree, logical, query_steps
from tidegate.plan import explain as text
from tidegate.query import CancelToken, Result, ScanMetrics
from tidegate.query.embedded import OperatorCost, analyze_embedded, can_run, run_embedded
from tidegate.query.relational import PinnedQuery, RelationalScan
from tidegate.sql.bind import bind_general
from tidegate.sql.parse import syntax
from tidegate.statements.pinned import Pinned, pin
from tidegate.storage.shard import resolve_now
from tidegate.text import format_bytes, identifier, plural

Engine = Literal["embedded", "spark"]


def pin_query(
    context: Context, parsed: syntax.Query | str, as_of: int | None, watch: CancelToken
) -> PinnedQuery:
    """Binds a query and pins snapshots of its collections; the caller closes them."""

    def bind(catalog: CatalogSnapshot, wall: int) -> logical.LogicalQuery:
        return bind_general(parsed, catalog, wall)

    def sources(query: logical.LogicalQuery) -> list[str]:
        return [scan.source for scan in query.scans()]

    pinned = pin(context, bind, sources, as_of, check=watch.check)
    now = _present(context, parsed, pinned) if as_of is None else as_of
    scans = tuple(
        RelationalScan(context.config, scan, pinned.snapshots[scan.source], now, watch)
        for scan in pinned.query.scans()
    )
    return PinnedQuery(pinned.query, scans, now, context.config, context.metrics)


def _present(context: Context, parsed: syntax.Query | str, pinned: Pinned[logical.LogicalQuery]) -> int:
    """The value of mz_now(). A text with its name counts as using it: at worst too much is refused."""
    texts = (parsed if isinstance(parsed, str) else parsed.sql, *pinned.catalog.views())
    temporal = any("mz_now" in sql.lower() for sql in texts)
    temporal = temporal or any(snap.validity is not None for snap in pinned.snapshots.values())
    states = [snap.state for snap in pinned.snapshots.values()]
    return resolve_now(pinned.wall, states, context.config, temporal=temporal)


@contextmanager
def pinned_query(
    context: Context, parsed: syntax.Query | str, as_of: int | None, watch: CancelToken
) -> Iterator[PinnedQuery]:
    """Binds a query and pins its collections while it is used."""
    pinned = pin_query(context, parsed, as_of, watch)
    try:
        yield pinned
    finally:
        for snapshot in {id(scan.snapshot): scan.snapshot for scan in pinned.scans}.values():
            snapshot.close()


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


def select_general(context: Context, parsed: syntax.Query, as_of: int | None, watch: CancelToken) -> Result:
    """Runs a query; its snapshots stay pinned until its last row is read."""
    with ExitStack() as stack:
        pinned = stack.enter_context(pinned_query(context, parsed, as_of, watch))
        result = _run(context, pinned, watch)
        result.when_over(partial(_unpin, stack.pop_all()))
        return result


def _unpin(stack: ExitStack, error: BaseException | None) -> None:
    del error
    stack.close()


def _run(context: Context, pinned: PinnedQuery, watch: CancelToken) -> Result:
    if engine_for(context, pinned) == "embedded":
        return run_embedded(pinned, watch)
    return spark_engine(context).select(context, pinned, watch)


# ---------------------------------------------------------------- EXPLAIN


def explain_general(context: Context, parsed: syntax.Query, as_of: int | None, *, analyze: bool) -> Result:
    """Describes how a query runs, and starts nothing; with `analyze` it is run, and costs are added."""
    watch = CancelToken(context.config.statement_timeout_ms)
    with pinned_query(context, parsed, as_of, watch) as pinned:
        engine = engine_for(context, pinned)
        _ = pinned.reduced
        scans = {id(scan.scan): scan for scan in pinned.scans}
        steps, names = query_steps(pinned.query, lambda scan: scan_step(scans[id(scan)]))
        title = "Spark" if engine == "spark" else "Embedded engine"
        lines = [f"{title}: {format_bytes(pinned.bytes)} left after pruning", *branching_tree(steps)]
        if not analyze:
            return Result.message("\n".join(lines))
        began = time.perf_counter()
        if engine == "embedded":
            operators, cost = analyze_embedded(pinned, watch)
            rows = operators[0].rows if operators else 0
            costs = _operator_table(operators, names)
        else:
            costs = [spark_engine(context).plan(context, pinned, watch)]
            ran = _run(context, pinned, watch)
            rows, cost = ran.exhaust(), ran.scan
        took = 1000 * (time.perf_counter() - began)
        lines += [f"Answered from {engine} in {took:.1f} ms: {plural(rows, 'row')}", _read_line(cost), *costs]
        return Result((), (), (), path=engine, scan=cost, said="\n".join(lines))


def _operator_table(operators: Sequence[OperatorCost], names: Sequence[str]) -> list[str]:
    """The operators, with the rows that leave each and the time spent in it."""
    rows = [(one.label(names), f"{one.rows:,}", f"{1000 * one.seconds:.2f}") for one in operators]
    return text.table(("operator", "rows", "ms"), rows) if rows else []


def _read_line(cost: ScanMetrics) -> str:
    amount = f"{format_bytes(cost.bytes_read)} of {format_bytes(cost.bytes_total)}"
    audited = plural(cost.parts_audited, "part")
    parts = f"{cost.parts_read:,} of {cost.parts_total:,} parts"
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
