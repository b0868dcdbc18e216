"""The part of a plan that a format takes over: the columns it reads, and a filter that can run first.

    staged, left = split_stages(plan, 2)            a plan over two columns of the format, followed by included ones
    staged.first                                    columns to decode for every record
    staged.before                                   a plan over these
    staged.later                                    columns to decode for the records that pass it
    staged.columns                                  the output of both stages, the first inputs of `left`

The conditions that read only columns of the format are evaluated first, if `plan.partition` determines that this is exact:
a condition that another one protects from failing is evaluated together with it, in `left`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.expr.model import Type, support
from tidegate.ingest.protocol import Columns
from tidegate.plan import MapFilterProject, partition
from tidegate.plan.run import SafePlan


@dataclass(frozen=True)
class StagedPlan:
    """Columns to decode for all records, a plan over them, and columns to decode for records that pass."""

    first: tuple[int, ...]
    before: SafePlan
    later: tuple[int, ...]
    columns: Columns

    @property
    def filters(self) -> bool:
        """Whether the first stage can drop records."""
        return bool(self.before.mfp.predicates)


@dataclass
class Pace:
    """The share of records that passed the first stage; if most do, one stage is cheaper."""

    passed: float = 0.0


def split_stages(plan: MapFilterProject, width: int) -> tuple[StagedPlan, MapFilterProject]:
    """Splits a plan into two decoding stages and the rest; the first `width` columns are the format's."""
    if plan.is_temporal:
        columns, left = restrict_to_demand(plan, width)
        nothing = MapFilterProject.identity(()).project(())
        return StagedPlan((), SafePlan(nothing), columns, _numbered([plan.inputs[c] for c in columns])), left
    reads = [support(condition) for condition in plan.conditions]
    available = frozenset[int]().union(*(columns for columns in reads if max(columns, default=width) < width))
    parts = partition(plan, available)
    later = tuple(column for column in parts.later if column < width)
    included = [column - width for column in parts.later if column >= width]
    types = [*parts.before.types, *(plan.inputs[column] for column in later)]
    place = {i: i for i in range(len(types))} | {
        len(types) + i: len(types) + column for i, column in enumerate(included)
    }
    left = parts.after.permute(place, (*types, *plan.inputs[width:]))
    return StagedPlan(parts.first, SafePlan(parts.before), later, _numbered(types)), left


def restrict_to_demand(plan: MapFilterProject, width: int) -> tuple[tuple[int, ...], MapFilterProject]:
    """Returns the format's columns that a plan reads, and the plan over these and all included columns."""
    columns = tuple(sorted(column for column in plan.demand() if column < width))
    place = {column: i for i, column in enumerate(columns)} | {
        width + i: len(columns) + i for i in range(plan.arity - width)
    }
    return columns, plan.permute(place, (*(plan.inputs[c] for c in columns), *plan.inputs[width:]))


def _numbered(types: Sequence[Type]) -> Columns:
    return tuple((f"c{i}", type_) for i, type_ in enumerate(types))
