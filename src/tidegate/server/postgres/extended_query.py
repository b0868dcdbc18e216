"""Prepared statements and portals: the messages Parse, Bind, Describe, Execute and Close.

    Parse "SELECT … WHERE id = $1"      makes a PreparedStatement: its text, and the types of its parameters as far as declared
    Bind values                         makes a Portal: the statement with values, and the formats of its columns
    Describe                            of a statement: its parameters and columns, bound with NULL for each parameter;
                                        of a portal: its columns, for which the query is started; Execute sends its rows
    Execute 100                         sends up to 100 rows; the next Execute continues, and the query waits in between

Parse replaces the unnamed statement; named statements stay until they are closed. Statements and portals are limited in number and
size. Portals end with the transaction, as in PostgreSQL: outside of a transaction block, at Sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.query import CancelToken
from tidegate.server.postgres import parameters
from tidegate.server.postgres.commands import StatementRunner, returns_rows
from tidegate.server.postgres.parameter_types import infer_types
from tidegate.server.postgres.rows import (
    ResultRows,
    RowSource,
    StatementResult,
    close_in_background,
)
from tidegate.server.postgres.wire import encode, messages, sqlstate, values
from tidegate.server.postgres.wire.messages import BindMessage, ColumnDescription, ParseMessage
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import StatementText, statement_texts
from tidegate.statements.postgres_catalog import postgres_types, strip_schemas

MAX_STATEMENTS, MAX_PORTALS = 2_000, 64
MAX_STATEMENT_CHARACTERS = 32 << 20
"""Characters of all prepared statements of a connection together."""
MAX_PORTAL_BYTES = 256 << 20
"""Bytes that portals of a connection may hold before no other is made or run."""


@dataclass(frozen=True)
class PreparedStatement:
    """A prepared statement; `piece` is None if its text is empty."""

    piece: StatementText | None
    oids: tuple[int, ...]

    @property
    def types(self) -> list[str | None]:
        """The SQL names of its parameters' types."""
        return [postgres_types.sql_name(oid) for oid in self.oids]


@dataclass
class Portal:
    """A statement with values; `answer` is set once it has run, `rows` are those not sent yet."""

    statement: PreparedStatement
    bind: BindMessage
    answer: StatementResult | None = None
    rows: ResultRows | None = None
    done: bool = False
    """It returns no rows, and has run."""

    @property
    def size(self) -> int:
        """The bytes of its values and rows."""
        rows = 0 if self.rows is None else self.rows.size
        return rows + sum(len(value) for value in self.bind.values if value is not None)

    @property
    def source(self) -> RowSource:
        """Where Execute takes rows from: its own, or those of the cursor that it fetches from."""
        assert self.answer is not None
        source = self.answer.rows or self.rows
        assert source is not None
        return source

    def formats(self, columns: int) -> list[int]:
        """Returns the format of each column."""
        return _expand_formats(self.bind.results, columns)


def _expand_formats(formats: Sequence[int], count: int) -> list[int]:
    """Returns a format per value: no format means text for all, one applies to all."""
    if len(formats) not in (0, 1, count):
        raise PostgresError("08P01", f"{len(formats)} formats for {count} values")
    if any(form not in (0, 1) for form in formats):
        raise PostgresError("08P01", "a format must be 0 or 1")
    return list(formats) if len(formats) == count else [formats[0] if formats else 0] * count


