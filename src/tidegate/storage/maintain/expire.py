"""Expiry: parts whose rows have all ended leave the state, without being read.

    expire_parts(shard)    how many; reads the state, and writes nothing if no part has ended

A part records when its last row ends (`Part.expires`). Once no earlier time can be read, the part is of no use:

    retention 1 h, now 12:00      since may move to 11:00, if no lease prevents it
    part 1   expires 10:30        is dropped: every time that can be read is after its end
    part 2   expires 11:30        stays: AS OF 11:10 still sees rows of it; reads of now skip it by its statistics
    part 3   some end, some not   stays; when compaction merges it, rows that have ended are left out (`compact.py`)
    part 4   deleted by 10:40     is dropped, if that holds for all of its rows

Dropping is one entry of the log with the numbers of the parts, whatever their size; `sweep` deletes their files when no reader
holds them. Readers never depend on it: the plan removes rows at their exact time (`validity.py`). Dropping saves state to open
and statistics to evaluate: both stay in proportion to what is valid, however long the history is.

`since` cannot pass `upper`. If nothing is appended to a collection, `upper` stands still, and so does what can be dropped. So
before parts are dropped that ended since then, an empty append moves `upper` to the end of what retention keeps, and no further:
writers that append now are not affected.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.part.deletions import PartRows
from tidegate.storage.shard.changes import Advance, Append, Replace
from tidegate.storage.shard.leases.lease import release_expired_leases
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State, retained_since, retention_start
from tidegate.storage.shard.validity import Validity

DROPPED_AT_ONCE = 10_000


def expire_parts(shard: Shard) -> int:
    """Drops the parts whose rows have all ended, as far as retention and leases allow; returns how many."""
    state, now = shard.machine.fetch(), shard.clock.now()
    if state.dropped or Validity.of(state.options) is None or not _ended(state, retention_start(state, now)):
        return 0
    release_expired_leases(shard)
    follow(shard)
    advance(shard)
    return drop_expired(shard)


def advance(shard: Shard) -> State:
    """Moves `since` as far as the retention option and leases allow."""

    def propose(state: State) -> Advance | None:
        wanted = retained_since(state, shard.clock.now(), shard.config.history_ms)
        reached = min([wanted, *(lease.since for lease in state.leases.values())])
        return Advance(reached) if reached > state.since and not state.dropped else None

    return shard.machine.update(propose)


def drop_expired(shard: Shard) -> int:
    """Drops the parts without a row that is valid at `since` or later, by their metadata alone.

    Returns how many.
    """
    dropped = 0
    while True:
        expired: tuple[int, ...] = ()

        def propose(state: State) -> Replace | None:
            nonlocal expired
            gone = [] if state.dropped else ended_parts(state, state.since)
            expired = tuple(gone[:DROPPED_AT_ONCE])
            _check_deleted(shard, state, expired)
            return Replace(expired, (), expired=True) if expired else None

        shard.machine.update(propose)
        dropped += len(expired)
        if not expired:
            return dropped


def follow(shard: Shard) -> None:
    """Appends nothing, so that `since` can move, if parts have ended since the last append.

    Without such parts it does nothing.
    """
    token = secrets.token_hex(16)

    def propose(state: State) -> Append | None:
        wanted = retention_start(state, shard.clock.now())
        held = min([wanted, *(lease.since for lease in state.leases.values())])
        if state.dropped or wanted < state.upper or not _ended(state, held):
            return None
        return Append(state.upper, wanted + 1, (), token)

    shard.machine.update(propose)


def ended_parts(state: State, since: int) -> list[int]:
    """The ids of the parts that are of no use once no time before `since` can be read."""
    return list(dict.fromkeys((*_ended(state, since), *_deleted(state, since))))


def _ended(state: State, since: int) -> list[int]:
    """The ids of the parts without a row that is valid at `since` or later."""
    ids: list[int] = []
    for table in state.parts.tables(["id", "expires"]):
        ended = pc.fill_null(pc.less_equal(table.column("expires"), pa.scalar(since, pa.int64())), False)
        ids += table.column("id").filter(ended).to_pylist()
    return ids


def _check_deleted(shard: Shard, state: State, ids: Sequence[int]) -> None:
    """Raises if one of these parts has a row left, although the counts of its records say otherwise."""
    deleted = np.intersect1d(ids, _deleted(state, state.since))
    if len(deleted):
        parts = PartRows.of(list(state.parts.find(deleted)))
        state.parts.deletions.check_whole(parts, state.since, shard.machine.objects.get)


def _deleted(state: State, since: int) -> list[int]:
    """The ids of the parts of which all rows are deleted at `since`."""
    ids: list[int] = []
    for table in state.parts.tables(["id", "rows"]) if state.parts.deletions else ():
        deleted, _ = state.parts.deletions.totals(table.column("id").to_numpy(), since)
        rows = table.column("rows").to_numpy()
        ids += table.column("id").filter(pa.array((deleted >= rows) & (rows > 0))).to_pylist()
    return ids
