r"""Errors of one statement of a text have their line and column in the whole text.

with placed_in("SELECT 1;\nSELECT nope", 9):
    db.sql("\nSELECT nope")            BindError: … line 2, column 8
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import Position, TidegateError


@contextmanager
def placed_in(text: str, start: int) -> Iterator[None]:
    """Moves the positions of errors in a statement, which begins at `start` of a text, to that text."""
    try:
        yield
    except TidegateError as error:
        at = error.position
        if at is not None and text.startswith(at.sql, start):
            error.position = Position(text, start + at.start, start + at.end)
        raise
