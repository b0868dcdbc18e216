"""Binding: a syntax tree and a catalog of relations become typed expressions and plans.

| function | gives |
|---|---|
| `bind_query` | the logical tree of a query |
| `bind_transform` | the plan over one collection of TRANSFORM USING: only stable functions, no order, no limit |
| `bind_expression` | one scalar expression over columns |
| `bind_change` | what DELETE or UPDATE reads and assigns |
| `bind_values` | the rows of VALUES as Arrow arrays |
| `bind_as_of` | the time of AS OF, in milliseconds |

There is one binder of queries (`queries/`). Whether a tree is a plan over one collection is asked of it by `sql/lower`.

>>> from tidegate.expr.model import types
>>> catalog = DictCatalog({"t": Relation("t", (("id", types.INT8), ("name", types.TEXT)))})
>>> bind_query("SELECT name FROM t WHERE id = 1", catalog).names
('name',)
"""

from tidegate.sql.bind.catalog import CatalogEntry, DictCatalog, Relation, RelationCatalog, ViewRelation
from tidegate.sql.bind.expression import Binder, assignment_cast
from tidegate.sql.bind.modification import BoundChange, bind_change
from tidegate.sql.bind.options import interval_milliseconds
from tidegate.sql.bind.query import (
    bind_as_of,
    bind_expression,
    bind_query,
    bind_transform,
    limited_nesting,
    obstacle_of,
)
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.session import POSTGRES_VERSION, session_constant, session_identity
from tidegate.sql.bind.unknown_literals import literal_places, with_literal_types
from tidegate.sql.bind.values import bind_values

__all__ = [
    "POSTGRES_VERSION",
    "Binder",
    "BoundChange",
    "CatalogEntry",
    "DictCatalog",
    "Relation",
    "RelationCatalog",
    "Scope",
    "ViewRelation",
    "assignment_cast",
    "bind_as_of",
    "bind_change",
    "bind_expression",
    "bind_query",
    "bind_transform",
    "bind_values",
    "interval_milliseconds",
    "limited_nesting",
    "literal_places",
    "obstacle_of",
    "session_constant",
    "session_identity",
    "with_literal_types",
]
