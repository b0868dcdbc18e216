"""Values that break things: for each type a fixed corpus, and random ones around it.

A law over random values meets a boundary about never: the chance that a random float8 is NaN is 1 in 2,048
and that a random timestamp is a month's end in a leap year less still. So most values come from here: the
ends of every type, the values at which some function changes its mind (NaN of both signs, ±∞, -0.0, leap
days, instants at which clocks change), and a small domain in which equal values meet often.

>>> from tidegate.expr.model.types import INT2
>>> corpus(INT2).to_pylist()[:3]
[-32768, -32767, -1]
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.types import Kind, Type

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # integers of both timestamp types are made from it
MICRO = timedelta(microseconds=1)
FIRST = (datetime(1, 1, 1) - EPOCH) // MICRO  # noqa: DTZ001  # likewise
LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_999) - EPOCH) // MICRO  # noqa: DTZ001  # likewise
DAY = 86_400_000_000

INSTANTS = (
    FIRST, FIRST + 1, FIRST + DAY, LAST, LAST - 1, LAST - DAY, -DAY, -1_000_000, -1_000, -1, 0, 1, 999,
    1_000, 999_999, 1_000_000,
    DAY - 1, DAY,
)  # fmt: skip
"""The ends of the calendar, and 1970 from both sides, where division rounds the wrong way."""

MOMENTS = (
    "2024-01-30T23:00:00", "2024-01-31T01:00:00", "2024-01-31", "2024-02-28T23:59:59.999999", "2024-02-29",
    "2024-02-29T12:00:00",
    "2024-03-01", "2023-02-28", "2023-03-01", "2000-02-29", "1900-02-28", "1900-03-01",
    "2024-12-31T23:59:59.999999", "2024-12-30",
    "2025-01-01", "2021-01-03", "2021-01-04", "2020-12-31", "2000-12-31", "2001-01-01",
    "2024-03-31T00:59:59.999999",
    "2024-03-31T01:00:00", "2024-03-31T02:30:00", "2024-10-27T00:30:00", "2024-10-27T01:00:00",
    "2024-10-27T01:30:00",
    "2024-03-10T06:59:59", "2024-03-10T07:00:00", "2024-11-03T05:30:00", "2024-11-03T06:30:00", "1582-10-15",
    "1752-09-14",
    "2024-03-30T22:00:00", "2024-03-31T03:00:00", "2023-01-29T20:00:00", "2023-01-31T05:00:00",
    "2024-05-30T23:00:00",
    "2024-08-30T22:00:00", "2024-08-31T01:00:00", "2024-10-30T12:00:00", "2024-10-31T11:00:00", "2024-04-30",
    "2024-05-31T12:34:56.789012", "2024-07-04T00:00:00.5", "0004-02-29", "0999-12-31T23:59:59",
    "2038-01-19T03:14:08",
)  # fmt: skip
"""Month ends (Jan 30 + 1 month meets Jan 31 + 1 month), leap days, turns of ISO years, of centuries and of
DST.
"""

FLOATS = (
    float("-inf"), -1.7976931348623157e308, -3.4028234663852886e38, -9.3e18, -9223372036854775808.0,
    -2147483649.0, -2147483648.5,
    -32768.5, -1e10, -2.5, -1.5, -1.0, -0.5, -1e-7, -1.1754943508222875e-38, -5e-324, -0.0, 0.0, 5e-324,
    1e-45, 2.2250738585072014e-308,
    1e-7, 0.1, 0.49999999999999994, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 1e6, 16777217.0, 32767.5,
    2147483647.5, 2147483648.0,
    9007199254740993.0, 9223372036854774784.0, 9223372036854775808.0, 1e15, 1e16, 1e18, 1e20, 1e21,
    3.4028234663852886e38, 1e308,
    1.7976931348623157e308, float("inf"),
)  # fmt: skip
NANS = (np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64)).view(np.float64)
"""NaN of both signs, and a signalling one."""

PRECISIONS = (3, 10, 18, 19, 20, 21, 28, 29, 36, 37, 38)
"""Digits at which a number stops fitting something: types in use, a float, int64, Python's context, 128 bits."""


