"""Reading after UPDATE and DELETE: every question on an append-only collection and on the same rows after changes.

    make bench-retractions                              everything, some hours; the results are kept
    python -m bench.retractions --quick                 few rows, one share, one turn: a minute or two if the machine is idle
    python -m bench.retractions --no-spark --no-s3      `db.sql` on files, beside the peers

| what | how |
|---|---|
| changes | 1 row, 0.1 %, 1 %, 10 % and 50 % of the rows; half of them updated, half deleted, or only one (`--kinds`) |
| layouts | scattered: every k-th id; clustered: neighbours |
| states | changed: as the statements left it; compacted: after `db.compact(name, full=True)` as well |
| places | files with metadata in SQLite; S3 (SeaweedFS on this machine) with metadata in its log |
| paths | `db.sql`, from SQL to Arrow; `db.table`, from a new DataFrame to Arrow |
| parts | 50 and 1,000, with a `part_bytes` of their size; how many each state has stands above its table |
| peers | Delta with deletion vectors and DuckDB's own tables, on files (`peers.py`) |

All states of one layout take turns, question by question, so a busy minute of the machine hits them alike; the median counts. It is
wall time, or with `--clock cpu` the CPU time of this process for what runs in it on files. The column "unchanged copy" is a copy of
the append-only collection to which nothing was done, or `compact` alone: what differs there is noise, or compaction's own effect.

Each answer is compared with what numpy computes (`rows.py`), outside of the time that is measured. A wrong one is marked WRONG,
is never within a limit, and makes the run fail. A query that takes longer than `--patience` seconds is stopped, and is too slow.

Limits: before compaction and up to 10 %, at most 1.2 × append-only, LIMIT at most 2 ms more (1.2 × on Spark, where 2 ms are
noise); after compaction at most 1.05 ×, whatever the share.

The second part asks LIMIT 10 of 10 to 10,000 parts (`--huge`: 100,000), of each of which rows were deleted. `many_parts.py` asks
the same of parts that are made within a minute.
"""
