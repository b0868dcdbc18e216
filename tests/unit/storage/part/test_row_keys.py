"""Row keys compare as rows do, and exact keys tell apart what is only equal."""

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from tidegate.expr.model import order
from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    UUID,
    Type,
    array,
    record,
)
from tidegate.storage.part.row_keys import exact_keys, has_ambiguous_equality, row_keys

NAN, INF = float("nan"), float("inf")
MONTH, THIRTY_DAYS = pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([0, 30, 0])
CASES: list[tuple[Type, list[Any]]] = [
    (BOOL, [False, True]),
    (INT2, [-(2**15), -1, 0, 255, 256, 2**15 - 1]),
    (INT8, [-(2**63), -257, -256, 0, 1, 2**63 - 1]),
    (FLOAT4, [-INF, -1.5, 0.0, 1e-45, 1.5, INF, NAN]),
    (FLOAT8, [-INF, -1.5, -5e-324, 0.0, 5e-324, 1.5, INF, NAN]),
    (
        NUMERIC,
        [Decimal(-99999999999999999999), Decimal("-0.5"), Decimal(0), Decimal("1e-18"), Decimal(256)],
    ),
    (TEXT, ["", "\0", "a", "a\0", "a\0b", "ab", "b", "\uffff", "\U00010000"]),
    (BYTEA, [b"", b"\0", b"\0\xff", b"\0\xff\0", b"\1", b"\xff"]),
    (DATE, [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1)]),
    (TIMESTAMPTZ, [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
    (
        INTERVAL,
        [pa.MonthDayNano([-1, 0, 0]), pa.MonthDayNano([0, 0, 1000]), MONTH, pa.MonthDayNano([1, 1, 0])],
    ),
    (UUID, [b"\0" * 16, b"\0" * 15 + b"\1", b"\xff" * 16]),
    (JSONB, ["1", "10", "2", '{"a":1}']),
    (array(INT8), [[], [1], [1, 1], [1, 2], [1, None], [2], [None]]),
    (array(TEXT), [[], [""], ["", "a"], ["\0"], ["a"], ["a", ""], ["ab"]]),
    (array(array(INT8)), [[], [[]], [[], [1]], [[1]], [[1], []], [[2]]]),
    (
        record(("x", INT8), ("y", TEXT)),
        [{"x": 1, "y": "a"}, {"x": 1, "y": "b"}, {"x": 1, "y": None}, {"x": None, "y": "a"}],
    ),
]


@pytest.mark.parametrize(("type_", "values"), CASES, ids=lambda v: str(v) if isinstance(v, Type) else "")
def test_keys_rise_with_the_order(type_: Type, values: list[Any]) -> None:
    padded = pa.array([values[0], *values, None], type_.arrow).slice(1)
    for found in (row_keys([padded], len(padded)), exact_keys([padded], len(padded))):
        keys = found.to_pylist()
        assert keys == sorted(keys)
        for (i, a), (j, b) in product(enumerate(keys), repeat=2):
            assert order.sign(padded.slice(i, 1), padded.slice(j, 1))[0] == (a > b) - (a < b)


def test_the_first_column_that_differs_decides() -> None:
    a, b = pa.array(["a", "a", "ab", None]), pa.array([2, 3, 1, 0])
    keys = row_keys([a, b], 4).to_pylist()
    assert keys == sorted(keys)
    assert row_keys([], 3).to_pylist() == [b""] * 3
    assert len(row_keys([a.slice(0, 0), b.slice(0, 0)], 0)) == 0


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (FLOAT8, [0.0, -0.0]),
        (INTERVAL, [MONTH, THIRTY_DAYS]),
        (array(FLOAT8), [[0.0], [-0.0]]),
        (record(("x", INTERVAL)), [{"x": MONTH}, {"x": THIRTY_DAYS}]),
    ],
)
def test_equal_is_not_identical(type_: Type, values: list[Any]) -> None:
    column = pa.array(values, type_.arrow)
    assert row_keys([column], 2)[0] == row_keys([column], 2)[1]
    assert exact_keys([column], 2)[0] != exact_keys([column], 2)[1]
    assert has_ambiguous_equality([column])


def test_every_nan_is_identical() -> None:
    column = pa.array([NAN, -NAN])
    assert exact_keys([column], 2)[0] == exact_keys([column], 2)[1]
    assert not has_ambiguous_equality([pa.array([1]), pa.array(["a"])])
