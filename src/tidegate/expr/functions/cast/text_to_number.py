"""Text to numbers and booleans, as PostgreSQL reads them.

Arrow's parser is tried on the whole column first: it accepts a subset of what PostgreSQL accepts, once
hexadecimal is ruled out by looking at the bytes. Only if it refuses (some row has spaces, a sign, an
exponent, or is no number) are rows distinguished by regular expressions, and each is read in the way that
fits it. A row that is no number is an error of that row:

    '12' → 12      ' +12 ' → 12      '1_2' → invalid input syntax for type integer: "1_2"

Text that `->>` extracts from JSON keeps the statistics of its numbers, so `(payload->>'ts')::numeric` still
prunes.

"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.functions.cast.number import number_from_lanes
from tidegate.expr.functions.number.arithmetic import INTEGER_NAMES, limits
from tidegate.expr.model.function import ANYWHERE, MODERATE, BoundTransfer, Function, cast
from tidegate.expr.model.outcome import (
    Errors,
    Outcome,
    failing,
    first_error,
    from_numpy,
    raw_bytes,
    to_bools,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import (
    BOOL,
    FLOATS,
    INTEGERS,
    MAX_PRECISION,
    MZ_TIMESTAMP,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.decimal import NUMERIC_OVERFLOW, finish_decimal, int64_words
from tidegate.expr.primitives.time.text import parse_times

_INTEGER = "^[+-]?[0-9]+$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$"
_SCIENTIFIC = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIAL = "^[+-]?(?i:inf|infinity|nan)$"
_NAMES = {**INTEGER_NAMES, pa.float32(): "real", pa.float64(): "double precision"}


def _bytes_table(allowed: bytes) -> np.ndarray:
    table = np.zeros(256, bool)
    table[np.frombuffer(allowed, np.uint8)] = True
    return table


_OF_INTEGERS = _bytes_table(b"0123456789-")
_OF_NUMBERS = _bytes_table(b"0123456789-+.eE")


def _has_only_bytes(a: pa.Array, table: np.ndarray) -> bool:
    """Whether all bytes of the column are in the table, so that Arrow reads it as PostgreSQL does."""
    used = raw_bytes(a)
    return len(used) > 0 and bool(used.max() <= ord("9") or table[used].all())


def _arrow_cast(a: pa.Array, table: np.ndarray, type_: pa.DataType) -> pa.Array | None:
    """The values that Arrow reads; None if it cannot read every row."""
    if not _has_only_bytes(a, table):
        return None
    try:
        return a.cast(type_)
    except pa.ArrowInvalid:
        return None


def _arrow_decimal_cast(a: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """The values that Arrow reads; None if it cannot read every row, or reads one incorrectly.

    Arrow 26 multiplies by powers of ten modulo 2**128, and reads a fraction of more than 38 digits as zero. Short text
    is safe. Longer text is also read as a float, which must be about the same: a number that has wrapped around is off
    by at least half, since it was beyond 2**127 and the result is not.
    """
    values = _arrow_cast(a, _OF_NUMBERS, type_)
    if values is None or _too_short_to_wrap(a, type_):
        return values
    floats = _arrow_cast(a, _OF_NUMBERS, pa.float64())
    if floats is None:
        return None
    low, high = int64_words(values)
    read = high * 2.0**64 + low.view(np.uint64)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = to_numpy(floats, 0.0) * 10.0**type_.scale
        same = np.isfinite(expected) & (np.abs(read - expected) <= np.abs(expected) * 1e-9)
    return values if bool((same | to_bools(a.is_null())).all()) else None


def _too_short_to_wrap(a: pa.Array, type_: pa.DataType) -> bool:
    """Whether every text is without exponent and short enough to fit the type's whole digits."""
    longest = pc.max(pc.binary_length(a)).as_py() or 0
    return longest <= MAX_PRECISION - type_.scale and bool(raw_bytes(a).max(initial=0) <= ord("9"))


def _where(mask: pa.Array, a: pa.Array) -> pa.Array:
    return pc.if_else(mask, a, pa.scalar(None, a.type))


def _quoted(before: str, a: pa.Array, after: str = "") -> pa.Array:
    """A message for each row, with its text in quotes."""
    return pc.binary_join_element_wise(f'{before}"', a, f'"{after}', "")


def syntax_error(bad: pa.Array, a: pa.Array, name: str) -> Errors:
    """The error of text that is not a value of type `name`."""
    return failing(bad, _quoted(f"invalid input syntax for type {name}: ", a))


# ---------------------------------------------------------------- text to integers


