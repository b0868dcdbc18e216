"""The contract of a blob store, over every implementation."""

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.contracts.stores import BLOBS, Recipe, recipe
from tidegate.errors import StoreError
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.protocol import Blob


@pytest.fixture(params=BLOBS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Recipe:
    return recipe(request.param, tmp_path)


@pytest.fixture
def blob(made: Recipe) -> Blob:
    return made.blob()


def test_what_is_put_is_got(blob: Blob) -> None:
    assert blob.get("part/1") is None
    blob.put("part/1", b"abc")
    assert blob.get("part/1") == b"abc"
    blob.put("part/1", b"abc")
    assert blob.get("part/1") == b"abc"


def test_large_and_empty(blob: Blob) -> None:
    large = os.urandom(9_000_001)
    blob.put("large", large)
    blob.put("empty", b"")
    assert blob.get("large") == large
    assert blob.get("empty") == b""


def test_create_only_once(blob: Blob) -> None:
    assert blob.create("log/0", b"first")
    assert not blob.create("log/0", b"second")
    assert blob.get("log/0") == b"first"
    blob.delete("log/0")
    assert blob.create("log/0", b"third")


def test_ranges(blob: Blob) -> None:
    blob.put("x", bytes(range(256)))
    assert blob.get_ranges("x", [(0, 2), (250, 6), (100, 1)]) == [b"\x00\x01", bytes(range(250, 256)), b"d"]
    assert blob.get_ranges("x", []) == []
    into = bytearray(5)
    blob.read_into("x", [254, 0], [memoryview(into)[:2], memoryview(into)[3:]])
    assert into == b"\xfe\xff\x00\x00\x01"
    with pytest.raises(StoreError):
        blob.read_into("x", [250], [memoryview(bytearray(10))])
    with pytest.raises(StoreError, match="nothing is missing"):
        blob.read_into("nothing", [0], [memoryview(into)])
    with pytest.raises(StoreError, match="object nothing is missing"):
        blob.get_ranges("nothing", [(0, 1)])


def test_delete_is_idempotent(blob: Blob) -> None:
    blob.put("x", b"1")
    blob.delete("x")
    blob.delete("x")
    assert blob.get("x") is None


def test_list_by_prefix(blob: Blob) -> None:
    for name in ("a/1", "a/2", "ab/1", "b", "a/c/3"):
        blob.put(name, name.encode())
    assert [e.name for e in blob.list()] == ["a/1", "a/2", "a/c/3", "ab/1", "b"]
    assert [e.name for e in blob.list("a/")] == ["a/1", "a/2", "a/c/3"]
    assert [e.name for e in blob.list("a")] == ["a/1", "a/2", "a/c/3", "ab/1"]
    assert [e.name for e in blob.list("nothing/")] == []
    assert [e.name for e in blob.list("a/", "a/1")] == ["a/2", "a/c/3"]
    assert [e.name for e in blob.list("", "a/c/3")] == ["ab/1", "b"]
    assert [e.name for e in blob.list("a/", "a/d")] == []
    (entry,) = blob.list("b")
    assert entry.size == 1
    assert entry.written > 1_600_000_000_000


@pytest.mark.parametrize(
    "name", ["", "../x", "/etc/passwd", "a//b", "a/", "a/../b", ".tmp-1", "a b", "ä", "x" * 600]
)
def test_bad_names_are_refused(blob: Blob, name: str) -> None:
    with pytest.raises(StoreError, match="is not a name"):
        blob.put(name, b"")


def _race(made: Recipe, who: int, rounds: int, start: object, wins: object) -> None:
    store = made.blob()
    start.wait()  # type: ignore[attr-defined]  # a multiprocessing barrier, typed as object to be passed on
    won = [i for i in range(rounds) if store.create(f"race/{i}", f"{who}".encode())]
    wins.put((who, won))  # type: ignore[attr-defined]  # a multiprocessing queue


def test_eight_processes_race_to_create(made: Recipe) -> None:
    """Of eight that create the same object exactly one is told so, and its bytes are there."""
    if not made.shared:
        pytest.skip("memory is not shared between processes")
    rounds = 25
    context = multiprocessing.get_context("spawn")
    start, wins = context.Barrier(8), context.Queue()
    racers = [context.Process(target=_race, args=(made, who, rounds, start, wins)) for who in range(8)]
    for racer in racers:
        racer.start()
    results = dict(wins.get(timeout=120) for _ in racers)
    for racer in racers:
        racer.join()
    winners = sorted((i, who) for who, won in results.items() for i in won)
    assert [i for i, _ in winners] == list(range(rounds))
    store = made.blob()
    assert all(store.get(f"race/{i}") == f"{who}".encode() for i, who in winners)


def test_files_leave_nothing_half_done(tmp_path: Path) -> None:
    """A killed writer's temporary file is not listed, cannot be read, and is swept."""
    blob = FileBlob(tmp_path)
    blob.put("a/x", b"1")
    (tmp_path / "a" / ".tmp-dead").write_bytes(b"half")
    assert [e.name for e in blob.list()] == ["a/x"]
    assert blob.sweep_temporary(older_than_s=3600) == 0
    assert blob.sweep_temporary(older_than_s=-1) == 1
    assert not (tmp_path / "a" / ".tmp-dead").exists()


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    """On a file system of 1 MiB, where a second object does not fit."""
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=1m none {tmp_path} 2>/dev/null") != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        blob = FileBlob(tmp_path)
        blob.put("first", b"x" * 600_000)
        with pytest.raises(StoreError, match="No space left") as caught:
            blob.put("second", b"y" * 600_000)
        assert "disk is full" in str(caught.value)
        assert [e.name for e in blob.list()] == ["first"]
        assert blob.get("first") == b"x" * 600_000
        blob.put("third", b"z" * 1000)
    finally:
        os.system(f"umount {tmp_path}")


def test_a_read_only_folder_is_an_error() -> None:
    with pytest.raises(StoreError):
        FileBlob("/proc/tidegate").put("x", b"1")
