"""Parquet: the law over random tables and plans, row groups that are not read, and how a format is chosen."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ingest.formats.law import planned, taken, whole
from tidegate.errors import BindError, CorruptError, UnsupportedError
from tidegate.ingest.formats.avro.format import AvroFormat
from tidegate.ingest.formats.csv.format import CsvFormat
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.parquet.format import ParquetFormat
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.formats.registry import create_format

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.uint32()),
        ("f", pa.float64()),
        ("s", pa.large_string()),
        ("at", pa.timestamp("ms", "UTC")),
        ("ok", pa.bool_()),
        ("xs", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.float64())),
    ]
)
EMPTY = io.BytesIO()
pq.write_table(SCHEMA.empty_table(), EMPTY)
FORMAT = ParquetFormat.of_file(EMPTY, "x")
PLANS = [
    "SELECT * FROM s",
    "SELECT s FROM s WHERE id > 3",
    "SELECT id, m FROM s WHERE f > 0.5 AND s < 'b'",
    "SELECT 1 / id FROM s WHERE small >= 2",
    "SELECT xs[1], at FROM s WHERE ok AND number > 1",
    "SELECT number FROM s WHERE at < '1970-01-02' AND 10 / id > 1",
    "SELECT number FROM s",
]
ROWS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-2, 9),
        "small": st.none() | st.integers(0, 4),
        "f": st.none() | st.sampled_from([0.0, -0.0, 1.0, float("inf"), 0.5]),
        "s": st.none() | st.sampled_from(["", "a", "b", "bb", "é"]),
        "at": st.none() | st.sampled_from([0, 86_400_000, 10**12]),
        "ok": st.none() | st.booleans(),
        "xs": st.none() | st.lists(st.integers(0, 3), max_size=2),
        "m": st.none()
        | st.dictionaries(st.sampled_from(["k", "kk"]), st.sampled_from([1.5, 2.0]), max_size=2),
    }
)


def written(rows: list[dict[str, Any]], group: int = 3) -> bytes:
    columns = [
        pa.array([list(r["m"].items()) if r["m"] is not None else None for r in rows], SCHEMA.field("m").type)
        if name == "m"
        else pa.array([row[name] for row in rows], SCHEMA.field(name).type)
        for name in SCHEMA.names
    ]
    opened = io.BytesIO()
    pq.write_table(pa.table(columns, schema=SCHEMA), opened, row_group_size=group)
    return opened.getvalue()


def ours(value: Any, name: str) -> Any:
    if value is None:
        return None
    if name == "at":
        return value * 1000
    if name == "m":
        pairs = sorted(value.items())
        return "{" + ",".join(f'"{key}":{"2" if number == 2 else number}' for key, number in pairs) + "}"
    return value


@given(st.lists(ROWS, max_size=9), st.sampled_from(PLANS), st.sampled_from([1, 3, 100]))
@settings(max_examples=150)
def test_the_law(rows: list[dict[str, Any]], sql: str, group: int) -> None:
    plan = planned(sql, FORMAT.columns)
    got = taken(FORMAT, plan, written(rows, group))
    columns = [[ours(row[name], name) for row in rows] for name, _ in FORMAT.columns]
    assert got == whole(plan, columns, [type_ for _, type_ in FORMAT.columns], {})


def test_row_groups_that_cannot_pass_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    empty: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    data = written([{**empty, "id": i, "f": float(i), "s": f"k{i:02}"} for i in range(12)])
    read: list[tuple[int, list[str]]] = []
    real = pq.ParquetFile.iter_batches

    def reading(self: Any, rows: int, row_groups: Any, columns: Any, **more: Any) -> Any:
        read.append((*row_groups, columns))
        return real(self, rows, row_groups, columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", reading)
    for where, expected in {
        "id = 7": [(2, ["id"]), (2, ["s"])],
        "s >= 'k10'": [(3, ["s"])],
        "f > 100": [(group, ["f"]) for group in range(4)],  # a footer does not tell of NaN
        "id > 8 AND 1 / id > 5": [],  # of 9 to 11 it is 0
        "id > 8 OR 1 / id > 5": [(0, ["id"]), (3, ["id"]), (3, ["s"])],
        "id < -5 OR id > 50": [],
    }.items():
        read.clear()
        taken(FORMAT, planned(f"SELECT s FROM s WHERE {where}", FORMAT.columns), data)
        assert read == expected, where


def test_texts_that_are_none_and_files_that_are_none() -> None:
    opened = io.BytesIO()
    raw = pa.array([b"a", b"\xff", b"c"], pa.binary())
    wrong = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"s": wrong, "more": [1, 2, 3]}), opened)
    got = taken(FORMAT, planned("SELECT s, id FROM s", FORMAT.columns), opened.getvalue())
    assert got == {0: ("a", None), 1: 'invalid byte sequence for encoding "UTF8": 0xff', 2: ("c", None)}
    plan = planned("SELECT id FROM s", FORMAT.columns)
    for data in (b"", b"PAR1", written([], 1)[:-3]):
        with pytest.raises(CorruptError, match=r"day\.parquet"):
            taken(FORMAT, plan, data, "day.parquet")
    decode, _ = FORMAT.take(plan)
    with pytest.raises(UnsupportedError):
        decode.records(pa.array([b""]))
    (decoded,) = decode.file(io.BytesIO(opened.getvalue()), "x.parquet")
    assert decoded.raw(0) == b'{"s":"a","more":1}'


def test_formats_are_chosen_by_the_words_of_a_statement() -> None:
    def first() -> tuple[io.BytesIO, str]:
        return io.BytesIO(b"a;b\n"), "x.csv"

    assert create_format("text", {}) == PlainFormat(is_text=True)
    assert create_format("json", {}) == JsonFormat()
    assert create_format("csv", {"columns": 2, "delimiter": "|"}) == CsvFormat(
        ("column1", "column2"), delimiter="|"
    )
    assert create_format("csv", {"header": True, "delimiter": ";"}, first) == CsvFormat(
        ("a", "b"), header=True, delimiter=";"
    )
    assert create_format("csv", {"header": ("x",)}) == CsvFormat(("x",), header=True)
    assert isinstance(create_format("avro", {"schema": "{}"}), AvroFormat)
    for kind, options in [
        ("csv", {}), ("csv", {"columns": 0}), ("csv", {"columns": 1, "delimiter": "ab"}), ("avro", {}), ("xml", {}),
        ("parquet", {}), ("json", {"columns": 2}), ("csv", {"header": ("a", "a")}),
    ]:  # fmt: skip
        with pytest.raises(BindError):
            create_format(kind, options)
