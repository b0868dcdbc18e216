"""Dates and times from text: the ISO forms by arithmetic on bytes, all others one distinct text at a time.

Nearly all times in data are written `2024-01-05T10:00:00.123Z`, give or take the zone, the fraction and the
T. Texts of equal length that follow this form have every digit in the same place, so the bytes of all of them
are a matrix, and a year is four of its columns: no text is looked at by itself. What does not fit (a month of
one digit, `Jan 5 2024`, a zone's name, a 31st of June) is left to `odd_time.py`, which reads each distinct
text once, and knows what PostgreSQL says about the bad ones.

>>> import pyarrow as pa
>>> parse_times(pa.array(["2024-01-05T10:00:00.5+02:00"]), TIMESTAMPTZ).values[0].as_py().isoformat()
'2024-01-05T08:00:00.500000+00:00'
>>> parse_times(pa.array(["2024-02-30"]), DATE).errors[0].as_py()
'date/time field value out of range: "2024-02-30"'
"""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.cancel import checked
from tidegate.expr.civil import (
    FIRST_DAY,
    FIRST_MICRO,
    LAST_MICRO,
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
    MONTHS_AT_YEAR_ZERO,
    first_day,
)  # fmt: skip
from tidegate.expr.odd_time import Wanted, read_odd
from tidegate.expr.outcome import Outcome, from_numpy, integers
from tidegate.expr.types import DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Type

_DATE_SIZE, _CLOCK_SIZE = 10, 8
_LONGEST, _STRICT_SIZE = 35, 24
_DASH, _COLON, _POINT, _PLUS, _MINUS, _UPPER_Z, _LOWER_Z = (np.uint8(b - 48 & 255) for b in b"-:.+-Zz")
_BEFORE_CLOCK = np.frombuffer(b"T t", np.uint8) - np.uint8(48)
_ZONE_SIZES = (0, 1, 3, 5, 6)
"""Nothing, Z, +hh, +hhmm, +hh:mm."""
_MOST_DIGITS = 9
"""Nanoseconds; longer fractions are rare, and 64 bits must hold them."""


class _Read(NamedTuple):
    """Microseconds (of the day, or since 1970), the zone's offset, and where the text had the form."""

    micros: np.ndarray
    offset: np.ndarray
    fine: np.ndarray


def parse_times(texts: pa.Array, type_: Type) -> Outcome:
    """Texts as dates, times, timestamps or timestamps with time zone (UTC where the text names none)."""
    if len(texts) == 1 and (single := _one(texts[0].as_py(), type_)) is not None:
        return Outcome(pa.array([single], pa.int64()).cast(type_.arrow))
    if (easy := _by_arrow(texts, type_)) is not None:
        return Outcome(easy)
    micros, fine = _by_bytes(texts, type_)
    odd = ~fine
    if texts.null_count:
        odd &= texts.is_valid().to_numpy(zero_copy_only=False)
    if not odd.any():
        return Outcome(_values(micros, type_, texts))
    rows = np.flatnonzero(odd)
    distinct = texts.take(pa.array(rows)).dictionary_encode()
    wanted = Wanted(type_.kind.value)
    read = [read_odd(text, wanted) for text in checked(distinct.dictionary.to_pylist())]
    which = distinct.indices.to_numpy()
    micros[rows] = np.array([found if isinstance(found, int) else 0 for found in read], np.int64)[which]
    messages = pa.array([found if isinstance(found, str) else None for found in read], pa.string())
    values = _values(micros, type_, texts)
    if messages.null_count == len(messages):
        return Outcome(values)
    place = np.full(len(texts), -1)
    place[rows] = which
    errors = messages.take(pa.array(place, mask=place < 0))
    return Outcome(pc.if_else(errors.is_null(), values, pa.scalar(None, values.type)), errors)


def _one(text: str | None, type_: Type) -> int | None:
    """Microseconds of a single text in ISO form, as a constant of a query is; None: left to what reads many at once."""
    if text is None or type_ not in (TIMESTAMP, TIMESTAMPTZ) or (found := _ISO.fullmatch(text)) is None:
        return None
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    fraction, sign, hours, minutes = found.group(7, 8, 9, 10)
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    micros = days * MICROS_A_DAY + hour * MICROS_AN_HOUR + minute * MICROS_A_MINUTE + second * MICROS_A_SECOND
    micros += int((fraction or "").ljust(6, "0"))
    if not sign:
        return micros
    if int(hours) > 15 or int(minutes or 0) > 59:
        return None
    if type_ == TIMESTAMP:
        return micros
    east = int(hours) * MICROS_AN_HOUR + int(minutes or 0) * MICROS_A_MINUTE
    micros += east if sign == "-" else -east
    return micros if FIRST_MICRO <= micros <= LAST_MICRO else None


