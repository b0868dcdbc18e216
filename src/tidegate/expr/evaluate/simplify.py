"""Simpler expressions with the same outcomes: values, NULLs and errors, row by row.

    simplified(NOT (a < 5 OR b = 1) AND true AND 2 + 3 > a)      a >= 5 AND b <> 1 AND a < 5

A rule is here only if it holds for every outcome of its parts. The order of outcomes makes most of the boolean laws exact: for
AND, False beats an error beats NULL beats True; for OR, True beats an error beats NULL beats False; NOT turns one order into the
other, and leaves errors and NULLs alone.

| rule | why nothing changes |
|---|---|
| a call of constants becomes a constant | it is the same in every row; one that fails is kept, to fail in rows that reach it |
| `x AND true`, `x OR false` → `x` | the neutral one is beaten by all outcomes |
| `x AND false` → `false`, `x OR true` → `true` | it beats all outcomes, errors included |
| `x AND x` → `x` | the same outcome twice; of two equal errors the smaller is that error |
| `(a AND b) AND c` → `a AND b AND c` | the strongest outcome of all is that of the strongest of each |
| `NOT NOT x` → `x`, De Morgan | NOT swaps True and False, and with them the two orders |
| `NOT a < b` → `a >= b` | the order is total, NaN included; both are NULL or fail for the same rows |
| `5 < a` → `a > 5` | the same comparison |
| `a::text = '7'` → `a = 7`, a an integer | each integer has one text; `'07'` is the text of none, and stays |
| `a = 1 OR a = 2` → `a IN (1, 2)`, likewise NOT IN | IN is that OR; a is NULL, or fails, once instead of twice |
| `(a || b) || c` → one join of three texts | joining is associative, and NULL if any part is |
| CASE without branches that are never taken, or behind one that always is | a condition that is a constant fails for no row |

Not here: `x = x` → `true` (NULL), `x AND NOT x` → `false` (NULL), `x * 0` → `0` (NULL, errors, NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.expr.build import common_type, numeric_digits
from tidegate.expr.evaluate import Evaluation
from tidegate.expr.function import REGISTRY, Function
from tidegate.expr.functions.conditional import rescaled
from tidegate.expr.outcome import spread
from tidegate.expr.tree import FALSE, TRUE, Call, Expr, Literal, rewrite
from tidegate.expr.types import BOOL, INTEGERS, MAX_PRECISION, TEXT, Kind, Type, array

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OTHER = {"and": "or", "or": "and"}
LONGEST_INTEGER = len(str(-(2**63)))


def simplified(expr: Expr) -> Expr:
    """`expr` by the rules above, from the leaves up."""
    return rewrite(expr, _simpler)


def _simpler(node: Expr) -> Expr:
    """One node whose arguments are simple already."""
    if not isinstance(node, Call):
        return node
    folded = _folded(node)
    if folded is not None:
        return folded
    rule = _RULES.get(node.function.name)
    return node if rule is None else rule(node)


def _folded(call: Call) -> Literal | None:
    """The value of a call of constants, or None if it has none to give: a failure must stay a failure of rows."""
    if not all(isinstance(arg, Literal) for arg in call.args):
        return None
    (outcome,) = Evaluation([], 1).of(call)
    return (
        Literal(outcome.values[0], call.type)
        if outcome.errors is None or not outcome.errors[0].is_valid
        else None
    )


def _sibling(function: Function, name: str) -> Function | None:
    """The function of another name over the same parameters."""
    return next((f for f in REGISTRY.overloads(name) if f.params == function.params), None)


# ---------------------------------------------------------------- AND, OR, NOT


def _junction(call: Call) -> Expr:
    name = call.function.name
    neutral, deciding = (TRUE, FALSE) if name == "and" else (FALSE, TRUE)
    parts: dict[Expr, None] = {}
    for arg in call.args:
        inner = arg.args if isinstance(arg, Call) and arg.function is call.function else (arg,)
        parts.update(dict.fromkeys(inner))
    if deciding in parts:
        return deciding
    parts.pop(neutral, None)
    kept = _gathered(list(parts), "=" if name == "or" else "<>")
    if len(kept) < 2:
        return kept[0] if kept else neutral
    return Call(call.function, tuple(kept), BOOL)


def _not(call: Call) -> Expr:
    return _negation(call.args[0], call.function)


def _negation(expr: Expr, negate: Function) -> Expr:
    """NOT expr, with the NOT as far inside as it goes."""
    if expr in (TRUE, FALSE):
        return FALSE if expr == TRUE else TRUE
    if not isinstance(expr, Call):
        return Call(negate, (expr,), BOOL)
    name = expr.function.name
    if name == "not":
        return expr.args[0]
    if name in _NEGATED:
        function = _sibling(expr.function, _NEGATED[name])
        if function is not None:
            return Call(function, expr.args, BOOL)
    if name in _OTHER:
        other = REGISTRY.overloads(_OTHER[name])[0]
        return _junction(Call(other, tuple(_negation(arg, negate) for arg in expr.args), BOOL))
    return Call(negate, (expr,), BOOL)


def _comparison(call: Call) -> Expr:
    left, right = call.args
    function = _sibling(call.function, _SWAPPED[call.function.name])
    if isinstance(left, Literal) and not isinstance(right, Literal) and function is not None:
        return _of_digits(Call(function, (right, left), BOOL))
    return _of_digits(call)


def _of_digits(call: Call) -> Call:
    """`a::text = '7'` as `a = 7`, which statistics can tell about: the order of texts, '10' < '9', is not that of numbers."""
    text, constant = call.args
    if call.function.name not in ("=", "<>") or not isinstance(text, Call) or text.function.name != "cast":
        return call
    number = text.args[0]
    if not isinstance(constant, Literal) or number.type not in INTEGERS or text.type != TEXT:
        return call
    value = _spelled(constant.value.as_py(), number.type)
    return call if value is None else Call(call.function, (number, Literal(value, number.type)), BOOL)


def _spelled(text: str | None, type_: Type) -> pa.Scalar | None:
    """The integer of which the cast to text makes exactly this text, if there is one."""
    if text is None or not text.removeprefix("-").isdecimal() or len(text) > LONGEST_INTEGER:
        return None
    if str(int(text)) != text:
        return None
    try:
        return pa.scalar(int(text), type_.arrow)
    except (pa.ArrowInvalid, OverflowError):
        return None  # beyond the type


# ---------------------------------------------------------------- IN


def _gathered(parts: list[Expr], operator: str) -> list[Expr]:
    """The parts, with `x = c` and `x IN (…)` over the same x (or their negations, for AND) made one."""
    lists: dict[tuple[Expr, Type | Kind], list[tuple[int, pa.Array, Type]]] = {}
    for i, part in enumerate(parts):
        found = _constants(part, operator)
        if found is not None:
            x, values, type_ = found
            key = Kind.NUMERIC if type_.kind is Kind.NUMERIC else type_
            lists.setdefault((x, key), []).append((i, values, type_))
    result: dict[int, Expr] = dict(enumerate(parts))
    for (x, _), found_at in lists.items():
        joined = _joined([(values, type_) for _, values, type_ in found_at]) if len(found_at) > 1 else None
        if joined is None:
            continue
        for i, _, _ in found_at:
            del result[i]
        member: Expr = Call(REGISTRY.overloads("in")[0], (x, joined), BOOL)
        if operator == "<>":
            member = Call(REGISTRY.overloads("not")[0], (member,), BOOL)
        result[found_at[0][0]] = member
    return [result[i] for i in sorted(result)]


def _constants(part: Expr, operator: str) -> tuple[Expr, pa.Array, Type] | None:
    """x and the constants, if `part` is `x = c` or `x IN (…)` (for <>: `x <> c` or `NOT x IN (…)`)."""
    if isinstance(part, Call) and part.function.name == operator:
        x, one = part.args
        if isinstance(one, Literal) and not isinstance(x, Literal):
            return x, spread(one.value, 1), one.type
    if operator == "<>":
        if not isinstance(part, Call) or part.function.name != "not":
            return None
        part = part.args[0]
    if isinstance(part, Call) and part.function.name == "in":
        x, many = part.args
        if (
            isinstance(many, Literal)
            and not many.is_null
            and many.type.element is not None
            and len(many.value.values)
        ):
            return x, many.value.values, many.type.element
    return None


def _joined(lists: Sequence[tuple[pa.Array, Type]]) -> Literal | None:
    """One array of all constants; None where numerics have no common type that holds them all exactly."""
    types = [type_ for _, type_ in lists]
    common = common_type(types)
    if common is None:
        return None
    if common.kind is Kind.NUMERIC:
        whole, scale = (max(part) for part in zip(*map(numeric_digits, types), strict=True))
        if whole + scale > MAX_PRECISION:
            return None
    values = pa.concat_arrays([rescaled(values, common.arrow) for values, _ in lists])
    if not common.is_nested and common.identity_is_equality:
        values = values.unique()
    return Literal(pa.ListArray.from_arrays([0, len(values)], values)[0], array(common))


def _in(call: Call) -> Expr:
    """A list of one constant is an equation."""
    x, values = call.args
    if (
        isinstance(values, Literal)
        and not values.is_null
        and len(values.value.values) == 1
        and values.type.element
    ):
        one = Literal(values.value.values[0], values.type.element)
        return Call(REGISTRY.overloads("=")[0], (x, one), BOOL)
    return call


# ---------------------------------------------------------------- ||


def _join(call: Call) -> Expr:
    """Texts joined to joined texts in one call, and constants that came to stand side by side as one."""
    if call.type.kind is not Kind.TEXT:
        return call
    function, parts = REGISTRY.overloads("join_all")[0], list[Expr]()
    for arg in call.args:
        inner = isinstance(arg, Call) and arg.function.name in ("||", "join_all")
        for part in arg.args if inner and isinstance(arg, Call) else (arg,):
            both = _folded(Call(function, (parts[-1], part), call.type)) if parts else None
            parts[-1:] = [*parts[-1:], part] if both is None else [both]
    return call if parts == list(call.args) else Call(function, tuple(parts), call.type)


# ---------------------------------------------------------------- CASE, COALESCE


def _case(call: Call) -> Expr:
    """Without the branches that constants rule out. What is left keeps its type, or all is left as it was."""
    kept: list[Expr] = []
    otherwise = call.args[-1]
    for condition, value in zip(call.args[:-1:2], call.args[1:-1:2], strict=True):
        if condition == TRUE:
            otherwise = value
            break
        if not isinstance(condition, Literal):
            kept += [condition, value]
    if not kept:
        return otherwise if otherwise.type == call.type else call
    return Call(call.function, (*kept, otherwise), call.type)


def _coalesce(call: Call) -> Expr:
    """Without NULLs, and without what stands behind a constant."""
    kept: list[Expr] = []
    for arg in call.args:
        if not isinstance(arg, Literal):
            kept.append(arg)
        elif not arg.is_null:
            kept.append(arg)
            break
    if len(kept) == 1 and kept[0].type == call.type:
        return kept[0]
    return Call(call.function, tuple(kept), call.type) if kept else call


_RULES: dict[str, Callable[[Call], Expr]] = {
    "and": _junction,
    "or": _junction,
    "not": _not,
    **dict.fromkeys(_NEGATED, _comparison),
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "||": _join,
}
