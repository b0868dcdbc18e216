"""Parses dates and times: ISO forms by arithmetic on bytes, others one distinct text at a time.

Nearly all times in data are written `2024-01-05T10:00:00.123Z`, with or without the zone, the fraction and the T. Texts of equal
length in this form have every digit in the same place, so their bytes form a matrix, and a year is four of its columns: no loop
over texts is needed. Other texts (a month of one digit, `Jan 5 2024`, a zone's name, a 31st of June) go to `lenient_text.py`, which
parses each distinct text once and has PostgreSQL's messages for invalid ones.

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

from tidegate.expr.model.outcome import Outcome, from_numpy, integers
from tidegate.expr.model.types import DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.time.calendar import (
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
from tidegate.expr.primitives.time.lenient_text import TimeKind, parse_lenient

_DATE_SIZE, _CLOCK_SIZE = 10, 8
_MAX_TEXT_LENGTH, _STRICT_SIZE = 35, 24
_DASH, _COLON, _POINT, _PLUS, _MINUS, _UPPER_Z, _LOWER_Z = (np.uint8(b - 48 & 255) for b in b"-:.+-Zz")
_BEFORE_CLOCK = np.frombuffer(b"T t", np.uint8) - np.uint8(48)
_ZONE_SIZES = (0, 1, 3, 5, 6)
"""Nothing, Z, +hh, +hhmm, +hh:mm."""
_MAX_FRACTION_DIGITS = 9
"""Nanoseconds; longer fractions are rare, and 64 bits must hold the digits."""


class _ParsedColumns(NamedTuple):
    """Microseconds (of the day, or since 1970), the zone's offset, and which texts have the form."""

    micros: np.ndarray
    offset: np.ndarray
    fine: np.ndarray


def parse_times(texts: pa.Array, type_: Type) -> Outcome:
    """Texts as dates, times or timestamps; the zone is UTC where the text has none."""
    if len(texts) == 1 and (single := _parse_single(texts[0].as_py(), type_)) is not None:
        return Outcome(pa.array([single], pa.int64()).cast(type_.arrow))
    if (easy := _parse_with_arrow(texts, type_)) is not None:
        return Outcome(easy)
    micros, fine = _parse_bytes(texts, type_)
    other = ~fine
    if texts.null_count:
        other &= texts.is_valid().to_numpy(zero_copy_only=False)
    if not other.any():
        return Outcome(_from_micros(micros, type_, texts))
    rows = np.flatnonzero(other)
    distinct = texts.take(pa.array(rows)).dictionary_encode()
    kind = TimeKind(type_.kind.value)
    read = [parse_lenient(text, kind) for text in checked(distinct.dictionary.to_pylist())]
    which = distinct.indices.to_numpy()
    micros[rows] = np.array([result if isinstance(result, int) else 0 for result in read], np.int64)[which]
    messages = pa.array([result if isinstance(result, str) else None for result in read], pa.string())
    values = _from_micros(micros, type_, texts)
    if messages.null_count == len(messages):
        return Outcome(values)
    place = np.full(len(texts), -1)
    place[rows] = which
    errors = messages.take(pa.array(place, mask=place < 0))
    return Outcome(pc.if_else(errors.is_null(), values, pa.scalar(None, values.type)), errors)


