"""Builds typed expressions: chooses overloads and inserts implicit casts.

`call("+", created_at, text("30 days"))` resolves to `+(timestamptz, interval)` and turns the literal into an interval, because an
unknown literal takes the type of the parameter. A call resolves to the overload whose arguments cost least to convert: nothing
for the same kind, little for an unknown literal, more with every step of an implicit cast (int2 → int4 → int8 → numeric →
float4 → float8, date → timestamp → timestamptz). Operators over any type (`=`, CASE, COALESCE, IN) first convert their arguments
to the common type. SQL, tests and the translation from Catalyst all build expressions here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.errors import BindError, ErrorCode, TypeMismatch, row_error_code
from tidegate.expr.model import sort_keys
from tidegate.expr.model.common_type import INTEGER_DIGITS, NUMBERS, TIMES
from tidegate.expr.model.common_type import common_type as common_type  # noqa: PLC0414  # part of what this module offers
from tidegate.expr.model.common_type import numeric_digits as numeric_digits  # noqa: PLC0414  # likewise
from tidegate.expr.model.function import REGISTRY, Function, Param
from tidegate.expr.model.literal_types import literal_type as literal_type  # noqa: PLC0414  # likewise
from tidegate.expr.model.outcome import Outcome, spread
from tidegate.expr.model.parameters import AnyRecord, AnyType, ArrayOf, AsText
from tidegate.expr.model.tree import FALSE, TRUE, Call, Expr, Literal, call_type
from tidegate.expr.model.types import (
    BOOL,
    INT4,
    TEXT,
    UNKNOWN,
    Kind,
    Type,
    array,
    numeric,
)  # fmt: skip

_FROM_UNKNOWN = 1
_STEP = 10
sort_key, from_sort_key = sort_keys.sort_key, sort_keys.from_sort_key
_ARRAY_FROM_UNKNOWN = 20 * _STEP
"""Costs more than any other reading of a literal, if no argument is an array: `1 || 'x'` is text, not `1 || '{…}'::int4[]`."""


def text(value: str) -> Literal:
    """A string literal whose type its context decides."""
    return Literal(pa.scalar(value, pa.string()), UNKNOWN)


def null(type_: Type = UNKNOWN) -> Literal:
    """NULL."""
    return Literal(pa.scalar(None, type_.arrow), type_)


def literal(value: Any, type_: Type) -> Literal:
    """A Python value as a constant of `type_`."""
    return Literal(pa.scalar(value, type_.arrow), type_)


def call(name: str, *args: Expr, hidden: bool = False) -> Expr:
    """The function or operator `name` applied to `args`, with implicit casts; `hidden`: hidden ones too."""
    function, targets = resolve(name, [arg.type for arg in args], hidden=hidden)
    if any(arg.type.kind is Kind.UNKNOWN for arg in args):
        typed = tuple(typed_literal(arg, target) for arg, target in zip(args, targets, strict=True))
        if typed != args:
            args = typed
            function, targets = resolve(name, [arg.type for arg in args], hidden=hidden)
    numerics = any(
        arg.type.kind is target.kind is Kind.NUMERIC for arg, target in zip(args, targets, strict=True)
    )
    compares = numerics and not _holds_numerics(function.result_type(targets))
    cast_args = tuple(
        _as_argument(arg, target, compares=compares) for arg, target in zip(args, targets, strict=True)
    )
    cast_args = sort_keys.arguments(name, cast_args)
    return Call(function, cast_args, call_type(function, cast_args))


def _as_argument(arg: Expr, target: Type, *, compares: bool) -> Expr:
    """`arg` converted for a parameter; one that takes anything as text (`'a' || 1`) adds the cast.

    Where numerics are only compared, one of another type is not cast, as a cast could fail.
    """
    if target == TEXT and arg.type.kind not in (Kind.TEXT, Kind.UNKNOWN):
        return cast(arg, target)
    return arg if compares and arg.type.kind is target.kind is Kind.NUMERIC else coerce(arg, target)


def _holds_numerics(out: Type) -> bool:
    return out.kind is Kind.NUMERIC or (out.element is not None and out.element.kind is Kind.NUMERIC)


def typed_literal(expr: Expr, beside: Type) -> Expr:
    """A string literal beside a numeric, a varchar(n) or arrays of them: with its own digits and length."""
    if not isinstance(expr, Literal) or expr.type != UNKNOWN or expr.is_null:
        return expr
    if beside == TEXT or not (beside.kind in (Kind.NUMERIC, Kind.TEXT) or beside.is_nested):
        return expr
    type_ = literal_type(expr.value.as_py(), beside)
    return expr if type_ == beside else _from_unknown(expr, type_)


def typed_literals(exprs: Sequence[Expr]) -> list[Expr]:
    """Expressions that are converted to a common type, with `typed_literal` beside each other."""
    common = common_type([expr.type for expr in exprs])
    return list(exprs) if common is None else [typed_literal(expr, common) for expr in exprs]


def case(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None = None) -> Expr:
    """CASE WHEN … THEN … END: values are converted to their common type; a missing ELSE is NULL."""
    values = typed_literals([value for _, value in branches] + [null() if otherwise is None else otherwise])
    common = common_type([value.type for value in values])
    if common is None:
        kinds = " and ".join(dict.fromkeys(str(value.type) for value in values if value.type != UNKNOWN))
        raise TypeMismatch(f"CASE types {kinds} cannot be matched", hint="cast one of them")
    args: list[Expr] = []
    for (condition, _), value in zip(branches, values[:-1], strict=True):
        args += [coerce(condition, BOOL), coerce(value, common)]
    return Call(REGISTRY.overloads("case")[0], (*args, coerce(values[-1], common)), common)


def field(expr: Expr, name: str) -> Expr:
    """`(expr).name`: a field of a record."""
    names = [known for known, _ in expr.type.fields]
    if name not in names:
        of = f"record has {', '.join(names)}" if names else f"{expr.type} is not a record"
        raise BindError(f'field "{name}" does not exist', hint=of)
    position = names.index(name)
    return Call(
        REGISTRY.overloads("field")[0], (expr, literal(position, INT4)), expr.type.fields[position][1]
    )


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """The conditions joined by AND; true if there are none."""
    return _flat("and", TRUE, conditions)


def disjunction(conditions: Iterable[Expr]) -> Expr:
    """The conditions joined by OR; false if there are none."""
    return _flat("or", FALSE, conditions)


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that `condition` joins by AND."""
    if isinstance(condition, Call) and condition.function.name == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [] if condition == TRUE else [condition]


