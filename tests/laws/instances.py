"""Every overload of the registry at concrete types: what the laws loop over.

A parameter that takes any type is tried with types that differ in how they are ordered and kept; a numeric
with several scales; a variadic function with several numbers of arguments. A new function is covered by being
declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import TidegateError
from tidegate.expr.model.build import resolve
from tidegate.expr.model.function import REGISTRY, Function, Param
from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.parameters import AnyRecord, AnyType, ArrayOf, AsText
from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    UUID,
    Kind,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

PAIR = record(("x", INT4), ("y", TEXT))
FOR_ANY = (
    INT4, FLOAT8, TEXT, INTERVAL, JSONB, numeric(10, 2), TIMESTAMPTZ, BOOL, array(INT4), PAIR, INT8, FLOAT4,
    BYTEA, UUID, DATE, NUMERIC,
    array(FLOAT8),
)  # fmt: skip
"""What stands for a type letter. All differ in order or in Arrow form."""
FEW = (INT4, FLOAT8, TEXT, INTERVAL, JSONB, array(INT4))
"""What stands for it in `= ANY (…)` and the eleven like it, which share one kernel."""
SCALES = (NUMERIC, numeric(10, 2), numeric(38, 0), numeric(5, 5))
MOST = 17
"""Instances of one overload: as many as FOR_ANY has types."""


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """An overload with the types of its arguments and of its result."""

    function: Function
    types: tuple[Type, ...]
    out: Type

    def __str__(self) -> str:
        name = self.function.name.replace(" ", "_")
        return f"{name}({','.join(map(str, self.types))})->{self.out}".replace(" ", "")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a failing instance: else it prints every field of every type."""
        printer.text(str(self))

    def topic(self, position: int) -> tuple[str, int]:
        """Where this argument's own values are looked up (`constants.py`)."""
        name = self.function.name
        if name == "to_char" and self.types[0].is_number:
            name = "to_char:number"
        return (f"cast:{self.out.kind.value}" if name == "cast" else name, position)

    def run(self, args: Sequence[object]) -> Outcome:
        """The kernel's outcome."""
        return self.function.run(args, self.out, self.types)


def instances() -> list[Instance]:
    """All of them, each overload at most MOST times."""
    return [instance for function in REGISTRY for instance in of(function)]


def of(function: Function) -> list[Instance]:
    """The instances of one overload."""
    found: dict[tuple[tuple[Type, ...], Type], Instance] = {}
    for types in argument_types(function):
        for out in results(function, types):
            found.setdefault((types, out), Instance(function, types, out))
        if len(found) >= MOST:
            break
    return list(found.values())


def argument_types(function: Function) -> Iterator[tuple[Type, ...]]:
    """Concrete types for the parameters; none of what is no function of its arguments."""
    if function.volatile:
        return
    if function.name == "case":
        for type_ in FOR_ANY:
            yield (BOOL, type_, type_)
        yield (BOOL, INT4, BOOL, INT4, INT4)
        yield (BOOL, FLOAT8, BOOL, FLOAT8)
        return
    letters = (
        [None]
        if not _has_letter(function.params)
        else FEW
        if function.name[:4] in ("any ", "all ")
        else FOR_ANY
    )
    turns = range(max(len(letters), 3 if function.variadic else 1))
    least = int(function.hidden)  # the planner joins two at least
    for i in turns:
        letter, extra = letters[i % len(letters)] or INT4, least + i % 3 if function.variadic else 0
        params = [*function.params, *[function.params[-1]] * extra] if function.params else []
        for turn in range(
            len(SCALES) if any(isinstance(p, Type) and p.kind is Kind.NUMERIC for p in params) else 1
        ):
            yield tuple(_concrete(param, letter, turn + i) for i, param in enumerate(params))


def _has_letter(params: Sequence[Param]) -> bool:
    return any(isinstance(p, AnyType | ArrayOf) for p in params)


def _concrete(param: Param, letter: Type, turn: int) -> Type:
    match param:
        case Type(Kind.NUMERIC):
            return SCALES[turn % len(SCALES)]
        case Type(Kind.ARRAY) if param.element is None:
            return array(INT4)
        case Type(Kind.RECORD) if not param.fields:
            return PAIR
        case Type():
            return param
        case ArrayOf():
            return array(letter)
        case AnyType():
            return letter
        case AnyRecord():
            return PAIR
        case AsText():
            return TEXT


def results(function: Function, types: Sequence[Type]) -> list[Type]:
    """Result types to try: casts take any refinement of their target."""
    if function.name == "cast" and isinstance(function.result, Type):
        target = function.result
        match target.kind:
            case Kind.NUMERIC:
                return [NUMERIC, numeric(10, 2), numeric(3, 1), numeric(38, 0)]
            case Kind.TEXT:
                return [TEXT, Type(Kind.TEXT, length=5)]
            case Kind.ARRAY:
                return [array(INT4), array(TEXT)]
            case Kind.RECORD:
                return [record(("x", INT8), ("y", TEXT))]
            case _:
                return [target]
    try:
        return [function.result_type(types)]
    except TidegateError:
        return []


def callable_by_users(instance: Instance) -> bool:
    """Whether `build.call` with these types gives this very overload."""
    if instance.function.hidden:
        return False
    if instance.function.name == "cast":
        return True
    try:
        return resolve(instance.function.name, list(instance.types))[0] is instance.function
    except TidegateError:
        return False
