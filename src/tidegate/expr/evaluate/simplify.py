"""Simplifies expressions without changing any outcome: values, NULLs and errors of every row.

    simplify_expression(NOT (a < 5 OR b = 1) AND true AND 2 + 3 > a)      a >= 5 AND b <> 1 AND a < 5

A rule must hold for every outcome of its operands. The order of outcomes makes most of the boolean laws exact: for AND, False
beats an error beats NULL beats True; for OR, True beats an error beats NULL beats False; NOT turns one order into the other, and
keeps errors and NULLs.

| rule | why nothing changes |
|---|---|
| a call of constants becomes a constant | it is the same in every row; a call that fails stays, to fail in rows that reach it |
| `x AND true`, `x OR false` → `x` | every outcome beats the neutral operand |
| `x AND false` → `false`, `x OR true` → `true` | it beats all outcomes, errors included |
| `x AND x` → `x` | the same outcome twice; of two equal errors the smaller is that error |
| `(a AND b) AND c` → `a AND b AND c` | the strongest outcome of all is the strongest of the strongest |
| `NOT NOT x` → `x`, De Morgan | NOT swaps True and False, and with them the two orders |
| `NOT a < b` → `a >= b` | the order is total, NaN included; both are NULL or fail for the same rows |
| `5 < a` → `a > 5` | the same comparison |
| `a::text = '7'` → `a = 7`, a an integer | each integer has one text; `'07'` is the text of no integer, and stays |
| `a = 1 OR a = 2` → `a IN (1, 2)`, likewise NOT IN | IN is that OR; a is NULL, or fails, once instead of twice |
| `(a || b) || c` → one join of three texts | joining is associative, and NULL if any part is |
| CASE drops branches that are never taken, and those behind one that always is | a constant condition fails for no row |

Not valid: `x = x` → `true` (NULL), `x AND NOT x` → `false` (NULL), `x * 0` → `0` (NULL, errors, NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model.build import common_type, numeric_digits
from tidegate.expr.model.function import REGISTRY, Function
from tidegate.expr.model.outcome import spread
from tidegate.expr.model.sort_keys import NAME as SORT_KEY
from tidegate.expr.model.sort_keys import without_sort_key
from tidegate.expr.model.tree import FALSE, TRUE, Call, Expr, Literal, rewrite
from tidegate.expr.model.types import BOOL, INTEGERS, MAX_PRECISION, TEXT, Kind, Type, array
from tidegate.expr.primitives.decimal import to_common_scale

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OTHER = {"and": "or", "or": "and"}
LONGEST_INTEGER = len(str(-(2**63)))


def simplify_expression(expr: Expr) -> Expr:
    """`expr` simplified by the rules above, from the leaves up."""
    return rewrite(expr, _simplify_node)


def _simplify_node(node: Expr) -> Expr:
    """Simplifies a node whose arguments are already simplified."""
    if not isinstance(node, Call):
        return node
    folded = _fold(node)
    if folded is not None:
        return folded
    rule = _RULES.get(node.function.name)
    return node if rule is None else rule(node)


def _fold(call: Call) -> Literal | None:
    """The value of a call of constants; None if it fails, since it must fail only in rows that reach it."""
    if call.function.name == SORT_KEY:
        return None  # EXPLAIN shows the constant, not its key
    if call.function.volatile or not all(isinstance(without_sort_key(arg), Literal) for arg in call.args):
        return None
    (outcome,) = Evaluation([], 1).of(call)
    return (
        Literal(outcome.values[0], call.type)
        if outcome.errors is None or not outcome.errors[0].is_valid
        else None
    )


def _sibling(function: Function, name: str) -> Function | None:
    """The function `name` with the same parameters."""
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
    remaining = _merge_equalities(list(parts), "=" if name == "or" else "<>")
    if len(remaining) < 2:
        return remaining[0] if remaining else neutral
    return Call(call.function, tuple(remaining), BOOL)


def _not(call: Call) -> Expr:
    return _negation(call.args[0], call.function)


def _negation(expr: Expr, negate: Function) -> Expr:
    """NOT expr, with the NOT pushed down as far as possible."""
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
        return _compare_integer(Call(function, (right, left), BOOL))
    return _compare_integer(call)


def _compare_integer(call: Call) -> Call:
    """`a::text = '7'` as `a = 7`, which statistics can decide.

    The order of texts, '10' < '9', is not that of numbers.
    """
    text, constant = call.args
    if call.function.name not in ("=", "<>") or not isinstance(text, Call) or text.function.name != "cast":
        return call
    number = text.args[0]
    if not isinstance(constant, Literal) or number.type not in INTEGERS or text.type != TEXT:
        return call
    value = _integer_of_text(constant.value.as_py(), number.type)
    return call if value is None else Call(call.function, (number, Literal(value, number.type)), BOOL)


def _integer_of_text(text: str | None, type_: Type) -> pa.Scalar | None:
    """The integer whose text is exactly `text`, if there is one."""
    if text is None or not text.removeprefix("-").isdecimal() or len(text) > LONGEST_INTEGER:
        return None
    if str(int(text)) != text:
        return None
    try:
        return pa.scalar(int(text), type_.arrow)
    except (pa.ArrowInvalid, OverflowError):
        return None  # out of range of the type


# ---------------------------------------------------------------- IN


def _merge_equalities(parts: list[Expr], operator: str) -> list[Expr]:
    """Merges `x = c` and `x IN (…)` over the same x, or their negations for AND."""
    lists: dict[tuple[Expr, Type | Kind], list[tuple[int, pa.Array, Type]]] = {}
    for i, part in enumerate(parts):
        match_ = _constants(part, operator)
        if match_ is not None:
            x, values, type_ = match_
            key = Kind.NUMERIC if type_.kind is Kind.NUMERIC else type_
            lists.setdefault((x, key), []).append((i, values, type_))
    result: dict[int, Expr] = dict(enumerate(parts))
    for (x, _), places in lists.items():
        constants = (
            _concat_constants([(values, type_) for _, values, type_ in places]) if len(places) > 1 else None
        )
        if constants is None:
            continue
        for i, _, _ in places:
            del result[i]
        member: Expr = Call(REGISTRY.overloads("in")[0], (x, constants), BOOL)
        if operator == "<>":
            member = Call(REGISTRY.overloads("not")[0], (member,), BOOL)
        result[places[0][0]] = member
    return [result[i] for i in sorted(result)]


def _constants(part: Expr, operator: str) -> tuple[Expr, pa.Array, Type] | None:
    """x and the constants, if `part` is `x = c` or `x IN (…)` (for <>: `x <> c` or `NOT x IN (…)`)."""
    if isinstance(part, Call) and part.function.name == operator:
        x, constant = part.args
        if isinstance(constant, Literal) and not isinstance(x, Literal):
            return x, spread(constant.value, 1), constant.type
    if operator == "<>":
        if not isinstance(part, Call) or part.function.name != "not":
            return None
        part = part.args[0]
    if isinstance(part, Call) and part.function.name == "in":
        x, constants = part.args
        if (
            isinstance(constants, Literal)
            and not constants.is_null
            and constants.type.element is not None
            and len(constants.value.values)
        ):
            return x, constants.value.values, constants.type.element
    return None


def _concat_constants(lists: Sequence[tuple[pa.Array, Type]]) -> Literal | None:
    """One array of all constants; None if no common numeric type holds them all exactly."""
    types = [type_ for _, type_ in lists]
    common = common_type(types)
    if common is None:
        return None
    if common.kind is Kind.NUMERIC:
        whole, scale = (max(part) for part in zip(*map(numeric_digits, types), strict=True))
        if whole + scale > MAX_PRECISION:
            return None
    values = pa.concat_arrays([to_common_scale(values, common.arrow) for values, _ in lists])
    if not common.is_nested and common.identity_is_equality:
        values = values.unique()
    return Literal(pa.ListArray.from_arrays([0, len(values)], values)[0], array(common))


def _in(call: Call) -> Expr:
    """`x IN (c)` as `x = c`."""
    x, values = call.args
    if (
        isinstance(values, Literal)
        and not values.is_null
        and len(values.value.values) == 1
        and values.type.element
    ):
        constant = Literal(values.value.values[0], values.type.element)
        return Call(REGISTRY.overloads("=")[0], (x, constant), BOOL)
    return call


# ---------------------------------------------------------------- ||


def _join(call: Call) -> Expr:
    """Flattens nested concatenations into one call, and joins adjacent constants."""
    if call.type.kind is not Kind.TEXT:
        return call
    function, parts = REGISTRY.overloads("join_all")[0], list[Expr]()
    for arg in call.args:
        inner = isinstance(arg, Call) and arg.function.name in ("||", "join_all")
        for part in arg.args if inner and isinstance(arg, Call) else (arg,):
            both = _fold(Call(function, (parts[-1], part), call.type)) if parts else None
            parts[-1:] = [*parts[-1:], part] if both is None else [both]
    return call if parts == list(call.args) else Call(function, tuple(parts), call.type)


# ---------------------------------------------------------------- CASE, COALESCE


def _case(call: Call) -> Expr:
    """CASE without branches that constants rule out; unchanged if the type would change."""
    branches: list[Expr] = []
    otherwise = call.args[-1]
    for condition, value in zip(call.args[:-1:2], call.args[1:-1:2], strict=True):
        if condition == TRUE:
            otherwise = value
            break
        if not isinstance(condition, Literal):
            branches += [condition, value]
    if not branches:
        return otherwise if otherwise.type == call.type else call
    return Call(call.function, (*branches, otherwise), call.type)


def _coalesce(call: Call) -> Expr:
    """COALESCE without NULLs and without arguments behind a constant."""
    remaining: list[Expr] = []
    for arg in call.args:
        if not isinstance(arg, Literal):
            remaining.append(arg)
        elif not arg.is_null:
            remaining.append(arg)
            break
    if len(remaining) == 1 and remaining[0].type == call.type:
        return remaining[0]
    return Call(call.function, tuple(remaining), call.type) if remaining else call


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
