"""Avro: the law over random records and plans, resolution, a registry that answers over HTTP, damaged containers."""

import io
import json
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ingest.formats.law import planned, taken, whole
from tidegate.errors import CorruptError, StoreError, UnsupportedError
from tidegate.ingest.formats.avro import format as avro
from tidegate.ingest.formats.avro import schema_registry as registry
from tidegate.ingest.formats.avro.format import AvroFormat
from tidegate.ingest.formats.avro.schema_registry import SchemaRegistry
from tidegate.ingest.formats.avro.types import in_list

POINT = {
    "type": "record",
    "name": "point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}],
}
FIELDS: list[dict[str, Any]] = [
    {"name": "b", "type": "boolean"},
    {"name": "i", "type": ["null", "int"]},
    {"name": "l", "type": "long"},
    {"name": "f", "type": "float"},
    {"name": "d", "type": ["double", "null"]},
    {"name": "raw", "type": "bytes"},
    {"name": "s", "type": ["null", "string"]},
    {"name": "e", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}},
    {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}},
    {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "us", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "p", "type": POINT},
    {"name": "q", "type": ["null", "point"]},
    {"name": "xs", "type": {"type": "array", "items": ["null", "long"]}},
    {"name": "m", "type": {"type": "map", "values": "double"}},
    {"name": "any", "type": ["null", "string", "long"]},
    {"name": "fx", "type": {"type": "fixed", "name": "four", "size": 4}},
]
DAY = datetime.fromisoformat("2020-01-01")
SCHEMA = {"type": "record", "name": "r", "fields": FIELDS}
FORMAT = AvroFormat(json.dumps(SCHEMA))
TEXTS = st.sampled_from(["", "a", "é", "x" * 70])
RECORDS = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": st.sampled_from([0, 1, -1, 63, 64, -65, 2**63 - 1, -(2**63)]),
        "f": st.floats(width=32, allow_nan=False),
        "d": st.none() | st.floats(allow_nan=False),
        "raw": st.binary(max_size=4),
        "s": st.none() | TEXTS,
        "e": st.sampled_from(["A", "B"]),
        "dec": st.decimals("-9999.99", "9999.99", places=2),
        "day": st.none() | st.dates(),
        "t": st.times(),
        "ms": st.integers(0, 10**12),
        "us": st.datetimes(DAY, DAY.replace(year=9999)),
        "u": st.uuids(),
        "p": st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.none() | TEXTS}),
        "q": st.none() | st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.none() | TEXTS}),
        "xs": st.lists(st.none() | st.integers(0, 300), max_size=3),
        "m": st.dictionaries(TEXTS, st.sampled_from([0.5, 1e300, -2.0]), max_size=2),
        "any": st.none() | st.integers(0, 9) | TEXTS,
        "fx": st.binary(min_size=4, max_size=4),
    }
)
PLANS = [
    "SELECT * FROM s",
    "SELECT l, s FROM s WHERE i > 5",
    "SELECT (p).y, q FROM s WHERE (p).x < 5 AND number > 1",
    "SELECT 10 / i FROM s WHERE b",
    """SELECT m, "any", xs[1] FROM s WHERE e = 'A' AND dec > 0""",
    "SELECT day, t, ms, us, u FROM s WHERE length(s) > 0 AND 1 / length(s) >= 0",
    "SELECT number FROM s",
    "SELECT raw, fx, f, d FROM s WHERE ms >= '2000-01-01'",
]


def ours(record: dict[str, Any]) -> dict[str, Any]:
    """The values of a record as our columns have them."""
    number = {0.5: "0.5", 1e300: "1" + "0" * 300, -2.0: "-2"}
    keys = sorted(record["m"], key=lambda key: (len(key.encode()), key.encode()))
    any_ = record["any"]
    return {
        **record,
        "ms": datetime.fromtimestamp(record["ms"] / 1000, UTC).replace(
            microsecond=record["ms"] % 1000 * 1000
        ),
        "u": record["u"].bytes,
        "m": "{" + ",".join(f'"{key}":{number[record["m"][key]]}' for key in keys) + "}",
        "any": None if any_ is None else str(any_) if isinstance(any_, int) else f'"{any_}"',
    }


def container(records: list[dict[str, Any]], codec: str = "null") -> bytes:
    opened = io.BytesIO()
    fastavro.writer(opened, SCHEMA, records, codec=codec, sync_interval=100)
    return opened.getvalue()


def single(record: Any, schema: Any = SCHEMA) -> bytes:
    opened = io.BytesIO()
    fastavro.schemaless_writer(opened, schema, record)
    return opened.getvalue()


