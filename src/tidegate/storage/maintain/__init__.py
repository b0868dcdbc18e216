"""Maintenance of shards: compaction, re-clustering, expiry, sweep and repair.

None of it changes the rows that a reader sees. Everything can be interrupted at any point, and run by several processes at once.

    compact_shard(shard)                                merges small parts, in this process
    recluster_shard(runner, shard, location)            sorts rows by key across parts, in tasks of a runner
    settle_retractions(shard)                           turns rows that retract into deletions by position
    expire_parts(shard)                                 drops parts whose rows have all ended
    sweep_shard(shard)                                  deletes files that nothing refers to
    maintain_in_steps(shard)                            what a writer does after its commit: a small step, if one is due
    repair_shard(shard)                                 moves rows that were written with a time far ahead

| module | contents |
|---|---|
| `compact` | which parts are merged, and merging them |
| `outlook` | what compaction and sweep would do now |
| `after_commit` | the small steps that writers take |
| `tasks` | units of work that can run in another process |
| `distribute` | compaction, re-clustering and statistics by such tasks |
| `recluster_plan`, `key_ranges` | which parts are sorted together, and how they are divided by key |
| `settle` | turns retractions that are rows into deletions |
| `merge_parts`, `rewrite` | the updates of parts in order, and how new parts take their place |
| `expire`, `sweep`, `repair` | the others |
| `verify` | reads every object, and compares it with its digest |
"""

from tidegate.storage.maintain.after_commit import maintain_in_steps
from tidegate.storage.maintain.compact import Compacted, compact_shard, plan_groups, store_inline_parts
from tidegate.storage.maintain.distribute import (
    Learnt,
    LocalTaskRunner,
    Reclustered,
    TaskRunner,
    backfill_shard_statistics,
    compact_distributed,
    recluster_shard,
)
from tidegate.storage.maintain.expire import expire_parts
from tidegate.storage.maintain.outlook import MaintenanceOutlook, maintenance_outlook, orphan_objects
from tidegate.storage.maintain.repair import Repaired, repair_shard
from tidegate.storage.maintain.sweep import FOLDERS, Swept, sweep_shard
from tidegate.storage.maintain.tasks import MaintenanceResult, MaintenanceTask, run_task
from tidegate.storage.maintain.verify import verify_objects

__all__ = [
    "FOLDERS",
    "Compacted",
    "Learnt",
    "LocalTaskRunner",
    "MaintenanceOutlook",
    "MaintenanceResult",
    "MaintenanceTask",
    "Reclustered",
    "Repaired",
    "Swept",
    "TaskRunner",
    "backfill_shard_statistics",
    "compact_distributed",
    "compact_shard",
    "expire_parts",
    "maintain_in_steps",
    "maintenance_outlook",
    "orphan_objects",
    "plan_groups",
    "recluster_shard",
    "repair_shard",
    "run_task",
    "store_inline_parts",
    "sweep_shard",
    "verify_objects",
]
