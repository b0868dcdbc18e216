"""Cache of parsed and bound queries: a text is bound again only when its names change.

    lake.prepared.statements("SELECT …")              its statements
    lake.prepared.bound(parsed, seen, now_ms)         what the query means: its tree, and its plan over one collection if it has one

A dashboard asks the same again and again, and half of what a small answer costs is finding out what was asked. What a query means
depends on its text, on what its names mean, which is looked up each time, and on now(); where that is written nothing is kept.
Only texts of nothing but queries are kept: the others change something, are rare, and may hold secrets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from tidegate import fork
from tidegate.expr.model import Type
from tidegate.plan import BoundQuery, logical
from tidegate.sql.bind import catalog
from tidegate.sql.bind import query as bind
from tidegate.sql.bind.session import DEPENDS_ON_SESSION
from tidegate.sql.lower import check_volatile, push_down, single_collection, uses_now
from tidegate.sql.parse import syntax
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.statement import SelectStatement, Statement


@dataclass(frozen=True, eq=False)
class PreparedQuery:
    """A bound query, and how it can be answered."""

    tree: logical.LogicalQuery
    """As it is written."""
    single: BoundQuery | None
    """The same as a plan over one collection; None: engines run it."""

    @cached_property
    def lowered(self) -> logical.LogicalQuery:
        """The tree for engines: conditions and expressions are in the scans. An error if they cannot run it."""
        if self.tree.refusal is not None:
            raise self.tree.refusal.error()
        return check_volatile(push_down(self.tree))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the result's columns."""
        return self.tree.names

    @property
    def types(self) -> tuple[Type, ...]:
        """Their types."""
        return self.tree.types

    @property
    def sources(self) -> list[str]:
        """The collections that it reads, one for each scan."""
        if self.single is not None:
            return [] if self.single.source is None else [self.single.source]
        return [scan.source for scan in self.lowered.scans()]

    @cached_property
    def is_temporal(self) -> bool:
        """Whether it asks for `mz_now()`."""
        return uses_now(self.lowered.rel) if self.single is None else self.single.is_temporal

    def obstacle(self, parsed: syntax.Query) -> logical.Obstacle:
        """What keeps it from being a plan over one collection."""
        return bind.obstacle_of(self.tree, parsed.position(parsed.at))


def prepare(
    parsed: syntax.Query | str, seen: catalog.RelationCatalog, now_ms: int | None = None
) -> PreparedQuery:
    """Binds a query, and finds out how it can be answered; an error if it cannot be."""
    parsed = grammar.parse_query(parsed) if isinstance(parsed, str) else parsed
    tree = bind.bind_query(parsed, seen, now_ms)
    with bind.limited_nesting(parsed):
        prepared = PreparedQuery(tree, single_collection(tree))
        if prepared.single is None:
            _ = prepared.lowered
    return prepared


class RecordedCatalog(catalog.RelationCatalog, Protocol):
    """The catalog as one statement saw it."""

    @property
    def entries(self) -> dict[str, catalog.CatalogEntry | None]:
        """What each name that was asked for meant."""
        ...

    def views(self) -> list[str]:
        """The texts of the views among them."""
        ...


MAX_TEXTS = 256
"""Texts that are kept."""
MAX_TEXT_LENGTH = 10_000
"""Characters above which a text is not kept."""


@dataclass(frozen=True)
class _Bound:
    """A bound query, and what the names were that it was bound with."""

    query: PreparedQuery
    names: dict[str, catalog.CatalogEntry | None]


@dataclass(frozen=True)
class _Text:
    """The queries of a text."""

    statements: Sequence[Statement]
    bound: dict[syntax.Query, _Bound] = field(default_factory=dict)
    """By the very query, and not by what is in it."""


class PreparedStatements:
    """The most recent texts. Threads may share it; two that miss at once may both do the work."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._texts: OrderedDict[str, _Text] = OrderedDict()
        self._lock = fork.lock()

    def statements(self, sql: str) -> Sequence[Statement]:
        """The statements of a text."""
        kept = self._find(sql)
        if kept is not None:
            return kept.statements
        found = tuple(grammar.parse_statements(sql))
        if len(sql) <= MAX_TEXT_LENGTH and all(isinstance(one, SelectStatement) for one in found):
            with self._lock:
                self._texts[sql] = _Text(found)
                while len(self._texts) > MAX_TEXTS:
                    self._texts.popitem(last=False)
        return found

    def bound(self, parsed: syntax.Query | str, seen: RecordedCatalog, now_ms: int) -> PreparedQuery:
        """A query as this catalog has it."""
        text = self._find(parsed.sql) if isinstance(parsed, syntax.Query) else None
        if text is None or isinstance(parsed, str):
            return prepare(parsed, seen, now_ms)
        kept = text.bound.get(parsed)
        if kept is not None and all(seen.relation(name) == entry for name, entry in kept.names.items()):
            return kept.query
        found = prepare(parsed, seen, now_ms)
        if not any(map(DEPENDS_ON_SESSION.search, (parsed.sql, *seen.views()))):
            text.bound[parsed] = _Bound(found, dict(seen.entries))
        return found

    def __len__(self) -> int:
        return len(self._texts)

    def _find(self, sql: str) -> _Text | None:
        with self._lock:
            if sql in self._texts:
                self._texts.move_to_end(sql)
            return self._texts.get(sql)
