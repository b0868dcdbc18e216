"""CSV: the law over random records and plans, files with headers, quotes, bad records and damaged files."""

import gzip
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ingest.formats.law import Fates, planned, taken, whole
from tidegate.config import Config
from tidegate.errors import CorruptError
from tidegate.expr.model.types import TEXT
from tidegate.ingest.formats import lines
from tidegate.ingest.formats.csv.format import CsvFormat
from tidegate.ingest.formats.limits import apply_limits, current_limits
from tidegate.ingest.formats.plain import PlainFormat

FORMAT = CsvFormat.numbered(3)
PLANS = [
    "SELECT * FROM s",
    "SELECT column2 FROM s WHERE column1 = 'a'",
    "SELECT column3, number FROM s WHERE column1::int4 > 1",
    "SELECT column1::int4 FROM s WHERE column2 <> '' AND number > 1",
    "SELECT number FROM s",
    "SELECT 1 / length(column3) FROM s WHERE column1 IN ('a', '', '1')",
    "SELECT column2 || column3 FROM s WHERE length(column2) > 0 AND 1 / length(column3) >= 0",
]
TEXTS = st.sampled_from(
    ["a", "", "1", "12", "x y", "é", '"', '"a"', '"a""b"', '"a,b"', '"l\nm"', '5"', '"a"b', '"', "\r", "\xff"]
)
RECORDS = st.lists(st.lists(TEXTS, min_size=1, max_size=4).filter(lambda f: f != [""]), max_size=12)


def machine(data: str) -> list[tuple[str, list[str] | str]]:
    """The grammar once more, letter by letter: records with their fields, or with what is wrong."""
    found: list[tuple[str, list[str] | str]] = []
    at = 0
    while at < len(data):
        end, fields = one(data, at)
        if fields == "a quoted field is not closed":
            end = data.find("\n", at) + 1 or len(data)
        found.append((data[at:end], fields))
        at = end
    return found


def one(data: str, at: int) -> tuple[int, list[str] | str]:
    fields = [""]
    state = "start"
    while at < len(data):
        letter = data[at]
        at += 1
        if state == "quoted":
            state, letter = ("quote", "") if letter == '"' else (state, letter)
            fields[-1] += letter
        elif letter == "\n":
            if state != "quote" and fields[-1].endswith("\r"):
                fields[-1] = fields[-1][:-1]
            return at, fields
        elif state == "quote" and letter == '"':
            state = "quoted"
            fields[-1] += letter
        elif letter == ",":
            fields.append("")
            state = "start"
        elif state == "quote":
            if letter == "\r" and data.startswith("\n", at):
                continue
            end = data.find("\n", at)
            return (len(data) if end < 0 else end + 1), "text follows a closing quote"
        elif state == "start" and letter == '"':
            state = "quoted"
        else:
            state = "bare"
            fields[-1] += letter
    return at, "a quoted field is not closed" if state == "quoted" else fields


def expected(sql: str, data: bytes) -> Fates:
    records = machine(data.decode("latin-1"))
    columns: list[list[Any]] = [[], [], []]
    errors: dict[int, str] = {}
    skip = set()
    for i, (raw, fields) in enumerate(records):
        values: list[Any] = [None] * 3
        try:
            raw.encode("latin-1").decode()
        except UnicodeDecodeError:
            errors[i] = "utf8"
        else:
            if raw in ("", "\n", "\r\n"):
                skip.add(i)
            elif isinstance(fields, str):
                errors[i] = fields
            elif len(fields) != 3:
                errors[i] = f"the record has {len(fields)} field{'s' * (len(fields) > 1)} instead of 3"
            else:
                values = [field.encode("latin-1").decode() for field in fields]
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return whole(planned(sql, FORMAT.columns), columns, [TEXT] * 3, errors, frozenset(skip))


def shown(fates: Fates) -> Fates:
    return {i: "utf8" if isinstance(fate, str) and "UTF8" in fate else fate for i, fate in fates.items()}


@given(
    RECORDS,
    st.sampled_from(PLANS),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([7, 40, 1 << 20]),
)
@settings(max_examples=300)
def test_a_file_is_what_its_fields_say(
    records: list[list[str]], sql: str, ending: str, closed: bool, size: int
) -> None:
    data = ending.join(",".join(record) for record in records) + ending * closed
    raw = data.encode("utf-8").replace("\xff".encode(), b"\xff")
    before, lines.BLOCK = lines.BLOCK, size
    try:
        got = taken(FORMAT, planned(sql, FORMAT.columns), raw)
    finally:
        lines.BLOCK = before
    assert shown(got) == expected(sql, raw)


@given(st.lists(st.none() | st.lists(TEXTS, min_size=1, max_size=4), max_size=8), st.sampled_from(PLANS))
@settings(max_examples=200)
def test_values_are_records(records: list[list[str] | None], sql: str) -> None:
    raws = [None if r is None else ",".join(r).encode().replace("\xff".encode(), b"\xff") for r in records]
    errors: dict[int, str] = {}
    columns: list[list[Any]] = [[], [], []]
    for i, raw in enumerate(raws):
        values: list[Any] = [None] * 3
        # A line break at the end, or what is left of one, is no part of a value.
        found = machine((raw or b"").decode("latin-1").removesuffix("\n").removesuffix("\r") + "\n")
        if raw is not None:
            if len(found) != 1:
                errors[i] = "the value is not one record"
            elif isinstance(found[0][1], str) or b"\xff" in raw:
                errors[i] = "utf8" if b"\xff" in raw else str(found[0][1])
            elif len(found[0][1]) != 3:
                n = len(found[0][1])
                errors[i] = f"the record has {n} field{'s' * (n > 1)} instead of 3"
            else:
                values = [field.encode("latin-1").decode() for field in found[0][1]]
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    plan = planned(sql, FORMAT.columns)
    got = taken(FORMAT, plan, pa.array(raws, pa.binary()))
    assert shown(got) == whole(plan, columns, [TEXT] * 3, errors)


