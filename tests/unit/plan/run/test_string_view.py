"""A plan over texts that came as views gives what it gives over the texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.config import Config
from tidegate.expr.functions.text.pattern import like_infix
from tidegate.expr.model.types import TEXT
from tidegate.plan import MapFilterProject
from tidegate.plan.run import SafePlan
from tidegate.plan.run.safe_plan import PlanOutput
from tidegate.plan.run.string_view import evaluate_string_view
from tidegate.query.late import staged_scan as late
from tidegate.sql.bind import query as bind

CONDITIONS = (
    "x LIKE '%a%'",
    "x LIKE '%é%'",
    "x LIKE '%ab%' AND length(x) > 2",
    "x LIKE 'a%'",
    "x NOT LIKE '%a%'",
    "x ILIKE '%A%'",
    r"x LIKE '%\%%'",
    "x LIKE '%%'",
    "x LIKE NULL",
    "x = 'ab'",
    "x LIKE '%a%' OR x IS NULL",
)
OUTPUTS = ("x", "upper(x) || '!'", "x::int4")


@pytest.mark.parametrize("condition", CONDITIONS)
@given(texts=st.lists(st.none() | st.text("abé%1 \\", max_size=20)), extra=st.text("ab", max_size=3))
def test_the_same_rows_columns_and_failures(condition: str, texts: list[str | None], extra: str) -> None:
    where = bind.bind_expression(condition, [("x", TEXT)])
    outputs = [bind.bind_expression(output, [("x", TEXT)]) for output in OUTPUTS]
    plan = SafePlan(MapFilterProject.identity((TEXT,)).filter(where).map(*outputs).project([0, 1, 2, 3]))
    given_ = pa.array([*texts, extra * 9], pa.string())
    want, got = (
        plan.evaluate([given_], len(given_)),
        evaluate_string_view(plan, given_.cast(pa.string_view()), TEXT),
    )
    assert got.selection.tolist() == want.selection.tolist()
    assert [column.to_pylist() for column in got.columns] == [column.to_pylist() for column in want.columns]
    assert [column.type for column in got.columns] == [column.type for column in want.columns]
    assert got.failures.rows.tolist() == want.failures.rows.tolist()
    assert got.failures.messages.to_pylist() == want.failures.messages.to_pylist()


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("%a%", "a"),
        (r"%50\%%", "50%"),
        ("%a", None),
        ("a%", None),
        ("%a_b%", None),
        ("%%", None),
        ("%a\\", None),
    ],
)
def test_what_is_looked_for(pattern: str, wanted: str | None) -> None:
    assert like_infix(pattern) == wanted


def test_queries_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a column of many long texts, which polars decodes."""
    lengths: list[int] = []

    def counted(plan: SafePlan, column: pa.Array, *more: Any) -> PlanOutput:
        lengths.append(len(column))
        return evaluate_string_view(plan, column, *more)

    monkeypatch.setattr(late, "evaluate_string_view", counted)
    rng = np.random.default_rng(5)
    texts = [rng.bytes(32).hex() for _ in range(50_000)]
    with tidegate.open("memory://", config=Config(read_threads=1)) as db:
        db.sql("CREATE TABLE t (id int8, s text)")
        db.append("t", {"id": list(range(len(texts))), "s": texts})
        found = db.sql("SELECT s FROM t WHERE s LIKE '%abcd%'")
    assert [row[0] for row in found.rows()] == [text for text in texts if "abcd" in text]
    assert sum(lengths) > len(texts) / 2, (
        "the first rows, of which nobody knows how wide they are, are read apart"
    )
