r"""to_timestamp and to_date by a pattern, which becomes a regular expression.

    to_date('05/01/2024', 'DD/MM/YYYY')  →  ^\s*(\d+)(?:[^0-9A-Za-z]*(?:(\d+) … |\s*$)|\s*$)  →  5, 1, 2024

As in PostgreSQL a separator stands for any separators or none, a letter for any letter, input may end early
(what is missing is 1 or 0), and what follows the pattern is ignored. A text that does not fit is an error that
names the pattern. A number takes all its digits, unless another number follows at once: to_date('2024101', 'YYYY-MM')
fails, for there is no year 2024101.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.time.to_char import DAYS, MONTHS
from tidegate.expr.model.function import MODERATE, scalar
from tidegate.expr.model.outcome import Datum, Errors, Outcome, failing, first_error, from_numpy, with_errors
from tidegate.expr.model.types import DATE, TEXT, TIMESTAMPTZ
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import (
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
)
from tidegate.expr.primitives.time.format_pattern import PatternPiece, parse_pattern
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows

_DIGITS = {
    "YYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MM": 2, "DD": 2, "DDD": 3, "HH24": 2, "HH12": 2, "HH": 2, "MI": 2,
    "SS": 2, "MS": 3, "US": 6, "J": 7, **{f"FF{n}": n for n in range(1, 7)},
}  # fmt: skip
_NAMES = {
    "MONTH": [*MONTHS], "MON": [name[:3] for name in MONTHS],
    "DAY": [*DAYS], "DY": [name[:3] for name in DAYS],
}  # fmt: skip
_IGNORED = {"DAY", "DY"}


_MOST_DIGITS = 9
"""Of a number that no other follows at once; no field is as large."""


def _literal(text: str, between_numbers: bool) -> str:
    """Text between tokens: separators stand for any or none, letters for as many characters.

    RE2 cannot say that a number has taken all its digits: what follows it must begin with something else.
    """
    if not any(c.isalnum() for c in text):
        return r"[^0-9A-Za-z]" + ("+" if between_numbers else "*")
    parts = []
    for run in re.findall(r"[0-9A-Za-z]+|[^0-9A-Za-z]+", text):
        letters = rf"[^0-9](?s:.{{{len(run) - 1}}})"
        parts.append(letters if run[0].isalnum() else r"[^0-9A-Za-z]*")
    return rf"(?:\s{{{len(text)},}}|{''.join(parts)})"


class _Pattern:
    """A pattern as a regular expression, and what each of its groups means."""

    def __init__(self, pattern: str) -> None:
        self.tokens: list[str] = []
        self.unknown = ""
        body, depth = "", 0
        parts = parse_pattern(pattern)
        for i, piece in enumerate(parts):
            follows = i + 1 < len(parts) and parts[i + 1].token in _DIGITS
            if piece.token:
                part = self._group(piece, follows)
            else:
                part = _literal(piece.literal, follows and i > 0)
            body += part if depth == 0 else f"(?:{part}"
            depth += 1
        self.regex = rf"(?i)^\s*{body}" + r"|\s*$)" * (depth - 1)

    def _group(self, piece: PatternPiece, digits_follow: bool) -> str:
        name = f"{piece.token.upper().replace('.', '').lower()}_{len(self.tokens)}"
        if piece.token in _DIGITS:
            most = _DIGITS[piece.token]
            digits = rf"\d{{{most}}}|\d{{1,{most}}}$" if digits_follow else rf"\d{{1,{_MOST_DIGITS}}}"
            self.tokens.append(piece.token)
            return rf"\s*(?P<{name}>{digits})"
        spelled = piece.token.upper().replace(".", "")
        self.tokens.append(spelled)
        if spelled in _NAMES:
            return rf"\s*(?P<{name}>{'|'.join(_NAMES[spelled])})"
        if spelled in ("AM", "PM"):
            return rf"\s*(?P<{name}>[ap]\.?m\.?)"
        self.unknown = self.unknown or piece.token
        return ""


_LONGEST = 500
"""Letters of a pattern: it becomes a regular expression with nested groups, and RE2 allows 1,000 levels."""
_pattern = lru_cache(maxsize=256)(_Pattern)


def _fields(groups: pa.Array, tokens: list[str]) -> dict[str, np.ndarray]:
    """The number of each token; -1 where the input ended before it."""
    fields = {}
    for i, token in enumerate(tokens):
        text = pc.struct_field(groups, [i])
        if token in _NAMES:
            lowered = pc.utf8_lower(text)
            value = pc.index_in(lowered, value_set=pa.array([name.lower() for name in _NAMES[token]]))
            numbers = pc.add(value, 1)
        elif token in ("AM", "PM"):
            numbers = pc.starts_with(pc.utf8_lower(text), "p").cast(pa.int64())
        else:
            blank = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
            width = 6 if token == "US" or token.startswith("FF") else 3
            fraction = token in ("MS", "US") or token.startswith("FF")
            numbers = (pc.utf8_rpad(blank, width, "0") if fraction else blank).cast(pa.int64())
        found = pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        if token.startswith("FF"):
            unit = 10 ** (6 - int(token[2:]))
            found = np.where(found < 0, found, (found + unit // 2) // unit * unit)
        fields[token] = found
    return fields


def _first_field(fields: dict[str, np.ndarray], n: int, missing: int, *tokens: str) -> np.ndarray:
    for token in tokens:
        if token in fields:
            return np.where(fields[token] < 0, missing, fields[token])
    return np.full(n, missing, np.int64)


def _year(fields: dict[str, np.ndarray], n: int) -> np.ndarray:
    if "YYYY" in fields:
        return _first_field(fields, n, 1, "YYYY")
    short = _first_field(fields, n, -1, "YYY", "YY", "Y")
    if "YYY" in fields:
        near = np.where(short < 100, short + 2000, np.where(short < 520, short + 2000, short + 1000))
    else:
        near = np.where(short < 70, short + 2000, short + 1900)
    return np.where(short < 0, 1, near)


def _assemble(texts: pa.Array, fields: dict[str, np.ndarray]) -> tuple[np.ndarray, Errors]:
    """Microseconds since 1970, and errors where a field is out of range."""
    n = len(texts)
    year, month, day = (
        _year(fields, n),
        _first_field(fields, n, 1, "MM", "MONTH", "MON"),
        _first_field(fields, n, 1, "DD"),
    )
    hour, minute, second = (
        _first_field(fields, n, 0, "HH24", "HH12", "HH"),
        _first_field(fields, n, 0, "MI"),
        _first_field(fields, n, 0, "SS"),
    )
    fine = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    safe_year, safe_month = np.where(fine, year, 1), np.where(fine, month, 1)
    days = civil.days_of(safe_year, safe_month, np.where(fine, day, 1))
    fine &= civil.year_month_day(days)[1] == safe_month
    if "DDD" in fields:
        january = np.ones_like(year)
        days = np.where(
            fields["DDD"] > 0, civil.days_of(safe_year, january, january) + fields["DDD"] - 1, days
        )
    if "J" in fields:
        days = np.where(fields["J"] >= 0, fields["J"] - 2_440_588, days)
    half = _first_field(fields, n, -1, "AM", "PM")
    fine &= (hour <= 23) & (minute <= 59) & (second <= 59) & ((half < 0) | ((hour >= 1) & (hour <= 12)))
    hour = np.where(half >= 0, hour % 12 + 12 * half, hour)
    clock = hour * MICROS_AN_HOUR + minute * MICROS_A_MINUTE + second * MICROS_A_SECOND
    for token, unit in (("MS", 1000), ("US", 1), *((f"FF{d}", 1) for d in range(1, 7))):
        if token in fields:
            part = _first_field(fields, n, 0, token) * unit
            fine &= part <= MICROS_A_SECOND - (
                not token.startswith("FF")
            )  # rounded, it may be a whole second
            clock = clock + part
    message = pc.binary_join_element_wise('date/time field value out of range: "', texts, '"', "")
    return np.where(fine, days * MICROS_A_DAY + clock, 0), failing(~fine, message)


def _read(pattern: str, texts: pa.Array) -> tuple[np.ndarray, Errors] | str:
    if len(pattern) > _LONGEST:
        return f'format "{pattern[:50]}…" cannot be read: it has more than {_LONGEST} letters'
    compiled = _pattern(pattern)
    if compiled.unknown or not compiled.tokens:
        return f'format "{pattern}" cannot be read: "{compiled.unknown or pattern}" is not supported in input'
    groups = pc.extract_regex(texts, compiled.regex)
    micros, errors = _assemble(texts, _fields(groups, compiled.tokens))
    unfit = pc.and_(groups.is_null(), texts.is_valid())
    message = pc.binary_join_element_wise('invalid value "', texts, f'" for format "{pattern}"', "")
    return micros, first_error(failing(unfit, message), errors)


@scalar("to_timestamp", (TEXT, TEXT), TIMESTAMPTZ, cost=MODERATE, stable=True)
def to_timestamp_by_pattern(a: Datum, pattern: Datum) -> Outcome:
    """The instant (in UTC) of a text in the format of a pattern: `YYYY-MM-DD HH24:MI:SS`."""

    def run(p: str, texts: pa.Array) -> Outcome:
        parsed = _read(p, texts)
        if isinstance(parsed, str):
            return fail_all_rows(parsed, len(texts), TIMESTAMPTZ.arrow)
        values, outside = civil.timestamps(parsed[0], TIMESTAMPTZ.arrow, texts)
        return with_errors(values, first_error(parsed[1], outside))

    return evaluate_by_choice(pattern, run, TIMESTAMPTZ.arrow, a)


@scalar("to_date", (TEXT, TEXT), DATE, cost=MODERATE, stable=True)
def to_date_by_pattern(a: Datum, pattern: Datum) -> Outcome:
    """The date of a text in the format of a pattern: `DD/MM/YYYY`."""

    def run(p: str, texts: pa.Array) -> Outcome:
        parsed = _read(p, texts)
        if isinstance(parsed, str):
            return fail_all_rows(parsed, len(texts), DATE.arrow)
        days = np.floor_divide(parsed[0], MICROS_A_DAY)
        outside = failing((days < civil.FIRST_DAY) | (days > civil.LAST_DAY), "date out of range")
        return with_errors(
            from_numpy(days.astype(np.int32), DATE.arrow, texts), first_error(parsed[1], outside)
        )

    return evaluate_by_choice(pattern, run, DATE.arrow, a)
