"""Consensus stores: logs of numbered entries, where exactly one writer gets the next number.

>>> log = MemoryConsensus()
>>> log.compare_and_set("shard/s1", None, b"first"), log.compare_and_set("shard/s1", None, b"also first")
(True, False)

| module | contents |
|---|---|
| `protocol` | `Consensus`, what every store promises; the store in memory |
| `sql` | SQLite in the folder of the database, or PostgreSQL |
| `object_log` | numbered objects in the blob store |
"""

from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus
from tidegate.storage.consensus.sql import PostgresConsensus, SqliteConsensus

__all__ = ["Consensus", "LogConsensus", "MemoryConsensus", "PostgresConsensus", "SqliteConsensus"]
