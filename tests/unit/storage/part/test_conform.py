"""What may be appended, in which forms, and what is said of the rest."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.storage.part.test_part import VALUES
from tidegate.errors import BindError, EvaluationError, TidegateError, TypeMismatch
from tidegate.expr.model.types import (
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Type,
    array,
    numeric,
    parse_type,
    record,
)
from tidegate.storage.part.conform import conform, conform_diffs
from tidegate.storage.part.schema import Schema


def one(type_: Type, given: Any, nullable: bool = True) -> list[Any]:
    (column,) = conform(Schema.of([("c", type_, nullable)]), {"c": given})
    assert column.type == type_.arrow
    values: list[Any] = column.to_pylist()
    return values


def test_every_type_as_it_is() -> None:
    for type_, values in VALUES:
        given = pa.array(values, type_.arrow)
        assert str(one(type_, given)) == str(given.to_pylist())
        assert str(one(type_, values)) == str(given.to_pylist())
        assert one(type_, pa.nulls(2)) == [None, None]
        assert one(type_, given.slice(0, 0)) == []
        assert str(one(type_, pa.chunked_array([given, given.slice(1)]))) == str(
            given.to_pylist() + given[1:].to_pylist()
        )


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        (TEXT, pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (TEXT, pa.array(["a"], pa.large_string()), ["a"]),
        (TEXT, pa.array(["a"], pa.string_view()), ["a"]),
        (BYTEA, pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (INT2, pa.array([1, 2], pa.int64()), [1, 2]),
        (INT8, pa.array([1], pa.uint64()), [1]),
        (FLOAT8, pa.array([1.5], pa.float32()), [1.5]),
        (FLOAT8, pa.array([1], pa.int32()), [1.0]),
        (NUMERIC, pa.array([7], pa.uint64()), [Decimal(7)]),
        (numeric(10, 2), pa.array([Decimal("1.5")], pa.decimal128(38, 1)), [Decimal("1.50")]),
        (numeric(10, 2), pa.array([Decimal("1.5")], pa.decimal256(50, 1)), [Decimal("1.50")]),
        (JSONB, pa.array(['{"b": 1.50, "a": 2}']), ['{"a":2,"b":1.5}']),
        (UUID, pa.array(["{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}"]), [uuid.UUID("a0eebc999c0b4ef8bb6d6bb9bd380a11").bytes]),
        (UUID, pa.array([b"\1" * 16]), [b"\1" * 16]),
        (TIMESTAMPTZ, pa.array([1], pa.timestamp("s", "Europe/Paris")), [dt.datetime.fromtimestamp(1, dt.UTC)]),
        (TIMESTAMP, pa.array([1000], pa.timestamp("ns")), [dt.datetime.fromisoformat("1970-01-01T00:00:00.000001")]),
        (DATE, pa.array([dt.date(2024, 1, 1)], pa.date64()), [dt.date(2024, 1, 1)]),
        (TIME, pa.array([1], pa.time32("s")), [dt.time(0, 0, 1)]),
        (array(INT4), pa.array([[1, None], None], pa.large_list(pa.int64())), [[1, None], None]),
        (array(JSONB), pa.array([['{ "a":1}'], None, []]), [['{"a":1}'], None, []]),
        (record(("x", INT4), ("y", TEXT)), pa.array([{"y": "a", "x": 1}, None]), [{"x": 1, "y": "a"}, None]),
    ],
)  # fmt: skip
def test_other_forms(type_: Type, given: Any, expected: list[Any]) -> None:
    assert one(type_, given) == expected


@pytest.mark.parametrize(
    ("type_", "given", "error", "says"),
    [
        (INT8, pa.array(["1"]), TypeMismatch, r'column "c" is int8, and got string'),
        (INT8, ["1"], TypeMismatch, r'column "c" is int8'),
        (INT8, pa.array([1.0]), TypeMismatch, "got double"),
        (NUMERIC, pa.array([1.0]), TypeMismatch, "got double"),
        (FLOAT4, pa.array([1.0]), TypeMismatch, "got double"),
        (TIMESTAMPTZ, pa.array([1], pa.timestamp("us")), TypeMismatch, "with a time zone"),
        (TIMESTAMP, pa.array([1], pa.timestamp("us", "UTC")), TypeMismatch, "without a time zone"),
        (array(INT8), pa.array([1]), TypeMismatch, r"int8\[\], and got int64"),
        (record(("x", INT8)), pa.array([{"z": 1}]), TypeMismatch, "got the fields z"),
        (INT2, pa.array([2**15]), EvaluationError, r'column "c" \(int64\) does not fit int2'),
        (FLOAT8, pa.array([2**53 + 1]), EvaluationError, "does not fit float8"),
        (numeric(3, 1), pa.array([Decimal("123.4")]), EvaluationError, r"does not fit numeric\(3,1\)"),
        (numeric(3, 1), pa.array([Decimal("1.23")]), EvaluationError, r"does not fit numeric\(3,1\)"),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns")), EvaluationError, "does not fit timestamp"),
        (TIMESTAMP, pa.array([2**62], pa.timestamp("us")), EvaluationError, "out of range for type timestamp"),
        (DATE, pa.array([-(2**30)], pa.int32()).view(pa.date32()), EvaluationError, "out of range for type date"),
        (INTERVAL, pa.array([pa.MonthDayNano([0, 0, 1])]), EvaluationError, "out of range for type interval"),
        (INTERVAL, pa.array([pa.MonthDayNano([2**31 - 1, 0, 0])]), EvaluationError, "out of range for type interval"),
        (JSONB, pa.array(["{"]), EvaluationError, "invalid input syntax for type json"),
        (UUID, pa.array(["x"]), EvaluationError, 'invalid input syntax for type uuid: "x"'),
        (UUID, pa.array([b"x"]), EvaluationError, "does not fit uuid|valid"),
        (parse_type("varchar(2)"), pa.array(["abc"]), EvaluationError, r"too long for type character varying\(2\)"),
        (TEXT, pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()), TypeMismatch, "not a valid string"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(type_: Type, given: Any, error: type[TidegateError], says: str) -> None:
    with pytest.raises(error, match=says):
        one(type_, given)


def test_columns_that_are_not_there_or_too_many() -> None:
    schema = Schema.of([("a", INT8, False), ("b", TEXT, True)])
    good = {"a": [1], "b": ["x"]}
    assert [c.to_pylist() for c in conform(schema, pa.table({"b": ["x"], "a": [1]}))] == [[1], ["x"]]
    assert [c.to_pylist() for c in conform(schema, [pa.array([1]), pa.array(["x"])])] == [[1], ["x"]]
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["a", "a"])
    for given, says in [
        ({"a": [1]}, 'column "b" is missing'),
        ({**good, "z": [1]}, 'column "z" is not in the collection'),
        ({"a": [1, 2], "b": ["x"]}, "different numbers of values: a 2, b 1"),
        ([pa.array([1])], "1 columns were passed"),
        (twice, 'column "a" is there twice'),
    ]:
        with pytest.raises(BindError, match=says):
            conform(schema, given)
    with pytest.raises(EvaluationError, match='null value in column "a" violates not-null'):
        conform(schema, {"a": [1, None], "b": ["x", "y"]})


def test_diffs() -> None:
    assert conform_diffs(-1, 3).tolist() == [-1, -1, -1]
    assert conform_diffs([1, 2], 2).tolist() == [1, 2]
    assert conform_diffs(pa.array([1, -2]), 2).tolist() == [1, -2]
    assert conform_diffs(np.array([], np.int64), 0).tolist() == []
    for wrong in (1.5, "x", [1], [1, None], None):
        with pytest.raises(TypeMismatch, match="diff must be"):
            conform_diffs(wrong, 2)
    for wrong in (0, 2**31, -(2**63), 2**64 - 1):
        with pytest.raises(EvaluationError, match="a diff is"):
            conform_diffs(wrong, 2)
