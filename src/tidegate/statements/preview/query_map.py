"""What a query would do with the parts that it reads, told while it is typed: from metadata alone, and without Spark.

    found = query_map(lake, "SELECT … FROM orders WHERE at > '2026-01-01' AND price > 5")
    for reading in found.readings:           one for each collection that the query reads; a join reads two
        reading.kept, reading.total          3 of 365 parts
        reading.map.verdict                  NONE, SOME or ALL of each part: left out, read, proven whole
        reading.conjuncts                    what each condition does: alone, and that no other does

A query that Spark would run is split as Spark's would be (`sql/split.py`): each of its scans has a filter of its own, which is what
is asked here. What a join learns while it runs, the keys of the other side, is not known before, and prunes more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tidegate.boundary import public
from tidegate.errors import BindError, PlanError, TidegateError
from tidegate.expr.build import conjunction
from tidegate.expr.interpret import Interpretation
from tidegate.expr.reasons import reasons
from tidegate.expr.show import show
from tidegate.expr.specs import Specs, Verdict
from tidegate.expr.tree import Expr, support
from tidegate.plan.mfp import MapFilterProject
from tidegate.scan.answer import path_of
from tidegate.scan.prune import Asked, Pruned, prune
from tidegate.scan.pushdown import Conjunct, conjuncts
from tidegate.scan.question import Question
from tidegate.scan.sort import Shape
from tidegate.session.arguments import text, whole_number
from tidegate.session.execute import kind_of, time_of, with_options
from tidegate.session.lake import Lake, Seen
from tidegate.session.partmap import ORDERED, ColumnFacts, PartMap, column_facts, map_of, next_end, part_map
from tidegate.session.query import REBINDS, bound_query, question_of
from tidegate.shard.change import Part
from tidegate.shard.reader import Snapshot, snapshot
from tidegate.shard.times import present
from tidegate.shard.validity import shown
from tidegate.sql import grammar, syntax
from tidegate.sql.split import Scan
from tidegate.sql.split_query import general
from tidegate.sql.statement import Explain, Query, Statement

T = TypeVar("T")
Axes: TypeAlias = Mapping[str, tuple[str | None, str | None]]
NO_AXES: Axes = {}


@dataclass(frozen=True)
class Judged:
    """One condition of a filter, and what it does to parts."""

    text: str
    can_prune: bool
    pruned: int
    """Parts that it leaves out by itself."""
    alone: int
    """Of these, the ones that no other condition leaves out."""
    whole: int
    why: str | None
    """What keeps it from doing more."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What a query does with one collection."""

    map: PartMap
    conjuncts: tuple[Judged, ...]
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
    """What a statement would do."""

    kind: str
    """`select`, `explain`, …, as metrics call it; `nothing` where there is no statement."""
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class PartFacts:
    """One part, and what a query does with it."""

    part: Part
    bounds: tuple[tuple[str, Any, Any], ...]
    """Name, least and greatest value of each column of which something is known; None where that end is not."""
    verdict: str | None = None
    why: tuple[str, ...] = ()


def query_map(lake: Lake, sql: str, axes: Axes = NO_AXES, only: int | None = None) -> QueryMap:
    """What the last statement of a text would do; with `only`, the map shows what this condition does alone.

    `axes`: by collection, which ones its map is to have.
    """
    found = _statement(lake, sql)
    if not isinstance(found, tuple):
        return QueryMap("nothing" if found is None else kind_of(found))
    lake, given, as_of = found

    def seen(source: str, question: Question, path: str | None) -> Reading:
        pruned = prune(question.snapshot, question.plan, question.now, use=lake.config.stats_filter)
        verdict = _verdict(pruned, only)
        x, y = axes.get(source, (None, None))
        place = map_of(question.snapshot, source, x, y, question.now, verdict)
        return _reading(question, pruned, place, path or path_of(question, pruned))

    return QueryMap("select", tuple(_asked(lake, given.query, as_of, seen)))


def part_facts(lake: Lake, name: str, id_: int, sql: str = "") -> PartFacts:
    """One part of a collection by its number; with a query that reads it, what it does with the part, and why."""
    found = _statement(lake, sql)
    if isinstance(found, tuple):
        lake, given, as_of = found

        def seen(source: str, question: Question, path: str | None) -> PartFacts | None:
            del path
            return _part(question.snapshot, id_, question) if source == name else None

        told = [one for one in _asked(lake, given.query, as_of, seen) if one is not None]
        if told:
            return told[0]
    with snapshot(lake.collection(name)) as pinned:
        one = _part(pinned, id_, None)
    if one is None:
        raise BindError(f"there is no part {id_} any more", hint="it was compacted, or its rows have ended")
    return one


@public
@dataclass(frozen=True, eq=False)
class Maps:
    """What can be drawn of an open database: `db.maps`."""

    lake: Lake

    def collection(self, name: str, x: str | None = None, y: str | None = None) -> PartMap:
        """The parts of a collection."""
        return part_map(self.lake, name, x, y)

    def columns(self, name: str) -> list[ColumnFacts]:
        """What statistics say of its columns."""
        return column_facts(self.lake, name)

    def next_end(self, name: str) -> int | None:
        """When the rows of its next part end by themselves, in ms."""
        return next_end(self.lake, name)

    def query(self, sql: str, axes: Axes = NO_AXES, only: int | None = None) -> QueryMap:
        """What a query would do with the parts of the collections that it reads."""
        return query_map(self.lake, text(sql, "SQL"), axes, only)

    def part(self, name: str, id_: int, sql: str = "") -> PartFacts:
        """One part, and what a query would do with it."""
        return part_facts(self.lake, name, whole_number(id_, "the number of a part"), text(sql, "SQL"))


