"""Expressions that put every engine form of the registry to the test: a call of each overload over columns of poison values.

    for case in engine_cases(seed, spark_sql, lambda function: function.spark is not None):
        case.expr, case.columns          an expression that the engine can express, and its inputs

`spark=` forms are held to it by `tests/spark/test_expression.py`, `duckdb=` forms by `test_duckdb_forms.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.laws.boxes import pool
from tests.laws.cases import cases
from tests.laws.instances import Instance, instances
from tests.laws.poison import with_nulls
from tidegate.expr.model.build import common_type
from tidegate.expr.model.function import REGISTRY, Function
from tidegate.expr.model.tree import Call, Column, Expr, Literal
from tidegate.expr.model.types import BOOL, INT4, NUMERIC, TEXT, Type, numeric, record

ROWS = 400
ENOUGH = 4
"""Cases of an overload that has a form only for constants."""
QUICK = 3
"""Instances of an overload that are tried in any case; fifty times as many, which is all, under `make prove`."""
Translate = Callable[[Expr, Sequence[str]], str | None]
"""An expression in the words of an engine, or None."""


@dataclass
class Case:
    """An expression over columns of its own, and their values."""

    name: str
    expr: Expr
    columns: list[pa.Array]
    types: list[Type]

    @property
    def texts(self) -> list[str]:
        return [f"{self.name}_{i}" for i in range(len(self.columns))]


def argument(instance: Instance, position: int, rng: np.random.Generator) -> pa.Array:
    """Rows for one argument, NULL and NaN among them."""
    found = pool(instance.types[position], int(rng.integers(12)), instance.topic(position))
    values = pa.concat_arrays([found.values, found.nans])
    picked = values.take(pa.array(rng.integers(0, len(values), ROWS)))
    return with_nulls(rng, picked, 0.1)


def cases_of(instance: Instance, number: int, seed: int, translate: Translate) -> Iterator[Case]:
    """The call with columns; and, if it has no form so, with constants in the place of some arguments."""
    rng = np.random.default_rng([number, seed])
    args = [argument(instance, i, rng) for i in range(len(instance.types))]
    columns = [Column(i, type_) for i, type_ in enumerate(instance.types)]
    plain = Call(instance.function, tuple(columns), instance.out)
    if translate(plain, ["c"] * len(args)) is not None:
        yield Case(f"e{number}", plain, args, list(instance.types))
        return
    found = 0
    for turn in range(24):
        if found >= ENOUGH:
            return
        row = int(rng.integers(ROWS))
        for fixed in (range(1, len(args)), [0], [len(args) - 1]):
            nodes: list[Expr] = list(columns)
            for at in fixed:
                nodes[at] = Literal(args[at][row], instance.types[at])
            expr = Call(instance.function, tuple(nodes), instance.out)
            if translate(expr, ["c"] * len(args)) is not None and any(isinstance(n, Column) for n in nodes):
                found += 1
                yield Case(
                    f"e{number}_{turn}_{len(fixed)}_{min(fixed, default=0)}", expr, args, list(instance.types)
                )


def digits() -> Iterator[Instance]:
    """Numerics whose sums and products fit: the instances of the laws have the widest."""
    small = (numeric(10, 2), numeric(5, 5), numeric(12, 0), numeric(15, 9))
    for name in ("+", "-", "*", "%", "=", "<", "case", "coalesce", "greatest"):
        for one, two in itertools.product(small, small):
            types = (BOOL, one, two) if name == "case" else (one, two)
            function = next(
                f for f in REGISTRY.overloads(name) if name not in "+-*%" or f.params == (NUMERIC, NUMERIC)
            )
            out = function.result_type(types) if name != "case" else common_type(types[1:])
            assert out is not None
            yield Instance(function, types, out)


def fields() -> Iterator[Instance]:
    function = REGISTRY.overloads("field")[0]
    yield Instance(function, (record(("x", INT4), ("a `b", TEXT)), INT4), INT4)


def engine_cases(seed: int, translate: Translate, has_form: Callable[[Function], bool]) -> list[Case]:
    """In the quick profile some instances of each overload, and a fifth of the others; else all."""
    wanted = [one for one in (*instances(), *digits(), *fields()) if has_form(one.function)]
    turn: Counter[Function] = Counter()
    found: dict[str, Case] = {}
    for number, one in enumerate(wanted):
        turn[one.function] += 1
        if turn[one.function] <= cases(QUICK) or number % 5 == seed % 5:
            found |= {case.name: case for case in cases_of(one, number, seed, translate)}
    return list(found.values())


def same(ours: pa.Array, theirs: pa.Array) -> np.ndarray:
    """Row by row whether both are the same value, bit by bit but for NaN."""
    if pa.types.is_floating(ours.type):
        wide = np.uint64 if ours.type == pa.float64() else np.uint32
        a, b = (pc.fill_null(x, 0).to_numpy(zero_copy_only=False) for x in (ours, theirs))
        equal = (a.view(wide) == b.view(wide)) | (np.isnan(a) & np.isnan(b))
        both: np.ndarray = equal & (np.asarray(ours.is_null()) == np.asarray(theirs.is_null()))
        return both
    return np.array([str(a) == str(b) for a, b in zip(ours.to_pylist(), theirs.to_pylist(), strict=True)])
