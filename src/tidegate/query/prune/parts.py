"""Which parts of a snapshot a plan must read, told by their statistics; the one place that asks them.

    found = prune(snapshot, plan, now=ms, use=config.stats_filter)
    found.parts         those that may hold a row that leaves the plan, or fails
    found.why(i)        for EXPLAIN: what the i-th part's statistics say of each condition

With `use` off every part is read, and nothing else changes: NONE promises that no row of the part leaves the plan and none fails.

Where parts retract rows, statistics may drop a row's part and not that of its retraction: an insert of (1, 'a') alone in its part,
its retraction beside one of (9, 'z'), and `id > 5`. That is sound if rows are filtered before they meet (`local.py`): a retraction
carries its whole row, so the filter that drops the one drops the other. But equal must then mean identical: 0.0 retracts -0.0,
and `f::text = '-0'` passes one of them. Where conditions read floats or intervals, such a snapshot is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc

from tidegate.expr.interpret import Interpretation
from tidegate.expr.reasons import reasons
from tidegate.expr.specs import Specs, Verdict
from tidegate.expr.tree import support
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.verdict import Verdicts, verdicts
from tidegate.plan.verdict import asked as decisive
from tidegate.shard.change import Part
from tidegate.shard.known import of_parts
from tidegate.shard.reader import Snapshot
from tidegate.shard.schema import Schema
from tidegate.stats.frame import Frame

T = TypeVar("T")
REMEMBERED = 4096
"""Parts up to which what their statistics say of a plan is kept for the next query; of more it were too large."""
BITS = 62
"""Conditions that are told apart where it is noted which of them are proven; further ones are simply asked."""


@dataclass(frozen=True, eq=False)
class Pruned:
    """What is left to be read."""

    total: int
    size: int
    """Parts of the collection, and their bytes: those that begin later or have ended are left out as well."""
    snapshot: Snapshot
    retracts: bool
    """Whether rows must meet what retracts them."""
    whole: bool = True
    """Whether no part was left out that has begun and not ended."""
    verdicts: Verdicts | None = None
    """Of every part that has begun and not ended; None where statistics were not asked."""
    kept: np.ndarray | None = None
    """The places of the parts that must be read, among those that have begun and not ended; None: all of these."""
    asked: Asked | None = None

    @property
    def left(self) -> int:
        """How many parts must be read."""
        return self.snapshot.table(["retracts"]).num_rows if self.kept is None else len(self.kept)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts that must be read, as values: made when asked for, since there may be a million."""
        return self.snapshot.parts() if self.kept is None else self.snapshot.pick(self.kept)

    def first(self, count: int) -> list[Part]:
        """Some of the parts that must be read, without making values of all."""
        if "parts" in self.__dict__:
            return self.parts[:count]
        return self.snapshot.pick(
            np.arange(min(count, self.left)) if self.kept is None else self.kept[:count]
        )

    def proven(self) -> list[int]:
        """Of each kept part, the conditions that every row passes: a bit for each, in the order of `verdicts.by_condition`."""
        if self.verdicts is None or self.kept is None:
            return [0] * self.left
        bits = np.zeros(len(self.kept), np.int64)
        for i, (_, verdict) in enumerate(self.verdicts.by_condition[:BITS]):
            bits |= (verdict[self.kept] == Verdict.ALL).astype(np.int64) << i
        found: list[int] = bits.tolist()
        return found

    def passing(self) -> np.ndarray:
        """Of each kept part, whether every row passes the filter."""
        if self.verdicts is None or self.kept is None:
            return np.zeros(self.left, bool)
        every: np.ndarray = self.verdicts.verdict[self.kept] == Verdict.ALL
        return every

    def why(self, kept: int) -> tuple[str, list[str]]:
        """Of the kept part at this place: its verdict, and a line for each condition."""
        assert self.verdicts is not None
        assert self.kept is not None
        assert self.asked is not None
        part = int(self.kept[kept])
        specs, at = self.asked.of_part(part)
        interpretation = Interpretation(specs, (self.asked.now, self.asked.now))
        lines = [
            line
            for condition, _ in self.verdicts.by_condition
            for line in reasons(condition, interpretation, at)
        ]
        return Verdict(self.verdicts.verdict[part]).name.lower(), lines


