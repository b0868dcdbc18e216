"""What is asked of a snapshot: the plan, the shape of its result, and within which bounds it may be answered.

    question = Question(snapshot, plan.at(now).optimise(), names, shape, now, config, Watch())
    answer(question)                    `answer.py` chooses how: metadata, peek or local

Whoever reads for a question calls `question.watch.check()` between pieces of work, so that a query that is cancelled, or takes
longer than its time-out, ends there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.config import Config
from tidegate.expr.types import Type
from tidegate.plan.aggregate import Aggregation
from tidegate.plan.mfp import MapFilterProject
from tidegate.scan.sort import Shape
from tidegate.scan.turns import Turns
from tidegate.scan.watch import Watch
from tidegate.shard.reader import Snapshot


@dataclass(frozen=True, eq=False)
class Question:
    """One query over one snapshot."""

    snapshot: Snapshot
    plan: MapFilterProject
    """Over all columns of the snapshot, at `now`, optimised. That rows are valid then is among its conditions, where the
    collection's rows come and go by themselves (`shard/validity.py`): binding put it there."""
    names: tuple[str, ...]
    """Of the plan's first outputs, which are the result; others are only to sort by."""
    shape: Shape
    now: int
    config: Config
    watch: Watch = field(default_factory=Watch)
    turns: Turns = field(default_factory=Turns)
    """Where fast-path reads of this database wait for each other."""
    aggregation: Aggregation | None = None
    """What is done with the rows that leave the plan, at `now`; names and shape are then of what leaves this."""

    @property
    def result_types(self) -> tuple[Type, ...]:
        """Of the columns of the result."""
        plan = self.plan if self.aggregation is None else self.aggregation.above
        return plan.types[: len(self.names)]
