"""Scalar expressions: a closed union of four frozen nodes.

`Column` reads a column of the row by position, `Literal` is a constant, `Now` is `mz_now()`, and `Call` applies a declared
function. All that differs from function to function (kernel, trend, errors, printed form) stands in its declaration
(`function.py`); so the tree stays this small, and everything that walks it is one `match`.

AND and OR are calls with any number of arguments, CASE is the call `case(c1, v1, c2, v2, …, else)`, and `x IN (…)` of
constants is one call with one array literal: ten thousand alternatives do not make a deep tree.

Nodes are compared by value, and their hash is computed once when they are made, so common subexpressions are found with
a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, assert_never

import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import LimitError
from tidegate.expr.types import BOOL, MZ_TIMESTAMP, Type

if TYPE_CHECKING:
    from tidegate.expr.function import Function

MAX_NESTING = Config().max_nesting


@dataclass(frozen=True)
class Column:
    """Column `index` of the row; the name is only for people, and does not take part in equality."""

    index: int
    type: Type
    name: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return (
            self.index
        )  # plans walk their columns again and again: what dataclasses make up takes ten times as long

    @property
    def depth(self) -> int:
        """Levels below and with this node."""
        return 1


@dataclass(frozen=True)
class Literal:
    """A constant: an Arrow scalar of the type's Arrow form, NULL included."""

    value: pa.Scalar
    type: Type

    def __eq__(self, other: object) -> bool:
        # Arrow holds NaN unequal to itself and 0.0 equal to -0.0, inside arrays too; a constant is the same constant
        # only bit by bit, and what holds a float is told apart by its text.
        if not isinstance(other, Literal) or self.type != other.type:
            return False
        if self.type.is_float or (self.type.is_nested and not self.type.identity_is_equality):
            return str(self.value) == str(other.value)
        return bool(self.value.equals(other.value))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.type, str(self.value) if self.type.is_float else self.value))

    def __reduce__(self) -> tuple[Callable[..., Literal], tuple[pa.Array, Type]]:
        return _one, (pa.repeat(self.value, 1), self.type)  # Arrow's scalars of intervals cannot be pickled

    @property
    def is_null(self) -> bool:
        """Whether this is NULL."""
        return not self.value.is_valid

    @property
    def depth(self) -> int:
        """Levels below and with this node."""
        return 1


def _one(values: pa.Array, type_: Type) -> Literal:
    return Literal(values[0], type_)


@dataclass(frozen=True)
class Now:
    """`mz_now()`: the logical time at which the expression is evaluated, in milliseconds."""

    @property
    def type(self) -> Type:
        """Always mz_timestamp."""
        return MZ_TIMESTAMP

    @property
    def depth(self) -> int:
        """Levels below and with this node."""
        return 1


@dataclass(frozen=True)
class Call:
    """A declared function applied to arguments; `type` is its result type for these arguments."""

    function: Function
    args: tuple[Expr, ...]
    type: Type
    depth: int = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth = 1 + max((arg.depth for arg in self.args), default=0)
        if depth > MAX_NESTING:
            raise LimitError(
                f"the expression is nested more than {MAX_NESTING} levels deep",
                hint="long chains of AND, OR and IN are flat and may be long; others must be split",
            )
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((id(self.function), self.args, self.type)))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def columns(self) -> frozenset[int]:
        """The columns that it reads."""
        return frozenset(node.index for node in walk(self) if isinstance(node, Column))

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[list[_Flat]]]:
        # Without the hash, which is this process's own; and flat, since pickling recurses thrice a level.
        place: dict[Expr, int] = {}
        flat: list[_Flat] = []
        for node in walk(self):
            place[node] = len(flat)
            given = [place[arg] for arg in children(node)]
            flat.append((node.function, given, node.type) if isinstance(node, Call) else node)
        return _unflattened, (flat,)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Call) or self._hash != other._hash:
            return self is other
        # Not by recursion, which for two deep trees is deeper than Python goes; and no pair twice, as subtrees are shared.
        seen: set[tuple[int, int]] = set()
        open_: list[tuple[Expr, Expr]] = [(self, other)]
        while open_:
            one, two = open_.pop()
            if one is two or (id(one), id(two)) in seen:
                continue
            seen.add((id(one), id(two)))
            if not isinstance(one, Call) or not isinstance(two, Call):
                if one != two:
                    return False
                continue
            if one._hash != two._hash or one.function is not two.function or one.type != two.type:
                return False
            if len(one.args) != len(two.args):
                return False
            open_.extend(zip(one.args, two.args, strict=True))
        return True


Expr: TypeAlias = Column | Literal | Now | Call
_Flat: TypeAlias = "Column | Literal | Now | tuple[Function, list[int], Type]"
"""A node as it is pickled: its arguments by their places among the nodes before it."""


def _unflattened(flat: list[_Flat]) -> Expr:
    made: list[Expr] = []
    for node in flat:
        if isinstance(node, tuple):
            function, args, type_ = node
            made.append(Call(function, tuple(made[arg] for arg in args), type_))
        else:
            made.append(node)
    return made[-1]


TRUE = Literal(pa.scalar(True), BOOL)
FALSE = Literal(pa.scalar(False), BOOL)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct arguments of a node."""
    return expr.args if isinstance(expr, Call) else ()


def walk(*exprs: Expr, below: Callable[[Expr], tuple[Expr, ...]] = children) -> Iterator[Expr]:
    """Every distinct node below and with `exprs`, arguments before the calls that use them."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False) for expr in reversed(exprs)]
    while stack:
        expr, ready = stack.pop()
        if expr in seen:
            continue
        if ready or not isinstance(expr, Call):
            seen.add(expr)
            yield expr
        else:
            stack.append((expr, True))
            stack.extend((arg, False) for arg in reversed(below(expr)))


def support(*exprs: Expr) -> frozenset[int]:
    """The columns that `exprs` read."""
    if len(exprs) == 1 and isinstance(exprs[0], Call):
        return exprs[0].columns
    plain = {expr.index for expr in exprs if isinstance(expr, Column)}
    return frozenset(plain.union(*(expr.columns for expr in exprs if isinstance(expr, Call))))


def has_now(expr: Expr) -> bool:
    """Whether `mz_now()` stands anywhere in `expr`."""
    return any(isinstance(node, Now) for node in walk(expr))


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `change` applied to every node, arguments first; equal nodes are changed once."""
    if not isinstance(expr, Call):
        return change(expr)
    done: dict[Expr, Expr] = {}
    for node in walk(expr):
        match node:
            case Call(function, args, type_):
                new = tuple(done[arg] for arg in args)
                same = all(a is b for a, b in zip(new, args, strict=True))
                done[node] = change(node if same else Call(function, new, type_))
            case Column() | Literal() | Now():
                done[node] = change(node)
            case _:
                assert_never(node)
    return done[expr]


def permute(expr: Expr, positions: Sequence[int] | dict[int, int]) -> Expr:
    """`expr` with column i read from `positions[i]` instead."""

    def move(node: Expr) -> Expr:
        return Column(positions[node.index], node.type, node.name) if isinstance(node, Column) else node

    return rewrite(expr, move)


def substitute(expr: Expr, values: Sequence[Expr]) -> Expr:
    """`expr` with column i replaced by `values[i]`."""
    return rewrite(expr, lambda node: values[node.index] if isinstance(node, Column) else node)
