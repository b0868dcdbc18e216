"""Where data is stored: object stores, logs, part files, shards, and the catalog that names them.

A database is one *blob store* (a folder or a bucket) and one *consensus store* (SQLite, PostgreSQL, or numbered objects in the
bucket). Each table is a *shard*: immutable Parquet files called *parts*, and a log whose entries say which parts make up the table.

    location = parse_location("s3://bucket/lake")          where a database is
    root = open_root(location, SystemClock())              its stores and its catalog
    machine = root.catalog.shard_machine(name)             the log of one shard
    Shard(machine).append(table)                           writes parts, then one entry of the log
    with open_snapshot(Shard(machine)) as snapshot:        reads what the entry made visible
        snapshot.batches(["id", "price"])

Rooms, each of which uses only those above it:

| room | contents |
|---|---|
| `blob` | named immutable objects: in memory, in files, in S3, GCS and Azure |
| `consensus` | logs that grow by compare-and-set: SQLite, PostgreSQL, numbered objects |
| `stats` | statistics of columns, collected when a part is written and used to skip parts and pages |
| `part` | the file of a part: schema, Parquet layout, checksums, reading single pages, sorting and merging updates |
| `shard` | the state of a shard and its log: append, read at a time, leases |
| `maintain` | compaction, re-clustering, expiry, sweep, repair |
| `catalog` | names of tables, views, connections and sources; the root object of a database |

>>> parse_location("memory://").kind
'memory'
"""

from tidegate.storage.location import Location, parse_location
from tidegate.storage.retry import CONTENTION

__all__ = ["CONTENTION", "Location", "parse_location"]
