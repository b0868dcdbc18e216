"""Which digits a numeric result keeps: the types of sums, products, quotients and rounded numbers.

A numeric's scale is part of its type, and 38 digits are all there are. For operands numeric(p1,s1) and numeric(p2,s2) with w1 and
w2 digits before the point:

| operation | digits after the point | cut digits |
|---|---|---|
| `+ -` | max(s1, s2) | never |
| `*` | s1 + s2 while that is at most 20 or there is room; else what there is room for, at least 18 | rounded half away from zero |
| `/` | s1 + w2 + 16, so that every quotient has 16 digits, as far as there is room; at least 18 | rounded half away from zero |
| `%` | max(s1, s2) | never |

Room is what w1 + w2 (for `/`: w1 + s2) leaves of 38 digits. What does not fit before the point is an error, and so is a product
or quotient that is not 0 but would be cut to 0. A plain `numeric` is numeric(38,18) and keeps its type under `+ - * / %`; so does
`price * 2`. If both operands are constants, the result has all digits that 38 allow *for its value*:

    1.5 * 0.25                         0.375
    12345678901234567890.5 * 0.123     1518518504851851850.5315     exact: 19 digits before the point and 4 after
    1.0 / 3                            0.33333333333333333333       as many as PostgreSQL gives
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from tidegate.expr.model.types import DEFAULT_SCALE, MAX_PRECISION, Type, numeric

EXACT_SCALE = 20
"""Digits after the point up to which a product is exact, whatever is left for digits before it: 18 at least."""
_SIGNIFICANT = 16
"""The digits that PostgreSQL computes of every quotient, at least."""
_WIDE = Context(prec=120, Emax=999_999, Emin=-999_999, rounding=ROUND_FLOOR)


def digits(type_: Type) -> tuple[int, int]:
    """The number of digits before and after the point."""
    assert type_.precision is not None
    assert type_.scale is not None
    return type_.precision - type_.scale, type_.scale


def sum_type(a: Type, b: Type) -> Type:
    """The type of a sum: the greater scale, and one whole digit more than either side."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    scale = max(scale_a, scale_b)
    return numeric(max(whole_a, whole_b) + scale + 1, scale)


def product_type(a: Type, b: Type) -> Type:
    """The type of a product: the sum of both scales, as far as 38 digits allow.

    Up to `EXACT_SCALE`, and else up to 18 or the greater scale, it is preferred to digits before the point: an overflow is an
    error that is seen, and lost cents are not.
    """
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    whole, scale = whole_a + whole_b, scale_a + scale_b
    if whole + scale > MAX_PRECISION:
        least = scale if scale <= EXACT_SCALE else min(max(scale_a, scale_b), DEFAULT_SCALE)
        scale = max(MAX_PRECISION - whole, least)
    return numeric(whole + scale, scale)


def constant_product(constants: Sequence[Any], types: Sequence[Type]) -> Type | None:
    """The type of the product of two constants: all digits of its value, as far as 38 allow."""
    a, b = constants
    if a is None or b is None:
        return None
    return _for_value(_WIDE.multiply(a, b), digits(types[0])[1] + digits(types[1])[1])


def _for_value(value: Decimal, scale: int) -> Type:
    """The type of a constant with that many digits after the point, or as many as there is room for."""
    # One digit more than the value has, for rounding up; none if there is no room for it.
    whole = max(value.adjusted() + 1, 0) if value else 0
    whole += whole + 1 + scale <= MAX_PRECISION
    scale = max(0, min(scale, MAX_PRECISION - whole))
    return numeric(max(whole + scale, 1), scale)


def quotient_type(a: Type, b: Type) -> Type:
    """The type of a quotient: 16 digits even of the least if there is room, and a scale of 18 or more."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    return _quotient_type(whole_a + scale_b, max(scale_a + whole_b + _SIGNIFICANT, scale_b))


def _quotient_type(whole: int, scale: int) -> Type:
    scale = max(min(scale, MAX_PRECISION - whole), DEFAULT_SCALE)
    return numeric(whole + scale, scale)


def constant_quotient(constants: Sequence[Any], types: Sequence[Type]) -> Type | None:
    """The type of a quotient by a constant: the greater the divisor, the more room is after the point."""
    a, b = constants
    if not b:
        return None
    (whole_a, scale_a), (_, scale_b) = digits(types[0]), digits(types[1])
    if a is None:
        # By 100, two digits before the point become digits after it, by 0.01 the other way round.
        shift = b.adjusted()
        return _quotient_type(max(whole_a - shift, 0), max(scale_a + shift + 1 + _SIGNIFICANT, scale_b))
    scale = max(_SIGNIFICANT - 4 * _quotient_weight(a, b), scale_a, scale_b, 0)
    return _for_value(_WIDE.divide(a, b), max(scale, scale_a - scale_b))


def _quotient_weight(a: Decimal, b: Decimal) -> int:
    """Where a quotient starts, counted in groups of four digits as PostgreSQL does."""
    (weight_a, first_a), (weight_b, first_b) = _first_group(a), _first_group(b)
    return weight_a - weight_b - (first_a <= first_b)


def _first_group(value: Decimal) -> tuple[int, int]:
    if not value:
        return 0, 0
    weight = value.adjusted() // 4
    return weight, int(abs(value).scaleb(-4 * weight, _WIDE))


def remainder_type(a: Type, b: Type) -> Type:
    """The type of a remainder: the greater scale, and the fewer whole digits."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    scale = max(scale_a, scale_b)
    return numeric(max(min(whole_a, whole_b) + scale, 1), scale)


def whole_type(a: Type, *_: Type) -> Type:
    """The type of a rounded number: scale 0, with room for rounding up."""
    return numeric(digits(a)[0] + 1, 0)


def whole_quotient_type(a: Type, b: Type) -> Type:
    """The type of `div`: scale 0, with all whole digits of the quotient."""
    return numeric(max(digits(a)[0] + digits(b)[1], 1), 0)


def rounded_type(a: Type, _: Type) -> Type:
    """The type of round(x, n): the same scale, with room for rounding up."""
    whole, scale = digits(a)
    return numeric(whole + scale + 1, scale)


def rounded_to_constant(constants: Sequence[Any], types: Sequence[Type]) -> Type | None:
    """The type of round(x, 2): two digits after the point, as far as 38 digits allow."""
    whole = digits(types[0])[0] + 1
    count = constants[1]
    if count is None or whole + count > MAX_PRECISION:
        return None
    return numeric(whole + max(count, 0), max(count, 0))
