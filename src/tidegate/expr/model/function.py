'''A scalar function is declared once: its signatures, its kernel, and its claims.

    @scalar("+", (TIMESTAMPTZ, INTERVAL), TIMESTAMPTZ, overloads=[((TIMESTAMP, INTERVAL), TIMESTAMP)],
            trend=lambda t, i: (MaskedTrend(UP, i.never_has_months()), None),  # Jan 30 and Jan 31 + 1 month meet
            errors=AT_ENDS, stable=True)
    def time_plus_interval(t, i, out):
        """A timestamp moved by an interval."""

Other spellings of a function are `aliases`, other signatures that share its kernel and claims are rows of `overloads`.
Claims are typed: a misspelt claim, or a value of the wrong type, fails in mypy (`Claims`).

The same kernel evaluates rows (`evaluator.py`) and the bounds of parts (`interpret.py`). The default of every claim is the
conservative one: no trend, may fail anywhere, not stable, no Spark form. A function without claims is correct and prunes nothing.

| claim | meaning | law that tests it |
|---|---|---|
| `trend` | per argument UP, DOWN (others fixed), EITHER (direction depends on them), or None | values at a ≤ b ≤ c are in order |
| `errors` | NEVER, AT_ENDS (if all corners of a box succeed, all of the box does), ANYWHERE | by that sentence |
| `makes_null` | may give NULL for arguments that are not NULL | its absence |
| `lenient` | sees nulls (and, with `sees_errors`, errors) of its arguments itself; others are null if any argument is | – |
| `transfer` | its own Specs → Specs, for the few functions that a trend cannot describe | soundness over random boxes |
| `cost` | CHEAP, MODERATE, HEAVY: which conditions are read first | – |
| `stable` | its results never change: allowed in TRANSFORM USING | frozen corpus |
| `volatile` | gives another value for each row: never folded, copied or moved; its kernel takes the number of rows alone | – |
| `spark` | the Spark SQL that means exactly the same (`forms.py`) | Spark itself, on poison values |

Kernels take Arrow arrays or scalars (at least one argument is an array) and return an array or an `Outcome`. They never
raise on values. A keyword parameter named `out` receives the result `Type` (for numeric scales and varchar lengths), one
named `types` the argument types (casts of arrays and records: Arrow alone does not distinguish jsonb[] from text[]).
A strict kernel may report any error where an argument is null, since the evaluator clears errors there, but its values must
be null there (Arrow's own kernels and `from_numpy` do that).
'''

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from tidegate.errors import LimitError
from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.parameters import AnyRecord, AnyType, ArrayOf, AsText
from tidegate.expr.model.types import Kind, Type

if TYPE_CHECKING:
    from tidegate.expr.domain.specs import Specs
    from tidegate.expr.model.family import Family
    from tidegate.expr.model.tree import Call


class Trend(Enum):
    """How a function follows one argument while the others are fixed."""

    UP = 1
    DOWN = -1
    EITHER = 0
    """Monotone, but the direction depends on the other arguments: 3 * x rises, -3 * x falls."""


class MaskedTrend(NamedTuple):
    """A trend that holds only in the containers where `mask` is true."""

    trend: Trend
    mask: np.ndarray


class ErrorClaim(Enum):
    """Where in a box of arguments a function may fail."""

    NEVER = "never"
    AT_ENDS = "at ends"
    ANYWHERE = "anywhere"


class Cost(IntEnum):
    """The cost of one row; JSON and regular expressions are HEAVY."""

    CHEAP = 1
    MODERATE = 4
    HEAVY = 20


UP, DOWN, EITHER = Trend.UP, Trend.DOWN, Trend.EITHER
NEVER, AT_ENDS, ANYWHERE = ErrorClaim.NEVER, ErrorClaim.AT_ENDS, ErrorClaim.ANYWHERE
CHEAP, MODERATE, HEAVY = Cost.CHEAP, Cost.MODERATE, Cost.HEAVY

TrendClaim: TypeAlias = tuple[Trend | MaskedTrend | None, ...]
AnyTrendClaim: TypeAlias = TrendClaim | Callable[..., TrendClaim] | None


Param: TypeAlias = Type | AnyType | ArrayOf | AnyRecord | AsText
ResultType: TypeAlias = Type | Callable[..., Type]
ConstantResult: TypeAlias = Callable[[Sequence[Any], Sequence[Type]], Type | None]
"""From the values of constant arguments (None for others) and all types, the type of the result; None: the declared one."""
Signature: TypeAlias = tuple[Sequence[Param], ResultType]
"""One row of a declaration: the parameters and the result."""
ANY = AnyType()
ANY_A = AnyType("A")
ARRAY_A = ArrayOf("A")
ANY_RECORD = AnyRecord()
AS_TEXT = AsText()


Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Transfer: TypeAlias = "Callable[..., Specs]"
EngineForm: TypeAlias = "str | Callable[[Call, Sequence[str]], str | None]"


