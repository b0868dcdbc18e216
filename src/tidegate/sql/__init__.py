"""SQL text to statements, typed expressions and plans, over a catalog that is passed in.

| sub-room | does | start with |
|---|---|---|
| `parse` | text → tokens → syntax trees, each node with its position | `parse_statements(sql)` |
| `bind` | syntax trees and a catalog → typed expressions and the logical tree | `bind_query(query, catalog, now_ms)` |
| `lower` | is the tree a plan over one collection; rules that prepare it for engines | `single_collection(query)` |

`prepare` (`prepared.py`) binds and asks, and `PreparedStatements` caches what was prepared before. The room rests on `expr`
(types, functions) and `plan` (MapFilterProject, the logical tree).

>>> from tidegate.expr.model import types
>>> from tidegate.sql.bind import bind_expression
>>> str(bind_expression("price * 2 > 10", [("price", types.INT8)]).type)
'boolean'
"""

from tidegate.sql.prepared import PreparedQuery, PreparedStatements, prepare

__all__ = ["PreparedQuery", "PreparedStatements", "prepare"]
