"""Statements that are PostgreSQL's own, and change nothing but the connection: BEGIN, SET, SHOW, DISCARD and their like.

    BEGIN; INSERT …; ROLLBACK      the words are taken and the state is told (drivers begin by themselves), but every statement is a
                                   transaction of its own: ROLLBACK after a write is answered with a warning, as the rows stay

A setting is PostgreSQL's (`settings.py`) or Tidegate's; `statement_timeout` is both: it is Tidegate's `statement_timeout_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tidegate.config import Config
from tidegate.database import Database
from tidegate.expr.types import TEXT
from tidegate.scan.result import Result
from tidegate.serve.pg.holes import Piece
from tidegate.serve.pg.rows import Source
from tidegate.serve.pg.settings import TIMEOUT, Settings, milliseconds
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.sql.lex import Token

OURS = frozenset(one.name for one in fields(Config))
_OURS_TIMEOUT = "statement_timeout_ms"
_OPTION = re.compile(r"(?:-c\s*|--)([\w-]+)=((?:\\.|[^\s\\])*)")


@dataclass(frozen=True)
class Answer:
    """Rows, if there are any; the tag; and what to tell besides."""

    result: Result
    tag: str
    """What PostgreSQL ends the statement with; behind SELECT and FETCH comes the number of rows that were sent."""
    notice: Trouble | None = None
    changed: tuple[str, ...] = ()
    """Settings to report again."""
    rows: Source | None = None
    """Its rows, if they are not simply those of the result: some of a cursor's."""

    def ended(self, sent: int) -> str:
        """The tag, once so many rows were sent."""
        return f"{self.tag} {sent}" if self.tag in ("SELECT", "FETCH") else self.tag


def _done(tag: str, notice: Trouble | None = None, changed: tuple[str, ...] = ()) -> Answer:
    return Answer(Result.done(tag), tag, notice, changed)


def _warning(message: str, code: str = "01000") -> Trouble:
    return Trouble(code, message)


