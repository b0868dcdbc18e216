"""A log in a blob store: what a writer or a reader that slept through a truncation believes, with no clock to help it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tidegate.errors import StoreError
from tidegate.storage.blob.protocol import BlobInfo, MemoryBlob
from tidegate.storage.consensus.object_log import LogConsensus


class Sleepy(MemoryBlob):
    """Lets others run ahead of one call, as if this process had been suspended there; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.sleep: dict[str, Callable[[], None]] = {}
        self.calls: list[str] = []

    def _before(self, call: str) -> None:
        self.calls.append(call)
        if call in self.sleep:
            self.sleep.pop(call)()

    def create(self, name: str, data: bytes) -> bool:
        self._before("create")
        return super().create(name, data)

    def get(self, name: str) -> bytes | None:
        self._before("get")
        return super().get(name)

    def list(self, prefix: str = "", after: str = "") -> Iterator[BlobInfo]:
        self._before("list")
        return super().list(prefix, after)


@pytest.fixture
def blob() -> Sleepy:
    return Sleepy()


def grow(blob: MemoryBlob, first: int, last: int, who: str = "other") -> None:
    log = LogConsensus(blob)
    for number in range(first, last + 1):
        assert log.compare_and_set("k", number - 1 if number else None, f"{who} {number}".encode())


def advance(blob: MemoryBlob, first: int, last: int, before: int) -> Callable[[], None]:
    """Others write, and truncate."""

    def run() -> None:
        grow(blob, first, last)
        LogConsensus(blob).truncate("k", before)

    return run


def numbers(entries: Sequence[tuple[int, bytes]]) -> list[int]:
    assert all(data == b"other %d" % number for number, data in entries), entries
    return [number for number, _ in entries]


@pytest.mark.parametrize("before", [9, 10, 150, 200])
def test_a_writer_that_sleeps_ahead_of_its_creation_does_not_win_a_number_that_was_truncated(
    blob: Sleepy, before: int
) -> None:
    grow(blob, 0, 7)
    sleeper, reader = LogConsensus(blob), LogConsensus(blob)
    blob.sleep["create"] = advance(blob, 8, 200, before)
    assert not sleeper.compare_and_set("k", 7, b"mine 8")
    assert blob.get(f"log/k/{8:020d}") == b"mine 8", "the hole was filled again: a stray"
    assert numbers(reader.scan("k", 0)) == list(range(before, 201))
    assert numbers(reader.scan("k", 8)) == list(range(before, 201)), (
        "a reader at 7 does not take the stray for entry 8"
    )
    assert numbers(reader.scan("k", 8, 1)) == [before]
    reader.truncate("k", 200)
    assert [entry.name for entry in blob.list("log/")] == [f"log/k/{200:020d}"], "the stray is removed"


@pytest.mark.parametrize("call", ["get", "list"])
def test_a_reader_that_sleeps_anywhere_reads_no_stray(blob: Sleepy, call: str) -> None:
    """It listed entry 8, or is about to, and sleeps; 8 is truncated and filled again by a writer that slept as well."""
    grow(blob, 0, 8)

    def meanwhile() -> None:
        advance(blob, 9, 200, 200)()
        blob.create(f"log/k/{8:020d}", b"stray")

    blob.sleep[call] = meanwhile
    assert numbers(LogConsensus(blob).scan("k", 8)) in ([8], [200])
    blob.delete(f"log/k/{8:020d}")
    for sleep in ("get", "list"):
        blob.sleep[sleep] = lambda: None
        assert numbers(LogConsensus(blob).scan("k", 8, 1)) == [200]


def test_a_reader_that_slept_sees_that_the_log_went_on(blob: Sleepy) -> None:
    grow(blob, 0, 7)
    reader = LogConsensus(blob)
    assert numbers(reader.scan("k", 8)) == []
    advance(blob, 8, 200, 200)()
    assert numbers(reader.scan("k", 8)) == [200]


def test_the_floor_never_sinks(blob: Sleepy) -> None:
    """One truncates below 100, sleeps, and others truncate below 200 meanwhile."""
    grow(blob, 0, 120)
    late = LogConsensus(blob)
    blob.sleep["create"] = advance(blob, 121, 300, 200)
    late.truncate("k", 100)
    assert not LogConsensus(blob).compare_and_set("k", 149, b"150 was truncated")
    blob.create(f"log/k/{149:020d}", b"stray")
    assert not LogConsensus(blob).compare_and_set("k", 149, b"150 was truncated")
    assert numbers(late.scan("k", 0))[0] == 200


def test_nothing_is_truncated_unless_its_floor_is_there(
    blob: Sleepy, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(blob, 0, 9)
    monkeypatch.setattr(blob, "create", lambda name, data: True)  # a store that says so, and did not
    with pytest.raises(StoreError, match="nothing was truncated"):
        LogConsensus(blob).truncate("k", 5)
    assert numbers(LogConsensus(blob).scan("k", 0)) == list(range(10))


def test_a_log_that_was_restored_under_a_living_writer_gets_no_gap(blob: Sleepy) -> None:
    grow(blob, 0, 7)
    for number in (5, 6, 7):
        blob.delete(f"log/k/{number:020d}")
    assert not LogConsensus(blob).compare_and_set("k", 7, b"8")
    assert numbers(LogConsensus(blob).scan("k", 0)) == list(range(5))


def test_what_it_costs(blob: Sleepy) -> None:
    """Requests, however long the log is."""
    for last in (20, 200):
        grow(blob, 0 if last == 20 else 21, last)
        log = LogConsensus(blob)
        blob.calls.clear()
        assert log.scan("k", last + 1) == []
        assert blob.calls == ["list"], "nothing is new"
        blob.calls.clear()
        assert log.compare_and_set("k", last, b"other %d" % (last + 1))
        assert blob.calls == ["get", "create", "list"]
        blob.calls.clear()
        assert numbers(log.scan("k", last + 1, 1)) == [last + 1]
        assert blob.calls == ["get", "list"], "an entry of one's own is read back"
        blob.delete(f"log/k/{last + 1:020d}")
