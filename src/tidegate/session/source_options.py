"""WITH (…) of CREATE SOURCE: what every source knows, and what is left for its upstream.

| option | meaning |
|---|---|
| `MAX ERRORS 100` | bad rows after which the source stops |
| `BATCH ROWS`, `BATCH BYTES`, `BATCH FILES` | how much one batch may bring in |
| `RETENTION '30 days'` | how long past times can be asked for, of all its collections |
| `SPLIT` | the transform may be any query: what is more than rows one by one becomes a view over what is stored |

All others are the upstream's, which refuses those that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import BindError, Position
from tidegate.ingest.source import Limit
from tidegate.session.connection import checked
from tidegate.session.define import milliseconds
from tidegate.shard.state import RETENTION
from tidegate.sql.statement import Option

_LIMITS = {"batch rows": "rows", "batch bytes": "bytes", "batch files": "files"}
_RETENTION = ("retention", "retain history", "retain history for")


@dataclass(frozen=True)
class Asked:
    """What WITH says."""

    limit: Limit = field(default_factory=Limit)
    max_errors: int | None = None
    split: bool = False
    shard: dict[str, Any] = field(default_factory=dict)
    """Options of every shard."""
    more: dict[str, Any] = field(default_factory=dict)
    """For the upstream."""


def asked(options: tuple[Option, ...], sql: str) -> Asked:
    """What WITH says; a BindError if a value cannot be."""
    found = checked(options, sql)
    limits: dict[str, int] = {}
    shard: dict[str, Any] = {}
    max_errors, split = None, False
    for option in options:
        if option.name not in (*_LIMITS, *_RETENTION, "max errors", "split"):
            continue
        del found[option.name]
        if option.name in _LIMITS:
            limits[_LIMITS[option.name]] = _count(option, sql, lambda n: n > 0)
        elif option.name == "max errors":
            max_errors = _count(option, sql, lambda n: n >= 0)
        elif option.name == "split":
            split = _switch(option, sql)
        else:
            shard[RETENTION] = milliseconds(option, sql)
    return Asked(Limit(**limits), max_errors, split, shard, found)


def _count(option: Option, sql: str, fits: Callable[[int], bool]) -> int:
    value = option.value
    if isinstance(value, int) and not isinstance(value, bool) and fits(value):
        return value
    raise BindError(
        f"{option.name.upper()} cannot be {value!r}",
        hint="it is a number",
        position=Position(sql, *option.at),
    )


def _switch(option: Option, sql: str) -> bool:
    if isinstance(option.value, bool):
        return option.value
    raise BindError(
        f"{option.name.upper()} is TRUE or FALSE, and not {option.value!r}",
        position=Position(sql, *option.at),
    )
