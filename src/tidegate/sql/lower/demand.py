"""Which columns of a tree are used: nothing else is read, computed or sent on.

narrowed(rel, {3, 7})      the tree with scans that read, and nodes that make, only what ends up in columns 3 and 7
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tidegate.expr.model import support
from tidegate.plan import logical


def narrowed(rel: logical.Rel, wanted: frozenset[int]) -> logical.Rel:
    """The tree for these columns alone."""
    match rel:
        case logical.Scan():
            return _scan(rel, wanted)
        case logical.SingleRow() | logical.ConstantRows() | logical.RowNumbers() | logical.WorkingTable():
            return rel
        case logical.TableFunctionApply():
            position = rel.position if rel.position and rel.position.index in wanted else None
            below = narrowed(rel.input, wanted | logical.columns_read(rel))
            return replace(rel, input=below, position=position)
        case logical.Common():
            return _common(rel, wanted)
        case logical.CommonRows():
            return replace(rel, computed=tuple(pair for pair in rel.computed if pair[0].index in wanted))
        case logical.Map():
            made = tuple((column, value) for column, value in rel.computed if column.index in wanted)
            read = support(*(value for _, value in made))
            below = narrowed(rel.input, (wanted - {c.index for c, _ in rel.computed}) | read)
            return logical.Map(below, made) if made else below
        case logical.SubqueryApply():
            return _ask(rel, wanted)
        case logical.Window():
            return _window(rel, wanted)
        case logical.Group():
            aggregates = tuple(one for one in rel.computed if one[0].index in wanted)
            new_group = replace(rel, computed=aggregates)
            return replace(new_group, input=narrowed(rel.input, logical.columns_read(new_group)))
        case logical.SetOp() | logical.Recursive():
            return _combine(rel, wanted)
        case logical.Distinct():
            return replace(rel, input=narrowed(rel.input, logical.columns_read(rel)))
        case logical.Filter() | logical.Sort():
            return replace(rel, input=narrowed(rel.input, wanted | logical.columns_read(rel)))
        case logical.Join():
            inside = wanted | support(*rel.on)
            beside = inside | (logical.outer_columns(rel.right) if rel.lateral else frozenset())
            return replace(rel, left=narrowed(rel.left, beside), right=narrowed(rel.right, inside))
        case _:
            assert_never(rel)


def _window(rel: logical.Window, wanted: frozenset[int]) -> logical.Rel:
    windows = tuple(one for one in rel.computed if one[0].index in wanted)
    new = logical.Window(rel.input, windows)
    rest = wanted - {one[0].index for one in rel.computed}
    below = narrowed(rel.input, rest | logical.columns_read(new))
    return logical.Window(below, windows) if windows else below


def _scan(rel: logical.Scan, wanted: frozenset[int]) -> logical.Scan:
    made = tuple((column, value) for column, value in rel.computed if column.index in wanted)
    every = {column.index for column in (*rel.columns, *(column for column, _ in made))}
    return replace(rel, computed=made, demanded=wanted & every)


def _ask(rel: logical.SubqueryApply, wanted: frozenset[int]) -> logical.Rel:
    looks = []
    for column, look in rel.computed:
        if column.index in wanted:
            inner = narrowed(look.query, frozenset(c.index for c in look.columns))
            looks.append((column, replace(look, query=inner)))
    new = logical.SubqueryApply(rel.input, tuple(looks))
    below = narrowed(
        rel.input, (wanted - {column.index for column, _ in rel.computed}) | logical.columns_read(new)
    )
    return logical.SubqueryApply(below, new.computed) if looks else below


def _combine(rel: logical.SetOp | logical.Recursive, wanted: frozenset[int]) -> logical.Rel:
    """Of a UNION ALL the columns that are wanted; else all of them tell rows apart."""
    keep = [i for i, column in enumerate(rel.columns) if column.index in wanted]
    if isinstance(rel, logical.Recursive) or rel.name != "UNION" or not rel.every:
        keep = list(range(len(rel.columns)))
    columns, a, b = (
        tuple(those[i] for i in keep) for those in (rel.columns, rel.left_columns, rel.right_columns)
    )
    left = narrowed(rel.left, frozenset(c.index for c in a))
    right = narrowed(rel.right, frozenset(c.index for c in b))
    return replace(rel, left=left, right=right, columns=columns, left_columns=a, right_columns=b)


def _common(rel: logical.Common, wanted: frozenset[int]) -> logical.Common:
    """Of what is computed once, the columns that some reader wants."""
    below = narrowed(rel.input, wanted)
    used = frozenset(
        source.index
        for node in logical.walk(below)
        if isinstance(node, logical.CommonRows) and node.number == rel.number
        for _, source in node.computed
    )
    columns = tuple(column for column in rel.columns if column.index in used)
    return replace(rel, columns=columns, definition=narrowed(rel.definition, used), input=below)
