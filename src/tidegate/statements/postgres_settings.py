"""PostgreSQL's settings in SET, SHOW and RESET: what has an effect, and what has one value.

    SET statement_timeout = '5s'           the setting statement_timeout_ms, in PostgreSQL's spelling
    SET TimeZone = 'UTC'                   accepted: it is always UTC
    SET TimeZone = 'Europe/Berlin'         refused, as times would be read and printed in another zone than it says
    SET search_path TO public              accepted: there is one schema

The PostgreSQL server knows more of them, which drivers set when they connect (`server/postgres/settings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidegate.config import Config
from tidegate.context import Context
from tidegate.errors import SettingError

STATEMENT_TIMEOUT = "statement_timeout"
SEARCH_PATH = "search_path"
_TIMEOUT_KNOB = "statement_timeout_ms"
_UNITS = {"": 1.0, "us": 0.001, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 36e5, "d": 864e5}
_FIXED = {
    "timezone": ("UTC", ("utc", "z", "zulu", "gmt", "etc/utc", "universal", "local", "0", "+00", "+00:00")),
    "client_encoding": ("UTF8", ("utf8", "utf-8", "unicode")),
    "datestyle": ("ISO, MDY", ("iso, mdy", "iso,mdy", "iso")),
    "intervalstyle": ("postgres", ("postgres",)),
    "standard_conforming_strings": ("on", ("on", "true", "1")),
}
"""Settings with one value: how SHOW prints it, and its spellings."""
_HINTS = {"timezone": "for another zone write: at AT TIME ZONE 'Europe/Berlin'"}
_SCHEMAS = ("$user", "public", "pg_catalog")


def is_postgres_setting(name: str) -> bool:
    """Whether a setting is one of PostgreSQL's."""
    return name.lower() in (*_FIXED, STATEMENT_TIMEOUT, SEARCH_PATH)


def set_postgres_setting(context: Context, name: str, value: object) -> None:
    """SET and, with None, RESET."""
    name = name.lower()
    if name == STATEMENT_TIMEOUT:
        context.set(_TIMEOUT_KNOB, None if value is None else milliseconds_of(value))
    elif name == SEARCH_PATH:
        _check_path(value)
    elif value is not None and str(value).lower() not in _FIXED[name][1]:
        raise SettingError(
            f"{name} cannot be {str(value)[:60]!r}: it is always {_FIXED[name][0]}", hint=_HINTS.get(name)
        )


def show_postgres_setting(context: Context, name: str) -> str:
    """The value of a setting as PostgreSQL prints it."""
    name = name.lower()
    if name == STATEMENT_TIMEOUT:
        return duration_text(context.config.statement_timeout_ms)
    return '"$user", public' if name == SEARCH_PATH else _FIXED[name][0]


def all_postgres_settings(context: Context) -> dict[str, tuple[str, str]]:
    """All of PostgreSQL's settings with their values and defaults."""
    default = context.with_config(Config())
    return {
        name: (show_postgres_setting(context, name), show_postgres_setting(default, name))
        for name in (*_FIXED, STATEMENT_TIMEOUT, SEARCH_PATH)
    }


def _check_path(value: object) -> None:
    given = (
        ()
        if value is None
        else value
        if isinstance(value, Sequence) and not isinstance(value, str)
        else (value,)
    )
    names = [name.strip().strip('"') for one in given for name in str(one).split(",")]
    unknown = [name for name in names if name not in _SCHEMAS]
    if unknown:
        raise SettingError(
            f'there is no schema "{unknown[0]}"', hint="all collections are in the schema public"
        )


def milliseconds_of(value: object) -> int:
    """A duration as PostgreSQL's settings spell it, in milliseconds: 5000, '5s', '1min'."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*", str(value), re.ASCII)
    if match is None:
        raise SettingError(f"{str(value)[:60]!r} is not a duration", hint="write 5000, '5s' or '1min'")
    return round(float(match[1]) * _UNITS[match[2] or ""])


def duration_text(ms: int) -> str:
    """Milliseconds in the greatest unit that divides them: 90000 is 90s, 60000 is 1min."""
    if ms == 0:
        return "0"
    unit = next(name for name in ("d", "h", "min", "s", "ms") if ms % _UNITS[name] == 0)
    return f"{ms // int(_UNITS[unit])}{unit}"
