"""The normal form of a row-by-row plan: its conditions and outputs, written over the inputs alone.

A plan (`plan/mfp.py`) maps expressions, filters by predicates and projects columns. `normalise` computes what it means,
`least_work` simplifies that (`simplify.py`) and writes it as the plan with the least work (`expr/model/subexpressions.py`). The
other functions build plans step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from tidegate.expr.evaluate.simplify import simplify_expression
from tidegate.expr.model.build import conjunction, conjuncts
from tidegate.expr.model.subexpressions import expand, expand_maps, factor, sort_conditions
from tidegate.expr.model.tree import Column, Expr, Literal, Now, has_now, permute, rewrite, support
from tidegate.expr.model.types import MZ_TIMESTAMP, Type

PlanParts: TypeAlias = tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[int, ...]]
"""Map expressions, predicates and projection."""


class NormalForm(NamedTuple):
    """What a plan means, over its inputs alone."""

    conditions: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    demand: frozenset[int]
    """The input columns that it reads."""
    is_temporal: bool
    """Whether it uses `mz_now()`."""


def normalise(
    inputs: Sequence[Type], expressions: Sequence[Expr], predicates: Sequence[Expr], projection: Sequence[int]
) -> NormalForm:
    """The normal form of a plan."""
    values = expand_maps(inputs, expressions)
    conditions = expand(predicates, len(inputs), values)
    outputs = tuple(values[column] for column in projection)
    every = (*conditions, *outputs)
    return NormalForm(conditions, outputs, support(*every), any(map(has_now, every)))


def least_work(arity: int, conditions: Sequence[Expr], outputs: Sequence[Expr]) -> PlanParts:
    """The plan with the least work for a normal form."""
    condition = simplify_expression(conjunction(conditions))
    simple = [simplify_expression(output) for output in outputs]
    return factor(arity, sort_conditions(conjuncts(condition)), simple)


def split_and_permute(conditions: Iterable[Expr], positions: Sequence[int]) -> tuple[Expr, ...]:
    """The conjuncts of conditions, with column i read from `positions[i]`."""
    return tuple(permute(part, positions) for condition in conditions for part in conjuncts(condition))


def append_maps(
    arity: int, maps: Sequence[Expr], projection: Sequence[int], expressions: Iterable[Expr]
) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """Map expressions and projection with a further output for each expression over the projection."""
    new_maps, new_projection = list(maps), list(projection)
    for expression in expressions:
        new_maps.append(permute(expression, new_projection))
        new_projection.append(arity + len(new_maps) - 1)
    return tuple(new_maps), tuple(new_projection)


def distinct_maps(expressions: Sequence[Expr], width: int) -> tuple[list[Expr], list[int]]:
    """Returns the distinct non-column expressions, and where each expression is after `width` columns."""
    place: dict[Expr, int] = {}
    maps: list[Expr] = []
    for expression in expressions:
        if isinstance(expression, Column):
            place[expression] = expression.index
        elif expression not in place:
            place[expression] = width + len(maps)
            maps.append(expression)
    return maps, [place[expression] for expression in expressions]


def resolve_now(exprs: Iterable[Expr], now: int) -> tuple[Expr, ...]:
    """Expressions with `mz_now()` replaced by a time."""
    literal = Literal(pa.scalar(now, MZ_TIMESTAMP.arrow), MZ_TIMESTAMP)
    return tuple(
        rewrite(expr, lambda node: literal if isinstance(node, Now) else node) if has_now(expr) else expr
        for expr in exprs
    )
