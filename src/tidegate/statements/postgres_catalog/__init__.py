"""pg_catalog and information_schema: the names, columns and types of a database.

    SELECT table_name FROM information_schema.tables        asked by `db.sql`, the prompt, or a client of the PostgreSQL port
    PostgresCatalog().query(sql, context, who, settings, watch)

| module | |
|---|---|
| `queries.py` | which statements of a text are about the catalog, and who asks |
| `catalog.py` | runs a query in an in-memory DuckDB, and rebuilds its tables when the database has changed |
| `fill.py` | the database's tables and columns as rows of pg_class, pg_attribute, … |
| `functions.py` | our functions as rows of pg_proc |
| `rewrite.py` | decides which queries are about the catalog |
| `dialect.py` | translates them to DuckDB's dialect |
| `tables.py`, `views.py` | the columns of the tables; views and functions |
| `postgres_types.py` | the types and their OIDs |
"""

from tidegate.statements.postgres_catalog import postgres_types
from tidegate.statements.postgres_catalog.catalog import ClientIdentity, PostgresCatalog
from tidegate.statements.postgres_catalog.rewrite import is_catalog, strip_schemas

__all__ = ["ClientIdentity", "PostgresCatalog", "is_catalog", "postgres_types", "strip_schemas"]
