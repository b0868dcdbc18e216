"""Filters of Spark as conditions of ours: this is how filters on any DataFrame prune parts.

While Spark plans, it passes the conjuncts of every filter above the relation to a FileIndex, as Catalyst expressions: resolved,
typed, optimised, with constants folded (`current_timestamp() - INTERVAL 30 DAYS` is a literal by then).

    translate(expression, {"ts": (2, TIMESTAMPTZ), "payload": (3, JSONB)})   →  Expr, or None: prunes nothing

The promise, for every row: where our condition is false or NULL, Spark's does not pass. So a part can be pruned if our condition
is never true in it and never fails. Spark evaluates its own filter again on all rows that are read, so a condition that passes too
much costs time and nothing else.

| file | |
|---|---|
| `catalyst_tree.py` | the tree out of the JVM; exact literals |
| `value.py` | what a translation promises; columns, fields, elements |
| `pairs.py` | nodes that mean the same as a function of ours, by its declared Spark form |
| `conditions.py` | comparisons, AND, OR, NOT, IN, CASE; conditions from above |
| `numbers.py`, `time.py`, `text.py`, `json.py` | functions and casts by subject |
| `zones.py` | time zones |

`tests/spark/test_catalyst.py` compares each translation with Spark itself, value by value, in three zones, with ANSI on and off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.expr.model import Expr, Type, types
from tidegate.spark.translate import json as catalyst_json
from tidegate.spark.translate import numbers as catalyst_number
from tidegate.spark.translate import text as catalyst_text
from tidegate.spark.translate import time as catalyst_time
from tidegate.spark.translate.catalyst_tree import tree_of
from tidegate.spark.translate.conditions import above
from tidegate.spark.translate.value import SparkValue, TranslationScope

_TRANSLATOR_MODULES = (catalyst_json, catalyst_number, catalyst_text, catalyst_time)
"""Imported for the translators that they register."""
_UNKNOWN = (TidegateError, pa.ArrowInvalid, OverflowError, RecursionError)


def translate(expression: Any, columns: Mapping[str, tuple[int, Type]]) -> Expr | None:
    """Returns a condition that passes or fails wherever Spark's passes; None if there is none.

    `columns` maps the names that the relation shows to position and type in the collection.
    """
    try:
        condition = above(TranslationScope(columns), tree_of(expression))
    except _UNKNOWN:
        return None  # Spark has types and constants that we do not have
    return condition if condition is not None and condition.type == types.BOOL else None


def value_of(expression: Any, columns: Mapping[str, tuple[int, Type]]) -> SparkValue | None:
    """Translates an expression of any type; for tests."""
    try:
        return TranslationScope(columns).value(tree_of(expression))
    except _UNKNOWN:
        return None
