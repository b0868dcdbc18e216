"""Numerics against exact arithmetic in Python, and soundness of their claims."""

import random
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from tests.laws.admits import admits
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.functions.numeric.result_types import product_type, quotient_type, remainder_type, sum_type
from tidegate.expr.model.build import call, literal
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import INT4, INT8, NUMERIC, Type, numeric
from tidegate.expr.primitives import decimal as decimals

EXACT = Context(prec=200)
TYPES = [
    numeric(10, 2),
    numeric(5, 0),
    NUMERIC,
    numeric(38, 0),
    numeric(38, 37),
    numeric(19, 9),
    numeric(30, 25),
    numeric(2, 2),
]


def values_of(type_: Type, n: int, rng: random.Random) -> list[Decimal | None]:
    """Numbers of every length the type has, many short, zeros and nulls among them."""
    assert type_.precision is not None
    found: list[Decimal | None] = []
    for _ in range(n):
        digits = rng.choice(
            [rng.randint(0, type_.precision), rng.randint(0, min(type_.precision, 6)), type_.precision]
        )
        number = rng.randint(-(10**digits) + 1, 10**digits - 1)
        if rng.random() < 0.3:
            number -= abs(number) % 10 ** (digits // 2) * (1 if number > 0 else -1)
        found.append(None if rng.random() < 0.1 else Decimal(number).scaleb(-(type_.scale or 0), EXACT))
    return found


def rounded(x: Fraction, scale: int, mode: str = ROUND_HALF_UP) -> Decimal:
    shifted = x * Fraction(10) ** scale
    whole, rest = divmod(abs(shifted.numerator), shifted.denominator)
    # One more digit, and one that says whether anything is behind it, decide every rounding.
    more, left = divmod(rest * 10, shifted.denominator)
    text = Decimal(f"{'-' if x < 0 else ''}{whole}.{more}{1 if left else 0}")
    return text.quantize(Decimal(1), rounding=mode, context=EXACT).scaleb(-scale, EXACT)


def outcome(expr: Expr, *columns: pa.Array) -> list[Decimal | str | None]:
    got = evaluate(expr, columns)
    errors = [None] * len(got.values) if got.errors is None else got.errors.to_pylist()
    return [v if e is None else e for v, e in zip(got.values.to_pylist(), errors, strict=True)]


def expected(
    a: Decimal | None, b: Decimal | None, out: Type, operation: Callable[[Fraction, Fraction], Fraction]
) -> object:
    if a is None or b is None:
        return None
    try:
        exact = operation(Fraction(a), Fraction(b))
    except ZeroDivisionError:
        return "division by zero"
    assert out.precision is not None
    assert out.scale is not None
    result = rounded(exact, out.scale)
    if exact and not result:
        return decimals.NUMERIC_UNDERFLOW
    return result if result.copy_abs() < 10 ** (out.precision - out.scale) else "numeric field overflow"


def modulo(a: Fraction, b: Fraction) -> Fraction:
    left = abs(a) % abs(b)
    return -left if a < 0 else left


def div(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(int(a / b))


OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": modulo,
    "div": div,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("left", TYPES, ids=str)
def test_arithmetic_is_exact(name: str, left: Type) -> None:
    rng = random.Random(f"{name}{left}")
    for right in TYPES:
        for few in (False, True):
            a, b = values_of(left, 40, rng), values_of(right, 40, rng)
            if few:
                a, b = a[:3], b[:3]
            expr = call(name, Column(0, left), Column(1, right))
            got = outcome(expr, pa.array(a, left.arrow), pa.array(b, right.arrow))
            assert got == [expected(x, y, expr.type, OPERATIONS[name]) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_constants_and_slices(name: str) -> None:
    rng = random.Random(name)
    a = values_of(numeric(12, 3), 50, rng)
    column = pa.array([None, Decimal(7), *a], pa.decimal128(12, 3))[2:]
    for constant in (Decimal("100.00"), Decimal("-0.07"), Decimal("12345678901234567890.5"), Decimal(0)):
        type_ = numeric(25, 2)
        right = call(name, Column(0, numeric(12, 3)), literal(constant, type_))
        assert outcome(right, column) == [expected(x, constant, right.type, OPERATIONS[name]) for x in a]
        left = call(name, literal(constant, type_), Column(0, numeric(12, 3)))
        assert outcome(left, column) == [expected(constant, x, left.type, OPERATIONS[name]) for x in a]
    assert outcome(right, column[:0]) == []


MODES = {"floor": ROUND_FLOOR, "ceil": ROUND_CEILING, "round": ROUND_HALF_UP, "trunc": ROUND_DOWN}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_rounding(name: str, type_: Type) -> None:
    rng = random.Random(f"{name}{type_}")
    for size in (2, 60):
        a = values_of(type_, size, rng)
        column = pa.array(a, type_.arrow)
        whole = call(name, Column(0, type_))
        assert outcome(whole, column) == [
            None if x is None else rounded(Fraction(x), 0, MODES[name]) for x in a
        ]
        if name not in ("round", "trunc"):
            continue
        counts = [rng.choice([-50, -20, -3, -1, 0, 1, 2, 5, 17, 40]) for _ in a]
        to_digits = call(name, Column(0, type_), Column(1, INT4))
        limit = 10 ** ((to_digits.type.precision or 0) - (to_digits.type.scale or 0))
        want: list[object] = []
        for x, n in zip(a, counts, strict=True):
            value = None if x is None else rounded(Fraction(x), min(n, type_.scale or 0), MODES[name])
            want.append(
                "numeric field overflow" if value is not None and value.copy_abs() >= limit else value
            )
        assert outcome(to_digits, column, pa.array(counts, pa.int32())) == want
        constant = call(name, Column(0, type_), literal(counts[0], INT4))
        one = outcome(constant, column)[0]
        assert one == want[0]


def test_result_types() -> None:
    plain, price, whole = NUMERIC, numeric(10, 2), numeric(10, 0)
    assert [f(plain, plain) for f in (sum_type, product_type, quotient_type, remainder_type)] == [plain] * 4
    assert product_type(price, whole) == numeric(20, 2)
    assert product_type(plain, whole) == plain
    assert sum_type(price, whole) == numeric(13, 2)
    assert quotient_type(price, price) == numeric(36, 26)
    assert call("*", Column(0, price), literal(2, INT4)).type == numeric(20, 2)
    assert call("+", Column(0, price), Column(1, INT8)).type == numeric(22, 2)


def test_functions_by_way_of_double_precision() -> None:
    a = pa.array([Decimal(2), Decimal(100), Decimal(-1), Decimal(0)], NUMERIC.arrow)
    column = Column(0, NUMERIC)
    assert outcome(call("sqrt", column), a)[:3] == [
        Decimal("1.41421356237310"),
        Decimal(10),
        "cannot take square root of a negative number",
    ]
    assert outcome(call("ln", column), a)[2:] == [
        "cannot take logarithm of a negative number",
        "cannot take logarithm of zero",
    ]
    assert outcome(call("log", column), a)[1] == 2
    assert outcome(call("log", literal(Decimal(2), NUMERIC), column), a)[0] == 1
    assert outcome(call("exp", column), a)[3] == 1
    assert outcome(call("power", column, literal(Decimal(3), NUMERIC)), a) == [8, 1_000_000, -1, 0]
    assert outcome(call("^", column, literal(Decimal("0.5"), NUMERIC)), a)[2] == (
        "a negative number raised to a non-integer power yields a complex result"
    )


def test_sum_that_wraps_around() -> None:
    most = Decimal(10**38 - 1)
    least = most.copy_negate()
    a = pa.array([most, least, most], pa.decimal128(38, 0))
    b = pa.array([most, least, least], pa.decimal128(38, 0))
    assert outcome(call("+", Column(0, numeric(38, 0)), Column(1, numeric(38, 0))), a, b) == [
        "numeric field overflow",
        "numeric field overflow",
        0,
    ]


def test_plain_numerics_are_narrow() -> None:
    """The fast way is really taken: a money column declared as `numeric` is int64 inside."""
    a = pa.array([Decimal("19.99"), Decimal("123456789.5"), None], NUMERIC.arrow)
    x = decimals.to_narrow(a)
    assert x is not None
    assert x.values.tolist() == [19990, 123456789500, 0]
    assert x.scale == 3
    assert decimals.to_narrow(pa.array([Decimal("0.123456789012345678"), Decimal(99)], NUMERIC.arrow)) is None


# ---------------------------------------------------------------- soundness


def box(type_: Type, rng: random.Random, n: int) -> tuple[pa.Array, Specs]:
    """Rows, and containers of one row each whose range holds it; some without a bound, some exact."""
    a = [x for x in values_of(type_, 3 * n + 60, rng) if x is not None][: 3 * n]
    low, row, high = zip(*(sorted(a[3 * i : 3 * i + 3]) for i in range(n)), strict=True)
    pick = [rng.random() for _ in range(n)]
    low = [None if p < 0.05 else r if p < 0.3 else x for p, x, r in zip(pick, low, row, strict=True)]
    high = [None if 0.05 < p < 0.1 else r if p < 0.25 else x for p, x, r in zip(pick, high, row, strict=True)]
    return pa.array(row, type_.arrow), Specs.ranged(
        type_, pa.array(low, type_.arrow), pa.array(high, type_.arrow)
    )


@pytest.mark.parametrize("name", [*OPERATIONS, "abs", "sign", "floor", "round", "sqrt", "unary"])
def test_transfers_are_sound(name: str) -> None:
    rng = random.Random(f"sound {name}")
    for left in TYPES:
        for right in TYPES[:4]:
            (a, x), (b, y) = box(left, rng, 60), box(right, rng, 60)
            columns = [Column(0, left), Column(1, right)][: 2 if name in OPERATIONS else 1]
            expr = call("-" if name == "unary" else name, *columns)
            got = evaluate(expr, [a, b])
            assert admits(Interpretation([x, y]).of(expr), got.values, got.errors).all(), (
                f"{name} {left} {right}"
            )


def test_pruning_happens() -> None:
    price = Specs.ranged(
        numeric(10, 2),
        pa.array([Decimal("1.00")]).cast(pa.decimal128(10, 2)),
        pa.array([Decimal("9.50")]).cast(pa.decimal128(10, 2)),
    )
    column = Column(0, numeric(10, 2))
    three = literal(Decimal("3.0"), numeric(2, 1))

    def bounds(expr: Expr) -> tuple[str, str, bool]:
        specs = Interpretation([price]).of(expr)
        low, high = specs.bounds()
        return str(low[0].as_py()), str(high[0].as_py()), bool(specs.error.any())

    assert bounds(call("*", column, literal(2, INT4))) == ("2.00", "19.00", False)
    assert bounds(call("-", three, column)) == ("-6.50", "2.00", False)
    assert bounds(call("/", column, three))[2] is False
    assert bounds(call("/", three, column)) == (
        "0.3157894736842105263157895",
        "3.0000000000000000000000000",
        False,
    )
    assert bounds(call("%", column, three)) == ("0.00", "9.50", False)
    assert bounds(call("round", column, literal(1, INT4))) == ("1.0", "9.5", False)
    assert bounds(call("abs", call("-", column, literal(5, INT4)))) == ("0.00", "4.50", False)
    assert bounds(call("sqrt", column))[2] is False
    tripled = call("*", column, three)
    conditions = [
        call("<", tripled, three),
        call(">", tripled, literal(20, INT4)),
        call("<", tripled, literal(99, INT4)),
    ]
    assert [Interpretation([price]).of(condition).verdict().tolist() for condition in conditions] == [
        [0],
        [1],
        [2],
    ]
