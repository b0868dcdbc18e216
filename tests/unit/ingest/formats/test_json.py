"""JSON: whatever of a document is wanted, it is what the canonical document has, or the record fails as it would.

Documents are grown at random from spellings that parsers disagree about, and sometimes damaged. A batch has more than
200 of them, as fewer are read one by one. 30 batches are enough to notice when any of the traces in `json_text.py` is
not looked for: that is a test of its own.
"""

import io
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.ingest.formats.law import planned, taken, whole
from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.types import JSONB
from tidegate.expr.primitives import text_search as find
from tidegate.expr.primitives.byte_encoding import from_utf8
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import InvalidJson
from tidegate.expr.primitives.json.path import KeyStep, PathRequest
from tidegate.ingest.formats import lines
from tidegate.ingest.formats.json import text as json_text
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.plain import PlainFormat

FORMAT = JsonFormat()
NUMBERS = [
    "0", "-0", "-0.0", "1", "7", "1.0", "1.50", "1e2", "1E+2", "1e-7", "1.5e3", "1e22", "-12.500", "0.3", "42",
    "1e400", "1e-400", "1e999", "1e5000", "0.1e-1005", "5e-324", "9007199254740993", "0.30000000000000004",
    "123456789012345678901", "1234567890.12345678901", "0." + "0" * 1005 + "1", "0." + "0" * 950 + "1e-99",
]  # fmt: skip
STRINGS = [
    '"x"', '""', '"1.50"', '"[1.5]"', '"{"', '"null"', r'"\u0041"', r'"\u001f"', r'"\u001F\n"', r'"\u0000"',
    r'"\ud83d\ude00"', r'"\ud800"', r'"\udc00"', r'"a\/b"', '"é"', r'"\"a\": 1"', '"info, nan"', '"1e5"', '" ,]"',
    r'"\\u0000"', '"\x7f"', '"a"', '"b"', '"true"', '"-"', '"2026-01-01"', '"\t"', '"\\x"',
]  # fmt: skip
WORDS = ["true", "false", "null"] * 4 + ["NaN", "-inf", "Infinity", "[1,]", '{"a":1, }', "nul"]
PLAIN = ['"a"', '"b"', '"c"']
KEYS = [*PLAIN, r'"\u0061"', '"a/b"', r'"a\/b"', '"0"', '""', '"*"', '"a b"', '"é"', r'"\u00e9"', r'"q\"a"']
PATHS = [
    "data->>'a'", "data->>'b'", "data->'a'->>'b'", "data->'b'", "data->'a'", "data->'b'->0", "data->'b'->>0",
    "data->'c'->'a'->>'b'", "data->>'a/b'", "data->>'é'", "data->>'0'", "data#>>'{a,0}'", "data->>''", "data->'*'",
    "data->>'a b'", "data->>'q\"a'", "data->-1", "data", "data#>>'{}'", "data->'a'->1->'a'", "data ? 'a'",
    "(data->>'a')::numeric", "(data->>'b')::int4", "(data->>'a')::bool", "jsonb_typeof(data->'a')", "number",
]  # fmt: skip
CONDITIONS = [
    "data->>'a' = 'x'", "data->>'a' > '1'", "(data->>'a')::numeric > 1", "(data->>'b')::int4 = 1", "data->'b' IS NULL",
    "data->>'c' IS NOT NULL", "number % 2 = 0", "jsonb_typeof(data) = 'object'", "data->'a'->>'b' LIKE '%'",
    "1 / (number % 3) > 0", "data->>'a' IN ('x', '1', '1.5')", "length(data->>'b') < 3",
]  # fmt: skip


