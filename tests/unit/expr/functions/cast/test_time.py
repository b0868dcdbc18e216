"""Dates and times from and to text, and casts among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.expr.functions.time_cases import assert_sound, bounds, column, one_range, sorted_pool
from tidegate.errors import BindError
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model.build import call, cast
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import DATE, INTERVAL, MZ_TIMESTAMP, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.sql.bind.query import bind_expression

TIMES = (
    ("2024-01-05", "2024-01-05 00:00:00"),
    ("2024-01-05T10:00", "2024-01-05 10:00:00"),
    ("2024-01-05 10:00:00.1", "2024-01-05 10:00:00.1"),
    ("2024-01-05 23:59:59.9999999", "2024-01-06 00:00:00"),
    ("2024-01-05T10:00:00.123456789Z", "2024-01-05 10:00:00.123457"),
    ("2024-01-05 10:00:00-0230", "2024-01-05 12:30:00"),
    ("2024-01-05 10:00:00.5+02:30", "2024-01-05 07:30:00.5"),
    ("2024-01-05 10:00:00 +02", "2024-01-05 08:00:00"),
    ("2024-01-05 10:00:00 America/New_York", "2024-01-05 15:00:00"),
    ("2024-07-05 10:00:00 europe/berlin", "2024-07-05 08:00:00"),
    ("2024-1-5 1:2:3", "2024-01-05 01:02:03"),
    ("20240105T100000Z", "2024-01-05 10:00:00"),
    ("Jan 5, 2024 10:00 PM", "2024-01-05 22:00:00"),
    ("5 January 2024", "2024-01-05 00:00:00"),
    ("05-Jan-2024", "2024-01-05 00:00:00"),
    ("1/5/2024", "2024-01-05 00:00:00"),
    ("Fri Jan 5 10:00:00 2024 UTC", "2024-01-05 10:00:00"),
    ("2024-01-05 24:00:00", "2024-01-06 00:00:00"),
    ("2024-01-05 10:00:60", "2024-01-05 10:01:00"),
    ("epoch", "1970-01-01 00:00:00"),
    ("J2460315", "2024-01-05 00:00:00"),
)
BAD = (
    ("2024-02-30", "date/time field value out of range"),
    ("2023-02-29 10:00:00", "date/time field value out of range"),
    ("0000-01-01", "date/time field value out of range"),
    ("2024-01-05 10:60:00", "date/time field value out of range"),
    ("13/5/2024", "date/time field value out of range"),
    ("2024-01-05 10:00:00+16", "time zone displacement out of range"),
    ("10000-01-01", "timestamp out of range"),
    ("infinity", "timestamp out of range"),
    ("foo", "invalid input syntax for type timestamp with time zone"),
    ("", "invalid input syntax for type timestamp with time zone"),
    ("2024-01-05 10", "invalid input syntax for type timestamp with time zone"),
    ("2024-01-05 10:00:00 foo", "invalid input syntax for type timestamp with time zone"),
    ("١٢٣٤-01-01", "invalid input syntax for type timestamp with time zone"),
    ("now", '"now" means another time whenever it is read'),
)


def read(texts: Sequence[str | None], type_: Type) -> tuple[list[str | None], list[str | None]]:
    values, errors = evaluate(cast(Column(0, TEXT), type_), [pa.array(texts, pa.string())])
    shown = evaluate(cast(Column(0, type_), TEXT), [values]).values.to_pylist()
    return shown, [None] * len(texts) if errors is None else errors.to_pylist()


def test_times_are_read_as_postgresql_does() -> None:
    shown, errors = read([text for text, _ in TIMES], TIMESTAMPTZ)
    assert shown == [f"{expected}+00" for _, expected in TIMES]
    assert set(errors) == {None}


@pytest.mark.parametrize("case", TIMES[:8])
def test_each_form_alone_reads_the_same(case: tuple[str, str]) -> None:
    """A batch of one form may go by Arrow's own parser; the answer must not show it."""
    assert read([case[0], None, case[0]], TIMESTAMPTZ)[0] == [f"{case[1]}+00", None, f"{case[1]}+00"]


def test_bad_times_are_errors_that_name_the_text() -> None:
    shown, errors = read([text for text, _ in BAD], TIMESTAMPTZ)
    assert set(shown) == {None}
    for (text, message), error in zip(BAD, errors, strict=True):
        assert error is not None
        assert error.startswith(message), (text, error)


def test_dates_and_times_of_day() -> None:
    assert read(["2024-01-05", "2024-01-05 23:59:59.9999999", "20240105"], DATE)[0] == ["2024-01-05"] * 3
    assert read(["10:00", "10:00:00.25", "10:00 PM", "2024-01-05 10:00"], TIME)[0] == [
        "10:00:00",
        "10:00:00.25",
        "22:00:00",
        "10:00:00",
    ]
    assert read(["24:00:00"], TIME)[1] == ['date/time field value out of range: "24:00:00"']


def test_slices_and_nothing() -> None:
    texts = pa.array(["x", "2024-01-05 10:00:00Z", None, "Jan 6 2024", "y"]).slice(1, 3)
    values, errors = evaluate(cast(Column(0, TEXT), TIMESTAMPTZ), [texts])
    assert errors is None
    assert [v and v.day for v in values.to_pylist()] == [5, None, 6]
    assert len(evaluate(cast(Column(0, TEXT), TIMESTAMP), [pa.array([], pa.string())]).values) == 0


