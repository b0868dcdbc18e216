"""Numbers and booleans to text, as PostgreSQL writes them.

Floats are written with the fewest digits that read back as the same float, in scientific form below 1e-04 and
from 1e+15 on (real: from 1e+06 on). Arrow finds the digits, but puts the point elsewhere (it is scientific
below 1e-6 and from 1e10 on), so the floats in between are rewritten.

    0.00012 → 0.00012      0.000012 → 1.2e-05      123456789012.5 → 123456789012.5      1e15 → 1e+15

A numeric shows all digits after the point that its type has; with a scale of 18 or more, without trailing zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.cast.text import fit_varchar
from tidegate.expr.model.function import NEVER, UP, cast
from tidegate.expr.model.outcome import to_numpy, validity
from tidegate.expr.model.types import BOOL, DEFAULT_SCALE, FLOATS, INTEGERS, MZ_TIMESTAMP, NUMERIC, TEXT, Type
from tidegate.expr.primitives.decimal import from_int64, reinterpret, to_narrow
from tidegate.expr.spark_sql.forms import text_cast


@cast(BOOL, TEXT, trend=(UP,), errors=NEVER, stable=True, spark=text_cast("CAST({0} AS string)"))
def bool_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The words true and false."""
    return fit_varchar(pc.if_else(a, "true", "false"), out)


@cast((*INTEGERS, MZ_TIMESTAMP), TEXT, errors=NEVER, stable=True, spark=text_cast("CAST({0} AS string)"))
def integer_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The digits."""
    return fit_varchar(a.cast(pa.string()), out)


@cast(NUMERIC, TEXT, errors=NEVER, stable=True)
def numeric_to_text(a: pa.Array, out: Type) -> pa.Array:
    """All digits of the type; with a scale of 18 or more, without trailing zeros."""
    if a.type.scale < DEFAULT_SCALE:
        return fit_varchar(_digits(a), out)
    short = to_narrow(a)
    if short is not None:
        a = from_int64(short.values, pa.decimal128(19, short.scale), validity(a))
    text = _digits(a)
    return fit_varchar(pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".") if a.type.scale else text, out)


def _digits(a: pa.Array) -> pa.Array:
    """All digits of decimals, without the exponent that Arrow writes below 0.000001."""
    text = a.cast(pa.string())
    if a.type.scale <= 6:
        return text
    odd = pc.match_substring(text, "E")
    if not pc.any(odd, min_count=0).as_py():
        return text
    size = pc.abs(pc.if_else(odd, a, pa.scalar(None, a.type)))
    fraction = pc.ascii_lpad(reinterpret(size, pa.decimal128(38, 0)).cast(pa.string()), a.type.scale, "0")
    # Of the unscaled digits: Arrow makes no zero of a type whose scale is above its precision.
    negative = pc.less(reinterpret(a, pa.decimal128(38, 0)), pa.scalar(Decimal(0), pa.decimal128(38, 0)))
    sign = pc.if_else(negative, "-0.", "0.")
    return pc.if_else(odd, pc.binary_join_element_wise(sign, fraction, ""), text)


@cast(FLOATS, TEXT, errors=NEVER, stable=True)
def float_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The shortest text that reads back as the same float."""
    text = a.cast(pa.string())
    size = np.abs(to_numpy(a, 1))
    usual = (size >= 1e-4) & (size < 1e6) | (size == 0)
    if usual.all():
        return fit_varchar(text, out)
    for mask, steps in _respellings(size, a.type == pa.float64()):
        if mask.any():
            text = pc.if_else(pa.array(mask), _replaced(text, steps), text)
    return fit_varchar(_respell_halfway(text, to_numpy(a)), out)


def _respell_halfway(text: pa.Array, x: np.ndarray) -> pa.Array:
    """Rewrites large floats whose shortest text lies exactly between two floats.

    1e23 is exactly half-way from one float to the next, and is read as the lower one because that is even.
    Arrow writes 1e23; PostgreSQL requires digits that are nearer to the float than to any other:
    9.999999999999999e+22. Only whole numbers beyond 2**53 (real: 2**24) can lie half-way, so few rows are
    rewritten, if any.
    """
    bits = 53 if x.dtype == np.float64 else 24
    with np.errstate(over="ignore"):
        far = np.flatnonzero((np.abs(x) >= 2.0**bits) & np.isfinite(x))
    if not len(far):
        return text
    values = x[far]
    # The step down: from a power of two the step up is twice as long, but then its middle has no short
    # spelling.
    steps = np.abs(np.nextafter(values, values.dtype.type(0)) - values)
    words = text.take(pa.array(far)).to_pylist()
    nearer = [_nearer_spelling(*row) for row in zip(words, values.tolist(), steps.tolist(), strict=True)]
    mask = np.zeros(len(x), bool)
    mask[far] = True
    return pc.replace_with_mask(text, pa.array(mask), pa.array(nearer, pa.string()))


def _nearer_spelling(text: str, x: float, step: float) -> str:
    """The shortest spelling that is nearer than half a step to x; `text` itself if it is."""
    exact, half = Fraction(x), Fraction(step) / 2
    if abs(Fraction(text) - exact) != half:
        return text
    candidates = (f"{x:.{digits}e}" for digits in range(17))
    return next(word for word in candidates if abs(Fraction(word) - exact) < half)


_Steps = tuple[tuple[str, str], ...]


def _replaced(text: pa.Array, steps: _Steps) -> pa.Array:
    for pattern, replacement in steps:
        text = pc.replace_substring_regex(text, pattern, replacement)
    return text


def _respellings(size: np.ndarray, double: bool) -> Iterator[tuple[np.ndarray, _Steps]]:
    """Where Arrow's text differs from PostgreSQL's, and the regular expressions that correct it."""
    yield ~np.isfinite(size), (("^nan$", "NaN"), ("inf", "Infinity"))
    yield size < 1e-6, ((r"e-([0-9])$", r"e-0\1"),)
    for zeros in (4, 5):
        mask = (size < float(f"1e-{zeros}")) & (size >= float(f"1e-{zeros + 1}"))
        small = (rf"^(-?)0\.0{{{zeros}}}([1-9])([0-9]*)$", rf"\1\2.\3e-0{zeros + 1}")
        yield mask, (small, (r"\.e", "e"))
    for places in range(10, 15) if double else ():
        # 1.2345e+10: as many zeros as could be needed, then the point where it belongs, then the spare zeros
        # away.
        long = (rf"^(-?[0-9])\.?([0-9]*)e\+{places}$", rf"\1\2{'0' * places}")
        point = (rf"^(-?[0-9]{{{places + 1}}})([0-9]*)$", r"\1.\2")
        yield _between(size, places), (long, point, (r"\.?0*$", ""))
    for places in () if double else range(6, 10):
        point = (rf"^(-?[0-9])([0-9]{{{places}}})\.?([0-9]*)$", rf"\1.\2\3e+0{places}")
        yield _between(size, places), (point, ("0*e", "e"), (r"\.e", "e"))


def _between(size: np.ndarray, places: int) -> np.ndarray:
    result: np.ndarray = (size >= 10.0**places) & (size < 10.0 ** (places + 1))
    return result
