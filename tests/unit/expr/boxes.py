"""Random rows of poison values inside random ranges, for soundness checks of transfers over numbers."""

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.laws.admits import admits
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import Kind, Type

FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    1.5,
    2.5,
    -2.5,
    1e-300,
    5e-324,
    1e16,
    2.0**31,
    2.0**53,
    2.0**63,
    -(2.0**63),
    1e200,
    1.7e308,
    -1.7e308,
    3.4e38,
    709.0,
    710.0,
    float("inf"),
    float("-inf"),
]


def value(type_: Type, rng: random.Random) -> Any:
    """A value of a type of numbers, poison half of the time; never NaN."""
    match type_.kind:
        case Kind.FLOAT8 | Kind.FLOAT4:
            found = (
                rng.choice(FLOATS) if rng.random() < 0.5 else rng.uniform(-1, 1) * 10.0 ** rng.randint(-5, 8)
            )
            with np.errstate(over="ignore"):
                return float(np.float32(found)) if type_.kind is Kind.FLOAT4 else found
        case Kind.NUMERIC:
            digits = rng.randint(0, type_.precision or 0)
            return Decimal(rng.randint(1 - 10**digits, 10**digits - 1)).scaleb(-(type_.scale or 0))
        case Kind.BOOL:
            return rng.random() < 0.5
        case _:
            bits = type_.arrow.bit_width - 1
            small = rng.randint(-20, 20)
            ends = rng.choice([-(2**bits), 2**bits - 1, -1, 0, 1])
            return rng.choice(
                [small, small, ends, rng.randint(-(2**bits), 2**bits - 1), rng.randint(-2000, 2000)]
            )


def box(type_: Type, n: int, rng: random.Random, *, constant: bool = False) -> tuple[pa.Array, Specs]:
    """n rows, and n containers whose range holds them: some unbounded, some exact, some with NaN."""
    low, row, high = zip(*(sorted(value(type_, rng) for _ in range(3)) for _ in range(n)), strict=True)
    if constant:
        one = pa.array([row[0]], type_.arrow)
        return pa.repeat(one[0], n), Specs.literal(type_, one[0])
    lows: list[Any] = list(low)
    highs: list[Any] = list(high)
    rows: list[Any] = list(row)
    exact, nan = np.zeros(n, bool), np.zeros(n, bool)
    for i in range(n):
        match rng.randint(0, 9):
            case 0:
                lows[i] = None
            case 1:
                highs[i] = None
            case 2:
                lows[i] = highs[i] = rows[i]
                exact[i] = True
            case 3 if type_.is_float:
                rows[i], nan[i] = float("nan"), True
            case 4:
                rows[i] = lows[i]
            case 5:
                rows[i] = highs[i]
            case _:
                pass
    bounds = (pa.array(b, type_.arrow, from_pandas=False) for b in (lows, highs))
    array = pa.array(rows, type_.arrow, from_pandas=False)
    if type_.is_float:
        return array, Specs.ranged(type_, *bounds, exact=exact, nan=nan)
    return array, Specs.ranged(type_, *bounds)


def unsound(expr: Expr, columns: Sequence[tuple[pa.Array, Specs]]) -> list[str]:
    """The rows whose outcome the interpretation does not cover, for an assertion that shows them."""
    arrays = [array for array, _ in columns]
    got = evaluate(expr, arrays, rows=len(arrays[0]))
    covered = admits(Interpretation([specs for _, specs in columns]).of(expr), got.values, got.errors)
    shown = pa.nulls(len(covered)) if got.errors is None else got.errors
    return [
        f"row {i}: {[a[i].as_py() for a in arrays]} -> {got.values[i].as_py()}, {shown[i].as_py()}"
        for i in np.flatnonzero(~covered)
    ]


def told(expr: Expr, *columns: Specs) -> tuple[Any, Any, bool]:
    """Low, high and whether it may fail, of an expression in one container."""
    specs = Interpretation(columns).of(expr)
    low, high = specs.bounds()
    return low[0].as_py(), high[0].as_py(), bool(specs.error.any())


def between(type_: Type, low: Any, high: Any) -> Specs:
    """One container with values between two ends, without NaN."""
    nan = np.zeros(1, bool) if type_.is_float else None
    return Specs.ranged(type_, pa.array([low], type_.arrow), pa.array([high], type_.arrow), nan=nan)


def outcomes(expr: Expr, *columns: pa.Array) -> list[Any]:
    """The value of each row, or the message of its error."""
    got = evaluate(expr, columns, rows=len(columns[0]))
    errors = [None] * len(got.values) if got.errors is None else got.errors.to_pylist()
    assert got.errors is None or not pc.any(pc.and_(got.errors.is_valid(), got.values.is_valid())).as_py()
    return [v if e is None else e for v, e in zip(got.values.to_pylist(), errors, strict=True)]


def column(type_: Type, index: int = 0) -> Column:
    """Column `index`."""
    return Column(index, type_)
