"""Binds a statement that changes rows to one query: MERGE, UPDATE … FROM, ON CONFLICT, RETURNING.

    MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)

    Filter #action IS NOT NULL
      Map  #action, new id, new n
        Join left  s.id = t.id
          Scan s
          Scan t                      with the address of each row: its part, its position, how often it is stored

The rows of the query are what is to be done: which row of the table goes, and what comes in its place. A statement without FROM,
subqueries and RETURNING needs no such query (`modification.py`).

| module | contents |
|---|---|
| `change_query` | `ChangeQuery`: the query, and what its columns mean |
| `tree` | the tree of a statement while it is bound |
| `assignments` | SET, and the values of INSERT |
| `update` | UPDATE and DELETE |
| `merge` | MERGE |
| `insert` | INSERT with ON CONFLICT or RETURNING |
"""

from tidegate.sql.changes.change_query import Action, ChangeColumns, ChangeQuery, ChangeTarget, needs_query
from tidegate.sql.changes.insert import bind_insert
from tidegate.sql.changes.merge import bind_merge
from tidegate.sql.changes.update import bind_update

__all__ = [
    "Action",
    "ChangeColumns",
    "ChangeQuery",
    "ChangeTarget",
    "bind_insert",
    "bind_merge",
    "bind_update",
    "needs_query",
]
