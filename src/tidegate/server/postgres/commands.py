"""Runs the statements of one connection, each by the module that is responsible for it.

| statement | run by |
|---|---|
| BEGIN, COMMIT, …; SET, SHOW, RESET of a PostgreSQL setting; DISCARD, DEALLOCATE | `session_state.py` |
| DECLARE, FETCH, MOVE, CLOSE of a cursor | `cursors.py` |
| SELECT from pg_catalog or information_schema, or of `version()` and similar functions | `statements/postgres_catalog` |
| COPY | `copy/`; its query as any other |
| anything else | the gateway's client session |

All of them return a `StatementResult`. Errors become `PostgresError`, with positions in the text that the client sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import TidegateError
from tidegate.expr.model import Type, types
from tidegate.query import CancelToken, Result
from tidegate.server.gateway import ClientSession
from tidegate.server.postgres.copy.statement import CopyStatement, parse_copy
from tidegate.server.postgres.cursors import Cursors
from tidegate.server.postgres.parameters import SubstitutedText, substitute
from tidegate.server.postgres.rows import ResultRows, StatementResult
from tidegate.server.postgres.session_state import SessionState
from tidegate.server.postgres.settings import set_config_calls
from tidegate.server.postgres.wire import sqlstate
from tidegate.server.postgres.wire.sqlstate import NOTICE, PostgresError
from tidegate.sql.bind import session_identity
from tidegate.sql.parse import StatementText, parse_statement, statement, table_statement, tokenize
from tidegate.statements import bind_returning, columns_of, prepared_columns
from tidegate.statements.postgres_catalog import ClientIdentity, PostgresCatalog, is_catalog, strip_schemas

T = TypeVar("T")
Columns: TypeAlias = "tuple[tuple[str, ...], tuple[Type, ...]]"
WRITE_STATEMENTS = ("insert", "update", "delete", "merge", "create", "drop", "alter", "truncate", "comment")
_MODIFICATIONS = ("insert", "update", "delete", "merge")
ROW_STATEMENTS = ("select", "with", "values", "table", "(", "show", "explain", "fetch", "execute")
"""Statements that return rows."""


def returns_rows(piece: StatementText) -> bool:
    """Whether a statement returns rows: a query, or one that changes rows and has RETURNING."""
    return piece.words(1)[0] in ROW_STATEMENTS or has_returning(piece)


def has_returning(piece: StatementText) -> bool:
    """Whether a statement changes rows and has RETURNING: it must not be run to find out its columns."""
    words = [token.text for token in piece.tokens if token.kind == "word"]
    changes = words[:1] and words[0] in (*_MODIFICATIONS, "with")
    return bool(changes) and "returning" in words


class StatementRunner:
    """Runs one connection's statements, one at a time."""

    def __init__(self, client: ClientSession, catalog: PostgresCatalog, who: ClientIdentity) -> None:
        self.client, self.catalog, self.who = client, catalog, who
        self.cursors = Cursors(client.gateway.threads)
        self.state = SessionState(client.db, self.cursors)

    @property
    def lake(self) -> Context:
        """The client's view of the database."""
        return self.client.db.context

    def watch(self) -> CancelToken:
        """Returns a watch for the next query, with the client's timeout."""
        return CancelToken(self.lake.config.statement_timeout_ms)

    def answer(
        self,
        piece: StatementText,
        watch: CancelToken,
        types: Sequence[str | None] = (),
        values: Sequence[str | None] = (),
    ) -> StatementResult:
        """Runs a statement."""
        word = piece.words(1)[0]
        answer = self.state.answer(piece) or self._cursor(piece, watch, types, values)
        if answer is not None:
            return answer
        if word == "copy":
            return self._copy(parse_copy(piece), watch, types, values)
        if is_catalog(piece, self._has):
            return self._catalog(piece, watch, substitute(piece, types, values))
        piece = strip_schemas(piece)
        with session_identity(self.who.user, self.who.database):
            result = _run_with_client_positions(
                lambda text: self.client.sql(text, watch), substitute(piece, types, values), piece
            )
        self.state.wrote |= word in WRITE_STATEMENTS or _said_that_it_wrote(result)
        return _statement_result(result, piece)

    def _copy(
        self,
        copy: CopyStatement,
        watch: CancelToken,
        types: Sequence[str | None],
        values: Sequence[str | None],
    ) -> StatementResult:
        """Starts the query of a COPY TO; of a COPY FROM the client has yet to send the rows."""
        if not copy.writes:
            self.client.check_write("COPY FROM")
            return StatementResult(Result.message(""), "COPY", copy=copy)
        self._check_reads(
            copy.piece, types, values, PostgresError("0A000", "COPY (…) copies the rows of a query")
        )
        try:
            answer = self.answer(copy.piece, watch, types, values)
        except PostgresError as error:
            if copy.table:  # the query is ours, and the client sent the name of the table
                error.position = copy.at
            raise
        return replace(answer, tag="COPY", copy=copy)

    def _catalog(self, piece: StatementText, watch: CancelToken, filled: SubstitutedText) -> StatementResult:
        """Runs a query of the catalog, and then makes the changes of its calls of `set_config`."""
        settings, changed = self.state.settings, list[str]()
        result = _run_with_client_positions(
            lambda text: self.catalog.query(text, self.lake, self.who, settings.with_defaults(), watch),
            filled,
            piece,
        )
        if any(token.text == "set_config" for token in piece.tokens):
            for name, value in set_config_calls(tokenize(filled.text)):
                changed += self.state.set_config(name, value)
        return replace(_statement_result(result, piece), changed=tuple(changed))

    def _cursor(
        self,
        piece: StatementText,
        watch: CancelToken,
        types: Sequence[str | None],
        values: Sequence[str | None],
    ) -> StatementResult | None:
        match piece.words(1)[0]:
            case "declare":
                name, hold, query = self.cursors.parse_declare(piece)
                self._check_reads(query, types, values, PostgresError("42P11", "a cursor needs a query"))
                result = self.answer(query, watch, types, values).result
                return self.cursors.declare(name, hold=hold, rows=ResultRows(result, watch))
            case "fetch" | "move":
                name = self.cursors.name(piece)
                prepared = None if name in self.cursors.open else self.state.prepared
                portal = None if prepared is None else prepared.portal_rows(name, watch)
                return self.cursors.fetch(piece, watch, portal)
            case "close":
                return self.cursors.close(piece)
            case _:
                return None

    def _check_reads(
        self,
        piece: StatementText,
        types: Sequence[str | None],
        values: Sequence[str | None],
        error: PostgresError,
    ) -> None:
        """Raises an error if a statement would change something; what has no parse fails when it runs."""
        if is_catalog(piece, self._has):
            return
        with suppress(TidegateError):
            if not self.client.changes_nothing(substitute(strip_schemas(piece), types, values).text):
                error.position = piece.start + (piece.tokens[0].start if piece.tokens else 0) + 1
                raise error

    def columns(self, piece: StatementText, types: Sequence[str | None]) -> Columns | None:
        """Returns the columns of a statement without parameter values; None: it returns no rows."""
        word, values = piece.words(1)[0], [None] * len(types)
        if not returns_rows(piece):
            return None
        if word == "fetch":
            result = self.cursors.result_of(piece)
            return result.names, result.types
        if word in ("show", "explain") or is_catalog(piece, self._has):
            try:
                result = self.answer(piece, self.watch(), types, values).result
            except PostgresError:  # of a function that takes no NULL, such as json_build_object of SQLAlchemy
                examples = ["example" if type_ == "text" else None for type_ in types]
                if examples == values:
                    raise
                result = self.answer(piece, self.watch(), types, examples).result
            return result.names, result.types
        piece = strip_schemas(piece)
        return _run_with_client_positions(self.bind_columns, substitute(piece, types, values), piece)

    def changes_rows(self, piece: StatementText) -> bool:
        """Whether a statement that returns rows changes some, or executes one that does."""
        named = self.lake.named_statements
        if piece.words(1)[0] == "execute" and len(piece.tokens) > 1 and piece.tokens[1].text in named:
            return not isinstance(named[piece.tokens[1].text].inner, statement.SelectStatement)
        return has_returning(piece)

    def bind_columns(self, text: str) -> Columns | None:
        """Binds a statement without running it; returns the columns of a query, None of other statements."""
        match parse_statement(text):
            case statement.SelectStatement(parsed):
                return columns_of(parsed, CatalogSnapshot(self.lake), self.lake.clock.now())
            case table_statement.Execute() as given:
                return prepared_columns(self.lake, given)
            case (statement.Update() | statement.Delete() | statement.Insert() | statement.Merge()) as given:
                return bind_returning(self.lake, given)
            case table_statement.CreateTableAs(query=made):  # its parameters have types; it returns no rows
                columns_of(made.query, CatalogSnapshot(self.lake), self.lake.clock.now())
                return None
            case _:
                return None

    def _has(self, name: str) -> bool:
        return self.lake.catalog.find(name) is not None


