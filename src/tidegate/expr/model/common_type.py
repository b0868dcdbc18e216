"""The type to which values of several types convert: branches of CASE, sides of `=`, elements.

int4, int8                        int8
numeric(10,2), numeric(6,5)       numeric(13,5)      with the whole digits of one and the scale of the other
numeric(38,0), numeric(38,15)     numeric(38,15)     what is too long for it fails when it is converted
date, timestamptz                 timestamptz
real, int8                        double precision   a real does not hold every integer
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.expr.model.types import (
    FLOAT8,
    INT8,
    MAX_PRECISION,
    MZ_TIMESTAMP,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    Kind,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

NUMBERS = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.NUMERIC, Kind.FLOAT4, Kind.FLOAT8)
TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
INTEGER_DIGITS = {Kind.INT2: 5, Kind.INT4: 10, Kind.INT8: 19}


def common_type(types: Sequence[Type]) -> Type | None:
    """The type to which values of all `types` convert implicitly, or None."""
    typed = [t for t in types if t != UNKNOWN]
    if not typed:
        return TEXT
    result = typed[0]
    for type_ in typed[1:]:
        both = _common(result, type_)
        if both is None:
            return None
        result = both
    return result


def _common(a: Type, b: Type) -> Type | None:
    if a == b:
        return a
    if a.kind is Kind.MZ_TIMESTAMP or b.kind is Kind.MZ_TIMESTAMP:
        return _common_with_now(b if a.kind is Kind.MZ_TIMESTAMP else a)
    if Kind.NUMERIC in (a.kind, b.kind) and not (a.is_float or b.is_float) and a.is_number and b.is_number:
        return _common_numeric(a, b)
    if Kind.FLOAT4 in (a.kind, b.kind) and a.is_number and b.is_number and a.kind is not b.kind:
        return FLOAT8  # a real does not hold every integer or numeric
    for ladder in (NUMBERS, TIMES):
        if a.kind in ladder and b.kind in ladder:
            return a if ladder.index(a.kind) >= ladder.index(b.kind) else b
    if a.kind is Kind.TEXT and b.kind is Kind.TEXT:
        return TEXT
    if a.element is not None and b.element is not None:
        element = common_type([a.element, b.element])
        return None if element is None else array(element)
    if a.fields and len(a.fields) == len(b.fields):
        both = [(name, _common(x, y)) for (name, x), (_, y) in zip(a.fields, b.fields, strict=True)]
        typed = [(name, type_) for name, type_ in both if type_ is not None]
        return record(*typed) if len(typed) == len(both) else None
    return a if a.same_kind(b) else None


def _common_numeric(a: Type, b: Type) -> Type:
    (whole_a, scale_a), (whole_b, scale_b) = numeric_digits(a), numeric_digits(b)
    whole, scale = max(whole_a, whole_b), max(scale_a, scale_b)
    # Digits after the point are kept: a number that is too long before it fails, where the other way it would be rounded silently.
    return numeric(min(whole + scale, MAX_PRECISION), scale)


def numeric_digits(type_: Type) -> tuple[int, int]:
    """The most digits before and after the point of a number of this type."""
    if type_.kind is Kind.NUMERIC:
        assert type_.precision is not None
        assert type_.scale is not None
        return type_.precision - type_.scale, type_.scale
    return INTEGER_DIGITS.get(type_.kind, MAX_PRECISION), 0


def _common_with_now(other: Type) -> Type | None:
    """The type in which `mz_now()` is compared: exact, in the unit of the other side."""
    match other.kind:
        case Kind.TIMESTAMPTZ:
            return TIMESTAMPTZ
        case Kind.TIMESTAMP | Kind.DATE:
            return TIMESTAMP
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return INT8
        case Kind.NUMERIC:
            return _common_numeric(INT8, other)
        case Kind.FLOAT4 | Kind.FLOAT8:
            return FLOAT8
        case Kind.MZ_TIMESTAMP:
            return MZ_TIMESTAMP
        case _:
            return None
