"""Prepared statements and portals: the messages Parse, Bind, Describe, Execute and Close.

    Parse "SELECT … WHERE id = $1"      a Statement: one piece of text, how many parameters, their types as far as declared
    Bind values                         a Portal: the statement with its values, and how columns are to be sent
    Describe                            of a statement: its parameters and columns, bound with NULL in each hole;
                                        of a portal: its columns; a query is run for that, and Execute finds its rows
    Execute 100                         up to 100 rows, and so on from there by the next Execute: the query waits between them

A driver repeats an unnamed statement as often as it likes; those with a name are kept until they are closed. Both are bounded in
number, and portals end with the transaction, as in PostgreSQL: that is at Sync, outside of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.serve.pg import holes, messages, sqlstate, types, values
from tidegate.serve.pg.catalog_text import unqualified
from tidegate.serve.pg.commands import READS, Commands, Stop
from tidegate.serve.pg.holes import Piece
from tidegate.serve.pg.infer import inferred
from tidegate.serve.pg.messages import Bind, Field, Parse
from tidegate.serve.pg.own import Answer
from tidegate.serve.pg.rows import Rows, Source, dispose
from tidegate.serve.pg.sqlstate import Trouble

MAX_STATEMENTS, MAX_PORTALS = 2_000, 64
MAX_KEPT = 32 << 20
"""Characters of all prepared statements of a connection."""
MAX_PORTALS_SIZE = 256 << 20
"""Bytes that other portals hold, beyond which none is made or run."""


@dataclass(frozen=True)
class Statement:
    """A text that is prepared; no piece if it is empty."""

    piece: Piece | None
    oids: tuple[int, ...]

    @property
    def types(self) -> list[str | None]:
        """The types of its parameters, as our SQL spells them."""
        return [types.spelled(oid) for oid in self.oids]


@dataclass
class Portal:
    """A statement with its values; `answer` once it was run, and `rows` those of it that were not sent yet."""

    statement: Statement
    given: Bind
    answer: Answer | None = None
    rows: Rows | None = None
    done: bool = False
    """It gives no rows, and was run."""

    @property
    def size(self) -> int:
        """The bytes of its values and of its rows."""
        rows = 0 if self.rows is None else self.rows.size
        return rows + sum(len(value) for value in self.given.values if value is not None)

    @property
    def source(self) -> Source:
        """Where Execute takes rows from: its own, or those of the cursor that it fetches from."""
        assert self.answer is not None
        own = self.answer.rows or self.rows
        assert own is not None
        return own

    def formats(self, columns: int) -> list[int]:
        """How each column is sent."""
        return _each(self.given.results, columns)


def _each(formats: Sequence[int], count: int) -> list[int]:
    """A format for each: none means text for all, one means it for all."""
    if len(formats) not in (0, 1, count):
        raise Trouble("08P01", f"{len(formats)} formats for {count} values")
    if any(form not in (0, 1) for form in formats):
        raise Trouble("08P01", "a format is 0 or 1")
    return list(formats) if len(formats) == count else [formats[0] if formats else 0] * count


class Extended:
    """The statements and portals of one connection."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands
        self.statements: dict[str, Statement] = {}
        self.portals: dict[str, Portal] = {}
        commands.own.forget = self.forget
        commands.portal = self._running

    def parse(self, given: Parse) -> None:
        """Prepares a statement."""
        if given.name and given.name in self.statements:
            raise Trouble("42P05", f'there is a prepared statement "{given.name[:60]}" already')
        try:
            pieces = holes.cut(given.text)
        except TidegateError as error:
            raise sqlstate.of(error, given.text) from error
        if len(pieces) > 1:
            raise Trouble("42601", "a prepared statement is one statement", position=pieces[1].start + 1)
        piece = pieces[0] if pieces else None
        count = max(len(given.oids), holes.count(piece) if piece else 0)
        oids = tuple(given.oids) + (0,) * (count - len(given.oids))
        for i, oid in enumerate(oids):
            if oid not in types.UNKNOWN and types.spelled(oid) is None:
                hint = "send it without a type, or cast it"
                raise Trouble("42704", f"parameter ${i + 1} has the unknown type {oid}", hint=hint)
        self.statements.pop(given.name, None)
        kept = sum(len(one.piece.text) for one in self.statements.values() if one.piece)
        if len(self.statements) >= MAX_STATEMENTS or kept + len(given.text) > MAX_KEPT:
            raise Trouble("54000", "too many prepared statements", hint="DEALLOCATE ALL")
        self.statements[given.name] = Statement(piece, holes.declared(piece, oids) if piece else oids)

    def bind(self, given: Bind) -> None:
        """Gives values to a statement."""
        statement = self.statement(given.statement)
        if len(given.values) != len(statement.oids):
            raise Trouble("08P01", f"{len(given.values)} values for {len(statement.oids)} parameters")
        _each(given.formats, len(given.values))
        if given.portal and given.portal in self.portals:
            raise Trouble("42P03", f'there is a portal "{given.portal[:60]}" already')
        self.drop([given.portal])
        if len(self.portals) >= MAX_PORTALS or self._held() > MAX_PORTALS_SIZE:
            raise Trouble("54000", "too many portals", hint="close some, or end the transaction")
        self.portals[given.portal] = Portal(statement, given)

    def _held(self) -> int:
        return sum(one.size for one in self.portals.values())

    def statement(self, name: str) -> Statement:
        """A statement by name."""
        if name not in self.statements:
            raise Trouble("26000", f'there is no prepared statement "{name[:60]}"')
        return self.statements[name]

    def portal(self, name: str) -> Portal:
        """A portal by name."""
        if name not in self.portals:
            raise Trouble("34000", f'there is no portal "{name[:60]}"')
        return self.portals[name]

    def describe_statement(self, name: str) -> bytes:
        """What its parameters and columns are."""
        statement = self._known(name)
        shown = [types.TEXT if oid in types.UNKNOWN else oid for oid in statement.oids]
        found = self.commands.columns(statement.piece, statement.types) if statement.piece else None
        if found is None:
            return messages.parameters(shown) + messages.NO_DATA
        fields = [types.field(name, type_) for name, type_ in zip(*found, strict=True)]
        return messages.parameters(shown) + messages.columns(fields)

    def _known(self, name: str) -> Statement:
        """A statement by name, with the types that its text implies for parameters: values come as the client is told."""
        statement = self.statement(name)
        if statement.piece is not None and 0 in statement.oids:
            commands = self.commands
            oids = inferred(unqualified(statement.piece), statement.oids, commands.bound, commands.lake)
            statement = self.statements[name] = Statement(statement.piece, oids)
        return statement

    def describe_portal(self, name: str, watch: Stop) -> bytes:
        """What its columns are: a query is run for it. A cursor is a portal too."""
        if name not in self.portals and name in self.commands.cursors.open:
            return self.header(Answer(self.commands.cursors.open[name].rows.result, ""), None)
        portal = self.portal(name)
        piece = portal.statement.piece
        if piece is None or piece.words(1)[0] not in READS:
            return messages.NO_DATA
        return self.header(self.run(portal, watch), portal)

    def header(self, answer: Answer, portal: Portal | None) -> bytes:
        """The columns of an answer."""
        result = answer.result
        if not result.names:
            return messages.NO_DATA
        formats = [0] * len(result.names) if portal is None else portal.formats(len(result.names))
        fields: list[Field] = [
            types.field(*one) for one in zip(result.names, result.types, formats, strict=True)
        ]
        return messages.columns(fields)

    def run(self, portal: Portal, watch: Stop) -> Answer:
        """Runs it, if it was not."""
        if portal.answer is None:
            if self._held() - portal.size > MAX_PORTALS_SIZE:
                raise Trouble("54000", "other portals hold too many rows", hint="close some of them")
            statement, given = portal.statement, portal.given
            assert statement.piece is not None
            formats = _each(given.formats, len(given.values))
            texts = [values.text_of(*one) for one in zip(statement.oids, formats, given.values, strict=True)]
            answer = self.commands.answer(statement.piece, watch, statement.types, texts)
            if answer.rows is None and answer.result.names:
                portal.rows = Rows(answer.result, watch)
                portal.rows.hold()
            portal.answer = answer
        return portal.answer

    def _running(self, name: str, watch: Stop) -> Rows | None:
        """The rows of a portal that was run; None: there is none that gives rows."""
        portal = self.portals.get(name)
        piece = None if portal is None else portal.statement.piece
        if portal is None or piece is None or piece.words(1)[0] not in READS:
            return None
        self.run(portal, watch)
        return portal.rows

    def drop(self, names: Sequence[str] | None = None) -> None:
        """Lets go of these portals, or of all."""
        names = list(self.portals) if names is None else names
        gone = [self.portals.pop(name) for name in names if name in self.portals]
        dispose(self.commands.client.desk.threads, [one.rows for one in gone if one.rows is not None])

    def close(self, what: str, name: str) -> None:
        """Forgets a statement or a portal; it need not be there."""
        if what == "S":
            self.forget(name)
        else:
            self.drop([name])

    def forget(self, name: str | None) -> bool:
        """Forgets a statement and its portals, or all; whether it was there."""
        if name is None:
            self.statements.clear()
            self.drop()
            self.commands.cursors.drop(list(self.commands.cursors.open))
            return True
        gone = self.statements.pop(name, None)
        if gone is not None:
            self.drop([key for key, one in self.portals.items() if one.statement is gone])
        return gone is not None
