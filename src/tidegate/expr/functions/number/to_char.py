"""to_char for numbers, and to_number: texts of numbers by a pattern.

    to_char(1234.5, '9,999.99')      ' 1,234.50'
    to_char(-485, 'FM999PR')         '<485>'
    to_number('12,454.8-', '99G999D9S')   -12454.8

The pattern is parsed once for all rows that share it (`primitives/number_format`); the digits of each distinct number are written
one by one, since where a blank, a zero or the sign stands depends on all digits before it.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

import pyarrow as pa

from tidegate.expr.model.function import MODERATE, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import FLOAT4, FLOAT8, INT4, INT8, NUMERIC, TEXT, Type
from tidegate.expr.primitives.number_format.pattern import NumberPattern, parse_pattern
from tidegate.expr.primitives.number_format.reader import read_number
from tidegate.expr.primitives.number_format.writer import write_number, write_roman
from tidegate.expr.primitives.row_loop import RowFailure, each_row

_WIDE = Context(prec=2000, rounding=ROUND_HALF_UP)
_FLOAT_DIGITS = {FLOAT4: 6, FLOAT8: 15}
_LIMITS = {INT4: (2**31, "integer out of range"), INT8: (2**63, "bigint out of range")}
_writes = partial(scalar, "to_char", result=TEXT, cost=MODERATE, stable=True)


def _split(text: str) -> tuple[str, str]:
    """The digits, and the sign."""
    return (text[1:], "-") if text.startswith("-") else (text, "+")


def _exponent(number: Decimal, pattern: NumberPattern) -> str:
    """A number by a pattern with EEEE: `1.23e+04`.

    The mantissa is rounded after the exponent is known, as PostgreSQL does it: 9.99 by `9EEEE` is ` 10e+00`.
    """
    power = number.adjusted() if number else 0
    mantissa = number.scaleb(-power, context=_WIDE).quantize(Decimal(1).scaleb(-pattern.post), context=_WIDE)
    return f"{'' if number < 0 else ' '}{mantissa if number else abs(mantissa):f}e{power:+03d}"


def _write_decimal(number: Decimal, text: str) -> str:
    pattern = parse_pattern(text)
    if pattern.has("RN"):
        return write_roman(_whole(number), pattern)
    if pattern.has("EEEE"):
        return _exponent(number, pattern)
    shifted = number.scaleb(pattern.multi, context=_WIDE)
    rounded = shifted.quantize(Decimal(1).scaleb(-pattern.post), context=_WIDE)
    digits, sign = _split(f"{rounded or abs(rounded):f}")
    return write_number(digits, sign, pattern.pre + pattern.multi, pattern)


def _whole(number: Decimal) -> int:
    """The nearest whole number, if it is an int4."""
    nearest = int(number.quantize(Decimal(1), context=_WIDE))
    if not -(2**31) <= nearest < 2**31:
        raise RowFailure("integer out of range")
    return nearest


@_writes((NUMERIC, TEXT))
def numeric_to_char(number: Datum, pattern: Datum) -> Outcome:
    """A number as text by a pattern of 9, 0, D, G, S, MI, PL, PR, FM, EEEE, V, TH, RN."""
    return each_row(_write_decimal, pa.string(), number, pattern)


def _write_integer(number: int, text: str, type_: Type) -> str:
    pattern = parse_pattern(text)
    if pattern.has("RN"):
        if not -(2**31) <= number < 2**31:
            raise RowFailure("integer out of range")
        return write_roman(number, pattern)
    if pattern.has("EEEE"):
        if type_ == INT4:
            return _float_exponent(float(number), pattern)
        return _exponent(Decimal(number), pattern)
    shifted = number * 10**pattern.multi
    most, message = _LIMITS[type_]
    if pattern.multi and not -most <= shifted < most:
        raise RowFailure(message)
    digits, sign = _split(str(shifted))
    zeros = f".{'0' * pattern.post}" if pattern.post else ""
    return write_number(digits + zeros, sign, pattern.pre + pattern.multi, pattern)


@_writes(overloads=[((INT4, TEXT), TEXT), ((INT8, TEXT), TEXT)])
def integer_to_char(number: Datum, pattern: Datum, types: tuple[Type, ...]) -> Outcome:
    """An integer as text by a pattern."""
    return each_row(partial(_write_integer, type_=types[0]), pa.string(), number, pattern)


def _float_exponent(number: float, pattern: NumberPattern) -> str:
    if number != number or abs(number) == float("inf"):
        width = pattern.pre + pattern.post + 6
        hashes = [" ", *"#" * (width - 1)]
        hashes[pattern.pre + 1 : pattern.pre + 2] = "."
        return "".join(hashes)
    written = f"{number:+.{pattern.post}e}"
    return " " + written[1:] if written[0] == "+" else written


def _write_float(number: float, text: str, digits: int) -> str:
    pattern = parse_pattern(text)
    if pattern.has("RN"):
        if number != number or abs(number) >= 2**31:
            return write_roman(0, pattern)
        return write_roman(round(number), pattern)
    if pattern.has("EEEE"):
        return _float_exponent(number, pattern)
    shifted = number * float(10**pattern.multi)
    whole = "NaN" if shifted != shifted else "Infinity" if abs(shifted) == math.inf else f"{abs(shifted):.0f}"
    post = max(0, min(pattern.post, digits - len(whole)))
    fewer = NumberPattern(**{**vars(pattern), "post": post})
    if math.isfinite(shifted):
        written, sign = _split(f"{shifted:.{post}f}")
    else:
        written, sign = whole, "-" if shifted < 0 else "+"
    return write_number(written, sign, pattern.pre + pattern.multi, fewer)


@_writes(overloads=[((FLOAT8, TEXT), TEXT), ((FLOAT4, TEXT), TEXT)])
def float_to_char(number: Datum, pattern: Datum, types: tuple[Type, ...]) -> Outcome:
    """A float as text by a pattern; at most 15 digits (6 of a float4) are written."""
    return each_row(partial(_write_float, digits=_FLOAT_DIGITS[types[0]]), pa.string(), number, pattern)


def _read(text: str, pattern: str) -> Decimal | None:
    if not pattern:
        return None
    number = read_number(text, parse_pattern(pattern))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = NUMERIC.scale or 0
    if -exponent > scale:
        number = number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    if number.adjusted() >= (NUMERIC.precision or 0) - scale:
        raise RowFailure("numeric field overflow")
    return number


@scalar("to_number", (TEXT, TEXT), NUMERIC, makes_null=True, cost=MODERATE, stable=True)
def to_number(text: Datum, pattern: Datum) -> Outcome:
    """The number that a text spells by a pattern, as to_char writes it; NULL for an empty pattern."""
    return each_row(_read, NUMERIC.arrow, text, pattern)
