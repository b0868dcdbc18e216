"""Reading the end of a log in a blob store: few listings, and never an entry missed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.store import log
from tidegate.store.blob import Entry, MemoryBlob
from tidegate.store.log import GRACE_S, LogConsensus


class Counting(MemoryBlob):
    """Counts listings."""

    listings = 0

    def list(self, prefix: str = "") -> Iterator[Entry]:
        self.listings += 1
        return super().list(prefix)


class Clock:
    """Both clocks, which a machine that sleeps may stop."""

    def __init__(self) -> None:
        self.now = {"monotonic": 1_000.0, "time": 1_700_000_000.0}

    def monotonic(self) -> float:
        return self.now["monotonic"]

    def time(self) -> float:
        return self.now["time"]


@pytest.fixture
def blob() -> Counting:
    return Counting()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(log, "time", made)
    return made


def write(blob: MemoryBlob, *numbers: int) -> None:
    for number in numbers:
        blob.put(f"log/k/{number:020d}", b"%d" % number)


def numbers(reader: LogConsensus, first: int, limit: int = 1_000_000) -> list[int]:
    found = reader.scan("k", first, limit)
    assert [data for _, data in found] == [b"%d" % number for number, _ in found]
    return [number for number, _ in found]


def test_the_end_is_listed_once(blob: Counting, clock: Clock) -> None:
    reader = LogConsensus(blob)
    write(blob, 0, 1, 2)
    assert numbers(reader, 0) == [0, 1, 2]
    for _ in range(5):
        assert numbers(reader, 3) == []
    write(blob, 3, 4)
    assert numbers(reader, 3, limit=1) == [3]
    assert numbers(reader, 4) == [4]
    assert numbers(reader, 5) == []
    assert blob.listings == 1
    assert numbers(reader, 3) == [3, 4], "what was read before is listed"
    assert blob.listings == 2


@pytest.mark.parametrize(
    ("which", "by"),
    [("monotonic", GRACE_S / 2), ("monotonic", GRACE_S * 100), ("time", GRACE_S / 2), ("time", -GRACE_S)],
)
def test_a_truncated_log_is_listed_again(blob: Counting, clock: Clock, which: str, by: float) -> None:
    """Others went on to 200 and cut off what was before, while this process slept."""
    reader = LogConsensus(blob)
    write(blob, 7)
    assert numbers(reader, 0) == [7]
    blob.delete(f"log/k/{7:020d}")
    write(blob, 199, 200)
    clock.now[which] += by
    assert numbers(reader, 8) == [199, 200]


def test_it_is_listed_now_and_then_whatever_is_read(blob: Counting, clock: Clock) -> None:
    reader = LogConsensus(blob)
    write(blob, 0)
    assert numbers(reader, 0) == [0]
    for number in range(1, 100):
        clock.now["monotonic"] += GRACE_S / 20
        clock.now["time"] += GRACE_S / 20
        write(blob, number)
        assert numbers(reader, number) == [number]
    assert 9 <= blob.listings <= 11


def test_without_grace_it_is_listed_always(blob: Counting) -> None:
    reader = LogConsensus(blob, grace_s=0)
    write(blob, 0)
    assert numbers(reader, 0) == [0]
    assert numbers(reader, 1) == []
    assert numbers(reader, 1) == []
    assert blob.listings == 3
