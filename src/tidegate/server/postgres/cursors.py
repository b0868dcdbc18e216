"""SQL cursors: DECLARE, FETCH, MOVE, CLOSE, for tools that read large results in pieces.

    DECLARE c CURSOR FOR SELECT …       starts the query; rows that do not fit in memory are read later
    FETCH FORWARD 100 FROM c            the next hundred, like FETCH 100
    CLOSE c                             ends the query; COMMIT and ROLLBACK close cursors too, except those WITH HOLD

Cursors move forward only.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from tidegate.query import CancelToken, Result
from tidegate.server.postgres.rows import LimitedRows, ResultRows, StatementResult, close_in_background
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import StatementText, Token

MAX_CURSORS = 16
MAX_CURSOR_BYTES = 256 << 20
"""Bytes held by the open cursors of a connection, beyond which no other can be declared."""


@dataclass
class DeclaredCursor:
    """An open cursor: the rows that were not fetched yet."""

    rows: ResultRows
    hold: bool


class Cursors:
    """The cursors of one connection."""

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self.open: dict[str, DeclaredCursor] = {}

    def parse_declare(self, piece: StatementText) -> tuple[str, bool, StatementText]:
        """Returns the cursor's name, whether it is WITH HOLD, and its query with the client's positions."""
        tokens = piece.tokens
        words = [token.text if token.kind == "word" else "" for token in tokens]
        if "cursor" not in words or "for" not in words or len(tokens) < 5:
            raise PostgresError("42601", "expected DECLARE name CURSOR FOR a query", position=piece.start + 1)
        name, start = tokens[1].text, words.index("for") + 1
        size = sum(cursor.rows.size for cursor in self.open.values())
        if len(self.open) >= MAX_CURSORS or size > MAX_CURSOR_BYTES:
            raise PostgresError("54000", "too many open cursors", hint="CLOSE ALL closes them")
        if name in self.open:
            raise PostgresError("42P03", f'cursor "{name[:60]}" already exists')
        if "scroll" in words[:start] and "no" not in words[:start]:
            raise PostgresError("0A000", "cursors only move forward", hint="omit SCROLL")
        rest = tokens[start:]
        if not rest or rest[0].text not in ("select", "with", "values", "table", "("):
            raise PostgresError("42601", "a cursor needs a query", position=piece.start + 1)
        text = " " * rest[0].start + piece.text[rest[0].start :]
        return name, "with" in words[:start], StatementText(text, piece.start, rest)

    def declare(self, name: str, *, hold: bool, rows: ResultRows) -> StatementResult:
        """Opens a cursor over rows."""
        if not rows.result.names:
            raise PostgresError("42601", "a cursor needs a query")
        rows.pause()
        self.open[name] = DeclaredCursor(rows, hold)
        return StatementResult(Result.message(""), "DECLARE CURSOR")

    def fetch(
        self, piece: StatementText, watch: CancelToken, portal: ResultRows | None = None
    ) -> StatementResult:
        """FETCH returns the next rows, MOVE skips them; of a cursor, or of the portal with that name."""
        rows, count = self._rows_and_count(piece, portal)
        limited = LimitedRows(rows, count)
        if piece.words(1)[0] == "fetch":
            return StatementResult(rows.result, "FETCH", rows=limited)
        skipped = 0
        while (batch := limited.take(None)) is not None:
            watch.check()
            skipped += batch.num_rows
        return StatementResult(Result.message(""), f"MOVE {skipped}")

    def find(self, name: str) -> DeclaredCursor:
        """Returns the cursor with a name."""
        if name not in self.open:
            raise PostgresError("34000", f'cursor "{name[:60]}" does not exist')
        return self.open[name]

    def result_of(self, piece: StatementText) -> Result:
        """Returns the result that a FETCH reads; fetches nothing."""
        return self._rows_and_count(piece)[0].result

    def name(self, piece: StatementText) -> str:
        """Returns the name of the cursor in a FETCH or MOVE."""
        return piece.tokens[-1].text

    def _rows_and_count(
        self, piece: StatementText, portal: ResultRows | None = None
    ) -> tuple[ResultRows, int | None]:
        """Returns the rows, and how many of them to fetch; None: all."""
        *direction, name = piece.tokens[1:] or (Token("end", "", 0, 0),)
        rows = portal or self.find(name.text).rows
        words = [token.text for token in direction if token.text not in ("from", "in")]
        if words[:1] in (["forward"], ["next"]):
            words = words[1:]
        if words == ["all"]:
            return rows, None
        if not words:
            return rows, 1
        if len(words) == 1 and words[0].isascii() and words[0].isdigit():
            return rows, int(words[0][:18])
        raise PostgresError("0A000", "cursors only move forward", hint="FETCH 100 FROM c; FETCH ALL FROM c")

    def close(self, piece: StatementText) -> StatementResult:
        """Runs CLOSE c or CLOSE ALL."""
        name = piece.tokens[-1]
        if name.kind == "word" and name.text == "all":
            self.drop(list(self.open))
            return StatementResult(Result.message(""), "CLOSE CURSOR ALL")
        self.find(name.text)
        self.drop([name.text])
        return StatementResult(Result.message(""), "CLOSE CURSOR")

    def end_transaction(self) -> None:
        """Closes all cursors except those WITH HOLD."""
        self.drop([name for name, cursor in self.open.items() if not cursor.hold])

    def drop(self, names: Sequence[str]) -> None:
        """Closes cursors by name."""
        close_in_background(self.threads, [self.open.pop(name).rows for name in names])