def _flat(name: str, neutral: Expr, conditions: Iterable[Expr]) -> Expr:
    parts: list[Expr] = []
    for condition in conditions:
        same = isinstance(condition, Call) and condition.function.name == name
        parts.extend(condition.args if same and isinstance(condition, Call) else [condition])
    if len(parts) < 2:
        return coerce(parts[0], BOOL) if parts else neutral
    return call(name, *parts)


def cast(expr: Expr, target: Type) -> Expr:
    """`expr::target`, an explicit cast; a constant is cast at once."""
    if expr.type == target:
        return expr
    if expr.type == UNKNOWN and isinstance(expr, Literal):
        return _from_unknown(expr, target)
    source = TEXT if expr.type == UNKNOWN else expr.type
    function = REGISTRY.cast(source.kind, target.kind)
    if function is None and source.same_kind(target):
        return expr
    if function is None or not _castable(source, target):
        raise TypeMismatch(f"cannot cast type {source} to {target}")
    return Call(function, (expr,), target)


def _castable(source: Type, target: Type) -> bool:
    """Whether the elements of arrays and fields of records can be cast."""
    if source.element is not None and target.element is not None:
        return _member_castable(source.element, target.element)
    if source.fields and target.fields:
        same = len(source.fields) == len(target.fields)
        return same and all(
            _member_castable(a, b) for (_, a), (_, b) in zip(source.fields, target.fields, strict=True)
        )
    return True


