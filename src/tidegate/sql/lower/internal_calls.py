"""Expressions that only the planner writes: internal functions, records, and tests for NULL."""

from __future__ import annotations

from tidegate.errors import TypeMismatch
from tidegate.expr.model import REGISTRY, Call, Expr, Kind, Type, build, types


def internal(name: str, *args: Expr) -> Expr:
    """A function that only the planner calls (`expr/functions/aggregate/`), of just these types."""
    for function in REGISTRY.overloads(name):
        params = [*function.params, *[function.params[-1]] * (len(args) - len(function.params))]
        if all(_accepts(param, arg.type) for param, arg in zip(params, args, strict=True)):
            return Call(function, args, function.result_type([arg.type for arg in args]))
    raise TypeMismatch(f"{name} does not take {', '.join(str(arg.type) for arg in args)}")


def _accepts(param: object, type_: Type) -> bool:
    if not isinstance(param, Type):
        return type_.kind is Kind.ARRAY
    return param == type_ or (param.kind is type_.kind and not type_.is_nested)


def record_of(*fields: tuple[str, Expr]) -> Expr:
    """A record whose fields have these names."""
    type_ = types.record(*((name, value.type) for name, value in fields))
    return Call(REGISTRY.overloads("row")[0], tuple(value for _, value in fields), type_)


def present(value: Expr) -> Expr:
    """Whether a value is not NULL."""
    return build.call("not", build.call("is null", value))