@dataclass(frozen=True, eq=False)
class Function:
    """One overload. `@scalar` and `@cast` make it; the module's docstring explains the claims."""

    name: str
    params: tuple[Param, ...]
    result: ResultType
    kernel: Callable[..., Any]
    constant_result: ConstantResult | None = None
    """The scale of a numeric that a constant decides: round(x, 2), extract(second from t)."""
    variadic: bool = False
    trend: AnyTrendClaim = None
    errors: ErrorClaim = ErrorClaim.ANYWHERE
    makes_null: bool = False
    makes_months: bool = True
    """Intervals: False if the result has a months part only where an argument has one, as for `ts - ts` and `i + i`."""
    lenient: bool = False
    sees_errors: bool = False
    sees_scalars: bool = False
    """With `sees_errors`: constants come as scalars, as they do to other kernels; at least one argument is an array."""
    transfer: Transfer | None = None
    cost: Cost = Cost.CHEAP
    stable: bool = False
    volatile: bool = False
    exact: bool = True
    """False for floating point, whose last digit may change with the order of operations."""
    spark: EngineForm | None = None
    """Spark SQL with {0}, {1} … for arguments, where Spark in ANSI mode means exactly the same; or a form of `forms.py`."""
    duckdb: EngineForm | None = None
    """The same in DuckDB's SQL, where it means exactly the same and never fails; or a form of `duckdb_sql/forms.py`."""
    family: Family | None = None
    version: int = 1
    """Raised when results change on purpose. Transforms are stored with it, and find it: it stays declared, `hidden`."""
    implicit: bool = False
    """Casts: applied without being written."""
    hidden: bool = False
    """Made by the planner; users cannot call it."""
    doc: str = ""
    wants_out: bool = False
    wants_types: bool = False

    def __repr__(self) -> str:
        return f"<{self.signature}>"

    def __reduce__(self) -> tuple[Callable[..., Function], tuple[Any, ...]]:
        """Pickles by name: each process of a Spark job has the same declarations."""
        if self.name == "cast" and len(self.params) == 1 and isinstance(self.params[0], Type):
            for (source, target), function in REGISTRY.casts():
                if function is self:
                    return _find_cast, (source, target)
        return _find_overload, (self.name, _identity(self))

    @property
    def signature(self) -> str:
        """As documentation prints it: `+(timestamptz, interval) -> timestamptz`."""
        params = ", ".join(map(str, self.params)) + (", …" if self.variadic else "")
        result = self.result if isinstance(self.result, Type) else self.result.__name__.strip("_")
        return f"{self.name}({params}) -> {result}"

    def claiming(self, trend: AnyTrendClaim = None, errors: ErrorClaim = ErrorClaim.NEVER) -> Function:
        """The same kernel with other claims, for a transfer of this function.

        A declaration must hold for all arguments; a transfer that has seen the constants among them may claim more.
        """
        return replace(self, trend=trend, errors=errors, transfer=None)

    def result_type(self, types: Sequence[Type]) -> Type:
        """The result's type for arguments of `types`."""
        return self.result if isinstance(self.result, Type) else self.result(*types)

    def run(self, args: Sequence[Any], out: Type, types: Sequence[Type] = ()) -> Outcome:
        """The kernel's outcome for `args`, which are of `types`."""
        extra: dict[str, Any] = {"out": out} if self.wants_out else {}
        if self.wants_types:
            extra["types"] = types
        with np.errstate(all="ignore"):  # kernels expect ∞, NaN and overflow, and report errors themselves
            try:
                result = self.kernel(*args, **extra)
            except pa.ArrowCapacityError:
                raise LimitError(
                    f"{self.name} makes more than 2 GB of text at once",
                    hint="with a smaller batch_rows it may fit",
                ) from None
        return result if isinstance(result, Outcome) else Outcome(result)


@dataclass(frozen=True)
class BoundTransfer:
    """A transfer that is called with the declared function first: `rule(function, out, *args)`."""

    rule: Callable[..., Specs]

    def __call__(self, function: Function, out: Type, *args: Specs) -> Specs:
        """What `function` may give, for a transfer that builds on this one."""
        return self.rule(function, out, *args)

    def bind(self, function: Function) -> Transfer:
        """The transfer of `function`."""
        return partial(self.rule, function)


class Claims(TypedDict, total=False):
    """What a declaration may claim: the fields of `Function` of the same names."""

    constant_result: ConstantResult | None
    variadic: bool
    trend: AnyTrendClaim
    errors: ErrorClaim
    makes_null: bool
    makes_months: bool
    lenient: bool
    sees_errors: bool
    sees_scalars: bool
    transfer: Transfer | BoundTransfer | None
    cost: Cost
    stable: bool
    volatile: bool
    exact: bool
    spark: EngineForm | None
    duckdb: EngineForm | None
    family: Family | None
    version: int
    implicit: bool
    hidden: bool
    doc: str


