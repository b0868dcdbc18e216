"""What a query would read, from metadata alone: for `db.maps` and the web pages.

| module | holds |
|---|---|
| `part_map.py` | the parts of a collection as rectangles over two axes, and what statistics say of its columns |
| `query_map.py` | which of them a query would read, and what each condition prunes |
| `views.py` | views with what they read |
"""

from tidegate.statements.preview.part_map import PART_AXES, Axis, ColumnFacts, PartMap
from tidegate.statements.preview.query_map import (
    CollectionPreview,
    ConditionEffect,
    Maps,
    PartFacts,
    QueryMap,
)
from tidegate.statements.preview.views import ViewFacts, view_facts

__all__ = [
    "PART_AXES",
    "Axis",
    "CollectionPreview",
    "ColumnFacts",
    "ConditionEffect",
    "Maps",
    "PartFacts",
    "PartMap",
    "QueryMap",
    "ViewFacts",
    "view_facts",
]