def digit_texts() -> tuple[str, ...]:
    """Whole numbers and fractions of lengths around every precision, where multiplying by a power of ten overflows."""
    sizes = sorted({max(1, p + d) for p in PRECISIONS for d in (-1, 0, 1, 2)} | {78, 291, 309, 400})
    leads = (
        "9",
        "1",
        "5",
        "34",
        "170141183460469231731687303715884105728",
        "340282366920938463463374607431768211456",
    )
    whole = [(lead + "7083194625" * 40)[:n] for n in sizes for lead in leads]
    fractions = [f"{text[: len(text) // 2]}.{text[len(text) // 2 :]}" for text in whole[::2]]
    return tuple(dict.fromkeys((*whole, *fractions, *(f"-{text}" for text in whole[::3]))))


TEXTS = (
    "", " ", "a", "A", "b", "z", "Z", "aa", "ab", "AZ", "AAZ", "AA", "ba", "%", "_", "a%", "\\", "a\\", "'",
    '"', "\t", "\n", "\x01", "\x7f",
    "é", "e\u0301", "ß", "ẞ", "ı", "İ", "ſ", "ǆ", "Σ", "ς", "ß1", "日本", "\ud7ff", "\ue000", "\uffff",
    "\U00010000", "\U0010ffff",
    "a\U0010ffff", "\U0010ffff\U0010ffff", "x" * 100, "x" * 101, "x" * 100 + "y", "\U0010ffff" * 26,
    "hello world", "Hello World",
    "  pad  ", "foo.bar", "a,b,,c", "abcabc", "aXbXc", "0", "1", "-1", "+1", "01", " 1 ", "1.5", "1e3",
    "1e400", "-0", "1_000", "0x1F",
    "32768", "2147483648", "9223372036854775808", "1" * 39, "0." + "0" * 20 + "1", "NaN", "-nan", "Infinity",
    "-inf", "1.",
    ".5", ".", "-", "t", "true", "off", "yes", "2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31",
    "10000-01-01", "2024-01-31 23:59:60",
    "2024-02-29 12:34:56.789", "2024-02-29T12:34:56Z", "2024-02-29T12:34:56.123456Z",
    "2024-02-29 12:34:56+02", "12:34:56", "24:00:00",
    "12:34", "1 month", "30 days", "-1 day", "1 year 2 mons 3 days 04:05:06", "P1Y2M", "00:00:00.000001",
    "junk",
    "null", "{}", "[]", '{"a":1}', "[1,2]", '"x"', "00000000-0000-0000-0000-000000000000", "\\x00ff",
    "{1,2}", "infinity", "epoch", *digit_texts()[::7],
)  # fmt: skip

INTERVALS = (  # months, days, microseconds
    (0, 0, 0), (0, 0, 1), (0, 0, -1), (0, 0, 999_999), (0, 0, DAY), (0, 0, -DAY), (0, 1, 0), (0, -1, 0), (0,
    1, -DAY), (0, -1, DAY + 1),
    (0, 30, 0), (1, 0, 0), (-1, 0, 0), (1, -30, 0), (1, -29, 0), (0, 30, 1), (0, 31, 0), (0, 29, DAY), (12,
    0, 0), (0, 360, 0), (2, 0, 0), (6, 0, 0), (-2, 0, 0), (-11, 0, 0), (3, 0, 1),
    (0, 365, 0), (0, 7, 0), (0, 0, 3_600_000_000), (0, 0, 900_000_000), (1, 1, 1), (-1, 1, 1), (13, -31, 5),
    (0, 0, 9_223_372_036_854_775),
    (0, 0, -9_223_372_036_854_775), (119_988, 0, 0), (-119_988, 0, 0), (0, 3_652_058, 0), (0, -3_652_058, 0),
    (0, 100_000_000, 0),
    (3_000_000, 0, 0), (-3_000_000, 0, 0), (0, 2, 43_200_000_000),
)  # fmt: skip

