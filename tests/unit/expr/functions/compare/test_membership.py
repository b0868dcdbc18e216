"""IN, ANY and ALL: nulls, odd equalities, long lists, and binary search over containers."""

import datetime as dt
import random
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.laws.admits import admits
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import NO, YES, Specs, Verdict
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.functions.compare import membership
from tidegate.expr.model.build import call, literal, null
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT8,
    INT8,
    INTERVAL,
    TEXT,
    TIMESTAMPTZ,
    UUID,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

NAN = float("nan")
UTC = dt.UTC


def member(type_: Type, values: list[Any], name: str = "in") -> Expr:
    return call(name, Column(0, type_, "x"), literal(values, array(type_)))


def given(expr: Expr, *columns: pa.Array) -> list[Any]:
    values, errors = evaluate(expr, columns)
    assert errors is None
    return list(values.to_pylist())


@pytest.mark.parametrize(
    ("type_", "rows", "listed", "expected"),
    [
        (INT8, [1, 2, None], [1, 5], [True, False, None]),
        (INT8, [1, 2, None], [1, None], [True, None, None]),
        (INT8, [1, None], [], [False, False]),
        (INT8, [1, None], [None], [None, None]),
        (BOOL, [True, False, None], [True], [True, False, None]),
        (FLOAT8, [NAN, -NAN, -0.0, 1.0], [NAN, 0.0], [True, True, True, False]),
        (FLOAT8, [0.0, -0.0], [-0.0], [True, True]),
        (
            INTERVAL,
            [(0, 30, 0), (1, 0, 0), (0, 29, 86_400_000_000_000), (0, 31, 0)],
            [(1, 0, 0)],
            [True, True, True, False],
        ),
        (TEXT, ["a", "", "é"], ["", "é"], [False, True, True]),
        (BYTEA, [b"a", b"\x00"], [b"\x00"], [False, True]),
        (UUID, [b"a" * 16, b"b" * 16], [b"b" * 16], [False, True]),
        (numeric(5, 2), [Decimal("1.50"), Decimal("2.00")], [Decimal("1.50")], [True, False]),
        (array(INT8), [[1], [2, None], []], [[2, None], []], [False, True, True]),
        (record(("x", INT8)), [{"x": 1}, {"x": None}], [{"x": None}], [False, True]),
    ],
    ids=str,
)
def test_in(type_: Type, rows: list[Any], listed: list[Any], expected: list[Any]) -> None:
    column = pa.array(rows, type_.arrow)
    assert given(member(type_, listed), column) == expected
    assert given(member(type_, listed), pa.concat_arrays([column, column])[len(rows) :]) == expected
    # The same by the general kernel, which compares pairs.
    general = call("in", Column(0, type_), Column(1, array(type_)))
    assert given(general, column, pa.array([listed] * len(rows), array(type_).arrow)) == expected
    negated = [None if e is None else not e for e in expected]
    assert given(member(type_, listed, "all <>"), column) == negated


def test_numerics_of_different_scale() -> None:
    x = Column(0, numeric(5, 1))
    wide = call("in", x, literal([Decimal("1.50"), Decimal("1.55")], array(numeric(5, 2))))
    assert given(wide, pa.array([Decimal("1.5"), Decimal("1.6")], x.type.arrow)) == [True, False]


@pytest.mark.parametrize(
    ("name", "listed", "expected"),
    [
        # PostgreSQL: SELECT x < ANY('{…}') FROM (VALUES (1), (5), (NULL)) AS t (x)
        ("any <", [2, 4], [True, False, None]),
        ("any <", [2, None], [True, None, None]),
        ("any <", [], [False, False, False]),
        ("all <", [6, 9], [True, True, None]),
        ("all <", [2, None], [None, False, None]),
        ("all <", [], [True, True, True]),
        ("any <>", [1, 1], [False, True, None]),
        ("any <>", [1, 5], [True, True, None]),
        ("all =", [1, 1], [True, False, None]),
        ("all =", [1, None], [None, False, None]),
        ("any >=", [5, 7], [False, True, None]),
        ("all >=", [5, 1], [False, True, None]),
        ("any <=", [1], [True, False, None]),
        ("all >", [None], [None, None, None]),
    ],
)
def test_quantifiers(name: str, listed: list[int | None], expected: list[Any]) -> None:
    column = pa.array([1, 5, None], pa.int64())
    assert given(member(INT8, listed, name), column) == expected
    general = call(name, Column(0, INT8), Column(1, array(INT8)))
    assert given(general, column, pa.array([listed] * 3, pa.list_(pa.int64()))) == expected


