"""What JSON values may be: a lane for each JSON type, all of them at once.

A JSON column mixes types: one row holds a number under a key, the next a string, a third lacks the key. So a description
keeps every lane by itself: whether JSON null, true, false may occur, the range of the numbers, the range of the strings,
whether lists occur, and for maps a Specs for each known key. `(payload->'ts')::numeric` then knows the range of the numbers even
where some rows hold strings (and knows that those fail the cast).

A key's Specs is of type jsonb; its `null` flag says that the key may be absent. A key that is not listed is absent for sure where
`closed` holds, and may be anything elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.expr.specs import NO, YES, Specs
from tidegate.expr.types import Type


@dataclass(frozen=True, eq=False)
class Range:
    """Values of one JSON type: whether any occur, and between which bounds (null or None: unbounded)."""

    some: np.ndarray = field(default_factory=lambda: NO)
    low: pa.Array | None = None
    high: pa.Array | None = None


@dataclass(frozen=True, eq=False)
class Lanes:
    """The JSON types that may occur in each container, and what is known of each."""

    null: np.ndarray = field(default_factory=lambda: NO)
    true: np.ndarray = field(default_factory=lambda: NO)
    false: np.ndarray = field(default_factory=lambda: NO)
    number: Range = field(default_factory=Range)
    """Bounds are numeric(38, 18), rounded outwards; numbers beyond that range leave the side unbounded."""
    text: Range = field(default_factory=Range)
    list: np.ndarray = field(default_factory=lambda: NO)
    map: np.ndarray = field(default_factory=lambda: NO)
    keys: dict[str, Specs] = field(default_factory=dict)
    closed: np.ndarray = field(default_factory=lambda: YES)
    """Where no map has keys beyond those listed."""

    @staticmethod
    def of_literal(document: str) -> Lanes:
        """The lanes of exactly this JSON value."""
        raise NotImplementedError

    def union(self, other: Lanes, empty: np.ndarray, other_empty: np.ndarray) -> Lanes:
        """What is one or the other. A key known on one side only is unknown where the other side has open maps."""
        raise NotImplementedError

    def admits(self, values: pa.Array, type_: Type) -> np.ndarray:
        """Whether JSON document i (or, for type text, what `->>` makes of it) is covered in container i."""
        raise NotImplementedError
