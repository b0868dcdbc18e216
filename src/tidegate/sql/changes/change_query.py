"""ChangeQuery: the query of a statement that changes rows, and what its columns mean.

UPDATE t SET n = s.n FROM s WHERE t.id = s.id RETURNING t.id

address     part, position and copies of a row of t
before      id, n: the row as it is stored
after       the new n
returning   id
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tidegate.expr.model import Column, Expr
from tidegate.plan import logical
from tidegate.sql.bind.catalog import Relation
from tidegate.sql.parse.statement import Delete, Insert, Merge, Update
from tidegate.sql.parse.syntax import Constant, Node, NonScalar, Query, Values, walk

Action: TypeAlias = Literal["insert", "update", "delete", "skip", "duplicate"]
"""What is done with a row. `skip`: nothing, but it counts as met; `duplicate`: its key was proposed before, which is an error."""


@dataclass(frozen=True)
class ChangeTarget:
    """The table that is changed, and what binding must know of it beside its columns."""

    relation: Relation
    default: Callable[[int], Expr]
    """What DEFAULT stands for in a stored column."""
    key: tuple[str, ...] = ()
    """The columns of its declared key: what ON CONFLICT without columns means."""


@dataclass(frozen=True)
class ChangeColumns:
    """The columns of the query, in this order."""

    action: tuple[Column, ...] = ()
    """The number of the action among `ChangeQuery.actions`; none if there is but one."""
    ordinal: tuple[Column, ...] = ()
    """INSERT: which of the proposed rows it is."""
    address: tuple[Column, ...] = ()
    before: tuple[Column, ...] = ()
    """All stored columns, as they are."""
    after: tuple[Column, ...] = ()
    """The new values of `ChangeQuery.places`."""
    returning: tuple[Column, ...] = ()

    def groups(self) -> Iterable[tuple[str, tuple[Column, ...]]]:
        """The columns by what they are for."""
        return vars(self).items()

    @property
    def all(self) -> tuple[Column, ...]:
        """All of them."""
        return tuple(column for _, columns in self.groups() for column in columns)


@dataclass(frozen=True)
class ChangeQuery:
    """The query whose rows are the changes that a statement makes."""

    bound: logical.LogicalQuery
    """Its tree; its names are those of RETURNING."""
    columns: ChangeColumns
    actions: tuple[Action, ...]
    places: tuple[int, ...] = ()
    """The stored columns that `columns.after` is for; all others of an inserted row keep what `before` has."""

    def query(self, *, with_before: bool) -> tuple[logical.LogicalQuery, ChangeColumns]:
        """The query, and its columns: those of the rows as they are only where they are needed."""
        columns = self.columns if with_before else replace(self.columns, before=())
        whole = columns.all
        names = ("",) * (len(whole) - len(self.bound.names)) + self.bound.names
        return replace(self.bound, names=names, columns=whole), columns


def needs_query(given: Insert | Update | Delete | Merge) -> bool:
    """Whether a statement needs more than an expression of each of its table's rows."""
    match given:
        case Merge():
            return True
        case Insert():
            return bool(given.returning or given.conflict) or computes_values(given.query)
        case Update() | Delete():
            nodes = [] if given.where is None else [given.where]
            rows = False
            if isinstance(given, Update):
                nodes += [value for _, value in given.assignments]
                rows = bool(given.rows)
            return rows or bool(given.returning or given.source) or any(map(_has_subquery, nodes))


def computes_values(query: Query | None) -> bool:
    """Whether a query is VALUES with subqueries."""
    if query is None or not isinstance(query.body, Values):
        return False
    nodes = (node for row in query.body.rows for node in row if not isinstance(node, Constant))
    return any(map(_has_subquery, nodes))


def _has_subquery(root: Node) -> bool:
    return any(isinstance(node, NonScalar) and node.query is not None for node in walk(root))
