"""Work of ours as Spark tasks: ingestion of sources, maintenance of collections.

| module | |
|---|---|
| `ingest.py` | ingestion: runs a stream, and commits each batch in the driver |
| `ingest_stream.py` | the stream's reader and tasks, in Spark's Python processes |
| `maintain.py` | compaction, reclustering and backfill of statistics as Spark jobs |
| `failure.py`, `retry.py` | errors of tasks in the driver; which errors Spark retries |
"""
