"""Shards: one durable collection each, as a log of changes over immutable parts.

    shard = Shard.create(Machine(MemoryConsensus(), MemoryBlob(), "shard/s1"), schema)
    shard.append({"id": [1, 2]})                       parts first, then one entry of the log that lists them
    with open_snapshot(shard, as_of=5_000) as snapshot:
        snapshot.batches(["id"])                       the rows at that time
    with open_changes(shard, 5_001) as changes:
        changes.batches(["id"])                        updates since then, with `_time` and `_diff`

| module | contents |
|---|---|
| `changes` | the kinds of entries of the log |
| `state`, `parts`, `rollup` | the state that the entries add up to, its set of parts, and how it is stored |
| `machine` | reads the log, and adds an entry by compare-and-set |
| `shard`, `statistics`, `time_check` | appending |
| `part_builder`, `commit` | appending from tasks: parts are built anywhere, and committed once |
| `snapshot`, `change_feed`, `leased_state` | reading at a time, reading changes, and what both share |
| `validity` | rows with a limited life |
| `retractions` | finding the rows that retractions retract |
| `leases` | leases that keep the files of open readers from being deleted |
| `shard_options` | names of the options of a shard |
"""

from tidegate.storage.shard import changes, commit, retractions, shard_options, validity
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.commit import (
    AlreadyCommitted,
    AppendOptions,
    commit_built_parts,
    discard_built_parts,
)
from tidegate.storage.shard.leases.keeper import LeaseKeeper
from tidegate.storage.shard.leases.lease import release_shared_lease
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.part_builder import BuiltParts, PartBuilder, open_in_task
from tidegate.storage.shard.shard import PartSwept, Shard, sort_order
from tidegate.storage.shard.snapshot import Snapshot, offline_snapshot, open_snapshot
from tidegate.storage.shard.state import State
from tidegate.storage.shard.time_check import resolve_now
from tidegate.storage.shard.validity import visible_columns

__all__ = [
    "AlreadyCommitted",
    "AppendOptions",
    "BuiltParts",
    "LeaseKeeper",
    "Machine",
    "PartBuilder",
    "PartSwept",
    "Shard",
    "Snapshot",
    "State",
    "changes",
    "commit",
    "commit_built_parts",
    "discard_built_parts",
    "offline_snapshot",
    "open_changes",
    "open_in_task",
    "open_snapshot",
    "release_shared_lease",
    "resolve_now",
    "retractions",
    "shard_options",
    "sort_order",
    "validity",
    "visible_columns",
]