# ---------------------------------------------------------------- what is asked


def _statement(lake: Lake, sql: str) -> tuple[Lake, Query, int | None] | Statement | None:
    """The query that a text ends with, and when and with which settings it is asked; else what it ends with instead."""
    statements = grammar.statements(sql) if sql.strip() else []
    if not statements:
        return None
    last = statements[-1].statement if isinstance(statements[-1], Explain) else statements[-1]
    if not isinstance(last, Query):
        return last
    lake = with_options(lake, last)
    return lake, last, time_of(lake, last, None)


def _asked(
    lake: Lake, parsed: syntax.Query, as_of: int | None, work: Callable[[str, Question, str | None], T]
) -> list[T]:
    """Does it with each collection that a query reads, while that is pinned. A time that is not there yet is not waited for."""
    for _ in range(REBINDS):
        wall, seen = lake.clock.now(), Seen(lake)
        scans = _scans(lake, parsed, seen, wall)
        with ExitStack() as stack:
            pinned = {
                source: stack.enter_context(snapshot(seen.tables[source][0], as_of, timeout_ms=0))
                for source in dict.fromkeys(source for source, _, _ in scans)
            }
            if all(found.schema.id == seen.tables[name][1].id for name, found in pinned.items()):
                states = [found.state for found in pinned.values()]
                now = present(wall, states, lake.config, temporal=False) if as_of is None else as_of
                return [work(source, make(pinned[source], now), path) for source, make, path in scans]
    raise TidegateError("the collections' columns change faster than they can be read", hint="try again")


def _scans(
    lake: Lake, parsed: syntax.Query, seen: Seen, wall: int
) -> list[tuple[str, Callable[[Snapshot, int], Question], str | None]]:
    """The collections that a query reads, how the question of each is made, and the path if that is known beforehand."""
    try:
        bound = bound_query(lake, parsed, seen, wall)
    except PlanError:
        split = general(parsed, seen, wall).scans()
        return [(scan.source, partial(_scanned, lake, scan), "spark") for scan in split]
    if bound.source is None:
        return []
    return [(bound.source, partial(question_of, lake, bound), None)]


def _scanned(lake: Lake, scan: Scan, found: Snapshot, now: int) -> Question:
    plan = scan.plan().at(now).optimise()
    return Question(found, plan, (), Shape(), now, lake.config)


# ---------------------------------------------------------------- what is answered


def _verdict(pruned: Pruned, only: int | None) -> np.ndarray | None:
    if pruned.verdicts is None:
        return None
    each = pruned.verdicts.by_condition
    return each[only][1] if only is not None and 0 <= only < len(each) else pruned.verdicts.verdict


def _reading(question: Question, pruned: Pruned, place: PartMap, path: str) -> Reading:
    verdicts = pruned.verdicts
    keep = np.ones(len(place), bool) if verdicts is None else verdicts.keep
    whole = 0 if verdicts is None else int(np.count_nonzero(verdicts.verdict == Verdict.ALL))
    return Reading(
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


def _judged(question: Question, pruned: Pruned) -> tuple[Judged, ...]:
    """What each condition does; in how many parts it is the only one that says no."""
    names = [column.name for column in question.snapshot.schema.columns]
    found = conjuncts(question, pruned)
    if pruned.verdicts is None:
        return tuple(_one(one, names, 0) for one in found)
    no = [verdict == Verdict.NONE for _, verdict in pruned.verdicts.by_condition]
    often = np.sum(no, axis=0) if no else np.zeros(0, np.int64)
    return tuple(
        _one(one, names, int(np.count_nonzero(mine & (often == 1))))
        for one, mine in zip(found, no, strict=True)
    )


def _one(found: Conjunct, names: Sequence[str], alone: int) -> Judged:
    text = show(found.condition, names)
    return Judged(text, found.can_prune, found.pruned, alone, found.whole, found.why)


def _part(found: Snapshot, id_: int, question: Question | None) -> PartFacts | None:
    """A part of a snapshot, by its number."""
    places = np.flatnonzero(found.table(["id"]).column("id").to_numpy() == id_)
    if not len(places):
        return None
    place = int(places[0])
    columns = shown(found.schema, found.state.options)
    at = [found.schema.columns.index(column) for column in columns]
    types = [column.type for column in found.schema.columns]
    asked = Asked.of(found, MapFilterProject.identity(types), found.as_of)
    conditions = () if question is None else question.plan.conditions
    wanted = support(*conditions) | frozenset(at)
    specs, _ = next(iter(asked.stretches(wanted, place, place + 1)))
    bounds = [_ends(specs[i], column.name) for i, column in zip(at, columns, strict=True)]
    part = found.pick(np.array([place]))[0]
    told = tuple(one for one in bounds if one is not None)
    if question is None:
        return PartFacts(part, told)
    verdict, why = _why(conditions, Interpretation(specs, (question.now, question.now)))
    return PartFacts(part, told, verdict, why)


def _ends(specs: Specs | None, name: str) -> tuple[str, Any, Any] | None:
    """The bounds of a column in one part; None: nothing is known."""
    if specs is None or specs.type.kind not in ORDERED:
        return None
    low, high = (bound[0].as_py() for bound in specs.bounds())
    return None if low is None and high is None else (name, low, high)


def _why(conditions: Sequence[Expr], interpretation: Interpretation) -> tuple[str, tuple[str, ...]]:
    """What the filter does with the one part, and a line for each condition."""
    lines = [line for one in conditions for line in reasons(one, interpretation, 0)]
    verdict = interpretation.of(conjunction(conditions)).verdict()
    return Verdict(int(verdict[0])).name.lower(), tuple(lines)
