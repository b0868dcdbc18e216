"""Checks times against the clock: a time far ahead is refused, with a guess at the cause.

    check_time(at, now, config, "append")      a time that a caller passes: if it is years ahead, it is probably in another unit
    check_upper(upper, now, config, "append")  a collection that is complete up to a time far ahead
    resolve_now(wall, states, config, temporal)    the value of `mz_now()`

The `upper` of a collection only rises. If rows were accepted at a time a year ahead, everything later would have to be written
after it, and `mz_now()`, which is never below `upper - 1`, would be a year ahead for every temporal filter, which then finds
nothing. So a time may be at most `max_ahead_ms` ahead of the clock of the machine that writes it. If such a time was written
nevertheless (by an older version, or by a machine whose clock was wrong), `repair.py` gives those rows a time of now.

| the time | multiplied by a power of 1000 it is near the clock | the guess |
|---|---|---|
| 1_794_954_215_000_000 | / 1000 | microseconds |
| 1_794_954_215_000_000_000 | / 1000000 | nanoseconds |
| 1_794_954_215 | × 1000 | seconds |
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from tidegate.config import Config
from tidegate.errors import TimeError
from tidegate.storage.shard.state import State

_UNITS = (("microseconds", 1_000), ("nanoseconds", 1_000_000))
_NEAR = 2
"""A time within this factor of the clock in some unit is probably in that unit: 1998 to 2082, in 2026."""


def check_time(at: int, now: int, config: Config, verb: str) -> None:
    """Raises if a time is too far ahead of the clock."""
    if not _is_ahead(at, now, config.max_ahead_ms):
        return
    hint = unit_of(at, now) or "set max_ahead_ms higher, if such times are meant"
    raise TimeError(f"cannot {verb} at {at}: that is {_ahead(at, now)}", hint=hint)


def check_upper(upper: int, now: int, config: Config, verb: str) -> None:
    """Raises if a collection is complete up to a time so far ahead that it, or the clock, must be wrong."""
    # Twice the bound for a given time: a write after a time that was just allowed must not be refused.
    if not _is_ahead(upper, now, 2 * config.max_ahead_ms):
        return
    raise TimeError(
        f"cannot {verb}: the collection is complete up to {upper}, which is {_ahead(upper, now)}",
        hint="if the clock is behind, set it right; if rows were written with a wrong time, db.repair(name) or "
        "`tidegate repair name` gives them a time of now (AS OF an earlier time can be read meanwhile)",
    )


def resolve_now(wall: int, states: Iterable[State], config: Config, *, temporal: bool) -> int:
    """The value of `mz_now()` for a read of everything committed.

    For a `temporal` query it must not be far from the clock.
    """
    newest = max((state.upper - 1 for state in states), default=wall)
    if temporal:
        check_upper(newest, wall, config, "evaluate mz_now()")
    return max(wall, newest)


def unit_of(at: int, now: int) -> str | None:
    """A guess at the unit of a time that is far from the clock; None: no guess."""
    for unit, by in _UNITS:
        if _is_near(at // by, now):
            return f"it looks like {unit}, and times are milliseconds since 1970: divide it by {by}"
    if _is_near(at * 1000, now):
        return "it looks like seconds, and times are milliseconds since 1970: multiply it by 1000"
    return None


def _is_ahead(at: int, now: int, bound: int) -> bool:
    return bound > 0 and at > now + bound


def _is_near(at: int, now: int) -> bool:
    return now > 0 and now // _NEAR <= at <= now * _NEAR


def _ahead(at: int, now: int) -> str:
    """`365 days, 0:00:00 ahead of this machine's clock, 2026-11-17 22:03:35+00:00`."""
    try:
        length = str(timedelta(milliseconds=at - now))
    except OverflowError:
        length = f"{(at - now) // 31_557_600_000:,} years"
    try:
        clock = str(datetime.fromtimestamp(now / 1000, UTC).replace(microsecond=0))
    except (OverflowError, OSError, ValueError):
        clock = f"{now} ms"
    return f"{length} ahead of this machine's clock, {clock}"