def test_text_of_times_and_intervals() -> None:
    assert read(["2024-01-05 10:00:00.500"], TIMESTAMP)[0] == ["2024-01-05 10:00:00.5"]
    assert read(["0001-01-01", "9999-12-31 23:59:59.999999"], TIMESTAMPTZ)[0] == [
        "0001-01-01 00:00:00+00",
        "9999-12-31 23:59:59.999999+00",
    ]
    spans = [
        "00:00:00",
        "1 year 2 mons 3 days 04:05:06.7",
        "-1 days +02:00:00",
        "-1 years -1 mons",
        "100:00:00",
    ]
    assert read(spans, INTERVAL)[0] == spans


POOL = sorted_pool(
    column(
        TIMESTAMP,
        "0001-01-01",
        "0999-12-31 23:59:59.5",
        "1969-12-31 23:59:59.999999",
        "2024-01-05 10:00",
        "2024-01-05 10:00:00.5",
        "2024-01-05 10:00:00.51",
        "2024-01-05 10:00:01",
        "2024-01-06",
        "9999-12-31 23:59:59.999999",
    )
)


@pytest.mark.parametrize("target", [DATE, TIME, TIMESTAMPTZ, MZ_TIMESTAMP, TEXT])
def test_casts_of_timestamps_are_sound(target: Type) -> None:
    rng = np.random.default_rng(5)
    assert_sound(cast(Column(0, TIMESTAMP), target), [POOL], rng)
    assert_sound(cast(cast(Column(0, TIMESTAMP), target), TEXT), [POOL], rng)


def test_mz_timestamps_leave_the_calendar_at_its_ends() -> None:
    pool = pa.array(
        [-(2**63), -62135596800001, -62135596800000, 0, 253402300799999, 253402300800000, 2**63 - 1]
    )
    assert_sound(cast(Column(0, MZ_TIMESTAMP), TIMESTAMPTZ), [pool], np.random.default_rng(6))
    inside = Specs.ranged(MZ_TIMESTAMP, pa.array([0]), pa.array([1_700_000_000_123]))
    expected = ("1970-01-01 00:00:00+00", "2023-11-14 22:13:20.123+00", False)
    assert bounds(cast(Column(0, MZ_TIMESTAMP), TIMESTAMPTZ), inside) == expected


def test_the_time_of_day_is_bounded_inside_a_day() -> None:
    clock = cast(Column(0, TIMESTAMP), TIME)
    assert bounds(clock, one_range(TIMESTAMP, "2024-01-05 08:00", "2024-01-05 09:00")) == (
        "08:00:00",
        "09:00:00",
        False,
    )
    assert bounds(clock, one_range(TIMESTAMP, "2024-01-05 08:00", "2024-01-06")) == (
        "00:00:00",
        "23:59:59.999999",
        False,
    )


def test_text_of_a_timestamp_prunes() -> None:
    shown = cast(Column(0, TIMESTAMPTZ), TEXT)
    condition = call("<", shown, cast(Column(1, TEXT), TEXT))
    parts = Specs.ranged(
        TIMESTAMPTZ,
        column(TIMESTAMPTZ, "2024-01-05", "2025-01-01"),
        column(TIMESTAMPTZ, "2024-02-01", "2025-02-01"),
    )
    limit = Specs.ranged(TEXT, pa.array(["2024-06"]), pa.array(["2024-06"]))
    assert Interpretation([parts, limit]).of(condition).verdict().tolist() == [2, 0]


STRICT = Column(0, TEXT)


def test_the_monotonic_form() -> None:
    texts = [
        "2024-01-05T10:00:00.123Z",
        "2024-01-05T10:00:00.12Z",
        "2024-01-05 10:00:00.123Z",
        "2024-01-05T10:00:60.000Z",
        "2024-01-05T24:00:00.000Z",
        "2024-02-30T10:00:00.000Z",
        "2024-01-05T10:00:00.123+00:00",
        None,
        "",
    ]
    expr = call("try_parse_monotonic_iso8601_timestamp", STRICT)
    values, errors = evaluate(expr, [pa.array(texts)])
    assert errors is None
    assert [v is not None for v in values.to_pylist()] == [True, *[False] * 8]
    pool = pa.array([*sorted(t for t in texts if t is not None), "2024-01-06T00:00:00.000Z", "zz"])
    assert_sound(expr, [pool], np.random.default_rng(7), 1000)


def test_the_monotonic_form_has_bounds_and_may_be_null() -> None:
    expr = call("try_parse_monotonic_iso8601_timestamp", STRICT)
    described = Interpretation([one_range(TEXT, "2024-01-05T10:00:00.000Z", "2024-01-06T00:00:00.000Z")]).of(
        expr
    )
    assert str(described.bounds()[0][0].as_py()) == "2024-01-05 10:00:00"
    assert described.null.all()
    assert not described.error.any()


@pytest.mark.parametrize(
    "sql", ["TIME '23:59:59.9999999'", "DATE '2024-01-01' + TIME '23:59:59.9999999'", "TIME '24:00'"]
)
def test_a_time_of_day_ends_before_midnight(sql: str) -> None:
    """PostgreSQL rounds to 24:00:00, which Arrow's time type cannot hold: the sum must not lose the day."""
    with pytest.raises(BindError, match="date/time field value out of range"):
        bind_expression(sql, [])
