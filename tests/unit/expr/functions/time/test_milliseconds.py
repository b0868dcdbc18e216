"""floor_ms, ceil_ms and step_ms: what the planner makes temporal bounds with."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.types import FLOAT8, INT8, MZ_TIMESTAMP, NUMERIC, TIMESTAMPTZ, Type

LAST = 2**63 - 1
OUTSIDE = "mz_timestamp out of range"
CASES = (
    ("floor_ms", TIMESTAMPTZ, [1_500, -1_500, 0], [1, -2, 0]),
    ("ceil_ms", TIMESTAMPTZ, [1_500, -1_500, 0], [2, -1, 0]),
    ("floor_ms", INT8, [LAST, -LAST], [LAST, -LAST]),
    ("floor_ms", FLOAT8, [1.5, -1.5, 1e300, float("nan")], [1, -2, OUTSIDE, OUTSIDE]),
    ("ceil_ms", FLOAT8, [1.5, -1.5, -float("inf")], [2, -1, OUTSIDE]),
    (
        "floor_ms",
        NUMERIC,
        ["1.5", "-1.5", f"{LAST}.999999999999999999", f"{LAST + 1}"],
        [1, -2, LAST, OUTSIDE],
    ),
    ("ceil_ms", NUMERIC, ["1.5", "-1.5", "7", f"{LAST}.000000000000000001"], [2, -1, 7, OUTSIDE]),
    ("step_ms", MZ_TIMESTAMP, [0, -1, LAST], [1, 0, OUTSIDE]),
)


@pytest.mark.parametrize(("name", "type_", "given", "expected"), CASES)
def test_rounding(name: str, type_: Type, given: list[Any], expected: list[Any]) -> None:
    (function,) = (f for f in REGISTRY.overloads(name) if f.params == (type_,))
    assert function.hidden
    if type_ == NUMERIC:
        array = pa.array([Decimal(text) for text in given], type_.arrow)
    else:
        array = pa.array(given).view(type_.arrow)
    values, errors = function.run([array], MZ_TIMESTAMP)
    messages = [None] * len(given) if errors is None else errors.to_pylist()
    assert [m if m is not None else v for v, m in zip(values.to_pylist(), messages, strict=True)] == expected
