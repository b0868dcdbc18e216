"""The options of a shard, by the names under which its state stores them.

| option | value | set by |
|---|---|---|
| `CLUSTER_BY` | ids of the columns that parts are sorted by | CLUSTER BY, `db.recluster(by=…)` |
| `RETENTION_MS` | how long past times can be read, in ms | WITH (RETAIN HISTORY …) |
| `VALIDITY` | ids of the two hidden columns that bound the life of a row (`validity.py`) | temporal transforms |
| `HIDDEN` | ids of columns that no reader sees; those of `VALIDITY` are hidden anyway | ENVELOPE UPSERT |
| `LOOKED_UP` | up to which part, and by which schema, retractions were looked up (`maintain/settle.py`) | settling |
| `PRIMARY_KEY` | the declared key: `{"name": "t_pkey", "columns": [0]}` | PRIMARY KEY … NOT ENFORCED |
| `KEEP_STATISTICS` | paths whose statistics are stored at any cost: `[[4, "ts"]]` is `payload.ts` | KEEP STATISTICS |
"""

CLUSTER_BY = "cluster_by"
RETENTION_MS = "retention_ms"
VALIDITY = "validity"
HIDDEN = "hidden"
LOOKED_UP = "equal_retractions_looked_up"
"""`retractions_looked_up` is that of versions which found identical rows only: it says nothing here."""
KEEP_STATISTICS = "keep_statistics"
PRIMARY_KEY = "primary_key"
