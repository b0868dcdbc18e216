"""Random typed expressions over columns, grown from the registry: whatever is declared may occur in them.

An expression of a wanted type is a column, a literal, or a call of an overload that gives that type, its
arguments grown the same way. What chooses or combines (CASE, COALESCE, AND, OR, NOT, IN, JSON paths,
comparisons) is taken more often, since that is where claims of several functions meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tests.laws.boxes import VARIANTS, pool
from tests.laws.constants import TABLE
from tests.laws.instances import Instance, callable_by_users, instances
from tidegate.errors import TidegateError
from tidegate.expr.model import build
from tidegate.expr.model.function import Function
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    MZ_TIMESTAMP,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Kind,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

COLUMNS = (
    BOOL, INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC, numeric(10, 2), TEXT, DATE, TIMESTAMP, TIMESTAMPTZ,
    INTERVAL, UUID, JSONB, JSONB,
    MZ_TIMESTAMP, array(INT4), record(("x", INT4), ("y", TEXT)), INT4, TEXT, TIMESTAMPTZ,
)  # fmt: skip
"""The columns of every random batch; those that filters use most stand twice, so that two columns meet."""

OFTEN = {
    "and": 6, "or": 6, "not": 2, "case": 5, "coalesce": 4, "in": 3, "=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3,
    "<>": 2, "is null": 2,
    "is distinct from": 2, "->": 4, "->>": 4, "#>": 2, "#>>": 2, "+": 3, "-": 3, "*": 2, "cast": 6,
    "date_trunc": 3, "greatest": 2, "least": 2,
}  # fmt: skip
FIXED = {"date_trunc", "date_part", "extract", "at time zone", "timezone", "like", "ilike", "~~", "~~*",
    "->", "->>", "#>", "#>>", "?", "to_char", "~",
         "encode", "decode", "date_bin", "in"}  # fmt: skip
"""Functions whose arguments from a short list, or arrays, are constants nearly always, as in real filters."""


@lru_cache(None)
def vocabulary() -> dict[Kind, dict[str, list[Instance]]]:
    """All instances a user can call, by the kind of the result and by name."""
    return by_kind([i for i in instances() if callable_by_users(i)])


def by_kind(found: Sequence[Instance]) -> dict[Kind, dict[str, list[Instance]]]:
    """Instances by the kind of the result and by name."""
    result: dict[Kind, dict[str, list[Instance]]] = {}
    for instance in found:
        result.setdefault(instance.out.kind, {}).setdefault(instance.function.name, []).append(instance)
    return result


class Grower:
    """Grows expressions with one random generator."""

    def __init__(
        self, rng: np.random.Generator, words: dict[Kind, dict[str, list[Instance]]] | None = None
    ) -> None:
        self.rng = rng
        self.words = vocabulary() if words is None else words

    def grow(self, type_: Type, depth: int) -> Expr:
        """An expression of about that type: its kind is right, a numeric's scale may differ."""
        if depth <= 0 or self.rng.random() < 0.12:
            return self.leaf(type_)
        for _ in range(4):
            instance = self.pick(type_)
            if instance is None:
                break
            try:
                return self.call(instance, depth)
            except TidegateError:
                continue  # an array literal that cannot be folded, a scale that does not fit: another one
        return self.leaf(type_)

    def pick(self, type_: Type) -> Instance | None:
        """An overload that gives the type: first a name by weight, then one of its instances."""
        names = self.words.get(type_.kind, {})
        if not names:
            return None
        weights = np.array(
            [6 if planted(f[0].function) else OFTEN.get(n, 1) for n, f in names.items()], float
        )
        name = self.rng.choice(list(names), p=weights / weights.sum())
        fitting = [i for i in names[name] if not type_.is_nested or i.out == type_]
        return fitting[int(self.rng.integers(len(fitting)))] if fitting else None

    def call(self, instance: Instance, depth: int) -> Expr:
        """A call of that overload; casts that it needs are put in."""
        name = instance.function.name
        args = []
        for i, type_ in enumerate(instance.types):
            topic = instance.topic(i)
            constant = topic in TABLE or (name in FIXED and (type_.is_nested or type_.kind is Kind.INTERVAL))
            if constant and self.rng.random() < (0.95 if name in FIXED else 0.5):
                args.append(self.literal(type_, topic))
            else:
                args.append(self.grow(type_, depth - 1 - int(self.rng.integers(2))))
        return self.make(instance, args)

    def make(self, instance: Instance, args: Sequence[Expr]) -> Expr:
        """The call as SQL would bind it."""
        if instance.function.name == "cast":
            return build.cast(args[0], instance.out)
        if instance.function.name == "case":
            branches = list(zip(args[::2], args[1::2], strict=False))
            return build.case(branches, args[-1] if len(args) % 2 else None)
        if planted(instance.function):
            return Call(instance.function, tuple(args), instance.out)
        return build.call(instance.function.name, *args)

    def leaf(self, type_: Type) -> Expr:
        """A column of the type if there is one, else a literal; sometimes `mz_now()`."""
        if type_.kind is Kind.MZ_TIMESTAMP and self.rng.random() < 0.7:
            return Now()
        places = [i for i, t in enumerate(COLUMNS) if t.same_kind(type_)]
        if places and self.rng.random() < 0.75:
            at = int(self.rng.choice(places))
            return Column(at, COLUMNS[at], f"c{at}")
        return self.literal(type_)

    def literal(self, type_: Type, topic: tuple[str, int] | None = None) -> Expr:
        """A constant from the pool of the type or of the topic; now and then NULL or NaN."""
        values = pool(type_, int(self.rng.integers(VARIANTS)), topic)
        value = values.values[int(self.rng.integers(len(values)))]
        if self.rng.random() < 0.03:
            value = pa.scalar(None, type_.arrow)
        elif len(values.nans) and self.rng.random() < 0.05:
            value = values.nans[0]
        return Literal(value, type_)


def planted(function: Function) -> bool:
    """Whether the registry does not know this function: a lie of the tests."""
    return function.doc == "planted"
