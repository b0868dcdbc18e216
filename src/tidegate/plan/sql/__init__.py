"""The logical tree of a query as SQL of an engine.

    SqlWriter(query, views, dialect).whole()       SELECT c6 AS o0 FROM (SELECT … FROM tg_scan_0) …

| module | contents |
|---|---|
| `writer` | `SqlWriter`: relational operators, which all engines write alike |
| `dialect` | `Dialect`: what differs between engines |
| `common_tables` | WITH: what is computed once |
| `condition_columns` | subqueries that are whole conditions, and stand in WHERE |
"""

from tidegate.plan.sql.dialect import Dialect
from tidegate.plan.sql.writer import SqlWriter

__all__ = ["Dialect", "SqlWriter"]
