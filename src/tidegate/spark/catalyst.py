"""Filters of Spark as conditions of ours: what lets any DataFrame prune.

While Spark plans, it hands a FileIndex the conjuncts of every filter above the relation, as Catalyst expressions: resolved,
typed, optimised, with constants folded (`current_timestamp() - INTERVAL 30 DAYS` is a literal by then).

    translate(expression, {"ts": (2, TIMESTAMPTZ), "payload": (3, JSONB)})   →  Expr, or None: prunes nothing

The promise, for every row: where our condition is false or NULL, Spark's does not pass. So a part in which ours is never true
and never fails can be skipped. Spark asks its own filter again of all rows that are read, so a condition that passes too much
costs time and nothing else.

| file | |
|---|---|
| `catalyst_tree.py` | the tree out of the JVM; exact literals |
| `catalyst_value.py` | what a translation promises; columns, fields, elements |
| `catalyst_condition.py` | comparisons, AND, OR, NOT, IN, CASE; conditions from above |
| `catalyst_number.py`, `catalyst_time.py`, `catalyst_text.py`, `catalyst_json.py` | functions and casts by subject |
| `catalyst_zone.py` | time zones |

`tests/spark/test_catalyst.py` compares each translation with Spark itself, value by value, in three zones, with ANSI on and off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.expr.tree import Expr
from tidegate.expr.types import BOOL, Type
from tidegate.spark import catalyst_json, catalyst_number, catalyst_text, catalyst_time
from tidegate.spark.catalyst_condition import above
from tidegate.spark.catalyst_tree import tree_of
from tidegate.spark.catalyst_value import Context, Value

_ROOMS = (catalyst_json, catalyst_number, catalyst_text, catalyst_time)
"""Imported for what they register."""
_UNKNOWN = (TidegateError, pa.ArrowInvalid, OverflowError, RecursionError)


def translate(expression: Any, columns: Mapping[str, tuple[int, Type]]) -> Expr | None:
    """A condition that passes or fails wherever Spark's passes; None if nothing can be said.

    `columns` are those of the collection, by the name that the relation shows: position and type.
    """
    try:
        found = above(Context(columns), tree_of(expression))
    except _UNKNOWN:
        return None  # a type or a constant that we do not have: Spark has more of both
    return found if found is not None and found.type == BOOL else None


def value_of(expression: Any, columns: Mapping[str, tuple[int, Type]]) -> Value | None:
    """The translation of an expression of any type, for tests and for EXPLAIN."""
    try:
        return Context(columns).value(tree_of(expression))
    except _UNKNOWN:
        return None
