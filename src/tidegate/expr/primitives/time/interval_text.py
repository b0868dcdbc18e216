"""Parses and prints intervals in PostgreSQL's style.

>>> parse_interval("1 year 2 mons 3 days 04:05:06.7")
(14, 3, 14706700000)
>>> parse_interval("P1Y2M3DT4H5M6.7S") == parse_interval("@ 14 months 3 days 4 hours 5 minutes 6.7 seconds")
True
>>> parse_interval("1", "DAY"), parse_interval("1:30", "MINUTE TO SECOND")
((0, 1, 0), (0, 0, 90000000))

A text is read from its end, since a number takes its unit from what follows: `3 days` is a number before a unit, `3 04:05` a number
before a time and so days, and a final number counts seconds (or the unit that SQL names after the literal). A fraction of a year
becomes months, of a month days (30 per month), of a day time.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.primitives.time.calendar import (
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
)
from tidegate.expr.primitives.time.make_interval import MAX_DAYS, MAX_MICROS, toward_zero

_UNITS = {
    "us": "us usec usecs usecond useconds microsecon microsecond microseconds",
    "ms": "ms msec msecs msecond mseconds millisecon millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "week": "w week weeks",
    "month": "mon mons month months",
    "y": "y yr yrs year years",
    "decade": "dec decs decade decades",
    "century": "c cent century centuries",
    "millennium": "mil mils millennia millennium",
}
UNITS = {name: unit for unit, names in _UNITS.items() for name in names.split()}
"""Every spelling of a unit, by the short name used here."""
_MICROS = {"us": 1, "ms": 1000, "s": MICROS_A_SECOND, "min": MICROS_A_MINUTE, "h": MICROS_AN_HOUR}
_DAYS = {"d": 1, "week": 7}
_YEARS = {"y": 1, "decade": 10, "century": 100, "millennium": 1000}

_TOKEN = re.compile(
    r"""(?P<time>[+-]?\s*\d+:\d+(?::\d+)?(?:\.\d*)?)(?![\d:])
      | (?P<years>[+-]?\s*\d+-\d+)(?![\d-])
      | (?P<number>[+-]?\s*(?:\d+\.?\d*|\.\d+))
      | (?P<word>[a-z]+)
      | (?P<skip>[\s@,;'"!]+)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_ISO = re.compile(
    r"P(?:(?P<y>N)Y)?(?:(?P<month>N)M)?(?:(?P<week>N)W)?(?:(?P<d>N)D)?"
    r"(?:T(?:(?P<h>N)H)?(?:(?P<min>N)M)?(?:(?P<s>N)S)?)?$".replace("N", r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
)
_ISO_DATES = re.compile(
    r"P(?P<y>-?\d+)-(?P<mo>\d+)-(?P<d>\d+)(?:T(?P<h>\d+):(?P<mi>\d+)(?::(?P<s>\d+(?:\.\d*)?))?)?$"
)

Parts = tuple[int, int, int]


def parse_interval(text: str, unit: str | None = None) -> Parts:
    """Months, days and microseconds of a text; a ValueError with PostgreSQL's message if it is invalid.

    `unit` is the qualifier behind an SQL literal: 'DAY', 'DAY TO SECOND'. It is the unit of a bare number, and smaller units are
    truncated.
    """
    fields = [UNITS[word.lower()] for word in (unit or "").split() if word.upper() != "TO"]
    try:
        parts = _iso(text.strip()) if text.strip()[:1] in ("P", "p") else _verbose(text, fields)
    except OverflowError:
        raise ValueError(f'interval field value out of range: "{text}"') from None
    if parts is None:
        raise ValueError(f'invalid input syntax for type interval: "{text}"')
    months, days, micros = _truncate(parts, fields[-1]) if fields else parts
    length = months * 30 + days + micros // MICROS_A_DAY
    if not -MAX_DAYS <= length < MAX_DAYS or max(abs(months), abs(days)) >= 2**31:
        raise ValueError(f'interval field value out of range: "{text}"')
    if abs(micros) > MAX_MICROS:
        carry = int(micros / MICROS_A_DAY)
        days, micros = days + carry, micros - carry * MICROS_A_DAY
    return months, days, micros


def _truncate(parts: Parts, unit: str) -> Parts:
    months, days, micros = parts
    match unit:
        case "y":
            return int(months / 12) * 12, 0, 0
        case "month":
            return months, 0, 0
        case "d":
            return months, days, 0
        case "h" | "min":
            return months, days, int(micros / _MICROS[unit]) * _MICROS[unit]
        case _:
            return parts


def _amount(number: str, unit: str) -> Parts:
    """A number with its unit; whole numbers are exact, fractions become smaller units."""
    number = number.replace(" ", "")
    head, _, tail = number.partition(".")
    sign = -1 if head.startswith("-") else 1
    whole, fraction = abs(int(head.strip("+-") or "0")), float("." + tail) if tail else 0.0
    if unit in _MICROS:
        micros = whole * _MICROS[unit] + _nearest(fraction * _MICROS[unit])
        return 0, 0, sign * micros
    if unit in _YEARS:
        return sign * (whole * 12 * _YEARS[unit] + _nearest(fraction * 12 * _YEARS[unit])), 0, 0
    days = fraction * (30 if unit == "month" else _DAYS[unit])
    rest = _nearest(math.fmod(days, 1) * MICROS_A_DAY)
    if unit == "month":
        return sign * whole, sign * int(days), sign * rest
    return 0, sign * (whole * _DAYS[unit] + int(days)), sign * rest


def _nearest(value: float) -> int:
    return round(value)  # half to even, as C's rint


def _plus(a: Parts, b: Parts) -> Parts:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _clock(token: str, minutes_first: bool) -> int | None:
    """Microseconds of [+-]h:m[:s[.f]], or of m:s.f with only two fields and a fraction."""
    token = token.replace(" ", "")
    sign = -1 if token.startswith("-") else 1
    clock, _, tail = token.lstrip("+-").partition(".")
    fields = [int(f) for f in clock.split(":")]
    fraction = _nearest(float("0." + tail) * 1e6) if tail else 0
    if len(fields) == 2:
        fields = [0, *fields] if "." in token or minutes_first else [*fields, 0]
    hours, minutes, seconds = fields
    if minutes > 59 or seconds > 60:
        raise OverflowError
    return sign * (hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE + seconds * MICROS_A_SECOND + fraction)


def _tokens(text: str) -> list[tuple[str, str]] | None:
    tokens, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            return None
        if token.lastgroup != "skip":
            tokens.append((token.lastgroup, token[0]))
        at = token.end()
    return tokens


def _verbose(text: str, fields: list[str]) -> Parts | None:
    tokens = _tokens(text)
    if not tokens:
        return None
    ago = tokens[-1][1].lower() == "ago"
    total, seen = (0, 0, 0), set[str]()
    unit: str | None = fields[-1] if fields else None if ago else "s"
    named = False
    for kind, token in reversed(tokens[:-1] if ago else tokens):
        if kind == "word":
            unit, named = UNITS.get(token.lower()), True
            if unit is None:
                return None
            continue
        step = _token(kind, token, unit, minutes_first=fields[:1] == ["min"])
        fields_of_token = {"time": {"h", "min", "s"}, "years": {"y", "month"}}.get(kind, {unit or ""})
        if step is None or fields_of_token & seen:
            return None
        seen |= fields_of_token
        total = _plus(total, step)
        # A number before a time counts days; a number before another number has no unit, which is an error.
        unit, named = {"time": "d", "years": None}.get(kind), False
    if named or not seen:
        return None
    return (-total[0], -total[1], -total[2]) if ago else total


def _token(kind: str, token: str, unit: str | None, minutes_first: bool) -> Parts | None:
    if kind == "time":
        micros = _clock(token, minutes_first)
        return None if micros is None else (0, 0, micros)
    if kind == "years":
        sign = -1 if token.startswith("-") else 1
        years, months = (int(part) for part in token.lstrip("+- ").split("-"))
        if months > 11:
            raise OverflowError
        return sign * (years * 12 + months), 0, 0
    return None if unit is None else _amount(token, unit)


def _iso(text: str) -> Parts | None:
    match = _ISO.match(text)
    if match and text != "P":
        total = (0, 0, 0)
        for unit, number in match.groupdict().items():
            if number:
                total = _plus(total, _amount(number, unit))
        return total
    match = _ISO_DATES.match(text)
    if not match:
        return None
    clock = _amount(match["s"] or "0", "s")[2]
    clock += int(match["h"] or 0) * MICROS_AN_HOUR + int(match["mi"] or 0) * MICROS_A_MINUTE
    return int(match["y"]) * 12 + int(match["mo"]), int(match["d"]), clock


def interval_texts(months: np.ndarray, days: np.ndarray, micros: np.ndarray) -> pa.Array:
    """Intervals as PostgreSQL prints them: `1 year 2 mons -3 days +04:05:06.7`."""
    years = toward_zero(months, 12)
    before = np.zeros(len(micros), bool)
    pieces = []
    for value, name in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        # A positive part after a negative one shows its sign.
        sign = pc.if_else(pa.array(before & (value > 0)), "+", "")
        ending = pc.if_else(pa.array(value == 1), f" {name}", f" {name}s")
        piece = pc.binary_join_element_wise(sign, pa.array(value).cast(pa.string()), ending, "")
        pieces.append(pc.if_else(pa.array(value != 0), piece, pa.scalar(None, pa.string())))
        before = np.where(value != 0, value < 0, before)
    shown = (micros != 0) | ((months == 0) & (days == 0))
    sign = pc.if_else(pa.array(micros < 0), "-", pc.if_else(pa.array(before), "+", ""))
    clock = pc.binary_join_element_wise(sign, clock_texts(np.abs(micros)), "")
    pieces.append(pc.if_else(pa.array(shown), clock, pa.scalar(None, pa.string())))
    return pc.binary_join_element_wise(*pieces, " ", null_handling="skip")


def clock_texts(micros: np.ndarray) -> pa.Array:
    """hh:mm:ss with any fraction, of microseconds ≥ 0; hours may have more digits."""
    hours, rest = np.divmod(micros, MICROS_AN_HOUR)
    tail = pa.array(rest).view(pa.time64("us")).cast(pa.string())
    tail = pc.utf8_rtrim(pc.utf8_rtrim(tail, "0"), ".")
    # Of 00:10:00.000000 only the zeros of the fraction are stripped, since the point stops them.
    head = pc.utf8_lpad(pa.array(hours).cast(pa.string()), 2, "0")
    return pc.binary_join_element_wise(head, pc.utf8_slice_codeunits(tail, 2), "")
