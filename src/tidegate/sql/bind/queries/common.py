"""Common tables and views: each is bound once, however often a query reads it.

    WITH c AS (SELECT kind, sum(n) AS n FROM t GROUP BY kind) SELECT * FROM c AS a JOIN c AS b ON a.n < b.n

    Common c
      definition  Group …                        bound when the first reader asks for it
      input       Join  #7 < #9
                    CommonRows #6, #7            each reader has column numbers of its own
                    CommonRows #8, #9

Whether the rows are then computed once or by each reader is decided in `sql/lower/sharing.py`. What reads the working table of a
recursion belongs to its step, and what reads columns of a query around it to each row of that: both are bound in place, for each
reader.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

from tidegate.expr.model import Column
from tidegate.plan import logical
from tidegate.sql.bind.queries.notes import ColumnIds


@dataclass(frozen=True)
class _BoundOnce:
    """A query that was bound, and how it is called."""

    number: int
    name: str
    query: logical.LogicalQuery
    is_view: bool
    wanted: bool | None


class CommonQueries:
    """The common tables and views of one query."""

    def __init__(self) -> None:
        """None is known yet."""
        self._known: dict[Hashable, _BoundOnce] = {}
        """By what a name means, those that others read before these."""

    def read(
        self,
        numbers: ColumnIds,
        key: Hashable,
        name: str,
        bind: Callable[[], logical.LogicalQuery],
        *,
        is_view: bool = False,
        wanted: bool | None = None,
    ) -> logical.LogicalQuery:
        """The rows of a query, with columns that no other reader has."""
        known = self._known.get(key)
        if known is None:
            found = bind()
            if _reads_working_table(found.rel) or logical.outer_columns(found.rel):
                return found
            known = _BoundOnce(len(self._known), name, found, is_view, wanted)
            self._known[key] = known
        own = {c: numbers.new(c.type, c.name) for c in _columns(known.query)}
        rows = logical.CommonRows(known.number, tuple((column, c) for c, column in own.items()))
        columns = tuple(replace(own[c], name=c.name) for c in known.query.columns)
        order = tuple(
            replace(key, value=own[key.value]) for key in known.query.order if isinstance(key.value, Column)
        )
        return replace(known.query, rel=rows, columns=columns, order=order)

    def nodes(self, rel: logical.Rel) -> Iterator[logical.Rel]:
        """All nodes of a tree, and of what it reads from here."""
        definitions = {known.number: known.query.rel for known in self._known.values()}
        for node in logical.walk(rel):
            yield node
            if isinstance(node, logical.CommonRows):
                yield from self.nodes(definitions[node.number])

    def around(self, rel: logical.Rel) -> logical.Rel:
        """The tree within the definitions of what it reads."""
        for known in reversed(self._known.values()):
            columns = _columns(known.query)
            rel = logical.Common(
                known.number, known.name, columns, known.query.rel, rel, known.is_view, known.wanted
            )
        return rel


def _columns(query: logical.LogicalQuery) -> tuple[Column, ...]:
    """What a reader may use: the columns, and those of the order."""
    ordered = [key.value for key in query.order if isinstance(key.value, Column)]
    return tuple(dict.fromkeys((*query.columns, *ordered)))


def _reads_working_table(rel: logical.Rel) -> bool:
    """Whether a tree reads the working table of a recursion around it."""
    nodes = list(logical.walk(rel))
    own = {node.number for node in nodes if isinstance(node, logical.Recursive)}
    return any(isinstance(node, logical.WorkingTable) and node.number not in own for node in nodes)
