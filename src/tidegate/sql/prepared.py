"""Queries that were asked before: a text is parsed once, and bound once for as long as its names mean the same.

    lake.prepared.statements("SELECT …")              its statements
    lake.prepared.bound(parsed, seen, now_ms)         what the query means

A dashboard asks the same again and again, and half of what a small answer costs is finding out what was asked. What a query means
depends on its text, on what its names mean, which is looked up each time, and on now(); where that is written nothing is kept.
Only texts of nothing but queries are kept: the others change something, are rare, and may hold secrets.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate import fork
from tidegate.sql import bind, catalog, grammar, syntax
from tidegate.sql.bind import BoundQuery
from tidegate.sql.express import MOMENTS
from tidegate.sql.statement import Query, Statement

if TYPE_CHECKING:
    from tidegate.session.lake import Seen

MOST = 256
"""Texts that are kept."""
LONG = 10_000
"""Characters above which a text is not kept."""
_NOW = re.compile(rf"\b(?:{'|'.join(MOMENTS)})\b", re.IGNORECASE)
"""What every query holds, or one of its views, whose meaning depends on when it is asked; `mz_now()` is not told by binding."""


@dataclass(frozen=True)
class _Bound:
    """A bound query, and what the names were that it was bound with."""

    query: BoundQuery
    names: dict[str, catalog.Entry | None]


@dataclass(frozen=True)
class _Text:
    """The queries of a text."""

    statements: Sequence[Statement]
    bound: dict[syntax.Query, _Bound] = field(default_factory=dict)
    """By the very query, and not by what is in it."""


class Prepared:
    """The texts that were asked last. Threads may share it; two that ask the same at once may both do the work."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._texts: OrderedDict[str, _Text] = OrderedDict()
        self._lock = fork.lock()

    def statements(self, sql: str) -> Sequence[Statement]:
        """The statements of a text."""
        kept = self._find(sql)
        if kept is not None:
            return kept.statements
        found = tuple(grammar.statements(sql))
        if len(sql) <= LONG and all(isinstance(one, Query) for one in found):
            with self._lock:
                self._texts[sql] = _Text(found)
                while len(self._texts) > MOST:
                    self._texts.popitem(last=False)
        return found

    def bound(self, parsed: syntax.Query | str, seen: Seen, now_ms: int) -> BoundQuery:
        """A query of rows or groups of one collection, as this catalog has it; a PlanError if it is more."""
        text = self._find(parsed.sql) if isinstance(parsed, syntax.Query) else None
        if text is None or isinstance(parsed, str):
            return bind.query(parsed, seen, now_ms)
        kept = text.bound.get(parsed)
        if kept is not None and all(seen.relation(name) == entry for name, entry in kept.names.items()):
            return kept.query
        found = bind.query(parsed, seen, now_ms)
        if not any(map(_NOW.search, (parsed.sql, *seen.views()))):
            text.bound[parsed] = _Bound(found, dict(seen.entries))
        return found

    def __len__(self) -> int:
        return len(self._texts)

    def _find(self, sql: str) -> _Text | None:
        with self._lock:
            if sql in self._texts:
                self._texts.move_to_end(sql)
            return self._texts.get(sql)
