"""The state of one connection, and the statements that change it: BEGIN, SET, SHOW, DISCARD.

    BEGIN; INSERT …; ROLLBACK      drivers send these by themselves, so they are accepted; but every statement is a transaction of
                                   its own, and ROLLBACK after a write is answered with a warning that the rows stay

A setting is PostgreSQL's (`settings.py`) or Tidegate's. `statement_timeout` is both: it sets Tidegate's `statement_timeout_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

from tidegate.config import Config
from tidegate.expr.model import types
from tidegate.query import CancelToken, Result
from tidegate.server.postgres.cursors import Cursors
from tidegate.server.postgres.rows import ResultRows, StatementResult
from tidegate.server.postgres.settings import TIMEOUT, PostgresSettings, parse_timeout_ms
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.session import Session
from tidegate.sql.parse import StatementText, Token
from tidegate.statements import duration_text

TIDEGATE_SETTINGS = frozenset(field_.name for field_ in fields(Config))
_TIMEOUT_SETTING = "statement_timeout_ms"
_OPTION = re.compile(r"(?:-c\s*|--)([\w-]+)=((?:\\.|[^\s\\])*)")


def _completed(
    tag: str, notice: PostgresError | None = None, changed: tuple[str, ...] = ()
) -> StatementResult:
    return StatementResult(Result.message(tag), tag, notice, changed)


def _warning(message: str, code: str = "01000") -> PostgresError:
    return PostgresError(code, message)


class PreparedRegistry(Protocol):
    """The prepared statements and portals of a connection: see `extended_query.py`."""

    def forget(self, name: str | None) -> bool:
        """Forgets a prepared statement, or all of them; whether it existed."""
        ...

    def portal_rows(self, name: str, watch: CancelToken) -> ResultRows | None:
        """Runs a portal and returns its rows; None: there is no such portal, or it returns no rows."""
        ...


@dataclass
class SessionState:
    """What a connection remembers between statements."""

    db: Session
    cursors: Cursors
    settings: PostgresSettings = field(default_factory=PostgresSettings)
    status: str = "I"
    """`I` idle, `T` in a transaction block, `E` in a failed one."""
    wrote: bool = False
    """Whether a statement of this transaction block wrote something."""
    prepared: PreparedRegistry | None = None
    local: list[tuple[str, object]] = field(default_factory=list)
    """What SET LOCAL has changed in this transaction block, whose end brings the value beside it back."""

    def begin(self, user: str, startup: Mapping[str, str]) -> None:
        """Applies the settings of the startup message, also those in `options` (`-c name=value`)."""
        if startup.get("replication", "off") not in ("off", "false", "no", "0"):
            raise PostgresError("0A000", "replication is not supported")
        self.settings.values["session_authorization"] = user
        options = {
            name.replace("-", "_"): re.sub(r"\\(.)", r"\1", value)
            for name, value in _OPTION.findall(startup.get("options", ""))
        }
        requested = {name: value for name, value in startup.items() if name != "options"} | options
        for name, value in requested.items():
            if name == TIMEOUT:
                self.db.set(_TIMEOUT_SETTING, parse_timeout_ms(value))
            elif name in TIDEGATE_SETTINGS:
                self.db.set(name, value)
            elif canonical := self.settings.canonical_name(name):
                self.settings.set(canonical, value)
            elif name in options:
                raise PostgresError("42704", f'unrecognized setting "{name[:60]}"')

    def answer(self, piece: StatementText) -> StatementResult | None:
        """Runs the statement if it concerns the connection only; None: it does not."""
        words = piece.words()
        if (result := self._transaction(words)) is not None:
            return result
        if self.status == "E":
            hint = "ROLLBACK ends the transaction block"
            raise PostgresError(
                "25P02", "the transaction block is aborted because an earlier statement failed", hint=hint
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
            case word if word in _UNSUPPORTED:
                raise PostgresError("0A000", f"{word.upper()} is not supported")
            case _:
                return None

    def failed(self) -> None:
        """Marks the transaction block as failed: only its end is accepted from now on."""
        if self.status == "T":
            self.status = "E"

    # ------------------------------------------------------------ transactions

    def _transaction(self, words: Sequence[str]) -> StatementResult | None:
        match words[0]:
            case "begin":
                return self._begin("BEGIN")
            case "start" if words[1:2] == ("transaction",):
                return self._begin("START TRANSACTION")
            case "savepoint" | "release" if self.status != "E":
                return _completed(words[0].upper())
            case "rollback" if "to" in words[1:3]:
                return self._end(savepoint=True)
            case "commit" | "end":
                return self._end(commit=True)
            case "rollback" | "abort":
                return self._end()
            case _:
                return None

    def _begin(self, tag: str) -> StatementResult:
        if self.status == "E":
            return self._end()
        notice = (
            _warning("there is already a transaction in progress", "25001") if self.status == "T" else None
        )
        self.status, self.wrote = "T", self.wrote and self.status == "T"
        return _completed(tag, notice)

    def _end(self, *, commit: bool = False, savepoint: bool = False) -> StatementResult:
        failed, wrote, was = self.status == "E", self.wrote, self.status
        notice = None
        if was == "I":
            notice = _warning("there is no transaction in progress", "25P01")
        elif wrote and (failed or not commit):
            notice = _warning(
                "every statement is a transaction of its own: earlier writes are not rolled back"
            )
        changed: tuple[str, ...] = ()
        if not savepoint:
            self.wrote = False
            self.cursors.end_transaction()
            changed = self._end_local()
        self.status = "T" if savepoint and was != "I" else "I"
        return _completed("COMMIT" if commit and not failed else "ROLLBACK", notice, changed)

    # ------------------------------------------------------------ settings

    def _set_local(self, tokens: Sequence[Token]) -> StatementResult | None:
        """SET LOCAL: until the transaction block ends, and without effect outside of one."""
        if self.status != "T":
            return _completed("SET", _warning("SET LOCAL can only be used in transaction blocks", "25P01"))
        before = self._values()
        result = self._set(tokens, prefixed=True)
        if result is None and len(tokens) > 2:
            raise PostgresError("42704", f'unrecognized setting "{tokens[0].text[:60]}"')
        now = self._values()
        self.local += [
            (name, before.get(name)) for name in {**before, **now} if before.get(name) != now.get(name)
        ]
        return result

    def _values(self) -> dict[str, object]:
        """Tidegate's settings, and those of PostgreSQL that are not at their defaults."""
        config = self.db.context.config
        return {**self.settings.values, **{name: getattr(config, name) for name in TIDEGATE_SETTINGS}}

    def _end_local(self) -> tuple[str, ...]:
        """Brings back what SET LOCAL has changed; returns the settings to report again."""
        changed = []
        while self.local:
            name, value = self.local.pop()
            if name in TIDEGATE_SETTINGS:
                self.db.set(name, value)
                continue
            changed.append(name)
            self.settings.values.pop(name, None)
            if isinstance(value, str):
                self.settings.values[name] = value
        return tuple(changed)

    def _set(self, tokens: Sequence[Token], *, prefixed: bool = False) -> StatementResult | None:
        words = [token.text if token.kind == "word" else "" for token in tokens]
        if words[:1] == ["transaction"] or words[:2] == ["session", "characteristics"]:
            return _completed("SET")
        if words[:1] == ["local"] and not prefixed:
            return self._set_local(tokens[1:])
        if words[:1] == ["session"] and not prefixed:
            tokens, words, prefixed = tokens[1:], words[1:], True
        if words[:2] == ["time", "zone"]:
            return self._change("TimeZone", _setting_value(tokens[2:]))
        if words[:1] == ["names"]:
            return self._change("client_encoding", _setting_value(tokens[1:]))
        if len(tokens) < 3 or not (tokens[1].text in ("=", "to") and tokens[1].kind in ("op", "word")):
            return None  # Tidegate's parser reports what is wrong
        name, value = tokens[0].text, _setting_value(tokens[2:])
        if name == TIMEOUT:
            self.db.set(_TIMEOUT_SETTING, None if value is None else parse_timeout_ms(value))
            return _completed("SET")
        if name in TIDEGATE_SETTINGS:
            if not prefixed:
                return None
            self.db.set(name, value)
            return _completed("SET")
        canonical = self.settings.canonical_name(name)
        return None if canonical is None else self._change(canonical, value)

    def set_config(self, name: str, value: str) -> tuple[str, ...]:
        """Changes a setting as SET does; returns the settings to report again."""
        canonical = self.settings.canonical_name(name)
        if name.lower() == TIMEOUT:
            self.db.set(_TIMEOUT_SETTING, parse_timeout_ms(value))
        elif name.lower() in TIDEGATE_SETTINGS or (canonical is None and "." not in name):
            self.db.set(name.lower(), value)  # raises if there is no such setting, or it is not the session's
        elif canonical is not None:
            return self._change(canonical, value).changed
        return ()

    def _change(self, name: str, value: str | None, tag: str = "SET") -> StatementResult:
        before = self.settings.show(name)
        warning = self.settings.set(name, value)
        changed = () if self.settings.show(name) == before else (name,)
        return _completed(tag, None if warning is None else _warning(warning), changed)

    def _reset(self, tokens: Sequence[Token]) -> StatementResult | None:
        name = tokens[0].text if tokens else ""
        if name == "all":
            self.reset_all()
            return _completed("RESET", changed=("application_name",))
        if name == TIMEOUT:
            self.db.set(_TIMEOUT_SETTING, None)
            return _completed("RESET")
        canonical = self.settings.canonical_name("time zone" if name == "time" else name)
        if canonical is None or name in TIDEGATE_SETTINGS:
            return None
        return self._change(canonical, None, "RESET")

    def reset_all(self) -> None:
        """Resets every setting to its default."""
        self.settings.values.clear()
        self.local.clear()
        for name in TIDEGATE_SETTINGS:
            self.db.set(name, None)

    def _show(self, tokens: Sequence[Token]) -> StatementResult | None:
        words = " ".join(token.text for token in tokens)
        name = {
            "transaction isolation level": "transaction_isolation",
            "session authorization": "session_authorization",
        }.get(words, words)
        if name == TIMEOUT:
            value = duration_text(self.db.context.config.statement_timeout_ms)
        else:
            canonical = self.settings.canonical_name(name)
            if canonical is None or name in TIDEGATE_SETTINGS:
                return None
            name, value = canonical, self.settings.show(canonical)
        return StatementResult(Result.of([name], [types.TEXT], [[value]]), "SHOW")

    # ------------------------------------------------------------ prepared statements

    def _forget(self, word: str, tokens: Sequence[Token]) -> StatementResult:
        name = tokens[-1].text if tokens else "all"
        if word == "discard":
            if name == "all":
                self._forget_prepared(None)
                self.db.context.named_statements.clear()
                self.reset_all()
            return _completed(
                f"DISCARD {name.upper()}", changed=("application_name",) if name == "all" else ()
            )
        if word == "deallocate":
            everything = name == "all" and tokens[-1].kind == "word"
            named = self.db.context.named_statements
            if everything:
                named.clear()
            own = named.pop(name, None) is not None
            if not self._forget_prepared(None if everything else name) and not (everything or own):
                raise PostgresError("26000", f'prepared statement "{name[:60]}" does not exist')
            return _completed("DEALLOCATE ALL" if everything else "DEALLOCATE")
        return _completed("UNLISTEN")

    def _forget_prepared(self, name: str | None) -> bool:
        return self.prepared is None or self.prepared.forget(name)


_UNSUPPORTED = ("listen", "notify", "call", "do", "lock")


def _setting_value(tokens: Sequence[Token]) -> str | None:
    """Returns the value in SET name = value; None: DEFAULT."""
    if len(tokens) == 1 and tokens[0].kind == "word" and tokens[0].text == "default":
        return None
    return "".join(", " if token.text == "," and token.kind == "op" else token.text for token in tokens)
