"""MapFilterProject: every row-by-row transformation as one map, then one filter, then one projection.

The columns of a plan are its inputs, `#0` to `#(n-1)`, followed by one column for each map expression, which
may use the columns before it. A row is kept if the AND of the predicates is true; the projection then names
the columns that leave, in any order and any number of times. Any chain of maps, filters and projections is
again one such plan, so the methods that build it (`map`, `filter`, `project`, `then`) speak of the columns
that leave it so far, and return a new plan.

    SELECT a->'f'->'x', a->'f'->'y' FROM t WHERE b > 1            over t (a jsonb, b int4)

    plan = identity((JSONB, INT4)).filter(#1 > 1).map(#0 -> 'f' -> 'x', #0 -> 'f' -> 'y').project((2, 3))
    plan.optimise()
        Map #0 -> 'f', #2 -> 'x', #2 -> 'y'
        Filter #1 > 1
        Project (#3, #4)
    plan.demand()                     columns 0 and 1; a source need not decode any others

**What a plan means**, errors included, is said by its *normal form*: the predicates and the outputs, each
written over the inputs alone (`conditions`, `outputs`). Of a row,

1. the predicates are combined by AND as everywhere: False beats an error, an error beats NULL, NULL beats
   True; so neither their order nor their evaluation order shows;
2. where that is False or NULL the row is gone, where it is an error the row has failed, whatever the outputs
   would be;
3. else the outputs are evaluated; if any fails the row has failed, with the smallest message.

A map expression that nothing uses is therefore never evaluated and never fails, and one that only a predicate
uses fails only as that predicate does. Two plans with equal normal forms are the same plan; `optimise` and
`then` keep it.

Every reader and source is offered the plan, does what it can and leaves the rest (`take`, `partition`, in
`take.py`): running what was taken and then what was left gives the same rows and the same failures as running
the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.expr.build import conjuncts
from tidegate.expr.show import show
from tidegate.expr.tree import Call, Column, Expr, Literal, Now, has_now, permute, rewrite, support
from tidegate.expr.types import BOOL, MZ_TIMESTAMP, Type

if TYPE_CHECKING:
    from tidegate.plan.safe import SafePlan
    from tidegate.plan.take import Partition, Split
    from tidegate.plan.temporal import TemporalPlan


@dataclass(frozen=True)
class MapFilterProject:
    """A value; see the module's docstring for what it means. Start from `identity`.

    Invariants: `expressions[i]` and the predicates use columns below their place only; predicates are bool;
    `projection` names existing columns.
    """

    inputs: tuple[Type, ...]
    expressions: tuple[Expr, ...]
    predicates: tuple[Expr, ...]
    projection: tuple[int, ...]

    def __post_init__(self) -> None:
        for place, expression in enumerate(self.expressions, len(self.inputs)):
            if max(support(expression), default=-1) >= place:
                raise ValueError(f"column #{place} uses columns that come after it")
        width = len(self.inputs) + len(self.expressions)
        read = support(*self.predicates) | set(self.projection)
        if max(read, default=-1) >= width or min(read, default=0) < 0:
            raise ValueError(f"there are only {width} columns")
        if any(predicate.type != BOOL for predicate in self.predicates):
            raise ValueError("a predicate must be a condition")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Not by the types of its inputs: there may be many, and plans over others rarely meet.
        return hash((len(self.inputs), self.expressions, self.predicates, self.projection))

    def __reduce__(self) -> tuple[type[MapFilterProject], tuple[Any, ...]]:
        # The hash is this process's own; the rest that is kept is soon made again.
        return MapFilterProject, (self.inputs, self.expressions, self.predicates, self.projection)

    # ---------------------------------------------------------------- building

    @staticmethod
    def identity(inputs: Sequence[Type]) -> MapFilterProject:
        """The plan that gives every row as it is."""
        return MapFilterProject(tuple(inputs), (), (), tuple(range(len(inputs))))

    def map(self, *expressions: Expr) -> MapFilterProject:
        """New columns behind those that leave; each may use the new ones before it."""
        made, leaving = list(self.expressions), list(self.projection)
        for expression in expressions:
            made.append(permute(expression, leaving))
            leaving.append(len(self.inputs) + len(made) - 1)
        return replace(self, expressions=tuple(made), projection=tuple(leaving))

    def filter(self, *conditions: Expr) -> MapFilterProject:
        """Only the rows for which all conditions hold; an AND is taken apart."""
        parts = [permute(part, self.projection) for condition in conditions for part in conjuncts(condition)]
        return replace(self, predicates=(*self.predicates, *parts))

    def project(self, columns: Iterable[int]) -> MapFilterProject:
        """Only these of the columns that leave, in this order."""
        return replace(self, projection=tuple(self.projection[column] for column in columns))

    def then(self, after: MapFilterProject) -> MapFilterProject:
        """This plan, and then `after` on what leaves it."""
        if after.arity != len(self.projection):
            raise ValueError(f"{len(self.projection)} columns leave, but {after.arity} are expected")
        return self.map(*after.expressions).filter(*after.predicates).project(after.projection)

    def permute(
        self, positions: Mapping[int, int] | Sequence[int], inputs: Sequence[Type]
    ) -> MapFilterProject:
        """The same plan over other inputs: what was column i is column `positions[i]` of them.

        Columns that the plan does not demand need no position; so a source may leave them out:

            plan.permute({1: 0, 4: 1}, (INT4, TEXT))      columns 1 and 4 were decoded, and are now 0 and 1
        """
        given = dict(enumerate(positions)) if not isinstance(positions, Mapping) else positions
        slim = self._without_undemanded()
        missing = slim.demand() - given.keys()
        if missing:
            raise ValueError(f"the plan reads column #{min(missing)}, which has no position")
        moved = {**given, **{slim.arity + i: len(inputs) + i for i in range(len(slim.expressions))}}
        return MapFilterProject(
            tuple(inputs),
            tuple(permute(expression, moved) for expression in slim.expressions),
            tuple(permute(predicate, moved) for predicate in slim.predicates),
            tuple(moved[column] for column in slim.projection),
        )

    def at(self, now: int) -> MapFilterProject:
        """The plan of a query that is asked at one time: `mz_now()` is a constant, and may stand anywhere."""
        literal = Literal(pa.scalar(now, MZ_TIMESTAMP.arrow), MZ_TIMESTAMP)

        def known(expr: Expr) -> Expr:
            return (
                rewrite(expr, lambda node: literal if isinstance(node, Now) else node)
                if has_now(expr)
                else expr
            )

        return replace(
            self,
            expressions=tuple(map(known, self.expressions)),
            predicates=tuple(map(known, self.predicates)),
        )

    # ---------------------------------------------------------------- reading

    @property
    def arity(self) -> int:
        """How many columns come in."""
        return len(self.inputs)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """The types of the columns that leave."""
        return tuple(self._type(column) for column in self.projection)

    @property
    def is_identity(self) -> bool:
        """Whether every row leaves as it came: nothing is left to do."""
        return not self.predicates and self.projection == tuple(range(self.arity))

    @cached_property
    def conditions(self) -> tuple[Expr, ...]:
        """The predicates, written over the inputs."""
        return tuple(expand(predicate, self.arity, self._values) for predicate in self.predicates)

    @cached_property
    def outputs(self) -> tuple[Expr, ...]:
        """What leaves, column by column, written over the inputs."""
        return tuple(self._values[column] for column in self.projection)

    @property
    def is_temporal(self) -> bool:
        """Whether `mz_now()` decides anything."""
        return any(has_now(expr) for expr in (*self.conditions, *self.outputs))

    def demand(self) -> frozenset[int]:
        """The input columns that the result depends on; all others need not be read or decoded."""
        return self._demand

    @cached_property
    def _demand(self) -> frozenset[int]:
        return support(*self.conditions, *self.outputs)

    def as_map_filter_project(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[int, ...]]:
        """The map expressions, the predicates and the projection, as they are written."""
        return self.expressions, self.predicates, self.projection

    def literal_constraints(self) -> dict[int, Literal]:
        """The input columns that must be equal to a constant, by the predicates `column = constant`."""
        found: dict[int, Literal] = {}
        for condition in self.conditions:
            match condition:
                case Call(function, (Column(index), Literal() as value)) if function.name == "=":
                    found.setdefault(index, value)
                case Call(function, (Literal() as value, Column(index))) if function.name == "=":
                    found.setdefault(index, value)
                case _:
                    pass
        return found

    def show(self) -> str:
        """As EXPLAIN prints it: a line each for Map, Filter and Project, of those that do anything."""
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

    @cached_property
    def _values(self) -> tuple[Expr, ...]:
        """Every column, written over the inputs."""
        values: list[Expr] = [Column(i, type_) for i, type_ in enumerate(self.inputs)]
        for expression in self.expressions:
            values.append(expand(expression, self.arity, values))
        return tuple(values)

    def _type(self, column: int) -> Type:
        return self.inputs[column] if column < self.arity else self.expressions[column - self.arity].type

    def _without_undemanded(self) -> MapFilterProject:
        """The plan without the map expressions that nothing uses."""
        wanted = set(self.projection) | support(*self.predicates)
        for i in reversed(range(len(self.expressions))):
            if self.arity + i in wanted:
                wanted |= support(self.expressions[i])
        kept = [i for i in range(len(self.expressions)) if self.arity + i in wanted]
        if len(kept) == len(self.expressions):
            return self
        place = {i: i for i in range(self.arity)} | {
            self.arity + i: self.arity + at for at, i in enumerate(kept)
        }
        return MapFilterProject(
            self.inputs,
            tuple(permute(self.expressions[i], place) for i in kept),
            tuple(permute(predicate, place) for predicate in self.predicates),
            tuple(place[column] for column in self.projection),
        )

    # ---------------------------------------------------------------- done elsewhere, asked for here

    def optimise(self) -> MapFilterProject:
        """The same plan with least work: see `optimise.py`."""
        from tidegate.plan.optimise import optimised

        return optimised(self)

    def take(self, accept: Callable[[Expr], bool]) -> Split:
        """What a source takes that can do what `accept` says yes to, and what it leaves: see `take.py`."""
        from tidegate.plan.take import take

        return take(self, accept)

    def take_all(self) -> Split:
        """Everything is taken."""
        from tidegate.plan.take import Split

        return Split(self, MapFilterProject.identity(self.types))

    def take_demand(self) -> Split:
        """Only the choice of columns is taken: what is demanded, in order."""
        from tidegate.plan.take import take

        return take(self, lambda _: False)

    def partition(self, available: Iterable[int]) -> Partition:
        """What can be done with the `available` columns, and what must wait for others: see `take.py`."""
        from tidegate.plan.take import partition

        return partition(self, frozenset(available))

    def extract_temporal(self) -> tuple[MapFilterProject, MapFilterProject]:
        """All that does not depend on time, and then the temporal predicates: see `temporal.py`."""
        from tidegate.plan.temporal import extract_temporal

        return extract_temporal(self)

    def into_plan(self) -> SafePlan | TemporalPlan:
        """A plan that can be maintained as time passes; a PlanError if `mz_now()` sets no bounds."""
        from tidegate.plan.safe import SafePlan
        from tidegate.plan.temporal import TemporalPlan

        return TemporalPlan(self) if self.is_temporal else SafePlan(self)


def expand(expr: Expr, arity: int, values: Sequence[Expr]) -> Expr:
    """`expr` with the columns from `arity` on replaced by their `values`; input columns keep their names."""
    if max(support(expr), default=-1) < arity:
        return expr
    return rewrite(
        expr, lambda node: values[node.index] if isinstance(node, Column) and node.index >= arity else node
    )


def _operand(predicate: Expr) -> str:
    text = show(predicate, names=False)
    return f"({text})" if isinstance(predicate, Call) and predicate.function.name == "or" else text


def identity(inputs: Sequence[Type]) -> MapFilterProject:
    """The plan that gives every row as it is."""
    return MapFilterProject.identity(inputs)
