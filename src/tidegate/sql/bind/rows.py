"""Rows as values: records with the names of columns, and tests of rows as PostgreSQL has them.

| test | is true if |
|---|---|
| `r IS NULL` | every field is NULL, or r itself |
| `r IS NOT NULL` | no field is NULL: both are false for `ROW(1, NULL)` |
| `(a, b) < (c, d)` | a < c, or a = c and b < d; NULL if the pair that decides has a NULL |
| `(a, b) IS DISTINCT FROM (c, d)` | a IS DISTINCT FROM c, or b from d |
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import TypeMismatch
from tidegate.expr.model import REGISTRY, Call, Expr, Kind, build, types
from tidegate.sql.parse.syntax import Apply, Items, Node

ROW_TESTS = ("=", "<>", "<", "<=", ">", ">=", "is distinct from")
"""Tests of two rows that compare one pair of values after another."""


def named_row(names: Sequence[str], values: Sequence[Expr]) -> Expr:
    """A record of values with these names."""
    type_ = types.record(*((name, value.type) for name, value in zip(names, values, strict=True)))
    return Call(REGISTRY.overloads("row")[0], tuple(values), type_)


def is_null(row: Expr, *, negated: bool = False) -> Expr:
    """`row IS [NOT] NULL`: of all fields."""
    tests = [build.call("is null", build.field(row, name)) for name, _ in row.type.fields]
    return build.conjunction([build.call("not", test) for test in tests] if negated else tests)


def row_test(node: Apply, args: Sequence[Expr]) -> Expr | None:
    """IS [NOT] NULL of a record; None if it is another test.

    Not for transforms, whose rows never change: they ask whether the record itself is NULL, as all did once.
    """
    if node.name == "is null" and args[0].type.kind is Kind.RECORD:
        return is_null(args[0])
    if node.name == "not" and isinstance(args[0], Call):
        inner = node.args[0]
        # `r IS NOT NULL` is one test, written in one place; `NOT r IS NULL` negates the other one.
        whole = isinstance(inner, Apply) and inner.name == "is null" and inner.at == node.at
        row = _tested_row(args[0]) if whole else None
        return None if row is None else is_null(row, negated=True)
    return None


def _tested_row(test: Call) -> Expr | None:
    """The record whose fields `is_null` tests."""
    first = test.args[0] if test.function.name == "and" else test
    field = first.args[0] if isinstance(first, Call) and first.function.name == "is null" else None
    if isinstance(field, Call) and field.function.name == "field":
        return field.args[0]
    return None


def is_row(node: Node) -> bool:
    """Whether something is written as a row: `(a, b)` or `ROW(a, b)`."""
    return isinstance(node, Items) and node.kind == "row"


def compare_rows(name: str, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    """`(a, b) < (c, d)` is `a < c OR (a = c AND b < d)`, so that a NULL that decides makes it NULL."""
    if len(left) != len(right):
        raise TypeMismatch(f"rows of {len(left)} and {len(right)} values cannot be compared")
    pairs = list(zip(left, right, strict=True))
    if name in ("=", "<>", "is distinct from"):  # each pair by itself: NULL does not hide a difference
        tests = [build.call(name, a, b) for a, b in pairs]
        return build.conjunction(tests) if name == "=" else build.disjunction(tests)
    *first, (a, b) = pairs
    result = build.call(name, a, b)
    for x, y in reversed(first):
        same = build.conjunction([build.call("=", x, y), result])
        result = build.disjunction([build.call(name[0], x, y), same])
    return result
