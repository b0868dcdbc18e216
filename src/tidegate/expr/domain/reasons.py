"""Explains why a filter keeps or prunes a part: each condition with its outcomes and deciding bounds.

For `created_at + '30 days' >= mz_now() AND lower(name) = 'x'` over a part with created_at in 2024-01-01 .. 2024-01-05:

    created_at + '30 days' >= mz_now() is false: created_at + '30 days' is 2024-01-31 .. 2024-02-04; mz_now() is >= 2024-03-01
    lower(name) = 'x' is true, false or NULL: lower(name) is unknown: lower has no trend

A lost bound is traced down the expression to the first node that has none although its arguments do: that node's function, or the
missing statistics of a column, is the obstacle. `pruning_obstacle` finds what keeps a condition from pruning any part at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.build import conjuncts
from tidegate.expr.model.function import ANYWHERE
from tidegate.expr.model.printer import show, show_value, text_of
from tidegate.expr.model.sort_keys import without_sort_key
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, walk
from tidegate.expr.model.types import Kind, Type
from tidegate.expr.primitives.json import sort_key

_JUNCTIONS = ("and", "or", "not")
_TIMES = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.UUID)
_NULL_TESTS = ("is null",)
"""Conditions that counts of nulls decide, whatever the bounds."""


def explain_verdict(condition: Expr, interpretation: Interpretation, part: int) -> list[str]:
    """One line for each conjunct: its possible outcomes in the part, and why."""
    return [_reason(conjunct, interpretation, part) for conjunct in conjuncts(condition)]


def _reason(condition: Expr, interpretation: Interpretation, part: int) -> str:
    specs = interpretation.of(condition)
    because: dict[str, None] = {}
    for operand in _operands(condition):
        because[describe(operand, interpretation, part)] = None
    if _at(specs.error, part):
        because[f"may fail: {show(_failing(condition, interpretation, part))}"] = None
    details = "; ".join(because)
    return f"{show(condition)} is {_outcomes(specs, part)}" + (f": {details}" if details else "")


def _operands(condition: Expr) -> list[Expr]:
    """The arguments of a condition's comparisons that are not constants."""
    if not isinstance(condition, Call):
        return []
    if condition.function.name in _JUNCTIONS:
        return [operand for arg in condition.args for operand in (_operands(arg) or [arg])]
    return [_without_cast(arg) for arg in condition.args if not isinstance(without_sort_key(arg), Literal)]


def _without_cast(expr: Expr) -> Expr:
    """`mz_now()` itself where the comparison casts it, else `expr`."""
    cast = isinstance(expr, Call) and expr.function.name == "cast" and isinstance(expr.args[0], Now)
    return expr.args[0] if cast and isinstance(expr, Call) else expr


def describe(expr: Expr, interpretation: Interpretation, part: int) -> str:
    """The possible values of an expression in a part, in words: `x is 1 .. 5 or NULL`."""
    specs, value = interpretation.of(expr), without_sort_key(expr)
    by_key = value is not expr
    text = f"{show(value)} is {_words(specs, part, by_key=by_key)}"
    if specs.true is None and _lost(specs, part, by_key=by_key):
        text += f": {_loss(value, interpretation, part)}"
    return text


def _outcomes(specs: Specs, part: int) -> str:
    """The possible outcomes of a condition, in words."""
    assert specs.true is not None
    assert specs.false is not None
    flags = {"true": specs.true, "false": specs.false, "NULL": specs.null, "an error": specs.error}
    words = [word for word, flag in flags.items() if _at(flag, part)]
    return (
        " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        or "nothing: there are no rows"
    )


def _words(specs: Specs, part: int, *, by_key: bool = False) -> str:
    if specs.true is not None:
        return _outcomes(specs, part)
    words = []
    if not _at(specs.empty, part):
        words.append(_range(specs, part, by_key=by_key))
        if specs.nan is not None and _at(specs.nan, part) and not _lost(specs, part):
            words.append("NaN")
    if _at(specs.null, part):
        words.append("NULL")
    return " or ".join(words) or "never a value"


def _range(specs: Specs, part: int, *, by_key: bool = False) -> str:
    """The range of values in words; `by_key`: the bounds are sort keys of JSON."""
    ends = [bound[part if len(bound) > 1 else 0] for bound in specs.bounds()]
    if by_key and specs.type.kind is Kind.BYTEA:
        low, high = (sort_key.show_bound(end.as_py()) if end.is_valid else None for end in ends)
        if low != high:
            low, high = (None if low == "[]" else low), (None if high == "any object" else high)
    else:
        low, high = (_value(end, specs.type) for end in ends)
    if low == "''":
        low = None  # the least of all texts
    if low is None and high is None:
        return "unknown"
    if low is None or high is None:
        return f"<= {high}" if low is None else f">= {low}"
    return low if low == high else f"{low} .. {high}"


