"""generate_series: its types, and a series of constants as numbered rows.

generate_series(1, 10000000, 3)     RowNumbers 3,333,334   Map series value(1, 3, #0)
generate_series(date '2024-01-01', now(), '1 day')     of timestamptz, as in PostgreSQL
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.errors import TypeMismatch
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Call, Column, Expr, Kind, Literal, Type, build, tree, types
from tidegate.plan import logical
from tidegate.sql.bind.queries.notes import ColumnIds

_TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
MICROS_PER_DAY = 86_400_000_000
MAX_COUNT = 2**63 - 1


def series_arguments(args: Sequence[Expr]) -> list[Expr]:
    """Start, stop and step of one type, or two times and an interval."""
    if len(args) not in (2, 3):
        raise TypeMismatch(f"generate_series takes 2 or 3 arguments, and {len(args)} are given")
    ends, kinds = list(args[:2]), {arg.type.kind for arg in args[:2]}
    if kinds & {Kind.DATE, *_TIMES} and len(args) == 3:
        plain = Kind.TIMESTAMP in kinds and Kind.TIMESTAMPTZ not in kinds
        type_ = types.TIMESTAMP if plain else types.TIMESTAMPTZ
        return [*(build.coerce(end, type_) for end in ends), build.coerce(args[2], types.INTERVAL)]
    given = [*args] if len(args) == 3 else [*ends, build.literal(1, types.INT4)]
    common = build.common_type([arg.type for arg in given])
    if common is None or not (common.is_integer or common.kind is Kind.NUMERIC):
        kinds_text = ", ".join(str(arg.type) for arg in args)
        raise TypeMismatch(
            f"function generate_series does not take ({kinds_text})",
            hint="there are series of integers and numerics, and of times with an interval as step",
        )
    common = types.INT4 if common.kind is Kind.INT2 else common
    # A numeric of another scale is brought to the common one, which `coerce` would leave as it is.
    return [build.cast(build.coerce(arg, common), common) for arg in given]


def constant_series(array: Expr, numbers: ColumnIds) -> tuple[logical.Rel, Column] | None:
    """A series of constants as rows, and the column of its values; None if it must be made as an array."""
    if not isinstance(array, Call) or any(tree.has_now(arg) for arg in array.args):
        return None
    values = [_constant(arg) for arg in array.args]
    if any(value is None for value in values):
        return None
    start, stop, step = (value for value in values if value is not None)
    type_ = array.args[0].type
    if not (start.is_valid and stop.is_valid and step.is_valid):
        return _rows(0, type_, build.null(type_), 0, numbers)
    width = _width(step, type_)
    if width is None or width == 0:
        return None
    low, high = _whole(start, type_), _whole(stop, type_)
    count = max((high - low) // width + 1, 0)
    return _rows(min(count, MAX_COUNT), type_, Literal(start, type_), width, numbers)


def _constant(expr: Expr) -> pa.Scalar | None:
    outcome = evaluate(expr, [], 1)
    failed = outcome.errors is not None and outcome.errors[0].is_valid
    return None if failed else outcome.values[0]


def _whole(value: pa.Scalar, type_: Type) -> int:
    """A constant in whole numbers of its unit."""
    if type_.kind is Kind.NUMERIC:
        return int(value.as_py().scaleb(type_.scale or 0))
    return int(value.as_py() if type_.is_integer else value.cast(pa.int64()).as_py())


def _width(step: pa.Scalar, type_: Type) -> int | None:
    """The step in whole numbers; None if it has months, which differ in length."""
    if type_.kind not in _TIMES:
        return _whole(step, type_)
    months, days, nanos = step.as_py()
    return None if months else int(days) * MICROS_PER_DAY + int(nanos) // 1000


def _rows(
    count: int, type_: Type, start: Literal, width: int, numbers: ColumnIds
) -> tuple[logical.Rel, Column] | None:
    if count and abs(width) * count > np.iinfo(np.int64).max:
        return None
    index, column = numbers.new(types.INT8), numbers.new(type_)
    value = build.call("series value", start, build.literal(width, types.INT8), index, hidden=True)
    return logical.Map(logical.RowNumbers(index, count), ((column, value),)), column
