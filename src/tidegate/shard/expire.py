"""Expiry: parts of which all rows have ended leave the state, without being read.

    expire(shard)          how many; costs one look at the state, and nothing is written if none has ended

A part notes when its last row ends (`Part.expires`). From the moment that nobody can ask for an earlier time, it is of no use:

    retention 1 h, now 12:00      since may go to 11:00, if no lease is in its way
    part 1   expires 10:30        is dropped: every time that can be asked for is after its end
    part 2   expires 11:30        stays: AS OF 11:10 still sees rows of it; reads of now leave it out by its statistics
    part 3   some end, some not   stays; when compaction merges it anyway, the rows that have ended are left out (`compact.py`)

Dropping is one entry of the log with the parts' numbers, whatever their size; `sweep` deletes their files when no reader holds
them. Readers never depend on it: rows are gone for them at their very time, by the plan (`validity.py`). What it saves is state to
open and statistics to ask: both are in proportion to what is valid, however long the history behind is.

`since` cannot pass `upper`. A collection that nothing is appended to stands still, and with it what could be dropped. So before
parts are dropped that ended since then, an append of nothing moves `upper` to the end of what retention keeps, and no further:
whoever appends now is not in its way.
"""

from __future__ import annotations

import secrets

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.shard.change import Advance, Append, Replace
from tidegate.shard.lease import release_expired
from tidegate.shard.state import State, kept_from, retained
from tidegate.shard.validity import Validity
from tidegate.shard.writer import Shard

DROPPED_AT_ONCE = 10_000


def expire(shard: Shard) -> int:
    """Drops the parts of which all rows have ended, as far as retention and leases allow; how many."""
    state, now = shard.machine.fetch(), shard.clock.now()
    if state.dropped or Validity.of(state.options) is None or not _ended(state, kept_from(state, now)):
        return 0
    release_expired(shard)
    follow(shard)
    advance(shard)
    return drop_expired(shard)


def advance(shard: Shard) -> State:
    """Moves `since` as far as the retention option and leases allow."""

    def think(state: State) -> Advance | None:
        wanted = retained(state, shard.clock.now())
        reached = min([wanted, *(lease.since for lease in state.leases.values())])
        return Advance(reached) if reached > state.since and not state.dropped else None

    return shard.machine.change(think)


def drop_expired(shard: Shard) -> int:
    """Drops the parts of which no row is valid at any time from `since` on, by their metadata alone; how many."""
    dropped = 0
    while True:
        gone: tuple[int, ...] = ()

        def think(state: State) -> Replace | None:
            nonlocal gone
            gone = () if state.dropped else tuple(_ended(state, state.since)[:DROPPED_AT_ONCE])
            return Replace(gone, (), expired=True) if gone else None

        shard.machine.change(think)
        dropped += len(gone)
        if not gone:
            return dropped


def follow(shard: Shard) -> None:
    """Appends nothing, if there are parts to be dropped that have ended since somebody appended: `since` can follow then."""
    token = secrets.token_hex(16)

    def think(state: State) -> Append | None:
        wanted = kept_from(state, shard.clock.now())
        held = min([wanted, *(lease.since for lease in state.leases.values())])
        if state.dropped or wanted < state.upper or not _ended(state, held):
            return None
        return Append(state.upper, wanted + 1, (), token)

    shard.machine.change(think)


def _ended(state: State, since: int) -> list[int]:
    """The ids of the parts of which no row is valid at `since` or later."""
    found: list[int] = []
    for table in state.parts.tables(["id", "expires"]):
        ended = pc.fill_null(pc.less_equal(table.column("expires"), pa.scalar(since, pa.int64())), False)
        found += table.column("id").filter(ended).to_pylist()
    return found
