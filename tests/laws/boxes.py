"""Boxes of arguments: what is known of a container (Specs), and rows that such a container may hold.

A pool is a few dozen values of a type, sorted by our own order, so that a range is a pair of positions i ≤ j
and an *interior* row is any position between. That is the whole trick: without interior rows (poison values,
by preference) a false claim about what happens between two ends is never seen.

    pool   -∞  -2.5  -0.0  0.0  5e-324  1.0  ∞        (NaN is kept beside: it lies outside of every range)
    range        i ─────────────────── j
    row                     k

A few hundred containers, each with one row (or one container with a few hundred rows), make one case of a
law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.laws.constants import constants
from tests.laws.json_oracle import domain_of_documents
from tests.laws.poison import corpus, mixed, not_nan, with_nulls
from tidegate.expr.domain.json_domain import JsonDomain
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.model import order
from tidegate.expr.model.outcome import to_bools
from tidegate.expr.model.types import Kind, Type

VARIANTS = 6
"""Pools made for each type; a case picks one. More would cost more time to sort than they add."""
POOL = 110
"""Values in a pool: about the largest corpus. Sorting compares all pairs."""


@dataclass(frozen=True)
class Pool:
    """Values of one type in our order; NaN apart."""

    values: pa.Array
    nans: pa.Array

    def __len__(self) -> int:
        return len(self.values)

    def spans(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n pairs of positions i <= j: points, narrow and wide ones, and such that reach the type's ends."""
        first = rng.integers(0, len(self), n)
        kind = rng.random(n)
        width = np.where(
            kind < 0.2, 0, np.where(kind < 0.5, rng.integers(0, 6, n), rng.integers(0, len(self), n))
        )
        first = np.where(kind > 0.8, 0, first)  # ∞ - ∞ needs two ranges that reach opposite ends
        last = np.where((kind > 0.7) & (kind < 0.9), len(self) - 1, first + width)
        return first, np.minimum(last, len(self) - 1)

    def between(self, rng: np.random.Generator, first: np.ndarray, last: np.ndarray, n: int) -> np.ndarray:
        """n positions with first <= k <= last, two of five at an end."""
        inside = rng.integers(first, last + 1, n)
        turn = rng.random(n)
        return np.where(turn < 0.2, first, np.where(turn < 0.4, last, inside))

    def take(self, at: np.ndarray) -> pa.Array:
        """The values at positions."""
        return self.values.take(pa.array(at))


def sorted_by_order(values: pa.Array) -> pa.Array:
    """Sorted by counting how many are less: slow, but it needs nothing except `order.less`."""
    m = len(values)
    left, right = (
        values.take(pa.array(np.repeat(np.arange(m), m))),
        values.take(pa.array(np.tile(np.arange(m), m))),
    )
    rank = to_bools(order.less(left, right)).reshape(m, m).sum(axis=0)
    return values.take(pa.array(np.argsort(rank, kind="stable")))


@lru_cache(None)
def pool(type_: Type, variant: int, topic: tuple[str, int] | None = None) -> Pool:
    """The pool of a type; for a topic (a function's name and the argument's position) one of values that mean
    something there.
    """
    rng = np.random.default_rng([variant, *map(ord, str(type_) + str(topic))])
    special = constants(topic, type_)
    fixed = corpus(type_) if special is None else special
    fixed = fixed.take(pa.array(rng.permutation(len(fixed))[: POOL - 20]))
    # Garbage is mixed in as text only: repeat('x', 10^9) would be a test of memory.
    more = POOL - len(fixed) if special is None else len(fixed) // 6 * (type_.kind is Kind.TEXT)
    values = pa.concat_arrays([fixed, mixed(type_, rng, more)])
    nans = values.filter(pc.is_nan(values)) if type_.is_float else values.slice(0, 0)
    plain = not_nan(values)
    return Pool(sorted_by_order(plain if len(plain) else not_nan(corpus(type_))), nans)


@dataclass(frozen=True)
class Box:
    """What is known of an argument, and rows that agree with it. A row that `failed` is null in `rows`."""

    specs: Specs
    rows: pa.Array
    failed: np.ndarray
    literal: pa.Scalar | None = None


def box(
    rng: np.random.Generator,
    type_: Type,
    n: int,
    topic: tuple[str, int] | None = None,
    containers: str = "many",
    errors: bool = True,
) -> Box:
    """A random box of n rows. `containers`: "many" (one a row), "one" (for all rows), or "literal"."""
    values = pool(type_, int(rng.integers(VARIANTS)), topic)
    if containers == "literal":
        return _literal(rng, type_, values, n)
    size = n if containers == "many" else 1
    first, last = values.spans(rng, size)
    rows = values.take(values.between(rng, first, last, n))
    noise = rng.choice([0.0, 0.5, 1.0])  # what may be NULL or fail says little else: most cases are quiet
    shares = {"null": 0.25, "error": 0.15, "nan": 0.3, "empty": 0.04}
    flags = {name: rng.random(size) < noise * share for name, share in shares.items()}
    flags["null"] |= flags["empty"]
    flags["error"] &= errors
    if type_.is_float and len(values.nans):
        spot = to_bools(pa.array((rng.random(n) < 0.3) & flags["nan"]))
        rows = pc.if_else(
            pa.array(spot), values.nans.take(pa.array(rng.integers(0, len(values.nans), n))), rows
        )
    failed = (rng.random(n) < 0.3) & flags["error"] & ~flags["empty"]
    null = ((rng.random(n) < 0.3) & flags["null"]) | flags["empty"] | failed
    rows = rows.take(pa.array(np.arange(n), mask=np.broadcast_to(null, n)))
    specs = describe(rng, type_, values.take(first), values.take(last), rows, flags, first == last, noise)
    return Box(specs, rows, np.broadcast_to(failed, n))