def test_header_names_columns_in_any_order() -> None:
    format_ = CsvFormat(("id", "kind"), header=True, delimiter=";")
    plan = planned("SELECT kind, id FROM s WHERE id > '1'", format_.columns)
    data = b"kind;more;id\npay;x;1\npay;y;2\n\nfree;3\n"
    assert taken(format_, plan, data) == {
        2: ("pay", "2"),
        4: "the record has 2 fields instead of 3",
    }
    with pytest.raises(CorruptError, match='no column "id" in its header'):
        taken(format_, plan, b"kind;idd\na;b\n", "day.csv")
    assert CsvFormat.named_by(io.BytesIO(b'\xef\xbb\xbfa,"b c"\n1,2\n'), "x.csv").names == ("a", "b c")


def test_lines_are_told_of_records_that_span_them() -> None:
    decode, _ = FORMAT.take(planned("SELECT column1 FROM s", FORMAT.columns))
    (decoded,) = decode.file(io.BytesIO(b'a,"x\ny",c\nbad\n\nd,e,f\n'), "x.csv")
    assert decoded.lines(decoded.selection).tolist() == [0, 4]
    assert decoded.failures == [(1, "the record has 1 field instead of 3")]
    assert decoded.lines(decoded.selection[:0].astype(int)).tolist() == []
    assert decoded.raw(1) == b"bad"
    assert decoded.raw(0) == b'a,"x\ny",c'


def test_a_quote_too_many_does_not_swallow_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 16)
    plan = planned("SELECT column1 FROM s", FORMAT.columns)
    with apply_limits(Config(ingest_record_bytes=64)):
        got = taken(FORMAT, plan, b'a,"b,c\n' + b"d,e,f\n" * 50)
        assert got == {0: "a quoted field is not closed", **dict.fromkeys(range(1, 51), ("d",))}
        for endless in (b'a,"' + 500 * b"x", 500 * b"x"):
            got = taken(FORMAT, plan, b"1,2,3\n" + endless + b"\n" + b"d,e,f\n" * 50)
            expected = {0: ("1",), 1: current_limits().too_long(), **dict.fromkeys(range(2, 52), ("d",))}
            assert got == expected


@given(
    st.lists(st.integers(0, 40), max_size=12),
    st.integers(1, 30),
    st.integers(8, 24),
    st.booleans(),
    st.integers(1, 4),
)
def test_which_records_are_too_long_does_not_depend_on_blocks(
    sizes: list[int], block: int, most: int, ended: bool, many: int
) -> None:
    """Lines and CSV alike: what is longer with its line break is refused, and nothing else; lines keep their numbers."""
    wanted = {i: "x" * size for i, size in enumerate(sizes)}
    data = b"".join(b"%s\n" % text.encode() for text in wanted.values())
    if not ended and sizes and sizes[-1]:
        data = data.removesuffix(b"\n")
    bare = 0 if ended or not sizes or not sizes[-1] else 1
    with pytest.MonkeyPatch.context() as patch, apply_limits(Config(ingest_record_bytes=most)):
        patch.setattr(lines, "BLOCK", block)
        patch.setattr(lines, "MAX_LINES", many)
        long = {i for i in wanted if len(wanted[i]) + (i < len(sizes) - bare) > most}
        texts = taken(PlainFormat(True), planned("SELECT text FROM s", PlainFormat(True).columns), data)
        assert texts == {
            i: current_limits().too_long() if i in long else (text,) for i, text in wanted.items()
        }
        one = CsvFormat.numbered(1)
        found = taken(one, planned("SELECT column1 FROM s", one.columns), data)
        assert found == {i: one for i, one in texts.items() if wanted[i]}


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zst"])
def test_packed_files_and_their_ends(name: str) -> None:
    data = b"a,b,c\n" * 1000
    packed = gzip.compress(data) if name.endswith("gz") else pa.compress(data, "zstd", asbytes=True)
    plan = planned("SELECT column2 FROM s", FORMAT.columns)
    assert taken(FORMAT, plan, packed, name) == dict.fromkeys(range(1000), ("b",))
    with pytest.raises(CorruptError, match="ends too early"):
        taken(FORMAT, plan, packed[:-9], name)


PLAIN = st.sampled_from(["a", "", "1", "12", "x y", "é", "long enough to be no short text", "\r", "a\r"])


@given(
    st.lists(st.lists(PLAIN, min_size=3, max_size=3), min_size=1, max_size=12),
    st.lists(st.lists(PLAIN, min_size=1, max_size=4), max_size=1),
    st.sampled_from(PLANS),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
@settings(
    max_examples=200
)  # half of them have three fields everywhere, and of these two in three no stray carriage return
def test_records_without_quotes(
    right: list[list[str]], other: list[list[str]], sql: str, ending: str, closed: bool
) -> None:
    data = (ending.join(",".join(fields) for fields in (*right, *other)) + ending * closed).encode()
    assert shown(taken(FORMAT, planned(sql, FORMAT.columns), data)) == expected(sql, data)
