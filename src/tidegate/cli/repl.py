r"""The prompt of `tidegate sql`: statements over several lines, history, completion, and a few commands with a backslash.

    tidegate> SELECT id
            > FROM orders
            > LIMIT 10;

A statement ends with a semicolon. Ctrl-C ends a query, or clears what is typed; Ctrl-D on an empty line leaves.

| | |
|---|---|
| `\d`, `\d orders` | the collections and views; the columns of one |
| `\explain SELECT …` | how it would be answered |
| `\timing` | prints how long each statement takes |
| `\format csv` | table, csv or json |
| `\?`, `\q` | this list; leave |
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

import tidegate
from tidegate.serve.output import Format, show
from tidegate.sql.lex import tokens
from tidegate.text import identifier

if TYPE_CHECKING:
    from tidegate.database import Database

_WORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET AS OF AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END JOIN LEFT ON "
    "USING UNION ALL DISTINCT HAVING INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW SOURCE CONNECTION DROP ALTER ADD "
    "COLUMN EXPLAIN ANALYZE FILTER PUSHDOWN SHOW TABLES COLUMNS SOURCES CLUSTER KEEP STATISTICS TRANSFORM mz_now()"
)
WORDS = tuple(_WORDS.split())
HELP = (__doc__ or "").split("|---|---|\n")[-1].replace("| ", "", 1)


class Words(Completer):
    """Names of collections and their columns, functions and key words that begin as what is typed."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.functions = _functions()

    def get_completions(self, document: Document, complete_event: object) -> Iterable[Completion]:
        """What may come next."""
        del complete_event
        typed = document.get_word_before_cursor(WORD=False)
        if not typed.strip():
            return
        seen = set()
        for word, kind in self._known(document.text):
            if word.lower().startswith(typed.lower()) and word not in seen:
                seen.add(word)
                text = identifier(word) if kind.startswith("col") else word
                yield Completion(text, start_position=-len(typed), display_meta=kind)

    def _known(self, text: str) -> Iterable[tuple[str, str]]:
        try:
            found = self.db.status()
        except tidegate.TidegateError:
            found = None
        if found is not None:
            names = [*found.collections, *found.views]
            yield from ((name, "collection") for name in names)
            for name in names:
                if name in text:
                    yield from ((row[0], f"column of {name}") for row in self._columns(name))
        yield from ((word, "key word") for word in WORDS)
        yield from ((name, "function") for name in self.functions)

    def _columns(self, name: str) -> list[tuple[str, ...]]:
        try:
            return self.db.sql(f"SHOW COLUMNS FROM {identifier(name)}").rows()
        except tidegate.TidegateError:
            return []


def _functions() -> list[str]:
    from tidegate.expr.function import REGISTRY

    return sorted(name for name in REGISTRY.names() if name.isidentifier())


def finished(text: str) -> bool:
    """Whether what is typed is to be run: a backslash command, or statements that end with a semicolon."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\"):
        return True
    try:
        found = [token for token in tokens(text) if token.kind != "end"]
    except tidegate.TidegateError:
        return stripped.endswith(";;")  # a string that is not closed goes on; two semicolons insist
    return bool(found) and found[-1].kind == "op" and found[-1].text == ";"


def repl(db: Database, form: Format = "table") -> None:
    """Asks and answers until the user leaves."""
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(_history())),
        completer=Words(db),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=lambda width, *_: " " * (width - 2) + "> ",
    )
    sys.stdout.write(f"tidegate {tidegate.__version__}: statements end with ;  \\? helps  \\q leaves\n")
    talk = Talk(db, form)
    while not talk.over:
        try:
            typed = session.prompt("tidegate> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        talk.answer(typed)


class Talk:
    """What a user has set, and the answers."""

    def __init__(self, db: Database, form: Format) -> None:
        self.db, self.form, self.timing, self.over = db, form, False, False

    def answer(self, typed: str) -> None:
        """Runs what was typed; an error is printed, and the talk goes on."""
        try:
            if typed.strip().startswith("\\"):
                self._command(*typed.strip().rstrip(";").partition(" ")[::2])
            elif typed.strip().strip(";"):
                self._ask(typed)
        except tidegate.TidegateError as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        except KeyboardInterrupt:
            sys.stderr.write("cancelled\n")

    def _ask(self, sql: str) -> None:
        began = time.perf_counter()
        result = self.db.sql(sql)
        show(result, self.form, began=began if self.timing else None)

    def _command(self, command: str, rest: str) -> None:
        rest = rest.strip()
        match command:
            case "\\q":
                self.over = True
            case "\\d":
                self._ask(f'SHOW COLUMNS FROM "{rest}"' if rest else "SHOW TABLES")
            case "\\explain" if rest:
                self._ask(f"EXPLAIN {rest}")
            case "\\timing":
                self.timing = not self.timing
                sys.stdout.write(f"timing is {'on' if self.timing else 'off'}\n")
            case "\\format" if rest in ("table", "csv", "json"):
                self.form = "table" if rest == "table" else "csv" if rest == "csv" else "json"
            case _:
                sys.stdout.write(HELP)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _history() -> Path:
    """Where what was typed is kept, readable by this user alone."""
    home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "tidegate"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home / "history"