DOCUMENTS = (
    "null", "true", "false", "0", "1", "-1", "5", "1.5", "-2.5", "0.1", "100000000000000000000", "1e40",
    "123456789012345678.123456789012345678", "12345678901234567890123", "-99999999999999999999999999999999999999",
    '{"a":12345678901234567890123}', '"365444689234642135998"',
    "0.0000000000000000001", "9223372036854775807", "9223372036854775808", "1700000000000", '""', '"a"',
    '"b"', '"1"', '"1.5"', '"NaN"',
    '"true"', '"2024-02-29T12:34:56Z"', '"x y"', '"é\U0010ffff"', '"\\u0001\\n\\"\\\\"', "[]", "[1]",
    "[1,2,3]", '["a","b"]', "[null]", "[[1],[2]]",
    '[{"a":1}]', '[1,"a",null,true]', "{}", '{"a":1}', '{"a":2}', '{"a":5}', '{"a":-3.5}', '{"a":"1"}',
    '{"a":"x"}', '{"a":null}', '{"a":true}',
    '{"a":[1,2]}', '{"a":{"b":1}}', '{"a":{"b":"z"}}', '{"a":{"b":null}}', '{"a":{}}', '{"a":{"b":{"a":7}}}',
    '{"b":1}', '{"b":"x"}',
    '{"a":1,"b":2}', '{"a":"x","b":null}', '{"a":1,"b":{"a":3}}', '{"":1}', '{"ts":1700000000000}',
    '{"ts":"2024-01-01"}',
    '{"a":1,"b":2,"ts":3,"aa":[]}', '{"1":"one"}', '{"a":1e30}', '{"a":false,"b":[]}', '{"a":"\U0010ffff"}',
)  # fmt: skip

