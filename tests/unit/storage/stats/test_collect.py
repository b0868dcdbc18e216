"""What is collected of plain columns: counts, bounds, NaN, months, nested types, guesses; and how bounds are cut."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    TEXT,
    TIME,
    TIMESTAMPTZ,
    UUID,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip
from tidegate.storage.stats import shorten as cut
from tidegate.storage.stats.collect import ColumnValues, collect
from tidegate.storage.stats.extremes import extremes
from tidegate.storage.stats.histogram import HISTOGRAM, fraction_below, histogram
from tidegate.storage.stats.model import ColumnStats

NAN = float("nan")


def stats(values: Any, type_: Type) -> ColumnStats:
    given = values if isinstance(values, pa.Array) else pa.array(values, type_.arrow)
    return collect([ColumnValues(0, "c", type_, given)], len(given)).part()[0]


@pytest.mark.parametrize(
    ("type_", "values", "low", "high"),
    [
        (BOOL, [True, None, True], True, True),
        (INT4, [3, None, -5], -5, 3),
        (INT8, [2**63 - 1, -(2**63)], -(2**63), 2**63 - 1),
        (FLOAT8, [NAN, 1.5, -0.0, None], -0.0, 1.5),
        (FLOAT4, [float("-inf"), float("inf")], float("-inf"), float("inf")),
        (numeric(10, 2), [Decimal("1.5"), Decimal("-0.01")], -1, 150),
        (numeric(38, 0), [Decimal(10**37), Decimal(-5)], -5, 10**37),
        (TEXT, ["b", "a", "é", None], "a", "é"),
        (BYTEA, [b"\xff", b"", b"\x00"], b"", b"\xff"),
        (DATE, [dt.date(1970, 1, 2), dt.date(1969, 12, 31)], -1, 1),
        (TIME, [dt.time(0, 0, 1)], 1_000_000, 1_000_000),
        (TIMESTAMPTZ, [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None], 0, 0),
        (INTERVAL, [pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([0, 31, 0])], (1, 0, 0), (0, 31, 0)),
        (
            UUID,
            [b"\x7f" + b"\0" * 15, b"\x80" * 16, b"\x7f" + b"\0" * 14 + b"\1"],
            b"\x7f" + b"\0" * 15,
            b"\x80" * 16,
        ),
    ],
    ids=str,
)
def test_bounds(type_: Type, values: list[Any], low: Any, high: Any) -> None:
    found = stats(values, type_)
    assert (found.low, found.high) == (low, high)
    assert (found.rows, found.nulls) == (len(values), values.count(None))


def test_what_is_not_there_has_no_bounds() -> None:
    for type_ in (INT8, FLOAT8, TEXT, UUID, INTERVAL, numeric(10, 2)):
        found = stats([None, None], type_)
        assert (found.rows, found.nulls, found.low, found.high) == (2, 2, None, None)
        assert stats([], type_).rows == 0


def test_nan_and_months_are_kept_apart() -> None:
    signalling = pa.array(np.array([0x7FF0000000000001], np.uint64).view(np.float64))
    mixed = pa.concat_arrays([pa.array([0.5]), signalling, pa.array([-3.0])])
    assert (stats(mixed, FLOAT8).low, stats(mixed, FLOAT8).high, stats(mixed, FLOAT8).nan) == (
        -3.0,
        0.5,
        True,
    )
    assert (stats([NAN], FLOAT8).low, stats([NAN], FLOAT8).nan) == (None, True)
    assert not stats([1.0], FLOAT8).nan
    assert stats([pa.MonthDayNano([1, 0, 0])], INTERVAL).months
    assert not stats([pa.MonthDayNano([0, 30, 5000])], INTERVAL).months


def test_placeholders_of_null_records_and_arrays_do_not_count() -> None:
    inner = pa.array([1, 99, 3])
    records = pa.StructArray.from_arrays([inner], ["x"], mask=pa.array([False, True, False]))
    found = stats(records, record(("x", INT8)))
    assert (found.nulls, found.fields[0].rows, found.fields[0].high) == (1, 2, 3)  # type: ignore[union-attr]  # there is one
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), inner, mask=pa.array([False, True, False]))
    element = stats(lists, array(INT8)).element
    assert element is not None
    assert (element.rows, element.nulls, element.low, element.high) == (2, 0, 1, 3)


def test_records_by_field_and_arrays_by_element() -> None:
    found = stats([{"x": 1, "y": "b"}, {"x": None, "y": "a"}, None], record(("x", INT8), ("y", TEXT)))
    x, y = found.fields
    assert x is not None
    assert y is not None
    assert (x.rows, x.nulls, x.low, y.low, y.high) == (2, 1, 1, "a", "b")
    nested = stats([[[1, None]], [], None, [None]], array(array(INT4))).element
    assert nested is not None
    assert (nested.rows, nested.nulls) == (2, 1)
    assert nested.element is not None
    assert (nested.element.rows, nested.element.nulls, nested.element.low) == (2, 1, 1)


def test_pages_and_stretches_without_rows() -> None:
    values = pa.array([5, 1, 9, None, 7, 2])
    low, high = extremes(values, np.array([0, 2, 2, 4, 6]))
    assert (low.to_pylist(), high.to_pylist()) == ([1, None, 9, 2], [5, None, 9, 7])
    collected = collect([ColumnValues(3, "c", INT8, values)], 6, page_rows=4)
    pages = collected.pages()
    assert pages['["low",3]'].to_pylist() == [1, 2]
    assert pages['["nulls",3]'].to_pylist() == [1, 0]
    assert collected.page_rows().tolist() == [4, 2]


@pytest.mark.parametrize(
    ("text", "size", "low", "high"),
    [
        ("abc", 3, "abc", "abc"),
        ("abcd", 3, "abc", "abd"),
        ("ab\U0010ffffx", 6, "ab\U0010ffff", "ac"),
        ("\U0010ffff" * 26, 100, "\U0010ffff" * 25, None),
        ("x" * 99 + "é", 100, "x" * 99, "x" * 98 + "y"),
        ("\ud7ff!", 3, "\ud7ff", "\ue000"),
        ("a\x7fb", 2, "a\x7f", "b"),  # U+0080 would be a byte longer
    ],
)
def test_text_is_cut_and_rounded_up(text: str, size: int, low: str, high: str | None) -> None:
    assert (cut.low_text(text, size), cut.high_text(text, size)) == (low, high)
    assert low <= text
    assert high is None or high >= text


def test_bytes_are_cut_and_rounded_up() -> None:
    assert cut.high_bytes(b"a\xff\xff", 2) == b"b"
    assert cut.high_bytes(b"\xff" * 101, 100) is None
    found = stats([b"\xff" * 101], BYTEA)
    assert (found.low, found.high) == (b"\xff" * 100, None)
    long = stats(["x" * 101], TEXT)
    assert (long.low, long.high) == ("x" * 100, "x" * 99 + "y")


def test_bounds_are_made_shorter_but_not_timestamps() -> None:
    assert cut.shorter_texts("customer/00174", "customer/00921") == ("customer/001", "customer/00:")
    assert cut.shorter_texts("same", "same") == ("same", "same")
    times = ("2024-01-01T00:00:00.000Z", "2024-01-01T23:59:59.999Z")
    assert cut.shorter_texts(*times) == times
    assert cut.shorter_texts("a", None) == ("a", None)
    assert cut.shorter_bytes(b"abc", b"abd\xff") == (b"abc", b"abe")


def test_guesses_are_about_right() -> None:
    rng = np.random.default_rng(1)
    found = stats(rng.integers(0, 50, 20_000), INT8)
    assert found.distinct == 50
    unique = stats(np.arange(20_000), INT8).distinct
    assert unique is not None
    assert unique > 3_000
    skewed = np.concatenate([np.arange(1000.0), [1e9]])
    made = pa.array([histogram(skewed, 0.0, 1e9)], HISTOGRAM)
    for value, share in ((-1, 0), (250, 0.25), (500, 0.5), (2e9, 1)):
        got = fraction_below(np.array([value]), made, np.array([0.0]), np.array([1e9]))[0]
        assert abs(got - share) < 0.05


def test_slices_are_minded() -> None:
    for type_, values in (
        (INT8, [1, 2, 3, 4]),
        (UUID, [bytes([i]) * 16 for i in range(4)]),
        (TEXT, ["d", "c", "b", "a"]),
    ):
        whole = pa.array(values, type_.arrow)
        part = whole.slice(1, 2)
        got = stats(part, type_)
        want = stats(pa.array(part.to_pylist(), type_.arrow), type_)
        assert (got.low, got.high, got.histogram) == (want.low, want.high, want.histogram)
    decimals = pa.array([Decimal(i) for i in range(5)], pa.decimal128(10, 2)).slice(2, 2)
    assert (stats(decimals, numeric(10, 2)).low, pc.max(decimals).as_py()) == (200, Decimal(3))