def _said_that_it_wrote(result: Result) -> bool:
    """Whether a result says what was changed: `MERGE 1` behind WITH or EXECUTE, `SELECT 5` of INTO."""
    said = result.tag or ("" if result.names else result.text())
    return said.partition(" ")[0].lower() in (*WRITE_STATEMENTS, "select")


def _run_with_client_positions(work: Callable[[str], T], filled: SubstitutedText, piece: StatementText) -> T:
    """Runs `work` on the substituted text; positions of errors are moved to the client's text."""
    try:
        return work(filled.text)
    except TidegateError as error:
        reported = sqlstate.to_postgres_error(error, filled.text)
        if reported.position is not None:
            reported.position = piece.start + filled.origin(reported.position - 1) + 1
        raise reported from error


def _statement_result(result: Result, piece: StatementText) -> StatementResult:
    word = piece.words(1)[0]
    if word == "explain" and not result.names:
        result = Result.of(["QUERY PLAN"], [types.TEXT], [result.text().split("\n")])
        return StatementResult(result, "EXPLAIN")
    if result.tag is not None:
        return StatementResult(result, result.tag)
    if result.names:
        tags = {"show": "SHOW", "explain": "EXPLAIN"}
        return StatementResult(result, tags.get(word, "SELECT"))
    said = result.text() or "OK"
    if said.startswith('"'):  # IF EXISTS or IF NOT EXISTS: nothing was done, and a notice says why
        return StatementResult(result, " ".join(piece.words(2)).upper(), PostgresError(NOTICE, said))
    return StatementResult(result, said)
