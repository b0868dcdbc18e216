"""Frames of window functions as Spark SQL.

| frame | in Spark |
|---|---|
| RANGE with a distance of numbers | key and distance as decimals or doubles, in which their sum does not overflow |
| RANGE with an interval | key as a timestamp in UTC, distance as a calendar interval |
| a frame that ends before it starts | none: Spark refuses it, and its rows are none |

GROUPS and EXCLUDE, which Spark does not have, are written otherwise before (`window_rewrite.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.expr.model import Kind, Literal, Type, order
from tidegate.plan import logical, window_frame

MAX_ROWS = (1 << 31) - 1
"""The largest number of rows in a frame's end; no partition has more."""


def frame_sql(frame: window_frame.FrameSpec, keys: Sequence[logical.SortKey]) -> str:
    """Returns a frame without GROUPS and EXCLUDE."""
    if frame.unit == "rows":
        return frame.sql(lambda distance: str(min(distance.value.as_py(), MAX_ROWS)))
    if not frame.has_distance:
        return frame.sql(str)
    key = keys[0].value.type
    return frame.sql(lambda distance: _distance(distance, key, frame))


def distance_key(key: Type, text: str, frame: window_frame.FrameSpec) -> str:
    """Returns a sort key to which a distance can be added."""
    return f"CAST({text} AS {_type(key, frame)})"


def _type(key: Type, frame: window_frame.FrameSpec) -> str:
    if key.is_integer or key.kind is Kind.TIME:
        return "DECIMAL(20,0)"
    if key.kind is Kind.NUMERIC:
        ends = [end.distance.type for end in (frame.first, frame.last) if end.distance is not None]
        return f"DECIMAL(38,{max(type_.scale or 0 for type_ in (key, *ends))})"
    return "DOUBLE" if key.is_float else "TIMESTAMP"


def _distance(distance: Literal, key: Type, frame: window_frame.FrameSpec) -> str:
    if distance.type.kind is not Kind.INTERVAL:
        return f"CAST('{distance.value.as_py()}' AS {_type(key, frame)})"
    months, days, nanos = distance.value.as_py()
    if key.kind is Kind.TIME:  # of an interval that is added to a time, only its hours count
        return f"CAST({nanos // 1000} AS {_type(key, frame)})"
    return f"CAST('{months} months {days} days {nanos // 1000} microseconds' AS INTERVAL)"


def is_empty(frame: window_frame.FrameSpec) -> bool:
    """Whether a frame ends before it starts: 2 FOLLOWING to 1 FOLLOWING."""
    first, last = frame.first, frame.last
    if first.way != last.way or first.distance is None or last.distance is None:
        return False
    near, far = (
        (first.distance, last.distance) if first.way == "following" else (last.distance, first.distance)
    )
    return bool(_size(near) > _size(far))


def _size(distance: Literal) -> Any:
    value = distance.value
    return (order.interval_key(value) if distance.type.kind is Kind.INTERVAL else value).as_py()
