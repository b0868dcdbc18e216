"""EXPLAIN, EXPLAIN ANALYZE and EXPLAIN FILTER PUSHDOWN.

    EXPLAIN SELECT …                     the steps, the path, the parts that are left, and why; nothing is read but metadata
    EXPLAIN ANALYZE SELECT …             runs the query too, and says what each stage took
    EXPLAIN FILTER PUSHDOWN SELECT …     a row for each condition of the filter: does it drop parts, how many, and if not, why

DELETE and UPDATE are explained by the query that finds their rows, and by how these are deleted: by position, or by retractions.
The texts are made in `plan/explain.py`; here it is gathered what they say, over the snapshot that the statement itself would read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tidegate.context import Context
from tidegate.errors import BindError, StoreError, UnsupportedError
from tidegate.expr.domain import Verdict, pruning_obstacle
from tidegate.expr.model import Expr, show, types
from tidegate.plan import BoundQuery, StagePlan, explain_query
from tidegate.plan import explain as text
from tidegate.query import Result, ScanRequest, Stage, answer, choose_path
from tidegate.query.estimate import Estimates, stage_plan
from tidegate.query.paths import local
from tidegate.query.prune import Conjunct, PruneResult, conjunct_effects, prune, treats_equal_alike
from tidegate.sql.parse import statement, syntax
from tidegate.statements.general import explain_general, explained
from tidegate.statements.modify import deletes_by_position, pinned_change
from tidegate.statements.pinned import PinnedSelect, pinned_select
from tidegate.statements.select import groups_on_engine, question_of, run_without_from
from tidegate.storage.shard import Snapshot, resolve_now
from tidegate.text import format_bytes, identifier, plural

T = TypeVar("T")

EXPLAINED = 3
"""Parts of which it is said why they are read."""


def explain(
    context: Context, given: statement.Statement, as_of: int | None, *, analyze: bool, as_json: bool
) -> Result:
    """Describes a query, with `analyze` also its costs; of DELETE and UPDATE, how they find rows."""
    if analyze:
        _check_changes_nothing(given)

    def read(bound: BoundQuery, found: Snapshot, now: int, query: PinnedSelect | None) -> Result:
        question = question_of(context, bound, found, now)
        if query is not None and groups_on_engine(query, question):
            return explain_general(context, query, analyze=analyze, as_json=as_json)
        pruned = prune(found, question.plan, now, use=context.config.stats_filter)
        if isinstance(given, statement.Delete) and deletes_by_position(question, pruned):
            question = replace(question, plan=question.plan.project(()))  # what it deletes is not read
        ran = Ran.of(lambda: answer(question)) if analyze else None
        above = (
            _over(bound, question)
            if isinstance(given, statement.SelectStatement)
            else [_change(given, question, pruned)]
        )
        return _printed([*above, *_below(bound, question, pruned, ran)], ran, as_json=as_json)

    def alone(bound: BoundQuery, now: int) -> Result:
        plan = bound.mfp.at(now).optimise()
        steps = [
            *_above(bound, plan.outputs, [], now),
            *text.selection(plan.conditions, None),
            text.Step("Row", ("one, without columns; nothing is read",)),
        ]
        return _printed(
            steps, Ran.of(lambda: run_without_from(bound, now)) if analyze else None, as_json=as_json
        )

    def general(query: PinnedSelect, parsed: syntax.Query) -> Result:
        del parsed
        return explain_general(context, query, analyze=analyze, as_json=as_json)

    return _explained(context, given, as_of, read, alone, general)


def _check_changes_nothing(given: statement.Statement) -> None:
    """EXPLAIN ANALYZE runs a statement, so it is for queries alone."""
    if isinstance(given, statement.Delete | statement.Update):
        raise UnsupportedError(
            f"EXPLAIN ANALYZE would run the {type(given).__name__.upper()}",
            hint="EXPLAIN without ANALYZE tells what it reads; EXPLAIN ANALYZE SELECT with the same WHERE, what it costs",
        )


def _explained(
    context: Context,
    given: statement.Statement,
    as_of: int | None,
    read: Callable[[BoundQuery, Snapshot, int, PinnedSelect | None], T],
    alone: Callable[[BoundQuery, int], T],
    general: Callable[[PinnedSelect, syntax.Query], T],
) -> T:
    """Binds a statement; calls `read` with its snapshot, `alone` without FROM, else `general`."""
    match given:
        case statement.SelectStatement(parsed):
            with pinned_select(context, parsed, as_of) as query:
                single = query.prepared.single
                if single is None:
                    return general(query, parsed)
                if query.snapshot is None:
                    return alone(single, query.now)
                return read(single, query.snapshot, query.now, query)
        case statement.Delete() | statement.Update() if as_of is not None:
            raise BindError("as_of is for queries: a statement that changes something does so now")
        case statement.Delete() | statement.Update():
            with pinned_change(context, given) as found:
                held = found.snapshots[given.table.text]
                now = resolve_now(found.wall, [held.state], context.config, temporal=False)
                return read(found.query.change.read, held, now, None)
        case _:
            raise UnsupportedError(
                "EXPLAIN is for statements that read: SELECT, DELETE, UPDATE, MERGE, CREATE SOURCE",
                hint="of INSERT INTO … SELECT, explain the SELECT",
            )


# ---------------------------------------------------------------- the steps


def _finish(bound: BoundQuery, outputs: Sequence[str]) -> list[text.Step]:
    """ORDER BY and LIMIT; a key that has a name of its own is called by it."""

    def called(column: int) -> str:
        label = bound.names[column] if column < len(bound.names) else "?column?"
        return outputs[column] if label == "?column?" else identifier(label)

    keys = [
        text.key(called(one.column), descending=one.descending, nulls_first=one.nulls_first)
        for one in bound.order_by
    ]
    return text.finish(keys, bound.limit, bound.offset)


def _over(bound: BoundQuery, question: ScanRequest) -> list[text.Step]:
    """What is done with rows that have passed the filter."""
    names = [column.name for column in question.snapshot.schema.columns]
    return _above(bound, question.plan.outputs, names, question.now)


def _above(bound: BoundQuery, outputs: Sequence[Expr], names: Sequence[str], now: int) -> list[text.Step]:
    """The same, given what leaves the plan over rows whose columns are called so."""
    if bound.aggregation is None:
        finish = _finish(bound, [show(output, names) for output in outputs])
        return [*finish, text.project(outputs[: len(bound.names)], bound.names, names)]
    aggregation = bound.aggregation.at(now)
    inner = text.called_apart(aggregation.labels)
    shown = [show(output, inner) for output in aggregation.above.outputs]
    return [*_finish(bound, shown), *text.aggregate(aggregation, outputs, bound.names, names)]


def _change(given: statement.Statement, question: ScanRequest, pruned: PruneResult) -> text.Step:
    """What is done with the rows that DELETE or UPDATE finds."""
    way = "deletes them by position"
    if not deletes_by_position(question, pruned):
        off = "delete_by_position is off"
        waiting = "other retractions wait for `compact`"
        way = f"retracts them by rows ({waiting if question.config.delete_by_position else off})"
    if not isinstance(given, statement.Update):
        return text.Step("Delete", (way,))
    columns = question.snapshot.schema.columns
    names = [column.name for column in columns]
    outputs = question.plan.outputs[len(columns) :]
    targets = [identifier(target.text) for target, _ in given.assignments]
    values = [show(value, names) for value in outputs]
    said = [f"{target} = {value}" for target, value in zip(targets, values, strict=False)]
    return text.Step("Update", (f"{way}, and inserts them with {', '.join(said)}",))


def _below(bound: BoundQuery, question: ScanRequest, pruned: PruneResult, ran: Ran | None) -> list[text.Step]:
    """The scan, and the Selection right above it."""
    names = [column.name for column in question.snapshot.schema.columns]
    estimates = Estimates.of(question.snapshot, pruned.kept, question.now)
    chosen, at_once = _chosen(question, pruned, estimates)
    rest = question.plan.conditions if chosen is None else chosen.rest
    pushed = () if chosen is None else chosen.pushed
    items = [f"as of {question.snapshot.as_of}"]
    items += [f"mz_now() = {question.now}"] if bound.mfp.is_temporal else []
    items += [f"{text.PUSHED} {text.conjoined(pushed, names)}"] if pushed else []
    items += [f"path: {choose_path(question, pruned)}"]
    notes = [_columns(question, chosen, names), *_parts(question, pruned)]
    if chosen is not None:
        notes[1:1] = [f"not pushed down: {one.show(names)}" for one in chosen.skipped]
        notes[0] += " (at once, as the parts are small)" if at_once else ""
    passed = None if ran is None else ran.passed
    scanned = passed if not rest else None if ran is None or at_once else ran.scanned
    return [
        *text.selection(rest, names, _rows(estimates.rows(question.plan.conditions), passed)),
        text.Step(
            f"Scan {identifier(bound.source or '')}",
            tuple(items),
            _rows(estimates.rows(pushed), scanned),
            tuple(notes),
        ),
    ]


def _chosen(
    question: ScanRequest, pruned: PruneResult, estimates: Estimates
) -> tuple[StagePlan | None, bool]:
    """The conditions that the scan evaluates first, and whether it reads all columns at once.

    None: all conditions are asked when all columns are there, or rows must meet what retracts them before they are asked.
    """
    met = pruned.retracts and not treats_equal_alike(question.plan)
    if met or not question.config.late_materialization or not pruned.parts:
        return None, False
    try:
        chosen = stage_plan(question.plan, estimates, local.weights(question, pruned))
        return chosen, bool(chosen.stages) and not local.groups(question, pruned)
    except StoreError:  # the query itself will tell, if it comes to that part
        return stage_plan(question.plan, estimates), False


def _rows(estimate: float, real: int | None) -> str:
    last = round(estimate) if real is None else real
    said = f"est {round(estimate):,}" + ("" if real is None else f", real {real:,}")
    return f"{said} {'row' if last == 1 else 'rows'}"


def _columns(question: ScanRequest, chosen: StagePlan | None, names: Sequence[str]) -> str:
    """Which columns are read, in which order."""
    demanded, names = sorted(question.plan.demand()), [identifier(name) for name in names]
    if chosen is None or not chosen.stages:
        return f"columns: {', '.join(names[i] for i in demanded) or 'none'}"
    first = [", ".join(names[i] for i in stage.columns) for stage in chosen.stages if stage.columns]
    read = {i for stage in chosen.stages for i in stage.columns}
    rest = ", ".join(names[i] for i in demanded if i not in read)
    return f"columns: first {'; then '.join([*first, *([rest] if rest else [])])}"


def _parts(question: ScanRequest, pruned: PruneResult) -> list[str]:
    """How many parts are read, of how many, and why."""
    table = question.snapshot.table(["size"]).column("size").to_numpy()
    kept = np.ones(len(table), bool) if pruned.verdicts is None else pruned.verdicts.keep
    whole = 0 if pruned.verdicts is None else int(np.count_nonzero(pruned.verdicts.verdict == Verdict.ALL))
    proven = f", {whole:,} proven whole" if whole else ""
    amount = f"bytes: {format_bytes(int(table[kept].sum()))} of {format_bytes(pruned.size)}"
    lines = [f"parts: {int(kept.sum()):,} of {pruned.total:,} kept{proven}; {amount}"]
    deleted = question.snapshot.deleted()
    if deleted is not None and deleted[0][kept].any():
        lines.append(f"skips {plural(int(deleted[0][kept].sum()), 'deleted row')}")
    if not question.config.stats_filter:
        return [*lines, "all are read: stats_filter is off"]
    if pruned.verdicts is None:
        inexact = "rows are retracted, and the filter reads floats or intervals"
        return [*lines, f"all are read: {inexact}"] if question.plan.predicates else lines
    shown = _why(question, pruned, EXPLAINED)
    return [*lines, *(["why kept:", *(f"  {line}" for line in shown)] if shown else [])]


def _why(question: ScanRequest, pruned: PruneResult, many: int) -> list[str]:
    """Of the first of the parts kept: the verdict, and each condition with the bounds that decided it."""
    assert pruned.verdicts is not None
    kept = np.flatnonzero(pruned.verdicts.keep)
    lines = []
    for i, part in enumerate(question.snapshot.pick(kept[:many])):
        verdict, why = pruned.why(i)
        lines += [f"{part.name} ({verdict}):", *(f"  {line}" for line in why)]
    return [*lines, *([f"… and {len(kept) - many:,} more"] if len(kept) > many else [])]


# ---------------------------------------------------------------- what it did


@dataclass(frozen=True)
class Ran:
    """A query that was run, for ANALYZE."""

    result: Result
    seconds: float

    @staticmethod
    def of(run: Callable[[], Result]) -> Ran:
        """Runs it to its last row, of which none is held."""
        began = time.perf_counter()
        result = run()
        result.exhaust()
        return Ran(result, time.perf_counter() - began)

    @property
    def _last(self) -> list[Stage]:
        """The stages that read what the filter left: the last one of each part."""
        return [stage for stage in self.result.scan.stages if stage.name.startswith("read ")]

    @property
    def scanned(self) -> int | None:
        """How many rows were left by what was pushed down; None if that was not counted."""
        return sum(stage.rows_in for stage in self._last) if self._last else None

    @property
    def passed(self) -> int | None:
        """How many rows passed all conditions; None if that was not counted."""
        return sum(stage.rows_out for stage in self._last) if self._last else None

    def lines(self) -> list[str]:
        """What ANALYZE adds."""
        scan = self.result.scan
        amount = f"{format_bytes(scan.bytes_read)} of {format_bytes(scan.bytes_total)}"
        read = f"{scan.parts_read:,} of {plural(scan.parts_total, 'part')}, {amount}, {plural(scan.rows_read, 'row')}"
        rows = plural(len(self.result), "row")
        table = [
            (s.name, f"{s.rows_in:,}", f"{s.rows_out:,}", format_bytes(s.bytes), f"{1000 * s.seconds:.1f}")
            for s in scan.stages
        ]
        return [
            f"Answered from {self.result.path} in {1000 * self.seconds:.1f} ms: {rows}",
            f"  read {read}; {plural(scan.parts_audited, 'part')} audited",
            *(text.table(("stage", "rows in", "rows out", "bytes", "ms"), table) if table else []),
        ]


def _printed(steps: Sequence[text.Step], ran: Ran | None, *, as_json: bool) -> Result:
    """The explanation; with ANALYZE, also with what was read."""
    document: dict[str, object] | None = (
        {"Plan": explain_query.plan_document(explain_query.chain(steps))} if as_json else None
    )
    if ran is None:
        return explained([text.tree(steps)], document)
    if document is not None:
        document |= {"Execution Time": round(1000 * ran.seconds, 3), "Actual Rows": len(ran.result)}
        document |= {"Parts Read": ran.result.scan.parts_read}
    return explained([text.tree(steps), *ran.lines()], document, ran.result.path, ran.result.scan)


# ---------------------------------------------------------------- FILTER PUSHDOWN


def pushdown(context: Context, given: statement.Statement, as_of: int | None) -> Result:
    """A row for each condition of a query's filter: what it does to parts."""

    def read(
        bound: BoundQuery, found: Snapshot, now: int, query: PinnedSelect | None
    ) -> tuple[list[Conjunct], str]:
        del query
        question = question_of(context, bound, found, now)
        pruned = prune(found, question.plan, now, use=True)
        each = conjunct_effects(question, pruned)
        return each, _pushdown_text(question, pruned, each, [column.name for column in found.schema.columns])

    def alone(bound: BoundQuery, now: int) -> tuple[list[Conjunct], str]:
        plan = bound.mfp.at(now).optimise()
        each = [
            Conjunct(c, False, 0, 0, pruning_obstacle(c) or "there are no parts") for c in plan.conditions
        ]
        return each, "Nothing is read: there are no parts"

    def refuse(query: PinnedSelect, parsed: syntax.Query) -> tuple[list[Conjunct], str]:
        raise query.prepared.obstacle(parsed).error()

    each, said = _explained(context, given, as_of, read, alone, refuse)
    columns = [
        [show(one.condition) for one in each],
        [one.can_prune for one in each],
        [one.pruned for one in each],
        [one.whole for one in each],
        [one.why for one in each],
    ]
    names = ("condition", "can_prune", "parts_pruned", "parts_whole", "why")
    return Result.of(names, (types.TEXT, types.BOOL, types.INT8, types.INT8, types.TEXT), columns, said=said)


def _pushdown_text(
    question: ScanRequest, pruned: PruneResult, each: Sequence[Conjunct], names: Sequence[str]
) -> str:
    """The same for people: each condition, all of them together, and why the first of the parts kept are."""
    if not each:
        return f"There is no filter: all {pruned.total:,} parts are read"
    lines = []
    for one in each:
        lines += text.fold(show(one.condition, names), "")
        lines += text.fold(_does(one), "  ")
    lines += [*_parts(question, pruned)[:1]]
    if pruned.verdicts is None:
        return "\n".join(lines)
    if not question.config.stats_filter:
        lines.append("but stats_filter is off: all parts are read")
    shown = _why(question, pruned, EXPLAINED)
    return "\n".join([*lines, *(line for one in shown for line in text.fold(one, "  "))])


def _does(one: Conjunct) -> str:
    """What a condition does, in words."""
    if not one.can_prune:
        return f"cannot prune: {one.why}"
    done = [f"prunes {plural(one.pruned, 'part')}"] if one.pruned else ["can prune, but does not"]
    done += [f"proves {one.whole:,} whole"] if one.whole else []
    return ", ".join(done) + (f": {one.why}" if one.why else "")
