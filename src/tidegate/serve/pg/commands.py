"""What a statement of a client is, and who answers it.

| it is | answered by |
|---|---|
| BEGIN, COMMIT, …; SET, SHOW, RESET of a setting of PostgreSQL; DISCARD, DEALLOCATE | `own.py` |
| DECLARE, FETCH, MOVE, CLOSE of a cursor | `cursors.py` |
| a SELECT from pg_catalog or information_schema, or of `version()` and the like | `catalog.py` |
| anything else | the desk's client, as every door has it |

An answer is a `Result`, whoever gives it, and the tag that PostgreSQL ends a statement with. An error leaves as a `Trouble`, whose
position is a place in what the client sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from tidegate.errors import TidegateError
from tidegate.expr.types import TEXT, Type
from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.serve.desk import Client
from tidegate.serve.pg import sqlstate
from tidegate.serve.pg.catalog import Catalog, Who
from tidegate.serve.pg.catalog_text import is_catalog, unqualified
from tidegate.serve.pg.cursors import Cursors
from tidegate.serve.pg.holes import Filled, Piece, fill
from tidegate.serve.pg.own import Answer, Own
from tidegate.serve.pg.rows import Rows
from tidegate.session import modify
from tidegate.session.lake import Lake, Seen
from tidegate.session.query import columns_of
from tidegate.sql import grammar, syntax
from tidegate.sql.statement import Delete, Insert, Query, Update

T = TypeVar("T")
Columns: TypeAlias = "tuple[tuple[str, ...], tuple[Type, ...]]"
WRITES = ("insert", "update", "delete", "create", "drop", "alter")
READS = ("select", "with", "values", "table", "(", "show", "explain", "fetch")
"""Statements that give rows, and that may be run to see which columns they have."""


class Stop(Watch):
    """A watch that also tells another engine when it is cancelled."""

    def __init__(self, timeout_ms: int = 0) -> None:
        super().__init__(timeout_ms)
        self.also: Callable[[], None] | None = None

    def cancel(self) -> None:
        """The query ends at its next check, or wherever the other engine is."""
        super().cancel()
        if self.also is not None:
            self.also()


class Commands:
    """One connection's statements, one at a time."""

    def __init__(self, client: Client, catalog: Catalog, who: Who) -> None:
        self.client, self.catalog, self.who = client, catalog, who
        self.cursors = Cursors(client.desk.threads)
        self.portal: Callable[[str, Stop], Rows | None] = lambda *_: None
        """The rows of the protocol's portal of a name, run; None: there are none. For MOVE and FETCH (asyncpg's `forward`)."""
        self.own = Own(client.db, ended=self.cursors.ended)

    @property
    def lake(self) -> Lake:
        """The client's open database."""
        return self.client.db._open

    def watch(self) -> Stop:
        """For the next query."""
        return Stop(self.lake.config.statement_timeout_ms)

    def answer(
        self, piece: Piece, watch: Stop, types: Sequence[str | None] = (), values: Sequence[str | None] = ()
    ) -> Answer:
        """Runs a statement."""
        own = self.own.answer(piece)
        if own is not None:
            return own
        word = piece.words(1)[0]
        cursor = self._cursor(piece, watch, types, values)
        if cursor is not None:
            return cursor
        if is_catalog(piece, self._has):
            settings = self.own.settings
            result = _placed(
                lambda text: self.catalog.ask(text, self.lake, self.who, settings, watch),
                fill(piece, types, values),
                piece,
            )
        else:
            piece = unqualified(piece)
            result = _placed(lambda text: self.client.sql(text, watch), fill(piece, types, values), piece)
        self.own.wrote |= word in WRITES
        return _answer(result, word)

    def _cursor(
        self, piece: Piece, watch: Stop, types: Sequence[str | None], values: Sequence[str | None]
    ) -> Answer | None:
        match piece.words(1)[0]:
            case "declare":
                name, hold, query = self.cursors.declared(piece)
                result = self.answer(query, watch, types, values).result
                return self.cursors.declare(name, hold=hold, rows=Rows(result, watch))
            case "fetch" | "move":
                name = self.cursors.name(piece)
                portal = None if name in self.cursors.open else self.portal(name, watch)
                return self.cursors.fetch(piece, watch, portal)
            case "close":
                return self.cursors.close(piece)
            case _:
                return None

    def columns(self, piece: Piece, types: Sequence[str | None]) -> Columns | None:
        """The columns of a statement whose values are not there yet; None: it gives no rows."""
        word, values = piece.words(1)[0], [None] * len(types)
        if word not in READS:
            return None
        if word == "fetch":
            found = self.cursors.of(piece)
            return found.names, found.types
        if word in ("show", "explain") or is_catalog(piece, self._has):
            result = self.answer(piece, self.watch(), types, values).result
            return result.names, result.types
        piece = unqualified(piece)
        return _placed(self.bound, fill(piece, types, values), piece)

    def bound(self, text: str) -> Columns | None:
        """The columns of a query, which is bound and not run; None: it is none. What changes rows is bound too."""
        match grammar.statement(text):
            case Query(parsed):
                return columns_of(parsed, Seen(self.lake), self.lake.clock.now())
            case (Update() | Delete()) as given:
                modify.plan(self.lake, given)
            case Insert(query=syntax.Query() as parsed):
                columns_of(parsed, Seen(self.lake), self.lake.clock.now())
            case _:
                pass
        return None

    def _has(self, name: str) -> bool:
        return self.lake.catalog.find(name) is not None


def _placed(work: Callable[[str], T], filled: Filled, piece: Piece) -> T:
    """Does it with the filled text; an error's place is that in what the client sent."""
    try:
        return work(filled.text)
    except TidegateError as error:
        found = sqlstate.of(error, filled.text)
        if found.position is not None:
            found.position = piece.start + filled.origin(found.position - 1) + 1
        raise found from error


def _answer(result: Result, word: str) -> Answer:
    if word == "explain" and not result.names:
        result = Result.of(["QUERY PLAN"], [TEXT], [result.text().split("\n")])
        return Answer(result, "EXPLAIN")
    if result.names:
        tags = {"show": "SHOW", "explain": "EXPLAIN"}
        return Answer(result, tags.get(word, "SELECT"))
    return Answer(result, result.text() or "OK")
