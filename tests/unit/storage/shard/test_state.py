"""The state of a shard: transitions, the log, rollups, and the loop that proposes changes."""

import pytest

from tests.simulation.faults import Faults, FaultyBlob, FaultyConsensus
from tidegate.clock import ManualClock
from tidegate.errors import CorruptError, StoreError, TidegateError
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus.protocol import MemoryConsensus
from tidegate.storage.part.checksum import seal, unseal
from tidegate.storage.part.part import Part
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.changes import (
    Advance,
    Append,
    Configure,
    Create,
    DropShard,
    Evolve,
    Forget,
    Hold,
    LogEntry,
    Release,
    Replace,
    decode_entry,
    encode_entry,
)
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.state import FORMAT, Conflict, State, UpperMismatch, apply_entry, create_state

FIRST = Create(FORMAT, "s1", {"id": 0, "columns": []}, {})
QUICK = RetryPolicy(times=60, first_s=0.0, longest_s=0.0)


def part(at: int, rows: int = 10, **more: object) -> Part:
    given = {"name": f"part/{at}", "rows": rows, "size": 100 * rows, "diffs": rows, "retracts": False}
    return Part(**{**given, "first": at, "last": at, "schema": 0, "digest": "d", "written": 0, **more})  # type: ignore[arg-type]  # a test's shorthand


def fresh() -> State:
    return create_state(LogEntry("t", 0, FIRST))


def after(state: State, *changes: object) -> State:
    for change in changes:
        state = apply_entry(state, LogEntry("t", 5, change))  # type: ignore[arg-type]  # any change
    return state


def test_append_moves_upper_and_numbers_parts() -> None:
    state = after(
        fresh(), Append(0, 5, (part(1), part(4)), "a"), Append(5, 6, (part(5, retracts=True),), "b")
    )
    assert (state.since, state.upper, state.number) == (0, 6, 2)
    assert [p.id for p in state.parts.all()] == [0, 1, 2]
    assert (state.parts.count, state.parts.rows) == (3, 30)
    assert not state.monotonic


def test_append_is_idempotent_by_token() -> None:
    once = after(fresh(), Append(0, 5, (part(1),), "a"))
    twice = after(once, Append(0, 5, (part(1),), "a"))
    assert (twice.upper, twice.parts.count) == (5, 1)


@pytest.mark.parametrize(("lower", "upper"), [(1, 5), (0, 0), (-1, 3)])
def test_append_must_be_next(lower: int, upper: int) -> None:
    with pytest.raises(UpperMismatch) as caught:
        after(fresh(), Append(lower, upper, (), "a"))
    assert caught.value.upper == 0


def test_append_outside_of_its_times_is_refused() -> None:
    with pytest.raises(Conflict, match="outside of the append"):
        after(fresh(), Append(0, 5, (part(7),), "a"))


def test_positions_come_with_the_data() -> None:
    state = after(fresh(), Append(0, 1, (), "a", {"k": {"0": 7}}), Append(1, 2, (), "b", {"l": 1}))
    assert state.positions == {"k": {"0": 7}, "l": 1}


def test_replace_keeps_the_sum_of_diffs() -> None:
    state = after(fresh(), Append(0, 5, (part(1), part(4)), "a"))
    merged = after(state, Replace((0, 1), (part(4, rows=20, level=1),)))
    assert [(p.id, p.rows, p.level) for p in merged.parts.all()] == [(2, 20, 1)]
    assert [item.name for item in merged.garbage] == ["part/1", "part/4"]
    with pytest.raises(Conflict, match="sum of their diffs"):
        after(state, Replace((0, 1), (part(4, rows=19),)))
    with pytest.raises(Conflict, match="are not there"):
        after(merged, Replace((0,), ()))
    assert after(state, Replace((0,), (), expired=True)).parts.count == 1


def test_since_waits_for_readers() -> None:
    state = after(fresh(), Append(0, 100, (), "a"), Hold("r", 30, 1000), Advance(50))
    assert state.since == 30
    assert after(state, Release(("r",)), Advance(50)).since == 50
    assert after(state, Advance(500)).since == 30
    with pytest.raises(Conflict, match="can no longer be read"):
        after(state, Hold("late", 10, 1000))
    assert after(state, Hold("r", 40, 2000), Advance(99)).since == 40


def test_options_schema_garbage_and_drop() -> None:
    state = after(
        fresh(), Configure({"retention": 5}), Evolve({"id": 1}), Configure({"retention": None, "x": 1})
    )
    assert (state.options, state.schemas[-1].json) == ({"x": 1}, {"id": 1})
    dropped = after(state, Append(0, 5, (part(1),), "a"), DropShard())
    assert [item.name for item in dropped.garbage] == ["part/1"]
    assert after(dropped, Forget(("part/1",))).garbage == ()
    with pytest.raises(Conflict, match="was dropped"):
        after(dropped, Append(5, 6, (), "b"))


def test_a_newer_format_is_a_clear_error() -> None:
    with pytest.raises(TidegateError, match="format 99"):
        create_state(LogEntry("t", 0, Create(99, "s", {}, {})))