_EPOCH = date(1970, 1, 1).toordinal()
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?",
    re.ASCII,
)


def parse_strict(texts: pa.Array) -> pa.Array:
    """Texts of the one form `YYYY-MM-DDThh:mm:ss.sssZ` as timestamps, NULL for all others.

    Seconds go to 59 and hours to 23 here: `10:00:60.900` would sort before `10:01:00.100` and mean a later
    time.
    """
    offsets, data = _layout(texts)
    rows = np.flatnonzero(np.diff(offsets) == _STRICT_SIZE)
    start = offsets[rows]
    shaped = np.zeros(len(texts), bool)
    shaped[rows] = (
        (data[start + 10] == ord("T")) & (data[start + 19] == ord(".")) & (data[start + 23] == ord("Z"))
    )
    if shaped.all() and texts.null_count == 0 and (easy := _by_arrow(texts, TIMESTAMPTZ)) is not None:
        return easy.view(TIMESTAMP.arrow)
    micros, fine = _by_bytes(texts, TIMESTAMPTZ)
    if texts.null_count:
        shaped &= texts.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(micros, mask=~(fine & shaped)).view(TIMESTAMP.arrow)


def _values(micros: np.ndarray, type_: Type, texts: pa.Array) -> pa.Array:
    counts = np.floor_divide(micros, MICROS_A_DAY).astype(np.int32) if type_ == DATE else micros
    return from_numpy(counts, type_.arrow, texts)


def _by_arrow(texts: pa.Array, type_: Type) -> pa.Array | None:
    """Arrow's own parser, ten times as fast, where all texts are in a form that it reads as PostgreSQL."""
    given = texts.drop_null()
    if type_ == TIME or len(given) == 0:
        return None
    offsets, data = _layout(given)
    sizes = np.diff(offsets)
    if type_ == DATE:
        plain = bool((sizes == _DATE_SIZE).all())
    else:
        plain = bool((sizes >= _DATE_SIZE + 1 + _CLOCK_SIZE).all())
        # Without these, `2024-01-05 10+02:00:00` would be read as an hour and a zone.
        plain = plain and all((data[offsets[:-1] + place] == ord(":")).all() for place in (13, 16))
    zoned = plain and type_ == TIMESTAMPTZ and bool((data[offsets[1:] - 1] == ord("Z")).all())
    target = type_.arrow if type_ != TIMESTAMPTZ or zoned else pa.timestamp("us")
    try:
        values = texts.cast(target) if plain else None
    except pa.ArrowInvalid:
        return None
    if values is None or (first := pc.min(integers(values)).as_py()) is None:
        return None
    inside = first >= (FIRST_DAY if type_ == DATE else FIRST_MICRO)
    return values.cast(type_.arrow) if inside else None


