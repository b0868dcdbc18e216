"""Cache of parsed and bound queries: a text is bound again only when its names change.

    lake.prepared.statements("SELECT …")              its statements
    lake.prepared.bound(parsed, seen, now_ms)         what the query means

A dashboard asks the same again and again, and half of what a small answer costs is finding out what was asked. What a query means
depends on its text, on what its names mean, which is looked up each time, and on now(); where that is written nothing is kept.
Only texts of nothing but queries are kept: the others change something, are rare, and may hold secrets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate import fork
from tidegate.sql.bind import catalog
from tidegate.sql.bind import query as bind
from tidegate.sql.bind.query import BoundQuery
from tidegate.sql.bind.session import DEPENDS_ON_SESSION
from tidegate.sql.parse import syntax
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.statement import SelectStatement, Statement


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

    query: BoundQuery
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

    def bound(self, parsed: syntax.Query | str, seen: RecordedCatalog, now_ms: int) -> BoundQuery:
        """A query of rows or groups of one collection, as this catalog has it; a PlanError if it is more."""
        text = self._find(parsed.sql) if isinstance(parsed, syntax.Query) else None
        if text is None or isinstance(parsed, str):
            return bind.bind_query(parsed, seen, now_ms)
        kept = text.bound.get(parsed)
        if kept is not None and all(seen.relation(name) == entry for name, entry in kept.names.items()):
            return kept.query
        found = bind.bind_query(parsed, seen, now_ms)
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
