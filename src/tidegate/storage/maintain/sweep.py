"""Sweep: deletes objects that nothing can refer to any more, and nothing else.

| object | deleted when |
|---|---|
| *garbage*: it left the state at entry n (a part, a rollup, a segment) | no lease is older than n, and the grace is over |
| *orphan*: no state referred to it (its writer was killed, or lost a race) | it is older than the grace, and a fence was set |
| temporary file | it is older than the grace |

**The fence.** An object that is not in the state may be on its way there: written, its entry not yet made, its writer asleep for
hours. So sweep lists what is old, and adds an entry to the log that names those of them which the state before it does not
have: from that entry on they are garbage, and only then are they deleted. A sleeper's proposal is for the entry after the one it
saw; the fence took that number, or came later and saw the sleeper's parts. So the sleeper must look again, sees the fence, and
finds its parts among the garbage or gone (`Shard.check_parts`): it writes anew.

No clock decides what may be deleted; one only says what is old enough to be looked at. It is the store's own, told by an object
that sweep writes for the purpose: if it jumps, a writer has to write again. Everything here may be done twice at once, or
stop at any point: deleting is idempotent, and what was deleted but not yet forgotten is deleted again next time.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.errors import StoreError
from tidegate.shard.change import Forget
from tidegate.shard.lease import release_expired, step_back
from tidegate.shard.state import State, unnamed
from tidegate.shard.writer import Shard
from tidegate.store.blob import Entry

FOLDERS = ("part", "seg", "roll")
MARKS = "mark"
FORGOTTEN_AT_ONCE = 5_000


@dataclass
class Swept:
    """What a sweep deleted."""

    garbage: int = 0
    orphans: int = 0
    temporary: int = 0
    leases: int = 0
    """Leases that had run out."""


def sweep(shard: Shard) -> Swept:
    """Deletes what nothing can refer to; see the module's docstring."""
    step_back(shard)
    before = len(shard.machine.fetch().leases)
    state = release_expired(shard)
    if state.dropped and state.segments:
        shard.machine.roll(
            state
        )  # a rollup without parts, so that the segments of the one before are garbage
        state = shard.machine.fetch()
    done = Swept(leases=max(0, before - len(state.leases)))
    done.garbage = _sweep_garbage(shard, state)
    done.orphans = _sweep_orphans(shard)
    temporary = getattr(shard.machine.blob, "sweep_temporary", None)
    if temporary is not None:
        done.temporary = temporary(shard.config.sweep_grace_ms / 1000)
    return done


def _sweep_garbage(shard: Shard, state: State) -> int:
    """Deletes what left the state, then forgets it."""
    oldest = min((lease.number for lease in state.leases.values()), default=state.number)
    over = shard.clock.now() - shard.config.sweep_grace_ms
    names = [item.name for item in state.garbage if item.number <= oldest and item.at <= over]
    for start in range(0, len(names), FORGOTTEN_AT_ONCE):
        _delete_garbage(shard, names[start : start + FORGOTTEN_AT_ONCE])
    return len(names)


def _delete_garbage(shard: Shard, names: list[str]) -> None:
    """Deletes objects that are garbage, then forgets them. What the newest state names stays, whatever else is said of it."""
    for name in unnamed(shard.machine.fetch(), names, garbage=False):
        _delete(shard, name)

    def think(newest: State) -> Forget | None:
        known = {item.name for item in newest.garbage}
        gone = tuple(name for name in names if name in known)
        return Forget(gone) if gone else None

    shard.machine.change(think)


def _sweep_orphans(shard: Shard) -> int:
    """Deletes what is old and not in the state, behind a fence."""
    name = shard.machine.fetch().shard
    with _store_now(shard, name) as now:
        over = now - shard.config.sweep_grace_ms
        listed = [entry for folder in FOLDERS for entry in _listed(shard, f"{folder}/{name}/")]
        old = [entry.name for entry in listed if entry.written <= over]
    deleted = 0
    for start in range(0, len(old), FORGOTTEN_AT_ONCE):
        orphans = _condemn(shard, old[start : start + FORGOTTEN_AT_ONCE])
        if orphans:
            _delete_garbage(shard, orphans)
        deleted += len(orphans)
    return deleted


def _condemn(shard: Shard, names: list[str]) -> list[str]:
    """Makes garbage of those of the objects that no state names; which."""
    orphans: list[str] = []

    def think(newest: State) -> Forget | None:
        orphans[:] = unnamed(newest, names)
        return Forget((), tuple(orphans)) if orphans else None

    shard.machine.change(think)
    return orphans


@contextlib.contextmanager
def _store_now(shard: Shard, name: str) -> Iterator[int]:
    """The present by the store's own clock, told by an object written for it. Those that killed sweeps left are removed."""
    blob, mark = shard.machine.blob, f"{MARKS}/{name}/{secrets.token_hex(8)}"
    shard.machine.attempt(lambda: blob.put(mark, b""))
    try:
        marks = _listed(shard, f"{MARKS}/{name}/")
        now = next((entry.written for entry in marks if entry.name == mark), None)
        if now is None:
            raise StoreError(
                f"{mark} was written, and is not listed", hint="the store does not list what it holds"
            )
        yield now
        for entry in marks:
            if entry.written <= now - shard.config.sweep_grace_ms and entry.name != mark:
                _delete(shard, entry.name)
    finally:
        with contextlib.suppress(StoreError):
            _delete(shard, mark)


def _listed(shard: Shard, prefix: str) -> list[Entry]:
    return shard.machine.attempt(lambda: list(shard.machine.blob.list(prefix)))


def _delete(shard: Shard, name: str) -> None:
    shard.machine.attempt(lambda: shard.machine.blob.delete(name))
