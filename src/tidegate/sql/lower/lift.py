"""Moves expressions that Spark has no form for into the scans they read, if they cannot fail.

    Group: sum(#9)                          Group: sum(#9)
      Map  length(payload ->> 'a') as #9      Map  length(#12) as #9
        Join                                    Join
          Scan t                                  Scan t   Map payload ->> 'a' as #12

On its way down an expression passes rows that a join or a filter drops, which is why it must not fail; it does not pass the side
of an outer join that is filled with NULLs, where it would be computed of no row, nor a group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.expr.model import Call, Column, Expr, subexpressions, support, tree
from tidegate.plan import logical


class _Lifting:
    """The expressions that scans are to compute, gathered from above."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.made: dict[int, dict[Expr, Column]] = {}
        """By the first column of the scan, which no other scan has."""

    def column(self, scan: logical.Scan, expr: Expr) -> Column:
        known = self.made.setdefault(scan.columns[0].index, {})
        if expr not in known:
            known[expr] = Column(self.count, expr.type)
            self.count += 1
        return known[expr]


def lifted(rel: logical.Rel, count: int) -> tuple[logical.Rel, int]:
    """The tree with these expressions computed in scans; `count` is the first number that is free."""
    lifting = _Lifting(count)
    changed = _changed(rel, lifting)
    return _output_columns(changed, lifting), lifting.count


def _output_columns(rel: logical.Rel, lifting: _Lifting) -> logical.Rel:
    """The scans with what they are to compute."""
    if isinstance(rel, logical.Scan):
        made = lifting.made.get(rel.columns[0].index, {}) if rel.columns else {}
        more = tuple((column, value) for value, column in made.items())
        wanted = rel.demanded if rel.demanded is None else rel.demanded | {column.index for column, _ in more}
        return replace(rel, computed=(*rel.computed, *more), demanded=wanted)
    return logical.with_inputs(rel, tuple(_output_columns(below, lifting) for below in logical.inputs(rel)))


def _changed(rel: logical.Rel, lifting: _Lifting) -> logical.Rel:
    below = tuple(_changed(one, lifting) for one in logical.inputs(rel))
    rel = logical.with_inputs(rel, below)
    scans = [
        scan for one in below[: 1 if isinstance(rel, logical.SubqueryApply) else 2] for scan in _reached(one)
    ]
    if not scans:
        return rel

    def down(expr: Expr) -> Expr:
        return _moved(expr, scans, lifting)

    match rel:
        case logical.Map():
            return logical.Map(rel.input, tuple((column, down(value)) for column, value in rel.computed))
        case logical.Filter():
            return logical.Filter(rel.input, tuple(map(down, rel.conditions)))
        case logical.Join(kind="inner"):
            return replace(rel, on=tuple(map(down, rel.on)))
        case logical.Group():
            keys = tuple((c, v if c == v else down(v)) for c, v in rel.keys)
            return replace(
                rel, keys=keys, computed=tuple((c, _summary(one, down)) for c, one in rel.computed)
            )
        case logical.Window():
            return logical.Window(
                rel.input, tuple((c, _summary(one, down), span) for c, one, span in rel.computed)
            )
        case _:
            return rel


def _summary(one: logical.AggregateExpr, down: Callable[[Expr], Expr]) -> logical.AggregateExpr:
    order = tuple(replace(key, value=down(key.value)) for key in one.order)
    where = None if one.where is None else down(one.where)
    return replace(one, args=tuple(map(down, one.args)), order=order, where=where)


def _reached(rel: logical.Rel) -> list[logical.Scan]:
    """The scans whose columns come up unchanged, row by row."""
    match rel:
        case logical.Scan():
            return [rel] if rel.columns else []
        case logical.Filter() | logical.Map() | logical.Window() | logical.SubqueryApply() | logical.Sort():
            return _reached(rel.input)
        case logical.Join():
            left = _reached(rel.left) if rel.kind in ("inner", "left") else []
            return [*left, *(_reached(rel.right) if rel.kind in ("inner", "right") else [])]
        case _:
            return []


def _moved(expr: Expr, scans: list[logical.Scan], lifting: _Lifting) -> Expr:
    """An expression with its largest parts that can be computed in a scan read from there."""
    chosen: dict[Expr, Column] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if not isinstance(node, Call) or node in chosen:
            continue
        scan = _only(node, scans)
        fixed = subexpressions.may_fail(node) or bool(subexpressions.volatile_calls(node))
        if scan is not None and not fixed and _unspoken(node):
            chosen[node] = lifting.column(scan, node)
        else:
            stack.extend(tree.children(node))
    if not chosen:
        return expr
    return chosen.get(expr) or _replaced(expr, chosen)


def _replaced(expr: Expr, chosen: dict[Expr, Column]) -> Expr:
    if not isinstance(expr, Call):
        return expr
    args = tuple(chosen.get(arg) or _replaced(arg, chosen) for arg in expr.args)
    return expr if args == expr.args else Call(expr.function, args, expr.type)


def _only(expr: Expr, scans: list[logical.Scan]) -> logical.Scan | None:
    """The scan whose columns alone an expression reads."""
    read = support(expr)
    own = [scan for scan in scans if read and read <= {column.index for column in scan.columns}]
    return own[0] if own else None


def _unspoken(expr: Expr) -> bool:
    """Whether some function in it has no Spark form."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Call):
            if node.function.spark is None:
                return True
            stack.extend(node.args)
    return False
