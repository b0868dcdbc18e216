"""Cursors by statement: DECLARE, FETCH, MOVE, CLOSE. Tools that read large results piece by piece use them.

    DECLARE c CURSOR FOR SELECT …       the query begins; its rows wait, and those that do not fit memory are still to be read
    FETCH FORWARD 100 FROM c            the next hundred: FETCH 100
    CLOSE c                             they are let go; COMMIT and ROLLBACK do that too, but for a cursor WITH HOLD

They go forward only.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.serve.pg.holes import Piece
from tidegate.serve.pg.own import Answer
from tidegate.serve.pg.rows import First, Rows, dispose
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.sql.lex import Token

MAX_CURSORS = 16
MAX_SIZE = 256 << 20
"""Bytes of all that wait, beyond which no other is declared."""


@dataclass
class Cursor:
    """The rows of a query that were not fetched yet."""

    rows: Rows
    hold: bool


class Cursors:
    """Those of one connection."""

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self.open: dict[str, Cursor] = {}

    def declared(self, piece: Piece) -> tuple[str, bool, Piece]:
        """The name of the cursor, whether it holds, and its query, whose places stay those of the client's text."""
        given = piece.tokens
        words = [one.text if one.kind == "word" else "" for one in given]
        if "cursor" not in words or "for" not in words or len(given) < 5:
            raise Trouble("42601", "expected DECLARE name CURSOR FOR a query", position=piece.start + 1)
        name, start = given[1].text, words.index("for") + 1
        size = sum(one.rows.size for one in self.open.values())
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

    def declare(self, name: str, *, hold: bool, rows: Rows) -> Answer:
        """Keeps the rows."""
        if not rows.result.names:
            raise Trouble("42601", "a cursor is of a query")
        rows.hold()
        self.open[name] = Cursor(rows, hold)
        return Answer(Result.done(""), "DECLARE CURSOR")

    def fetch(self, piece: Piece, watch: Watch, portal: Rows | None = None) -> Answer:
        """FETCH or MOVE: the next rows, or past them; of a cursor, or of the protocol's portal that has the name."""
        rows, count = self._asked(piece, portal)
        some = First(rows, count)
        if piece.words(1)[0] == "fetch":
            return Answer(rows.result, "FETCH", rows=some)
        passed = 0
        while (batch := some.take(None)) is not None:
            watch.check()
            passed += batch.num_rows
        return Answer(Result.done(""), f"MOVE {passed}")

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

    def _asked(self, piece: Piece, portal: Rows | None = None) -> tuple[Rows, int | None]:
        """The rows, and how many of them; None: all."""
        *how, name = piece.tokens[1:] or (Token("end", "", 0, 0),)
        rows = portal or self.find(name.text).rows
        words = [one.text for one in how if one.text not in ("from", "in")]
        if words[:1] in (["forward"], ["next"]):
            words = words[1:]
        if words == ["all"]:
            return rows, None
        if not words:
            return rows, 1
        if len(words) == 1 and words[0].isascii() and words[0].isdigit():
            return rows, int(words[0][:18])
        raise Trouble("0A000", "cursors go forward only", hint="FETCH 100 FROM c; FETCH ALL FROM c")

    def close(self, piece: Piece) -> Answer:
        """CLOSE c, CLOSE ALL."""
        name = piece.tokens[-1]
        if name.kind == "word" and name.text == "all":
            self.drop(list(self.open))
            return Answer(Result.done(""), "CLOSE CURSOR ALL")
        self.find(name.text)
        self.drop([name.text])
        return Answer(Result.done(""), "CLOSE CURSOR")

    def ended(self) -> None:
        """The transaction is over: cursors go with it, but for those that hold."""
        self.drop([name for name, one in self.open.items() if not one.hold])

    def drop(self, names: Sequence[str]) -> None:
        """Lets go of these."""
        dispose(self.threads, [self.open.pop(name).rows for name in names])
