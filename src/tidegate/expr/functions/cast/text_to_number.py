"""Text to numbers and booleans, as PostgreSQL reads them.

This tries Arrow's parser on the whole column first: it takes a subset of what PostgreSQL takes, once
hexadecimal is ruled out by looking at the bytes. Only if it refuses (some row has spaces, a sign, an
exponent, or is no number) are rows told apart by regular expressions, and each is read in the way that fits
it. A row that is no number is the error of that row:

    '12' → 12      ' +12 ' → 12      '1_2' → invalid input syntax for type integer: "1_2"

Text that `->>` took out of JSON knows which numbers it may be (`lanes`), so `(payload->>'ts')::numeric` still
prunes.

"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.cancel import checked
from tidegate.expr.function import ANYWHERE, MODERATE, cast
from tidegate.expr.functions.bounded import inner_function
from tidegate.expr.functions.cast_number import number_from_lanes
from tidegate.expr.functions.decimals import OVERFLOW, settle_wide, words
from tidegate.expr.functions.number import INTEGER_NAMES, limits
from tidegate.expr.outcome import (
    Errors,
    Outcome,
    failing,
    first_error,
    from_numpy,
    raw_bytes,
    to_numpy,
    with_errors,
)
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.time_text import parse_times
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import (
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


def _only(a: pa.Array, table: np.ndarray) -> bool:
    """Whether every byte of the column is one of the table's, or at least none is a letter, which Arrow might read as one."""
    used = raw_bytes(a)
    return len(used) > 0 and bool(used.max() <= ord("9") or table[used].all())


def _tried(a: pa.Array, table: np.ndarray, type_: pa.DataType) -> pa.Array | None:
    """What Arrow reads, or None if it cannot read every row."""
    if not _only(a, table):
        return None
    try:
        return a.cast(type_)
    except pa.ArrowInvalid:
        return None