def _member_castable(source: Type, target: Type) -> bool:
    castable = source.same_kind(target) or REGISTRY.cast(source.kind, target.kind) is not None
    castable &= (source.element is None) == (target.element is None)  # no text '{1,2}' as an element
    return castable and _castable(source, target)


def coerce(expr: Expr, target: Type) -> Expr:
    """`expr` as `target` by an implicit cast, or by reading an unknown literal."""
    if expr.type == target or (expr.type.same_kind(target) and not _refined(expr.type, target)):
        return expr
    if isinstance(expr, Literal) and expr.is_null:
        return null(target)
    if expr.type != UNKNOWN and _cast_cost(expr.type, target) is None:
        raise TypeMismatch(f"expected {target}, got {expr.type}", hint=f"write an explicit cast: …::{target}")
    converted = cast(expr, target)
    return _fold_cast(converted) if isinstance(expr, Literal) else converted


def _refined(source: Type, target: Type) -> bool:
    """Whether types of one kind need a cast: nested ones that differ, numerics that may not fit."""
    if source.kind is target.kind is Kind.NUMERIC:
        return numeric_digits(source)[0] > numeric_digits(target)[0]
    return source.is_nested and source.arrow != target.arrow


def _from_unknown(expr: Literal, target: Type) -> Literal:
    if expr.is_null:
        return null(target)
    if target.kind is Kind.TEXT and target.length is None:
        return Literal(expr.value, target)
    function = REGISTRY.cast(Kind.TEXT, target.kind)
    if function is None:
        raise TypeMismatch(f"a string cannot be read as {target}")
    return _fold_cast(Call(function, (Literal(expr.value, TEXT),), target))


def _fold_cast(expr: Expr) -> Literal:
    """A cast of a constant as the constant it yields."""
    if isinstance(expr, Literal):
        return expr
    assert isinstance(expr, Call)
    (arg,) = expr.args
    assert isinstance(arg, Literal)
    values, errors = run_cast(expr.function, arg, expr.type)
    if errors is not None and errors[0].is_valid:
        message = errors[0].as_py()
        code = row_error_code(message) or ErrorCode.INVALID_LITERAL
        raise BindError(message, code=code, subject=str(expr.type))
    return Literal(values[0], expr.type)


def run_cast(function: Function, constant: Literal, target: Type) -> Outcome:
    """The outcome of the cast `function` for one constant that is not NULL."""
    return function.run([spread(constant.value, 1)], target, [constant.type])


def resolve(name: str, types: Sequence[Type], *, hidden: bool = False) -> tuple[Function, list[Type]]:
    """The overload of `name` for arguments of `types`, and the types that they must be cast to."""
    overloads = [f for f in REGISTRY.overloads(name) if hidden or not f.hidden]
    listed = ", ".join(map(str, types))
    if not overloads:
        raise BindError(
            f"function {name}({listed}) does not exist",
            code=ErrorCode.UNDEFINED_FUNCTION,
            hint=_nearest(name),
        )
    best: tuple[int, Function, list[Type]] | None = None
    for function in overloads:
        fit = _fit(function, types)
        if fit is not None and (best is None or fit[0] < best[0]):
            best = (fit[0], function, fit[1])
    if best is None:
        signatures = "; ".join(f.signature for f in overloads[:8])
        kind = "function" if name[0].isalpha() else "operator"
        raise TypeMismatch(f"{kind} {name} does not take ({listed})", hint=f"available: {signatures}")
    return best[1], best[2]


def _nearest(name: str) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(name, REGISTRY.names(), n=3)
    return f"did you mean {' or '.join(close)}?" if close else None


