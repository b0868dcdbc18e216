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

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from tidegate.expr.interpret import Interpretation
from tidegate.expr.reasons import reasons
from tidegate.expr.specs import Specs, Verdict
from tidegate.expr.tree import support
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.verdict import Verdicts, verdicts
from tidegate.shard.change import Part
from tidegate.shard.reader import Snapshot
from tidegate.shard.schema import Schema
from tidegate.stats.frame import Frame


@dataclass(frozen=True, eq=False)
class Pruned:
    """What is left to be read."""

    total: int
    size: int
    """Parts of the collection, and their bytes: those that begin later or have ended are left out as well."""
    parts: list[Part]
    """The parts that must be read."""
    retracts: bool
    """Whether rows must meet what retracts them."""
    whole: bool = True
    """Whether no part was left out that has begun and not ended."""
    verdicts: Verdicts | None = None
    """Of every part that has begun and not ended; None where statistics were not asked."""
    kept: np.ndarray | None = None
    asked: _Asked | None = None

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
    if not use or not mfp.predicates or (retracts and not _exact(mfp)):
        return Pruned(total, size, snapshot.parts(), retracts)
    asked = _Asked(snapshot, mfp, table.column("schema").to_numpy(), now)
    found = asked.verdicts()
    kept = np.flatnonzero(found.keep)
    whole = len(kept) == table.num_rows
    return Pruned(total, size, snapshot.pick(kept), retracts, whole, found, kept, asked)


class _Asked:
    """A plan that is put to the statistics of a snapshot, a stretch of parts after the other."""

    def __init__(self, snapshot: Snapshot, mfp: MapFilterProject, written: np.ndarray, now: int) -> None:
        """`written`: the version of the schema that each part was written with."""
        self.mfp, self.now, self.written = mfp, now, written
        self.columns = snapshot.schema.columns
        self.frames = [*snapshot.frames()] or [Frame(np.zeros(0, np.int64), {})]
        self.begins = np.cumsum([0, *(len(frame) for frame in self.frames)])
        self.lacking = _lacking(snapshot)

    def verdicts(self) -> Verdicts:
        """The verdict of every part."""
        found = [
            verdicts(self.mfp, self.specs(i), (self.now, self.now), len(frame))
            for i, frame in enumerate(self.frames)
        ]
        conditions = [condition for condition, _ in found[0].by_condition]
        each = [np.concatenate([one.by_condition[i][1] for one in found]) for i in range(len(conditions))]
        return Verdicts(
            np.concatenate([one.verdict for one in found]),
            np.concatenate([one.may_fail for one in found]),
            tuple(zip(conditions, each, strict=True)),
        )

    def specs(self, i: int) -> tuple[Specs | None, ...]:
        """What each column may be in the parts of a stretch; None for those that the plan does not ask for."""
        written = self.written[self.begins[i] : self.begins[i + 1]]
        absent = {id_: np.isin(written, lacking) for id_, lacking in self.lacking.items() if lacking}
        wanted = sorted(self.mfp.demand())
        asked = [(self.columns[at].id, self.columns[at].type) for at in wanted]
        known = dict(zip(wanted, self.frames[i].specs(asked, absent), strict=True))
        return tuple(known.get(at) for at in range(len(self.columns)))

    def of_part(self, part: int) -> tuple[tuple[Specs | None, ...], int]:
        """The same for the stretch that a part is in, and its place there."""
        i = int(np.searchsorted(self.begins, part, side="right")) - 1
        return self.specs(i), part - int(self.begins[i])


def _exact(mfp: MapFilterProject) -> bool:
    """Whether rows that are equal are the same to all conditions."""
    return all(mfp.inputs[i].identity_is_equality for i in support(*mfp.conditions))


def _lacking(snapshot: Snapshot) -> dict[int, list[int]]:
    """For each column the versions of the schema that do not have it: parts written with them hold NULLs."""
    versions = {
        given["id"]: {column.id for column in Schema.from_json(given).columns}
        for given in snapshot.state.schemas
    }
    return {
        column.id: [version for version, ids in versions.items() if column.id not in ids]
        for column in snapshot.schema.columns
    }
