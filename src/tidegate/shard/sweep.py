"""Sweep: deletes objects that nothing can refer to any more, and nothing else.

| object | deleted when |
|---|---|
| *garbage*: it left the state at entry n (a part, a rollup, a segment) | no lease is older than n, and the grace is over |
| *orphan*: no state referred to it (its writer was killed, or lost a race) | it is older than the grace, and a fence was set |
| temporary file | it is older than the grace |

**The fence.** An object that is not in the state may be on its way there: written, its entry not yet made. Its writer checks
its age before it proposes the entry, but may then sleep for hours. So sweep first lists what is old, then adds an entry to
the log, then looks which of these the state has by now, and deletes the rest. A sleeper's proposal is for the entry after
the one it saw; the fence took that place. It must look again, sees the age, and writes anew (`Shard.check_age`).

How old an object is, the store's own clock says, by an object that sweep writes for the purpose. Everything here may be done twice
at once, or stop at any point: deleting is idempotent, and what was deleted but not yet forgotten is deleted again next time.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import StoreError
from tidegate.shard.change import Forget
from tidegate.shard.lease import release_expired, step_back
from tidegate.shard.state import State
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
        some = names[start : start + FORGOTTEN_AT_ONCE]
        for name in some:
            _delete(shard, name)

        def think(newest: State, some: list[str] = some) -> Forget | None:
            known = {item.name for item in newest.garbage}
            gone = tuple(name for name in some if name in known)
            return Forget(gone) if gone else None

        shard.machine.change(think)
    return len(names)


def _sweep_orphans(shard: Shard) -> int:
    """Deletes what is old and not in the state, behind a fence."""
    name = shard.machine.fetch().shard
    with _store_now(shard, name) as now:
        over = now - shard.config.sweep_grace_ms
        listed = [entry for folder in FOLDERS for entry in _listed(shard, f"{folder}/{name}/")]
        old = [entry.name for entry in listed if entry.written <= over]
    if not _unknown(shard.machine.fetch(), old):
        return 0
    orphans = _unknown(shard.machine.change(lambda _: Forget(())), old)
    for orphan in orphans:
        _delete(shard, orphan)
    return len(orphans)


def _unknown(state: State, names: list[str]) -> list[str]:
    """Those of the names that nothing in the state refers to."""
    rolled = [] if state.rollup is None else [state.rollup[0]]
    held = pa.array([*rolled, *state.segments, *(item.name for item in state.garbage)], pa.string())
    left = pa.array(names, pa.string())
    for known in (held, *(table.column("name") for table in state.parts.tables(["name"]))):
        left = left.filter(pc.invert(pc.is_in(left, value_set=known)))
    found: list[str] = left.to_pylist()
    return found


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
