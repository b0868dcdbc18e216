"""CASE, COALESCE, NULLIF, GREATEST and LEAST: laziness, nulls, and what is told of them over containers."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.laws.admits import admits
from tidegate.errors import BindError, TypeMismatch
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model.build import call, case, literal, null, text
from tidegate.expr.model.function import Function
from tidegate.expr.model.order import interval_key
from tidegate.expr.model.outcome import Outcome, failing, with_errors
from tidegate.expr.model.tree import Call, Column, Expr
from tidegate.expr.model.types import BOOL, FLOAT8, INT8, INTERVAL, TEXT, Type, array, numeric, record

NAN = float("nan")
X, Y = Column(0, INT8, "x"), Column(1, INT8, "y")


def _bad(values: pa.Array) -> Outcome:
    return with_errors(values, failing(pa.compute.equal(values, 0), "zero"))


FAILS = Function("fails", (INT8,), INT8, _bad)
"""Fails for 0."""


def fails(x: Expr) -> Expr:
    return Call(FAILS, (x,), INT8)


def number(value: int | None) -> Expr:
    return literal(value, INT8)


def outcomes(expr: Expr, *columns: pa.Array) -> list[Any]:
    """Each row's value, or its error as `!message`."""
    values, errors = evaluate(expr, columns)
    failed = [None] * len(values) if errors is None else errors.to_pylist()
    return [f"!{e}" if e is not None else v for v, e in zip(values.to_pylist(), failed, strict=True)]


INTS = pa.array([2, 0, None], pa.int64())


def test_case_ignores_errors_of_branches_not_taken() -> None:
    guarded = case([(call("<>", X, number(0)), fails(X))], number(-1))
    assert outcomes(guarded, INTS) == [2, -1, -1]


def test_case_meets_errors_of_what_is_reached() -> None:
    assert outcomes(case([(call("=", X, number(2)), number(1))], fails(X)), INTS) == [1, "!zero", None]
    failing_condition = case([(call("=", fails(X), number(2)), number(1))], number(7))
    assert outcomes(failing_condition, INTS) == [1, "!zero", 7]
    # The second condition fails for 0, but the first has taken that row.
    first = case([(call("=", X, number(0)), number(0)), (call("=", fails(X), number(2)), number(1))])
    assert outcomes(first, INTS) == [1, 0, None]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (TEXT, ["a", "b", None]),
        (array(INT8), [[1], [], None]),
        (record(("x", INT8)), [{"x": 1}, {"x": None}, None]),
        (INTERVAL, [(1, 2, 3000), (0, 0, 0), None]),
        (numeric(5, 2), [Decimal("1.25"), Decimal("2.50"), None]),
    ],
    ids=str,
)
def test_case_of_every_shape(type_: Type, values: list[Any]) -> None:
    column = Column(1, type_)
    chosen = case([(call("=", X, number(2)), column), (call("is null", X), null(type_))], column)
    given = pa.array(values, type_.arrow)
    assert outcomes(chosen, INTS, given) == given.to_pylist()


def test_case_finds_the_common_type() -> None:
    mixed = case(
        [(call("=", X, number(2)), literal(Decimal("1.5"), numeric(2, 1)))],
        literal(Decimal("2.25"), numeric(3, 2)),
    )
    assert mixed.type == numeric(3, 2)
    assert outcomes(mixed, INTS) == [Decimal("1.50"), Decimal("2.25"), Decimal("2.25")]
    assert case([(literal(True, BOOL), text("a"))]).type == TEXT
    with pytest.raises(TypeMismatch, match="CASE types int8 and text cannot be matched"):
        case([(literal(True, BOOL), number(1))], Column(0, TEXT))


def test_coalesce_is_lazy() -> None:
    assert outcomes(call("coalesce", X, number(9)), INTS) == [2, 0, 9]
    assert outcomes(call("coalesce", X, fails(number(0))), INTS) == [2, 0, "!zero"]
    assert outcomes(call("coalesce", fails(X), number(9)), INTS) == [2, "!zero", 9]
    assert outcomes(call("coalesce", null(INT8), X, null(INT8)), INTS) == [2, 0, None]


def test_nullif() -> None:
    assert outcomes(call("nullif", X, number(2)), INTS) == [None, 0, None]
    assert outcomes(call("nullif", X, null(INT8)), INTS) == [2, 0, None]
    # Both are evaluated, as both sides of an = are.
    assert outcomes(call("nullif", X, fails(X)), INTS) == [None, "!zero", None]


