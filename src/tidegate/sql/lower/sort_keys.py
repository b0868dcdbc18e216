"""Replaces what is sorted by with its sort key, which every engine sorts alike.

    ORDER BY payload -> 'n'            ORDER BY sort key(payload -> 'n')

The text of jsonb is in no order of its own (`expr/model/sort_keys.py`), and engines order arrays and records by rules of their own:
`ordered bytes` (`expr/functions/nested/order.py`) sorts as these do. Other values are their own sort keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.expr.model import Expr, build
from tidegate.plan import logical


def by_sort_keys(rel: logical.Rel) -> logical.Rel:
    """The same rows, sorted by sort keys wherever they are sorted."""
    rel = logical.with_inputs(rel, tuple(by_sort_keys(below) for below in logical.inputs(rel)))
    match rel:
        case logical.Sort():
            return replace(rel, order=_keys(rel.order))
        case logical.Group():
            return replace(rel, computed=tuple((column, _ordered(one)) for column, one in rel.computed))
        case logical.Window():
            computed = (
                (column, _ordered(one), replace(span, order=_keys(span.order)))
                for column, one, span in rel.computed
            )
            return replace(rel, computed=tuple(computed))
        case _:
            return rel


def _ordered(one: logical.AggregateExpr) -> logical.AggregateExpr:
    return replace(one, order=_keys(one.order)) if one.order else one


def _keys(order: Sequence[logical.SortKey]) -> tuple[logical.SortKey, ...]:
    return tuple(replace(key, value=_sort_key(key.value)) for key in order)


def _sort_key(value: Expr) -> Expr:
    if value.type.is_nested:
        return build.call("ordered bytes", value, hidden=True)
    return build.sort_key(value)
