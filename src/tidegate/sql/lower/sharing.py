"""Whether a common table or a view is computed once, or by each of its readers.

    WITH c AS (SELECT kind, sum(n) AS n FROM t GROUP BY kind) SELECT * FROM c WHERE n = (SELECT max(n) FROM c)

| query | computed |
|---|---|
| read once | where it is read |
| read more than once, and it aggregates, joins, sorts, or is otherwise dear | once |
| read more than once, and it only filters and computes columns | by each reader, whose conditions prune parts |
| a common table with a volatile function, read more than once | once: each row has one value |
| NOT MATERIALIZED, and MATERIALIZED if read more than once | as the user says |

The step of a recursion reads its tables many times. A view is but a text: each of its readers would have other values of
`random()`, so such a view is refused.

Conditions of readers stay with them. If all readers have conditions, no row that fails those of all of them is needed, so
`readers_conditions` are asked of the definition too, where they prune parts: `a = 1` and `a = 2 AND b` become
`a = 1 OR (a = 2 AND b)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Call, Column, Expr, Literal, Now, build, permute, subexpressions, support
from tidegate.plan import logical
from tidegate.sql.lower.volatility import volatile_places

T = TypeVar("T")


def shared(query: logical.LogicalQuery) -> logical.LogicalQuery:
    """The query with every `Common` that is worth it, and the others in the places of their readers."""
    if not isinstance(query.rel, logical.Common):
        return query
    numbers = _Numbers(query.count)
    return replace(query, rel=_with_shared(query.rel, numbers, _volatile(query.rel)), count=numbers.count)


class _Numbers(dict[int, int]):
    """Column numbers of a copy: new ones, for all that are not given."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __missing__(self, old: int) -> int:
        self[old] = self.count
        self.count += 1
        return self[old]


def _with_shared(rel: logical.Rel, numbers: _Numbers, volatile: frozenset[int]) -> logical.Rel:
    """A tree whose outermost nodes may be `Common`; those that read others are decided first."""
    if not isinstance(rel, logical.Common):
        return rel
    rel = replace(rel, input=_with_shared(rel.input, numbers, volatile))
    times = _reads(rel.input, rel.number)
    fixed = rel.number in volatile
    if times > 1 and fixed and rel.is_view:
        raise UnsupportedError(
            f'the view "{rel.name}" calls a volatile function and is read more than once',
            hint="write the rows of the view to a table first",
        )
    dear = rel.wanted if rel.wanted is not None else any(map(_is_dear, logical.walk(rel.definition)))
    if times > 1 and (fixed or dear):
        return replace(rel, is_volatile=fixed)
    return _replaced(rel.input, rel.number, lambda rows: _copied(rel.definition, rows, numbers))


def _reads(rel: logical.Rel, number: int) -> int:
    """How often the rows are read; twice stands for any number of times."""
    match rel:
        case logical.CommonRows():
            return int(rel.number == number)
        case logical.Recursive():
            return _reads(rel.left, number) + 2 * _reads(rel.right, number)
        case _:
            return sum(_reads(below, number) for below in logical.inputs(rel))


def _volatile(rel: logical.Rel) -> frozenset[int]:
    """The numbers of those that call a volatile function, or read another one that does."""
    found: set[int] = set()
    while isinstance(rel, logical.Common):
        called = any(True for _ in volatile_places(rel.definition))
        nodes = logical.walk(rel.definition)
        if called or any(isinstance(node, logical.CommonRows) and node.number in found for node in nodes):
            found.add(rel.number)
        rel = rel.input
    return frozenset(found)


def _is_dear(rel: logical.Rel) -> bool:
    """Whether a node does more than to pass rows on."""
    match rel:
        case logical.Sort(limit=None, offset=0):
            return False
        case logical.SetOp(name="UNION", every=True):
            return False
        case (
            logical.Scan()
            | logical.SingleRow()
            | logical.ConstantRows()
            | logical.RowNumbers()
            | logical.CommonRows()
            | logical.WorkingTable()
            | logical.Filter()
            | logical.Map()
        ):
            return False
        case _:
            return True


# ---------------------------------------------------------------- copies


def _replaced(
    rel: logical.Rel, number: int, copy: Callable[[logical.CommonRows], logical.Rel]
) -> logical.Rel:
    """The tree with something else in the places of the readers."""
    if isinstance(rel, logical.CommonRows) and rel.number == number:
        return copy(rel)
    below = logical.inputs(rel)
    new = tuple(_replaced(one, number, copy) for one in below)
    unchanged = all(a is b for a, b in zip(below, new, strict=True))
    return rel if unchanged else logical.with_inputs(rel, new)


def _copied(definition: logical.Rel, rows: logical.CommonRows, numbers: _Numbers) -> logical.Rel:
    """The definition with the reader's numbers for its columns, and new ones for all others."""
    numbers.clear()
    numbers.update({source.index: column.index for column, source in rows.computed})
    return _renumbered(definition, numbers)


def _renumbered(node: T, numbers: _Numbers) -> T:
    """A part of a tree with other column numbers."""
    if isinstance(node, Column | Call | Literal | Now):
        return cast("T", permute(node, numbers))
    if isinstance(node, tuple):
        return cast("T", tuple(_renumbered(item, numbers) for item in node))
    if not is_dataclass(node):
        return node
    new: dict[str, Any] = {
        field.name: _renumbered(getattr(node, field.name), numbers) for field in fields(node) if field.init
    }
    if isinstance(node, logical.Recursive | logical.WorkingTable):
        new["number"] = numbers[node.number]
    if isinstance(node, logical.CommonRows):  # what it reads keeps its numbers
        new["computed"] = tuple((_renumbered(column, numbers), source) for column, source in node.computed)
    return cast("T", replace(cast("Any", node), **new))


# ---------------------------------------------------------------- conditions


def readers_conditions(common: logical.Common) -> list[Expr]:
    """What every row must pass that some reader needs; nothing if one of them needs all rows.

    Of `(a > 7 AND s > 5) OR a < 3` the half `a > 7 OR a < 3` is asked too: it may go where the whole cannot, below a sum `s`.
    """
    each: list[list[Expr]] = []
    for node in logical.walk(common.input):
        match node:
            case logical.Filter(logical.CommonRows(common.number, computed), conditions):
                place = {column.index: source.index for column, source in computed}
                each.append([permute(c, place) for c in conditions if _moves(c, place)])
            case _:
                pass
    readers = sum(_is_reader(node, common.number) for node in logical.walk(common.input))
    if not each or len(each) < readers or not all(each):
        return []
    asked = [{support(c) for c in conditions if len(support(c)) == 1} for conditions in each]
    halves = [
        _any_of([[c for c in conditions if support(c) == column] for conditions in each])
        for column in sorted(set.intersection(*asked), key=min)
    ]
    return list(dict.fromkeys([*halves, _any_of(each)]))


def _any_of(each: list[list[Expr]]) -> Expr:
    return build.disjunction(list(dict.fromkeys(map(build.conjunction, each))))


def _is_reader(rel: logical.Rel, number: int) -> bool:
    return isinstance(rel, logical.CommonRows) and rel.number == number


def _moves(condition: Expr, place: dict[int, int]) -> bool:
    """Whether a condition reads these columns alone, and may be asked of other rows too."""
    read = support(condition)
    fixed = subexpressions.may_fail(condition) or bool(subexpressions.volatile_calls(condition))
    return bool(read) and read <= place.keys() and not fixed
