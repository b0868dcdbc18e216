"""The contract of consensus, over every implementation."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.stores import LOGS, Recipe, recipe
from tests.simulation.faults import Fault, Faults, FaultyBlob, FaultyConsensus
from tidegate.errors import StoreError
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus, NumberedEntry
from tidegate.storage.consensus.sql import PostgresConsensus, SqliteConsensus


@pytest.fixture(params=LOGS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Recipe:
    return recipe(request.param, tmp_path)


@pytest.fixture
def log(made: Recipe) -> Iterator[Consensus]:
    store = made.consensus()
    yield store
    store.close()


def test_a_log_starts_empty_and_grows_by_one(log: Consensus) -> None:
    assert log.head("t") is None
    assert log.scan("t", 0) == []
    assert log.compare_and_set("t", None, b"a")
    assert log.head("t") == NumberedEntry(0, b"a")
    assert log.compare_and_set("t", 0, b"b")
    assert log.head("t") == NumberedEntry(1, b"b")
    assert log.scan("t", 0) == [NumberedEntry(0, b"a"), NumberedEntry(1, b"b")]


def test_only_the_newest_may_be_followed(log: Consensus) -> None:
    assert not log.compare_and_set("t", 0, b"there is no 0")
    assert log.compare_and_set("t", None, b"a")
    assert not log.compare_and_set("t", None, b"there is one")
    assert log.compare_and_set("t", 0, b"b")
    assert not log.compare_and_set("t", 0, b"late")
    assert not log.compare_and_set("t", 5, b"early")
    assert [entry.data for entry in log.scan("t", 0)] == [b"a", b"b"]


def test_keys_do_not_disturb_each_other(log: Consensus) -> None:
    assert log.compare_and_set("t/1", None, b"a")
    assert log.compare_and_set("t/10", None, b"b")
    assert log.compare_and_set("t/1", 0, b"c")
    assert log.head("t/10") == NumberedEntry(0, b"b")
    assert log.keys() == ["t/1", "t/10"]


def test_scan_from_and_limit(log: Consensus) -> None:
    for i in range(5):
        assert log.compare_and_set("t", i - 1 if i else None, bytes([i]))
    assert [n for n, _ in log.scan("t", 2)] == [2, 3, 4]
    assert [n for n, _ in log.scan("t", 1, 2)] == [1, 2]
    assert log.scan("t", 9) == []


def test_truncate_never_removes_the_newest(log: Consensus) -> None:
    for i in range(4):
        assert log.compare_and_set("t", i - 1 if i else None, bytes([i]))
    log.truncate("t", 2)
    assert [n for n, _ in log.scan("t", 0)] == [2, 3]
    assert not log.compare_and_set("t", None, b"the log is not new")
    assert not log.compare_and_set("t", 0, b"number 1 was taken before it was truncated")
    log.truncate("t", 99)
    assert log.head("t") == NumberedEntry(3, b"\x03")
    assert log.compare_and_set("t", 3, b"\x04")


def test_a_log_that_is_removed_is_gone_and_leaves_others(log: Consensus) -> None:
    for key in ("probe/a", "probe/ab"):
        assert log.compare_and_set(key, None, b"0")
        assert log.compare_and_set(key, 0, b"1")
    log.truncate("probe/a", 1)
    log.remove_log("probe/a")
    log.remove_log("probe/never")
    assert log.head("probe/a") is None
    assert log.compare_and_set("probe/a", None, b"anew")
    assert [entry.data for entry in log.scan("probe/ab", 0)] == [b"0", b"1"]


def test_binary_and_large_entries(log: Consensus) -> None:
    data = bytes(range(256)) * 4000
    assert log.compare_and_set("t", None, data)
    assert log.head("t") == NumberedEntry(0, data)
    assert log.compare_and_set("t", 0, b"")
    assert log.head("t") == NumberedEntry(1, b"")


def _increment(made: Recipe, times: int, start: object) -> None:
    log = made.consensus()
    start.wait()  # type: ignore[attr-defined]  # a multiprocessing barrier, typed as object to be passed on
    done = 0
    while done < times:
        head = log.head("counter")
        count = int(head.data) if head else 0
        done += log.compare_and_set("counter", head.number if head else None, str(count + 1).encode())


def test_eight_processes_lose_no_increment(made: Recipe) -> None:
    if not made.shared:
        pytest.skip("memory is not shared between processes")
    times = 10
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(8)
    racers = [context.Process(target=_increment, args=(made, times, start)) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * 8
    log = made.consensus()
    assert log.head("counter") == NumberedEntry(8 * times - 1, str(8 * times).encode())
    log.close()


def test_a_server_that_is_not_there_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="PostgreSQL cannot be reached"):
        PostgresConsensus("postgresql://nobody@/x?host=/nowhere")


def test_sqlite_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"this is no database, but a text of some length" * 100)
    with pytest.raises(StoreError, match="not a database"):
        SqliteConsensus(tmp_path / "x.sqlite")


def test_faults_repeat_by_seed_and_are_what_they_say() -> None:
    def run(seed: int) -> list[str]:
        log = FaultyConsensus(MemoryConsensus(), Faults(seed, often=0.6))
        seen = []
        for _ in range(150):
            before, newest = len(log.faults.planted), log.inner.head("t")
            late = len(log.faults.late)
            try:
                said = str(log.compare_and_set("t", newest.number if newest else None, b"x"))
            except StoreError as error:
                said = type(error).__name__
            fault = log.faults.planted[before] if len(log.faults.planted) > before else None
            if len(log.faults.late) >= late:  # else one arrived meanwhile
                done = log.inner.head("t") != newest
                assert (said, done) == SAID[fault], fault
            seen.append(f"{fault} {said}")
        assert {word.partition(" ")[0] for word in seen} == {"None", *map(str, Fault)}
        return seen

    assert run(1) == run(1) != run(2)
    quiet = FaultyBlob(MemoryBlob(), Faults(1, often=1.0, on=False))
    quiet.put("x", b"1")
    assert quiet.get("x") == b"1"


SAID = {
    None: ("True", True),
    Fault.NOT_DONE: ("StoreError", False),
    Fault.UNKNOWN: ("IndeterminateError", True),
    Fault.ERROR: ("StoreError", True),
    Fault.LOST: ("False", True),
    Fault.TWICE: ("False", True),
    Fault.CLAIMED: ("True", False),
    Fault.LATE: ("IndeterminateError", False),
}
"""Of each fault what a compare-and-set that fits answers, and whether it was done by then."""
