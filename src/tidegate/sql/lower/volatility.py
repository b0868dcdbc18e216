"""Checks that each volatile call of a query is computed in one place of its tree.

    WITH c AS (SELECT random() AS r) SELECT * FROM c AS a, c AS b      r is one number: c is computed once (`sharing.py`)

`random()` that is written once is one value per row. Engines compute each expression of the tree by itself, so a call that stands
in two expressions would be two values: such a query is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Literal, Now, subexpressions, tree
from tidegate.plan import logical


def check_volatile(query: logical.LogicalQuery) -> logical.LogicalQuery:
    """The query itself; an UnsupportedError if a volatile call stands in several places of its tree."""
    for call, count in Counter(volatile_places(query.rel)).items():
        if count > 1:
            raise UnsupportedError(
                f"{call.function.name}() is used in several places of this query, and would give each another value",
                hint="call it in a common table, which is computed once, or write the rows to a table first",
            )
    return query


def volatile_places(root: logical.Rel) -> Iterator[Call]:
    """The volatile calls of a tree, each as often as there are expressions with it."""
    for rel in logical.walk(root):
        for expr in _expressions(rel, outermost=True):
            yield from dict.fromkeys(subexpressions.volatile_calls(expr))


def uses_now(rel: logical.Rel) -> bool:
    """Whether a tree asks for `mz_now()`."""
    return any(
        tree.has_now(expr) for node in logical.walk(rel) for expr in _expressions(node, outermost=True)
    )


def _expressions(node: Any, *, outermost: bool = False) -> Iterator[Expr]:
    """The expressions of a node itself, not of the nodes below it."""
    if isinstance(node, Call | Column | Literal | Now):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _expressions(item)
    elif is_dataclass(node) and (outermost or not isinstance(node, get_args(logical.Rel))):
        for field in fields(node):
            yield from _expressions(getattr(node, field.name))
