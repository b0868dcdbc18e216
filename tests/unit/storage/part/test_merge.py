"""Blocks added up and merged, beside plain Python."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tidegate.errors import CorruptError
from tidegate.storage.part.merge import (
    Block,
    concat,
    consolidate,
    consolidate_rows,
    merge,
    repeat_rows,
    sort_block,
)


def block(*updates: tuple[float | None, int, int]) -> Block:
    values, times, diffs = zip(*updates, strict=True) if updates else ((), (), ())
    return Block([pa.array(values, pa.float64())], np.array(times, np.int64), np.array(diffs, np.int64))


def shown(given: Block) -> list[tuple[str, int, int]]:
    return [
        (repr(v), int(t), int(d))
        for v, t, d in zip(given.columns[0].to_pylist(), given.times, given.diffs, strict=True)
    ]


NAN = float("nan")


def test_identical_rows_are_added_up() -> None:
    given = block(
        (NAN, 1, 1), (0.0, 1, 1), (-0.0, 1, 1), (NAN, 1, 1), (0.0, 2, -1), (None, 1, 1), (None, 1, -1)
    )
    assert shown(consolidate(given, by_time=True)) == [
        ("nan", 1, 2),
        ("0.0", 1, 1),
        ("-0.0", 1, 1),
        ("0.0", 2, -1),
    ]
    assert shown(consolidate(given, by_time=False)) == [("nan", 1, 2), ("-0.0", 1, 1)]
    assert len(consolidate(block(), by_time=True)) == 0


def test_a_row_that_is_there_less_than_no_times_is_named() -> None:
    with pytest.raises(CorruptError, match=r"exists -2 times: x = 7\.0"):
        consolidate_rows(block((7.0, 1, 1), (7.0, 2, -3)), ["x"])


def test_an_equal_row_takes_away_another_only_if_there_is_no_identical_one() -> None:
    assert shown(consolidate_rows(block((0.0, 1, 2), (-0.0, 2, -1)), ["x"])) == [("0.0", 1, 1)]
    assert shown(consolidate_rows(block((0.0, 1, 1), (-0.0, 1, 1), (-0.0, 2, -1)), ["x"])) == [("0.0", 1, 1)]
    with pytest.raises(CorruptError, match="exists -1 times"):
        consolidate_rows(block((0.0, 1, 1), (-0.0, 2, -2)), ["x"])


def test_rows_are_repeated_by_their_diffs() -> None:
    assert repeat_rows(block((1.0, 1, 2), (2.0, 1, 1)))[0].to_pylist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("seed", range(30))
def test_merging_runs_keeps_everything_and_equal_rows_together(seed: int) -> None:
    dice = random.Random(seed)
    runs, everything = [], []
    for _ in range(dice.randrange(1, 6)):
        many = [
            (float(dice.randrange(8)), dice.randrange(5), dice.choice([1, -1]))
            for _ in range(dice.randrange(60))
        ]
        everything += many
        run = sort_block(block(*many), [0]) if many else block()
        step = dice.randrange(1, 20)
        runs.append([run.slice(i, min(i + step, len(run))) for i in range(0, len(run), step)] + [block()])
    windows = list(merge([iter(run) for run in runs], [0]))
    got = shown(concat(windows)) if windows else []
    assert Counter(got) == Counter(shown(block(*everything)))
    ends = [(min(window.columns[0].to_pylist()), max(window.columns[0].to_pylist())) for window in windows]
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ends))