@given(
    st.lists(RECORDS, max_size=6),
    st.sampled_from(PLANS),
    st.sampled_from(["file", "deflate", "values"]),
    st.sampled_from([2, 1000]),
)
@settings(max_examples=60)
def test_the_law(records: list[dict[str, Any]], sql: str, way: str, batch: int) -> None:
    written = [{**record, "ms": ours(record)["ms"]} for record in records]
    plan = planned(sql, FORMAT.columns)
    before, avro.BATCH = avro.BATCH, batch
    try:
        if way == "values":
            got = taken(FORMAT, plan, pa.array(list(map(single, written)), pa.binary()))
        else:
            got = taken(FORMAT, plan, container(written, "null" if way == "file" else way))
    finally:
        avro.BATCH = before
    rows = list(map(ours, records))
    columns = [[row[name] for row in rows] for name, _ in FORMAT.columns]
    assert got == whole(plan, columns, [type_ for _, type_ in FORMAT.columns], {})


FLAT = {
    "type": "record",
    "name": "r",
    "fields": [f for f in FIELDS if f["name"] not in ("p", "q", "xs", "m")],
}
FLAT_PLANS = [
    "SELECT * FROM s",
    "SELECT l, s FROM s WHERE i > 5",
    "SELECT 10 / i, e FROM s WHERE b",
    "SELECT day, t, ms, us, u, dec FROM s WHERE length(s) > 0",
    "SELECT raw, fx, f, d FROM s",
]


@given(st.lists(RECORDS, max_size=8), st.sampled_from(FLAT_PLANS), st.sampled_from([1, 100, 10_000]))
@settings(max_examples=60)
def test_records_of_plain_fields_are_walked_together(
    records: list[dict[str, Any]], sql: str, interval: int
) -> None:
    # "any" is a union of several types: it can be walked over, and is not asked for.
    format_ = AvroFormat(json.dumps({**FLAT, "fields": [f for f in FLAT["fields"] if f["name"] != "any"]}))
    opened = io.BytesIO()
    fastavro.writer(opened, FLAT, [{**r, "ms": ours(r)["ms"]} for r in records], sync_interval=interval)
    plan = planned(sql, format_.columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro, "_block_records", None)  # fastavro is not asked
        patch.setattr(avro, "_datum", None)
        got = taken(format_, plan, opened.getvalue())
        values = [single({**r, "ms": ours(r)["ms"]}, json.loads(format_.schema)) for r in records]
        assert taken(format_, plan, pa.array(values, pa.binary())) == got
    rows = list(map(ours, records))
    columns = [[row[name] for row in rows] for name, _ in format_.columns]
    assert got == whole(plan, columns, [type_ for _, type_ in format_.columns], {})