class FunctionRegistry:
    """All declared functions by name, and all casts by the kinds they go between.

    The first look-up imports `tidegate.expr.functions`, whose modules declare them; nobody else has to.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, list[Function]] = {}
        self._casts: dict[tuple[Kind, Kind], Function] = {}

    def add(self, function: Function) -> None:
        """Adds an overload; two with the same parameters are a mistake."""
        overloads = self._by_name.setdefault(function.name, [])
        if any(_identity(f) == _identity(function) for f in overloads):
            raise TypeError(f"{function.signature} is declared twice")
        overloads.append(function)

    def add_cast(self, source: Kind, target: Kind, function: Function) -> None:
        """Adds the cast between two kinds."""
        if (source, target) in self._casts:
            raise TypeError(f"cast {source} -> {target} is declared twice")
        self._casts[source, target] = function

    def overloads(self, name: str) -> list[Function]:
        """Every overload of `name`; an empty list if there is none."""
        _import_declarations()
        return self._by_name.get(name, [])

    def cast(self, source: Kind, target: Kind) -> Function | None:
        """The cast from one kind to another, if there is one."""
        _import_declarations()
        return self._casts.get((source, target))

    def casts(self) -> Iterator[tuple[tuple[Kind, Kind], Function]]:
        """Every cast with the kinds it goes between."""
        _import_declarations()
        yield from self._casts.items()

    def names(self) -> list[str]:
        """All names, sorted."""
        _import_declarations()
        return sorted(self._by_name)

    def __iter__(self) -> Iterator[Function]:
        _import_declarations()
        for overloads in self._by_name.values():
            yield from overloads
        yield from self._casts.values()


REGISTRY = FunctionRegistry()


def _import_declarations() -> None:
    import_module("tidegate.expr.functions")  # by name, as those modules import this one


def _identity(function: Function) -> tuple[tuple[Param, ...], bool, int]:
    return function.params, function.variadic, function.version


def _find_overload(name: str, identity: tuple[tuple[Param, ...], bool, int]) -> Function:
    return next(f for f in REGISTRY.overloads(name) if _identity(f) == identity)


def _find_cast(source: Kind, target: Kind) -> Function:
    return dict(REGISTRY.casts())[source, target]


def _parameters(kernel: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a kernel's parameters."""
    # `inspect.signature` takes 40 µs for each of 500 kernels, which a cold start would wait for.
    code = getattr(kernel, "__code__", None)
    if code is None or hasattr(kernel, "__wrapped__"):
        return tuple(inspect.signature(kernel).parameters)
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _function(
    kernel: Callable[..., Any], name: str, params: Sequence[Param], result: ResultType, claims: Claims
) -> Function:
    names = _parameters(kernel)
    own: dict[str, Any] = {"doc": inspect.getdoc(kernel) or "", **claims}
    bound = own["transfer"] if isinstance(own.get("transfer"), BoundTransfer) else None
    if bound is not None:
        own["transfer"] = None
    own |= {"wants_out": "out" in names, "wants_types": "types" in names}
    function = Function(name, tuple(params), result, kernel, **own)
    return function if bound is None else replace(function, transfer=bound.bind(function))


def scalar(
    name: str,
    params: Sequence[Param] | None = None,
    result: ResultType | None = None,
    *,
    aliases: Sequence[str] = (),
    overloads: Sequence[Signature] = (),
    **claims: Unpack[Claims],
) -> Callable[[Kernel], Kernel]:
    """Declares every name with every signature: `params` → `result` if given, then the `overloads`."""
    rows: list[Signature] = [*([] if params is None or result is None else [(params, result)]), *overloads]
    if not rows:
        raise TypeError(f"{name} is declared without a signature")

    def declare(kernel: Kernel) -> Kernel:
        for spelling in (name, *aliases):
            for row_params, row_result in rows:
                REGISTRY.add(_function(kernel, spelling, row_params, row_result, claims))
        return kernel

    return declare


def cast(
    source: Type | Sequence[Type], target: Type | Sequence[Type], **claims: Unpack[Claims]
) -> Callable[[Kernel], Kernel]:
    """Declares the casts from every source to every target; `out` has the scale or length of the target."""
    sources, targets = ([end] if isinstance(end, Type) else end for end in (source, target))

    def declare(kernel: Kernel) -> Kernel:
        for from_ in sources:
            for to in targets:
                REGISTRY.add_cast(from_.kind, to.kind, _function(kernel, "cast", (from_,), to, claims))
        return kernel

    return declare