class Grower:
    """Random documents."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "  ", "\t", "\r"])

    def value(self, depth: int) -> str:
        chance = self.random.random()
        if depth > 0 and chance < 0.35:
            return self.map(depth - 1, 3)
        if depth > 0 and chance < 0.5:
            items = [self.value(depth - 1) + self.space() for _ in range(self.random.randrange(4))]
            return "[" + ("," + self.space()).join(items) + "]"
        if chance < 0.7:
            return self.random.choice(NUMBERS[:15] if self.random.random() < 0.7 else NUMBERS)
        return self.random.choice(STRINGS if chance < 0.9 else WORDS)

    def map(self, depth: int, most: int) -> str:
        pairs = []
        for _ in range(self.random.randrange(most + 1)):
            key = self.random.choice(KEYS if self.random.random() < 0.3 else PLAIN)
            pairs.append(f"{self.space()}{key}{self.space()}:{self.space()}{self.value(depth)}{self.space()}")
        return "{" + ",".join(pairs) + "}"

    def document(self) -> bytes:
        chance = self.random.random()
        text = self.space() + self.map(2, 5) + self.space()
        if chance < 0.1:
            text = self.value(1)
        elif chance < 0.12:
            depth = self.random.choice([399, 400, 401, 500])
            text = "[" * depth + "]" * depth
        if self.random.random() < 0.08 and text:
            at = self.random.randrange(len(text))
            more = self.random.choice([*'{}[]",:\\ux1eE+-.\n', "\x00"])
            text = self.random.choice([text[:at], text[:at] + text[at + 1 :], text[:at] + more + text[at:]])
        raw = text.encode()
        return raw.replace("é".encode(), b"\xe9") if self.random.random() < 0.02 else raw


def expected(sql: str, documents: list[bytes | None], skip: frozenset[int] = frozenset()) -> dict[int, Any]:
    errors: dict[int, str] = {}
    column: list[str | None] = []
    blanked = [raw and raw.replace(b"\0", b" ") for raw in documents]  # a zero byte is UTF-8, but no JSON
    messages = from_utf8(pa.array(blanked, pa.binary())).errors
    for i, raw in enumerate(documents):
        value = None
        if messages is not None and messages[i].is_valid:
            errors[i] = messages[i].as_py()
        elif raw is not None and i not in skip:
            try:
                value = exact_json.canonical_text(raw.decode())
            except InvalidJson as bad:
                errors[i] = str(bad)
        column.append(value)
    return whole(planned(sql, FORMAT.columns), [column], [JSONB], errors, skip)


@st.composite
def queries(draw: st.DrawFn) -> str:
    shown = draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4))
    asked = draw(st.lists(st.sampled_from(CONDITIONS), max_size=3))
    return f"SELECT {', '.join(shown)} FROM s" + (f" WHERE {' AND '.join(asked)}" if asked else "")


@given(st.integers(0, 2**32), queries(), st.sampled_from([0, 1 << 20]), st.booleans())
@settings(max_examples=30)
@example(1, "SELECT data->>'a' FROM s", 0, True).via("Rust's regular expressions")
@example(2, "SELECT data->>'a', data->'b', data->>'c' FROM s WHERE data->>'a' > '1'", 0, True).via(
    "two stages"
)
def test_what_is_taken_and_left_is_the_plan_over_jsonb(
    seed: int, sql: str, bytes_: int, in_a_file: bool
) -> None:
    grower = Grower(seed)
    documents: list[bytes | None] = [grower.document() for _ in range(260)]
    before, find.MIN_BYTES_FOR_POLARS = find.MIN_BYTES_FOR_POLARS, bytes_
    try:
        if in_a_file:
            documents = [(raw or b"").replace(b"\n", b"").rstrip(b"\r") for raw in documents]
            skip = frozenset(i for i, raw in enumerate(documents) if not (raw or b"").strip(b" \t\r"))
            got = taken(FORMAT, planned(sql, FORMAT.columns), b"\n".join(d or b"" for d in documents) + b"\n")
            assert got == expected(sql, documents, skip)
        else:
            documents[7] = None
            got = taken(FORMAT, planned(sql, FORMAT.columns), pa.array(documents, pa.binary()))
            assert got == expected(sql, documents)
    finally:
        find.MIN_BYTES_FOR_POLARS = before


WANTED = [
    PathRequest((KeyStep("a"),), as_text=True),
    PathRequest((KeyStep("b"),), as_text=False),
    PathRequest((KeyStep("a"), KeyStep("b")), as_text=True),
]


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("_TRACES", "never"),
        ("_LENIENT", "never"),
        ("_EXPONENT", "never"),
        ("_ZERO_RUN", "never"),
        ("_brackets", lambda documents: np.zeros(len(documents), int)),
        ("_ESCAPED_KEY", "never"),
        ("_repeated_key", lambda name: "never"),
        ("_REAL", "never"),
        ("_HOLDS_REAL", "never"),
        ("to_canonical", Outcome),
    ],
)
def test_a_trace_that_is_not_looked_for_is_missed(
    name: str, lie: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = json_text.canonical_json if name == "to_canonical" else json_text
    monkeypatch.setattr(module, name, lie)
    assert any(differs(seed) for seed in range(60))


def differs(seed: int) -> bool:
    grower = Grower(seed)
    texts = [grower.document().decode("latin-1") for _ in range(260)]
    documents = pa.array(texts)
    right = json_text._read_exactly(documents, WANTED)
    try:
        found = json_text.read_paths(documents, WANTED)
    except InvalidJson:
        return True
    return [v.to_pylist() for v in (*found.values, found.errors)] != [
        v.to_pylist() for v in (*right.values, right.errors)
    ]


def test_most_documents_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces are rare in ordinary data: nested keys of the same name, prices, words, spaces, umlauts as escapes."""
    rows: list[int] = []
    slow = json_text._read_exactly

    def counting(documents: pa.Array, wanted: Any) -> Any:
        rows.append(len(documents))
        return slow(documents, wanted)

    monkeypatch.setattr(json_text, "_read_exactly", counting)
    text = '{ "id": %d, "user": {"id": 3, "name": "J\\u00fcrgen, info"}, "price": %d.50, "tags": ["a", "b"] }'
    documents = pa.array([(text % (i, i)).encode() for i in range(1000)], pa.binary())
    sql = "SELECT data->>'id', data->>'price', data->'user'->>'name', data->'tags' FROM s WHERE data->>'id' > '5'"
    got = taken(FORMAT, planned(sql, FORMAT.columns), documents)
    assert got[777] == ("777", "777.5", "Jürgen, info", '["a","b"]')
    assert len(got) == sum(str(i) > "5" for i in range(1000))
    assert rows == []


