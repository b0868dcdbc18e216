r"""What may come at the cursor of the prompt: names where names stand, nothing inside of strings.

| before the cursor | offered, in this order |
|---|---|
| a string, a quoted name or a comment that is open | nothing |
| `\` | commands |
| `SELECT`, `WHERE`, `BY`, `ON`, `(`, `,`, an operator … | columns of collections in the statement, functions, key words |
| `FROM`, `JOIN`, `INTO`, `UPDATE`, `USING`, `TABLE` … | collections and views, key words |
| `o.` | columns of the collection `o`, or of what has that alias |
| `SET` | settings |
| anything else | key words, then names |
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document

import tidegate
from tidegate.cli.prompt.scan import in_string, without_strings
from tidegate.text import identifier

if TYPE_CHECKING:
    from tidegate.database import Database

_WORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET AS OF AND OR NOT IN LIKE BETWEEN IS NULL CASE WHEN THEN ELSE END JOIN LEFT ON "
    "USING UNION ALL DISTINCT HAVING INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW SOURCE CONNECTION DROP ALTER ADD "
    "COLUMN RENAME TO TYPE DEFAULT PRIMARY KEY ENFORCED INCLUDING TRUNCATE COMMENT PREPARE EXECUTE DEALLOCATE "
    "MERGE MATCHED RETURNING CONFLICT DO NOTHING WITH RECURSIVE ASC DESC INNER RIGHT FULL CROSS LATERAL EXISTS IF RESET "
    "EXPLAIN ANALYZE FILTER PUSHDOWN SHOW TABLES COLUMNS SOURCES CLUSTER KEEP STATISTICS TRANSFORM "
    "mz_now()"
)
KEY_WORDS = tuple(_WORDS.split())
FRESH_SECONDS = 5.0
"""How long names of collections and columns are kept between two completions."""
_COLLECTIONS = frozenset(
    {"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "VIEW", "SOURCE", "EXISTS", "COLUMNS", "TRUNCATE", "USING"}
)
_BEFORE_COLUMNS = (
    "SELECT WHERE AND OR NOT BY ON HAVING SET CASE WHEN THEN ELSE DISTINCT BETWEEN LIKE IN IS RETURNING"
)
_COLUMNS = frozenset(_BEFORE_COLUMNS.split())
_WORD = re.compile(r"[A-Za-z_][\w$]*\Z")
_NAME = re.compile(r'"(?:[^"]|"")+"|[A-Za-z_][\w$]*')
_ALIAS = re.compile(r"(?i)\b(?:from|join|into|update|using|,)\s+([a-z_][\w$]*)\s+(?:as\s+)?([a-z_][\w$]*)")


class SqlCompleter(Completer):
    """Completes names, key words and commands by what stands before the cursor."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._names: dict[str, list[str]] = {}
        self._read_at = float("-inf")

    def get_completions(self, document: Document, complete_event: object) -> Iterable[Completion]:
        """Yields what may stand at the cursor."""
        del complete_event
        before = document.text_before_cursor
        if before.lstrip().startswith("\\") and " " not in before.strip():
            yield from self._commands(before.strip()[1:])
            return
        if in_string(before):
            return
        found = _WORD.search(before)
        typed = found[0] if found else ""
        seen: set[str] = set()
        for word, kind in self._candidates(document.text, before[: len(before) - len(typed)], typed):
            if word not in seen and word.lower().startswith(typed.lower()) and word != typed:
                seen.add(word)
                name = kind.startswith(("column", "collection"))
                yield Completion(
                    identifier(word) if name else word, start_position=-len(typed), display_meta=kind
                )

    def _commands(self, typed: str) -> Iterator[Completion]:
        from tidegate.cli.prompt.commands import COMMANDS

        for name, command in COMMANDS.items():
            if name.startswith(typed):
                yield Completion(name, start_position=-len(typed), display_meta=command.meaning)

    def _candidates(self, text: str, before: str, typed: str) -> Iterator[tuple[str, str]]:
        plain = without_strings(before)
        if plain.endswith("."):
            yield from self._qualified(text, plain[:-1])
            return
        last = _last_word(plain)
        words = set(plain.upper().split())
        if last == "SET" and not {"UPDATE", "ALTER"} & words:
            yield from ((name, "setting") for name in tidegate.Config.meanings())
            return
        names = self._collections()
        collections = ((name, "collection") for name in names)
        if last in _COLLECTIONS:
            yield from collections
            yield from ((word, "key word") for word in KEY_WORDS if typed)
        elif (last in _COLUMNS and not (last == "SET" and "ALTER" in words)) or (
            plain.rstrip() and plain.rstrip()[-1] in "(,=<>+-*/|%"
        ):
            yield from self._columns_of(text)
            if typed:
                yield from ((name, "function") for name in _function_names())
                yield from ((word, "key word") for word in KEY_WORDS)
                yield from collections
        elif typed:
            yield from ((word, "key word") for word in KEY_WORDS)
            yield from self._columns_of(text)
            yield from collections
            yield from ((name, "function") for name in _function_names())

    def _qualified(self, text: str, before: str) -> Iterator[tuple[str, str]]:
        """Columns of what is named before a point: a collection or an alias."""
        found = _WORD.search(before)
        if found is None:
            return
        aliases = {alias.lower(): name.lower() for name, alias in _ALIAS.findall(without_strings(text))}
        name = aliases.get(found[0].lower(), found[0].lower())
        yield from ((column, f"column of {name}") for column in self._columns(name))

    def _columns_of(self, text: str) -> Iterator[tuple[str, str]]:
        """Columns of the collections that a statement names."""
        said = {word.strip('"') for word in _NAME.findall(text)}
        said |= {word.lower() for word in said}
        for name in self._collections():
            if name in said:
                yield from ((column, f"column of {name}") for column in self._columns(name))

    def _collections(self) -> list[str]:
        """Names of tables, views and sources; read again after a while."""
        if time.monotonic() - self._read_at > FRESH_SECONDS:
            try:
                found = [
                    row[0]
                    for what in ("TABLES", "VIEWS", "SOURCES")
                    for row in self.db.sql(f"SHOW {what}").rows()
                ]
            except tidegate.TidegateError:
                found = []
            self._names = {name: [] for name in found}
            self._read_at = time.monotonic()
        return list(self._names)

    def _columns(self, name: str) -> list[str]:
        self._collections()
        if name in self._names and not self._names[name]:
            try:
                rows = self.db.sql(f"SHOW COLUMNS FROM {identifier(name)}").rows()
            except tidegate.TidegateError:
                rows = []
            self._names[name] = [row[0] for row in rows]
        return self._names.get(name, [])


def _last_word(plain: str) -> str:
    """The key word that decides what comes next: the last word, if nothing but space follows it."""
    found = re.search(r"([A-Za-z_]+)\s+\Z", plain)
    return found[1].upper() if found else ""


def _function_names() -> list[str]:
    from tidegate.expr.model import REGISTRY

    return sorted(name for name in REGISTRY.names() if name.isidentifier())
