"""Batches of a source: each record once in each collection, whoever is killed when, and nothing without a position."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ingest.numbers import Lab, lab, records, upserting
from tidegate.errors import ConflictError, TidegateError
from tidegate.ingest.batch.commit import CommittedBatch, KeyOverlapError, commit_batch, count_bad_records
from tidegate.ingest.batch.planning import BatchPlanner
from tidegate.ingest.batch.position import OpenShard, SourcePosition, read_positions
from tidegate.ingest.batch.task import IngestTask, run_task
from tidegate.ingest.envelopes.bad_records import decode_context
from tidegate.ingest.envelopes.output import RecordCounts
from tidegate.ingest.protocol import BatchLimit, InputSplit, UpstreamPosition
from tidegate.storage.shard.shard import Shard


class Killed(Exception):  # noqa: N818  # reads as what it is
    """Instead of kill -9."""


def dying(lab: Lab, after: int) -> OpenShard:
    """Shards of which the commits after the first few never happen."""
    left = [after]

    def opened(name: str) -> Shard:
        shard = lab.shards(name)
        commit = shard.commit

        def counted(*args, **more):
            if not left[0]:
                raise Killed
            left[0] -= 1
            return commit(*args, **more)

        object.__setattr__(shard, "commit", counted)  # it is frozen
        return shard

    return opened


def batch(
    lab: Lab, planning: BatchPlanner | None = None, shards: OpenShard | None = None
) -> CommittedBatch | None:
    jobs = (planning or lab.planning()).next_tasks()
    return (
        None
        if jobs is None
        else commit_batch(lab.source, shards or lab.shards, [run_task(job) for job in jobs])
    )


def drained(lab: Lab) -> None:
    planning = lab.planning(once=True)
    while batch(lab, planning) is not None:
        pass


def check(lab: Lab, first: int, last: int) -> None:
    assert lab.numbers("all") == list(range(first, last))
    assert lab.numbers("even") == [n for n in range(first, last) if n % 2 == 0]


def test_a_batch_moves_all_collections_to_one_position_and_time(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 25), "1": records(25, 40, bad=[30])}, limit=BatchLimit(rows=20))
    planning = it.planning()
    first = batch(it, planning)
    assert first is not None
    assert first.counts["all"]._replace(bytes=0) == RecordCounts(records=20, kept=20)
    assert first.counts["all"].bytes >= sum(map(len, it.upstream.partitions["0"][:20]))
    assert (first.counts["even"].kept, first.counts["even"].filtered) == (10, 10)
    found = read_positions(it.source, it.shards)
    assert {one.batch for one in found.values()} == {1}
    assert all(one.at == {"0": 20, "1": 0} for one in found.values())
    uppers = {it.shards(name).machine.fetch().upper for name in found}
    assert uppers == {first.at + 1}, "all of them at one time"
    assert ("acknowledge", {"0": 20, "1": 0}) not in it.upstream.asked

    second = batch(it, planning)
    assert ("acknowledge", {"0": 20, "1": 0}) in it.upstream.asked, "once it is committed, upstream is told"
    assert second is not None
    assert batch(it, planning) is None, "there is nothing new"
    assert it.numbers("all") == [n for n in range(40) if n != 30]
    assert [row[1] for row in it.rows(it.source.outputs[0].shard)][25:30] == [0, 1, 2, 3, 4], (
        "the offset of each"
    )
    assert second.counts["all"].bad == second.counts["even"].bad == 1
    errors = it.rows(it.source.errors)
    assert [(row[1], row[2], row[4]) for row in errors] == [
        (name, '{"offset":5,"partition":"1"}', b'{"n": "x30"}') for name in ("all", "even")
    ]
    assert "x30" in errors[0][3]
    assert decode_context(errors[0][5])["0"].to_pylist() == [5], "what INCLUDE adds is kept with a bad record"
    assert count_bad_records(it.shards(it.source.errors)) == 2
    assert SourcePosition.of(it.shards(it.source.outputs[0].shard).machine.fetch()).counts.records == 40


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_killed_between_two_commits(tmp_path: Path, commits: int) -> None:
    it = lab(tmp_path, {"0": records(0, 30, bad=[7]), "1": records(30, 40)}, limit=BatchLimit(rows=15))
    assert batch(it) is not None
    with pytest.raises(Killed):
        batch(it, shards=dying(it, commits))
    found = read_positions(it.source, it.shards)
    assert [one.batch for one in found.values()] == [2 if i < commits else 1 for i in range(3)]
    it.upstream.asked.clear()
    healed = batch(it)
    assert healed is not None
    reads = [asked for what, asked in it.upstream.asked if what == "read"]
    assert {wanted for *_, wanted in reads} == {2 if commits < 2 else 1}, (
        "only for those behind it is read again"
    )
    assert len({tuple(one.at.items()) for one in read_positions(it.source, it.shards).values()}) == 1
    drained(it)
    assert it.numbers("all") == [n for n in range(40) if n != 7]
    assert it.numbers("even") == list(range(0, 40, 2))
    assert len(it.rows(it.source.errors)) == 2, "each bad record once for each collection"


def test_the_start_is_asked_once(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 30)})
    it.upstream.first = 10
    with pytest.raises(Killed):
        BatchPlanner(it.source, dying(it, 1), it.place, it.config, it.clock, once=False).next_tasks()
    it.upstream.first = 20  # such as START AT LATEST: it would be another one by now
    drained(it)
    check(it, 10, 30)
    assert [what for what, _ in it.upstream.asked].count("start") == 1


def test_the_same_batch_twice_and_two_at_once(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 20)})
    one, other = it.planning(), it.planning()
    jobs, rivals = one.next_tasks(), other.next_tasks()
    assert jobs is not None
    assert rivals is not None
    descriptors = [run_task(job) for job in jobs]
    theirs = [run_task(job) for job in rivals]
    commit_batch(it.source, it.shards, descriptors)
    commit_batch(it.source, it.shards, descriptors)
    commit_batch(it.source, it.shards, theirs)
    check(it, 0, 20)
    it.upstream.partitions["0"] += records(20, 25)
    jobs = one.next_tasks()
    it.upstream.partitions["0"] += records(25, 30)
    rivals = other.next_tasks()
    assert jobs is not None
    assert rivals is not None
    theirs, mine = [run_task(job) for job in rivals], [run_task(job) for job in jobs]
    commit_batch(it.source, it.shards, theirs)
    with pytest.raises(ConflictError, match="another process"):
        commit_batch(it.source, it.shards, mine)
    check(it, 0, 30)


def test_every_task_counts_once(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 30)})
    jobs = it.planning().next_tasks()
    assert jobs is not None
    done = [run_task(job) for job in jobs]
    assert len(done) == 3
    for wrong in (done[:2], [*done, done[1]], done[1:]):
        with pytest.raises(TidegateError, match="but these returned results"):
            commit_batch(it.source, it.shards, wrong)
    again = [run_task(jobs[1]), done[0], done[2]]  # a task that was tried again, in any order
    commit_batch(it.source, it.shards, again)
    check(it, 0, 30)


def test_splits_that_do_not_tile_are_refused(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 30)})
    for wrong in ([(0, 10), (20, 30)], [(0, 10), (10, 25)], [(0, 15), (10, 30)], [(5, 30)]):

        def splits(
            after: UpstreamPosition, upto: UpstreamPosition, cut: list[tuple[int, int]] = wrong
        ) -> list[InputSplit]:
            return [InputSplit("0", *one) for one in cut]

        it.upstream.splits = splits
        with pytest.raises(TidegateError, match="do not cover"):
            it.planning().next_tasks()


def test_a_new_partition_and_a_position_without_records(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 10)})
    drained(it)
    it.upstream.partitions["1"] = records(10, 20)
    drained(it)
    check(it, 0, 20)
    it.upstream.partitions["2"] = []
    assert batch(it) is not None, "the position moves, though nothing is there"
    assert batch(it) is None
    assert read_positions(it.source, it.shards)[it.source.errors].at == {"0": 10, "1": 10, "2": 0}


def test_a_database_restored_from_a_backup(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 20)}, limit=BatchLimit(rows=5))
    planning = it.planning()
    batch(it, planning)
    shutil.copytree(tmp_path / "lake", tmp_path / "backup")
    while batch(it, planning) is not None:
        pass
    check(it, 0, 20)
    shutil.rmtree(tmp_path / "lake")
    shutil.copytree(tmp_path / "backup", tmp_path / "lake")
    check(it, 0, 5)
    drained(it)
    check(it, 0, 20)


def test_once_ends_where_upstream_stood(tmp_path: Path) -> None:
    it = lab(tmp_path, {"0": records(0, 20)}, limit=BatchLimit(rows=10))
    planning = it.planning(once=True)
    rounds = 0
    while batch(it, planning) is not None:
        rounds += 1
        it.upstream.partitions["0"] += records(
            len(it.upstream.partitions["0"]), len(it.upstream.partitions["0"]) + 10
        )
    assert rounds == 2
    check(it, 0, 20)


def test_large_and_small_splits_become_few_parts(tmp_path: Path) -> None:
    it = lab(tmp_path, {str(i): records(i * 10, i * 10 + 10) for i in range(50)})
    jobs = it.planning().next_tasks()
    assert jobs is not None
    assert len(jobs) == 50
    settled = commit_batch(it.source, it.shards, [run_task(job) for job in jobs])
    assert settled.parts == 2, "one for each collection"
    check(it, 0, 500)
    it.config = replace(it.config, part_bytes=2000)
    it.upstream.partitions["0"] += records(500, 2500)
    it.upstream.step = 1000
    settled_large = batch(it)
    assert settled_large is not None
    assert settled_large.parts == 4, "what fills a part, tasks store: two for each collection"
    check(it, 0, 2500)


def test_keys_in_two_splits_are_read_as_one(tmp_path: Path) -> None:
    it = upserting(
        tmp_path, {"0": records(0, 3, key="a") + records(3, 5, key="b"), "1": records(10, 12, key="c")}
    )
    it.upstream.step = 2
    planning = it.planning()
    jobs = planning.next_tasks()
    assert jobs is not None
    with pytest.raises(KeyOverlapError):
        commit_batch(it.source, it.shards, [run_task(job) for job in jobs])
    assert it.numbers("last") == []
    stretch = jobs[0].batch
    assert stretch is not None
    alone: list[IngestTask] = planning.tasks(stretch, as_one=True)
    commit_batch(it.source, it.shards, [run_task(job) for job in alone])
    assert it.numbers("last") == [2, 4, 11]
    it.upstream.partitions["0"] += records(7, 8, key="a")
    it.upstream.partitions["1"] += records(8, 9, key="d")
    assert batch(it) is not None, "keys that are apart are read apart"
    assert it.numbers("last") == [4, 7, 8, 11], "the old row of a key is retracted"