@dataclass
class Own:
    """What a connection remembers between statements."""

    db: Database
    settings: Settings = field(default_factory=Settings)
    status: str = "I"
    """`I` idle, `T` in a transaction, `E` in one that failed."""
    wrote: bool = False
    """A statement of this transaction wrote something."""
    forget: Callable[[str | None], bool] = lambda name: True
    """Forgets a prepared statement, or all; whether it was there."""

    ended: Callable[[], None] = lambda: None
    """Is told when a transaction ends."""

    def begin(self, user: str, given: Mapping[str, str]) -> None:
        """What a client wants from the start: settings by name, and `options` as PostgreSQL's command line has them."""
        if given.get("replication", "off") not in ("off", "false", "no", "0"):
            raise Trouble("0A000", "there is no replication here")
        self.settings.values["session_authorization"] = user
        wanted = {name: value for name, value in given.items() if name != "options"}
        for name, value in _OPTION.findall(given.get("options", "")):
            wanted[name.replace("-", "_")] = re.sub(r"\\(.)", r"\1", value)
        for name, value in wanted.items():
            if name == TIMEOUT:
                self.db.set(_OURS_TIMEOUT, milliseconds(value))
            elif name in OURS:
                self.db.set(name, value)
            elif known := self.settings.known(name):
                self.settings.set(known, value)
            elif name in dict(_OPTION.findall(given.get("options", ""))):
                raise Trouble("42704", f'there is no setting "{name[:60]}"')

    def answer(self, piece: Piece) -> Answer | None:
        """The answer, if the statement is one of these."""
        words = piece.words()
        found = self._transaction(words)
        if found is not None:
            return found
        if self.status == "E":
            hint = "ROLLBACK ends it"
            raise Trouble(
                "25P02", "a statement before this one failed, so this transaction is over", hint=hint
            )
        match words[0]:
            case "set":
                return self._set(piece.tokens[1:])
            case "reset":
                return self._reset(piece.tokens[1:])
            case "show":
                return self._show(piece.tokens[1:])
            case "discard" | "deallocate" | "unlisten":
                return self._forget(words[0], piece.tokens[1:])
            case word if word in _NOT_DONE:
                raise Trouble("0A000", f"{word.upper()} is not done here", hint=_INSTEAD.get(word))
            case _:
                return None

    def failed(self) -> None:
        """A statement failed: inside of a transaction, nothing but its end is heard from now on."""
        if self.status == "T":
            self.status = "E"

    # ------------------------------------------------------------ transactions

    def _transaction(self, words: Sequence[str]) -> Answer | None:
        match words[0]:
            case "begin":
                return self._begin("BEGIN")
            case "start" if words[1:2] == ("transaction",):
                return self._begin("START TRANSACTION")
            case "savepoint" | "release" if self.status != "E":
                return _done(words[0].upper())
            case "rollback" if "to" in words[1:3]:
                return self._end(savepoint=True)
            case "commit" | "end":
                return self._end(commit=True)
            case "rollback" | "abort":
                return self._end()
            case _:
                return None

    def _begin(self, tag: str) -> Answer:
        if self.status == "E":
            return self._end()
        notice = _warning("there is a transaction already", "25001") if self.status == "T" else None
        self.status, self.wrote = "T", self.wrote and self.status == "T"
        return _done(tag, notice)

    def _end(self, *, commit: bool = False, savepoint: bool = False) -> Answer:
        failed, wrote, was = self.status == "E", self.wrote, self.status
        notice = None
        if was == "I":
            notice = _warning("there is no transaction", "25P01")
        elif wrote and (failed or not commit):
            notice = _warning("every statement is its own transaction here: what was written stays written")
        if not savepoint:
            self.wrote = False
            self.ended()
        self.status = "T" if savepoint and was != "I" else "I"
        return _done("COMMIT" if commit and not failed else "ROLLBACK", notice)

    # ------------------------------------------------------------ settings

    def _set(self, tokens: Sequence[Token]) -> Answer | None:
        words = [one.text if one.kind == "word" else "" for one in tokens]
        if words[:1] == ["transaction"] or words[:2] == ["session", "characteristics"]:
            return _done("SET")
        prefixed = words[:1] in (["session"], ["local"])
        tokens, words = (tokens[1:], words[1:]) if prefixed else (tokens, words)
        if words[:2] == ["time", "zone"]:
            return self._changed("TimeZone", _value(tokens[2:]))
        if words[:1] == ["names"]:
            return self._changed("client_encoding", _value(tokens[1:]))
        if len(tokens) < 3 or not (tokens[1].text in ("=", "to") and tokens[1].kind in ("op", "word")):
            return None  # Tidegate's grammar says what is wrong with it
        name, value = tokens[0].text, _value(tokens[2:])
        if name == TIMEOUT:
            self.db.set(_OURS_TIMEOUT, None if value is None else milliseconds(value))
            return _done("SET")
        if name in OURS:
            if not prefixed:
                return None
            self.db.set(name, value)
            return _done("SET")
        known = self.settings.known(name)
        return None if known is None else self._changed(known, value)

    def _changed(self, name: str, value: str | None, tag: str = "SET") -> Answer:
        before = self.settings.show(name)
        said = self.settings.set(name, value)
        changed = () if self.settings.show(name) == before else (name,)
        return _done(tag, None if said is None else _warning(said), changed)

    def _reset(self, tokens: Sequence[Token]) -> Answer | None:
        name = tokens[0].text if tokens else ""
        if name == "all":
            self.all_default()
            return _done("RESET", changed=("application_name",))
        if name == TIMEOUT:
            self.db.set(_OURS_TIMEOUT, None)
            return _done("RESET")
        known = self.settings.known("time zone" if name == "time" else name)
        return None if known is None or name in OURS else self._changed(known, None, "RESET")

    def all_default(self) -> None:
        """Every setting is as it was at the start."""
        self.settings.values.clear()
        for name in OURS:
            self.db.set(name, None)

    def _show(self, tokens: Sequence[Token]) -> Answer | None:
        words = " ".join(one.text for one in tokens)
        name = {
            "transaction isolation level": "transaction_isolation",
            "session authorization": "session_authorization",
        }.get(words, words)
        if name == TIMEOUT:
            value = f"{self.db._open.config.statement_timeout_ms}ms"
        else:
            known = self.settings.known(name)
            if known is None or name in OURS:
                return None
            name, value = known, self.settings.show(known)
        return Answer(Result.of([name], [TEXT], [[value]]), "SHOW")

    # ------------------------------------------------------------ what is kept

    def _forget(self, word: str, tokens: Sequence[Token]) -> Answer:
        name = tokens[-1].text if tokens else "all"
        if word == "discard":
            if name == "all":
                self.forget(None)
                self.all_default()
            return _done(f"DISCARD {name.upper()}", changed=("application_name",) if name == "all" else ())
        if word == "deallocate":
            everything = name == "all" and tokens[-1].kind == "word"
            if not self.forget(None if everything else name) and not everything:
                raise Trouble("26000", f'there is no prepared statement "{name[:60]}"')
            return _done("DEALLOCATE ALL" if everything else "DEALLOCATE")
        return _done("UNLISTEN")


_NOT_DONE = ("copy", "listen", "notify", "prepare", "execute", "call", "do", "lock")
_INSTEAD = {
    "copy": "a SELECT gives the rows; `tidegate sql --format csv` writes files",
    "prepare": "drivers prepare by themselves; the protocol has a message for it",
}


def _value(tokens: Sequence[Token]) -> str | None:
    """What stands behind SET name =; None: DEFAULT."""
    if len(tokens) == 1 and tokens[0].kind == "word" and tokens[0].text == "default":
        return None
    found = ""
    for one in tokens:
        found += ", " if one.text == "," and one.kind == "op" else one.text
    return found
