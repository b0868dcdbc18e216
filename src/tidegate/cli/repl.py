r"""The prompt of `tidegate sql`: multi-line statements, history, completion, backslash commands.

    tidegate> SELECT id
            > FROM orders
            > LIMIT 10;

A statement ends with a semicolon. Ctrl-C cancels a query or clears the input; Ctrl-D on an empty line quits.

| | |
|---|---|
| `\d`, `\d orders` | list collections and views; list the columns of one |
| `\explain SELECT …` | show how a query would run |
| `\timing` | turn printing of times on or off |
| `\format csv` | print results as table, csv or json |
| `\?`, `\q` | show this list; quit |
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
from tidegate.cli.output import Format, print_result
from tidegate.sql.parse import tokenize
from tidegate.text import identifier

if TYPE_CHECKING:
    from tidegate.database import Database

_WORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET AS OF AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END JOIN LEFT ON "
    "USING UNION ALL DISTINCT HAVING INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW SOURCE CONNECTION DROP ALTER ADD "
    "COLUMN RENAME TO TYPE DEFAULT KEY ENFORCED INCLUDING TRUNCATE COMMENT PREPARE EXECUTE DEALLOCATE "
    "EXPLAIN ANALYZE FILTER PUSHDOWN SHOW TABLES COLUMNS SOURCES CLUSTER KEEP STATISTICS TRANSFORM mz_now()"
)
KEY_WORDS = tuple(_WORDS.split())
HELP = (__doc__ or "").split("|---|---|\n")[-1].replace("| ", "", 1)


class SqlCompleter(Completer):
    """Completes names of collections, columns and functions, and key words."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.functions = _function_names()

    def get_completions(self, document: Document, complete_event: object) -> Iterable[Completion]:
        """Yields the completions of the word before the cursor."""
        del complete_event
        typed = document.get_word_before_cursor(WORD=False)
        if not typed.strip():
            return
        seen = set()
        for word, kind in self._candidates(document.text):
            if word.lower().startswith(typed.lower()) and word not in seen:
                seen.add(word)
                text = identifier(word) if kind.startswith("col") else word
                yield Completion(text, start_position=-len(typed), display_meta=kind)

    def _candidates(self, text: str) -> Iterable[tuple[str, str]]:
        try:
            status = self.db.status()
        except tidegate.TidegateError:
            status = None
        if status is not None:
            names = [*status.collections, *status.views]
            yield from ((name, "collection") for name in names)
            for name in names:
                if name in text:
                    yield from ((row[0], f"column of {name}") for row in self._columns(name))
        yield from ((word, "key word") for word in KEY_WORDS)
        yield from ((name, "function") for name in self.functions)

    def _columns(self, name: str) -> list[tuple[str, ...]]:
        try:
            return self.db.sql(f"SHOW COLUMNS FROM {identifier(name)}").rows()
        except tidegate.TidegateError:
            return []


def _function_names() -> list[str]:
    from tidegate.expr.model import REGISTRY

    return sorted(name for name in REGISTRY.names() if name.isidentifier())


def is_complete(text: str) -> bool:
    """Whether the input is complete: a backslash command, or statements that end with a semicolon."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\"):
        return True
    try:
        sql_tokens = [token for token in tokenize(text, parameters=True) if token.kind != "end"]
    except tidegate.TidegateError:
        return stripped.endswith(";;")  # an open string continues; two semicolons end it anyway
    return bool(sql_tokens) and sql_tokens[-1].kind == "op" and sql_tokens[-1].text == ";"


def repl(db: Database, form: Format = "table") -> None:
    """Reads and runs statements until the user quits."""
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(_history_file())),
        completer=SqlCompleter(db),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_key_bindings(),
        prompt_continuation=lambda width, *_: " " * (width - 2) + "> ",
    )
    sys.stdout.write(f"tidegate {tidegate.__version__}: statements end with ;  \\? for help  \\q to quit\n")
    session_ = ReplSession(db, form)
    while not session_.over:
        try:
            typed = session.prompt("tidegate> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        session_.answer(typed)


class ReplSession:
    """Runs what a user types, with the format and timing they chose."""

    def __init__(self, db: Database, form: Format) -> None:
        self.db, self.form, self.timing, self.over = db, form, False, False

    def answer(self, typed: str) -> None:
        """Runs the input; an error is printed and does not end the prompt."""
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
        print_result(result, self.form, began=began if self.timing else None)

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


def _key_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _history_file() -> Path:
    """Returns the history file, readable by this user only."""
    home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "tidegate"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home / "history"
