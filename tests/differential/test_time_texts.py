"""Texts of dates, times and intervals, read by us and by a real PostgreSQL: equal values, and refusals of the same texts."""

from __future__ import annotations

import struct

import psycopg
import pyarrow as pa
import pytest

from tests.differential.postgres import EPOCH_2000_DAYS, EPOCH_2000_MICROS, Postgres
from tests.differential.time_texts import (
    QUALIFIED,
    QUALIFIERS,
    clock_texts,
    date_texts,
    interval_texts,
    timestamp_texts,
)
from tidegate.expr.model.types import DATE, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time.interval_text import parse_interval
from tidegate.expr.primitives.time.make_interval import MAX_DAYS
from tidegate.expr.primitives.time.text import parse_times

pytestmark = pytest.mark.postgres

Answer = tuple[int, ...] | str
"""The parts of a value, or the message of an error."""


def ask(postgres: Postgres, sql: str, form: str, *values: str) -> Answer:
    """PostgreSQL's value of `sql` as integers of its binary form, or its message."""
    try:
        (sent,) = postgres.connection.execute(f"SELECT encode({sql}, 'hex')", values).fetchone()
    except psycopg.Error as error:
        return str(error).split("\n")[0]
    return struct.unpack(form, bytes.fromhex(sent))


def ask_interval(postgres: Postgres, sql: str, *values: str) -> Answer:
    answer = ask(postgres, f"interval_send({sql})", ">qii", *values)
    return answer if isinstance(answer, str) else answer[::-1]


def our_interval(text: str, unit: str | None = None, precision: int | None = None) -> Answer:
    try:
        return parse_interval(text, unit, precision)
    except ValueError as error:
        return str(error)


def beyond_our_range(answer: Answer) -> bool:
    """Whether PostgreSQL has an interval that is longer than ours can be, or whose hours we carry into days."""
    if isinstance(answer, str):
        return False
    months, days, micros = answer
    return abs(months * 30 + days + micros // 86_400_000_000) >= MAX_DAYS or abs(micros) > 2**63 // 1000


def equal(ours: Answer, theirs: Answer) -> bool:
    return (isinstance(ours, str) and isinstance(theirs, str)) or ours == theirs


def test_intervals(postgres: Postgres) -> None:
    texts = interval_texts()
    answers = [
        (text, our_interval(text), ask_interval(postgres, "%s::text::interval", text)) for text in texts
    ]
    wrong = [row for row in answers if not equal(*row[1:]) and not beyond_our_range(row[2])]
    assert wrong == []
    assert sum(not isinstance(theirs, str) for _, _, theirs in answers) > 200
    assert sum(isinstance(theirs, str) for _, _, theirs in answers) > 140


@pytest.mark.parametrize("qualifier", QUALIFIERS)
def test_intervals_with_a_unit_behind(postgres: Postgres, qualifier: str) -> None:
    for text in QUALIFIED:
        theirs = ask_interval(postgres, f"INTERVAL '{text}' {qualifier}")
        assert equal(our_interval(text, qualifier), theirs), (text, our_interval(text, qualifier), theirs)


@pytest.mark.parametrize("digits", range(7))
def test_intervals_with_digits_of_seconds(postgres: Postgres, digits: int) -> None:
    for text in QUALIFIED:
        theirs = ask_interval(postgres, f"'{text}'::interval({digits})")
        assert equal(our_interval(text, None, digits), theirs), (text, theirs)


KINDS = {
    "date": (DATE, ">i", EPOCH_2000_DAYS, date_texts(), 50, 30),
    "time": (TIME, ">q", 0, clock_texts(), 100, 100),
    "timestamp": (TIMESTAMP, ">q", EPOCH_2000_MICROS, timestamp_texts(), 700, 500),
    "timestamptz": (TIMESTAMPTZ, ">q", EPOCH_2000_MICROS, timestamp_texts(), 700, 500),
}
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def our_times(texts: list[str], type_: Type) -> list[Answer]:
    values, errors = parse_times(pa.array(texts), type_)
    numbers = values.view(pa.int32() if type_ == DATE else pa.int64()).to_pylist()
    messages = [None] * len(texts) if errors is None else errors.to_pylist()
    return [
        (value,) if message is None else message for value, message in zip(numbers, messages, strict=True)
    ]


def refused_on_purpose(text: str, type_: Type, theirs: Answer) -> bool:
    """Words that mean another time whenever they are read, times outside of the calendar, 24:00, an epoch with a clock."""
    words = text.lower()
    if any(word in words for word in ("now", "today", "tomorrow", "yesterday", "infinity")):
        return True
    if isinstance(theirs, str):
        return False
    if type_ == TIME:
        return theirs[0] == 86_400_000_000
    micros = theirs[0] * (86_400_000_000 if type_ == DATE else 1)
    return not FIRST <= micros <= LAST or ("epoch" in words and words != "epoch")


@pytest.mark.parametrize("name", KINDS)
def test_dates_and_times(postgres: Postgres, name: str) -> None:
    type_, form, epoch, given, read, refused = KINDS[name]
    texts = list(dict.fromkeys(given))
    wrong = []
    counts = {True: 0, False: 0}
    for text, mine in zip(texts, our_times(texts, type_), strict=True):
        theirs = ask(postgres, f"{name}_send(%s::text::{name})", form, text)
        theirs = theirs if isinstance(theirs, str) else (theirs[0] + epoch,)
        counts[isinstance(theirs, str)] += 1
        excused = isinstance(mine, str) and refused_on_purpose(text, type_, theirs)
        if not equal(mine, theirs) and not excused:
            wrong.append((text, mine, theirs))
    assert wrong == []
    assert counts[False] > read
    assert counts[True] > refused


@pytest.mark.parametrize("word", ["now", "today", "tomorrow", "yesterday", " Today "])
def test_words_that_move_are_refused_by_name(word: str) -> None:
    (message,) = our_times([word], TIMESTAMPTZ)
    assert isinstance(message, str)
    assert "means another time whenever it is read: write now(), current_date or a date" in message