BYTES = (
    b"", b"\0", b"\xff", b"\xff" * 101, b"a", b"ab", b"\x00\xff", b"\x7f", b"\x80", b"x" * 100, b"x" * 101, b"\xc3\xa9",
)  # fmt: skip
UUIDS = (
    b"\0" * 16, b"\xff" * 16, bytes(range(16)), b"\x80" + b"\0" * 15, b"\x7f" + b"\xff" * 15, b"\0" * 15 + b"\1",
)  # fmt: skip
CLOCK = (0, 1, 999_999, 10**6, DAY // 2, DAY // 2 + 1, DAY - 1, DAY - 10**6, 3_600_000_000)
"""Times of day in microseconds."""


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    around = [
        -top,
        -top + 1,
        -1,
        0,
        1,
        2,
        3,
        5,
        7,
        10,
        12,
        13,
        30,
        31,
        59,
        60,
        100,
        1000,
        1024,
        2024,
        -2,
        -3,
        -7,
        -10,
        -100,
        top - 2,
        top - 1,
    ]
    edges = [
        s * e + d
        for e in (2**15, 2**31, 10**9, 10**18, 2**62)
        for s in (-1, 1)
        for d in (-1, 0, 1)
        if e < top
    ]
    halves = [int(top**0.5), -int(top**0.5) - 1, top // 2, -top // 2, 5, 15, 25, 35, -5, -15, -25]
    return list(dict.fromkeys(v for v in (*around, *edges, *halves) if -top <= v < top))


def _numerics(type_: Type) -> list[int]:
    """Unscaled values: the ends, neighbours of halves and of integers, and the ends of integer types."""
    assert type_.precision is not None
    assert type_.scale is not None
    top, one = 10**type_.precision - 1, 10**type_.scale
    half = one // 2
    whole = [v for bits in (16, 32, 64) for v in (2 ** (bits - 1), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)]
    near = [
        v * one + d
        for v in (0, 1, -1, 2, -2, 3, 5, 10, -10, 25, 100, *whole)
        for d in (0, 1, -1, half, -half, half + 1)
    ]
    return list(dict.fromkeys(v for v in (*near, top, -top, top - 1, top // 2, 1 - top) if abs(v) <= top))


def decimals(unscaled: Iterable[int], type_: pa.DataType) -> pa.Array:
    """Decimals from their unscaled integers, without a detour over Python's context."""
    raw = b"".join(int(v).to_bytes(16, "little", signed=True) for v in unscaled)
    return pa.Array.from_buffers(type_, len(raw) // 16, [None, pa.py_buffer(raw)])


def micros(moments: Iterable[str]) -> list[int]:
    """ISO texts as microseconds since 1970."""
    return [(datetime.fromisoformat(m) - EPOCH) // MICRO for m in moments]


def intervals(parts: Iterable[tuple[int, int, int]]) -> pa.Array:
    """Intervals from months, days and microseconds."""
    return pa.array([pa.MonthDayNano([m, d, u * 1000]) for m, d, u in parts], pa.month_day_nano_interval())


def documents(texts: Iterable[str]) -> pa.Array:
    """Canonical jsonb, by the cast from text once there is one."""
    given = pa.array(list(texts), pa.string())
    cast = REGISTRY.cast(Kind.TEXT, Kind.JSONB)
    if cast is None:
        return pa.array(
            [json.dumps(json.loads(t), separators=(",", ":"), ensure_ascii=False) for t in given.to_pylist()]
        )
    return cast.run([given], Type(Kind.JSONB)).values.drop_null()


@lru_cache(None)
def corpus(type_: Type) -> pa.Array:
    """The fixed poison values of a type, nulls left out."""
    arrow = type_.arrow
    match type_.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return pa.array(_integers(arrow.bit_width), arrow)
        case Kind.FLOAT4 | Kind.FLOAT8:
            return _floats(np.concatenate([FLOATS, NANS]), arrow)
        case Kind.NUMERIC:
            return decimals(_numerics(type_), arrow)
        case Kind.TEXT | Kind.UNKNOWN:
            return pa.array([t[: type_.length] for t in TEXTS])
        case Kind.DATE:
            days = [v // DAY for v in (*INSTANTS, *micros(MOMENTS))]
            return pa.array(list(dict.fromkeys(days)), pa.int32()).view(arrow)
        case Kind.TIME:
            return pa.array(CLOCK, pa.int64()).view(arrow)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return pa.array([*INSTANTS, *micros(MOMENTS)], pa.int64()).view(arrow)
        case Kind.INTERVAL:
            return intervals(INTERVALS)
        case Kind.JSONB:
            return documents(DOCUMENTS)
        case Kind.BOOL | Kind.BYTEA | Kind.UUID:
            return pa.array(
                {Kind.BOOL: (False, True), Kind.BYTEA: BYTES, Kind.UUID: UUIDS}[type_.kind], arrow
            )
        case _:
            return nested(type_, np.random.default_rng(0), 24)


def _floats(values: np.ndarray, arrow: pa.DataType) -> pa.Array:
    with np.errstate(all="ignore"):  # float8's ends are beyond float4, and NaN may be signalling
        return pa.array(values.astype(arrow.to_pandas_dtype()), arrow)


def random_values(type_: Type, rng: np.random.Generator, n: int) -> pa.Array:
    """Random values without NULL, of all magnitudes rather than uniform."""
    arrow = type_.arrow
    match type_.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return pa.array(magnitudes(rng, n, arrow.bit_width - 1), arrow)
        case Kind.FLOAT4 | Kind.FLOAT8:
            bits = rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)
            return _floats(np.where(rng.random(n) < 0.5, bits, np.round(rng.normal(0, 1000, n), 2)), arrow)
        case Kind.NUMERIC:
            assert type_.precision is not None
            size = rng.integers(1, type_.precision + 1, n)
            digits = [int("".join(map(str, rng.integers(0, 10, k)))) for k in size]
            signs = rng.choice([-1, 1], n).tolist()
            return decimals([d * s for d, s in zip(digits, signs, strict=True)], arrow)
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.INTERVAL:
            return _random_times(type_, rng, n)
        case Kind.TEXT | Kind.UNKNOWN:
            letters = np.array(list("abzAZ019 -.:%_é\U0010ffff\ud7ff"))
            drawn = ["".join(rng.choice(letters, rng.integers(0, 6))) for _ in range(n)]
            return pa.array([text[: type_.length] for text in drawn], pa.string())
        case Kind.BYTEA | Kind.UUID:
            sizes = np.full(n, 16) if type_.kind is Kind.UUID else rng.integers(0, 6, n)
            return pa.array([rng.bytes(k) for k in sizes], arrow)
        case Kind.ARRAY | Kind.RECORD:
            return nested(type_, rng, n)
        case _:
            return corpus(type_).take(pa.array(rng.integers(0, len(corpus(type_)), n)))


def _random_times(type_: Type, rng: np.random.Generator, n: int) -> pa.Array:
    """Times around now and around the moments that matter, a few anywhere in the calendar."""
    arrow = type_.arrow
    match type_.kind:
        case Kind.DATE:
            return pa.array(rng.integers(FIRST // DAY, LAST // DAY, n), pa.int32()).view(arrow)
        case Kind.TIME:
            return pa.array(rng.integers(0, DAY, n), pa.int64()).view(arrow)
        case Kind.INTERVAL:
            months = rng.integers(-30, 30, n) * (rng.random(n) < 0.4)
            parts = (months, rng.integers(-40, 40, n), magnitudes(rng, n, 50))
            return intervals(zip(*(part.tolist() for part in parts), strict=True))
        case _:
            around = np.where(rng.random(n) < 0.5, 1_700_000_000_000_000, rng.choice(micros(MOMENTS), n))
            recent = around + magnitudes(rng, n, 56) // np.where(rng.random(n) < 0.5, 2**18, 1)
            value = np.where(rng.random(n) < 0.2, rng.integers(FIRST, LAST, n), recent)
            return pa.array(np.clip(value, FIRST, LAST), pa.int64()).view(arrow)


def magnitudes(rng: np.random.Generator, n: int, bits: int) -> np.ndarray:
    """Integers of at most so many bits, every length as likely as every other, both signs."""
    shift = rng.integers(0, bits, n)
    value: np.ndarray = rng.integers(-(2**62), 2**62, n) >> (62 - shift)
    return value


def nested(type_: Type, rng: np.random.Generator, n: int) -> pa.Array:
    """Arrays (empty ones and NULLs inside too) or records (NULL fields too) of poison values."""
    if type_.element is not None:
        sizes = rng.choice([0, 1, 1, 2, 2, 3, 5], n)
        inside = with_nulls(rng, mixed(type_.element, rng, int(sizes.sum())), 0.15)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), inside).cast(type_.arrow)
    fields = [with_nulls(rng, mixed(t, rng, n), 0.15) for _, t in type_.fields]
    return pa.StructArray.from_arrays(fields, fields=list(type_.arrow))


def mixed(type_: Type, rng: np.random.Generator, n: int) -> pa.Array:
    """Poison and random values by turns, no NULL among them."""
    fixed = corpus(type_)
    drawn = fixed.take(pa.array(rng.integers(0, len(fixed), n)))
    if type_.kind in (Kind.BOOL, Kind.JSONB):
        return drawn
    return choose(rng.random(n) < 0.7, drawn, random_values(type_, rng, n))


def choose(mask: np.ndarray, a: pa.Array, b: pa.Array) -> pa.Array:
    """`a` where the mask holds, else `b`; for nested arrays too."""
    both = pa.concat_arrays([a, b])
    return both.take(pa.array(np.where(mask, np.arange(len(a)), len(a) + np.arange(len(b)))))


def with_nulls(rng: np.random.Generator, array: pa.Array, share: float) -> pa.Array:
    """The array with about that share of its values replaced by NULL."""
    index = pa.array(np.arange(len(array)), mask=rng.random(len(array)) < share)
    return array.take(index)


def not_nan(array: pa.Array) -> pa.Array:
    """The array without NaN."""
    return array.filter(pc.invert(pc.is_nan(array))) if pa.types.is_floating(array.type) else array
