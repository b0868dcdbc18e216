"""What maintenance of a shard would do now, from its state alone.

    outlook = maintenance_outlook(shard)
    outlook.groups, outlook.merged          compaction would merge 24 parts, in 3 groups
    outlook.expired                         parts that it would drop without reading them
    outlook.sweepable, outlook.waiting      garbage that sweep would delete, and garbage that is protected
    orphan_objects(shard)                   objects that no state names: this lists the store

Nothing is changed, and no lease is taken. Compaction settles retractions before it merges, which may lead to further merges: the
outlook is what is certain by now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.storage.blob.protocol import BlobInfo
from tidegate.storage.maintain.compact import plan_groups
from tidegate.storage.maintain.expire import ended_parts
from tidegate.storage.maintain.natural_order import compaction_order
from tidegate.storage.maintain.sweep import FOLDERS
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import LeaseRecord, State, retained_since, unreferenced


@dataclass(frozen=True, eq=False)
class MaintenanceOutlook:
    """The state of a shard as maintenance sees it."""

    groups: int
    """Merges that compaction would do."""
    merged: int
    """Parts that it would read for them, and `merged_bytes` their bytes."""
    merged_bytes: int
    expired: int
    """Parts that it would drop, since no time that stays readable shows a row of them."""
    since: int
    """Where it would move `since`."""
    sweepable: int
    """Garbage that sweep would delete now."""
    waiting: int
    """Garbage that a lease or the grace period protects."""
    leases: dict[str, LeaseRecord]
    """Leases that protect something, by reader: those that have run out, or that this process holds idle, do not."""
    sizes: np.ndarray
    """The bytes of each part."""
    compacted_at: int | None
    """When the newest part was written by compaction, in ms."""


def maintenance_outlook(shard: Shard) -> MaintenanceOutlook:
    """Returns what compaction and sweep would do."""
    state, now = shard.machine.fetch(), shard.clock.now()
    groups = list(plan_groups(shard, state, full=False, order=compaction_order(shard, state)))
    active = _protecting(shard, state, now)
    since = min(
        [retained_since(state, now, shard.config.history_ms), *(lease.since for lease in active.values())]
    )
    oldest = min((lease.number for lease in active.values()), default=state.number)
    over = now - shard.config.sweep_grace_ms
    sweepable = sum(item.number <= oldest and item.at <= over for item in state.garbage)
    tables = list(state.parts.tables(["size", "level", "written"]))
    sizes, levels, written = (
        np.concatenate([table.column(name).to_numpy() for table in tables]) if tables else np.zeros(0, np.int64)
        for name in ("size", "level", "written")
    )  # fmt: skip
    merged = written[levels > 0]
    return MaintenanceOutlook(
        len(groups),
        sum(len(group.ids) for group in groups),
        sum(group.size for group in groups),
        len(ended_parts(state, max(since, state.since))),
        max(since, state.since),
        sweepable,
        len(state.garbage) - sweepable,
        active,
        sizes,
        int(merged.max()) if len(merged) else None,
    )


def _protecting(shard: Shard, state: State, now: int) -> dict[str, LeaseRecord]:
    """The leases that maintenance respects.

    It releases those that have run out, and those of this process without readers.
    """
    held = shard.machine.leases
    with held.lock:
        shared = held.current()
        idle = shared.reader if shared is not None and not shared.open_readers else None
    return {reader: lease for reader, lease in state.leases.items() if lease.until > now and reader != idle}


def orphan_objects(shard: Shard) -> list[BlobInfo]:
    """Returns the objects in the shard's folders that no state names, new ones included.

    A writer may be about to commit some of them: sweep deletes only those that are older than its grace period.
    """
    objects, name = shard.machine.objects, shard.machine.fetch().shard
    infos = {info.name: info for folder in FOLDERS for info in objects.list(f"{folder}/{name}/")}
    return [infos[name] for name in unreferenced(shard.machine.fetch(), list(infos))]
