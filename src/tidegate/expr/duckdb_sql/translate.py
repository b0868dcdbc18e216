"""An expression as DuckDB SQL that means exactly the same, if there is one.

    duckdb_sql(price * 2 > 10, ["c0"])         "(CAST((c0 * CAST('2' AS DECIMAL(1,0))) AS …) > …)"
    duckdb_sql(payload ->> 'ts', ["c0"])       None: the function has no DuckDB form

Each function declares its form (`forms.py`); this module only walks the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from tidegate.expr.duckdb_sql.forms import FallibleText
from tidegate.expr.duckdb_sql.literals import literal_sql
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, walk

MAX_CHARACTERS = 20_000
"""A longer text is given up: our evaluator is faster than parsing it."""


def duckdb_sql(expr: Expr, columns: Sequence[str], *, may_fail: bool = False) -> str | None:
    """SQL that equals `expr` for every row, or None; `columns[i]` is the text of column i.

    It never fails; with `may_fail` it may fail for rows for which `expr` does.
    """
    texts: dict[Expr, str] = {}
    fallible: set[Expr] = set()
    for node in walk(expr):
        text = _node_sql(node, columns, texts)
        if text is None or len(text) > MAX_CHARACTERS:
            return None
        if isinstance(text, FallibleText):
            fallible.add(node)
        if fallible and not may_fail:
            return None
        if isinstance(node, Call) and node.function.name in ("and", "or") and fallible:
            return None  # DuckDB asks the operands in an order of its own
        texts[node] = text
    return texts[expr]


def _node_sql(node: Expr, columns: Sequence[str], texts: Mapping[Expr, str]) -> str | None:
    match node:
        case Column(index):
            return columns[index]
        case Literal():
            return literal_sql(node)
        case Now():
            return None
        case Call(function, args):
            form, arguments = function.duckdb, [texts[arg] for arg in args]
            if form is None or isinstance(form, str):
                return None if form is None else form.format(*arguments)
            return form(node, arguments)
        case _:
            assert_never(node)
