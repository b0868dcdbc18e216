"""The possible values of JSON in each container, by JSON type.

A JSON column mixes types: one row holds a number under a key, the next a string, a third lacks the key. So the description keeps
each type apart: whether JSON null, true and false may occur, the range of the numbers, the range of the strings, whether lists
occur, and for maps a Specs for each known key. `(payload->'ts')::numeric` then knows the range of the numbers even where some
rows hold strings (and knows that those fail the cast).

A key's Specs is of type jsonb; its `null` flag means that the key may be absent. A key that is not listed is certainly absent
where `closed` holds, and may be anything elsewhere.

>>> domain = JsonDomain.of_literal('{"a": 1, "b": "x"}')
>>> domain.map.tolist(), domain.number.present.tolist()
([True], [False])
>>> domain.keys["a"].json.number.low.to_pylist()
[Decimal('1.000000000000000000')]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.model import order
from tidegate.expr.model.outcome import spread
from tidegate.expr.model.types import JSONB, NUMERIC
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import InvalidJson, Json

_LIMIT = Decimal(10) ** 20
_SCALE = Decimal(1).scaleb(-18)


@dataclass(frozen=True, eq=False)
class JsonRange:
    """Values of one JSON type: whether any occur, and their bounds (null or None: unbounded)."""

    present: np.ndarray = field(default_factory=lambda: NO)
    low: pa.Array | None = None
    high: pa.Array | None = None
    whole: np.ndarray = field(default_factory=lambda: NO)
    """Numbers: where none has a fraction, so that `(payload->>'ts')::int8` does not fail for that reason."""

    def union(self, other: JsonRange) -> JsonRange:
        """Values of either range; where one has none, its bounds do not count."""
        if not other.present.any() or not self.present.any():
            return self if self.present.any() else other
        low = _outer(self.low, other.low, self.present, other.present, order.smaller)
        high = _outer(self.high, other.high, self.present, other.present, order.greater)
        whole = (self.whole | ~self.present) & (other.whole | ~other.present)
        return JsonRange(self.present | other.present, low, high, whole)

    def has(self, value: pa.Scalar) -> np.ndarray:
        """Where `value` may occur."""
        result = self.present
        for bound, fits in ((self.low, pc.less_equal), (self.high, pc.greater_equal)):
            if bound is not None:
                result = result & pc.fill_null(fits(bound, value), True).to_numpy(zero_copy_only=False)
        return result


def _outer(
    a: pa.Array | None, b: pa.Array | None, present_a: np.ndarray, present_b: np.ndarray,
    pick: Callable[[pa.Array, pa.Array], pa.Array],
) -> pa.Array | None:  # fmt: skip
    type_ = a.type if a is not None else b.type if b is not None else None
    if type_ is None:
        return None
    x, y = (pa.nulls(1, type_) if bound is None else bound for bound in (a, b))
    n = max(len(x), len(y), len(present_a), len(present_b))
    x, y = (spread(bound[0], n) if len(bound) == 1 else bound for bound in (x, y))
    both = pick(x, y)
    for present, other in ((present_a, y), (present_b, x)):
        if not present.all():
            both = pc.if_else(pa.array(np.broadcast_to(present, n)), both, other)
    return both


@dataclass(frozen=True, eq=False)
class JsonDomain:
    """The JSON types that may occur in each container, and the values of each."""

    null: np.ndarray = field(default_factory=lambda: NO)
    true: np.ndarray = field(default_factory=lambda: NO)
    false: np.ndarray = field(default_factory=lambda: NO)
    number: JsonRange = field(default_factory=JsonRange)
    """Bounds are numeric(38, 18), rounded outwards; a number beyond that range leaves its side unbounded."""
    text: JsonRange = field(default_factory=JsonRange)
    list: np.ndarray = field(default_factory=lambda: NO)
    map: np.ndarray = field(default_factory=lambda: NO)
    keys: dict[str, Specs] = field(default_factory=dict)
    closed: np.ndarray = field(default_factory=lambda: YES)
    """Where no map has keys beyond those listed."""

    @staticmethod
    def anything() -> JsonDomain:
        """Any JSON value in every container."""
        return JsonDomain(YES, YES, YES, JsonRange(YES), JsonRange(YES), YES, YES, {}, NO)

    @staticmethod
    def of_literal(document: str) -> JsonDomain:
        """The domain of exactly this JSON value; anything, if it is nested too deeply to decode."""
        try:
            return _of_value(exact_json.decode(document))
        except (InvalidJson, RecursionError):
            return JsonDomain.anything()

    def key(self, name: str) -> Specs:
        """The values of a key in maps: `null` where it may be absent, `empty` where it certainly is."""
        specs = self.keys.get(name)
        if specs is None:
            return Specs.ranged(JSONB, None, None, null=YES, empty=self.closed, json=JsonDomain.anything())
        return specs if specs.json is not None else replace(specs, json=JsonDomain.anything())

    def not_map(self) -> np.ndarray:
        """Where anything but a map may occur."""
        other: np.ndarray = self.null | self.list | self.scalar()
        return other

    def scalar(self) -> np.ndarray:
        """Where a boolean, a number or a string may occur."""
        result: np.ndarray = self.true | self.false | self.number.present | self.text.present
        return result

    def union(self, other: JsonDomain, empty: np.ndarray, other_empty: np.ndarray) -> JsonDomain:
        """Values of either domain. A key of one side only is unknown where the other has open maps."""
        a, b = self._without(empty), other._without(other_empty)
        keys = {name: a._key_in_maps(name).union(b._key_in_maps(name)) for name in {**a.keys, **b.keys}}
        return JsonDomain(
            a.null | b.null, a.true | b.true, a.false | b.false, a.number.union(b.number),
            a.text.union(b.text), a.list | b.list, a.map | b.map, keys, (a.closed | ~a.map) & (b.closed |
            ~b.map),
        )  # fmt: skip

    def _without(self, empty: np.ndarray) -> JsonDomain:
        """This domain with no values in the containers of a mask."""
        if not empty.any():
            return self
        present = ~empty
        number, text = (
            replace(self.number, present=self.number.present & present),
            replace(self.text, present=self.text.present & present),
        )
        return replace(
            self, null=self.null & present, true=self.true & present, false=self.false & present, number=number,
            text=text, list=self.list & present, map=self.map & present,
        )  # fmt: skip

    def _key_in_maps(self, name: str) -> Specs:
        """The values of a key; nothing at all, not even its absence, where there are no maps."""
        specs = self.key(name)
        return replace(specs, null=specs.null & self.map, empty=specs.empty | ~self.map)


def _of_value(value: Json) -> JsonDomain:
    match value:
        case str():
            text = pa.array([value], pa.string())
            return JsonDomain(text=JsonRange(YES, text, text))
        case dict():
            return JsonDomain(map=YES, keys={name: _of_key(inside) for name, inside in value.items()})
        case list():
            return JsonDomain(list=YES)
        case None:
            return JsonDomain(null=YES)
        case bool():
            return JsonDomain(true=YES) if value else JsonDomain(false=YES)
        case _:
            low, high = (
                pa.array([round_bound(value, side)], NUMERIC.arrow) for side in (ROUND_FLOOR, ROUND_CEILING)
            )
            return JsonDomain(
                number=JsonRange(YES, low, high, np.array([value == value.to_integral_value()]))
            )


def _of_key(value: Json) -> Specs:
    return Specs.ranged(JSONB, None, None, json=_of_value(value))


def round_bound(number: Decimal, rounding: str) -> Decimal | None:
    """A bound rounded outwards to numeric(38, 18), or None where that type cannot hold it."""
    if abs(number) >= _LIMIT:
        return None
    bound = number.quantize(_SCALE, rounding=rounding, context=Context(prec=60))
    return bound if abs(bound) < _LIMIT else None
