"""Envelopes: how a record changes the collection, and the rows that result.

| envelope | meaning of a record | rows |
|---|---|---|
| NONE | a row | its transform; -1 if the upstream itself retracts (POSTGRES) |
| UPSERT | the new value of a key | the old row of the key -1, the new one +1; for a tombstone only the former |
| DEBEZIUM | a row before and after a change | the transform of `before` -1, that of `after` +1 |

| module | contents |
|---|---|
| `step.py` | chooses the step of an envelope |
| `append.py`, `upsert.py`, `debezium.py` | the three envelopes |
| `inputs.py` | from decoded chunks to the inputs of a plan |
| `output.py` | the result of a step: rows, failed records, counts |
| `bad_records.py` | failed records as rows of `<source>_errors` |
"""
