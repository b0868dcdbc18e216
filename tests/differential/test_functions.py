"""Every declared function over poison rows, on ours and in a real PostgreSQL: equal values, and errors in the
same rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.differential.differences import Row, on_purpose
from tests.differential.postgres import NotThere, Postgres, ours, same
from tests.differential.speak import ours_alone, quoted, spell
from tests.laws.boxes import pool
from tests.laws.cases import cases
from tests.laws.instances import Instance, callable_by_users, instances
from tests.laws.poison import with_nulls
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model.types import Type
from tidegate.sql.bind.query import bind_expression

pytestmark = pytest.mark.postgres
ROWS = 150
"""Rows of one comparison. Where a row fails PostgreSQL is asked row by row, 50 µs each."""


def compared() -> list[Instance]:
    """What both sides have."""
    return [i for i in instances() if callable_by_users(i) and i.types and not ours_alone(i)]


def rows_for(instance: Instance, rng: np.random.Generator) -> list[pa.Array]:
    """Arguments: pools joined at random, a few NULLs."""
    arrays = []
    for i, type_ in enumerate(instance.types):
        values = pool(type_, int(rng.integers(12)), instance.topic(i))
        both = pa.concat_arrays([values.values, values.nans])
        arrays.append(with_nulls(rng, both.take(pa.array(rng.integers(0, len(both), ROWS))), 0.03))
    return arrays


def differences(
    sql: str, exact: bool, columns: list[tuple[str, Type]], arrays: list[pa.Array], postgres: Postgres
) -> list[str]:
    """The rows in which both sides differ, but for what differs on purpose."""
    bound = bind_expression(sql, columns)
    values, errors = Evaluation(arrays, len(arrays[0])).of(bound)[0]
    mine = ours(bound.type, values)
    messages = [None] * len(mine) if errors is None else errors.to_pylist()
    theirs, complaints = postgres.evaluate(sql, bound.type)
    types = [type_ for _, type_ in columns]
    found = []
    for i, (a, b, failed, complaint) in enumerate(zip(mine, theirs, messages, complaints, strict=True)):
        if failed is None and complaint is None:
            equal = same(bound.type, a, b, exact)
        else:
            equal = failed is not None and complaint is not None
        args = [array[i].as_py() for array in arrays] if not equal else []
        if not equal and on_purpose(Row(sql, bound.type, types, args, a, b, failed, complaint)) is None:
            given = (
                f"{n} = {quoted(t, v[i])}" for (n, t), v in zip(columns, arrays, strict=True) if n in sql
            )
            left, right = (
                f"error {e}" if e is not None else repr(v) for v, e in ((a, failed), (b, complaint))
            )
            found.append(f"{sql} with {', '.join(given)}: ours {left}, PostgreSQL's {right}")
    return found


@pytest.mark.parametrize("instance", compared(), ids=str)
def test_function(instance: Instance, postgres: Postgres) -> None:
    """One batch of 150 rows under `make test`: pools hold about 100 values, so a unary function sees most of
    them.
    """
    for case in range(cases(1)):
        rng = np.random.default_rng([case, *map(ord, str(instance))])
        columns = [(f"a{i}", type_) for i, type_ in enumerate(instance.types)]
        arrays = rows_for(instance, rng)
        names = [name for name, _ in columns]
        if instance.function.name == "extract":
            arrays[0] = pa.repeat(arrays[0][0], ROWS)
            names[0] = quoted(instance.types[0], arrays[0][0]).removesuffix("::text")
        postgres.load(columns, arrays)
        try:
            found = differences(spell(instance, names), instance.function.exact, columns, arrays, postgres)
        except NotThere as reason:
            pytest.fail(f"PostgreSQL does not have it: {reason}")
        assert not found, "\n".join([f"{len(found)} of {ROWS} rows differ", *found[:10]])
