"""Random nested expressions, written as SQL text that both sides read: binder, evaluator and PostgreSQL agree
on every row.

Left out are those whose difference on purpose would travel through the expression: numerics beyond a column
and its sums (PostgreSQL tracks scale by value), floating point whose last digit is free, JSON as text.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.differential.postgres import Postgres
from tests.differential.speak import quoted, spell
from tests.differential.test_functions import compared, differences
from tests.laws.boxes import VARIANTS, pool
from tests.laws.cases import cases
from tests.laws.constants import TABLE
from tests.laws.grow import OFTEN, by_kind
from tests.laws.instances import Instance
from tests.laws.poison import with_nulls
from tidegate.errors import TidegateError
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Kind,
    Type,
    array,
    numeric,
)  # fmt: skip

pytestmark = pytest.mark.postgres
COLUMNS = [
    (f"c{i}", type_)
    for i, type_ in enumerate(
        (
            BOOL,
            INT2,
            INT4,
            INT4,
            INT8,
            FLOAT8,
            numeric(10, 2),
            TEXT,
            TEXT,
            DATE,
            TIMESTAMP,
            TIMESTAMPTZ,
            INTERVAL,
            UUID,
            JSONB,
            array(INT4),
        )
    )
]
ROWS = 60
"""Rows of a batch: where one fails, PostgreSQL is asked row by row."""
EXPRESSIONS = 40
"""Expressions over a batch: 40 × 20 batches in `make test` are 800, some 30 seconds."""
LEFT_OUT = {
    "repeat", "lpad", "rpad", "chr", "regexp_replace", "to_char", "extract", "date_part", "md5", "greatest",
    "least", "round", "like", "ilike",
    "not like", "not ilike", "overlay", "right", "to_jsonb", "jsonb_build_array", "jsonb_build_object",
    "jsonb_pretty", "jsonb_path_exists", "jsonb_path_match", "jsonb_path_query_array", "jsonb_path_query_first", "@?", "@@",
    "format", "unistr", "width_bucket",
}  # fmt: skip
"""Each is compared by itself (test_functions.py); here they would only repeat their own differences, or grow
texts without end.
"""


TIMES = {Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL}


def simple(instance: Instance) -> bool:
    """Whether equal arguments give equal results on both sides."""
    function, out, given = instance.function, instance.out.kind, {t.kind for t in instance.types}
    if function.name in LEFT_OUT or not function.exact or Kind.FLOAT4 in {*given, out}:
        return False
    if function.name == "cast" and Kind.TEXT in given and out in TIMES:
        return False  # PostgreSQL reads times from much that is hardly one: "1024" and "2024-" are times
    if Kind.INTERVAL in given and function.name in ("*", "/", "timezone"):
        return False  # it keeps 600,000 hours as hours, and wraps an offset of years
    if out is Kind.TEXT and given & {Kind.JSONB, Kind.FLOAT8, Kind.NUMERIC}:
        return False
    return out is not Kind.NUMERIC or function.name in ("+", "-", "case", "coalesce")


@lru_cache(None)
def words() -> dict[Kind, dict[str, list[Instance]]]:
    """What expressions are made of."""
    return by_kind([i for i in compared() if simple(i)])


class Writer:
    """Writes random SQL text."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def write(self, type_: Type, depth: int) -> str:
        """An expression of the type's kind."""
        names = words().get(type_.kind, {})
        if depth <= 0 or not names or self.rng.random() < 0.15:
            return self.leaf(type_)
        weights = np.array([OFTEN.get(name, 1) for name in names], float)
        found = names[self.rng.choice(list(names), p=weights / weights.sum())]
        fitting = [i for i in found if not type_.is_nested or i.out == type_]
        if not fitting:
            return self.leaf(type_)
        instance = fitting[int(self.rng.integers(len(fitting)))]
        args = [self.argument(instance, i, depth) for i in range(len(instance.types))]
        # Of constants alone PostgreSQL computes the value, or the error, before it looks at any row.
        return spell(instance, args) if any("c" in a and _reads(a) for a in args) else self.leaf(type_)

    def argument(self, instance: Instance, position: int, depth: int) -> str:
        """One argument; a constant where only a few values mean something."""
        type_, topic = instance.types[position], instance.topic(position)
        if topic in TABLE and type_.kind is not Kind.JSONB and instance.function.name != "cast":
            return self.literal(type_, topic)
        return self.write(type_, depth - 1 - int(self.rng.integers(2)))

    def leaf(self, type_: Type) -> str:
        """A column, or a literal where there is none of the type."""
        places = [name for name, t in COLUMNS if t.same_kind(type_)]
        if places and self.rng.random() < 0.85:
            return str(self.rng.choice(places))
        return self.literal(type_)

    def literal(self, type_: Type, topic: tuple[str, int] | None = None) -> str:
        """A constant, never NULL: PostgreSQL folds a strict call of NULL without looking at its other
        arguments.
        """
        values = pool(type_, int(self.rng.integers(VARIANTS)), topic).values
        return quoted(type_, values[int(self.rng.integers(len(values)))])


def _reads(text: str) -> bool:
    return any(f"{name}" in text for name, _ in COLUMNS)


def batch(rng: np.random.Generator) -> list[pa.Array]:
    """Rows for all columns."""
    arrays = []
    for _, type_ in COLUMNS:
        values = pool(type_, int(rng.integers(VARIANTS)))
        both = pa.concat_arrays([values.values, values.nans])
        arrays.append(with_nulls(rng, both.take(pa.array(rng.integers(0, len(both), ROWS))), 0.05))
    return arrays


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(20), phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_expressions(postgres: Postgres, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = batch(rng)
    postgres.load(COLUMNS, arrays)
    writer = Writer(rng)
    kinds = list(words())
    for _ in range(EXPRESSIONS):
        kind = BOOL.kind if rng.random() < 0.5 else kinds[int(rng.integers(len(kinds)))]
        outs = list({i.out for found in words()[kind].values() for i in found})
        sql = writer.write(outs[int(rng.integers(len(outs)))], int(rng.integers(1, 4)))
        try:
            found = differences(sql, True, COLUMNS, arrays, postgres)
        except TidegateError as error:
            error.add_note(sql)
            raise
        assert not found, "\n".join(found[:5])
