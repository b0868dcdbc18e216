"""Abstract interpretation: what an expression may be in each part, from statistics alone.

    interpretation = Interpretation([Specs.ranged(types.INT8, low, high)], now=(as_of, as_of))
    interpretation.of(condition).verdict()       # NONE, SOME or ALL for each part

A `Specs` describes the possible values in n containers at once (parts, row groups, pages) as a few arrays: whether NULL or an
error may occur, bounds, and for JSON a `JsonDomain`. Interpretation follows the expression from its columns up; each function
declares how it transforms Specs. The result is sound: what a container holds is always among what its Specs admits.

| module | contents |
|---|---|
| `specs` | `Specs` and `Verdict` |
| `json_domain` | the possible values of JSON, by JSON type and key |
| `interpret` | the Specs of an expression from those of its columns |
| `transfer` | Specs of a call from the function's trend and errors; helpers for functions with their own transfer |
| `json_transfer` | transfers of JSON access |
| `claims` | building blocks of transfers: claims under a condition, constant arguments, bounds |
| `text_prefix` | ranges of texts by their common prefix |
| `reasons` | why a condition keeps or prunes a part, in words |

The sub-room rests on `expr.model` and `expr.primitives`.
"""

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.json_domain import JsonDomain, JsonRange
from tidegate.expr.domain.reasons import explain_verdict, pruning_obstacle
from tidegate.expr.domain.specs import NO, YES, Specs, Verdict
from tidegate.expr.domain.text_prefix import common_prefix, successor
from tidegate.expr.domain.transfer import any_of

__all__ = [
    "NO",
    "YES",
    "Interpretation",
    "JsonDomain",
    "JsonRange",
    "Specs",
    "Verdict",
    "any_of",
    "common_prefix",
    "constant",
    "explain_verdict",
    "pruning_obstacle",
    "successor",
]
