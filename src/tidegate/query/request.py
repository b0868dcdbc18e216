"""ScanRequest: a query over one snapshot, with the shape of its result and the limits it runs within.

    request = ScanRequest(snapshot, plan.at(now).optimise(), names, shape, now, config, CancelToken())
    answer(request)                    `choose.py` chooses how: metadata, peek or local

Code that reads for a request calls `request.cancel.check()` between pieces of work, so that a query that is cancelled or exceeds
its time-out ends there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tidegate.config import Config
from tidegate.expr.model import Type
from tidegate.plan import Aggregation, MapFilterProject
from tidegate.query.admission import PeekSlots
from tidegate.query.cancellation import CancelToken
from tidegate.query.sort import ResultShape
from tidegate.storage.shard import Snapshot


@dataclass(frozen=True, eq=False)
class ScanRequest:
    """One query over one snapshot."""

    snapshot: Snapshot
    plan: MapFilterProject
    """Over all columns of the snapshot, at `now`, optimised. Where rows of the collection expire, the condition that a row is
    valid at `now` is among its conditions (`storage/shard/validity.py`): binding adds it."""
    names: tuple[str, ...]
    """Of the plan's first outputs, which are the result; further outputs are only sorted by."""
    shape: ResultShape
    now: int
    config: Config
    cancel: CancelToken = field(default_factory=CancelToken)
    peek_slots: PeekSlots = field(default_factory=PeekSlots)
    """Bounds the concurrent fast-path reads of the database."""
    aggregation: Aggregation | None = None
    """Groups the plan's output, at `now`; names and shape then describe the output of the aggregation."""
    audit_random: random.Random = field(default_factory=random.Random)
    """Chooses the parts and pages that are audited."""

    @property
    def result_types(self) -> tuple[Type, ...]:
        """The types of the columns of the result."""
        plan = self.plan if self.aggregation is None else self.aggregation.above
        return plan.types[: len(self.names)]
