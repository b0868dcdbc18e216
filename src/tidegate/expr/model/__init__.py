"""The language of scalar expressions: types, trees, function declarations and outcomes.

    condition = build.call(">=", build.call("+", Column(0, types.TIMESTAMPTZ, "at"), build.text("30 days")), Now())
    show(condition)                     # at + '30 days' >= mz_now()

An expression is a tree of four node kinds (`Column`, `Literal`, `Now`, `Call`). `build.call` chooses the overload from `REGISTRY`
and inserts casts. Evaluation yields an `Outcome`: values, and the errors of rows that failed.

| module | contents |
|---|---|
| `types` | SQL types: names, Arrow and Spark forms |
| `tree` | expression nodes and walks over them |
| `subexpressions` | several expressions at once: costs, common subexpressions, replacements |
| `function` | the declaration of a scalar function, and the registry of all |
| `build` | overload resolution, implicit casts, typed constants |
| `common_type`, `literal_types` | the type that several types have in common; that of a string literal beside others |
| `outcome` | values with row errors, and Arrow/numpy conversions that kernels share |
| `order`, `sort_keys` | the one order relation of every type; what jsonb is ordered by |
| `printer` | expressions as SQL text |
| `serialize` | expressions and types as JSON |

This sub-room rests on `tidegate.errors` and `tidegate.text` only. Functions are declared in `tidegate.expr.functions`, not here.
"""

from tidegate.expr.model import build, order, outcome, serialize, subexpressions, tree, types
from tidegate.expr.model.function import REGISTRY, Cost, ErrorClaim, Function
from tidegate.expr.model.outcome import Outcome, to_bools, to_numpy
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, permute, support, walk
from tidegate.expr.model.types import Kind, Type

__all__ = [
    "REGISTRY",
    "Call",
    "Column",
    "Cost",
    "ErrorClaim",
    "Expr",
    "Function",
    "Kind",
    "Literal",
    "Now",
    "Outcome",
    "Type",
    "build",
    "order",
    "outcome",
    "permute",
    "serialize",
    "show",
    "subexpressions",
    "support",
    "to_bools",
    "to_numpy",
    "tree",
    "types",
    "walk",
]