def test_a_null_array_gives_null() -> None:
    for name in ("in", "any <", "all <>"):
        assert given(call(name, Column(0, INT8), null(array(INT8))), pa.array([1, None], pa.int64())) == [
            None,
            None,
        ]


def test_ragged_arrays_and_slices() -> None:
    x = pa.array([9, 1, 2, 3, None], pa.int64())[1:]
    arrays = pa.array([None, [1, 2], [], None, [3]], pa.list_(pa.int64()))[1:]
    assert given(call("in", Column(0, INT8), Column(1, array(INT8))), x, arrays) == [True, False, None, None]


# ---------------------------------------------------------------- over containers


def verdicts(expr: Expr, specs: Specs) -> list[Verdict]:
    return [Verdict(v) for v in Interpretation([specs]).of(expr).verdict()]


def test_the_table_of_the_module() -> None:
    x = Specs.ranged(INT8, pa.array([2, 4, 5, 10, None]), pa.array([4, 7, 5, 20, 0]))
    assert verdicts(member(INT8, [9, 1, 5]), x) == [
        Verdict.NONE, Verdict.SOME, Verdict.ALL, Verdict.NONE, Verdict.NONE,
    ]  # fmt: skip


def test_constants_that_fill_a_range() -> None:
    x = Specs.ranged(INT8, pa.array([1, 1, -(2**63)]), pa.array([3, 4, 2**63 - 1]))
    assert verdicts(member(INT8, [3, 2, 1, 7]), x) == [Verdict.ALL, Verdict.SOME, Verdict.SOME]
    days = pa.array([dt.date(2024, 2, 28)])
    dates = Specs.ranged(DATE, days, pa.array([dt.date(2024, 3, 1)]))
    assert verdicts(
        member(DATE, [dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]), dates
    ) == [Verdict.ALL]


def test_null_and_nan_in_the_list() -> None:
    x = Specs.ranged(INT8, pa.array([1, 7]), pa.array([1, 8]))
    specs = Interpretation([x]).of(member(INT8, [1, None]))
    assert specs.null.tolist() == [False, True]
    assert specs.false is not None
    assert not specs.false.any()
    f = Specs.ranged(FLOAT8, pa.array([1.0, 1.0]), pa.array([2.0, 2.0]), nan=np.array([False, True]))
    assert verdicts(member(FLOAT8, [NAN]), f) == [Verdict.NONE, Verdict.SOME]
    assert verdicts(member(FLOAT8, [5.0]), f) == [Verdict.NONE, Verdict.NONE]


@pytest.mark.parametrize(
    ("type_", "low", "high", "listed", "hit"),
    [
        (TEXT, "b", "d", ["a", "c"], True),
        (TEXT, "b", "d", ["a", "e"], False),
        (BYTEA, b"b", b"d", [b"c"], True),
        (UUID, b"b" * 16, b"d" * 16, [b"e" * 16, b"a" * 16], False),
        (UUID, b"b" * 16, b"d" * 16, [b"c" * 16], True),
        (numeric(5, 2), Decimal("1.50"), Decimal("1.60"), [Decimal("1.55"), Decimal("9.00")], True),
        (numeric(5, 2), Decimal("1.50"), Decimal("1.60"), [Decimal("1.49"), Decimal("1.61")], False),
        (INTERVAL, (0, 29, 0), (0, 31, 0), [(1, 0, 0)], True),
        (INTERVAL, (0, 31, 0), (0, 32, 0), [(1, 0, 0), (2, 0, 0)], False),
        (
            TIMESTAMPTZ,
            dt.datetime(2024, 1, 1, tzinfo=UTC),
            dt.datetime(2024, 2, 1, tzinfo=UTC),
            [dt.datetime(2024, 1, 15, tzinfo=UTC)],
            True,
        ),
        (array(INT8), [1], [2], [[1, 5]], True),
        (BOOL, False, False, [True], False),
    ],
    ids=str,
)
def test_every_type_prunes(type_: Type, low: Any, high: Any, listed: list[Any], hit: bool) -> None:
    bounds = [pa.array([bound], type_.arrow) for bound in (low, high)]
    specs = Specs.ranged(type_, *bounds, **({"nan": NO} if type_.is_float else {}))
    got = Interpretation([specs]).of(member(type_, listed))
    assert got.true is not None
    assert got.true.tolist() == [hit]


