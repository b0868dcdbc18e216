"""The end of a batch: what all tasks made becomes part of the collections, together with how far the source has come.

    settle(source, shards, descriptors)

Each shard gets one entry of its log, with its rows and its new position; the errors' first. All of them have the same time, unless
somebody else appended to one meanwhile. The entry is made only if the shard stands where the batch began (`standing.py`): so the
same batch, committed by two processes, or again after an answer that was lost, is there once.

| killed | the next who ingests |
|---|---|
| before any entry | reads the batch again; the parts are orphans |
| between two entries | brings those behind to the others |
| after all of them, before upstream was told | goes on; upstream is told with the next batch |

**ENVELOPE UPSERT** looks for the last record of each key. If two splits of a batch hold the same key, neither task can tell
which is last; `Overlap` says so, and the batch is read again as one split. A topic that is partitioned by its keys never does that.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tidegate.errors import TidegateError
from tidegate.ingest.definition import Source
from tidegate.ingest.made import Counts
from tidegate.ingest.pipeline import Descriptor
from tidegate.ingest.standing import Shards, Stretch
from tidegate.shard import commit
from tidegate.shard.gather import Gathered
from tidegate.shard.state import State
from tidegate.shard.writer import Shard


class Overlap(TidegateError):  # noqa: N818  # reads as what it is; never reaches a user
    """Two splits hold records of one key."""


@dataclass(frozen=True)
class Settled:
    """What a batch brought."""

    stretch: Stretch
    counts: dict[str, Counts]
    """By output's name: what became of the records. Nothing for outputs that had it already."""
    parts: int
    at: int
    """The time of its rows."""


def settle(source: Source, shards: Shards, descriptors: Sequence[Descriptor]) -> Settled:
    """Commits a batch. Nothing happens to a shard that has it already."""
    stretch = _whole(descriptors)
    _check_keys(descriptors)
    at = max([stretch.now, *(_upper(shards(name)) for name in stretch.shards)])
    counts = {
        output.shard: _summed([one.counts.get(output.shard, Counts()) for one in descriptors])
        for output in source.outputs
    }
    failed = Counts(bad=sum(some.bad for some in counts.values()))
    parts = 0
    for name in stretch.shards:
        mine = failed if name == source.errors else counts[name]
        gathered = [one.gathered[name] for one in descriptors]
        _commit(shards(name), gathered, descriptors[0].schemas[name], stretch, mine, at)
        parts += sum(len(one.parts) for one in gathered) + any(one.inline for one in gathered)
    told = {output.name: counts[output.shard] for output in source.outputs if output.shard in stretch.shards}
    return Settled(stretch, told, parts, at)


def _whole(descriptors: Sequence[Descriptor]) -> Stretch:
    """The stretch that these are of; an error unless each of its jobs is there once."""
    numbers = sorted(one.number for one in descriptors)
    found = [one.stretch for one in descriptors if one.stretch is not None]
    if len(found) != 1 or numbers != list(range(descriptors[0].of)):
        raise TidegateError(
            f"of {descriptors[0].of if descriptors else 0} tasks of a batch these came back: {numbers}",
            hint="nothing of the batch was committed; it is read again",
        )
    return found[0]


def _check_keys(descriptors: Sequence[Descriptor]) -> None:
    """Raises if two splits hold the same key."""
    for shard in {shard for one in descriptors for shard in one.keys}:
        some = [one.keys[shard] for one in descriptors if shard in one.keys]
        if len(some) > 1:
            hashes = np.concatenate(some)
            if len(np.unique(hashes)) < sum(len(np.unique(one)) for one in some):
                raise Overlap("two splits hold records of one key")


def _commit(
    shard: Shard, gathered: Sequence[Gathered], schema: int, stretch: Stretch, counts: Counts, at: int
) -> None:
    def time(state: State) -> int:
        return max(at, state.upper)

    batch = commit.Batch(
        # Whether it was done before, the position tells: the token only covers an answer that is lost.
        token=f"ingest:{stretch.becomes}:{secrets.token_hex(8)}",
        schema=schema,
        at=time,
        positions=partial(stretch.positions, counts=counts),
        check=stretch.check,
    )
    commit.append(shard, gathered, batch)


def _upper(shard: Shard) -> int:
    return shard.machine.fetch().upper


def _summed(counts: Sequence[Counts]) -> Counts:
    return Counts(*map(sum, zip(*counts, strict=True))) if counts else Counts()


def errors_now(shard: Shard) -> int:
    """How many bad records the errors' shard holds, from its metadata alone."""
    tables = shard.machine.fetch().parts.tables(["diffs"])
    return sum(int(np.sum(table.column("diffs").to_numpy())) for table in tables)
