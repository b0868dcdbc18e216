"""Bad records that are tried again: each once, also where the replay is killed in between or the transform changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ingest.numbers import Lab, lab, records, upserting
from tests.ingest.test_pipeline import Killed, drained, dying
from tidegate.errors import UnsupportedError
from tidegate.expr.model.build import call, literal
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import INT8, JSONB, TEXT
from tidegate.ingest.batch.replay import ReplayResult, replay
from tidegate.plan.mfp import MapFilterProject

BAD = [3, 4, 8]


def fixed(it: Lab) -> None:
    """Now the transform of `all` takes the length of what was no number."""
    text = call("->>", Column(0, JSONB), literal("n", TEXT))
    length = call("char_length", text)
    plan = MapFilterProject.identity([JSONB, INT8]).map(call("+", length, literal(100, INT8))).project([2, 1])
    every, even = it.source.outputs
    it.source = replace(it.source, outputs=(replace(every, plan=plan), even))


def test_what_succeeds_moves_and_the_rest_stays(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 10, bad=BAD)})
    drained(it)
    assert len(it.rows(it.source.errors)) == 6
    assert replay(it.source, it.shards) == ReplayResult(tried=6, succeeded=0)
    assert len(it.rows(it.source.errors)) == 6, "nothing was fixed"
    fixed(it)
    done = replay(it.source, it.shards)
    assert (done.tried, done.succeeded, done.left) == (6, 3, 3)
    assert it.numbers("all") == [0, 1, 2, 5, 6, 7, 9, 102, 102, 102]
    offsets = sorted(at for n, at in it.rows(it.source.outputs[0].shard) if n == 102)
    assert offsets == BAD, "what INCLUDE adds is still known"
    assert {row[1] for row in it.rows(it.source.errors)} == {"even"}
    assert replay(it.source, it.shards) == ReplayResult(tried=3, succeeded=0)
    assert len(it.numbers("all")) == 10
    it.upstream.partitions["0"] += records(10, 12)
    drained(it)
    assert len(it.numbers("all")) == 12, "the source goes on"


def test_killed_between_the_two_commits(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 10, bad=BAD)})
    drained(it)
    broken = it.source
    fixed(it)
    with pytest.raises(Killed):
        replay(it.source, dying(it, 1))
    assert it.numbers("all").count(102) == 3, "they are appended"
    assert len(it.rows(it.source.errors)) == 6, "and not retracted yet"
    it.source = broken  # whoever comes next knows of no fix
    replay(it.source, it.shards)
    assert it.numbers("all").count(102) == 3
    assert len(it.rows(it.source.errors)) == 3


def test_not_where_rows_are_taken_away(tmp_path: Path) -> None:
    it = upserting(tmp_path, {"0": records(0, 2, bad=[1], key="a")})
    drained(it)
    with pytest.raises(UnsupportedError, match="cannot be replayed"):
        replay(it.source, it.shards)
