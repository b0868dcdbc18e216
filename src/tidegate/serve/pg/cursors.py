"""Cursors by statement: DECLARE, FETCH, MOVE, CLOSE. Tools that read large results piece by piece use them.

    DECLARE c CURSOR FOR SELECT …       the query is run; its rows wait
    FETCH FORWARD 100 FROM c            the next hundred: FETCH 100
    CLOSE c                             they are let go; COMMIT and ROLLBACK do that too, but for a cursor WITH HOLD

They go forward only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.scan.result import Result
from tidegate.serve.pg.holes import Piece
from tidegate.serve.pg.own import Answer
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.sql.lex import Token

MAX_CURSORS = 16
MAX_SIZE = 256 << 20
"""Bytes of all that wait, beyond which no other is declared."""


class Rows(Protocol):
    """What can be fetched from: a cursor, or a portal that was run."""

    at: int

    @property
    def result(self) -> Result:
        """All of its rows."""
        ...


@dataclass
class Cursor:
    """The rows of a query, of which `at` were fetched."""

    result: Result
    hold: bool
    at: int = 0


class Cursors:
    """Those of one connection."""

    def __init__(self) -> None:
        self.open: dict[str, Cursor] = {}

    def declared(self, piece: Piece) -> tuple[str, bool, Piece]:
        """The name of the cursor, whether it holds, and its query, whose places stay those of the client's text."""
        given = piece.tokens
        words = [one.text if one.kind == "word" else "" for one in given]
        if "cursor" not in words or "for" not in words or len(given) < 5:
            raise Trouble("42601", "expected DECLARE name CURSOR FOR a query", position=piece.start + 1)
        name, start = given[1].text, words.index("for") + 1
        size = sum(column.nbytes for one in self.open.values() for column in one.result.columns)
        if len(self.open) >= MAX_CURSORS or size > MAX_SIZE:
            raise Trouble("54000", "too many cursors", hint="CLOSE ALL")
        if name in self.open:
            raise Trouble("42P03", f'there is a cursor "{name[:60]}" already')
        if "scroll" in words[:start] and "no" not in words[:start]:
            raise Trouble("0A000", "cursors go forward only", hint="leave SCROLL away")
        rest = given[start:]
        if not rest or rest[0].text not in ("select", "with", "values", "table", "("):
            raise Trouble("42601", "a cursor is of a query", position=piece.start + 1)
        text = " " * rest[0].start + piece.text[rest[0].start :]
        return name, "with" in words[:start], Piece(text, piece.start, rest)

    def declare(self, name: str, *, hold: bool, result: Result) -> Answer:
        """Keeps the rows."""
        if not result.names:
            raise Trouble("42601", "a cursor is of a query")
        self.open[name] = Cursor(result, hold)
        return Answer(Result.done(""), "DECLARE CURSOR")

    def fetch(self, piece: Piece, portal: Rows | None = None) -> Answer:
        """FETCH or MOVE: the next rows, or past them; of a cursor, or of the protocol's portal that has the name."""
        cursor, count = self._asked(piece, portal)
        result = cursor.result
        start, stop = cursor.at, min(cursor.at + count, len(result))
        cursor.at = stop
        if piece.words(1)[0] == "move":
            return Answer(Result.done(""), f"MOVE {stop - start}")
        columns = tuple(column.slice(start, stop - start) for column in result.columns)
        return Answer(replace(result, columns=columns), f"FETCH {stop - start}")

    def find(self, name: str) -> Cursor:
        """A cursor by name."""
        if name not in self.open:
            raise Trouble("34000", f'there is no cursor "{name[:60]}"')
        return self.open[name]

    def of(self, piece: Piece) -> Result:
        """The rows that a FETCH is about; none is fetched."""
        return self._asked(piece)[0].result

    def name(self, piece: Piece) -> str:
        """The cursor that a FETCH or MOVE names."""
        return piece.tokens[-1].text

    def _asked(self, piece: Piece, portal: Rows | None = None) -> tuple[Rows, int]:
        """The cursor, and how many rows."""
        *how, name = piece.tokens[1:] or (Token("end", "", 0, 0),)
        cursor: Rows = portal or self.find(name.text)
        words = [one.text for one in how if one.text not in ("from", "in")]
        if words[:1] in (["forward"], ["next"]):
            words = words[1:]
        if words == ["all"]:
            return cursor, len(cursor.result)
        if not words:
            return cursor, 1
        if len(words) == 1 and words[0].isascii() and words[0].isdigit():
            return cursor, int(words[0][:18])
        raise Trouble("0A000", "cursors go forward only", hint="FETCH 100 FROM c; FETCH ALL FROM c")

    def close(self, piece: Piece) -> Answer:
        """CLOSE c, CLOSE ALL."""
        name = piece.tokens[-1]
        if name.kind == "word" and name.text == "all":
            self.open.clear()
            return Answer(Result.done(""), "CLOSE CURSOR ALL")
        self.find(name.text)
        del self.open[name.text]
        return Answer(Result.done(""), "CLOSE CURSOR")

    def ended(self) -> None:
        """The transaction is over: cursors go with it, but for those that hold."""
        self.open = {name: one for name, one in self.open.items() if one.hold}
