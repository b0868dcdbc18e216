"""A plan in steps: what can be done when each group of columns is there.

    steps(plan, [[2]], names)       filter url · read id, price, …        with no groups: read all in one go

What is done at each step is a plan of its own, made by `MapFilterProject.partition`: it drops only rows that surely do not pass,
and hands on what later steps need of its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tidegate.plan import MapFilterProject, partition
from tidegate.plan.run import SafePlan

MIN_STAGED_ROWS = 16_384
"""Rows of a part below which it is read in one go: its columns are a page or two each, whatever the filter says."""


@dataclass(frozen=True, eq=False)
class ScanStep:
    """One stage: its inputs in order, each a column to be read or an output of the step before."""

    inputs: tuple[tuple[bool, int], ...]
    """`(True, i)`: column i of the collection; `(False, i)`: output i of the step before."""
    plan: SafePlan
    name: str

    @cached_property
    def columns(self) -> list[int]:
        """The columns that it reads."""
        return [at for read, at in self.inputs if read]


@lru_cache(maxsize=64)
def scan_steps(
    plan: MapFilterProject, groups: tuple[tuple[int, ...], ...], names: tuple[str, ...]
) -> tuple[ScanStep, ...]:
    """Divides a plan over all columns of a collection into a step for each group of columns."""
    found: list[ScanStep] = []
    sources: list[tuple[bool, int]] = [(True, column) for column in range(plan.arity)]
    there: set[int] = set()
    for group in groups:
        there |= set(group)
        known = frozenset(i for i, (read, at) in enumerate(sources) if not read or at in there)
        if plan.demand() <= known:
            break
        cut = partition(plan, known)
        found.append(_step("filter", [sources[i] for i in cut.first], cut.before, names))
        sources = [(False, i) for i in range(len(cut.before.types))] + [sources[i] for i in cut.later]
        plan = cut.after
    demanded = sorted(plan.demand())
    types = [plan.inputs[i] for i in demanded]
    last = plan.permute({at: i for i, at in enumerate(demanded)}, types)
    return (*found, _step("read", [sources[i] for i in demanded], last, names))


def _step(
    verb: str, inputs: Sequence[tuple[bool, int]], plan: MapFilterProject, names: Sequence[str]
) -> ScanStep:
    read = [names[at] for is_read, at in inputs if is_read]
    shown = ", ".join(read[:4]) + (f" and {len(read) - 4} more" if len(read) > 4 else "")
    return ScanStep(tuple(inputs), SafePlan(plan), f"{verb} {shown or 'nothing more'}")
