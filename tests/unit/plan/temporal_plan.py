"""The updates that a temporal plan leads to: what `decompose` must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import to_numpy
from tidegate.expr.model.types import MZ_TIMESTAMP
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import Failures, SafePlan
from tidegate.plan.temporal import decompose


class Updates(NamedTuple):
    """What a temporal plan gives for a batch: rows that appear, then rows that disappear."""

    columns: list[pa.Array]
    times: np.ndarray
    diffs: np.ndarray
    failures: Failures


@dataclass(frozen=True)
class TemporalPlan:
    """A plan that gives each row a life, from its time or a later lower bound to its upper bound."""

    mfp: MapFilterProject
    safe: SafePlan = field(init=False, compare=False)
    """The work that does not depend on time; of a plan that is temporal, with the bounds as last columns."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "safe", SafePlan(decompose(self.mfp).safe))

    def evaluate(
        self,
        columns: Sequence[pa.Array],
        rows: int,
        times: np.ndarray,
        diffs: np.ndarray,
        until: int | None = None,
    ) -> Updates:
        """What rows that arrive at `times` with `diffs` lead to; updates at `until` or later are left out."""
        got = self.safe.evaluate(columns, rows)
        unbounded = pa.nulls(len(got.selection), MZ_TIMESTAMP.arrow)
        values, (low, high) = got.columns, (unbounded, unbounded)
        if self.mfp.is_temporal:
            *values, low, high = got.columns
        arrived, diff = times[got.selection], diffs[got.selection]
        lower = np.where(_known(low), np.maximum(arrived, to_numpy(low)), arrived)
        upper, ends = to_numpy(high), _known(high)
        appears = ~ends | (lower < upper)
        if until is not None:
            appears &= lower < until
            ends &= upper < until
        on, off = np.flatnonzero(appears), np.flatnonzero(appears & ends)
        both = np.concatenate([on, off])
        return Updates(
            [pc.take(value, pa.array(both)) for value in values],
            np.concatenate([lower[on], upper[off]]),
            np.concatenate([diff[on], -diff[off]]),
            got.failures,
        )


def _known(bound: pa.Array) -> np.ndarray:
    known: np.ndarray = bound.is_valid().to_numpy(zero_copy_only=False)
    return known
