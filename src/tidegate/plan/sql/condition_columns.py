"""Which columns only let rows pass: such a subquery is written into a WHERE, as a semi-join.

WHERE EXISTS (SELECT …) AND x > 1        the column of EXISTS is read by this filter alone, and is written inside of it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.expr.model import Call, Column, Expr, support
from tidegate.plan import logical
from tidegate.plan.join_keys import whole_condition_subqueries


def _plain_columns(conditions: Sequence[Expr]) -> set[int]:
    """Returns the columns that stand only below AND and OR in these conditions."""
    waiting, plain, others = list(conditions), set[int](), set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function.name in ("and", "or"):
            waiting.extend(node.args)
        elif isinstance(node, Column):
            plain.add(node.index)
        else:
            others |= support(node)
    return plain - others


def column_readers(query: logical.LogicalQuery) -> Counter[int]:
    """Counts the nodes that read each column; the result is one of them."""
    readers = Counter(column.index for column in set(query.columns))
    for rel in logical.walk(query.rel):
        readers.update(logical.columns_read(rel))
        if isinstance(rel, logical.SubqueryApply):
            for _, subquery in rel.computed:
                readers.update(support(*subquery.tests, *subquery.columns))
    return readers


def columns_in_where(query: logical.LogicalQuery, readers: Counter[int]) -> set[int]:
    """Returns the columns of subqueries that are written directly into a WHERE: no other node reads them."""
    return {
        index
        for rel in logical.walk(query.rel)
        if isinstance(rel, logical.Filter) and isinstance(rel.input, logical.SubqueryApply)
        for index in direct_subqueries(rel, rel.input, readers)
    }


def pass_columns(query: logical.LogicalQuery, readers: Counter[int]) -> set[int]:
    """Returns the columns that only let rows pass, for which NULL and false are the same."""
    return {
        index
        for rel in logical.walk(query.rel)
        if isinstance(rel, logical.Filter)
        for index in _plain_columns(rel.conditions)
        if readers[index] == 1
    }


def direct_subqueries(
    rel: logical.Filter, below: logical.SubqueryApply, readers: Counter[int]
) -> dict[int, logical.Subquery]:
    """Returns the subqueries that are whole conditions and that no other node reads."""
    return {i: subquery for i, subquery in whole_condition_subqueries(rel, below).items() if readers[i] == 1}
