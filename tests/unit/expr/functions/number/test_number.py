"""Integers and floats: values as PostgreSQL 15 gave them, sound claims, and pruning that happens."""

import math
import operator
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.unit.expr.boxes import between, box, column, outcomes, told, unsound
from tidegate.expr.model.build import call, literal
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.types import FLOAT4, FLOAT8, INT2, INT4, INT8, INTEGERS, NUMERIC, Type

NAMES = {INT2: "smallint", INT4: "integer", INT8: "bigint"}
INF, NAN = math.inf, math.nan


def cut(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


EXACT: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": cut,
    "%": lambda x, y: x - cut(x, y) * y,
    "&": operator.and_,
    "|": operator.or_,
    "#": operator.xor,
}


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_integers_at_their_limits(type_: Type) -> None:
    """Every pair of values near a limit, against Python's integers."""
    least, most = -(2 ** (type_.arrow.bit_width - 1)), 2 ** (type_.arrow.bit_width - 1) - 1
    root = math.isqrt(most)
    edge = [
        least,
        least + 1,
        -root - 1,
        -root,
        -7,
        -2,
        -1,
        0,
        1,
        2,
        7,
        root,
        root + 1,
        most // 2 + 1,
        most - 1,
        most,
    ]
    pairs = [(x, y) for x in edge for y in edge]
    a, b = (pa.array(side, type_.arrow) for side in zip(*pairs, strict=True))
    beyond = f"{NAMES[type_]} out of range"
    for name, exact in EXACT.items():
        expr = call(name, column(type_), column(type_, 1))
        assert expr.type == type_
        for (x, y), got in zip(pairs, outcomes(expr, a, b), strict=True):
            if y == 0 and name in "/%":
                assert got == "division by zero"
            else:
                value = exact(x, y)
                assert got == (value if least <= value <= most else beyond), f"{x} {name} {y}"
    edges = pa.array(edge, type_.arrow)
    assert outcomes(call("-", column(type_)), edges) == [-x if x != least else beyond for x in edge]
    assert outcomes(call("abs", column(type_)), edges) == [abs(x) if x != least else beyond for x in edge]


@pytest.mark.parametrize("name", ["+", "-", "*", "/", "%"])
def test_nulls_constants_slices_and_no_rows(name: str) -> None:
    a = pa.array([99, None, 7, -7, 2**31 - 1], pa.int32())[1:]
    for constant in (0, 2, -1):
        right, left = (
            call(name, column(INT4), literal(constant, INT4)),
            call(name, literal(constant, INT4), column(INT4)),
        )
        for expr in (right, left):
            got = outcomes(expr, a)
            assert got[0] is None
            assert got[1:] == [outcomes(expr, a[i : i + 1])[0] for i in range(1, 4)]
            assert outcomes(expr, a[:0]) == []
    assert outcomes(call(name, column(INT4), column(INT4, 1)), a, pa.nulls(4, pa.int32())) == [None] * 4


def test_shifts_are_the_machines() -> None:
    a = pa.array([1, 1, 1, -8, 1], pa.int32())
    n = pa.array([31, 32, -1, 1, 33], pa.int32())
    assert outcomes(call("<<", column(INT4), column(INT4, 1)), a, n) == [-(2**31), 1, -(2**31), -16, 2]
    assert outcomes(call(">>", column(INT4), column(INT4, 1)), a, n) == [0, 1, 0, -4, 0]
    assert outcomes(call("<<", column(INT2), literal(15, INT4)), pa.array([1, 3], pa.int16())) == [
        -32768,
        -32768,
    ]
    assert outcomes(call("~", column(INT8)), pa.array([0, -(2**63)])) == [-1, 2**63 - 1]


def test_floats() -> None:
    a = pa.array([1.5, 1e308, INF, INF, NAN, 0.0, 1e-320])
    b = pa.array([0.0, 1e308, -INF, 0.0, 0.0, 0.0, 1e10])
    overflow = "value out of range: overflow"

    def text(name: str) -> list[str]:
        return [str(x) for x in outcomes(call(name, column(FLOAT8), column(FLOAT8, 1)), a, b)]

    assert text("+") == ["1.5", overflow, "nan", "inf", "nan", "0.0", "10000000000.0"]
    assert text("*") == ["0.0", overflow, "-inf", "nan", "nan", "0.0", "9.999888671827e-311"]
    zero = "division by zero"
    assert text("/") == [zero, "1.0", "nan", zero, "nan", zero, "0.0"]


def test_functions() -> None:
    a = pa.array([2.5, -2.5, 3.5, -0.0, NAN, INF])
    got = {
        f: [str(x) for x in outcomes(call(f, column(FLOAT8)), a)]
        for f in ("round", "trunc", "floor", "ceil", "sign", "abs")
    }
    assert got["round"] == ["2.0", "-2.0", "4.0", "-0.0", "nan", "inf"]
    assert got["trunc"] == ["2.0", "-2.0", "3.0", "-0.0", "nan", "inf"]
    assert got["floor"] == ["2.0", "-3.0", "3.0", "-0.0", "nan", "inf"]
    assert got["ceil"] == ["3.0", "-2.0", "4.0", "-0.0", "nan", "inf"]
    assert got["sign"] == ["1.0", "-1.0", "1.0", "0.0", "0.0", "1.0"]
    assert got["abs"] == ["2.5", "2.5", "3.5", "0.0", "nan", "inf"]
    b = pa.array([4.0, -4.0, 0.0, 1000.0])
    assert outcomes(call("sqrt", column(FLOAT8)), b)[:2] == [
        2.0,
        "cannot take square root of a negative number",
    ]
    assert outcomes(call("ln", column(FLOAT8)), b)[1:3] == [
        "cannot take logarithm of a negative number",
        "cannot take logarithm of zero",
    ]
    assert outcomes(call("log", column(FLOAT8)), b)[3] == 3.0
    assert outcomes(call("exp", column(FLOAT8)), b)[2:] == [1.0, "value out of range: overflow"]
    assert outcomes(call("power", column(FLOAT8), literal(0.5, FLOAT8)), b)[:2] == [
        2.0,
        "a negative number raised to a non-integer power yields a complex result",
    ]
    assert (
        outcomes(call("^", column(FLOAT8), literal(-1.0, FLOAT8)), b)[2]
        == "zero raised to a negative power is undefined"
    )
    assert outcomes(call("asin", column(FLOAT8)), b)[3] == "input is out of range"


