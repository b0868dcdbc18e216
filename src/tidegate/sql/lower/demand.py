"""Which columns of a tree are used: nothing else is read, computed or sent on.

narrowed(rel, {3, 7})      the tree with scans that read, and nodes that make, only what ends up in columns 3 and 7
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from tidegate.expr.tree import support
from tidegate.sql.split import (
    Ask,
    Combine,
    Distinct,
    Filter,
    Group,
    Join,
    Map,
    Rel,
    Row,
    Rows,
    Scan,
    Sorted,
    Window,
    free,
    read_by,
)  # fmt: skip


def narrowed(rel: Rel, wanted: frozenset[int]) -> Rel:
    """The tree for these columns alone."""
    match rel:
        case Scan():
            return _scan(rel, wanted)
        case Row() | Rows():
            return rel
        case Map():
            made = tuple((column, value) for column, value in rel.made if column.index in wanted)
            read = support(*(value for _, value in made))
            below = narrowed(rel.input, (wanted - {c.index for c, _ in rel.made}) | read)
            return Map(below, made) if made else below
        case Ask():
            return _ask(rel, wanted)
        case Window():
            windows = tuple(one for one in rel.made if one[0].index in wanted)
            new = Window(rel.input, windows)
            below = narrowed(rel.input, (wanted - {one[0].index for one in rel.made}) | read_by(new))
            return Window(below, windows) if windows else below
        case Group():
            aggregates = tuple(one for one in rel.made if one[0].index in wanted)
            new_group = replace(rel, made=aggregates)
            return replace(new_group, input=narrowed(rel.input, read_by(new_group)))
        case Combine():
            return _combine(rel, wanted)
        case Distinct():
            return replace(rel, input=narrowed(rel.input, read_by(rel)))
        case Filter() | Sorted():
            return replace(rel, input=narrowed(rel.input, wanted | read_by(rel)))
        case Join():
            inside = wanted | support(*rel.on)
            left = inside | (free(rel.right) if rel.lateral else frozenset())
            return replace(rel, left=narrowed(rel.left, left), right=narrowed(rel.right, inside))
        case _:
            assert_never(rel)


def _scan(rel: Scan, wanted: frozenset[int]) -> Scan:
    made = tuple((column, value) for column, value in rel.made if column.index in wanted)
    every = {column.index for column in (*rel.columns, *(column for column, _ in made))}
    return replace(rel, made=made, wanted=wanted & every)


def _ask(rel: Ask, wanted: frozenset[int]) -> Rel:
    looks = []
    for column, look in rel.made:
        if column.index in wanted:
            inner = narrowed(look.query, frozenset(c.index for c in look.columns))
            looks.append((column, replace(look, query=inner)))
    new = Ask(rel.input, tuple(looks))
    below = narrowed(rel.input, (wanted - {column.index for column, _ in rel.made}) | read_by(new))
    return Ask(below, new.made) if looks else below


def _combine(rel: Combine, wanted: frozenset[int]) -> Rel:
    """Of a UNION ALL the columns that are wanted; else all of them tell rows apart."""
    keep = [i for i, column in enumerate(rel.columns) if column.index in wanted]
    if rel.name != "UNION" or not rel.every:
        keep = list(range(len(rel.columns)))
    columns, a, b = (
        tuple(those[i] for i in keep) for those in (rel.columns, rel.left_columns, rel.right_columns)
    )
    left = narrowed(rel.left, frozenset(c.index for c in a))
    right = narrowed(rel.right, frozenset(c.index for c in b))
    return replace(rel, left=left, right=right, columns=columns, left_columns=a, right_columns=b)
