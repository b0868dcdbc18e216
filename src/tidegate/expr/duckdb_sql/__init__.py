"""Scalar expressions in DuckDB's SQL, for the embedded engine.

duckdb_sql(expr, ["c0", "c1"])         "(c0 > CAST(5 AS BIGINT))", or None: our evaluator must run
duckdb_type(INT8)                      "BIGINT"

Each function declares its DuckDB form (`forms.py`), as it declares its Spark form. Knows the model of expressions, and no engine.
"""

from tidegate.expr.duckdb_sql.translate import duckdb_sql
from tidegate.expr.duckdb_sql.types import duckdb_arrow, duckdb_type, from_duckdb, quoted, to_duckdb

__all__ = ["duckdb_arrow", "duckdb_sql", "duckdb_type", "from_duckdb", "quoted", "to_duckdb"]