def test_types_of_results() -> None:
    """As PostgreSQL resolves them: sqrt(int4) is double precision, and so is int4 + real."""
    assert call("+", column(INT2), column(INT4, 1)).type == INT4
    assert call("/", column(INT8), column(INT2, 1)).type == INT8
    assert call("+", column(FLOAT4), column(FLOAT4, 1)).type == FLOAT4
    assert call("+", column(INT4), column(FLOAT4, 1)).type == FLOAT8
    assert call("*", column(NUMERIC), column(FLOAT4, 1)).type == FLOAT8
    for name in ("sqrt", "floor", "ln", "exp", "round"):
        assert call(name, column(INT4)).type == FLOAT8
    assert call("^", column(INT4), column(INT4, 1)).type == FLOAT8
    assert call("abs", column(INT2)).type == INT2


# ---------------------------------------------------------------- over containers

UNARY = ["abs", "floor", "ceil", "round", "trunc", "sign", "sqrt", "cbrt", "ln", "log", "exp", "-", "~"]
BINARY = ["+", "-", "*", "/", "%", "&", "|", "power", ">>", "<<"]


@pytest.mark.parametrize("type_", [INT2, INT4, INT8, FLOAT4, FLOAT8], ids=str)
def test_transfers_are_sound(type_: Type) -> None:
    rng = random.Random(str(type_))
    for name in UNARY:
        if type_.is_float and name == "~":
            continue
        for _ in range(4):
            a = box(type_, 150, rng)
            assert unsound(call(name, column(type_)), [a]) == [], name
    for name in BINARY:
        if not any(f.params == (type_, type_) for f in REGISTRY.overloads(name)):
            continue
        for i in range(8):
            a, b = box(type_, 150, rng, constant=i == 1), box(type_, 150, rng, constant=i % 2 == 0)
            assert unsound(call(name, column(type_), column(type_, 1)), [a, b]) == [], name


def test_pruning_happens() -> None:
    x, i = column(FLOAT8), column(INT4)
    five = literal(5, INT4)
    small, both, big = between(INT4, 10, 40), between(INT4, -10, 40), between(INT4, 0, 2**31 - 1)
    assert told(call("+", i, five), small) == (15, 45, False)
    assert told(call("+", i, five), big) == (5, None, True)
    assert told(call("-", five, i), small) == (-35, -5, False)
    assert told(call("*", i, literal(-2, INT4)), both) == (-80, 20, False)
    assert told(call("/", i, five), both) == (-2, 8, False)
    assert told(call("/", five, i), small) == (0, 0, False)
    assert told(call("/", five, i), both) == (None, None, True)
    assert told(call("%", i, literal(100, INT4)), between(INT4, 1010, 1040)) == (10, 40, False)
    assert told(call("%", i, literal(100, INT4)), between(INT4, 1090, 1140)) == (0, 99, False)
    assert told(call("%", i, literal(100, INT4)), between(INT4, -1040, -1010)) == (-40, -10, False)
    assert told(call("%", i, i), both)[2] is True
    assert told(call("&", i, literal(15, INT4)), both) == (0, 15, False)
    assert told(call("abs", i), both) == (0, 40, False)
    assert told(call("abs", i), between(INT4, -40, -10)) == (10, 40, False)
    assert told(call("abs", i), between(INT4, -(2**31), 0))[2] is True
    assert told(call(">>", i, literal(2, INT4)), both) == (-3, 10, False)
    assert told(call("+", x, literal(1.0, FLOAT8)), between(FLOAT8, 0.0, 1.0)) == (1.0, 2.0, False)
    assert told(call("/", x, literal(4.0, FLOAT8)), between(FLOAT8, -1.0, 1.0)) == (-0.25, 0.25, False)
    assert told(call("sqrt", x), between(FLOAT8, 4.0, 9.0)) == (2.0, 3.0, False)
    low, high, fails = told(call("ln", x), between(FLOAT8, 1.0, 100.0))
    assert (fails, -1e-9 < low <= 0, math.log(100) <= high < 4.7) == (False, True, True)
    assert told(call("exp", x), between(FLOAT8, 0.0, 1.0))[2] is False


def test_infinite_boxes_promise_nothing() -> None:
    """Both ends succeed, but 1.7e308 + 1.7e308 lies between them and fails."""
    endless = between(FLOAT8, 0.0, INF)
    for name in ("+", "*"):
        assert told(call(name, column(FLOAT8), column(FLOAT8, 1)), endless, endless)[2] is True
    assert told(call("exp", column(FLOAT8)), endless)[2] is True