def _parse_single(text: str | None, type_: Type) -> int | None:
    """Microseconds of one text in ISO form, as constants of queries are; None for any other text."""
    if text is None or type_ not in (TIMESTAMP, TIMESTAMPTZ) or (match := _ISO.fullmatch(text)) is None:
        return None
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, hours, minutes = match.group(7, 8, 9, 10)
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

    Seconds end at 59 and hours at 23: `10:00:60.900` would sort before `10:01:00.100` although it means a later time.
    """
    offsets, data = _layout(texts)
    rows = np.flatnonzero(np.diff(offsets) == _STRICT_SIZE)
    start = offsets[rows]
    shaped = np.zeros(len(texts), bool)
    shaped[rows] = (
        (data[start + 10] == ord("T")) & (data[start + 19] == ord(".")) & (data[start + 23] == ord("Z"))
    )
    if shaped.all() and texts.null_count == 0 and (easy := _parse_with_arrow(texts, TIMESTAMPTZ)) is not None:
        return easy.view(TIMESTAMP.arrow)
    micros, fine = _parse_bytes(texts, TIMESTAMPTZ)
    if texts.null_count:
        shaped &= texts.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(micros, mask=~(fine & shaped)).view(TIMESTAMP.arrow)


def _from_micros(micros: np.ndarray, type_: Type, texts: pa.Array) -> pa.Array:
    counts = np.floor_divide(micros, MICROS_A_DAY).astype(np.int32) if type_ == DATE else micros
    return from_numpy(counts, type_.arrow, texts)


def _parse_with_arrow(texts: pa.Array, type_: Type) -> pa.Array | None:
    """Arrow's parser, ten times as fast, if all texts have a form that it reads as PostgreSQL does."""
    present = texts.drop_null()
    if type_ == TIME or len(present) == 0:
        return None
    offsets, data = _layout(present)
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
    """The start of each text and the end of the last, and the bytes of all."""
    n = len(texts)
    if n == 0:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, n + 1 + texts.offset)[texts.offset :]
    return offsets, np.frombuffer(texts.buffers()[2] or b"", np.uint8)


