"""MapFilterProject: every row-by-row transformation as one map, then one filter, then one projection.

The columns of a plan are its inputs, `#0` to `#(n-1)`, followed by one column for each map expression, which
may use the columns before it. A row passes if the AND of the predicates is true; the projection then lists
the output columns, in any order and any number of times. Any chain of maps, filters and projections is
again one such plan, so the methods that build it (`map`, `filter`, `project`, `select`, `then`) refer to the
output columns so far, and return a new plan.

    SELECT a->'f'->'x', a->'f'->'y' FROM t WHERE b > 1            over t (a jsonb, b int4)

    plan = MapFilterProject.identity((JSONB, INT4)).filter(#1 > 1).select((#0 -> 'f' -> 'x', #0 -> 'f' -> 'y'))
    plan.optimise()
        Map #0 -> 'f', #2 -> 'x', #2 -> 'y'
        Filter #1 > 1
        Project (#3, #4)
    plan.demand()                     columns 0 and 1; a source need not decode any others

**The meaning of a plan**, errors included, is its *normal form*: the predicates and the outputs, each
written over the inputs alone (`conditions`, `outputs`). For each row,

1. the predicates are combined by AND as everywhere: False beats an error, an error beats NULL, NULL beats
   True; so neither their order nor their evaluation order matters;
2. if the AND is False or NULL the row is dropped; if it is an error the row fails, whatever the outputs
   would be;
3. otherwise the outputs are evaluated; if any fails the row fails, with the smallest message.

A map expression that nothing uses is therefore never evaluated and never fails, and one that only a predicate
uses fails only as that predicate does. Two plans with equal normal forms are the same plan; `optimise` and
`then` preserve it.

Every reader and source is offered the plan, does what it can and leaves the rest (`take`, `partition`, in
`divide.py`): running the taken plan and then the rest gives the same rows and the same failures as running
the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tidegate.expr.evaluate import normal_form
from tidegate.expr.model import Call, Expr, Type, show, subexpressions


@dataclass(frozen=True)
class MapFilterProject:
    """A row-by-row plan, as an immutable value. Start from `identity`.

    Invariants: `expressions[i]` and the predicates use only columns before their own; predicates are bool;
    `projection` lists existing columns.
    """

    inputs: tuple[Type, ...]
    expressions: tuple[Expr, ...]
    predicates: tuple[Expr, ...]
    projection: tuple[int, ...]

    def __post_init__(self) -> None:
        fault = subexpressions.find_fault(
            len(self.inputs), self.expressions, self.predicates, self.projection
        )
        if fault is not None:
            raise ValueError(fault)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Without the input types: there may be many, and plans over different inputs rarely meet in one cache.
        return hash((len(self.inputs), self.expressions, self.predicates, self.projection))

    def __reduce__(self) -> tuple[type[MapFilterProject], tuple[Any, ...]]:
        # Cached properties stay behind: the hash differs between processes, the others are cheap to compute.
        return MapFilterProject, (self.inputs, self.expressions, self.predicates, self.projection)

    # ---------------------------------------------------------------- building

    @staticmethod
    def identity(inputs: Sequence[Type]) -> MapFilterProject:
        """The plan that returns every row unchanged."""
        return MapFilterProject(tuple(inputs), (), (), tuple(range(len(inputs))))

    def map(self, *expressions: Expr) -> MapFilterProject:
        """Appends an output column for each expression; an expression may use those before it."""
        maps, projection = normal_form.append_maps(self.arity, self.expressions, self.projection, expressions)
        return replace(self, expressions=maps, projection=projection)

    def filter(self, *conditions: Expr) -> MapFilterProject:
        """Keeps the rows for which all conditions hold; an AND becomes several predicates."""
        parts = normal_form.split_and_permute(conditions, self.projection)
        return replace(self, predicates=(*self.predicates, *parts))

    def project(self, columns: Iterable[int]) -> MapFilterProject:
        """Keeps these output columns, in this order."""
        return replace(self, projection=tuple(self.projection[column] for column in columns))

    def select(self, expressions: Sequence[Expr]) -> MapFilterProject:
        """Replaces the output columns by expressions over them; equal expressions are computed once."""
        maps, places = normal_form.distinct_maps(expressions, len(self.projection))
        return (self.map(*maps) if maps else self).project(places)

    def then(self, after: MapFilterProject) -> MapFilterProject:
        """This plan followed by `after` on its output."""
        if after.arity != len(self.projection):
            raise ValueError(
                f"the plan has {len(self.projection)} output columns, {after.arity} are expected"
            )
        return self.map(*after.expressions).filter(*after.predicates).project(after.projection)

    def rebuild(self, conditions: Sequence[Expr], outputs: Sequence[Expr]) -> MapFilterProject:
        """A plan over the same inputs with this normal form; shared subexpressions become map columns."""
        return MapFilterProject(self.inputs, *subexpressions.factor(self.arity, conditions, outputs))

    def optimise(self) -> MapFilterProject:
        """The equivalent plan with the least work (`expr/evaluate/normal_form.py`); a fixed point."""
        return MapFilterProject(
            self.inputs, *normal_form.least_work(self.arity, self.conditions, self.outputs)
        )

    def permute(
        self, positions: Mapping[int, int] | Sequence[int], inputs: Sequence[Type]
    ) -> MapFilterProject:
        """The same plan over other inputs: column i becomes column `positions[i]`.

        Columns that the plan does not demand need no position, so a source may leave them out:

            plan.permute({1: 0, 4: 1}, (INT4, TEXT))      columns 1 and 4 were decoded, and are now 0 and 1
        """
        places = dict(enumerate(positions)) if not isinstance(positions, Mapping) else positions
        slim = self._without_unused_maps()
        missing = slim.demand() - places.keys()
        if missing:
            raise ValueError(f"the plan reads column #{min(missing)}, which has no position")
        moved = {**places, **{slim.arity + i: len(inputs) + i for i in range(len(slim.expressions))}}
        return MapFilterProject(
            tuple(inputs),
            subexpressions.permute_all(slim.expressions, moved),
            subexpressions.permute_all(slim.predicates, moved),
            tuple(moved[column] for column in slim.projection),
        )

    def at(self, now: int) -> MapFilterProject:
        """The plan of a one-shot query at time `now`: `mz_now()` becomes a constant and may stand anywhere."""
        count = len(self.expressions)
        resolved = normal_form.resolve_now((*self.expressions, *self.predicates), now)
        return replace(self, expressions=resolved[:count], predicates=resolved[count:])

    # ---------------------------------------------------------------- reading

    @property
    def arity(self) -> int:
        """The number of input columns."""
        return len(self.inputs)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """The types of the output columns."""
        every = (*self.inputs, *(expression.type for expression in self.expressions))
        return tuple(every[column] for column in self.projection)

    @property
    def is_identity(self) -> bool:
        """Whether the plan returns every row unchanged."""
        return not self.predicates and self.projection == tuple(range(self.arity))

    @cached_property
    def _normal_form(self) -> normal_form.NormalForm:
        return normal_form.normalise(self.inputs, self.expressions, self.predicates, self.projection)

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """The predicates, written over the inputs."""
        return self._normal_form.conditions

    @property
    def outputs(self) -> tuple[Expr, ...]:
        """The output columns, written over the inputs."""
        return self._normal_form.outputs

    @property
    def is_temporal(self) -> bool:
        """Whether a predicate or output uses `mz_now()`."""
        return self._normal_form.is_temporal

    def demand(self) -> frozenset[int]:
        """The input columns that the result depends on; others need not be read or decoded."""
        return self._normal_form.demand

    def show(self) -> str:
        """The text for EXPLAIN: a line each for Map, Filter and Project, without those that do nothing."""
        lines = []
        if self.expressions:
            lines.append("Map " + ", ".join(show(expression, names=False) for expression in self.expressions))
        if self.predicates:
            lines.append("Filter " + " AND ".join(map(_operand, self.predicates)))
        if self.projection != tuple(range(self.arity + len(self.expressions))):
            lines.append(f"Project ({', '.join(f'#{column}' for column in self.projection)})")
        return "\n".join(lines) or "Identity"

    def __str__(self) -> str:
        return self.show()

    def _without_unused_maps(self) -> MapFilterProject:
        """The plan without map expressions that nothing uses."""
        maps = subexpressions.used_maps(self.arity, self.expressions, self.predicates, self.projection)
        if len(maps) == len(self.expressions):
            return self
        place = {i: i for i in range(self.arity)} | {
            self.arity + old: self.arity + new for new, old in enumerate(maps)
        }
        return MapFilterProject(
            self.inputs,
            subexpressions.permute_all((self.expressions[i] for i in maps), place),
            subexpressions.permute_all(self.predicates, place),
            tuple(place[column] for column in self.projection),
        )


def _operand(predicate: Expr) -> str:
    text = show(predicate, names=False)
    return f"({text})" if isinstance(predicate, Call) and predicate.function.name == "or" else text