def text_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The integer that the text contains; fails if it contains none, or one that does not fit."""
    least, greatest = limits(out.arrow)
    values = _arrow_cast(a, _OF_INTEGERS, out.arrow)
    if values is not None:
        return Outcome(values)
    name = "mz_timestamp" if out.kind is Kind.MZ_TIMESTAMP else INTEGER_NAMES[out.arrow]
    trimmed = pc.ascii_trim_whitespace(a)
    spelled = pc.match_substring_regex(trimmed, _INTEGER)
    errors = syntax_error(pc.invert(spelled), a, name)
    values = _arrow_cast(_where(spelled, trimmed), _OF_INTEGERS, out.arrow)
    if values is not None:
        return Outcome(values, errors)
    digits = pc.replace_substring_regex(_where(spelled, trimmed), r"^\+?(-?)0*([0-9])", r"\1\2")
    # A decimal holds 38 digits; a longer integer is out of range anyway.
    short = pc.less_equal(pc.binary_length(digits), 38)
    decimals = _where(short, digits).cast(pa.decimal128(38, 0))
    fits = pc.and_(
        pc.greater_equal(decimals, pa.scalar(Decimal(least), decimals.type)),
        pc.less_equal(decimals, pa.scalar(Decimal(greatest), decimals.type)),
    )
    outside = pc.and_(spelled, pc.invert(pc.fill_null(fits, False)))
    range_ = failing(outside, _quoted("value ", a, f" is out of range for type {name}"))
    return with_errors(_where(fits, decimals).cast(out.arrow), first_error(errors, range_))


def text_to_mz_timestamp(a: pa.Array, out: Type) -> Outcome:
    """Milliseconds since 1970 from an integer, or from a timestamp (UTC by default) rounded down."""
    values, errors = text_to_integer(a, out)
    if errors is None:
        return Outcome(values)
    # 1999.008 is the 8th of January as a timestamp: nothing that is a number may be read as one, as the transfer of
    # numbers out of JSON says.
    number = pc.match_substring_regex(pc.ascii_trim_whitespace(a), _SCIENTIFIC)
    rest = pc.and_(errors.is_valid(), pc.invert(number))
    if not pc.any(rest, min_count=0).as_py():
        return with_errors(values, errors)
    times, wrong = parse_times(_where(rest, a), TIMESTAMPTZ)
    millis = from_numpy(np.floor_divide(to_numpy(times), 1000), out.arrow, times)
    values = pc.if_else(times.is_valid(), millis, values)
    errors = _where(times.is_null(), errors)
    if wrong is not None:
        syntax = pc.starts_with(wrong, "invalid input syntax")
        errors = pc.coalesce(_where(pc.invert(syntax), wrong), errors)
    return with_errors(values, None if errors.null_count == len(errors) else errors)


# ---------------------------------------------------------------- text to floats


def text_to_float(a: pa.Array, out: Type) -> Outcome:
    """The float nearest to the number in the text; NaN, inf and Infinity are read in any case."""
    type_, name = out.arrow, _NAMES[out.arrow]
    values, errors = _arrow_cast(a, _OF_NUMBERS, type_), None
    if values is not None and not np.isinf(to_numpy(values)).any():
        return Outcome(values)
    trimmed = pc.ascii_trim_whitespace(a)
    finite = pc.match_substring_regex(trimmed, _SCIENTIFIC)
    spelled = pc.or_(finite, pc.match_substring_regex(trimmed, _SPECIAL))
    errors = syntax_error(pc.invert(spelled), a, name)
    values = _where(spelled, pc.replace_substring_regex(trimmed, r"^\+|^-([nN])", r"\1")).cast(type_)
    outside = pc.and_(finite, pc.is_inf(values))
    return with_errors(
        values, first_error(errors, failing(outside, _quoted("", a, f" is out of range for type {name}")))
    )


# ---------------------------------------------------------------- text to numeric


def text_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The number in the text, rounded half away from zero to the digits of the type."""
    values = _arrow_decimal_cast(a, out.arrow)
    if values is not None:
        return Outcome(values)
    trimmed = pc.ascii_trim_whitespace(a)
    plain = pc.match_substring_regex(trimmed, _DECIMAL)
    odd = pc.and_(pc.invert(plain), pc.match_substring_regex(trimmed, _SCIENTIFIC))
    errors = syntax_error(pc.invert(pc.or_(plain, odd)), a, "numeric")
    text = _where(plain, trimmed)
    values = _arrow_decimal_cast(text, out.arrow)
    values, own = _read_plain(text, out.arrow) if values is None else Outcome(values)
    if pc.any(odd, min_count=0).as_py():
        scientific, more = _read_scientific(_where(odd, trimmed), out.arrow)
        values, own = pc.if_else(odd, scientific, values), first_error(own, more)
    return with_errors(values, first_error(errors, own))