def test_entries_survive_encoding() -> None:
    for change in (
        FIRST, Append(0, 5, (part(1, stats=b"\x00\xff", order=(1, 2), expires=9),), "a", {"k": [1]}),
        Replace((1, 2), (part(3),), expired=True), Hold("r", 1, 2), Release(("a", "b")), Forget(("x",)), DropShard(),
    ):  # fmt: skip
        entry = LogEntry("token", 7, change)
        assert decode_entry("e", encode_entry(entry)) == entry


def test_every_flipped_byte_is_noticed() -> None:
    sealed = seal(b"hello, world")
    assert unseal("x", sealed) == b"hello, world"
    for i in range(len(sealed)):
        broken = bytearray(sealed)
        broken[i] ^= 0x20
        with pytest.raises(CorruptError, match="log#3 is damaged"):
            unseal("log#3", bytes(broken))
    with pytest.raises(CorruptError):
        unseal("log#3", sealed[:-1])


def machine(blob: MemoryBlob | None = None, log: MemoryConsensus | None = None) -> Machine:
    return Machine(log or MemoryConsensus(), blob or MemoryBlob(), "shard/s1", ManualClock(1000), QUICK)


def append_one(m: Machine, token: str) -> State:
    def propose(state: State) -> Append | None:
        return (
            None
            if token in state.tokens
            else Append(state.upper, state.upper + 1, (part(state.upper),), token)
        )

    return m.update(propose)


def test_two_machines_see_each_other() -> None:
    blob, log = MemoryBlob(), MemoryConsensus()
    a, b = machine(blob, log), machine(blob, log)
    a.create(FIRST)
    with pytest.raises(Conflict, match="exists already"):
        b.create(FIRST)
    append_one(a, "1")
    append_one(b, "2")
    assert a.fetch().upper == b.fetch().upper == 2


def test_rollups_open_quickly_and_cut_the_log() -> None:
    blob, log = MemoryBlob(), MemoryConsensus()
    m = machine(blob, log)
    m.create(FIRST)
    for i in range(1000):
        append_one(m, f"{i}")
    assert len(log.scan("shard/s1", 0)) < 300
    again = machine(blob, log)
    state = again.fetch()
    assert (state.upper, state.parts.count, state.parts.rows) == (1000, 1000, 10_000)
    assert [p.id for p in state.parts.all()] == list(range(1000))
    assert len(state.parts.segments) <= 8
    assert [p.name for p in state.parts.all()] == [p.name for p in m.fetch().parts.all()]
    # A replaced part stays dead through the next rollups.
    again.update(lambda s: Replace((3, 700), (part(999, rows=20),)))
    for i in range(200):
        append_one(again, f"more {i}")
    ids = [p.id for p in machine(blob, log).fetch().parts.all()]
    assert len(ids) == 1199
    assert 3 not in ids
    assert 700 not in ids
    assert 1000 in ids


def test_a_sleeper_whose_log_was_cut_starts_again() -> None:
    blob, log = MemoryBlob(), MemoryConsensus()
    sleeper, other = machine(blob, log), machine(blob, log)
    sleeper.create(FIRST)
    append_one(sleeper, "x")
    for i in range(400):
        append_one(other, f"{i}")
    assert append_one(sleeper, "y").parts.count == 402


def test_a_lost_log_is_an_error() -> None:
    with pytest.raises(StoreError, match="has no log"):
        machine().fetch()


def test_a_damaged_rollup_is_named() -> None:
    blob, log = MemoryBlob(), MemoryConsensus()
    m = machine(blob, log)
    m.create(FIRST)
    for i in range(130):
        append_one(m, f"{i}")
    for prefix in ("roll/", "seg/"):
        (entry, *_) = blob.list(prefix)
        good = blob.get(entry.name)
        assert good is not None
        blob.put(entry.name, good[:-2] + bytes([good[-2] ^ 1]) + good[-1:])
        with pytest.raises(CorruptError, match=entry.name):
            machine(blob, log).fetch()
        blob.put(entry.name, good)
    assert machine(blob, log).fetch().parts.count == 130


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_doubled_over_faulty_stores(seed: int) -> None:
    """Two writers, 150 appends each, a fifth of all calls failing in every way there is: every append is there once."""
    faults = Faults(seed, often=0.2)
    blob, log = FaultyBlob(MemoryBlob(), faults), FaultyConsensus(MemoryConsensus(), faults)
    writers = [Machine(log, blob, "shard/s1", ManualClock(1000), QUICK) for _ in range(2)]
    writers[0].create(FIRST)
    for i in range(150):
        for name, writer in zip("ab", writers, strict=True):
            append_one(writer, f"{name}{i}")
    faults.on = False
    state = Machine(log, blob, "shard/s1", ManualClock(1000), QUICK).fetch()
    assert (state.upper, state.parts.count) == (300, 300)
    assert set(state.tokens) == {f"{name}{i}" for name in "ab" for i in range(150)}