def test_greatest_and_least_skip_nulls() -> None:
    y = pa.array([5, None, None], pa.int64())
    assert outcomes(call("greatest", X, Y), INTS, y) == [5, 0, None]
    assert outcomes(call("least", X, Y, number(3)), INTS, y) == [2, 0, 3]
    floats = pa.array([NAN, 1.0, -0.0])
    f = Column(0, FLOAT8)
    assert str(outcomes(call("greatest", f, literal(2.0, FLOAT8)), floats)) == "[nan, 2.0, 2.0]"
    assert outcomes(call("least", f, literal(2.0, FLOAT8)), floats) == [2.0, 1.0, 0.0]


def test_the_first_of_equals_is_greatest() -> None:
    month, days = literal((1, 0, 0), INTERVAL), Column(0, INTERVAL)
    rows = pa.array([(0, 30, 0)], pa.month_day_nano_interval())
    assert outcomes(call("greatest", days, month), rows)[0].days == 30
    assert outcomes(call("least", month, days), rows)[0].months == 1


LONG, FINE = Column(0, numeric(38, 0), "long"), Column(1, numeric(38, 15), "fine")
OVERFLOW = "!numeric field overflow"


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("coalesce", LONG, FINE), [OVERFLOW, Decimal(7)]),
        (call("coalesce", FINE, LONG), [Decimal("0.5"), Decimal("0.5")]),
        (call("greatest", LONG, FINE), [OVERFLOW, Decimal(7)]),
        (case([(call(">", LONG, number(9)), LONG)], FINE), [OVERFLOW, Decimal("0.5")]),
        (call("array", LONG, FINE), [OVERFLOW, [Decimal(7), Decimal("0.5")]]),
        (call(">", LONG, FINE), [True, True]),
        (call("in", LONG, call("array", FINE)), [False, False]),
    ],
)
def test_a_numeric_that_is_too_long_for_the_common_type_is_an_error(expr: Expr, expected: list[Any]) -> None:
    """38 digits do not hold 10**25 and 15 digits after the point: an error, never NULL. Comparisons need no common type."""
    long, fine = pa.array([Decimal(10**25), Decimal(7)], LONG.type.arrow), pa.array([Decimal("0.5")] * 2)
    assert outcomes(expr, long, fine.cast(FINE.type.arrow)) == expected


def test_numerics_of_different_scale() -> None:
    a, b = Column(0, numeric(4, 1)), Column(1, numeric(4, 3))
    columns = [
        pa.array([Decimal("1.5"), None], a.type.arrow),
        pa.array([Decimal("1.501"), Decimal("2.000")], b.type.arrow),
    ]
    assert call("greatest", a, b).type == numeric(6, 3)
    assert outcomes(call("greatest", a, b), *columns) == [Decimal("1.501"), Decimal("2.000")]
    assert outcomes(call("coalesce", a, b), *columns) == [Decimal("1.500"), Decimal("2.000")]


# ---------------------------------------------------------------- over containers


def ranged(low: list[int | None], high: list[int | None], **flags: Any) -> Specs:
    return Specs.ranged(INT8, pa.array(low, pa.int64()), pa.array(high, pa.int64()), **flags)


def bounds(expr: Expr, *columns: Specs) -> list[tuple[Any, Any]]:
    low, high = Interpretation(columns).of(expr).bounds()
    return list(zip(low.to_pylist(), high.to_pylist(), strict=True))


def test_case_over_containers_takes_the_branches_that_can_be_reached() -> None:
    x = ranged([0, 6, 0], [4, 9, 9])
    split = case([(call("<", X, number(5)), number(1))], number(2))
    assert bounds(split, x) == [(1, 1), (2, 2), (1, 2)]
    specs = Interpretation([x]).of(split)
    assert specs.exact.tolist() == [True, True, False]
    assert not specs.null.any()


def test_a_branch_that_is_never_taken_cannot_fail() -> None:
    x = ranged([1, 0], [4, 4])
    guarded = case([(call(">", X, number(0)), number(1))], fails(X))
    assert Interpretation([x]).of(guarded).error.tolist() == [False, True]


