"""Aggregates that are computed from sums of a group: variances of numerics, sums of intervals.

Variances of integers and numerics are exact, as in PostgreSQL: n · Σx² - (Σx)² is an integer at a scale. The square of 38 digits
has 76, and no engine adds such numbers up. So the digits of x are cut into groups of 13 (`digit group`), and an engine adds the
products of groups, which have 26 digits:

    x = a · 10^13 + b          Σx² = Σa² · 10^26 + Σ2ab · 10^13 + Σb²

`var_pop of sums(n, Σx, Σb², Σ2ab, Σa²)` puts them together. Short numbers need one product: Σx².

The sum of intervals is the sum of their months, of their days and of their microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isqrt

import numpy as np
import pyarrow as pa

from tidegate.expr.functions.cast.nested import spread_rows
from tidegate.expr.model import order
from tidegate.expr.model.function import HEAVY, MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    from_numpy,
    length,
    null_where_any,
    spread,
    to_numpy,
    validity,
    with_errors,
)
from tidegate.expr.model.types import DEFAULT_SCALE, INT4, INT8, INTERVAL, NUMERIC, numeric
from tidegate.expr.primitives import bigint
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.decimal import NUMERIC_OVERFLOW, unscaled, with_validity

GROUP_DIGITS = 13
"""Digits of a group: the product of two has 26, so that an engine can add 10^12 of them in 38."""
_OUT_OF_RANGE = "interval out of range"


@scalar("digit group", (NUMERIC, INT4), numeric(GROUP_DIGITS, 0), hidden=True, errors=NEVER)
def digit_group(a: Datum, place: Datum) -> pa.Array:
    """A group of the digits of a number, with its sign; group 0 is the lowest."""
    n = length(a, place)
    values, places = spread(a, n), np.broadcast_to(to_numpy(place), n)
    limbs, negative = bigint.from_decimal(values)
    result = np.zeros(n, np.int64)
    for group in range(3):
        rest = bigint.divide_by_power(limbs, GROUP_DIGITS * group)
        whole = bigint.multiply_by_power(bigint.divide_by_power(rest, GROUP_DIGITS), GROUP_DIGITS)
        low, _, _ = bigint.two_words(rest)
        subtracted, _, _ = bigint.two_words(whole)
        result = np.where(places == group, (low - subtracted).astype(np.int64), result)
    low_word = np.broadcast_to(result, n).astype(np.uint64)
    found, _ = bigint.decimal_from_words(
        low_word, np.zeros(n, np.uint64), negative, pa.decimal128(GROUP_DIGITS, 0)
    )
    return with_validity(found, validity(values, place if isinstance(place, pa.Array) else values))


def _variance(count: int, total: int, squares: int, sample: bool) -> tuple[int, int] | None:
    """A variance as a fraction, at twice the scale of the total; None of too few values."""
    if count < 1 + sample:
        return None
    return max(count * squares - total * total, 0), count * (count - sample)


def _rounded(fraction: tuple[int, int], scale: int) -> int:
    """A fraction at `scale` digits as an unscaled number of 18 digits, half away from zero."""
    top, below = fraction
    digits = DEFAULT_SCALE - scale
    top, below = (top * 10**digits, below) if digits >= 0 else (top, below * 10**-digits)
    return (2 * top + below) // (2 * below)


def _root(fraction: tuple[int, int], scale: int) -> int:
    """The square root of a fraction at `scale` digits, likewise."""
    top, below = fraction
    digits = 2 * (DEFAULT_SCALE + 1) - scale
    top, below = (top * 10**digits, below) if digits >= 0 else (top, below * 10**-digits)
    return (isqrt(top // below) + 5) // 10


def _deviation(*args: Datum, sample: bool, root: bool) -> Outcome:
    n = length(*args)
    columns = [spread(arg, n) for arg in args]
    scale = 2 * columns[1].type.scale
    counts, totals, *groups = (_integers(column) for column in columns)
    found: list[int | None] = []
    for i in checked(range(n)):
        squares = sum(group[i] * 10 ** (GROUP_DIGITS * k) for k, group in enumerate(groups))
        fraction = _variance(counts[i], totals[i], squares, sample)
        found.append(None if fraction is None else (_root if root else _rounded)(fraction, scale))
    most = 10 ** (NUMERIC.precision or 38)
    large = np.array([value is not None and value >= most for value in found], bool)
    values = pa.array(
        [None if value is None or value >= most else _decimal(value) for value in found], NUMERIC.arrow
    )
    return with_errors(null_where_any(values, *columns), failing(large, NUMERIC_OVERFLOW))


def _decimal(value: int) -> object:
    from decimal import Context, Decimal

    return Decimal(value).scaleb(-DEFAULT_SCALE, Context(prec=60))


def _integers(column: pa.Array) -> list[int]:
    """Integers, or the digits of numerics without their point; 0 for null."""
    if pa.types.is_decimal(column.type):
        return [unscaled(value, column.type.scale) for value in column.to_pylist()]
    return [value or 0 for value in column.to_pylist()]


def _deviations(name: str, *, sample: bool, root: bool, doc: str) -> None:
    kernel = partial(_deviation, sample=sample, root=root)
    scalar(
        f"{name} of sums",
        (INT8, NUMERIC, NUMERIC),
        NUMERIC,
        variadic=True,
        hidden=True,
        makes_null=True,
        cost=HEAVY,
        doc=doc,
    )(kernel)


_deviations("var_pop", sample=False, root=False, doc="The variance of a population from its count and sums.")
_deviations("var_samp", sample=True, root=False, doc="The variance of a sample from its count and sums.")
_deviations("stddev_pop", sample=False, root=True, doc="The standard deviation of a population.")
_deviations("stddev_samp", sample=True, root=True, doc="The standard deviation of a sample.")


# ---------------------------------------------------------------- intervals


@scalar("interval part", (INTERVAL, INT4), INT8, hidden=True, errors=NEVER, cost=MODERATE)
def interval_part(intervals: Datum, part: Datum) -> pa.Array:
    """The months (0), days (1) or microseconds (2) of an interval, as they are kept."""
    n = length(intervals, part)
    parts = [np.broadcast_to(values, n) for values in order.interval_parts(spread(intervals, n))]
    wanted = np.broadcast_to(to_numpy(part), n)
    values = np.select([wanted == i for i in range(3)], parts, 0)
    return from_numpy(values.astype(np.int64), pa.int64(), spread(intervals, n), spread(part, n))


@scalar(
    "interval of sums", (numeric(38, 0), numeric(38, 0), numeric(38, 0)), INTERVAL, hidden=True, cost=HEAVY
)
def interval_of_sums(months: Datum, days: Datum, micros: Datum) -> Outcome:
    """An interval of so many months, days and microseconds."""
    columns = spread_rows(months, days, micros)
    each = [_integers(column) for column in columns]
    limits = (1 << 31, 1 << 31, (1 << 63) // 1000)
    large = np.zeros(len(columns[0]), bool)
    small: list[Sequence[int]] = []
    for values, limit in zip(each, limits, strict=True):
        outside = [not -limit <= value < limit for value in values]
        large |= np.array(outside, bool)
        small.append([0 if wrong else value for value, wrong in zip(values, outside, strict=True)])
    whole, part, time = (np.array(values, np.int64) for values in small)
    found = order.make_intervals(whole, part, time, validity(*columns))
    return with_errors(found, failing(large, _OUT_OF_RANGE))
