"""`tidegate demo` and `make demo`: from raw events to answers, on this machine.

| module | |
|---|---|
| `run.py` | the demo: ingests two sources on Spark, compares queries with Spark on plain Parquet, and moves time on |
| `clicks.py` | writes the JSON files that one of the sources reads |

"""
