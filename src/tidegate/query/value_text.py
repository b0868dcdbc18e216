"""Values as text and as JSON, for the screen, for exports and for web pages."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from typing import Any


def json_value(value: Any, kind: str) -> Any:
    """A value as JSON has it."""
    if isinstance(value, str) and kind == "jsonb":
        return json.loads(value)
    if isinstance(value, list):
        return [json_value(one, "") for one in value]
    if isinstance(value, dict):
        return {name: json_value(one, "") for name, one in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has neither NaN nor infinity
    return format_value(value)


def format_value(value: Any) -> str:
    """A value as PostgreSQL spells it."""
    match value:
        case None:
            return ""
        case bool():
            return "t" if value else "f"
        case bytes():
            return "\\x" + value.hex()
        case decimal.Decimal():
            return format(value, "f")
        case dt.datetime():
            shown = _without_last_zeros(value.isoformat(" "), value.microsecond)
            return shown.removesuffix(":00") if value.tzinfo else shown
        case dt.time():
            return _without_last_zeros(str(value), value.microsecond)
        case dt.date() | uuid.UUID():
            return str(value)
        case list() | dict():
            return json.dumps(json_value(value, ""), ensure_ascii=False)
        case tuple():
            return _interval(*value)
        case _:
            return str(value)


def _without_last_zeros(text: str, microseconds: int) -> str:
    """A time whose fraction ends at its last digit that is not 0: `03:04:05.5`, as in PostgreSQL."""
    fraction = f".{microseconds:06d}"
    return text.replace(fraction, fraction.rstrip("0"), 1) if microseconds else text


def _interval(months: int, days: int, microseconds: int) -> str:
    years, months = divmod(abs(months), 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    words = [
        f"{count} {unit}{'' if count == 1 else 's'}"
        for count, unit in ((years, "year"), (months, "mon"), (days, "day"))
        if count
    ]
    if microseconds or not words:
        minus, left = "-" if microseconds < 0 else "", abs(microseconds)
        seconds, fraction = divmod(left, 1_000_000)
        clock = f"{minus}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        words.append(clock + (f".{fraction:06d}".rstrip("0") if fraction else ""))
    return " ".join(words)
