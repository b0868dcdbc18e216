r"""Bounds of text and bytea made short, so that they still are bounds.

A lower bound is cut at the end of a letter: what is cut off only made it greater. An upper bound that is
cut must grow again: it becomes the least text greater than all that begin with what is left
(`expr/domain/text_prefix.py`), or none where there is no such text.

>>> low_text("customer/0017", 10), high_text("customer/0017", 10)
('customer/0', 'customer/1')
>>> high_text("\U0010ffff" * 26, 100) is None, high_bytes(b"a\xff\xff", 2), high_bytes(b"\xff\xff", 1)
(True, b'b', None)
>>> high_text("\ud7ff\ud7ff", 3) == "\ue000"
True
"""

from __future__ import annotations

import re

from tidegate.expr.domain import successor

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
"""The form in which text sorts as time does: cut, it could no longer be read as a time at all."""


def low_text(text: str, size: int) -> str:
    """The longest beginning of at most `size` bytes."""
    raw = text.encode()
    return text if len(raw) <= size else raw[:size].decode(errors="ignore")


def high_text(text: str, size: int) -> str | None:
    """A text of at most `size` bytes that is no less; None if there is none."""
    if len(text.encode()) <= size:
        return text
    stem = low_text(text, size)
    while stem:
        bound = successor(stem)
        if bound is None or len(bound.encode()) <= size:
            return bound
        stem = stem[:-1]  # the next letter may take a byte more: U+0080 follows U+007F
    return None


def low_bytes(value: bytes, size: int) -> bytes:
    """The beginning of at most `size` bytes."""
    return value[:size]


def high_bytes(value: bytes, size: int) -> bytes | None:
    """At most `size` bytes that are no less; None if there are none."""
    if len(value) <= size:
        return value
    stem = value[:size].rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def shared_bytes(low: object, high: object) -> int:
    """How many bytes two texts, or two bytea, begin with in common; 0 for anything else."""
    a, b = (bound.encode() if isinstance(bound, str) else bound for bound in (low, high))
    if not isinstance(a, bytes) or not isinstance(b, bytes):
        return 0
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def shorter_texts(low: str | None, high: str | None) -> tuple[str | None, str | None]:
    """Both bounds cut behind the first letter in which they differ; ISO timestamps stay whole."""
    if low is None or high is None or (ISO.match(low) and ISO.match(high)):
        return low, high
    same = next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high))
    )
    if same == len(low) == len(high):
        return low, high  # one value: cut, it would no longer be known exactly
    low = low[: same + 1]
    return low, high_text(high, len(high[: same + 1].encode()))


def shorter_bytes(low: bytes | None, high: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Both bounds cut behind the first byte in which they differ."""
    if low is None or high is None or low == high:
        return low, high
    same = next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high))
    )
    return low[: same + 1], high_bytes(high, same + 1)