@given(
    st.lists(RECORDS, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    st.integers(0, 3),
)
@settings(max_examples=150)
def test_damaged_bytes_are_walked_as_fastavro_reads_them_or_not_at_all(
    records: list[dict[str, Any]], damage: list[tuple[int, int]], cut: int
) -> None:
    raw = bytearray(b"".join(single({**r, "ms": ours(r)["ms"]}, FLAT) for r in records))
    for at, byte in damage:
        raw[at % len(raw)] = byte
    data = bytes(raw[: len(raw) - cut])
    names = ("b", "i", "l", "d", "raw", "s", "e", "fx", "us")
    writer, reader = avro._plain(json.dumps(FLAT)), avro._plain(json.dumps(FLAT), names)
    found = avro._walk_columns([data], np.array([len(records)]), writer, reader)
    if found is None:
        return
    expected = avro._block_records(data, len(records), writer, reader, "x")
    for name in names:
        assert repr(in_list(found[name])) == repr([one[name] for one in expected])


EXAMPLE: dict[str, Any] = {
    "b": True, "i": 1, "l": 2, "f": 1.5, "d": None, "raw": b"", "s": "x", "e": "A", "dec": Decimal("1.00"),
    "day": date(2020, 1, 1), "t": time(1), "ms": datetime(2020, 1, 1, tzinfo=UTC), "us": DAY,
    "u": uuid.UUID(int=1), "p": {"x": 1, "y": None}, "q": None, "xs": [], "m": {}, "any": None, "fx": b"1234",
}  # fmt: skip


def test_bad_records() -> None:
    plan = planned("SELECT l, u, dec FROM s WHERE i > 0", FORMAT.columns)
    good = single(EXAMPLE)
    strings = {**SCHEMA, "fields": [{**f, "type": "string"} if f["name"] == "u" else f for f in FIELDS]}
    odd = single({**EXAMPLE, "u": "no uuid"}, strings)
    wide = {**FIELDS[8]["type"], "precision": 12}
    bytes_ = {**SCHEMA, "fields": [{**f, "type": wide} if f["name"] == "dec" else f for f in FIELDS]}
    long = single({**EXAMPLE, "dec": Decimal("123456.00")}, bytes_)
    got = taken(
        FORMAT, plan, pa.array([good, good[:-3], good + b"x", b"", odd, long, None, good], pa.binary())
    )
    one = (2, uuid.UUID(int=1).bytes, Decimal("1.00"))
    assert got == {
        0: one,
        1: "the record is not Avro of its schema",
        2: "bytes follow the record",
        3: "the record is not Avro of its schema",
        4: 'invalid input syntax for type uuid: "no uuid"',
        5: "numeric field overflow",
        7: one,
    }


def test_containers_that_are_damaged_and_the_bytes_of_a_record() -> None:
    data = container([EXAMPLE, {**EXAMPLE, "l": 0}, EXAMPLE])
    assert AvroFormat.of_file(io.BytesIO(data), "x.avro").columns == FORMAT.columns
    plan = planned("SELECT 1 / l FROM s", FORMAT.columns)
    decode, _ = FORMAT.take(plan)
    (decoded,) = decode.file(io.BytesIO(data), "x.avro")
    assert decoded.raw(1) == single({**EXAMPLE, "l": 0})
    for wrong in (data[:-20], b"no avro", b"", data[:200] + b"\xff" * 40 + data[240:]):
        with pytest.raises(CorruptError, match=r'"day.avro" is no Avro container'):
            taken(FORMAT, plan, wrong, "day.avro")


def test_a_writer_without_a_field_gives_its_default() -> None:
    newer = {**SCHEMA, "fields": [*FIELDS, {"name": "more", "type": "string", "default": "none"}]}
    format_ = AvroFormat(json.dumps(newer))
    assert taken(format_, planned("SELECT more, l FROM s", format_.columns), container([EXAMPLE])) == {
        0: ("none", 2)
    }


def test_schemas_that_have_no_columns() -> None:
    for schema in ('"string"', "{", '{"type": "nosuch"}'):
        with pytest.raises(UnsupportedError):
            _ = AvroFormat(schema).columns


# ---------------------------------------------------------------- a registry


class Answers(BaseHTTPRequestHandler):
    schemas: dict[int, Any] = {}  # noqa: RUF012  # filled by the fixture
    asked: list[str] = []  # noqa: RUF012  # likewise
    broken = 0

    def do_GET(self) -> None:
        Answers.asked.append(self.path)
        number = self.path.rsplit("/", 1)[-1]
        if Answers.broken:
            Answers.broken -= 1
            self.send_error(503)
        elif self.path == "/subjects/t-value/versions/latest":
            self.answer({"id": 7, "schema": json.dumps(Answers.schemas[7])})
        elif number.isdigit() and int(number) in Answers.schemas:
            self.answer({"schema": json.dumps(Answers.schemas[int(number)])})
        else:
            self.send_error(404)

    def answer(self, what: Any) -> None:
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def registered() -> Iterator[SchemaRegistry]:
    older = {**SCHEMA, "fields": [f for f in FIELDS if f["name"] != "i"]}
    Answers.schemas, Answers.asked, Answers.broken = {7: SCHEMA, 8: older}, [], 0
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield SchemaRegistry(f"http://127.0.0.1:{server.server_port}", "me", "secret")
        server.shutdown()
        thread.join()


def test_framed_records(registered: SchemaRegistry) -> None:
    Answers.broken = 1
    assert registered.latest("t-value")[0] == 7
    format_ = AvroFormat(json.dumps(SCHEMA), registered)
    plan = planned("SELECT l, i FROM s", format_.columns)
    good = single(EXAMPLE)
    framed = [
        b"\0\0\0\0\7" + good,
        b"\1\0\0\0\7" + good,
        b"\0\0\0\0\x09" + good,
        b"\0\0",
        b"\0\0\0\0\7" + good,
    ]
    got = taken(format_, plan, pa.array(framed, pa.binary()))
    assert got[0] == got[4] == (2, 1)
    assert got[1] == got[3] == "the record does not start with a zero byte and the number of a schema"
    assert str(got[2]).endswith("has no /schemas/ids/9")
    assert Answers.asked.count("/schemas/ids/7") == 1
    older = single({k: v for k, v in EXAMPLE.items() if k != "i"}, Answers.schemas[8])
    assert "does not fit" in str(taken(format_, plan, pa.array([b"\0\0\0\0\x08" + older]))[0])
    narrow = planned("SELECT l FROM s", format_.columns)
    assert taken(format_, narrow, pa.array([b"\0\0\0\0\x08" + older])) == {0: (2,)}


def test_a_registry_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.time, "sleep", lambda _: None)
    with pytest.raises(StoreError, match="cannot be reached"):
        SchemaRegistry("http://127.0.0.1:9").schema(1)
    with pytest.raises(StoreError, match="not the address"):
        SchemaRegistry("file:///etc/passwd").schema(1)
