"""Subqueries in expressions as SQL.

EXISTS (SELECT 1 FROM …)        (SELECT c3 FROM …)        (c1) IN (SELECT c3 FROM …)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tidegate.expr.model import Call, Column, Expr, support
from tidegate.plan import logical
from tidegate.plan.join_keys import equi_join_keys

if TYPE_CHECKING:
    from tidegate.plan.sql.writer import SqlWriter


def subquery_sql(writer: SqlWriter, subquery: logical.Subquery, *, whole: bool = False) -> str:
    """Returns a subquery; `whole`: a condition of WHERE, where NULL and false are the same."""
    inner = writer.aliased(writer.text(subquery.query))
    match subquery.kind:
        case "exists":
            return f"EXISTS (SELECT 1 FROM {inner})"
        case "scalar":
            return f"(SELECT {writer.name(subquery.columns[0])} FROM {inner})"
        case "any" if subquery.operator == "=":
            pairs = [test.args for test in subquery.tests if isinstance(test, Call)]
            if (
                len(pairs) > 1
                and logical.outer_columns(subquery.query)
                and not writer.dialect.correlated_rows
            ):
                return _every(writer, subquery, inner)
            left = ", ".join(writer.expression(a) for a, _ in pairs)
            right = ", ".join(writer.expression(b) for _, b in pairs)
            membership = f"({left}) IN (SELECT {right} FROM {inner})"
            plain = whole or writer.dialect.null_aware_in
            return membership if plain else _in_as_value(writer, subquery, membership, inner)
        case "any" | "all":
            return _every(writer, subquery, inner)
        case _:
            assert_never(subquery.kind)


def membership_sql(writer: SqlWriter, subquery: logical.Subquery) -> str | None:
    """Returns an EXISTS that must hold as IN, if one equality is all that binds it to the rows outside.

    Engines make a plain semi-join of `x IN (SELECT y …)`. DuckDB does of EXISTS only where no UNION stands below it, and else
    builds its hash table of the inner side, however large.
    """
    rel = subquery.query
    while isinstance(rel, logical.Map):
        rel = rel.input
    if subquery.kind != "exists" or not isinstance(rel, logical.Filter):
        return None
    own = frozenset(column.index for column in logical.output_columns(rel.input))
    bound = [condition for condition in rel.conditions if not support(condition) <= own]
    found = _key(bound[0], own) if len(bound) == 1 else None
    if found is None or logical.outer_columns(rel.input):
        return None
    inner, outer = found
    rest = tuple(condition for condition in rel.conditions if condition is not bound[0])
    below = writer.text(logical.Filter(rel.input, rest) if rest else rel.input)
    return f"{writer.name(outer)} IN (SELECT {writer.name(inner)} FROM {writer.aliased(below)})"


def _key(condition: Expr, own: frozenset[int]) -> tuple[Column, Column] | None:
    """Returns the column of the subquery and the one outside that must be equal."""
    for a, b in equi_join_keys([condition]):
        if (a.index in own) != (b.index in own) and a.type == b.type:
            return (a, b) if a.index in own else (b, a)
    return None


def _in_as_value(writer: SqlWriter, subquery: logical.Subquery, membership: str, inner: str) -> str:
    """Returns IN as a value: NULL, not false, if either side has a NULL."""
    if len(subquery.tests) != 1 or not isinstance(subquery.tests[0], Call):
        return _every(writer, subquery, inner)
    left, right = map(writer.expression, subquery.tests[0].args)
    null = f"({left}) IS NULL AND EXISTS (SELECT 1 FROM {inner})"
    other = f"EXISTS (SELECT 1 FROM {inner} WHERE ({right}) IS NULL)"
    return f"CASE WHEN {membership} THEN true WHEN {null} THEN NULL WHEN {other} THEN NULL ELSE false END"


def _every(writer: SqlWriter, subquery: logical.Subquery, inner: str) -> str:
    """Returns `x < ANY (…)`: true if any is, else NULL if any is NULL, else false; ALL conversely."""
    test = " AND ".join(f"({writer.expression(test)})" for test in subquery.tests)
    tests = writer.aliased(f"SELECT ({test}) AS t FROM {inner}")
    if subquery.kind == "any":
        cases = "WHEN max(t) THEN true WHEN count(*) > count(t) THEN NULL ELSE false"
    else:
        cases = "WHEN NOT min(t) THEN false WHEN count(*) > count(t) THEN NULL ELSE true"
    return f"(SELECT CASE {cases} END FROM {tests})"


def single_row_sql(writer: SqlWriter, subquery: logical.Subquery, name: str) -> str:
    """Returns a scalar subquery as a SELECT of exactly one row; several rows are an error."""
    value = writer.name(subquery.columns[0])
    inner = writer.aliased(writer.text(subquery.query))
    return f"SELECT {writer.dialect.single_value(value)} AS {name} FROM {inner}"