def test_quantifiers_prune_by_the_range_of_constants() -> None:
    x = Specs.ranged(INT8, pa.array([1, 7]), pa.array([3, 9]))
    assert verdicts(member(INT8, [5, 6], "any <"), x) == [Verdict.ALL, Verdict.NONE]
    assert verdicts(member(INT8, [5, 6], "all >"), x) == [Verdict.NONE, Verdict.ALL]
    assert verdicts(member(INT8, [], "all >"), x) == [Verdict.ALL]


def test_elements_of_a_column_prune() -> None:
    elements = Specs.ranged(INT8, pa.array([5, 5]), pa.array([9, 6]), null=YES)
    arrays = Specs.ranged(array(INT8), None, None, element=elements)
    found = call("in", literal(7, INT8), Column(0, array(INT8)))
    assert verdicts(found, arrays) == [Verdict.SOME, Verdict.NONE]


@pytest.mark.parametrize("seed", range(10))
def test_soundness(seed: int) -> None:
    """400 containers of one row each, values that often meet the list."""
    rng, n = np.random.default_rng(seed), 400
    row, null_row = rng.integers(-6, 7, n), rng.random(n) < 0.15
    low, high = row - rng.integers(0, 3, n), row + rng.integers(0, 3, n)
    lists = [
        None if rng.random() < 0.1 else rng.integers(-6, 7, rng.integers(0, 4)).tolist() for _ in range(n)
    ]
    arrays = pa.array(lists, pa.list_(pa.int64()))
    element = Specs.ranged(INT8, pa.array([-6]), pa.array([6]))
    columns = [
        pa.array(row, mask=null_row),
        arrays,
        pa.array(np.where(row == 6, NAN, row.astype(float)), mask=null_row),
    ]
    specs = [
        Specs.ranged(INT8, pa.array(low), pa.array(high), null=null_row),
        Specs.ranged(array(INT8), None, None, null=YES, element=element),
        Specs.ranged(
            FLOAT8, pa.array(low.astype(float)), pa.array(high.astype(float)), null=null_row, nan=row == 6
        ),
    ]
    some: list[Any] = rng.integers(-6, 7, 3).tolist()
    for name in ("in", *(f"{q} {op}" for q in ("any", "all") for op in ("=", "<>", "<", "<=", ">", ">="))):
        for listed in (some, [*some, None], [None], []):
            floats = [None if v is None else NAN if v == 6 else float(v) for v in listed]
            for expr in (
                call(name, Column(0, INT8), literal(listed, array(INT8))),
                call(name, Column(2, FLOAT8), literal(floats, array(FLOAT8))),
                call(name, Column(0, INT8), Column(1, array(INT8))),
            ):
                values, errors = evaluate(expr, columns)
                assert admits(Interpretation(specs).of(expr), values, errors).all(), (name, listed)


def test_a_long_list_is_fast() -> None:
    """100,000 containers against 10,000 constants; a loop over either would take minutes. (A million take 0.3 s.)"""
    rng, n = np.random.default_rng(0), 100_000
    low = rng.integers(0, 10**9, n)
    specs = Specs.ranged(INT8, pa.array(low), pa.array(low + rng.integers(0, 10**5, n)))
    expr = member(INT8, list(range(0, 10**9, 10**5)))
    started = time.perf_counter()
    verdict = Interpretation([specs]).of(expr).verdict()
    rows = given(expr, pa.array(low))
    assert time.perf_counter() - started < 2
    assert 0.3 < (verdict == Verdict.NONE).mean() < 0.7
    assert sum(rows) == int((low % 10**5 == 0).sum())


def test_long_texts_are_compared_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers as without it, NULLs, empty arrays and arrays of constants too."""
    rng = random.Random(13)
    words = ["", "a", "ab", "b", "é", "zz", None]
    x = pa.array([rng.choice(words) for _ in range(200)])
    lists = pa.array(
        [rng.choice([None, [], [rng.choice(words) for _ in range(rng.randrange(4))]]) for _ in range(200)],
        pa.list_(pa.string()),
    )
    for name in ("any <>", "any <", "any <=", "any >", "any >=", "all =", "all <", "all <>"):
        [function] = REGISTRY.overloads(name)
        for given in (lists, lists.drop_null()[0], pa.scalar(["b", None, "a"], pa.list_(pa.string()))):
            plain = function.run([x, given], BOOL).values
            monkeypatch.setattr(membership, "LONG_TEXTS", -1)
            assert function.run([x, given], BOOL).values.equals(plain), name
            monkeypatch.undo()
