"""FILES that are damaged, that change, that are still being written: nothing is lost silently, nothing is read twice."""

import gzip
import os
from pathlib import Path

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
    read,
    zst,
)
from tidegate.clock import ManualClock
from tidegate.errors import SourceError
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.formats.registry import create_format
from tidegate.ingest.protocol import BatchLimit, ReadRequest
from tidegate.ingest.upstreams.files import read as files_read
from tidegate.ingest.upstreams.files.upstream import FilesUpstream

TEXT, JSON = PlainFormat(is_text=True), JsonFormat()


@pytest.fixture(params=PLACES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench.at(request.param, tmp_path)


# ---------------------------------------------------------------- damage and change


def test_a_file_truncated_in_a_record(bench: Bench) -> None:
    lines = b"".join(b'{"id":%d}\n' % i for i in range(50_000))
    packed = gzip.compress(lines)
    names = {
        bench.put("in/a.json", lines[:-5]): {"line": 50_000},
        bench.put("in/b.json.gz", packed[:-2_000]): {},
        bench.put("in/c.json.zst", zst(lines)[:-50]): {},
    }
    bench.put("in/d.json", b'{"id":-1}')
    got, at = drain(bench.files("in/*", JSON), JSON, sql="SELECT (data->>'id')::int8 FROM s")
    assert {
        where["file"]: {k: v for k, v in where.items() if k != "file"} for where, _, _ in got.errors
    } == names
    assert len(at) == 4
    assert (-1,) in got.rows
    assert got.rows.count((7,)) >= 1
    why = {where["file"]: message for where, message, _ in got.errors}
    assert all("ends too early" in why[name] and name in why[name] for name in names if "json." in name)
    raws = [raw for where, _, raw in got.errors if where["file"].endswith("a.json")]
    assert raws == [lines[:-5].rpartition(b"\n")[2]]


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_a_damaged_container(bench: Bench, kind: str) -> None:
    data = container(ROWS) if kind == "avro" else parquet(ROWS)
    bench.put("in/1", data, written=1)
    bad = bench.put("in/2", data[: len(data) // 2], written=2)
    short = bench.put("in/3", data[:3], written=3)
    bench.put("in/4", data, written=4)
    source = bench.files("in/*")
    format_ = create_format(kind, {}, bench.files("in/1").open_sample)
    got, at = drain(source.bind(format_, "none", ()), format_, "file", "line")
    assert len(at) == 4
    assert len(got.rows) == 14
    assert [row[3] for row in got.rows] == [*range(1, 8)] * 2
    assert [where for where, _, _ in sorted(got.errors, key=str)] == [{"file": bad}, {"file": short}]
    assert all(where["file"] in why for where, why, _ in got.errors)


def test_a_file_that_changes_before_it_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put("in/a.txt", b"1\n")
    bench.put("in/b.txt", b"2\n")
    source = bench.files("in/*", TEXT)
    for small in (files_read.SMALL_FILE_BYTES, 0):
        monkeypatch.setattr(files_read, "SMALL_FILE_BYTES", small)
        upto = source.latest({}, BatchLimit())
        bench.put("in/a.txt", b"1\n" * (small % 7 + 3))
        with pytest.raises(SourceError, match=r"in/a\.txt.*about to be read") as raised:
            read(source, TEXT, (), "SELECT * FROM s", None, ({}, upto), Got())
        assert raised.value.again
        upto = source.latest({}, BatchLimit())
        bench.remove("in/b.txt")
        with pytest.raises(SourceError, match=r"in/b\.txt"):
            read(source, TEXT, (), "SELECT * FROM s", None, ({}, upto), Got())
        bench.put("in/b.txt", b"2\n")
    got, _ = drain(source, TEXT)  # planned anew
    assert sorted(got.rows) == [("1",)] * 3 + [("2",)]


def test_an_object_that_changes_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_read, "SMALL_FILE_BYTES", 0)
    bench = Bench.at("bucket", tmp_path)
    source = bench.files("in/*", TEXT)
    decode, _ = TEXT.take(everything(TEXT))
    changes = 0
    for i in range(5):
        bench.put("in/a.txt", b"%d\n" % i)
        (split,) = source.splits({}, source.latest({}, BatchLimit()))
        chunks = source.read(split, [ReadRequest(None, decode)], ())
        next(chunks)
        bench.put("in/a.txt", b"%d\n" % (i + 5))  # as many bytes, and mostly the same second
        with pytest.raises(SourceError, match="about to be read"):
            next(chunks)
        changes += 1
    assert changes == 5


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_read, "SMALL_FILE_BYTES", 0)
    bench = Bench("folder", str(tmp_path))
    name = bench.put("a.txt", b"1\n" * 100)
    source = bench.files("*", TEXT)
    decode, _ = TEXT.take(everything(TEXT))
    (split,) = source.splits({}, source.latest({}, BatchLimit()))
    chunks = source.read(split, [ReadRequest(None, decode)], ())
    _, first = next(chunks)
    assert first.decoded.count == 100
    with open(name, "ab") as more:
        more.write(b"2\n")
    with pytest.raises(SourceError, match="about to be read"):
        next(chunks)


def test_a_file_that_changes_after_it_was_read(bench: Bench) -> None:
    name = bench.put("in/a.txt", b"1\n")
    source = bench.files("in/*", TEXT)
    _, at = drain(source, TEXT)
    assert source.lag(at).notes == ()
    bench.put("in/a.txt", b"1\n2\n")
    assert drain(source, TEXT, at=at) == (Got(), at)
    (note,) = source.lag(at).notes
    assert note == f"1 file was written again after having been read, and not read again: {name}"
    assert source.lag(at).bytes == 0


def test_a_large_file_that_changes_when_half_of_it_was_read(bench: Bench) -> None:
    bench.put("in/a.txt", b"1\n" * 50)
    source = bench.files("in/*", TEXT)
    half = source.latest({}, BatchLimit(bytes=50))
    assert [value[2] for value in half.values()] == [50]
    assert source.lag(half).bytes == 50
    bench.put("in/a.txt", b"1\n" * 60)
    assert source.latest(half, BatchLimit()) == half
    assert len(source.lag(half).notes) == 1


def test_settle(tmp_path: Path) -> None:
    bench = Bench("folder", str(tmp_path))
    clock = ManualClock(at=10_000)
    source = FilesUpstream(f"{tmp_path}/*.txt", settle_ms=2_000, lines=True, clock=clock)
    bench.put("a.txt", b"1\n", written=8.5)
    old = bench.put("b.txt", b"2\n", written=8.0)
    assert list(source.latest({}, BatchLimit())) == [old]
    assert source.lag({}).milliseconds == 2_000
    assert source.lag({}).bytes == 4
    clock.advance(500)
    assert len(source.latest({}, BatchLimit())) == 2


def test_names_that_are_no_text(tmp_path: Path) -> None:
    Path(tmp_path, "a.txt").write_bytes(b"1")
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb") as strange:
        strange.write(b"2")
    source = Bench("folder", str(tmp_path)).files("*.txt", TEXT)
    got, at = drain(source, TEXT)
    assert got.rows == [("1",)]
    (note,) = source.lag(at).notes
    assert note.startswith("1 file was not read, as a name must be UTF-8:")
    assert "udcff" in note


def test_links_and_folders(tmp_path: Path) -> None:
    Path(tmp_path, "in/sub").mkdir(parents=True)
    Path(tmp_path, "real.txt").write_bytes(b"1")
    Path(tmp_path, "in/a.txt").symlink_to(tmp_path / "real.txt")
    Path(tmp_path, "in/gone.txt").symlink_to(tmp_path / "nothing")
    Path(tmp_path, "in/sub/back").symlink_to(tmp_path / "in")  # a circle
    Path(tmp_path, "in/folder.txt").mkdir()
    os.mkfifo(tmp_path / "in/pipe.txt")
    bench = Bench("folder", str(tmp_path))
    assert drain(bench.files("in/**/*.txt", TEXT), TEXT)[0].rows == [("1",)]
    Path(tmp_path, "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(SourceError, match="loop") as raised:
        bench.files("loop/*.txt", TEXT).latest({}, BatchLimit())
    assert raised.value.again
