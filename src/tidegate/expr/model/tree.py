"""Scalar expressions: a closed union of four frozen nodes.

`Column` reads a column of the row by position, `Literal` is a constant, `Now` is `mz_now()`, and `Call` applies a declared
function. Everything specific to a function (kernel, trend, errors, printed form) is in its declaration (`function.py`), so
the tree stays this small, and code that walks it is one `match`.

AND and OR are calls with any number of arguments, CASE is the call `case(c1, v1, c2, v2, …, else)`, and `x IN (…)` of
constants is one call with one array literal: ten thousand alternatives do not make a deep tree.

Nodes are compared by value, and their hash is computed once, so a dictionary finds common subexpressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, assert_never

import pyarrow as pa

from tidegate.config import MAX_NESTING
from tidegate.errors import LimitError
from tidegate.expr.model.types import BOOL, MZ_TIMESTAMP, Type

if TYPE_CHECKING:
    from tidegate.expr.model.function import Function


@dataclass(frozen=True)
class Column:
    """Column `index` of the row; the name is for display and does not take part in equality."""

    index: int
    type: Type
    name: str = field(default="", compare=False)

    def __hash__(self) -> int:
        # Plans hash their columns often, and the hash that dataclasses generate takes ten times as long.
        return self.index

    @property
    def depth(self) -> int:
        """The number of levels, this node included."""
        return 1


@dataclass(frozen=True)
class Literal:
    """A constant: an Arrow scalar of the type's Arrow form, NULL included."""

    value: pa.Scalar
    type: Type

    def __eq__(self, other: object) -> bool:
        # In Arrow NaN differs from itself and 0.0 equals -0.0, inside arrays too. Constants are equal only bit by bit, so
        # constants that hold floats are compared by their text.
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
        return _literal_of, (pa.repeat(self.value, 1), self.type)  # Arrow cannot pickle interval scalars

    @property
    def is_null(self) -> bool:
        """Whether this is NULL."""
        return not self.value.is_valid

    @property
    def depth(self) -> int:
        """The number of levels, this node included."""
        return 1


def _literal_of(values: pa.Array, type_: Type) -> Literal:
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
        """The number of levels, this node included."""
        return 1


@dataclass(frozen=True)
class Call:
    """A declared function applied to arguments; `type` is the type of the result."""

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
                hint="split the expression; chains of AND, OR and IN do not nest, however long",
            )
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((id(self.function), self.args, self.type)))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def columns(self) -> frozenset[int]:
        """The columns that the call reads."""
        return frozenset(node.index for node in walk(self) if isinstance(node, Column))

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[list[_Flat]]]:
        # Without the hash, which is specific to this process; and flat, since pickle recurses three times per level.
        place: dict[Expr, int] = {}
        flat: list[_Flat] = []
        for node in walk(self):
            place[node] = len(flat)
            args = [place[arg] for arg in children(node)]
            flat.append((node.function, args, node.type) if isinstance(node, Call) else node)
        return _unflatten, (flat,)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Call) or self._hash != other._hash:
            return self is other
        # Iterative, since two deep trees exceed Python's recursion limit. No pair is compared twice, as subtrees are shared.
        seen: set[tuple[int, int]] = set()
        pairs: list[tuple[Expr, Expr]] = [(self, other)]
        while pairs:
            left, right = pairs.pop()
            if left is right or (id(left), id(right)) in seen:
                continue
            seen.add((id(left), id(right)))
            if not isinstance(left, Call) or not isinstance(right, Call):
                if left != right:
                    return False
                continue
            if left._hash != right._hash or left.function is not right.function or left.type != right.type:
                return False
            if len(left.args) != len(right.args):
                return False
            pairs.extend(zip(left.args, right.args, strict=True))
        return True


Expr: TypeAlias = Column | Literal | Now | Call
_Flat: TypeAlias = "Column | Literal | Now | tuple[Function, list[int], Type]"
"""A node as pickled: arguments are positions among the nodes before it."""


def _unflatten(flat: list[_Flat]) -> Expr:
    nodes: list[Expr] = []
    for node in flat:
        if isinstance(node, tuple):
            function, args, type_ = node
            nodes.append(Call(function, tuple(nodes[arg] for arg in args), type_))
        else:
            nodes.append(node)
    return nodes[-1]


TRUE = Literal(pa.scalar(True), BOOL)
FALSE = Literal(pa.scalar(False), BOOL)


def call_type(function: Function, args: Sequence[Expr]) -> Type:
    """The type of a call with these arguments; constants among them may decide it, as in round(x, 2)."""
    types = [arg.type for arg in args]
    if function.constant_result is not None:
        constants = [arg.value.as_py() if isinstance(arg, Literal) else None for arg in args]
        return function.constant_result(constants, types) or function.result_type(types)
    return function.result_type(types)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct arguments of a node."""
    return expr.args if isinstance(expr, Call) else ()


def walk(*exprs: Expr, below: Callable[[Expr], tuple[Expr, ...]] = children) -> list[Expr]:
    """Every distinct node of `exprs`, arguments before the calls that use them."""
    nodes: dict[Expr, None] = {}
    stack: list[tuple[Expr, bool]] = [(expr, False) for expr in reversed(exprs)]
    while stack:
        expr, ready = stack.pop()
        if expr in nodes:
            continue
        if ready or not isinstance(expr, Call):
            nodes[expr] = None
        else:
            stack.append((expr, True))
            stack.extend((arg, False) for arg in reversed(below(expr)))
    return list(nodes)


def support(*exprs: Expr) -> frozenset[int]:
    """The columns that `exprs` read."""
    if len(exprs) == 1 and isinstance(exprs[0], Call):
        return exprs[0].columns
    plain = {expr.index for expr in exprs if isinstance(expr, Column)}
    return frozenset(plain.union(*(expr.columns for expr in exprs if isinstance(expr, Call))))


def has_now(*exprs: Expr) -> bool:
    """Whether `mz_now()` occurs in `exprs`."""
    return any(isinstance(node, Now) for node in walk(*exprs))


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `change` applied to every node, arguments first; equal nodes are changed once."""
    if not isinstance(expr, Call):
        return change(expr)
    changed: dict[Expr, Expr] = {}
    for node in walk(expr):
        match node:
            case Call(function, args, type_):
                new_args = tuple(changed[arg] for arg in args)
                same = all(a is b for a, b in zip(new_args, args, strict=True))
                changed[node] = change(node if same else Call(function, new_args, type_))
            case Column() | Literal() | Now():
                changed[node] = change(node)
            case _:
                assert_never(node)
    return changed[expr]


def permute(expr: Expr, positions: Sequence[int] | dict[int, int]) -> Expr:
    """`expr` with column i read from `positions[i]` instead."""

    def move(node: Expr) -> Expr:
        if not isinstance(node, Column) or (place := positions[node.index]) == node.index:
            return node
        return Column(place, node.type, node.name)

    return rewrite(expr, move)


def substitute(expr: Expr, values: Sequence[Expr]) -> Expr:
    """`expr` with column i replaced by `values[i]`."""
    return rewrite(expr, lambda node: values[node.index] if isinstance(node, Column) else node)