def _tried_decimals(a: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """What Arrow reads, or None if it cannot read every row, or reads some as another number.

    Arrow 26 multiplies by powers of ten modulo 2**128, and takes a fraction of more than 38 digits for zero. Short
    text cannot get that far. Of other text the number is also read as a float, and must be about the same: one that
    has wrapped around is off by at least its half, as what wraps is beyond 2**127 and what comes of it is not.
    """
    values = _tried(a, _OF_NUMBERS, type_)
    if values is None or _too_short_to_wrap(a, type_):
        return values
    floats = _tried(a, _OF_NUMBERS, pa.float64())
    if floats is None:
        return None
    low, high = words(values)
    found = high * 2.0**64 + low.view(np.uint64)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = to_numpy(floats, 0.0) * 10.0**type_.scale
        same = np.isfinite(wanted) & (np.abs(found - wanted) <= np.abs(wanted) * 1e-9)
    return values if bool((same | to_bools(a.is_null())).all()) else None


def _too_short_to_wrap(a: pa.Array, type_: pa.DataType) -> bool:
    """Whether no text has an exponent, nor more letters than the type leaves digits before the point."""
    longest = pc.max(pc.binary_length(a)).as_py() or 0
    return longest <= MAX_PRECISION - type_.scale and bool(raw_bytes(a).max(initial=0) <= ord("9"))


def _where(mask: pa.Array, a: pa.Array) -> pa.Array:
    return pc.if_else(mask, a, pa.scalar(None, a.type))


def _quoted(before: str, a: pa.Array, after: str = "") -> pa.Array:
    """A message for each row with its text in quotes."""
    return pc.binary_join_element_wise(f'{before}"', a, f'"{after}', "")


def syntax_error(bad: pa.Array, a: pa.Array, name: str) -> Errors:
    """The error of text that is no value of type `name`."""
    return failing(bad, _quoted(f"invalid input syntax for type {name}: ", a))


# ---------------------------------------------------------------- text to integers


def text_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The integer that the text spells; an error if it spells none, or one that does not fit."""
    least, most = limits(out.arrow)
    values = _tried(a, _OF_INTEGERS, out.arrow)
    if values is not None:
        return Outcome(values)
    name = "mz_timestamp" if out.kind is Kind.MZ_TIMESTAMP else INTEGER_NAMES[out.arrow]
    trimmed = pc.ascii_trim_whitespace(a)
    spelled = pc.match_substring_regex(trimmed, _INTEGER)
    errors = syntax_error(pc.invert(spelled), a, name)
    values = _tried(_where(spelled, trimmed), _OF_INTEGERS, out.arrow)
    if values is not None:
        return Outcome(values, errors)
    digits = pc.replace_substring_regex(_where(spelled, trimmed), r"^\+?(-?)0*([0-9])", r"\1\2")
    # 38 digits are what a decimal holds; an integer that is longer is out of range anyhow.
    short = pc.less_equal(pc.binary_length(digits), 38)
    decimals = _where(short, digits).cast(pa.decimal128(38, 0))
    fits = pc.and_(
        pc.greater_equal(decimals, pa.scalar(Decimal(least), decimals.type)),
        pc.less_equal(decimals, pa.scalar(Decimal(most), decimals.type)),
    )
    outside = pc.and_(spelled, pc.invert(pc.fill_null(fits, False)))
    range_ = failing(outside, _quoted("value ", a, f" is out of range for type {name}"))
    return with_errors(_where(fits, decimals).cast(out.arrow), first_error(errors, range_))


def text_to_mz_timestamp(a: pa.Array, out: Type) -> Outcome:
    """Milliseconds since 1970 from an integer, or from a timestamp (of UTC, unless it says otherwise), rounded down."""
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
    """The float nearest to the number that the text spells; NaN, inf and Infinity are read in any case."""
    type_, name = out.arrow, _NAMES[out.arrow]
    values, errors = _tried(a, _OF_NUMBERS, type_), None
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
    """The number that the text spells, rounded half away from zero to the digits of the type."""
    values = _tried_decimals(a, out.arrow)
    if values is not None:
        return Outcome(values)
    trimmed = pc.ascii_trim_whitespace(a)
    plain = pc.match_substring_regex(trimmed, _DECIMAL)
    odd = pc.and_(pc.invert(plain), pc.match_substring_regex(trimmed, _SCIENTIFIC))
    errors = syntax_error(pc.invert(pc.or_(plain, odd)), a, "numeric")
    text = _where(plain, trimmed)
    values = _tried_decimals(text, out.arrow)
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
    values, errors = settle_wide(wide, out)
    return Outcome(values, first_error(failing(long, OVERFLOW), errors))


def _read_scientific(a: pa.Array, out: pa.DataType) -> Outcome:
    """Text with an exponent: rare, and read row by row."""
    context = Context(prec=100, rounding=ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-out.scale, context)
    limit = Decimal(10) ** (out.precision - out.scale)
    found: list[Decimal | None] = []
    large = np.zeros(len(a), bool)
    for i, text in enumerate(checked(a.to_pylist())):
        value = None if text is None else _decimal(text, out, context, unit)
        large[i] = text is not None and (value is None or abs(value) >= limit)
        found.append(None if large[i] else value)
    return Outcome(pa.array(found, out), failing(large, OVERFLOW))


def _decimal(text: str, out: pa.DataType, context: Context, unit: Decimal) -> Decimal | None:
    """The number, rounded to the unit; None if it is beyond the type for sure."""
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
    """True for true, yes, on, 1 and False for false, no, off, 0, in any case; unique beginnings will do."""
    word = pc.ascii_lower(pc.ascii_trim_whitespace(a))
    place = pc.index_in(word, pa.array([*_TRUE, *_FALSE], pa.string()))
    bad = pc.and_(place.is_null(), a.is_valid())
    return with_errors(pc.less(place, len(_TRUE)), syntax_error(bad, a, "boolean"))


def text_to_bool_transfer(out: Type, a: Specs) -> Specs:
    """The cast over containers: JSON true and false are known; other text may be anything."""
    if a.lanes is None:
        return by_trend(_FROM_TEXT[Kind.BOOL], [a], out)
    lanes, some = a.lanes, ~a.empty
    other = lanes.number.some | lanes.text.some
    failing_ = other | lanes.list | lanes.map
    return Specs.boolean(
        (lanes.true | other) & some, (lanes.false | other) & some, a.null, a.error | (failing_ & some)
    )


# ---------------------------------------------------------------- declarations of reading


def _reads(kernel: Callable[..., Outcome], *, fractions: bool) -> Callable[..., Specs]:
    """The transfer of text → number: by lanes where it came out of JSON, else only of what is exact."""
    inner = inner_function(kernel, None, ANYWHERE)

    def transfer(out: Type, a: Specs) -> Specs:
        if a.lanes is None:
            return by_trend(inner, [a], out)
        return number_from_lanes(out, a, strings=True, fractions=fractions)

    return transfer


_FROM_TEXT = {Kind.BOOL: inner_function(text_to_bool, None, ANYWHERE)}
cast(TEXT, BOOL, stable=True, transfer=text_to_bool_transfer)(text_to_bool)
for _type in INTEGERS:
    cast(TEXT, _type, stable=True, transfer=_reads(text_to_integer, fractions=False))(text_to_integer)
_reads_instants = _reads(text_to_mz_timestamp, fractions=False)
cast(TEXT, MZ_TIMESTAMP, stable=True, cost=MODERATE, transfer=_reads_instants)(text_to_mz_timestamp)
for _type in FLOATS:
    cast(TEXT, _type, stable=True, transfer=_reads(text_to_float, fractions=True))(text_to_float)
cast(TEXT, NUMERIC, stable=True, transfer=_reads(text_to_numeric, fractions=True))(text_to_numeric)
