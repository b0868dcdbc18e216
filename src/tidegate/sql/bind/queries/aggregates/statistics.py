"""Variances, covariances and linear regression, from what engines add up.

Of floats, an engine computes variance and covariance in one pass, in float8. Infinity counts as NaN, as in PostgreSQL. Of integers
and numerics we compute them from exact sums (`expr/functions/aggregate/sums.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tidegate.expr.model import Expr, Kind, build, types
from tidegate.sql.bind.queries.aggregates.call import BoundCall
from tidegate.sql.lower.internal_calls import internal, present

_SHORT = 14
"""The square of a number of so many digits has 28, and an engine can add 10^10 of them in 38."""


def deviation(call: BoundCall) -> Expr:
    """var_pop, var_samp, variance, stddev_pop, stddev_samp and stddev."""
    (value,) = call.plain().take(1)
    name = {"variance": "var_samp", "stddev": "stddev_samp"}.get(call.name, call.name)
    if value.type.is_float:
        number = _finite(call.filtered(build.cast(value, types.FLOAT8)))
        variance = _variance(call, number, sample=name.endswith("_samp"))
        return build.call("sqrt", variance) if name.startswith("stddev") else variance
    if not value.type.is_number:
        raise call.mismatch(value.type, "numbers")
    return _exact(call, name, call.filtered(value))


def _exact(call: BoundCall, name: str, value: Expr) -> Expr:
    """A variance or deviation of integers or numerics."""
    digits = {Kind.INT2: 5, Kind.INT4: 10, Kind.INT8: 19}.get(value.type.kind) or value.type.precision or 38
    scale = value.type.scale or 0
    number = build.cast(value, types.numeric(digits, scale))
    total = call.summary("sum", types.numeric(38, scale), number)
    if digits <= _SHORT:
        squares = [call.summary("sum", types.numeric(38, 2 * scale), build.call("*", number, number))]
    else:
        from tidegate.expr.functions import GROUP_DIGITS  # on use: it declares all functions

        squares = _group_products(call, number, -(-digits // GROUP_DIGITS))
    return internal(f"{name} of sums", call.count(value), total, *squares)


def _group_products(call: BoundCall, number: Expr, groups: int) -> list[Expr]:
    """Sums of products of groups of digits, by the power of ten that they stand at."""
    digits = [internal("digit group", number, build.literal(i, types.INT4)) for i in range(groups)]
    sums: list[Expr] = []
    for power in range(2 * groups - 1):
        pairs = [(i, power - i) for i in range(groups) if 0 <= power - i < groups]
        total: Expr | None = None
        for i, j in pairs:
            one = build.call("*", digits[i], digits[j])
            total = one if total is None else build.call("+", total, one)
        assert total is not None
        sums.append(call.summary("sum", types.numeric(38, 0), total))
    return sums


# ---------------------------------------------------------------- of floats


def regression(call: BoundCall) -> Expr:
    """corr, covar_pop, covar_samp and regr_…, of the pairs in which neither is NULL."""
    y, x = (build.coerce(arg, types.FLOAT8) for arg in call.plain().take(2))
    both = build.conjunction([present(y), present(x)])
    y, x = (call.filtered(build.case([(both, value)])) for value in (y, x))
    if call.name in ("regr_avgx", "regr_avgy"):
        return _average(call, x if call.name == "regr_avgx" else y)
    return _REGRESSIONS[call.name](call, _finite(y), _finite(x))


def _finite(value: Expr) -> Expr:
    """NaN in place of infinities, so that what is computed from them is NaN."""
    inside = build.conjunction(
        [
            build.call("<", _float(-math.inf), value),
            build.call("<", value, _float(math.inf)),
        ]
    )
    return build.case([(inside, value), (present(value), _float(math.nan))])


def _float(value: float) -> Expr:
    return build.literal(value, types.FLOAT8)


def _variance(call: BoundCall, value: Expr, *, sample: bool = False) -> Expr:
    """var_pop or var_samp; engines do not agree on the var_pop of one NaN."""
    if sample:
        return call.summary("var_samp", types.FLOAT8, value)
    return _unless_nan(call, [value], call.summary("var_pop", types.FLOAT8, value))


def _unless_nan(call: BoundCall, values: list[Expr], result: Expr) -> Expr:
    """NaN if any value is; NaN is the greatest value."""
    nan = [build.call("=", call.summary("max", types.FLOAT8, value), _float(math.nan)) for value in values]
    return build.case([(build.disjunction(nan), _float(math.nan))], result)


def _times_count(call: BoundCall, y: Expr, moment: Expr) -> Expr:
    return build.call("*", moment, build.cast(call.count(y), types.FLOAT8))


def _sxx(call: BoundCall, y: Expr, x: Expr) -> Expr:
    return _times_count(call, y, _variance(call, x))


def _syy(call: BoundCall, y: Expr, x: Expr) -> Expr:
    return _times_count(call, x, _variance(call, y))


def _covariance(call: BoundCall, y: Expr, x: Expr) -> Expr:
    return _unless_nan(call, [y, x], call.summary("covar_pop", types.FLOAT8, y, x))


def _sxy(call: BoundCall, y: Expr, x: Expr) -> Expr:
    return _times_count(call, y, _covariance(call, y, x))


def _covar_samp(call: BoundCall, y: Expr, x: Expr) -> Expr:
    count = build.cast(call.count(y), types.FLOAT8)
    several = build.call(">", count, _float(1.0))
    return build.case([(several, build.call("/", _sxy(call, y, x), build.call("-", count, _float(1.0))))])


def _is_zero(value: Expr) -> Expr:
    return build.call("=", value, _float(0.0))


def _correlation(call: BoundCall, y: Expr, x: Expr) -> Expr:
    vx, vy = _variance(call, x), _variance(call, y)
    scale = build.call("*", build.call("sqrt", vx), build.call("sqrt", vy))
    ratio = build.call("/", _covariance(call, y, x), scale)
    return build.case([(build.disjunction([_is_zero(vx), _is_zero(vy)]), build.null(types.FLOAT8))], ratio)


def _r2(call: BoundCall, y: Expr, x: Expr) -> Expr:
    vx, vy, cov = _variance(call, x), _variance(call, y), _covariance(call, y, x)
    ratio = build.call("*", build.call("/", cov, vx), build.call("/", cov, vy))
    return build.case([(_is_zero(vx), build.null(types.FLOAT8)), (_is_zero(vy), _float(1.0))], ratio)


def _slope(call: BoundCall, y: Expr, x: Expr) -> Expr:
    vx = _variance(call, x)
    ratio = build.call("/", _covariance(call, y, x), vx)
    return build.case([(_is_zero(vx), build.null(types.FLOAT8))], ratio)


def _average(call: BoundCall, value: Expr) -> Expr:
    total = call.summary("sum", types.FLOAT8, value)
    return build.call("/", total, build.cast(call.count(value), types.FLOAT8))


def _intercept(call: BoundCall, y: Expr, x: Expr) -> Expr:
    slope = _slope(call, y, x)
    return build.call("-", _average(call, y), build.call("*", slope, _average(call, x)))


_REGRESSIONS: dict[str, Callable[[BoundCall, Expr, Expr], Expr]] = {
    "corr": _correlation,
    "covar_pop": _covariance,
    "covar_samp": _covar_samp,
    "regr_count": lambda call, y, _: call.count(y),
    "regr_intercept": _intercept,
    "regr_r2": _r2,
    "regr_slope": _slope,
    "regr_sxx": _sxx,
    "regr_sxy": _sxy,
    "regr_syy": _syy,
}

REGRESSIONS = ("regr_avgx", "regr_avgy", *_REGRESSIONS)
"""The aggregates of pairs."""
