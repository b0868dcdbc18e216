"""The type of a string literal: the kind of what it stands beside, its own length and digits.

    a varchar(4), n numeric(10,2)
    a = 'abcdef'       compares with 'abcdef', not with 'abcd'
    n = '1.555'        compares with 1.555, not with 1.56

>>> str(literal_type("1.555", numeric(10, 2))), str(literal_type("abcdef", Type(Kind.TEXT, length=4)))
('numeric(4,3)', 'text')
"""

from __future__ import annotations

import re
from decimal import Decimal

from tidegate.expr.model.types import MAX_PRECISION, NUMERIC, Kind, Type, array, numeric, record

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?\s*", re.ASCII | re.IGNORECASE)


def literal_type(text: str, beside: Type) -> Type:
    """The type as which a string literal is read where a value of type `beside` stands beside it."""
    if beside.kind is Kind.NUMERIC:
        return _own_digits(text) or NUMERIC
    return _without_refinement(beside)


def _own_digits(text: str) -> Type | None:
    """The numeric that has just the digits of a text; None if 38 do not suffice, or if it is no number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    _, digits, exponent = Decimal(text.strip()).as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(1, scale, len(digits) + exponent + scale)
    return numeric(precision, scale) if precision <= MAX_PRECISION else None


def _without_refinement(type_: Type) -> Type:
    """A type without lengths of texts, and with all digits that a numeric can have."""
    match type_.kind:
        case Kind.NUMERIC:
            return NUMERIC
        case Kind.ARRAY if type_.element is not None:
            return array(_without_refinement(type_.element))
        case Kind.RECORD:
            return record(*((name, _without_refinement(field)) for name, field in type_.fields))
        case _:
            return type_.without_lengths
