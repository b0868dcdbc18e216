"""Bytes that sort as arrays, records and intervals do: their order is that of `expr/model/order.py`."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, build, order, types
from tidegate.expr.model.types import Type

TEXTS = ["", "a", "a\x00", "a\x00b", "aa", "b", "é", None]
NUMBERS = [0, -1, 1, 255, 256, -(2**31), 2**31 - 1, None]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 1e-300, None]
DECIMALS = [*map(Decimal, ("0.001", "-0.001", "1000.000", "-99.900")), None]


def lists(values: list[object]) -> list[list[object] | None]:
    """Arrays of up to two elements, and NULL."""
    return [None, *(list(some) for n in range(3) for some in itertools.product(values, repeat=n))]


def rows(type_: Type, values: list[object]) -> pa.Array:
    return pa.array(values, type_.arrow)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (types.array(types.TEXT), lists(TEXTS)),
        (types.array(types.INT4), lists(NUMBERS)),
        (types.array(types.FLOAT8), lists(FLOATS)),
        (types.array(types.numeric(38, 3)), lists([*DECIMALS])),
        (types.array(types.BOOL), lists([True, False, None])),
        (types.array(types.array(types.INT4)), lists([[], [1], [1, 2], [None], None])),
        (
            types.record(("a", types.INT8), ("b", types.TEXT)),
            [None, *({"a": a, "b": b} for a in NUMBERS for b in TEXTS)],
        ),
        (
            types.INTERVAL,
            [pa.MonthDayNano(v) for v in ((1, 0, 0), (0, 30, 0), (0, 29, 0), (0, 0, -1000), (-1, 0, 0))],
        ),
    ],
)
def test_order_is_that_of_values(type_: Type, values: list[object]) -> None:
    found = rows(type_, values)
    keys, errors = evaluate(build.call("ordered bytes", Column(0, type_), hidden=True), [found])
    assert errors is None
    assert keys.is_null().equals(found.is_null())
    places = np.array(list(itertools.product(range(len(found)), repeat=2))).T
    a, b = (found.take(pa.array(side)) for side in places)
    first, second = (keys.take(pa.array(side)).to_pylist() for side in places)
    for sign, x, y in zip(order.sign(a, b), first, second, strict=True):
        if x is not None and y is not None:
            assert sign == (x > y) - (x < y)