def test_a_document_is_bad_behind_what_is_wanted_and_where_the_filter_drops_it() -> None:
    sql = "SELECT data->>'a' FROM s WHERE data->>'a' = 'x'"
    good = [b'{"a":"y"}'] * 300
    got = taken(
        FORMAT,
        planned(sql, FORMAT.columns),
        pa.array([*good, b'{"a":"y", "b":}', b'{"a":"x"} 1'], pa.binary()),
    )
    assert got == dict.fromkeys((300, 301), exact_json.INVALID)


def test_only_paths_of_the_filter_are_read_of_all_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, list[str]]] = []
    fast = json_text._read_by_duckdb

    def watching(documents: pa.Array, wanted: Any) -> Any:
        asked.append((len(documents), [w.path[0].name for w in wanted]))
        return fast(documents, wanted)

    monkeypatch.setattr(json_text, "_read_by_duckdb", watching)
    documents = pa.array([b'{"a":%d,"b":1,"c":2}' % (i % 4) for i in range(2000)], pa.binary())
    sql = "SELECT data->>'b', data->>'c' FROM s WHERE data->>'a' = '1'"
    decode, left = FORMAT.take(planned(sql, FORMAT.columns))
    assert len(decode.records(documents).selection) == 500
    assert asked == [(2000, ["a"]), (500, ["b", "c"])]
    assert not left.predicates
    # Where most records pass, all is read at once, from the second batch on.
    asked.clear()
    decode, _ = FORMAT.take(planned(sql.replace("=", "<>"), FORMAT.columns))
    for _ in range(2):
        assert len(decode.records(documents).selection) == 1500
    assert asked == [(2000, ["a"]), (1500, ["b", "c"]), (2000, ["a", "b", "c"])]


@given(st.binary(max_size=60), st.sampled_from([3, 8, 1 << 20]), st.booleans())
@settings(max_examples=200)
def test_text_and_bytes_are_lines(data: bytes, size: int, is_text: bool) -> None:
    format_ = PlainFormat(is_text)
    name = format_.columns[0][0]
    pieces = data.removeprefix(lines.MARK).split(b"\n")
    pieces = pieces if pieces[-1] else pieces[:-1]
    last = len(pieces) - 1 if not data.endswith(b"\n") else None
    kept = [p.removesuffix(b"\r") if is_text and i != last else p for i, p in enumerate(pieces)]
    before, lines.BLOCK = lines.BLOCK, size
    try:
        got = taken(
            format_, planned(f"SELECT {name} FROM s WHERE length({name}) <> 1", format_.columns), data
        )
    finally:
        lines.BLOCK = before
    errors = from_utf8(pa.array(kept, pa.binary())).errors if is_text else None
    wrong = {} if errors is None else {i: m for i, m in enumerate(errors.to_pylist()) if m is not None}
    values = [None if i in wrong else p.decode() if is_text else p for i, p in enumerate(kept)]
    plan = planned(f"SELECT {name} FROM s WHERE length({name}) <> 1", format_.columns)
    assert got == (whole(plan, [values], [format_.columns[0][1]], wrong) if kept else {})


def test_raw_bytes_and_lines_of_a_file() -> None:
    decode, _ = FORMAT.take(planned("SELECT data->>'a' FROM s", FORMAT.columns))
    (decoded,) = decode.file(io.BytesIO(b'{"a":1}\r\n\n{"a":\r\n{"a":2}'), "x.json")
    assert decoded.selection.tolist() == [0, 3]
    assert decoded.failures == [(2, exact_json.INVALID)]
    assert decoded.raw(2) == b'{"a":'
    assert re.fullmatch(rb'\{"a":2\}', decoded.raw(3))
    assert decoded.count == 4
