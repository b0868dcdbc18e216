"""CREATE, ALTER and EXPLAIN of sources and connections, and their form in the catalog.

| module | contents |
|---|---|
| `create.py` | CREATE SOURCE: from a statement to a `SourceDefinition` and its shards |
| `draft.py` | the source while it is being created, and checks of its envelope |
| `options.py` | WITH (…) |
| `format.py` | FORMAT …: looks up the schema when a source is created |
| `collections.py` | FOR TABLES …: which collections the source fills |
| `transform.py`, `split.py` | TRANSFORM USING: from a query to a plan; WITH (SPLIT): to a plan and a view |
| `alter.py` | ALTER SOURCE |
| `connection.py` | CREATE CONNECTION |
| `serialize.py` | a source as JSON |
| `explain.py` | EXPLAIN CREATE SOURCE |
"""

from tidegate.ingest.define.alter import alter_source
from tidegate.ingest.define.catalog import load_source, load_source_item
from tidegate.ingest.define.connection import connection_sql, create_connection, redact_source_sql
from tidegate.ingest.define.create import create_source
from tidegate.ingest.define.explain import explain_source
from tidegate.ingest.define.serialize import connection_names

__all__ = [
    "alter_source",
    "connection_names",
    "connection_sql",
    "create_connection",
    "create_source",
    "explain_source",
    "load_source",
    "load_source_item",
    "redact_source_sql",
]
