"""What JSON values may be: a lane for each JSON type, all of them at once.

A JSON column mixes types: one row holds a number under a key, the next a string, a third lacks the key. So a
description keeps every lane by itself: whether JSON null, true, false may occur, the range of the numbers,
the range of the strings, whether lists occur, and for maps a Specs for each known key.
`(payload->'ts')::numeric` then knows the range of the numbers even where some rows hold strings (and knows
that those fail the cast).

A key's Specs is of type jsonb; its `null` flag says that the key may be absent. A key that is not listed is
absent for sure where `closed` holds, and may be anything elsewhere.

>>> lanes = Lanes.of_documents([['{"a": 1}', '{"a": "x", "b": 2}'], ['7']])
>>> lanes.map.tolist(), lanes.number.some.tolist()
([True, False], [False, True])
>>> a = lanes.keys["a"].lanes
>>> a.number.some.tolist(), a.text.some.tolist(), lanes.keys["b"].null.tolist()
([True, False], [True, False], [True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import exact_json, order
from tidegate.expr.exact_json import BadJson, Json
from tidegate.expr.outcome import spread
from tidegate.expr.specs import NO, YES, Specs
from tidegate.expr.types import JSONB, NUMERIC, Kind, Type

_LIMIT = Decimal(10) ** 20
_SCALE = Decimal(1).scaleb(-18)


@dataclass(frozen=True, eq=False)
class Range:
    """Values of one JSON type: whether any occur, and between which bounds (null or None: unbounded)."""

    some: np.ndarray = field(default_factory=lambda: NO)
    low: pa.Array | None = None
    high: pa.Array | None = None
    whole: np.ndarray = field(default_factory=lambda: NO)
    """Numbers: where none has a fraction, so that `(payload->>'ts')::int8` cannot fail by that."""

    def union(self, other: Range) -> Range:
        """Values of one or the other; where a side has none, its bounds do not count."""
        if not other.some.any() or not self.some.any():
            return self if self.some.any() else other
        low = _outer(self.low, other.low, self.some, other.some, order.smaller)
        high = _outer(self.high, other.high, self.some, other.some, order.greater)
        whole = (self.whole | ~self.some) & (other.whole | ~other.some)
        return Range(self.some | other.some, low, high, whole)

    def has(self, value: pa.Scalar) -> np.ndarray:
        """Where `value` may be among them."""
        result = self.some
        for bound, fits in ((self.low, pc.less_equal), (self.high, pc.greater_equal)):
            if bound is not None:
                result = result & pc.fill_null(fits(bound, value), True).to_numpy(zero_copy_only=False)
        return result


def _outer(
    a: pa.Array | None, b: pa.Array | None, some_a: np.ndarray, some_b: np.ndarray,
    pick: Callable[[pa.Array, pa.Array], pa.Array],
) -> pa.Array | None:  # fmt: skip
    type_ = a.type if a is not None else b.type if b is not None else None
    if type_ is None:
        return None
    x, y = (pa.nulls(1, type_) if bound is None else bound for bound in (a, b))
    n = max(len(x), len(y), len(some_a), len(some_b))
    x, y = (spread(bound[0], n) if len(bound) == 1 else bound for bound in (x, y))
    both = pick(x, y)
    for some, other in ((some_a, y), (some_b, x)):
        if not some.all():
            both = pc.if_else(pa.array(np.broadcast_to(some, n)), both, other)
    return both


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
    def anything() -> Lanes:
        """Any JSON value in every container."""
        return Lanes(YES, YES, YES, Range(YES), Range(YES), YES, YES, {}, NO)

    @staticmethod
    def of_literal(document: str) -> Lanes:
        """The lanes of exactly this JSON value; anything, if it is nested too deeply to be looked at."""
        try:
            return Lanes.of_documents([[document]])
        except (BadJson, RecursionError):
            return Lanes.anything()

    @staticmethod
    def of_documents(containers: Sequence[Sequence[str]]) -> Lanes:
        """The lanes of containers with just these documents: a loop, for constants and tests."""
        return _lanes([[exact_json.decode(text) for text in container] for container in containers])

    def key(self, name: str) -> Specs:
        """What maps hold under a key: `null` where it may be absent, `empty` where it surely is."""
        found = self.keys.get(name)
        if found is None:
            return Specs.ranged(JSONB, None, None, null=YES, empty=self.closed, lanes=Lanes.anything())
        return found if found.lanes is not None else replace(found, lanes=Lanes.anything())

    def no_map(self) -> np.ndarray:
        """Where something else than maps may occur."""
        other: np.ndarray = self.null | self.list | self.scalar()
        return other

    def scalar(self) -> np.ndarray:
        """Where a boolean, a number or a string may occur."""
        some: np.ndarray = self.true | self.false | self.number.some | self.text.some
        return some

    def union(self, other: Lanes, empty: np.ndarray, other_empty: np.ndarray) -> Lanes:
        """What is one or the other. A key of one side only is unknown where the other has open maps."""
        a, b = self._without(empty), other._without(other_empty)
        keys = {name: a._held(name).union(b._held(name)) for name in {**a.keys, **b.keys}}
        return Lanes(
            a.null | b.null, a.true | b.true, a.false | b.false, a.number.union(b.number),
            a.text.union(b.text), a.list | b.list, a.map | b.map, keys, (a.closed | ~a.map) & (b.closed |
            ~b.map),
        )  # fmt: skip

    def _without(self, empty: np.ndarray) -> Lanes:
        """The same, with nothing in the containers of a mask."""
        if not empty.any():
            return self
        some = ~empty
        number, text = (
            replace(self.number, some=self.number.some & some),
            replace(self.text, some=self.text.some & some),
        )
        return replace(
            self, null=self.null & some, true=self.true & some, false=self.false & some, number=number,
            text=text, list=self.list & some, map=self.map & some,
        )  # fmt: skip

    def _held(self, name: str) -> Specs:
        """What maps hold under a key; nothing at all, not even its absence, where there are no maps."""
        found = self.key(name)
        return replace(found, null=found.null & self.map, empty=found.empty | ~self.map)

    def admits(self, values: pa.Array, type_: Type) -> np.ndarray:
        """Whether JSON document i (or, for type text, what `->>` makes of it) is covered in container i.

        This is what soundness laws ask; it looks at one document after the other.
        """
        result = np.ones(len(values), bool)
        for i, text in enumerate(values.to_pylist()):
            if text is not None:
                meant = [exact_json.decode(text)] if type_.kind is Kind.JSONB else _meant(text)
                result[i] = any(self._allows(value, i) for value in meant)
        return result

    def _allows(self, value: Json, i: int) -> bool:
        if isinstance(value, dict):
            known = all(self._allows_key(name, value, i) for name in self.keys)
            return (
                known and _at(self.map, i) and (not _at(self.closed, i) or value.keys() <= self.keys.keys())
            )
        if isinstance(value, str):
            return _within(self.text, value, i)
        if isinstance(value, Decimal):
            fits = not _at(self.number.whole, i) or value == value.to_integral_value()
            return fits and _within(self.number, value, i)
        if isinstance(value, list):
            return _at(self.list, i)
        return _at(self.null if value is None else self.true if value else self.false, i)

    def _allows_key(self, name: str, document: dict[str, Json], i: int) -> bool:
        specs = self.key(name)
        if name not in document:
            return _at(specs.null, i)
        lanes = specs.lanes
        inside = _within(Range(YES, specs.low, specs.high), exact_json.encode(document[name]), i)
        return inside and not _at(specs.empty, i) and lanes is not None and lanes._allows(document[name], i)


def specs_of_documents(containers: Sequence[Sequence[str | None]]) -> Specs:
    """A jsonb column whose containers hold just these documents (None: NULL), as statistics describe it."""
    null = np.array([None in documents for documents in containers], bool)
    present = [[text for text in documents if text is not None] for documents in containers]
    empty = np.array([not documents for documents in present], bool)
    return Specs.ranged(JSONB, None, None, null=null, empty=empty, lanes=Lanes.of_documents(present))


def _lanes(containers: Sequence[Sequence[Json]]) -> Lanes:
    names = dict.fromkeys(
        name for values in containers for value in values if isinstance(value, dict) for name in value
    )
    return Lanes(
        null=_any(containers, lambda v: v is None),
        true=_any(containers, lambda v: v is True),
        false=_any(containers, lambda v: v is False),
        number=_number_range(containers),
        text=_text_range(containers),
        list=_any(containers, lambda v: isinstance(v, list)),
        map=_any(containers, lambda v: isinstance(v, dict)),
        keys={name: _key(containers, name) for name in names},
    )


def _key(containers: Sequence[Sequence[Json]], name: str) -> Specs:
    held = [[v[name] for v in values if isinstance(v, dict) and name in v] for values in containers]
    absent = _any(containers, lambda v: isinstance(v, dict) and name not in v)
    empty = np.array([not values for values in held], bool)
    return Specs.ranged(JSONB, None, None, null=absent, empty=empty, lanes=_lanes(held))


def _any(containers: Sequence[Sequence[Json]], test: Callable[[Json], bool]) -> np.ndarray:
    return np.array([any(map(test, values)) for values in containers], bool)


def _number_range(containers: Sequence[Sequence[Json]]) -> Range:
    numbers = [[v for v in values if isinstance(v, Decimal)] for values in containers]
    low = [_outward(min(values), ROUND_FLOOR) if values else None for values in numbers]
    high = [_outward(max(values), ROUND_CEILING) if values else None for values in numbers]
    return Range(
        np.array([bool(v) for v in numbers], bool),
        pa.array(low, NUMERIC.arrow),
        pa.array(high, NUMERIC.arrow),
        np.array([all(v == v.to_integral_value() for v in values) for values in numbers], bool),
    )


def _text_range(containers: Sequence[Sequence[Json]]) -> Range:
    texts = [[v for v in values if isinstance(v, str)] for values in containers]
    low = [min(values, default=None) for values in texts]
    high = [max(values, default=None) for values in texts]
    return Range(
        np.array([bool(v) for v in texts], bool), pa.array(low, pa.string()), pa.array(high, pa.string())
    )


def _outward(number: Decimal, rounding: str) -> Decimal | None:
    """A bound as numeric(38, 18), or None beyond what that holds."""
    if abs(number) >= _LIMIT:
        return None
    bound = number.quantize(_SCALE, rounding=rounding, context=Context(prec=60))
    return bound if abs(bound) < _LIMIT else None


def _at(flags: np.ndarray, i: int) -> bool:
    return bool(flags[i if len(flags) > 1 else 0])


def _within(values: Range, value: Decimal | str, i: int) -> bool:
    low, high = (None if b is None else b[i if len(b) > 1 else 0].as_py() for b in (values.low, values.high))
    return _at(values.some, i) and (low is None or low <= value) and (high is None or value <= high)


def _meant(text: str) -> list[Json]:
    """The JSON values of which `->>` makes this text: itself as a string, and maybe what it spells."""
    try:
        value = exact_json.decode(text)
    except BadJson:
        return [text]
    return (
        [text]
        if value is None or isinstance(value, str) or exact_json.encode(value) != text
        else [text, value]
    )
