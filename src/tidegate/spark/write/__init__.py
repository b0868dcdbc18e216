"""Writing: `df.write.format("tidegate")` and `df.writeStream.format("tidegate")`.

| module | |
|---|---|
| `check_schema.py` | checks that a DataFrame's columns fit the collection, before a task runs |
| `batch.py` | one write: tasks write parts, one commit appends all of them |
| `stream.py` | micro-batches: each is appended exactly once |

Tasks need the blob store only. The commit is `storage/shard/commit.py`, which also commits writes without Spark.
"""