def _fit(function: Function, types: Sequence[Type]) -> tuple[int, list[Type]] | None:
    """The cost of calling `function` with `types`, and the types to cast to; None if it is impossible."""
    params = list(function.params)
    if function.variadic and len(types) >= len(params):
        params += [params[-1]] * (len(types) - len(params))
    if len(params) != len(types):
        return None
    bound = _bind_variables(params, types)
    if bound is None:
        return None
    total, targets = 0, []
    if any(isinstance(p, ArrayOf) for p in params) and not any(t.element for t in types):
        total = _ARRAY_FROM_UNKNOWN
    for param, type_ in zip(params, types, strict=True):
        target = _target(param, type_, bound)
        cost = None if target is None else _cast_cost(type_, target, anything=isinstance(param, AsText))
        if type_ == UNKNOWN and isinstance(param, Type):
            cost = _unknown_cost(param, types)
        if target is None or cost is None:
            return None
        total += cost + (0 if isinstance(param, Type) else 1)
        targets.append(target)
    return total, targets


def _unknown_cost(param: Type, types: Sequence[Type]) -> int:
    """The cost of an unknown literal: it prefers the type of another argument, then text, then any type.

    This is PostgreSQL's order. So `payload ->> '5'` reads a key and not an element, and `at - '2024-01-01'` subtracts a time.
    """
    if any(param.same_kind(type_) for type_ in types):
        return 0
    return _FROM_UNKNOWN if param.kind is Kind.TEXT else 2 * _FROM_UNKNOWN


def _bind_variables(params: Sequence[Param], types: Sequence[Type]) -> dict[str, Type] | None:
    """The type of each type variable: the common type of all its arguments."""
    arguments: dict[str, list[Type]] = {}
    for param, type_ in zip(params, types, strict=True):
        if isinstance(param, ArrayOf):
            if type_.element is None and type_ != UNKNOWN:
                return None
            arguments.setdefault(param.letter, []).append(type_.element or UNKNOWN)
        elif isinstance(param, AnyType) and param.letter != "any":
            arguments.setdefault(param.letter, []).append(type_)
    bound = {letter: common_type(bound_types) for letter, bound_types in arguments.items()}
    return {k: v for k, v in bound.items() if v is not None} if all(bound.values()) else None


def _target(param: Param, type_: Type, bound: dict[str, Type]) -> Type | None:
    match param:
        case Type(kind=Kind.NUMERIC) if type_.is_integer:
            return numeric(INTEGER_DIGITS[type_.kind], 0)  # so that price * 2 has the scale of price
        case Type():
            return type_ if type_.kind is param.kind and not param.is_nested else param
        case ArrayOf(letter):
            return array(bound[letter])
        case AnyType("any"):
            return TEXT if type_ == UNKNOWN else type_
        case AnyType(letter):
            return bound[letter]
        case AnyRecord():
            return type_ if type_.kind is Kind.RECORD else None
        case AsText():
            return TEXT


def _cast_cost(source: Type, target: Type, anything: bool = False) -> int | None:
    """The cost of the implicit cast; None if there is none."""
    if source == UNKNOWN:
        return _FROM_UNKNOWN
    if source.same_kind(target) or (
        source.kind is target.kind and source.is_nested and _castable(source, target)
    ):
        return 0
    for ladder in (NUMBERS, TIMES):
        if source.kind in ladder and target.kind in ladder:
            steps = ladder.index(target.kind) - ladder.index(source.kind)
            if target.kind is Kind.FLOAT4:
                steps += 3  # int4 + real is double precision: a real does not hold every integer
            return steps * _STEP if ladder.index(target.kind) > ladder.index(source.kind) else None
    if source.kind is Kind.MZ_TIMESTAMP and target.kind in (*NUMBERS[2:], *TIMES[1:]):
        return _STEP * (1 + (*TIMES[1:], *NUMBERS[2:]).index(target.kind))
    return _STEP * 10 if anything else None
