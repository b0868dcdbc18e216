"""Settings: `SET name = value`, `db.set(name, value)` and SHOW, over the knobs of `config.py`.

changed(config, "stats_filter", "off")     another Config; strings are read as SQL writes them
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from tidegate.config import Config
from tidegate.errors import BindError

_WORDS = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def changed(config: Config, name: str, value: object) -> Config:
    """The config with one knob turned; None: to its default."""
    check(name)
    default = getattr(Config(), name)
    wanted = default if value is None else _as(type(default), value)
    if wanted is None or (not isinstance(wanted, bool) and wanted < 0):
        raise BindError(
            f"{name} cannot be {value!r}", hint=f"{Config.meanings()[name]}: such as {spelled(default)}"
        )
    turned: dict[str, Any] = {name: wanted}
    return replace(config, **turned)


def check(name: str) -> None:
    """Raises if there is no such knob."""
    known = [field.name for field in fields(Config)]
    if name not in known:
        close = get_close_matches(name, known, n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(known)}"
        raise BindError(f'there is no setting "{name}"', hint=hint)


def spelled(value: object) -> str:
    """A value as SHOW prints it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _as(kind: type, value: object) -> bool | int | float | None:
    """The value as one of the knob's type; None if it cannot be."""
    if kind is bool:
        if isinstance(value, bool):
            return value
        return _WORDS.get(
            str(value).lower(), {1: True, 0: False}.get(value) if isinstance(value, int) else None
        )
    if isinstance(value, bool):
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None
    if kind is float or number is None:
        return number
    return int(number) if math.isfinite(number) and number == int(number) else None
