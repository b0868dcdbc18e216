"""Parts: what is written is read, by us and by any other Parquet reader."""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.errors import BindError, CorruptError
from tidegate.expr.model.types import (
    BOOL,
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
    record,
)  # fmt: skip
from tidegate.storage.part.checksum import digest, verify
from tidegate.storage.part.encode import decode_part, encode_part
from tidegate.storage.part.schema import Schema

NAN = float("nan")
SPAN = pa.MonthDayNano([1, -2, 3000])
VALUES: list[tuple[Type, list[Any]]] = [
    (BOOL, [True, None, False]),
    (INT2, [-(2**15), None, 2**15 - 1]),
    (INT4, [-(2**31), None, 2**31 - 1]),
    (INT8, [-(2**63), None, 2**63 - 1]),
    (FLOAT4, [NAN, None, -0.0]),
    (FLOAT8, [NAN, None, float("inf")]),
    (NUMERIC, [decimal.Decimal("1.5"), None, decimal.Decimal("-99999999999999999999.999999999999999999")]),
    (numeric(10, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("-0.01")]),
    (TEXT, ["", None, "\U0010ffff" * 30]),
    (BYTEA, [b"", None, b"\xff" * 200]),
    (DATE, [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    (TIME, [dt.time(0), None, dt.time(23, 59, 59, 999999)]),
    (TIMESTAMP, [-62_135_596_800_000_000, None, 253_402_300_799_999_999]),
    (TIMESTAMPTZ, [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None, dt.datetime(2024, 2, 29, tzinfo=dt.UTC)]),
    (INTERVAL, [SPAN, None, pa.MonthDayNano([0, 0, -1000])]),
    (UUID, [b"\0" * 16, None, b"\xff" * 16]),
    (JSONB, ['{"a":1}', None, "null"]),
    (array(INT8), [[1, None], None, []]),
    (array(INTERVAL), [[SPAN, None], None, []]),
    (record(("x", INT8), ("y", INTERVAL)), [{"x": 1, "y": SPAN}, None, {"x": None, "y": None}]),
]
SCHEMA = Schema.of([(f"c{i}", type_, True) for i, (type_, _) in enumerate(VALUES)])


def columns() -> list[pa.Array]:
    return [pa.array(values, type_.arrow) for type_, values in VALUES]


def part(given: list[pa.Array] | None = None) -> bytes:
    return encode_part(SCHEMA, given or columns(), pa.array([5, 6, 7]), pa.array([1, -1, 2]))


def test_every_type_comes_back() -> None:
    got, hidden = decode_part("p", part(), SCHEMA, [c.id for c in SCHEMA.columns])
    for column, wanted, (type_, _) in zip(got, columns(), VALUES, strict=True):
        assert column.type == type_.arrow
        assert str(column.to_pylist()) == str(wanted.to_pylist()), (
            type_
        )  # as text: NaN is not equal to itself
    assert hidden.to_pydict() == {"_time": [5, 6, 7], "_diff": [1, -1, 2], "_pos": [0, 1, 2]}


def test_slices_and_nothing_come_back() -> None:
    longer = [pa.concat_arrays([a, a]) for a in columns()]
    got, _ = decode_part("p", part([a.slice(2, 3) for a in longer]), SCHEMA, [7, 14, 18, 19])
    assert [str(a.to_pylist()) for a in got] == [
        str(longer[i].slice(2, 3).to_pylist()) for i in (7, 14, 18, 19)
    ]
    empty = encode_part(
        SCHEMA, [a.slice(0, 0) for a in columns()], pa.array([], pa.int64()), pa.array([], pa.int64())
    )
    got, hidden = decode_part("p", empty, SCHEMA, [0, 14, 19])
    assert hidden.num_rows == 0
    assert all(len(a) == 0 for a in got)


def test_only_wanted_columns_in_the_order_wanted() -> None:
    got, _ = decode_part("p", part(), SCHEMA, [8, 0])
    assert [a.type for a in got] == [pa.string(), pa.bool_()]


def test_a_part_written_before_a_column_was_added_dropped_or_added_again() -> None:
    first = Schema.of([("a", INT8, True), ("note", TEXT, True)])
    data = encode_part(first, [pa.array([1]), pa.array(["old"])], pa.array([0]), pa.array([1]))
    later = first.add("b", FLOAT8).drop("note").add("note", TEXT)
    assert [(c.id, c.name) for c in later.columns] == [(0, "a"), (2, "b"), (3, "note")]
    got, _ = decode_part("p", data, later, [0, 2, 3])
    assert [a.to_pylist() for a in got] == [[1], [None], [None]]
    assert Schema.from_json(later.to_json()) == later


def test_schemas_refuse_what_cannot_be() -> None:
    schema = Schema.of([("a", INT8, True)])
    for wrong in (lambda: schema.add("a", INT8), lambda: schema.add("_time", INT8), lambda: schema.drop("a")):
        with pytest.raises(BindError):
            wrong()
    with pytest.raises(BindError, match='column "z" does not exist'):
        schema.drop("z")


def test_any_parquet_reader_opens_a_part_and_is_not_misled_by_floats() -> None:
    file = pq.ParquetFile(pa.BufferReader(part()))
    assert file.schema_arrow.names == [*(c.name for c in SCHEMA.columns), "_time", "_diff", "_pos"]
    group = file.metadata.row_group(0)
    by_path = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert not by_path["c4"].is_stats_set
    assert not by_path["c5"].is_stats_set
    assert by_path["c3"].is_stats_set
    (of_record,) = (c.name for c in SCHEMA.columns if c.type == record(("x", INT8), ("y", INTERVAL)))
    assert by_path[f"{of_record}.x"].is_stats_set
    assert by_path["_pos"].has_offset_index
    assert "DELTA_BINARY_PACKED" in by_path["_pos"].encodings


def test_a_float_has_no_statistics_even_if_it_is_called_like_a_field() -> None:
    schema = Schema.of([("r", record(("x", INT8), ("f", FLOAT8)), True), ("r.x", FLOAT8, True)])
    given = [pa.array([{"x": 1, "f": NAN}], schema.columns[0].type.arrow), pa.array([NAN])]
    group = pq.read_metadata(
        pa.BufferReader(encode_part(schema, given, pa.array([1]), pa.array([1])))
    ).row_group(0)
    assert [group.column(i).is_stats_set for i in range(3)] == [False] * 3


def test_dictionaries_only_where_values_repeat() -> None:
    schema = Schema.of([("few", TEXT, True), ("many", TEXT, True)])
    n = 20_000
    few, many = pa.array([f"v{i % 7}" for i in range(n)]), pa.array([f"value {i}" for i in range(n)])
    zeros, ones = pa.repeat(pa.scalar(0, pa.int64()), n), pa.repeat(pa.scalar(1, pa.int64()), n)
    group = pq.ParquetFile(pa.BufferReader(encode_part(schema, [few, many], zeros, ones))).metadata.row_group(
        0
    )
    assert group.column(0).has_dictionary_page
    assert not group.column(1).has_dictionary_page


def test_a_damaged_part_is_an_error_that_names_it() -> None:
    data = part()
    for i in range(0, len(data), 97):
        broken = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        with pytest.raises(CorruptError, match="part/7 is damaged"):
            verify("part/7", broken, digest(data))
    assert verify("part/7", data, digest(data)) == data
    with pytest.raises(CorruptError, match="part/8"):
        decode_part("part/8", b"not parquet at all", SCHEMA, [0])
