"""One function a statement: it takes a `Context` and a parsed statement, and returns a `Result`.

    execute(context, "CREATE TABLE t (id int8); INSERT INTO t VALUES (1); SELECT * FROM t")     the result of the last one

| module | statements |
|---|---|
| `execute.py` | which function runs which statement |
| `select.py` | SELECT: bind, pin a snapshot, choose a path, run |
| `general.py` | queries of several collections: chooses the embedded engine or Spark |
| `pinned.py` | binds a query and pins what it reads |
| `insert.py`, `modify.py` | INSERT; DELETE and UPDATE |
| `tables/` | CREATE TABLE, ALTER TABLE, TRUNCATE, COMMENT |
| `define.py`, `drop.py` | CREATE VIEW; DROP |
| `prepared.py` | PREPARE, EXECUTE, DEALLOCATE |
| `explain.py`, `show.py` | EXPLAIN; SHOW |
| `postgres_settings.py` | SET and SHOW of PostgreSQL's settings |
| `append.py`, `maintain.py`, `status/` | `db.append`; `db.recluster` and statistics; `db.status` |
| `observe.py` | metrics and log records of each statement |
| `preview/` | what a query would read, for the web pages |

CREATE SOURCE and CREATE CONNECTION are in `ingest/define`.
"""

from tidegate.statements.append import append
from tidegate.statements.define import DEFAULTS
from tidegate.statements.execute import execute, explain_last, kind_of
from tidegate.statements.general import relational_query
from tidegate.statements.insert import default_of
from tidegate.statements.maintain import backfill_statistics, recluster
from tidegate.statements.modify import bind_returning
from tidegate.statements.pinned import Pinned, pin, pin_select, pinned
from tidegate.statements.postgres_settings import duration_text, milliseconds_of
from tidegate.statements.prepared import prepared_columns
from tidegate.statements.select import columns_of
from tidegate.statements.status import CollectionStatus, Status, contents, source_statuses, status

__all__ = [
    "DEFAULTS",
    "CollectionStatus",
    "Pinned",
    "Status",
    "append",
    "backfill_statistics",
    "bind_returning",
    "columns_of",
    "contents",
    "default_of",
    "duration_text",
    "execute",
    "explain_last",
    "kind_of",
    "milliseconds_of",
    "pin",
    "pin_select",
    "pinned",
    "prepared_columns",
    "recluster",
    "relational_query",
    "source_statuses",
    "status",
]