def _layout(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each text starts (and the last one ends), and the bytes of all."""
    n = len(texts)
    if n == 0:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, n + 1 + texts.offset)[texts.offset :]
    return offsets, np.frombuffer(texts.buffers()[2] or b"", np.uint8)


def _by_bytes(texts: pa.Array, type_: Type) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds of the texts in ISO form, and which those are."""
    n = len(texts)
    micros, fine = np.zeros(n, np.int64), np.zeros(n, bool)
    offsets, data = _layout(texts)
    sizes = np.diff(offsets)
    for size in np.flatnonzero(np.bincount(np.minimum(sizes, _LONGEST + 1))[: _LONGEST + 1]):
        if size < (5 if type_ == TIME else _DATE_SIZE):
            continue
        rows = np.flatnonzero(sizes == size)
        columns = _columns(data, offsets, rows, int(size), n)
        got = _clock(columns, 0) if type_ == TIME else _timestamp(columns, type_)
        micros[rows], fine[rows] = _settled(got, type_)
    return micros, fine


def _columns(data: np.ndarray, offsets: np.ndarray, rows: np.ndarray, size: int, n: int) -> np.ndarray:
    """Byte j of every text as row j, less the code of "0": a digit is its value, anything else is above 9."""
    if len(rows) == n:
        matrix = data[offsets[0] : offsets[0] + n * size].reshape(n, size)
    else:
        matrix = data[offsets[rows][:, None] + np.arange(size)]
    return np.ascontiguousarray(matrix.T) - np.uint8(48)


def _settled(got: _Read, type_: Type) -> tuple[np.ndarray, np.ndarray]:
    if type_ != TIMESTAMPTZ:
        return got.micros, got.fine
    micros = got.micros - got.offset
    return micros, got.fine & (micros >= FIRST_MICRO) & (micros <= LAST_MICRO)


def _number(columns: np.ndarray, start: int, stop: int, fine: np.ndarray) -> np.ndarray:
    """The number with its digits in columns start..stop; rows with other characters leave `fine`."""
    value = np.zeros(columns.shape[1], np.int64 if stop - start > 4 else np.int32)
    for column in columns[start:stop]:
        fine &= column <= 9
        value = value * 10 + column
    return value


def _timestamp(columns: np.ndarray, type_: Type) -> _Read:
    size, n = columns.shape
    fine = (columns[4] == _DASH) & (columns[7] == _DASH)
    year, month, day = (_number(columns, *place, fine) for place in ((0, 4), (5, 7), (8, 10)))
    fine &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(fine, MONTHS_AT_YEAR_ZERO + year.astype(np.int64) * 12 + month - 1, 0)
    first = first_day(months)
    # Only a day past 28 needs to know how long its month is, but one comparison for all is cheaper than
    # choosing.
    fine &= day <= first_day(months + 1) - first
    micros = (first + day - 1) * MICROS_A_DAY
    if size == _DATE_SIZE:
        return _Read(micros, np.zeros(n, np.int64), fine)
    clock = _clock(columns, _DATE_SIZE + 1)
    fine &= np.isin(columns[_DATE_SIZE], _BEFORE_CLOCK) & clock.fine
    # A date keeps its day, though 23:59:59.9999999 is rounded up to the next.
    return _Read(micros if type_ == DATE else micros + clock.micros, clock.offset, fine)


def _clock(columns: np.ndarray, at: int) -> _Read:
    """hh:mm, or hh:mm:ss with a fraction and a zone, from column `at` on."""
    size, n = columns.shape
    nothing = np.zeros(n, np.int64)
    rest = size - at
    if rest != 5 and rest < _CLOCK_SIZE:
        return _Read(nothing, nothing, np.zeros(n, bool))
    fine = columns[at + 2] == _COLON
    hour, minute = _number(columns, at, at + 2, fine), _number(columns, at + 3, at + 5, fine)
    fine &= (hour <= 23) & (minute <= 59)
    micros = hour * np.int64(MICROS_AN_HOUR) + minute * np.int64(MICROS_A_MINUTE)
    if rest == 5:
        return _Read(micros, nothing, fine)
    fine &= columns[at + 5] == _COLON
    second = _number(columns, at + 6, at + 8, fine)
    fine &= second <= 59
    micros = micros + second * np.int64(MICROS_A_SECOND)
    if rest == _CLOCK_SIZE:
        return _Read(micros, nothing, fine)
    tail = _tail(columns, at + _CLOCK_SIZE)
    return _Read(micros + tail.micros, tail.offset, fine & tail.fine)


def _tail(columns: np.ndarray, at: int) -> _Read:
    """A fraction and a zone, either of which may be missing: at most one split of the rest fits a text."""
    size, n = columns.shape
    micros, offset, fine = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    for zone_size in _ZONE_SIZES:
        digits = size - at - zone_size - 1
        if digits == 0 or digits < -1 or digits > _MOST_DIGITS:
            continue
        here, east = _zone(columns, size - zone_size, zone_size)
        if digits > 0:
            here &= columns[at] == _POINT
            fraction = _number(columns, at + 1, at + 1 + digits, here).astype(np.int64)
            scaled = (
                fraction * 10 ** (6 - digits) if digits <= 6 else np.rint(fraction / 10.0 ** (digits - 6))
            )
            micros = np.where(here, scaled.astype(np.int64), micros)
        offset, fine = np.where(here, east, offset), fine | here
    return _Read(micros, offset, fine)


def _zone(columns: np.ndarray, at: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the last columns are a zone of this size, and its offset east in microseconds."""
    n = columns.shape[1]
    here, nothing = np.ones(n, bool), np.zeros(n, np.int64)
    if size == 0:
        return here, nothing
    if size == 1:
        return (columns[at] == _UPPER_Z) | (columns[at] == _LOWER_Z), nothing
    here = (columns[at] == _PLUS) | (columns[at] == _MINUS)
    hours = _number(columns, at + 1, at + 3, here).astype(np.int64)
    here &= hours <= 15
    minutes = nothing
    if size == 6:
        here &= columns[at + 3] == _COLON
    if size >= 5:
        minutes = _number(columns, at + size - 2, at + size, here).astype(np.int64)
        here &= minutes <= 59
    east = hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE
    return here, np.where(columns[at] == _MINUS, -east, east)