def test_coalesce_over_containers() -> None:
    x, y = ranged([1, 1], [2, 2], null=np.array([False, True])), ranged([7, 7], [8, 8])
    specs = Interpretation([x, y]).of(call("coalesce", X, Y))
    assert bounds(call("coalesce", X, Y), x, y) == [(1, 2), (1, 8)]
    assert not specs.null.any()


def test_nullif_over_containers() -> None:
    x = ranged([1, 5, 5], [4, 5, 6])
    specs = Interpretation([x]).of(call("nullif", X, number(5)))
    assert specs.null.tolist() == [False, True, True]
    assert specs.empty.tolist() == [False, True, False]


def test_greatest_over_containers() -> None:
    x = ranged([1, 1], [9, 9], null=np.array([False, True]))
    y = ranged([4, 4], [5, 5])
    assert bounds(call("greatest", X, Y), x, y) == [(4, 9), (4, 9)]
    assert bounds(call("least", X, Y), x, y) == [(1, 5), (1, 5)]
    # y may be left out, so it lifts nothing.
    z = ranged([4, 4], [5, 5], null=YES)
    assert bounds(call("greatest", X, Y), ranged([1, 1], [9, 9]), z) == [(1, 9), (1, 9)]


def test_nan_is_greatest_but_never_least() -> None:
    one = Specs.ranged(FLOAT8, pa.array([1.0]), pa.array([2.0]), nan=YES)
    two = Specs.ranged(FLOAT8, pa.array([0.0]), pa.array([5.0]), nan=NO)
    a, b = Column(0, FLOAT8), Column(1, FLOAT8)
    greatest, least = (Interpretation([one, two]).of(call(name, a, b)) for name in ("greatest", "least"))
    assert greatest.nan is not None
    assert greatest.nan.all()
    assert least.nan is not None
    assert not least.nan.any()
    # least(NaN, 5.0) is 5.0: what may be NaN is no bound from above.
    assert bounds(call("least", a, b), one, two) == [(0.0, 5.0)]


def sound(expr: Expr, columns: list[pa.Array], specs: list[Specs]) -> None:
    values, errors = evaluate(expr, columns)
    assert admits(Interpretation(specs).of(expr), values, errors).all()


@pytest.mark.parametrize("seed", range(20))
def test_soundness(seed: int) -> None:
    """400 containers of one row each: the description must admit what evaluation gives."""
    rng, n = np.random.default_rng(seed), 400
    columns, specs = [], []
    for _ in range(3):
        row = rng.integers(-4, 5, n)
        missing = rng.random(n) < 0.2
        low, high = row - rng.integers(0, 3, n), row + rng.integers(0, 3, n)
        columns.append(pa.array(row, pa.int64(), mask=missing))
        unknown = rng.random(n) < 0.1
        maybe = missing | (rng.random(n) < 0.3)
        specs.append(
            Specs.ranged(
                INT8, pa.array(low, mask=unknown), pa.array(high), null=maybe, empty=missing & (row > 0)
            )
        )
    x, y, z = (Column(i, INT8) for i in range(3))
    conditions = [call("<", x, y), call("=", fails(z), x), call(">", z, number(1))]
    for expr in (
        case([(conditions[0], y), (conditions[1], fails(x))], z),
        case([(conditions[2], fails(z)), (conditions[0], null(INT8)), (conditions[1], x)]),
        case([(conditions[0], conditions[2])], conditions[1]),
        call("coalesce", x, fails(y), z),
        call("coalesce", conditions[0], conditions[1]),
        call("nullif", x, fails(y)),
        call("greatest", x, y, z),
        call("least", x, fails(y), z),
        call("greatest", conditions[0], conditions[2]),
    ):
        sound(expr, columns, specs)


def test_intervals_that_are_equal_but_not_the_same() -> None:
    rows = pa.array([(1, 0, 0), (0, 30, 0)], pa.month_day_nano_interval())
    assert interval_key(rows).to_pylist()[0] == interval_key(rows).to_pylist()[1]
    column = Column(0, INTERVAL)
    specs = Specs.ranged(INTERVAL, rows, rows, exact=YES, months=np.array([True, False]))
    chosen = Interpretation([specs]).of(call("greatest", column, literal((0, 30, 0), INTERVAL)))
    assert not chosen.exact.any()


def test_case_cannot_be_called_by_name() -> None:
    with pytest.raises(BindError, match="does not exist"):
        call("case", literal(True, BOOL), number(1), number(2))