def describe(
    rng: np.random.Generator, type_: Type, low: pa.Array, high: pa.Array, rows: pa.Array, flags: dict[str,
    np.ndarray], point: np.ndarray,
    noise: float,
) -> Specs:  # fmt: skip
    """Specs that admit `rows`: bounds dropped here and there, exact where that is true, flags as given."""
    size = len(low)
    extra: dict[str, Any] = {}
    if type_.is_float:
        extra["nan"] = flags["nan"]
    if type_.kind is Kind.INTERVAL:
        extra["months"] = _months(rng, low, high, rows)
    if type_.kind is Kind.JSONB and rng.random() < 0.8:
        extra["json"] = _lanes(rng, low, high, rows)
    if type_.is_nested:
        extra |= _inside(rng, type_, rows, size)
    low, high = (with_nulls(rng, bound, 0.15 * noise) for bound in (low, high))
    exact = point & to_bools(low.is_valid()) & to_bools(high.is_valid()) & (rng.random(size) < 0.9)
    if type_.is_float:
        exact &= ~flags["nan"]
    given = {name: flags[name] for name in ("null", "error", "empty")}
    if type_.kind is Kind.BOOL:
        return Specs.ranged(type_, low, high, **given)
    return Specs.ranged(type_, low, high, exact=exact, **given, **extra)


def _literal(rng: np.random.Generator, type_: Type, values: Pool, n: int) -> Box:
    chosen = values.values[int(rng.integers(len(values)))]
    if len(values.nans) and rng.random() < 0.1:
        chosen = values.nans[0]
    if rng.random() < 0.05:
        chosen = pa.scalar(None, type_.arrow)
    return Box(Specs.literal(type_, chosen), pa.repeat(chosen, n), np.zeros(n, bool), chosen)


def _months(rng: np.random.Generator, low: pa.Array, high: pa.Array, rows: pa.Array) -> np.ndarray:
    """Where a row or a bound has months; elsewhere sometimes too. Bounds are values, so they have months only
    if some row may.
    """
    needed = (order.interval_parts(low)[0] != 0) | (order.interval_parts(high)[0] != 0)
    inside = order.interval_parts(rows)[0] != 0
    needed = needed | (inside if len(low) == len(rows) else inside.any())
    result: np.ndarray = needed | (rng.random(len(low)) < 0.2)
    return result


def _lanes(rng: np.random.Generator, low: pa.Array, high: pa.Array, rows: pa.Array) -> JsonDomain:
    """Lanes of containers that hold their row, their bounds, and what else a mixed column may hold; sometimes
    a key is forgotten.
    """
    if len(low) == len(rows):
        held = [
            [d for d in documents if d is not None]
            for documents in zip(*(a.to_pylist() for a in (low, high, rows)), strict=True)
        ]
    else:
        held = [rows.drop_null().to_pylist()]
    lanes = domain_of_documents(held)
    if lanes.keys and rng.random() < 0.3:
        forgotten = str(rng.choice(list(lanes.keys)))
        return replace(lanes, keys={k: v for k, v in lanes.keys.items() if k != forgotten}, closed=NO)
    return lanes


def _inside(rng: np.random.Generator, type_: Type, rows: pa.Array, size: int) -> dict[str, Any]:
    """Specs of the fields of records, or of the elements of arrays; half of the time nothing is known."""
    if rng.random() < 0.5:
        return {}
    if type_.element is not None:
        return {"element": around(rng, type_.element, rows.flatten(), 1)} if size == 1 else {}
    columns = [pc.struct_field(rows, [i]) for i in range(len(type_.fields))]
    return {"fields": tuple(around(rng, t, c, size) for (_, t), c in zip(type_.fields, columns, strict=True))}


def around(rng: np.random.Generator, type_: Type, rows: pa.Array, size: int) -> Specs:
    """Specs that admit given rows: one container each, or one for all of them (then without bounds)."""
    null = to_bools(rows.is_null()) if size != 1 else np.array([rows.null_count > 0])
    if size == 1 or len(rows) != size:
        return Specs.anything(type_, null=null if size == 1 else YES)
    other = mixed(type_, rng, size)
    low, high = order.smaller(rows, other), order.greater(rows, other)
    return Specs.ranged(type_, low, high, null=null | (rng.random(size) < 0.2), error=NO)


def triple(
    rng: np.random.Generator, type_: Type, n: int, topic: tuple[str, int] | None = None
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Three arrays a <= b <= c row by row, neither NULL nor NaN."""
    values = pool(type_, int(rng.integers(VARIANTS)), topic)
    first, last = values.spans(rng, n)
    return values.take(first), values.take(values.between(rng, first, last, n)), values.take(last)
