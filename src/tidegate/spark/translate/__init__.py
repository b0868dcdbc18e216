"""Expressions between Spark and Tidegate, in both directions.

| module | |
|---|---|
| `filters.py` | a filter of Spark, a Catalyst expression, as an expression of ours |
| `catalyst_tree.py` | Catalyst expressions as trees of Python, from their JSON |
| `value.py` | what a Catalyst expression means: a range between two expressions of ours |
| `pairs.py` | nodes that equal a function of ours, derived from the Spark forms of declarations |
| `conditions.py`, `numbers.py`, `text.py`, `time.py`, `zones.py`, `json.py` | the translation of each family of nodes |
| `to_spark_sql.py` | an expression of ours as Spark SQL text, if Spark can express it exactly |
| `evaluator_udf.py` | an expression of ours as a call of a UDF that runs our evaluator |

A translation must not change the meaning of an expression, errors and NULLs included. A node without an exact counterpart is not
translated: a filter then prunes nothing, and an expression of ours becomes a UDF.
"""
