"""One function a statement: it takes a `Context` and a parsed statement, and returns a `Result`.

    execute(context, "CREATE TABLE t (id int8); INSERT INTO t VALUES (1); SELECT * FROM t")     the result of the last one

| module | statements |
|---|---|
| `execute.py` | which function runs which statement |
| `select.py` | SELECT: bind, pin a snapshot, choose a path, run |
| `pinned.py` | binds a query and pins what it reads |
| `insert.py`, `modify.py` | INSERT; DELETE and UPDATE |
| `define.py`, `drop.py` | CREATE TABLE, CREATE VIEW, ALTER TABLE; DROP |
| `explain.py`, `show.py` | EXPLAIN; SHOW |
| `append.py`, `maintain.py`, `status.py` | `db.append`; `db.recluster` and statistics; `db.status` |
| `observe.py` | metrics and log records of each statement |
| `preview/` | what a query would read, for the web pages |

CREATE SOURCE and CREATE CONNECTION are in `ingest/define`. Queries that are more than one collection go to the context's engine.
"""

from tidegate.statements.append import append
from tidegate.statements.define import DEFAULTS
from tidegate.statements.execute import execute, kind_of
from tidegate.statements.maintain import backfill_statistics, recluster
from tidegate.statements.modify import plan_modification
from tidegate.statements.pinned import Pinned, pin, pinned
from tidegate.statements.select import columns_of
from tidegate.statements.status import CollectionStatus, Status, status

__all__ = [
    "DEFAULTS",
    "CollectionStatus",
    "Pinned",
    "Status",
    "append",
    "backfill_statistics",
    "columns_of",
    "execute",
    "kind_of",
    "pin",
    "pinned",
    "plan_modification",
    "recluster",
    "status",
]