def _value(value: pa.Scalar, type_: Type) -> str | None:
    """A bound as text: times without quotes, midnight and zone; None if unbounded."""
    if not value.is_valid:
        return None
    if type_.kind is Kind.MZ_TIMESTAMP:
        return _moment(value.as_py())
    if type_.kind in _TIMES:
        text = text_of(value, type_).removesuffix("+00")
        return text.removesuffix(" 00:00:00") if type_.kind is not Kind.INTERVAL else text
    return show_value(value, type_)


def _moment(milliseconds: int) -> str:
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    text = at.replace(tzinfo=None).isoformat(" ", "milliseconds").removesuffix(".000")
    return text.removesuffix(" 00:00:00")


def _at(flags: np.ndarray, part: int) -> bool:
    return bool(flags[part if len(flags) > 1 else 0])


def _lost(specs: Specs, part: int, *, by_key: bool = False) -> bool:
    """Whether the values are entirely unknown."""
    if specs.true is not None and specs.false is not None:
        return _at(specs.true, part) and _at(specs.false, part)
    if (
        _at(specs.empty, part)
        or specs.json is not None
        or specs.fields is not None
        or specs.element is not None
    ):
        return False
    return _range(specs, part, by_key=by_key) == "unknown"


def _loss(expr: Expr, interpretation: Interpretation, part: int) -> str:
    """The first node below `expr` that has no bounds although its arguments do, in words."""
    while isinstance(expr, Call):
        below = next((arg for arg in expr.args if _lost(interpretation.of(arg), part)), None)
        if below is None:
            return _blame(expr)
        expr = below
    return "it may be any time" if isinstance(expr, Now) else f"no statistics of {show(expr)}"


def _blame(call: Call) -> str:
    name = _called(call)
    if call.function.transfer is not None:
        return f"{name} has no bounds for these arguments"
    return (
        f"{name} has no trend" if call.function.trend is None else f"{name} has no trend for these arguments"
    )


def _called(call: Call) -> str:
    if call.function.name == "cast":
        return f"the cast from {call.args[0].type} to {call.type}"
    return call.function.name


def _failing(expr: Expr, interpretation: Interpretation, part: int) -> Expr:
    """The node in `expr` that may fail although its arguments do not."""
    while isinstance(expr, Call):
        below = next((arg for arg in expr.args if _at(interpretation.of(arg).error, part)), None)
        if below is None:
            break
        expr = below
    return expr


# ---------------------------------------------------------------- without any part


def pruning_obstacle(condition: Expr, columns: Sequence[Specs | None] | None = None) -> str | None:
    """The reason why a condition can never prune a part, or None if statistics can decide it.

    `columns[i]` is None where column i has no statistics; without `columns` all have.
    """
    if isinstance(condition, Call):
        obstacles = (
            [pruning_obstacle(arg, columns) for arg in condition.args]
            if condition.function.name in _JUNCTIONS
            else []
        )
        if condition.function.name == "and":
            # One conjunct that is certainly False prunes, whatever the others are.
            return None if None in obstacles else next(iter(obstacles), None)
        if obstacles:
            return next((obstacle for obstacle in obstacles if obstacle is not None), None)
    return _fallible(condition) or _unbounded(condition, columns)


def _fallible(expr: Expr) -> str | None:
    """The call that may fail for any value, so that no part is free of errors, in words."""
    if not isinstance(expr, Call):
        return None
    for arg in expr.args:
        obstacle = _fallible(arg)
        if obstacle is not None:
            return obstacle
    function = expr.function
    if all(isinstance(arg, Literal) for arg in expr.args):
        return None
    if function.transfer is None:
        fallible = function.lenient or function.errors is ANYWHERE
    else:
        # A cast from text has a rule for text that `->>` made of numbers; bounds of other text decide nothing.
        reads = (
            function.name == "cast" and expr.args[0].type.kind is Kind.TEXT and function.errors is ANYWHERE
        )
        fallible = reads and not any(node.type.kind is Kind.JSONB for node in walk(expr.args[0]))
    return f"{_called(expr)} may fail for any value" if fallible else None


def _unbounded(expr: Expr, columns: Sequence[Specs | None] | None) -> str | None:
    """The node that loses the bounds whatever the statistics are, in words."""
    if isinstance(expr, Column):
        known = columns is None or (expr.index < len(columns) and columns[expr.index] is not None)
        return None if known else f"no statistics of {show(expr)}"
    if not isinstance(expr, Call):
        return None
    function, free = expr.function, [i for i, arg in enumerate(expr.args) if not isinstance(arg, Literal)]
    if function.name not in _NULL_TESTS:
        for i in free:
            obstacle = _unbounded(expr.args[i], columns)
            if obstacle is not None:
                return obstacle
    if function.transfer is not None or callable(function.trend) or not free:
        return None
    trend = function.trend or ()
    blind = any((trend[i if i < len(trend) else -1] if trend else None) is None for i in free)
    return f"{_called(expr)} has no trend" if blind else None
