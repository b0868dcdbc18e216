"""FILES, in a folder and on a real S3 server: each file once, whatever happens to it."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.files_bench import (
    PLACES,
    ROWS,
    Bench,
    Got,
    container,
    drain,
    everything,
    parquet,
    zst,
)
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.lines import MARK
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.formats.registry import create_format
from tidegate.ingest.protocol import BatchLimit, ReadRequest, RecordChunk
from tidegate.ingest.upstreams.files import read as files_read
from tidegate.ingest.upstreams.files import upstream as files_room

TEXT, JSON = PlainFormat(is_text=True), JsonFormat()


@pytest.fixture(params=PLACES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench.at(request.param, tmp_path)


# ---------------------------------------------------------------- each file once


def test_new_files_are_read_once(bench: Bench) -> None:
    bench.put("in/b.txt", b"1\n2\n")
    bench.put("in/a.txt", b"3")
    source = bench.files("in/*.txt", TEXT)
    got, at = drain(source, TEXT)
    assert sorted(got.rows) == [("1",), ("2",), ("3",)]
    assert set(at) == {f"{bench.root}/in/{name}.txt" for name in "ab"}
    assert drain(source, TEXT, at=at) == (Got(), at)
    assert source.lag(at).bytes == 0
    late = bench.put("in/c.txt", b"4\n", written=1_000_000)  # it claims to be of 1970
    assert source.lag(at).bytes == 2
    got, then = drain(source, TEXT, at=at)
    assert got.rows == [("4",)]
    assert {**at, late: then[late]} == then
    if bench.kind == "folder":
        assert then[late] == [2, 1_000_000_000_000]


def test_an_empty_file_has_not_begun(bench: Bench) -> None:
    """Many programs open a file some time before they write into it."""
    bench.put("in/a.txt", b"")
    bench.put("in/b.txt", b"1")
    source = bench.files("in/*", TEXT)
    got, at = drain(source, TEXT)
    assert (got.rows, len(at)) == ([("1",)], 1)
    assert source.lag(at).milliseconds == 0
    bench.put("in/a.txt", b"2")
    assert drain(source, TEXT, at=at)[0].rows == [("2",)]


def test_names_that_are_odd(bench: Bench) -> None:
    names = ["a b.txt", "ü.txt", "a#b.txt", "100%.txt", "a+b.txt", "a%20b.txt", "it's.txt", "[x].txt"]
    for name in names:
        bench.put(f"in/{name}", name.encode())
    got, at = drain(bench.files("in/*.txt", TEXT), TEXT, "file")
    assert sorted(got.rows) == sorted((name, f"{bench.root}/in/{name}") for name in names)
    assert sorted(at) == sorted(f"{bench.root}/in/{name}" for name in names)


def test_what_is_still_being_written_is_passed_over(bench: Bench) -> None:
    hidden = (".a.txt", "a.txt.tmp", "_temporary/0/b.txt", ".c/d.txt", "e/_SUCCESS", "f.txt._COPYING_")
    for name in ("a.txt", "x/y/z.txt", "_b.txt", *hidden):
        bench.put(f"in/{name}", name.encode())
    for pattern in ("in/**", "in/"):
        got, _ = drain(bench.files(pattern, TEXT), TEXT)
        assert sorted(got.rows) == [("_b.txt",), ("a.txt",), ("x/y/z.txt",)]
    assert drain(bench.files("in/*.tmp", TEXT), TEXT)[0].rows == [("a.txt.tmp",)]
    assert drain(bench.files("in/**/.c/*", TEXT), TEXT)[0].rows == [(".c/d.txt",)]
    assert drain(bench.files("in/a.txt", TEXT), TEXT)[0].rows == [("a.txt",)]
    assert drain(bench.files("nowhere/*.txt", TEXT), TEXT) == (Got(), {})


def test_limits(bench: Bench) -> None:
    for i in range(5):
        bench.put(f"in/{i}.csv", b"x,y\n" * 10, written=1_000 + i)
    format_ = create_format("csv", {"columns": 2})
    source = bench.files("in/*.csv", format_)
    got, _ = drain(source, format_, limit=BatchLimit(files=2))
    assert (got.batches, len(got.rows)) == (3, 50)
    got, _ = drain(source, format_, limit=BatchLimit(bytes=100))
    assert (got.batches, len(got.rows)) == (3, 50)
    got, _ = drain(source, format_, limit=BatchLimit(bytes=1))
    assert (got.batches, len(got.rows)) == (5, 50)


def test_rows_are_limited_by_a_guess(bench: Bench) -> None:
    rows = [{"id": i, "name": "x" * 50} for i in range(500)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    cases = {
        "avro": container(rows),
        "parquet": parquet(rows),
        "json": lines,
        "json.gz": gzip.compress(lines),
    }
    for kind, data in cases.items():
        for i in range(8):
            bench.put(f"{kind}/{i}.{kind}", data, written=1_000 + i)
        source = bench.files(f"{kind}/*")
        format_ = JSON if "json" in kind else create_format(kind, {}, source.open_sample)
        got, _ = drain(source.bind(format_, "none", ()), format_, limit=BatchLimit(rows=1_100))
        assert len(got.rows) == 4_000
        assert got.batches == 4
    bench.put("bad/a.gz", b"\x1f\x8bno")
    bench.put("bad/b.gz", b"1\n2")
    got, _ = drain(bench.files("bad/*", TEXT), TEXT, limit=BatchLimit(rows=1))
    assert len(got.errors) == 2


# ---------------------------------------------------------------- formats, packed or not


CASES: list[tuple[str, dict[str, Any], bytes, str]] = [
    ("json", {}, "".join(json.dumps(row) + "\n" for row in ROWS).encode(), "(data->>'id')::int8; data->>'name'"),
    ("csv", {"header": True}, b"name,id\n" + b"".join(b"n%d,%d\r\n" % (i, i) for i in range(7)), "id::int8; name"),
    ("text", {}, "".join(f"{i} n{i}\n" for i in range(7)).encode(), "split_part(text, ' ', 1)::int8; split_part(text, ' ', 2)"),
    ("bytes", {}, "".join(f"{i} n{i}\n" for i in range(7)).encode(),
     "substr(convert_from(data, 'utf8'), 1, 1)::int8; substr(convert_from(data, 'utf8'), 3)"),
    ("avro", {}, container(ROWS), "id; name"),
    ("parquet", {}, parquet(ROWS), "id; name"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_formats(
    bench: Bench, case: tuple[str, dict[str, Any], bytes, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, options, data, (number, name) = *case[:3], case[3].split("; ")
    bench.put("in/plain", data)
    if kind not in ("avro", "parquet"):
        bench.put("in/x.gz", gzip.compress(data[:20]) + gzip.compress(data[20:]))
        bench.put("in/x.zst", zst(data))
    source = bench.files("in/*")
    format_ = create_format(kind, options, source.open_sample)
    source = source.bind(format_, "none", ())
    expected = [(row["id"], row["name"]) for row in ROWS]
    count = 1 if kind in ("avro", "parquet") else 3
    for small in (files_read.SMALL_FILE_BYTES, -1):  # joined or fetched whole; opened one by one
        monkeypatch.setattr(files_read, "SMALL_FILE_BYTES", small)
        got, _ = drain(source, format_, sql=f"SELECT {number}, {name} FROM s")
        assert (sorted(got.rows), got.errors) == (sorted(expected * count), [])
        got, _ = drain(source, format_, "line", sql=f"SELECT line FROM s WHERE {number} >= 5")
        first = 2 if kind == "csv" else 1  # the header is line 1
        assert sorted(got.rows) == sorted([(5 + first,), (6 + first,)] * count)


def test_large_objects_are_read_by_ranges(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.ingest.upstreams.files.location._RANGE_BYTES", 1 << 16)
    rows = [{"id": i, "name": f"{i:x}" * 30} for i in range(30_000)]
    for name, data in (("a.avro", container(rows)), ("a.parquet", parquet(rows))):
        assert len(data) > files_read.SMALL_FILE_BYTES / 4
        bench.put(f"in/{name}", data)
        monkeypatch.setattr(files_read, "SMALL_FILE_BYTES", 0)
        source = bench.files(f"in/{name}")
        format_ = create_format(name[2:], {}, source.open_sample)
        got, _ = drain(source.bind(format_, "none", ()), format_)
        assert got.rows == [(row["id"], row["name"]) for row in rows]


# ---------------------------------------------------------------- where a record stands


def test_file_line_and_timestamp(bench: Bench) -> None:
    names = [
        bench.put("in/1.json", b'{"a":1}\n\n{"a":2}\n', written=1_000),
        bench.put("in/2.json.gz", gzip.compress(b""), written=2_000),
        bench.put("in/3.json", b'\xef\xbb\xbf{"a":3}\r\n{"a":4}', written=3_000),
        bench.put("in/4.json", b'{"a":5}\n{"a":', written=4_000),
        bench.put("in/5.json", b'{"a":6}', written=5_000),
        bench.put("in/6.json.gz", gzip.compress(b'{"a":7}\n{"b"'), written=6_000),
    ]
    got, at = drain(bench.files("in/*", JSON, "line"), JSON, "file", "line", "timestamp")
    expected = [("1", 0, 1), ("2", 0, 3), ("3", 2, 1), ("4", 2, 2), ("5", 3, 1), ("6", 4, 1), ("7", 5, 1)]
    assert [(json.loads(row[0])["a"], *row[1:3]) for row in sorted(got.rows)] == [
        (int(value), names[file], line) for value, file, line in expected
    ]
    for row in got.rows:
        assert row[3].timestamp() * 1_000_000 == at[row[1]][1]
    assert {(where["file"], where["line"], raw) for where, _, raw in got.errors} == {
        (names[3], 2, b'{"a":'), (names[5], 2, b'{"b"')
    }  # fmt: skip


def grown(random_: random.Random) -> bytes:
    """Lines of all kinds, some of them no UTF-8, ending in all ways."""
    pieces = [
        b"a",
        b"\n",
        b"\n",
        b"\r\n",
        b"\xc3\xa9",
        b"\xff",
        b"xyz" * 30,
        b"\xef\xbb\xbf",
        b"\r",
        b" ",
        b"",
    ]
    return b"".join(random_.choices(pieces, k=random_.randrange(12)))


def fates(got: Got) -> tuple[list[Any], list[Any]]:
    return got.rows, [(where["file"], where.get("line"), why, raw) for where, why, raw in got.errors]


def test_joining_small_files_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """25 rounds of 12 files: each of the reasons to read a file alone is met several times."""
    for round_ in range(25):
        random_ = random.Random(round_)
        bench = Bench("folder", str(tmp_path / str(round_)))
        for i in range(12):
            data = grown(random_)
            match random_.randrange(5):
                case 0:
                    bench.put(f"{i:02}.gz", gzip.compress(data), written=i)
                case 1:
                    bench.put(f"{i:02}.gz", gzip.compress(data)[: random_.randrange(30)], written=i)
                case 2:
                    bench.put(f"{i:02}.zst", zst(data), written=i)
                case _:
                    bench.put(f"{i:02}.txt", data, written=i)
        for format_ in (TEXT, PlainFormat(is_text=False)):
            source = bench.files("*", format_, "line")
            joined, at = drain(source, format_, "file", "line", "timestamp")
            with monkeypatch.context() as patch:
                patch.setattr(files_read, "SMALL_FILE_BYTES", -1)
                alone, same = drain(source, format_, "file", "line", "timestamp")
            assert at == same
            assert fates(joined) == fates(alone)


@pytest.mark.parametrize("size", [1, 7, 64, 1_000])
def test_stretches_tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for round_ in range(2 if size == 1 else 8):
        random_ = random.Random(round_ * 7 + size)
        bench = Bench("folder", str(tmp_path / str(round_)))
        data = b"".join(grown(random_) for _ in range(12)) + b"\xef\xbb\xbfmarked\n\nlast"
        name = bench.put("a.txt", data)
        bench.put("b.txt", b"one\n" * 9)
        source = bench.files("*", TEXT)
        whole, _ = drain(source, TEXT, "file")
        with monkeypatch.context() as patch:
            patch.setattr(files_room, "SPLIT_BYTES", size)
            cut, at = drain(source, TEXT, "file")
            assert cut.splits >= len(data) // size
            few, same = drain(source, TEXT, "file", limit=BatchLimit(bytes=size * 3))
            assert few.batches >= len(data) // (size * 3)
            counted, _ = drain(source, TEXT, "file", "line")
            numbered, _ = drain(bench.files("*", TEXT, "line"), TEXT, "file", "line")
        assert at == same == {name: at[name], f"{bench.root}/b.txt": at[f"{bench.root}/b.txt"]}
        assert cut.rows == few.rows == whole.rows
        assert sorted(counted.rows) == sorted(numbered.rows)
        assert counted.splits == cut.splits
        assert numbered.splits <= 2
        for where, _, raw in cut.errors:  # from that byte on it is that line
            behind = data[where["byte"] :] if "byte" in where else data.removeprefix(MARK)
            lines = behind.split(b"\n")
            assert lines[where["line"] - 1].removesuffix(b"\r") == raw
        assert [one[1:] for one in cut.errors] == [one[1:] for one in whole.errors]


def test_stretches_of_an_object(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_room, "SPLIT_BYTES", 50_000)
    lines = [f"{i} {'x' * (i % 90)}" for i in range(9_000)]
    bench.put("in/a.txt", "\n".join(lines).encode())
    bench.put("in/b.txt.gz", gzip.compress("\n".join(lines).encode()))
    got, _ = drain(bench.files("in/*", TEXT), TEXT)
    assert sorted(got.rows) == sorted((line,) for line in lines * 2)
    assert got.splits == -(-(sum(map(len, lines)) + 8_999) // 50_000) + 1


def test_many_small_files_are_few_splits(tmp_path: Path) -> None:
    for i in range(3_000):
        Path(tmp_path, f"{i}.json").write_bytes(b'{"a":%d}\n' % i)
    source = Bench("folder", str(tmp_path)).files("*.json", JSON)
    got, at = drain(source, JSON, sql="SELECT (data->>'a')::int8 FROM s")
    assert sorted(got.rows) == [(i,) for i in range(3_000)]
    assert got.splits == 6
    assert len(at) == 3_000


def test_many_small_objects(tmp_path: Path) -> None:
    bench = Bench.at("bucket", tmp_path)
    for i in range(60):
        bench.put(f"in/{i:02}.json.gz", gzip.compress(b'{"a":%d}\n' % i))
    got, _ = drain(bench.files("in/*.json.gz", JSON), JSON, sql="SELECT (data->>'a')::int8 FROM s")
    assert sorted(got.rows) == [(i,) for i in range(60)]
    assert got.splits == 1


def test_several_collections_of_the_same_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_room, "SPLIT_BYTES", 40)
    bench.put("in/a.txt", b"1\n2\n3\n" * 20)
    bench.put("in/b.txt", b"9\n")
    bench.put("in/c.gz", gzip.compress(b"7\n")[:-3])
    source = bench.files("in/*", TEXT)
    decode, _ = TEXT.take(everything(TEXT))
    found: list[RecordChunk] = []
    for split in source.splits({}, source.latest({}, BatchLimit())):
        chunks = list(source.read(split, [ReadRequest(None, decode), ReadRequest(None, decode)], ()))
        one, two = ([chunk for number, chunk in chunks if number == k] for k in (0, 1))
        assert [chunk.decoded.columns for chunk in one] == [chunk.decoded.columns for chunk in two]
        assert [chunk.decoded.failures for chunk in one] == [chunk.decoded.failures for chunk in two]
        found += one
    assert sum(len(chunk.decoded.selection) for chunk in found) >= 61
    assert sum(len(chunk.decoded.failures) for chunk in found) == 1
