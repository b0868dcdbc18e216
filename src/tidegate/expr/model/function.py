'''A scalar function is declared once: signature, kernel, and every claim that others build on.

    @scalar("+", (TIMESTAMPTZ, INTERVAL), TIMESTAMPTZ,
            trend=lambda t, i: (where(UP, i.never_has_months()), None),  # Jan 30 and Jan 31 + 1 month meet
            errors=AT_ENDS, stable=True)
    def timestamptz_plus_interval(t, i):
        """A timestamp moved by an interval."""

The same kernel evaluates rows (`evaluate.py`) and bounds of parts (`interpret.py`). A claim left out is the conservative
one: no trend, may fail anywhere, not stable, no Spark form. Such a function is right and prunes nothing.

| claim | meaning | law that tests it |
|---|---|---|
| `trend` | per argument UP, DOWN (others fixed), EITHER (which way depends on them), or None | values at a ≤ b ≤ c are in order |
| `errors` | NEVER, AT_ENDS (if all corners of a box succeed, all of the box does), ANYWHERE | by that sentence |
| `makes_null` | may give NULL for arguments that are not | its absence |
| `lenient` | sees nulls (and, with `sees_errors`, errors) of its arguments itself; others are null if any argument is | – |
| `transfer` | its own Specs → Specs, for the few that a trend cannot describe | soundness over random boxes |
| `cost` | CHEAP, MODERATE, HEAVY: which conditions are read first | – |
| `stable` | results promised for ever: allowed in TRANSFORM USING | frozen corpus |
| `spark` | how Spark says exactly the same (`spark_form.py`) | Spark itself, on poison values |

Kernels take Arrow arrays or scalars (one argument at least is an array) and return an array or an `Outcome`. They never
raise on values. A keyword parameter named `out` receives the result `Type` (for numeric scales and varchar lengths), one
named `given` the argument types (casts of arrays and records: Arrow alone does not tell jsonb[] from text[]).
A strict kernel need not care what it gives where an argument is null: the evaluator clears errors there, but values must be
null there (Arrow's own kernels and `from_numpy` see to it).
'''

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.errors import LimitError
from tidegate.expr.outcome import Outcome
from tidegate.expr.types import Kind, Type

if TYPE_CHECKING:
    from tidegate.expr.specs import Specs
    from tidegate.expr.tree import Call, Expr


class Trend(Enum):
    """How a function follows one argument while the others are fixed."""

    UP = 1
    DOWN = -1
    EITHER = 0
    """Monotone, but which way depends on the other arguments: 3 * x rises, -3 * x falls."""


class Where(NamedTuple):
    """A trend that holds only in the containers of a mask."""

    trend: Trend
    mask: np.ndarray


class Errors(Enum):
    """Where in a box of arguments a function may fail."""

    NEVER = "never"
    AT_ENDS = "at ends"
    ANYWHERE = "anywhere"


class Cost(IntEnum):
    """How dear a row is; JSON and regular expressions are HEAVY."""

    CHEAP = 1
    MODERATE = 4
    HEAVY = 20


UP, DOWN, EITHER = Trend.UP, Trend.DOWN, Trend.EITHER
NEVER, AT_ENDS, ANYWHERE = Errors.NEVER, Errors.AT_ENDS, Errors.ANYWHERE
CHEAP, MODERATE, HEAVY = Cost.CHEAP, Cost.MODERATE, Cost.HEAVY

TrendClaim: TypeAlias = tuple[Trend | Where | None, ...]


def where(trend: Trend, mask: np.ndarray) -> Where:
    """`trend`, but only in the containers where `mask` holds."""
    return Where(trend, mask)


@dataclass(frozen=True)
class AnyType:
    """A parameter that takes any type; parameters with equal letters take one and the same type."""

    letter: str = "any"

    def __str__(self) -> str:
        return f"any{self.letter}" if self.letter != "any" else "any"


