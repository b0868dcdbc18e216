"""SQL text to statements, typed expressions and plans, over a catalog that is passed in.

| sub-room | does | start with |
|---|---|---|
| `parse` | text → tokens → syntax trees, each node with its position | `parse_statements(sql)` |
| `bind` | syntax trees and a catalog → typed expressions and plans | `bind_query(query, catalog, now_ms)` |
| `lower` | rules over the logical tree: push conditions down, keep demanded columns | `push_down(query)` |

`PreparedStatements` (`prepared.py`) caches what was parsed and bound before. The room rests on `expr` (types, functions) and
`plan` (MapFilterProject, the logical tree).

>>> from tidegate.expr.model import types
>>> from tidegate.sql.bind import bind_expression
>>> str(bind_expression("price * 2 > 10", [("price", types.INT8)]).type)
'boolean'
"""

from tidegate.sql.prepared import PreparedStatements

__all__ = ["PreparedStatements"]
