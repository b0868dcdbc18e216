"""Sort keys: what is compared and sorted in place of jsonb.

The text of jsonb says which values are equal, but not which one is less: '10' < '9'. So whatever orders jsonb orders its keys,
which are bytes (`primitives/json/sort_key.py`), and no engine has to know the order of jsonb:

| written | planned |
|---|---|
| `a < b`, `a < ANY (array)`, for jsonb and for arrays and records that hold it | `sort key(a) < sort key(b)`: `build.call` |
| `ORDER BY a`, also of windows and aggregates | `ORDER BY sort key(a)`: `sql/lower` |
| `min(a)` | `from sort key(min(sort key(a)))`: the binder |
| `a = b`, IN, GROUP BY, DISTINCT, joins | as written: equal values have equal text |

EXPLAIN shows expressions as they were written.
"""

from __future__ import annotations

from tidegate.errors import TypeMismatch
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Call, Expr
from tidegate.expr.model.types import Type

NAME = "sort key"
_COMPARE = frozenset(f"{word}{sign}" for word in ("", "any ", "all ") for sign in ("<", "<=", ">", ">="))
_CHOOSE = ("greatest", "least")


def arguments(name: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The arguments of a call of `name`: the sort keys, if it compares them by order."""
    if name in _COMPARE:
        return tuple(map(sort_key, args))
    for arg in args if name in _CHOOSE else ():
        if arg.type.is_nested and arg.type.sorts_by_key:
            raise TypeMismatch(
                f"{name} does not take {arg.type}", hint="CASE WHEN a > b THEN a ELSE b END compares them"
            )
    return args


def sort_key(expr: Expr) -> Expr:
    """What sorts and compares as `expr` does: itself, or for jsonb its key."""
    if not expr.type.sorts_by_key:
        return expr
    function = REGISTRY.overloads(NAME)[0]
    return Call(function, (expr,), function.result_type([expr.type]))


def without_sort_key(expr: Expr) -> Expr:
    """What a sort key is made of; any other expression as it is."""
    return expr.args[0] if isinstance(expr, Call) and expr.function.name == NAME else expr


def from_sort_key(key: Expr, type_: Type) -> Expr:
    """The value of `type_` whose sort key is `key`."""
    return Call(REGISTRY.overloads("from sort key")[0], (key,), type_) if type_.sorts_by_key else key