def prune(snapshot: Snapshot, mfp: MapFilterProject, now: int, *, use: bool) -> Pruned:
    """Asks the statistics of all parts at once; `mfp` is over all columns of the snapshot's schema."""
    table = snapshot.table(["retracts", "schema"])
    total, size = snapshot.state.parts.count, snapshot.state.parts.size
    retracts = pc.any(table.column("retracts"), min_count=0).as_py()
    if not use or not mfp.predicates or (retracts and not exact(mfp)):
        return Pruned(total, size, snapshot, retracts)

    def ask() -> tuple[Asked, Verdicts]:
        asked = Asked(snapshot, mfp, table.column("schema").to_numpy(), now)
        return asked, asked.verdicts()

    asked, found = known(snapshot, mfp, now, "verdicts", ask) if table.num_rows <= REMEMBERED else ask()
    kept = np.flatnonzero(found.keep)
    whole = len(kept) == table.num_rows
    return Pruned(total, size, snapshot, retracts, whole, found, kept, asked)


def known(snapshot: Snapshot, mfp: MapFilterProject, now: int, what: Hashable, make: Callable[[], T]) -> T:
    """What a query that asks the same of the same parts found out before; else it is made."""
    when = now if mfp.is_temporal else None  # other plans do not depend on it
    return of_parts(snapshot.state.parts).get((what, snapshot.as_of, snapshot.schema.id, mfp, when), make)


class Asked:
    """A plan that is put to the statistics of a snapshot, a stretch of parts after the other."""

    def __init__(self, snapshot: Snapshot, mfp: MapFilterProject, written: np.ndarray, now: int) -> None:
        """`written`: the version of the schema that each part was written with."""
        self.mfp, self.now, self.written = mfp, now, written
        self.columns = snapshot.schema.columns
        self.frames = [*snapshot.frames()] or [Frame(np.zeros(0, np.int64), {})]
        self.begins = np.cumsum([0, *(len(frame) for frame in self.frames)])
        self.lacking = lacking(snapshot)

    @staticmethod
    def of(snapshot: Snapshot, mfp: MapFilterProject, now: int) -> Asked:
        """The plan put to the parts of a snapshot."""
        return Asked(snapshot, mfp, snapshot.table(["schema"]).column("schema").to_numpy(), now)

    def verdicts(self, begin: int = 0, end: int | None = None) -> Verdicts:
        """The verdict of every part, or of those from place `begin` to before `end`."""
        found = [
            verdicts(self.mfp, specs, (self.now, self.now), count)
            for specs, count in self.stretches(decisive(self.mfp), begin, end)
        ]
        conditions = [condition for condition, _ in found[0].by_condition]
        each = [np.concatenate([one.by_condition[i][1] for one in found]) for i in range(len(conditions))]
        return Verdicts(
            np.concatenate([one.verdict for one in found]),
            np.concatenate([one.may_fail for one in found]),
            tuple(zip(conditions, each, strict=True)),
            np.concatenate([one.filter_may_fail for one in found]),
        )

    def stretches(
        self, wanted: frozenset[int], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[tuple[Specs | None, ...], int]]:
        """What each wanted column may be in the parts of a stretch, and how many those are; there is one at least."""
        end = int(self.begins[-1]) if end is None else end
        for i, frame in enumerate(self.frames):
            first, last = int(self.begins[i]), int(self.begins[i + 1])
            if max(first, begin) < min(last, end) or (i == 0 and begin >= end):
                some = frame.slice(max(begin - first, 0), min(end, last) - first)
                yield self._specs(some, max(first, begin), wanted), len(some)

    def _specs(self, frame: Frame, begin: int, wanted: frozenset[int]) -> tuple[Specs | None, ...]:
        """What each column may be in some parts; None for those that are not wanted."""
        written = self.written[begin : begin + len(frame)]
        absent = {id_: np.isin(written, those) for id_, those in self.lacking.items() if those}
        order = sorted(wanted)
        asked = [(self.columns[at].id, self.columns[at].type) for at in order]
        known = dict(zip(order, frame.specs(asked, absent), strict=True))
        return tuple(known.get(at) for at in range(len(self.columns)))

    def of_part(self, part: int) -> tuple[tuple[Specs | None, ...], int]:
        """The same for the stretch that a part is in, and its place there."""
        i = int(np.searchsorted(self.begins, part, side="right")) - 1
        begin = int(self.begins[i])
        return self._specs(self.frames[i], begin, decisive(self.mfp)), part - begin


def exact(mfp: MapFilterProject) -> bool:
    """Whether rows that are equal are the same to all conditions."""
    return all(mfp.inputs[i].identity_is_equality for i in support(*mfp.conditions))


def lacking(snapshot: Snapshot) -> dict[int, list[int]]:
    """For each column the versions of the schema that do not have it: parts written with them hold NULLs."""
    if len(snapshot.state.schemas) == 1:
        return {column.id: [] for column in snapshot.schema.columns}
    versions = {
        given["id"]: {column.id for column in Schema.from_json(given).columns}
        for given in snapshot.state.schemas
    }
    return {
        column.id: [version for version, ids in versions.items() if column.id not in ids]
        for column in snapshot.schema.columns
    }
