"""What a query would do with the parts that it reads: from metadata alone, and without Spark.

    found = query_map(context, "SELECT … FROM orders WHERE at > '2026-01-01' AND price > 5")
    for reading in found.readings:           one for each collection that the query reads; a join reads two
        reading.kept, reading.total          3 of 365 parts
        reading.map.verdict                  NONE, SOME or ALL of each part: pruned, read, proven whole
        reading.conjuncts                    what each condition does: alone, and that no other does

A query of several collections is split as an engine's would be (`plan/logical.py`): each of its scans has a filter of its own,
which is what is asked here. What a join learns while it runs, the keys of the other side, is not known before, and prunes more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tidegate.boundary import public, text, whole_number
from tidegate.context import Context
from tidegate.errors import BindError
from tidegate.expr.domain import Interpretation, Specs, Verdict, explain_verdict
from tidegate.expr.model import Expr, build, show, support
from tidegate.plan import MapFilterProject, logical
from tidegate.query import CancelToken, ResultShape, ScanRequest, choose_path
from tidegate.query.prune import Conjunct, PruneResult, PruningPredicate, conjunct_effects, prune
from tidegate.sql.parse import parse_statements, statement, syntax
from tidegate.statements.execute import kind_of, time_of, with_options
from tidegate.statements.general import engine_for, relational_query
from tidegate.statements.pinned import PinnedSelect, pinned_select
from tidegate.statements.preview.part_map import (
    ORDERED,
    ColumnFacts,
    PartMap,
    column_facts,
    map_of,
    next_end,
    part_map,
)
from tidegate.statements.select import question_of
from tidegate.storage.part import Part
from tidegate.storage.shard import Snapshot, open_snapshot, visible_columns

T = TypeVar("T")
Axes: TypeAlias = Mapping[str, tuple[str | None, str | None]]
NO_AXES: Axes = MappingProxyType({})
_Scan: TypeAlias = tuple[str, Callable[[Snapshot, int], ScanRequest], str | None]


@dataclass(frozen=True)
class ConditionEffect:
    """One condition of a filter, and what it does to parts."""

    text: str
    can_prune: bool
    pruned: int
    """Parts that it prunes by itself."""
    alone: int
    """Of these, the ones that no other condition prunes."""
    whole: int
    why: str | None
    """What keeps it from doing more."""


@dataclass(frozen=True, eq=False)
class CollectionPreview:
    """What a query does with one collection."""

    map: PartMap
    conjuncts: tuple[ConditionEffect, ...]
    path: str
    total: int
    """Parts of the collection, and `bytes_total` their bytes."""
    kept: int
    whole: int
    bytes_total: int
    bytes_kept: int
    filtered: bool
    """Whether statistics were asked at all."""


@dataclass(frozen=True, eq=False)
class QueryMap:
    """What a statement would do: `db.maps.query("SELECT id FROM orders").kind`."""

    kind: str
    """`select`, `explain`, …, as metrics call it; `nothing` where there is no statement."""
    readings: tuple[CollectionPreview, ...] = ()


@dataclass(frozen=True)
class PartFacts:
    """One part, and what a query does with it."""

    part: Part
    bounds: tuple[tuple[str, Any, Any], ...]
    """Name, least and greatest value of each column of which something is known; None where that end is not."""
    verdict: str | None = None
    why: tuple[str, ...] = ()
    deleted: int = 0
    """How many of its rows are deleted."""


def query_map(context: Context, sql: str, axes: Axes = NO_AXES, only: int | None = None) -> QueryMap:
    """What the last statement of a text would do; with `only`, what this condition does alone.

    `axes`: by collection, which ones its map is to have.
    """
    found = _statement(context, sql)
    if not isinstance(found, tuple):
        return QueryMap("nothing" if found is None else kind_of(found))
    context, given, as_of = found

    def preview(source: str, question: ScanRequest, path: str | None) -> CollectionPreview:
        pruned = prune(question.snapshot, question.plan, question.now, use=context.config.stats_filter)
        verdict = _verdict(pruned, only)
        x, y = axes.get(source, (None, None))
        place = map_of(question.snapshot, source, x, y, question.now, verdict)
        return _reading(question, pruned, place, path or choose_path(question, pruned))

    return QueryMap("select", tuple(_for_each_scan(context, given.query, as_of, preview)))


def part_facts(context: Context, name: str, id_: int, sql: str = "") -> PartFacts:
    """One part of a collection by its number, and what a query does with it, and why."""
    found = _statement(context, sql)
    if isinstance(found, tuple):
        context, given, as_of = found

        def preview(source: str, question: ScanRequest, path: str | None) -> PartFacts | None:
            del path
            return _part(question.snapshot, id_, question) if source == name else None

        told = [one for one in _for_each_scan(context, given.query, as_of, preview) if one is not None]
        if told:
            return told[0]
    with open_snapshot(context.collection(name)) as pinned:
        one = _part(pinned, id_, None)
    if one is None:
        raise BindError(f"there is no part {id_} any more", hint="it was compacted, or its rows have ended")
    return one


@public
@dataclass(frozen=True, eq=False)
class Maps:
    """What can be drawn of an open database: `db.maps`."""

    context: Context

    def collection(self, name: str, x: str | None = None, y: str | None = None) -> PartMap:
        """The parts of a collection."""
        return part_map(self.context, name, x, y)

    def columns(self, name: str) -> list[ColumnFacts]:
        """What statistics say of its columns."""
        return column_facts(self.context, name)

    def next_end(self, name: str) -> int | None:
        """When the rows of its next part end by themselves, in ms."""
        return next_end(self.context, name)

    def query(self, sql: str, axes: Axes = NO_AXES, only: int | None = None) -> QueryMap:
        """What a query would do with the parts of the collections that it reads."""
        return query_map(self.context, text(sql, "SQL"), axes, only)

    def part(self, name: str, id_: int, sql: str = "") -> PartFacts:
        """One part, and what a query would do with it."""
        return part_facts(self.context, name, whole_number(id_, "the number of a part"), text(sql, "SQL"))


# ---------------------------------------------------------------- what is asked


def _statement(
    context: Context, sql: str
) -> tuple[Context, statement.SelectStatement, int | None] | statement.Statement | None:
    """The last query of a text with its time and settings; another statement as it is."""
    statements = parse_statements(sql) if sql.strip() else []
    if not statements:
        return None
    last = statements[-1].statement if isinstance(statements[-1], statement.Explain) else statements[-1]
    if not isinstance(last, statement.SelectStatement):
        return last
    context = with_options(context, last)
    return context, last, time_of(context, last, None)


def _for_each_scan(
    context: Context,
    parsed: syntax.Query,
    as_of: int | None,
    work: Callable[[str, ScanRequest, str | None], T],
) -> list[T]:
    """Calls `work` with each collection of a query, pinned; it does not wait for a future AS OF."""
    with pinned_select(context, parsed, as_of, preview=True) as query:
        return [
            work(source, make(query.snapshots[source], query.now), path)
            for source, make, path in _scans(context, query)
        ]


def _scans(context: Context, query: PinnedSelect) -> list[_Scan]:
    """The collections of a query, how to make the request of each, and the path if it is known."""
    single = query.prepared.single
    if single is None:
        engine = engine_for(context, relational_query(context, query, CancelToken()))
        scans = query.prepared.lowered.scans()
        return [(scan.source, partial(_scanned, context, scan), engine) for scan in scans]
    return [] if single.source is None else [(single.source, partial(question_of, context, single), None)]


def _scanned(context: Context, scan: logical.Scan, found: Snapshot, now: int) -> ScanRequest:
    plan = scan.plan().at(now).optimise()
    return ScanRequest(found, plan, (), ResultShape(), now, context.config)


# ---------------------------------------------------------------- what is answered


def _verdict(pruned: PruneResult, only: int | None) -> np.ndarray | None:
    if pruned.verdicts is None:
        return None
    each = pruned.verdicts.by_condition
    return each[only][1] if only is not None and 0 <= only < len(each) else pruned.verdicts.verdict


def _reading(question: ScanRequest, pruned: PruneResult, place: PartMap, path: str) -> CollectionPreview:
    verdicts = pruned.verdicts
    keep = np.ones(len(place), bool) if verdicts is None else verdicts.keep
    whole = 0 if verdicts is None else int(np.count_nonzero(verdicts.verdict == Verdict.ALL))
    return CollectionPreview(
        place,
        _judged(question, pruned),
        path,
        pruned.total,
        int(np.count_nonzero(keep)),
        whole,
        pruned.size,
        int(place.size[keep].sum()),
        verdicts is not None,
    )


def _judged(question: ScanRequest, pruned: PruneResult) -> tuple[ConditionEffect, ...]:
    """What each condition does; in how many parts it is the only one that says no."""
    names = [column.name for column in question.snapshot.schema.columns]
    found = conjunct_effects(question, pruned)
    if pruned.verdicts is None:
        return tuple(_condition_effect(one, names, 0) for one in found)
    no = [verdict == Verdict.NONE for _, verdict in pruned.verdicts.by_condition]
    often = np.sum(no, axis=0) if no else np.zeros(0, np.int64)
    return tuple(
        _condition_effect(one, names, int(np.count_nonzero(mine & (often == 1))))
        for one, mine in zip(found, no, strict=True)
    )


def _condition_effect(found: Conjunct, names: Sequence[str], alone: int) -> ConditionEffect:
    text = show(found.condition, names)
    return ConditionEffect(text, found.can_prune, found.pruned, alone, found.whole, found.why)


def _part(found: Snapshot, id_: int, question: ScanRequest | None) -> PartFacts | None:
    """A part of a snapshot, by its number."""
    places = np.flatnonzero(found.table(["id"]).column("id").to_numpy() == id_)
    if not len(places):
        return None
    place = int(places[0])
    columns = visible_columns(found.schema, found.state.options)
    at = [found.schema.columns.index(column) for column in columns]
    types = [column.type for column in found.schema.columns]
    asked = PruningPredicate.of(found, MapFilterProject.identity(types), found.as_of)
    conditions = () if question is None else question.plan.conditions
    wanted = support(*conditions) | frozenset(at)
    specs, _ = next(iter(asked.stretches(wanted, place, place + 1)))
    bounds = [_ends(specs[i], column.name) for i, column in zip(at, columns, strict=True)]
    part = found.pick(np.array([place]))[0]
    told = tuple(one for one in bounds if one is not None)
    counts = found.deleted()
    deleted = 0 if counts is None else int(counts[0][place])
    if question is None:
        return PartFacts(part, told, deleted=deleted)
    verdict, why = _why(conditions, Interpretation(specs, (question.now, question.now)))
    return PartFacts(part, told, verdict, why, deleted)


def _ends(specs: Specs | None, name: str) -> tuple[str, Any, Any] | None:
    """The bounds of a column in one part; None: nothing is known."""
    if specs is None or specs.type.kind not in ORDERED:
        return None
    low, high = (bound[0].as_py() for bound in specs.bounds())
    return None if low is None and high is None else (name, low, high)


def _why(conditions: Sequence[Expr], interpretation: Interpretation) -> tuple[str, tuple[str, ...]]:
    """What the filter does with the one part, and a line for each condition."""
    lines = [line for one in conditions for line in explain_verdict(one, interpretation, 0)]
    verdict = interpretation.of(build.conjunction(conditions)).verdict()
    return Verdict(int(verdict[0])).name.lower(), tuple(lines)
