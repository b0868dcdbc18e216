"""Deletions as a value: records, their forms in the log and in objects, totals, and what becomes of them when parts do."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tidegate.errors import CorruptError
from tidegate.storage.part.bitmaps import bitmaps_to_object, deletion_mask, pack_positions, unpack_positions
from tidegate.storage.part.checksum import seal
from tidegate.storage.part.deletion_records import (
    DELETIONS_SCHEMA,
    deletion_records,
    in_object,
    records_from_json,
    records_to_json,
)
from tidegate.storage.part.deletions import MAX_TABLES, NEVER, Deletions, PartRows
from tidegate.storage.part.part import Part

Triples = set[tuple[int, int, int]]
"""(part, position, time)."""


def no_objects(name: str) -> bytes:
    raise AssertionError(f"{name} is not to be read")


def records(located: dict[int, list[int]], time: int, diff: int = 1) -> pa.Table:
    return deletion_records(
        {part: (np.array(places), np.full(len(places), diff, np.int64)) for part, places in located.items()},
        time,
    )


def part_of(id_: int, rows: int = 2**32) -> Part:
    return Part(
        name=f"part/s/{id_}",
        rows=rows,
        size=1,
        diffs=rows,
        retracts=False,
        first=0,
        last=0,
        schema=0,
        digest="",
        written=0,
        id=id_,
    )


def some(ids: np.ndarray, rows: int = 2**32) -> PartRows:
    return PartRows.of([part_of(id_, rows) for id_ in ids.tolist()])


def triples(deletions: Deletions, fetch: Callable[[str], bytes] = no_objects) -> Triples:
    return {
        (part.id, at, time)
        for part, time, places in deletions.located(fetch, part_of)
        for at in places.tolist()
    }


@pytest.mark.parametrize(
    "positions", [[], [0], [7, 3, 5], list(range(100_000)), [2**32 - 1], list(range(0, 200_000, 7))]
)
def test_positions_are_the_same_after_packing(positions: list[int]) -> None:
    packed = pack_positions(np.array(positions, np.int64))
    assert unpack_positions(packed).tolist() == sorted(positions)
    assert len(packed) < 60 or len(positions) < 100_000 or positions[1] - positions[0] != 1, "runs are short"


def test_no_bitmap_is_no_position() -> None:
    assert unpack_positions(b"").tolist() == []
    assert deletion_mask(b"", 3).tolist() == [False] * 3
    assert deletion_mask(pack_positions(np.array([2, 0])), 4).tolist() == [True, False, True, False]


def test_records_have_a_row_for_each_part_with_its_counts() -> None:
    table = deletion_records(
        {9: (np.array([4, 1]), np.array([2, 1])), 3: (np.array([0]), np.array([5]))}, 700
    )
    assert table.schema == DELETIONS_SCHEMA
    assert [
        (row["part"], row["time"], row["rows"], row["diffs"], row["blob"]) for row in table.to_pylist()
    ] == [(3, 700, 1, 5, None), (9, 700, 2, 3, None)]
    assert triples(Deletions().add(table)) == {(3, 0, 700), (9, 1, 700), (9, 4, 700)}


@pytest.mark.parametrize("moved", [False, True])
def test_records_are_the_same_after_json(moved: bool) -> None:
    table = records({1: [0, 5], 2: [70_000]}, 10)
    table = in_object(table, "del/s/x") if moved else table
    assert records_from_json(records_to_json(table)).equals(table)
    assert records_from_json(records_to_json(DELETIONS_SCHEMA.empty_table())).num_rows == 0


def test_bitmaps_in_an_object_are_those_of_the_records_and_read_once() -> None:
    table = records({1: [0, 5], 2: [70_000], 8: list(range(5_000))}, 10)
    stored = {"del/s/x": bitmaps_to_object(table)}
    read: list[str] = []

    def fetch(name: str) -> bytes:
        read.append(name)
        return stored[name]

    inline, apart = Deletions().add(table), Deletions().add(in_object(table, "del/s/x"))
    assert (inline.objects, apart.objects) == (frozenset(), {"del/s/x"})
    ids = np.array([1, 2, 7, 8])
    assert apart.bitmaps(some(ids), 10, fetch) == inline.bitmaps(some(ids), 10, no_objects)
    assert apart.bitmaps(some(ids), 9, fetch) == [b""] * 4, (
        "a time at which nothing is deleted needs no object"
    )
    assert triples(apart.only(np.array([2])), fetch) == {(2, 70_000, 10)}
    assert apart.end_times(part_of(1, 6), fetch).tolist() == [10, NEVER, NEVER, NEVER, NEVER, 10]
    assert read == ["del/s/x"]


def test_a_damaged_object_is_an_error_that_names_it() -> None:
    table = records({1: list(range(100))}, 10)
    sealed = bitmaps_to_object(table)
    deletions = Deletions().add(in_object(table, "del/s/x"))
    for place in (0, 40, len(sealed) // 2, len(sealed) - 1):
        flipped = bytearray(sealed)
        flipped[place] ^= 1
        with pytest.raises(CorruptError, match="del/s/x is damaged"):
            deletions.bitmaps(some(np.array([1])), 10, lambda _, data=bytes(flipped): data)
    with pytest.raises(CorruptError, match="del/s/x does not hold deletions"):
        deletions.bitmaps(some(np.array([1])), 10, lambda _: seal(b"something else"))
    assert triples(deletions, lambda _: sealed) == {(1, at, 10) for at in range(100)}, "no error is cached"


def test_a_value_does_not_change_when_another_is_made_of_it() -> None:
    first = Deletions().add(records({1: [0]}, 10))
    second = first.add(records({1: [1]}, 20))
    assert (triples(first), len(triples(second))) == ({(1, 0, 10)}, 2)
    assert second.add(DELETIONS_SCHEMA.empty_table()) is second
    assert (bool(Deletions()), bool(first), bool(first.without(np.array([1])))) == (False, True, False)


def test_what_is_sent_to_a_task_is_the_same() -> None:
    deletions = Deletions().add(records({1: [0], 5: [3, 9]}, 10)).add(records({1: [2]}, 5))
    assert triples(pickle.loads(pickle.dumps(deletions))) == triples(deletions)
    assert not pickle.loads(pickle.dumps(Deletions()))


def build(seed: int) -> tuple[Deletions, Triples, dict[int, int]]:
    """Random records, what they say one by one, and the diff of the rows of each part."""
    dice = random.Random(seed)
    deletions, model = Deletions(), set[tuple[int, int, int]]()
    diffs = {part: dice.choice([1, 1, 3]) for part in range(12)}
    free = {part: dice.sample(range(200), 200) for part in diffs}
    for time in sorted(dice.choices(range(100), k=dice.choice([3, MAX_TABLES + 20]))):
        for part in dice.sample(sorted(diffs), dice.randrange(1, 4)):
            places = [free[part].pop() for _ in range(min(dice.randrange(1, 3), len(free[part])))]
            deletions = deletions.add(records({part: places}, time, diffs[part])) if places else deletions
            model |= {(part, at, time) for at in places}
    return deletions, model, diffs


@pytest.mark.parametrize("seed", range(12))
def test_questions_about_many_parts_are_answered_as_one_by_one(seed: int) -> None:
    """Twelve seeds: few tables and more than `MAX_TABLES`, each with parts that are asked for and have none."""
    deletions, model, diffs = build(seed)
    ids = np.array([40, 3, 0, 11, 7, 99, 5])  # in no order, and some without deletions
    for as_of in (-1, 0, 50, 99, NEVER):
        rows, sums = deletions.totals(ids, as_of)
        want = [sum(1 for part, _, time in model if part == id_ and time <= as_of) for id_ in ids]
        assert rows.tolist() == want
        assert sums.tolist() == [n * diffs.get(id_, 0) for n, id_ in zip(want, ids.tolist(), strict=True)]
        for id_, packed in zip(ids.tolist(), deletions.bitmaps(some(ids), as_of, no_objects), strict=True):
            assert unpack_positions(packed).tolist() == sorted(
                at for part, at, time in model if part == id_ and time <= as_of
            )
    for part in (3, 40):
        ends = deletions.end_times(part_of(part, 200), no_objects)
        assert {(part, at, int(ends[at])) for at in np.flatnonzero(ends != NEVER).tolist()} == {
            one for one in model if one[0] == part
        }


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_of_them_is_what_was_asked_for(seed: int) -> None:
    deletions, model, _ = build(seed)
    some = np.array([1, 4, 6, 77])
    assert triples(deletions) == model
    assert triples(deletions.only(some)) == {one for one in model if one[0] in some}
    assert triples(deletions.without(some)) == {one for one in model if one[0] not in some}
    assert triples(deletions.between(20, 60)) == {one for one in model if 20 <= one[2] < 60}
    renumbered = deletions.renumber(some, np.array([100, 101, 102, 103]))
    new = dict(zip(some.tolist(), range(100, 104), strict=True))
    assert triples(renumbered) == {(new[part], at, time) for part, at, time in model if part in new}
    assert triples(deletions.moved_back(30)) == {(part, at, min(time, 30)) for part, at, time in model}
    assert triples(deletions) == model


def test_nothing_is_left_of_nothing() -> None:
    none, ids = Deletions(), np.array([1, 2])
    assert not any((none.only(ids), none.without(ids), none.between(0, 9), none.moved_back(3)))
    assert not none.renumber(ids, ids)
    assert [total.tolist() for total in none.totals(ids, 5)] == [[0, 0], [0, 0]]
    assert none.bitmaps(some(ids), 5, no_objects) == [b"", b""]
    assert none.end_times(part_of(1, 2), no_objects).tolist() == [NEVER, NEVER]
    one = none.add(records({1: [0]}, 5))
    assert [total.tolist() for total in one.totals(np.zeros(0, np.int64), 5)] == [[], []]
