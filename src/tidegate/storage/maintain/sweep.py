"""Sweep: deletes objects that nothing can refer to any more, and nothing else.

| object | deleted when |
|---|---|
| *garbage*: it left the state at entry n (a part, a rollup, a segment) | no lease is older than n, and the grace is over |
| *orphan*: no state referred to it (its writer was killed, or lost a race) | it is older than the grace, and a fence was set |
| temporary file | it is older than the grace |

**The fence.** An object that is not in the state may be on its way there: written, its entry not yet made, its writer paused for
hours. So sweep lists old objects, and adds an entry to the log that names those which the state before it does not have. From that
entry on they are garbage, and only then are they deleted. The proposal of a paused writer is for the entry after the one that it
saw. The fence took that number, or came later and saw the writer's parts. So the writer must read the state again, sees the fence,
and finds its parts among the garbage or gone (`Shard.check_parts`): it writes them again.

No clock decides what may be deleted; a clock only decides what is old enough to be considered. It is the store's own clock, read
from an object that sweep writes for that purpose. If it jumps, a writer has to write again. Two sweeps may run at once, and a sweep
may stop at any point: deleting is idempotent, and what was deleted but not yet forgotten is deleted again next time.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.errors import StoreError
from tidegate.storage.shard.changes import Forget
from tidegate.storage.shard.leases.lease import release_expired_leases, release_shared_lease
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State, unreferenced

FOLDERS = ("part", "seg", "roll", "del")
MARKS = "mark"
FORGOTTEN_AT_ONCE = 5_000


@dataclass
class Swept:
    """What a sweep deleted: `db.sweep().orphans`."""

    garbage: int = 0
    orphans: int = 0
    temporary: int = 0
    leases: int = 0
    """Leases that had run out."""


def sweep_shard(shard: Shard) -> Swept:
    """Deletes what nothing can refer to; see the module docstring."""
    release_shared_lease(shard)
    before = len(shard.machine.fetch().leases)
    state = release_expired_leases(shard)
    if state.dropped and state.segments:
        shard.machine.roll(
            state
        )  # a rollup without parts, so that the segments of the one before are garbage
        state = shard.machine.fetch()
    done = Swept(leases=max(0, before - len(state.leases)))
    done.garbage = _sweep_garbage(shard, state)
    done.orphans = _sweep_orphans(shard)
    done.temporary = shard.machine.blob.sweep_temporary(shard.config.sweep_grace_ms / 1000)
    return done


def collect_garbage(shard: Shard, most: int) -> int:
    """Deletes at most so many objects that left the state long ago; how many. It does not list the store."""
    release_shared_lease(shard)
    return _sweep_garbage(shard, release_expired_leases(shard), most)


def _sweep_garbage(shard: Shard, state: State, most: int | None = None) -> int:
    """Deletes what left the state, and then removes it from the garbage."""
    oldest = min((lease.number for lease in state.leases.values()), default=state.number)
    over = shard.clock.now() - shard.config.sweep_grace_ms
    names = [item.name for item in state.garbage if item.number <= oldest and item.at <= over][:most]
    for start in range(0, len(names), FORGOTTEN_AT_ONCE):
        _delete_garbage(shard, names[start : start + FORGOTTEN_AT_ONCE])
    return len(names)


def _delete_garbage(shard: Shard, names: list[str]) -> None:
    """Deletes objects that are garbage, and then forgets them.

    An object that the newest state names is never deleted, whatever else the state says about it.
    """
    for name in unreferenced(shard.machine.fetch(), names, garbage=False):
        shard.machine.objects.delete(name)

    def propose(newest: State) -> Forget | None:
        garbage = {item.name for item in newest.garbage}
        forgotten = tuple(name for name in names if name in garbage)
        return Forget(forgotten) if forgotten else None

    shard.machine.update(propose)


def _sweep_orphans(shard: Shard) -> int:
    """Deletes what is old and not in the state, after a fence."""
    name = shard.machine.fetch().shard
    with _store_now(shard, name) as now:
        over = now - shard.config.sweep_grace_ms
        infos = [info for folder in FOLDERS for info in shard.machine.objects.list(f"{folder}/{name}/")]
        old = [info.name for info in infos if info.written <= over]
    deleted = 0
    for start in range(0, len(old), FORGOTTEN_AT_ONCE):
        orphans = _condemn(shard, old[start : start + FORGOTTEN_AT_ONCE])
        if orphans:
            _delete_garbage(shard, orphans)
        deleted += len(orphans)
    return deleted


def _condemn(shard: Shard, names: list[str]) -> list[str]:
    """Declares those of the objects that no state names garbage, and returns them."""
    orphans: list[str] = []

    def propose(newest: State) -> Forget | None:
        orphans[:] = unreferenced(newest, names)
        return Forget((), tuple(orphans)) if orphans else None

    shard.machine.update(propose)
    return orphans


@contextlib.contextmanager
def _store_now(shard: Shard, name: str) -> Iterator[int]:
    """The present by the store's own clock, read from an object that is written for it.

    Such objects that killed sweeps left behind are removed.
    """
    objects, mark = shard.machine.objects, f"{MARKS}/{name}/{secrets.token_hex(8)}"
    objects.put(mark, b"")
    try:
        marks = shard.machine.objects.list(f"{MARKS}/{name}/")
        now = next((entry.written for entry in marks if entry.name == mark), None)
        if now is None:
            raise StoreError(
                f"{mark} was written, but is not listed", hint="the store does not list all objects"
            )
        yield now
        for entry in marks:
            if entry.written <= now - shard.config.sweep_grace_ms and entry.name != mark:
                shard.machine.objects.delete(entry.name)
    finally:
        with contextlib.suppress(StoreError):
            shard.machine.objects.delete(mark)
