"""Every `duckdb=` form of the registry: DuckDB's value is ours for every row of poison values.

A form that is wrong for one of them is a wrong answer of the embedded engine; so is one that fails in a condition, since DuckDB
evaluates conditions in an order of its own. A form that may fail must fail for just the rows for which our kernel does: it is used
only for values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.laws.cases import cases
from tests.laws.engine_cases import ROWS, Case, engine_cases, same
from tidegate.expr.duckdb_sql import duckdb_sql, duckdb_type, from_duckdb, to_duckdb
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Call, Expr

CHUNK = 50
"""Expressions of one query."""


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with duckdb.connect() as made:
        yield made


def all_cases(seed: int) -> list[Case]:
    return engine_cases(seed, translate, lambda function: function.duckdb is not None)


def translate(expr: Expr, columns: Sequence[str]) -> str | None:
    return duckdb_sql(expr, columns, may_fail=True)


def never_fails(case: Case) -> bool:
    return duckdb_sql(case.expr, case.texts) is not None


def select(case: Case, failed: np.ndarray) -> str:
    """The value of a case; of one that may fail, for the rows for which our kernel does not."""
    text = f"CAST({translate(case.expr, case.texts)} AS {duckdb_type(case.expr.type)})"
    rows = ", ".join(map(str, np.flatnonzero(failed)))
    if rows and not never_fails(case):
        text = f"CASE WHEN row NOT IN ({rows}) THEN {text} END"
    return f"{text} AS {case.name}"


def wrong_rows(connection: Any, some: Sequence[Case]) -> list[str]:
    """What DuckDB answers otherwise than our kernels, or fails at."""
    arrays = {"row": pa.array(range(ROWS), pa.int32())}
    for case in some:
        for name, column, type_ in zip(case.texts, case.columns, case.types, strict=True):
            arrays[name] = to_duckdb(column, type_)
    connection.register("poison", pa.table(arrays))
    outcomes = [evaluate(case.expr, case.columns, ROWS) for case in some]
    failures = [
        np.zeros(ROWS, bool) if errors is None else np.asarray(errors.is_valid()) for _, errors in outcomes
    ]
    shown = [select(case, failed) for case, failed in zip(some, failures, strict=True)]
    got = connection.sql(f"SELECT row, {', '.join(shown)} FROM poison ORDER BY row").to_arrow_table()
    wrong = []
    for case, (values, _), failed in zip(some, outcomes, failures, strict=True):
        theirs = from_duckdb(got.column(case.name).combine_chunks(), case.expr.type)
        unexpected = failed if never_fails(case) else np.zeros(ROWS, bool)
        for row in np.flatnonzero(~same(values, theirs) | unexpected)[:2].tolist():
            given = ", ".join(str(column[row]) for column in case.columns)
            said = f"{translate(case.expr, case.texts)} of ({given})"
            wrong.append(f"{said}\n   ours {'fails' if failed[row] else values[row]}, DuckDB's {theirs[row]}")
        wrong += [
            text for row in np.flatnonzero(failed)[:2].tolist() for text in lenient(connection, case, row)
        ]
    return wrong


def lenient(connection: Any, case: Case, row: int) -> list[str]:
    """What DuckDB answers for a row for which our kernel fails."""
    text = f"CAST({translate(case.expr, case.texts)} AS {duckdb_type(case.expr.type)})"
    try:
        ((value,),) = connection.sql(f"SELECT {text} FROM poison WHERE row = {row}").fetchall()
    except duckdb.Error:
        return []
    return [f"{text} does not fail, but is {value}"]


@pytest.mark.parametrize("seed", range(min(cases(1), 4)))
def test_every_form(connection: Any, seed: int) -> None:
    found = all_cases(seed)
    wrong = [
        text for at in range(0, len(found), CHUNK) for text in wrong_rows(connection, found[at : at + CHUNK])
    ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
    used = {case.expr.function for case in found if isinstance(case.expr, Call)}
    assert used == {function for function in REGISTRY if function.duckdb is not None}, (
        "a form that is never used"
    )


@pytest.mark.parametrize("lie", ["({0} <= {1})", "(coalesce({0} < {1}, false))", "({1} < {0})"])
def test_a_wrong_form_is_found(connection: Any, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in REGISTRY.overloads("<"):
        monkeypatch.setitem(function.__dict__, "duckdb", lie)
    some = [case for case in all_cases(0) if case.expr.function.name == "<"]  # type: ignore[union-attr]  # calls
    plain = [case for case in some if not case.types[0].is_nested][:8]
    assert wrong_rows(connection, plain)
