"""Expressions that Spark cannot say move into the scans that they read, if they cannot fail: see `split_push.py`.

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

from tidegate.expr.tree import Call, Column, Expr, children, support
from tidegate.plan.optimise import may_fail
from tidegate.sql.split import (
    Ask,
    Filter,
    Group,
    Join,
    Map,
    Rel,
    Scan,
    Sorted,
    Summary,
    Window,
    inputs,
    rebuilt,
)  # fmt: skip


class _Lifting:
    """The expressions that scans are to compute, gathered from above."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.made: dict[int, dict[Expr, Column]] = {}
        """By the first column of the scan, which no other scan has."""

    def column(self, scan: Scan, expr: Expr) -> Column:
        known = self.made.setdefault(scan.columns[0].index, {})
        if expr not in known:
            known[expr] = Column(self.count, expr.type)
            self.count += 1
        return known[expr]


def lifted(rel: Rel, count: int) -> tuple[Rel, int]:
    """The tree with these expressions computed in scans; `count` is the first number that is free."""
    lifting = _Lifting(count)
    changed = _changed(rel, lifting)
    return _given(changed, lifting), lifting.count


def _given(rel: Rel, lifting: _Lifting) -> Rel:
    """The scans with what they are to compute."""
    if isinstance(rel, Scan):
        made = lifting.made.get(rel.columns[0].index, {}) if rel.columns else {}
        more = tuple((column, value) for value, column in made.items())
        wanted = rel.wanted if rel.wanted is None else rel.wanted | {column.index for column, _ in more}
        return replace(rel, made=(*rel.made, *more), wanted=wanted)
    return rebuilt(rel, tuple(_given(below, lifting) for below in inputs(rel)))


def _changed(rel: Rel, lifting: _Lifting) -> Rel:
    below = tuple(_changed(one, lifting) for one in inputs(rel))
    rel = rebuilt(rel, below)
    scans = [scan for one in below[: 1 if isinstance(rel, Ask) else 2] for scan in _reached(one)]
    if not scans:
        return rel

    def down(expr: Expr) -> Expr:
        return _moved(expr, scans, lifting)

    match rel:
        case Map():
            return Map(rel.input, tuple((column, down(value)) for column, value in rel.made))
        case Filter():
            return Filter(rel.input, tuple(map(down, rel.conditions)))
        case Join(kind="inner"):
            return replace(rel, on=tuple(map(down, rel.on)))
        case Group():
            keys = tuple((c, v if c == v else down(v)) for c, v in rel.keys)
            return replace(rel, keys=keys, made=tuple((c, _summary(one, down)) for c, one in rel.made))
        case Window():
            return Window(rel.input, tuple((c, _summary(one, down), span) for c, one, span in rel.made))
        case _:
            return rel


def _summary(one: Summary, down: Callable[[Expr], Expr]) -> Summary:
    return replace(one, given=tuple(down(value) for value in one.given))


def _reached(rel: Rel) -> list[Scan]:
    """The scans whose columns come up unchanged, row by row."""
    match rel:
        case Scan():
            return [rel] if rel.columns else []
        case Filter() | Map() | Window() | Ask() | Sorted():
            return _reached(rel.input)
        case Join():
            left = _reached(rel.left) if rel.kind in ("inner", "left") else []
            return [*left, *(_reached(rel.right) if rel.kind in ("inner", "right") else [])]
        case _:
            return []


def _moved(expr: Expr, scans: list[Scan], lifting: _Lifting) -> Expr:
    """An expression with its largest parts that can be computed in a scan read from there."""
    chosen: dict[Expr, Column] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if not isinstance(node, Call) or node in chosen:
            continue
        scan = _only(node, scans)
        if scan is not None and not may_fail(node) and _unspoken(node):
            chosen[node] = lifting.column(scan, node)
        else:
            stack.extend(children(node))
    if not chosen:
        return expr
    return chosen.get(expr) or _replaced(expr, chosen)


def _replaced(expr: Expr, chosen: dict[Expr, Column]) -> Expr:
    if not isinstance(expr, Call):
        return expr
    args = tuple(chosen.get(arg) or _replaced(arg, chosen) for arg in expr.args)
    return expr if args == expr.args else Call(expr.function, args, expr.type)


def _only(expr: Expr, scans: list[Scan]) -> Scan | None:
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
