"""What a format takes of a plan: the columns that are demanded, and the filter that can be asked first.

    staged, left = stages(plan, 2)                  a plan over two columns of the format, and included ones behind them
    staged.first                                    columns to decode for every record
    staged.before                                   asked of these; for what passes,
    staged.later                                    columns to decode then
    staged.columns                                  what both gave, the first inputs of `left`

The conditions that read the format's columns alone are asked first, where `plan.partition` says that this is
exact: a condition that is kept from failing by another one is asked together with it, above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.expr.tree import support
from tidegate.expr.types import Type
from tidegate.ingest.source import Columns
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import SafePlan


@dataclass(frozen=True)
class Staged:
    """Columns to decode for all records, a plan over them, and columns to decode for what passes it."""

    first: tuple[int, ...]
    before: SafePlan
    later: tuple[int, ...]
    columns: Columns

    @property
    def filters(self) -> bool:
        """Whether the first stage can drop anything."""
        return bool(self.before.mfp.predicates)


@dataclass
class Pace:
    """How many records of the last batch passed the first stage; where most do, one stage is cheaper than two."""

    passed: float = 0.0


def stages(plan: MapFilterProject, width: int) -> tuple[Staged, MapFilterProject]:
    """The plan in two stages of decoding, and what is left; the format has the first `width` columns."""
    if plan.is_temporal:
        columns, left = demanded(plan, width)
        nothing = MapFilterProject.identity(()).project(())
        return Staged((), SafePlan(nothing), columns, _numbered([plan.inputs[c] for c in columns])), left
    reads = [support(condition) for condition in plan.conditions]
    available = frozenset[int]().union(*(found for found in reads if max(found, default=width) < width))
    parts = plan.partition(available)
    later = tuple(column for column in parts.later if column < width)
    included = [column - width for column in parts.later if column >= width]
    types = [*parts.before.types, *(plan.inputs[column] for column in later)]
    place = {i: i for i in range(len(types))} | {
        len(types) + i: len(types) + column for i, column in enumerate(included)
    }
    left = parts.after.permute(place, (*types, *plan.inputs[width:]))
    return Staged(parts.first, SafePlan(parts.before), later, _numbered(types)), left


def demanded(plan: MapFilterProject, width: int) -> tuple[tuple[int, ...], MapFilterProject]:
    """The format's columns that the plan reads, and the plan over these and all included columns."""
    columns = tuple(sorted(column for column in plan.demand() if column < width))
    place = {column: i for i, column in enumerate(columns)} | {
        width + i: len(columns) + i for i in range(plan.arity - width)
    }
    return columns, plan.permute(place, (*(plan.inputs[c] for c in columns), *plan.inputs[width:]))


def _numbered(types: Sequence[Type]) -> Columns:
    return tuple((f"c{i}", type_) for i, type_ in enumerate(types))
