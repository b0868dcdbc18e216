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
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.interpret import Interpretation
from tidegate.expr.reasons import reasons
from tidegate.expr.specs import Specs, Verdict
from tidegate.expr.tree import support
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.verdict import Verdicts, verdicts
from tidegate.shard.change import Part
from tidegate.shard.parts import from_table
from tidegate.shard.reader import Snapshot
from tidegate.shard.schema import Schema


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
    specs: tuple[Specs | None, ...] = ()
    now: int = 0

    def why(self, kept: int) -> tuple[str, list[str]]:
        """Of the kept part at this place: its verdict, and a line for each condition."""
        assert self.verdicts is not None
        assert self.kept is not None
        part = int(self.kept[kept])
        interpretation = Interpretation(self.specs, (self.now, self.now))
        lines = [
            line
            for condition, _ in self.verdicts.by_condition
            for line in reasons(condition, interpretation, part)
        ]
        return Verdict(self.verdicts.verdict[part]).name.lower(), lines


def prune(snapshot: Snapshot, mfp: MapFilterProject, now: int, *, use: bool) -> Pruned:
    """Asks the statistics of all parts at once; `mfp` is over all columns of the snapshot's schema."""
    table = snapshot.table()
    total, size = snapshot.state.parts.count, snapshot.state.parts.size
    retracts = pc.any(table.column("retracts"), min_count=0).as_py()
    if not use or not mfp.predicates or (retracts and not _exact(mfp)):
        return Pruned(total, size, from_table(table), retracts)
    specs = _specs(table, snapshot, mfp.demand())
    found = verdicts(mfp, specs, (now, now), table.num_rows)
    kept = np.flatnonzero(found.keep)
    whole = len(kept) == table.num_rows
    return Pruned(
        total, size, from_table(table.take(pa.array(kept))), retracts, whole, found, kept, specs, now
    )


def _exact(mfp: MapFilterProject) -> bool:
    """Whether rows that are equal are the same to all conditions."""
    return all(mfp.inputs[i].identity_is_equality for i in support(*mfp.conditions))


def _specs(table: pa.Table, snapshot: Snapshot, demand: frozenset[int]) -> tuple[Specs | None, ...]:
    """What each column of the schema may be in each part; None for those that the plan does not ask for."""
    frame = snapshot.frame()
    columns = snapshot.schema.columns
    written = table.column("schema").to_numpy()
    absent = {id_: np.isin(written, lacking) for id_, lacking in _lacking(snapshot).items() if lacking}
    wanted = sorted(demand)
    found = frame.specs([(columns[i].id, columns[i].type) for i in wanted], absent)
    known = dict(zip(wanted, found, strict=True))
    return tuple(known.get(i) for i in range(len(columns)))


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