@dataclass(frozen=True)
class ArrayOf:
    """A parameter that takes an array whose element is the type of that letter."""

    letter: str

    def __str__(self) -> str:
        return f"any{self.letter}[]"


@dataclass(frozen=True)
class AsText:
    """A parameter that takes any type and sees it cast to text, as `||` and concat do."""

    def __str__(self) -> str:
        return "any"


@dataclass(frozen=True)
class AnyRecord:
    """A parameter that takes a record."""

    def __str__(self) -> str:
        return "record"


Param: TypeAlias = Type | AnyType | ArrayOf | AnyRecord | AsText
ANY = AnyType()
ANY_A = AnyType("A")
ARRAY_A = ArrayOf("A")
ANY_RECORD = AnyRecord()
AS_TEXT = AsText()


class Family(Protocol):
    """Calls that are evaluated together, such as all JSON paths into one column: one parse, whatever their number."""

    def root(self, call: Call) -> Expr | None:
        """What `call` reads in the end, or None if it cannot be shared (say, its key is not a constant)."""
        ...

    def evaluate(self, root: Any, calls: Sequence[Call]) -> list[Outcome]:
        """The outcomes of `calls`, given the values of their common root."""
        ...


@dataclass(frozen=True, eq=False)
class Function:
    """One overload. Made by `@scalar` and `@cast`; the fields are described in the module's docstring."""

    name: str
    params: tuple[Param, ...]
    result: Type | Callable[..., Type]
    kernel: Callable[..., Any]
    variadic: bool = False
    trend: TrendClaim | Callable[..., TrendClaim] | None = None
    errors: Errors = Errors.ANYWHERE
    makes_null: bool = False
    makes_months: bool = True
    """Intervals: False if the result has a months part only where an argument has one, as for `ts - ts` and `i + i`."""
    lenient: bool = False
    sees_errors: bool = False
    sees_scalars: bool = False
    """With `sees_errors`: constants come as scalars, as they do to other kernels; one argument at least is an array."""
    transfer: Callable[..., Specs] | None = None
    cost: Cost = Cost.CHEAP
    stable: bool = False
    exact: bool = True
    """False for floating point, whose last digit may change with the order of operations."""
    spark: str | Callable[[Call, Sequence[str]], str | None] | None = None
    """Spark SQL with {0}, {1} … for arguments, where Spark in ANSI mode means exactly the same; or a form of `spark_form.py`."""
    family: Family | None = None
    version: int = 1
    """Raised when results change on purpose; stored with every transform that uses the function."""
    implicit: bool = False
    """Casts: applied without being written."""
    hidden: bool = False
    """Made by the planner, not to be called by users."""
    doc: str = ""
    wants_out: bool = field(default=False)
    wants_given: bool = field(default=False)

    def __repr__(self) -> str:
        return f"<{self.signature}>"

    def __reduce__(self) -> tuple[Callable[..., Function], tuple[Any, ...]]:
        """A plan travels to Spark's tasks by the names of its functions: each process has the same declarations."""
        if self.name == "cast" and len(self.params) == 1 and isinstance(self.params[0], Type):
            for (source, target), function in REGISTRY.casts():
                if function is self:
                    return _declared_cast, (source, target)
        return _declared, (self.name, self.params, self.variadic)

    @property
    def signature(self) -> str:
        """As documentation prints it: `+(timestamptz, interval) -> timestamptz`."""
        params = ", ".join(map(str, self.params)) + (", …" if self.variadic else "")
        result = self.result if isinstance(self.result, Type) else self.result.__name__.strip("_")
        return f"{self.name}({params}) -> {result}"

    def result_type(self, types: Sequence[Type]) -> Type:
        """The result's type for arguments of `types`."""
        return self.result if isinstance(self.result, Type) else self.result(*types)

    def run(self, args: Sequence[Any], out: Type, given: Sequence[Type] = ()) -> Outcome:
        """The kernel's outcome for `args`, which are of the types `given`."""
        extra: dict[str, Any] = {"out": out} if self.wants_out else {}
        if self.wants_given:
            extra["given"] = given
        with np.errstate(
            all="ignore"
        ):  # kernels see ∞, NaN and overflow on purpose, and report what is wrong as errors
            try:
                got = self.kernel(*args, **extra)
            except pa.ArrowCapacityError:
                raise LimitError(
                    f"{self.name} makes more than 2 GB of text at once",
                    hint="with a smaller batch_rows it may fit",
                ) from None
        return got if isinstance(got, Outcome) else Outcome(got)