def _read_plain(a: pa.Array, out: pa.DataType) -> Outcome:
    """Text without an exponent, of any length.

    A digit beyond the scale decides the rounding, the ones behind it do not; more whole digits than fit are
    an overflow.
    """
    a = pc.replace_substring_regex(a, r"^([+-]?)0+([0-9])", r"\1\2")
    a = pc.replace_substring_regex(a, rf"(\.[0-9]{{{out.scale + 1}}})[0-9]+$", r"\1")
    long = pc.match_substring_regex(a, f"^[+-]?[0-9]{{{out.precision - out.scale + 1},}}(\\.|$)")
    long = pc.and_(long, pc.invert(pc.match_substring_regex(a, r"^[+-]?0\.?")))
    wide = _where(pc.invert(long), a).cast(pa.decimal256(76, out.scale + 1))
    values, errors = finish_decimal(wide, out)
    return Outcome(values, first_error(failing(long, NUMERIC_OVERFLOW), errors))


def _read_scientific(a: pa.Array, out: pa.DataType) -> Outcome:
    """Text with an exponent: rare, and read row by row."""
    context = Context(prec=100, rounding=ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-out.scale, context)
    limit = Decimal(10) ** (out.precision - out.scale)
    numbers: list[Decimal | None] = []
    large = np.zeros(len(a), bool)
    for i, text in enumerate(checked(a.to_pylist())):
        value = None if text is None else _decimal(text, out, context, unit)
        large[i] = text is not None and (value is None or abs(value) >= limit)
        numbers.append(None if large[i] else value)
    return Outcome(pa.array(numbers, out), failing(large, NUMERIC_OVERFLOW))


def _decimal(text: str, out: pa.DataType, context: Context, unit: Decimal) -> Decimal | None:
    """The number rounded to the unit; None if it is certainly beyond the type."""
    mantissa, _, exponent = text.lower().partition("e")
    sign, count = -1 if exponent.startswith("-") else 1, exponent.lstrip("+-0")[:10]
    digits = Decimal(mantissa)
    shift = sign * int(count or 0)
    power = digits.adjusted() + shift
    if digits == 0 or power < -out.scale - 1:
        return Decimal(0).quantize(unit, context=context)
    if power >= out.precision:
        return None
    exact = Context(prec=len(mantissa) + 1, Emin=-(10**12), Emax=10**12)
    return digits.scaleb(shift, exact).quantize(unit, context=context)


# ---------------------------------------------------------------- text to bool

_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")


def text_to_bool(a: pa.Array) -> Outcome:
    """True for true, yes, on, 1; false for false, no, off, 0; in any case, and unique prefixes of them."""
    word = pc.ascii_lower(pc.ascii_trim_whitespace(a))
    place = pc.index_in(word, pa.array([*_TRUE, *_FALSE], pa.string()))
    bad = pc.and_(place.is_null(), a.is_valid())
    return with_errors(pc.less(place, len(_TRUE)), syntax_error(bad, a, "boolean"))


@BoundTransfer
def text_to_bool_transfer(function: Function, out: Type, a: Specs) -> Specs:
    """The cast of text to bool over containers: known for JSON true and false, else open."""
    if a.json is None:
        return by_trend(function.claiming(errors=ANYWHERE), [a], out)
    lanes, has_rows = a.json, ~a.empty
    other = lanes.number.present | lanes.text.present
    failing_ = other | lanes.list | lanes.map
    return Specs.boolean(
        (lanes.true | other) & has_rows,
        (lanes.false | other) & has_rows,
        a.null,
        a.error | (failing_ & has_rows),
    )


# ---------------------------------------------------------------- declarations


def _number_transfer(*, fractions: bool) -> BoundTransfer:
    """The transfer of text → number: by JSON statistics if the text came from JSON, else exact text only."""

    def transfer(function: Function, out: Type, a: Specs) -> Specs:
        if a.json is None:
            return by_trend(function.claiming(errors=ANYWHERE), [a], out)
        return number_from_lanes(out, a, strings=True, fractions=fractions)

    return BoundTransfer(transfer)


_read_whole = partial(cast, TEXT, transfer=_number_transfer(fractions=False), stable=True)
_read_fraction = partial(cast, TEXT, transfer=_number_transfer(fractions=True), stable=True)
cast(TEXT, BOOL, transfer=text_to_bool_transfer, stable=True)(text_to_bool)
_read_whole(INTEGERS)(text_to_integer)
_read_whole(MZ_TIMESTAMP, cost=MODERATE)(text_to_mz_timestamp)
_read_fraction(FLOATS)(text_to_float)
_read_fraction(NUMERIC)(text_to_numeric)
