"""Settings: `SET name = value`, `db.set(name, value)` and SHOW, over the knobs of `config.py`.

    changed(config, "stats_filter", "off")      another Config; strings are read as SQL writes them

    settings = DatabaseSettings(Config())       of an open database: what counts for everybody
    own = SessionSettings(settings)             of one session, on top of them
    own.set("stats_filter", "off")              for the session alone
    own.set("lease_ms", 1)                      SettingError: it concerns everybody
    own.config                                  the database's settings as they are now, with the session's own

Each knob says in `config.py` who may change it (`SettingScope`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from tidegate.boundary import text
from tidegate.config import Config, SettingScope
from tidegate.errors import BindError, ErrorCode, SettingError

_SCOPES = Config.scopes()


class DatabaseSettings:
    """The settings of an open database; sessions and open shards look here."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def set(self, name: str, value: object) -> None:
        """Changes a knob for everybody; None: to its default."""
        self.config = changed(self.config, name, value)

    def for_session(self) -> SessionSettings:
        """Settings for a new session: these, until it sets its own."""
        return SessionSettings(self)

    def for_query(self) -> SessionSettings:
        """Settings for one query of the owner of the database, who may exceed its limits."""
        return SessionSettings(self, limited=False)


class SessionSettings:
    """The settings of one session or query: the database's current ones, with some of its own.

    `limited`: whether it must stay below what the database allows. A query of the database's owner need not.
    """

    def __init__(
        self, database: DatabaseSettings, own: Mapping[str, object] | None = None, *, limited: bool = True
    ) -> None:
        self._database, self._own, self._limited = database, dict(own or {}), limited
        self._merged: tuple[Config, Config] | None = None

    def for_session(self) -> SessionSettings:
        """A copy, for a session made from this one."""
        return SessionSettings(self._database, self._own, limited=self._limited)

    def for_query(self) -> SessionSettings:
        """A copy, for one query."""
        return self.for_session()

    @property
    def config(self) -> Config:
        """What counts now."""
        base, merged = self._database.config, self._merged
        if merged is None or merged[0] is not base:
            merged = self._merged = base, self._on(base)
        return merged[1]

    def set(self, name: str, value: object) -> None:
        """Changes a knob for this session alone; None: back to the database's value."""
        check(name)
        if value is None:
            self._own.pop(name, None)
        else:
            self._own[name] = self._checked(name, value)
        self._merged = None

    def _on(self, base: Config) -> Config:
        own: dict[str, Any] = dict(self._own)
        for name, value in self._own.items():
            if self._exceeds(base, name, value):  # the database's limit was lowered since
                own[name] = getattr(base, name)
        return replace(base, **own)

    def _checked(self, name: str, value: object) -> object:
        base = self._database.config
        wanted = getattr(changed(base, name, value), name)
        if _SCOPES[name] is SettingScope.DATABASE:
            raise SettingError(
                f"{name} is a setting of the database: it applies to everybody, and cannot be set for one session or query",
                hint=f"the owner of the database sets it: tidegate.open(url, config=Config({name}=…)), or db.set",
            )
        if self._exceeds(base, name, wanted):
            raise SettingError(
                f"{name} cannot be more than {_amount(name, getattr(base, name)):.0f} in a session",
                hint="that is the limit of the database; its owner can raise it",
            )
        return wanted

    def _exceeds(self, base: Config, name: str, value: object) -> bool:
        limited = self._limited and _SCOPES[name] is SettingScope.LIMIT
        return limited and _amount(name, value) > _amount(name, getattr(base, name))


def _amount(name: str, value: Any) -> float:
    """How much a limit allows. 0 threads are as many as there are cores; any other limit of 0 is none."""
    if value:
        return float(value)
    return float(os.cpu_count() or 1) if name == "read_threads" else math.inf


def changed(config: Config, name: str, value: object) -> Config:
    """The config with one knob turned; None: to its default."""
    check(name)
    turned: dict[str, Any] = {name: getattr(Config(), name) if value is None else value}
    return replace(config, **turned)


def check(name: str) -> None:
    """Raises if there is no such knob."""
    known = [field.name for field in fields(Config)]
    if text(name, "the name of a setting") not in known:
        close = get_close_matches(name, known, n=2)
        hint = (
            f"did you mean {' or '.join(close)}?"
            if close
            else "SHOW ALL lists them, and `tidegate config` with their meaning"
        )
        raise BindError(f'there is no setting "{name}"', code=ErrorCode.UNDEFINED_OBJECT, hint=hint)
