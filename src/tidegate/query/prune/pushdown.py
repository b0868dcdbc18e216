"""What each condition of a filter prunes, and why not more: EXPLAIN FILTER PUSHDOWN.

    for one in conjuncts(request, found): ...

    url LIKE 'https://a%'         drops 340 of 365 parts by itself, and proves 2 whole
    lower(name) = 'x'             cannot prune: lower has no trend
    payload ->> 'kind' = 'x'      drops nothing: no statistics of payload ->> 'kind' in 365 parts: the path is not among those kept

A condition may do nothing for three reasons, and they call for different cures. Its functions lose the bounds or may fail
anywhere (`expr/domain/reasons.py`): write it differently. The statistic is missing: it was not collected, or trimmed to
`stats_budget`; KEEP STATISTICS and compaction bring it back. Or the bounds are there and every part's allow it: then only another
order of the rows helps, CLUSTER BY. All parts are looked at together, as arrays; only for the few that are shown is anything
done one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.expr.domain import Verdict, pruning_obstacle
from tidegate.expr.model import Call, Column, Expr, Kind, Literal, show, support, to_bools, walk
from tidegate.query.prune.parts import PruneResult
from tidegate.query.request import ScanRequest
from tidegate.storage.part import SchemaColumn
from tidegate.storage.stats import CLOSED_BIT, FactPath, Frame
from tidegate.text import identifier

_STEPS = ("->", "->>")
INEXACT = "rows are retracted, and equal values need not be identical: 0.0 retracts -0.0"


@dataclass(frozen=True)
class Conjunct:
    """One condition, and what it does alone."""

    condition: Expr
    can_prune: bool
    """Whether statistics such as these parts have can ever decide it."""
    pruned: int
    """Parts that it drops by itself."""
    whole: int
    """Parts all of whose rows pass it."""
    why: str | None
    """What keeps it from dropping more; None if nothing does but the values."""


def conjunct_effects(request: ScanRequest, found: PruneResult) -> list[Conjunct]:
    """What each condition does; `found` was pruned with statistics."""
    if found.verdicts is None:
        return [Conjunct(c, False, 0, 0, INEXACT) for c in request.plan.conditions]
    return [_conjunct(request, condition, each) for condition, each in found.verdicts.by_condition]


def _conjunct(request: ScanRequest, condition: Expr, verdict: np.ndarray) -> Conjunct:
    parts = len(verdict)
    pruned, whole = (int(np.count_nonzero(verdict == one)) for one in (Verdict.NONE, Verdict.ALL))
    blind = pruning_obstacle(condition)
    lost = list(_missing(request, condition)) if blind is None and pruned < parts else []
    everywhere = any(many == parts for many, _ in lost)
    can_prune = pruned > 0 or (blind is None and not everywhere)
    why = None if pruned and blind else blind
    if why is None and lost:
        why = "; ".join(text for _, text in lost)
    elif why is None and not pruned and whole < parts:
        why = "the bounds of every part allow it"
    return Conjunct(condition, can_prune, pruned, whole, why)


# ---------------------------------------------------------------- statistics that are not there


def _missing(request: ScanRequest, condition: Expr) -> Iterator[tuple[int, str]]:
    """For each column and JSON path of a condition: the number of parts without statistics, and why."""
    columns = request.snapshot.schema.columns
    frames = [*request.snapshot.frames()]
    paths = dict(_paths(condition))
    for index in sorted(support(condition)):
        column = columns[index]
        known = _has(frames, "nulls", (column.id,)) | _absent(request, column)
        if not known.all():
            yield int((~known).sum()), _lost(identifier(column.name), ~known, frames, columns)
        for steps, text in ((keys, text) for (of, keys), text in paths.items() if of == index):
            unknown = known & ~_path_known(frames, (column.id, *steps))
            if unknown.any():
                where = _in_parts(int(unknown.sum()), len(unknown))
                yield (
                    int(unknown.sum()),
                    f"no statistics of {text} in {where}: the path is not among those kept",
                )


def _lost(name: str, lacking: np.ndarray, frames: list[Frame], columns: tuple[SchemaColumn, ...]) -> str:
    """Why nothing is known of a column where it is not: no statistics at all, or only not of this one."""
    some = np.zeros(len(lacking), bool)
    for column in columns:
        some |= _has(frames, "nulls", (column.id,))
    bare, trimmed = int((lacking & ~some).sum()), int((lacking & some).sum())
    because = []
    if bare:
        where = _in_parts(bare, len(lacking))
        because.append(f"stats_collection was off, or they cannot be read, in {where}")
    if trimmed:
        because.append(f"trimmed to stats_budget in {_in_parts(trimmed, len(lacking))}")
    return f"no statistics of {name}: {'; '.join(because)}"


def _in_parts(many: int, of: int) -> str:
    if many == of:
        return f"all {of:,} parts" if of > 1 else "the only part"
    return f"{many:,} of {of:,} parts"


def _absent(request: ScanRequest, column: SchemaColumn) -> np.ndarray:
    """The parts that were written before the column was there: NULL in all rows, which is well known."""
    written = request.snapshot.table(["schema"]).column("schema").to_numpy()
    without = [
        stored.parsed.id
        for stored in request.snapshot.state.schemas
        if column.id not in {written_column.id for written_column in stored.parsed.columns}
    ]
    return np.isin(written, without)


def _has(frames: list[Frame], fact: str, node: FactPath) -> np.ndarray:
    """Where a fact is known."""
    found = [(frame, frame.fact(fact, node)) for frame in frames]
    each = [np.zeros(len(frame), bool) if one is None else to_bools(one.is_valid()) for frame, one in found]
    return np.concatenate([np.zeros(0, bool), *each])


def _path_known(frames: list[Frame], node: FactPath) -> np.ndarray:
    """Where something is known of a JSON path: it is listed, or a map on the way lists all of its keys."""
    told = _has(frames, "lanes", node)
    for depth in range(1, len(node)):
        found = [(frame, frame.fact("lanes", node[:depth])) for frame in frames]
        each = [
            np.zeros(len(frame), bool)
            if lanes is None
            else lanes.fill_null(0).to_numpy() & (1 << CLOSED_BIT) > 0
            for frame, lanes in found
        ]
        told = told | np.concatenate([np.zeros(0, bool), *each])
    return told


def _paths(condition: Expr) -> Iterator[tuple[tuple[int, tuple[str, ...]], str]]:
    """The longest JSON paths that a condition reads, as column and keys, with their text."""
    inner = {
        node.args[0] for node in walk(condition) if isinstance(node, Call) and node.function.name in _STEPS
    }
    for node in walk(condition):
        if isinstance(node, Call) and node.function.name in _STEPS and node not in inner:
            found = _path(node)
            if found is not None:
                yield found, show(node)


def _path(expr: Expr) -> tuple[int, tuple[str, ...]] | None:
    """`payload -> 'a' ->> 'b'` as (4, ('a', 'b')); None if it is no chain of constant JSON keys."""
    match expr:
        case Column(index, type_) if type_.kind is Kind.JSONB:
            return index, ()
        case Call(function, (of, Literal(value))) if function.name in _STEPS and pa.types.is_string(
            value.type
        ):
            found = _path(of)
            return None if found is None or not value.is_valid else (found[0], (*found[1], value.as_py()))
        case _:
            return None