def _parse_bytes(texts: pa.Array, type_: Type) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds of the texts in ISO form, and which texts have it."""
    n = len(texts)
    micros, fine = np.zeros(n, np.int64), np.zeros(n, bool)
    offsets, data = _layout(texts)
    sizes = np.diff(offsets)
    for size in np.flatnonzero(np.bincount(np.minimum(sizes, _MAX_TEXT_LENGTH + 1))[: _MAX_TEXT_LENGTH + 1]):
        if size < (5 if type_ == TIME else _DATE_SIZE):
            continue
        rows = np.flatnonzero(sizes == size)
        columns = _digit_matrix(data, offsets, rows, int(size), n)
        parsed = _clock(columns, 0) if type_ == TIME else _timestamp(columns, type_)
        micros[rows], fine[rows] = _to_utc(parsed, type_)
    return micros, fine


def _digit_matrix(data: np.ndarray, offsets: np.ndarray, rows: np.ndarray, size: int, n: int) -> np.ndarray:
    """Byte j of every text as row j, minus the code of "0": digits are 0 to 9, others above."""
    if len(rows) == n:
        matrix = data[offsets[0] : offsets[0] + n * size].reshape(n, size)
    else:
        matrix = data[offsets[rows][:, None] + np.arange(size)]
    return np.ascontiguousarray(matrix.T) - np.uint8(48)


def _to_utc(parsed: _ParsedColumns, type_: Type) -> tuple[np.ndarray, np.ndarray]:
    if type_ == TIME:
        # 23:59:59.9999999 rounds to 24:00:00, which is no time of day.
        return parsed.micros, parsed.fine & (parsed.micros < MICROS_A_DAY)
    if type_ != TIMESTAMPTZ:
        return parsed.micros, parsed.fine
    micros = parsed.micros - parsed.offset
    return micros, parsed.fine & (micros >= FIRST_MICRO) & (micros <= LAST_MICRO)


def _number(columns: np.ndarray, start: int, stop: int, fine: np.ndarray) -> np.ndarray:
    """The number in columns start..stop; rows with other characters are cleared in `fine`."""
    value = np.zeros(columns.shape[1], np.int64 if stop - start > 4 else np.int32)
    for column in columns[start:stop]:
        fine &= column <= 9
        value = value * 10 + column
    return value


def _timestamp(columns: np.ndarray, type_: Type) -> _ParsedColumns:
    size, n = columns.shape
    fine = (columns[4] == _DASH) & (columns[7] == _DASH)
    year, month, day = (_number(columns, *place, fine) for place in ((0, 4), (5, 7), (8, 10)))
    fine &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(fine, MONTHS_AT_YEAR_ZERO + year.astype(np.int64) * 12 + month - 1, 0)
    first = first_day(months)
    # Only days past 28 need the length of their month, but comparing all is cheaper than selecting.
    fine &= day <= first_day(months + 1) - first
    micros = (first + day - 1) * MICROS_A_DAY
    if size == _DATE_SIZE:
        return _ParsedColumns(micros, np.zeros(n, np.int64), fine)
    clock = _clock(columns, _DATE_SIZE + 1)
    fine &= np.isin(columns[_DATE_SIZE], _BEFORE_CLOCK) & clock.fine
    # A date keeps its day, although 23:59:59.9999999 rounds up to the next.
    return _ParsedColumns(micros if type_ == DATE else micros + clock.micros, clock.offset, fine)


def _clock(columns: np.ndarray, at: int) -> _ParsedColumns:
    """hh:mm, or hh:mm:ss with a fraction and a zone, from column `at` on."""
    size, n = columns.shape
    zero = np.zeros(n, np.int64)
    rest = size - at
    if rest != 5 and rest < _CLOCK_SIZE:
        return _ParsedColumns(zero, zero, np.zeros(n, bool))
    fine = columns[at + 2] == _COLON
    hour, minute = _number(columns, at, at + 2, fine), _number(columns, at + 3, at + 5, fine)
    fine &= (hour <= 23) & (minute <= 59)
    micros = hour * np.int64(MICROS_AN_HOUR) + minute * np.int64(MICROS_A_MINUTE)
    if rest == 5:
        return _ParsedColumns(micros, zero, fine)
    fine &= columns[at + 5] == _COLON
    second = _number(columns, at + 6, at + 8, fine)
    fine &= second <= 59
    micros = micros + second * np.int64(MICROS_A_SECOND)
    if rest == _CLOCK_SIZE:
        return _ParsedColumns(micros, zero, fine)
    tail = _tail(columns, at + _CLOCK_SIZE)
    return _ParsedColumns(micros + tail.micros, tail.offset, fine & tail.fine)


def _tail(columns: np.ndarray, at: int) -> _ParsedColumns:
    """A fraction and a zone, both optional; at most one split of the remaining columns fits a text."""
    size, n = columns.shape
    micros, offset, fine = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    for zone_size in _ZONE_SIZES:
        digits = size - at - zone_size - 1
        if digits == 0 or digits < -1 or digits > _MAX_FRACTION_DIGITS:
            continue
        matches, east = _zone(columns, size - zone_size, zone_size)
        if digits > 0:
            matches &= columns[at] == _POINT
            fraction = _number(columns, at + 1, at + 1 + digits, matches).astype(np.int64)
            scaled = (
                fraction * 10 ** (6 - digits) if digits <= 6 else np.rint(fraction / 10.0 ** (digits - 6))
            )
            micros = np.where(matches, scaled.astype(np.int64), micros)
        offset, fine = np.where(matches, east, offset), fine | matches
    return _ParsedColumns(micros, offset, fine)


def _zone(columns: np.ndarray, at: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the last columns are a zone of this size, and its eastern offset in microseconds."""
    n = columns.shape[1]
    matches, zero = np.ones(n, bool), np.zeros(n, np.int64)
    if size == 0:
        return matches, zero
    if size == 1:
        return (columns[at] == _UPPER_Z) | (columns[at] == _LOWER_Z), zero
    matches = (columns[at] == _PLUS) | (columns[at] == _MINUS)
    hours = _number(columns, at + 1, at + 3, matches).astype(np.int64)
    matches &= hours <= 15
    minutes = zero
    if size == 6:
        matches &= columns[at + 3] == _COLON
    if size >= 5:
        minutes = _number(columns, at + size - 2, at + size, matches).astype(np.int64)
        matches &= minutes <= 59
    east = hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE
    return matches, np.where(columns[at] == _MINUS, -east, east)