class ExtendedQuery:
    """The statements and portals of one connection."""

    def __init__(self, commands: StatementRunner) -> None:
        self.commands = commands
        self.statements: dict[str, PreparedStatement] = {}
        self.portals: dict[str, Portal] = {}
        commands.state.prepared = self

    def parse(self, message: ParseMessage) -> None:
        """Prepares a statement."""
        if message.name and message.name in self.statements:
            raise PostgresError("42P05", f'prepared statement "{message.name[:60]}" already exists')
        try:
            pieces = statement_texts(message.text)
        except TidegateError as error:
            raise sqlstate.to_postgres_error(error, message.text) from error
        if len(pieces) > 1:
            raise PostgresError(
                "42601", "cannot prepare several statements at once", position=pieces[1].start + 1
            )
        piece = pieces[0] if pieces else None
        count = max(len(message.oids), parameters.parameter_count(piece) if piece else 0)
        oids = tuple(message.oids) + (0,) * (count - len(message.oids))
        for i, oid in enumerate(oids):
            if oid not in postgres_types.UNKNOWN and postgres_types.sql_name(oid) is None:
                hint = "send it without a type, or cast it in the statement"
                raise PostgresError("42704", f"parameter ${i + 1} has the unknown type {oid}", hint=hint)
        self.statements.pop(message.name, None)
        length = sum(len(prepared.piece.text) for prepared in self.statements.values() if prepared.piece)
        if len(self.statements) >= MAX_STATEMENTS or length + len(message.text) > MAX_STATEMENT_CHARACTERS:
            raise PostgresError("54000", "too many prepared statements", hint="DEALLOCATE ALL forgets them")
        self.statements[message.name] = PreparedStatement(
            piece, parameters.declared_types(piece, oids) if piece else oids
        )

    def bind(self, message: BindMessage) -> None:
        """Makes a portal from a statement and values."""
        statement = self.statement(message.statement)
        if len(message.values) != len(statement.oids):
            raise PostgresError("08P01", f"{len(message.values)} values for {len(statement.oids)} parameters")
        _expand_formats(message.formats, len(message.values))
        if message.portal and message.portal in self.portals:
            raise PostgresError("42P03", f'portal "{message.portal[:60]}" already exists')
        self.drop([message.portal])
        if len(self.portals) >= MAX_PORTALS or self._held() > MAX_PORTAL_BYTES:
            raise PostgresError("54000", "too many open portals", hint="close some, or end the transaction")
        self.portals[message.portal] = Portal(statement, message)

    def _held(self) -> int:
        return sum(portal.size for portal in self.portals.values())

    def statement(self, name: str) -> PreparedStatement:
        """Returns a prepared statement by name."""
        if name not in self.statements:
            raise PostgresError("26000", f'prepared statement "{name[:60]}" does not exist')
        return self.statements[name]

    def portal(self, name: str) -> Portal:
        """Returns a portal by name."""
        if name not in self.portals:
            raise PostgresError("34000", f'portal "{name[:60]}" does not exist')
        return self.portals[name]

    def describe_statement(self, name: str) -> bytes:
        """Describes the parameters and columns of a statement."""
        statement = self._with_inferred_types(name)
        shown = [postgres_types.TEXT if oid in postgres_types.UNKNOWN else oid for oid in statement.oids]
        columns = self.commands.columns(statement.piece, statement.types) if statement.piece else None
        if columns is None:
            return messages.parameter_description(shown) + messages.NO_DATA
        fields = [encode.column_description(name, type_) for name, type_ in zip(*columns, strict=True)]
        return messages.parameter_description(shown) + messages.row_description(fields)

    def _with_inferred_types(self, name: str) -> PreparedStatement:
        """Returns a statement after inferring undeclared parameter types, which the client then uses."""
        statement = self.statement(name)
        if statement.piece is not None and 0 in statement.oids:
            commands = self.commands
            oids = infer_types(
                strip_schemas(statement.piece), statement.oids, commands.bind_columns, commands.lake
            )
            statement = self.statements[name] = PreparedStatement(statement.piece, oids)
        return statement

    def describe_portal(self, name: str, watch: CancelToken) -> bytes:
        """Describes the columns of a portal, for which its query is started. A cursor is a portal too."""
        if name not in self.portals and name in self.commands.cursors.open:
            return self.header(StatementResult(self.commands.cursors.open[name].rows.result, ""), None)
        portal = self.portal(name)
        piece = portal.statement.piece
        if piece is None or not returns_rows(piece):
            return messages.NO_DATA
        if portal.answer is None and self.commands.changes_rows(piece):
            return self._changed_columns(portal, piece)
        return self.header(self.run(portal, watch), portal)

    def _changed_columns(self, portal: Portal, piece: StatementText) -> bytes:
        """Describes the columns of RETURNING without running it: Execute alone may change rows."""
        columns = self.commands.columns(piece, portal.statement.types)
        if columns is None:
            return messages.NO_DATA
        formats = portal.formats(len(columns[0]))
        described = zip(*columns, formats, strict=True)
        return messages.row_description([encode.column_description(*column) for column in described])

    def header(self, answer: StatementResult, portal: Portal | None) -> bytes:
        """Builds the RowDescription of an answer."""
        result = answer.result
        if not result.names:
            return messages.NO_DATA
        formats = [0] * len(result.names) if portal is None else portal.formats(len(result.names))
        fields: list[ColumnDescription] = [
            encode.column_description(*column)
            for column in zip(result.names, result.types, formats, strict=True)
        ]
        return messages.row_description(fields)

    def run(self, portal: Portal, watch: CancelToken) -> StatementResult:
        """Runs a portal unless it has run."""
        if portal.answer is None:
            if self._held() - portal.size > MAX_PORTAL_BYTES:
                raise PostgresError(
                    "54000", "other open portals hold too many rows", hint="close some of them"
                )
            statement, bind = portal.statement, portal.bind
            assert statement.piece is not None
            formats = _expand_formats(bind.formats, len(bind.values))
            texts = [
                values.parameter_text(*value)
                for value in zip(statement.oids, formats, bind.values, strict=True)
            ]
            answer = self.commands.answer(statement.piece, watch, statement.types, texts)
            if answer.rows is None and answer.result.names:
                portal.rows = ResultRows(answer.result, watch)
                portal.rows.pause()
            portal.answer = answer
        return portal.answer

    def portal_rows(self, name: str, watch: CancelToken) -> ResultRows | None:
        """Runs a portal and returns its rows; None: there is no such portal, or it returns no rows."""
        portal = self.portals.get(name)
        piece = None if portal is None else portal.statement.piece
        if portal is None or piece is None or not returns_rows(piece):
            return None
        self.run(portal, watch)
        return portal.rows

    def drop(self, names: Sequence[str] | None = None) -> None:
        """Closes portals by name, or all of them."""
        names = list(self.portals) if names is None else names
        closed = [self.portals.pop(name) for name in names if name in self.portals]
        close_in_background(
            self.commands.client.gateway.threads,
            [portal.rows for portal in closed if portal.rows is not None],
        )

    def close(self, target: str, name: str) -> None:
        """Closes a statement (`S`) or a portal (`P`); it need not exist."""
        if target == "S":
            self.forget(name)
        else:
            self.drop([name])

    def forget(self, name: str | None) -> bool:
        """Forgets a statement and its portals, or all of them; whether it existed."""
        if name is None:
            self.statements.clear()
            self.drop()
            self.commands.cursors.drop(list(self.commands.cursors.open))
            return True
        statement = self.statements.pop(name, None)
        if statement is not None:
            self.drop([key for key, portal in self.portals.items() if portal.statement is statement])
        return statement is not None
