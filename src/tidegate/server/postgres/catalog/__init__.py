"""pg_catalog and information_schema for clients of the PostgreSQL protocol.

    catalog = PostgresCatalog()
    catalog.query("SELECT relname FROM pg_class", …)      from an in-memory DuckDB

| module | |
|---|---|
| `catalog.py` | runs a query in the DuckDB, and rebuilds its tables when the lake has changed |
| `fill.py` | the lake's tables and columns as rows of pg_class, pg_attribute, … |
| `functions.py` | Tidegate's functions as rows of pg_proc |
| `rewrite.py` | decides which queries are about the catalog |
| `dialect.py` | translates them to DuckDB's dialect |
| `tables.py`, `views.py` | the columns of the tables; views and functions |
"""
