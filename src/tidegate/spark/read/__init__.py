"""Reading: a snapshot of a collection as a DataFrame.

| module | |
|---|---|
| `relation.py` | the DataFrame of a snapshot: a union of branches, each with the files of some parts |
| `branches.py` | groups parts by what must be done with their rows |
| `file_index.py` | a Spark FileIndex in Python: Spark's filters go in, the files of the parts to read come out |
| `snapshot_index.py` | which parts of a snapshot a filter must read; the snapshot's lease |
| `explain_filters.py` | recovers the filters of a scan while Spark renders EXPLAIN |
| `deleted_rows.py` | skips rows that were deleted by their position |
| `consolidate.py` | consolidation in Spark |
| `hadoop_paths.py` | the URIs and Hadoop settings under which Spark opens parts |
| `late_scan.py` | our own scan in Spark's tasks, as a data source |
| `format_reader.py` | `spark.read.format("tidegate")`, which uses that scan |

Depends on `translate/` and the session, JVM, type and Arrow modules of this room.
"""