class Registry:
    """All declared functions by name, and all casts by the kinds they go between."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Function]] = {}
        self._casts: dict[tuple[Kind, Kind], Function] = {}

    def add(self, function: Function) -> Function:
        """Adds an overload; two with the same parameters are a mistake."""
        overloads = self._by_name.setdefault(function.name, [])
        if any(f.params == function.params and f.variadic == function.variadic for f in overloads):
            raise TypeError(f"{function.signature} is declared twice")
        overloads.append(function)
        return function

    def add_cast(self, source: Kind, target: Kind, function: Function) -> Function:
        """Adds the cast between two kinds."""
        if (source, target) in self._casts:
            raise TypeError(f"cast {source} -> {target} is declared twice")
        self._casts[source, target] = function
        return function

    def overloads(self, name: str) -> list[Function]:
        """Every overload of `name`; an empty list if there is none."""
        return self._by_name.get(name, [])

    def cast(self, source: Kind, target: Kind) -> Function | None:
        """The cast from one kind to another, if there is one."""
        return self._casts.get((source, target))

    def casts(self) -> Iterator[tuple[tuple[Kind, Kind], Function]]:
        """Every cast, and between which kinds it goes."""
        yield from self._casts.items()

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._by_name)

    def __iter__(self) -> Iterator[Function]:
        for overloads in self._by_name.values():
            yield from overloads
        yield from self._casts.values()


REGISTRY = Registry()


def _declared(name: str, params: tuple[Param, ...], variadic: bool) -> Function:
    import_module("tidegate.expr.functions")  # fills the registry
    return next(
        function
        for function in REGISTRY.overloads(name)
        if function.params == params and function.variadic == variadic
    )


def _declared_cast(source: Kind, target: Kind) -> Function:
    import_module("tidegate.expr.functions")
    found = REGISTRY.cast(source, target)
    assert found is not None
    return found


def parameters(kernel: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a kernel's parameters. `inspect.signature` takes 40 µs for each of 500 kernels: a cold start waits for it."""
    code = getattr(kernel, "__code__", None)
    if code is None or hasattr(kernel, "__wrapped__"):
        return tuple(inspect.signature(kernel).parameters)
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _declare(kernel: Callable[..., Any], name: str, params: Sequence[Param], **claims: Any) -> Function:
    doc = claims.pop("doc", None) or inspect.getdoc(kernel) or ""
    wanted = parameters(kernel)
    return Function(
        name,
        tuple(params),
        kernel=kernel,
        doc=doc,
        wants_out="out" in wanted,
        wants_given="given" in wanted,
        **claims,
    )


def scalar(
    name: str, params: Sequence[Param], result: Type | Callable[..., Type], **claims: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares one overload of a function; apply it several times to declare several overloads with one kernel."""

    def declare(kernel: Callable[..., Any]) -> Callable[..., Any]:
        REGISTRY.add(_declare(kernel, name, params, result=result, **claims))
        return kernel

    return declare


def cast(source: Type, target: Type, **claims: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the cast between two kinds; the kernel's `out` is the exact target, with scale or length."""

    def declare(kernel: Callable[..., Any]) -> Callable[..., Any]:
        function = _declare(kernel, "cast", (source,), result=target, **claims)
        REGISTRY.add_cast(source.kind, target.kind, function)
        return kernel

    return declare
