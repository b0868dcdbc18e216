"""Specs: what an expression may be in each of n containers (parts, row groups, pages) at once.

Abstract interpretation asks of a filter, knowing only the statistics of a part: can any row pass, can any row fail? For that
each expression gets a description that covers at least every outcome it can have there. For all containers at once:

| array | meaning in container i |
|---|---|
| `null[i]` | some row may give NULL |
| `error[i]` | some row may give an error |
| `empty[i]` | surely no row gives a value (all are NULL or errors); only ever concluded from counts |
| `low[i]`, `high[i]` | every value lies between, ends included; Arrow null: unbounded on that side |
| `exact[i]` | all values are one and the same value, `low[i]`, told apart by no function |
| `nan[i]` | floats: some value may be NaN; `low` and `high` speak of the others |
| `months[i]` | intervals: some value may have a months part, so that adding it is not monotone |

Booleans keep two flags, `true` and `false`, instead of bounds. JSON values have lanes (`lanes.py`), and the text that `->>`
makes of them keeps these lanes, so `(payload->>'ts')::numeric` still knows its numbers. Records keep a Specs per field and
arrays one for their elements.

Flags are numpy arrays and bounds Arrow arrays, all of length n, or of length 1 where one description holds for all containers
(a literal). `low > high` means that someone's statistics are broken: the bounds are then dropped, never read as *empty*.

>>> import pyarrow as pa
>>> from tidegate.expr.types import INT8
>>> x = Specs.ranged(INT8, pa.array([1, 5, None]), pa.array([3, 5, 9]))
>>> x.exact.tolist()
[False, True, False]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order
from tidegate.expr.outcome import Errors, spread
from tidegate.expr.types import BOOL, Kind, Type

if TYPE_CHECKING:
    from tidegate.expr.lanes import Lanes

YES = np.ones(1, bool)
NO = np.zeros(1, bool)


class Verdict(IntEnum):
    """What a filter does with a container."""

    NONE = 0
    """No row can pass and none can fail: it need not be fetched."""
    SOME = 1
    """Rows may pass, or may fail: it must be read and filtered."""
    ALL = 2
    """Every row passes and none fails: it need not be filtered."""


@dataclass(frozen=True, eq=False)
class Specs:
    """A description of an expression in n containers. Use the constructors; they keep the invariants."""

    type: Type
    null: np.ndarray
    error: np.ndarray
    empty: np.ndarray
    exact: np.ndarray
    low: pa.Array | None = None
    high: pa.Array | None = None
    true: np.ndarray | None = None
    false: np.ndarray | None = None
    nan: np.ndarray | None = None
    months: np.ndarray | None = None
    lanes: Lanes | None = None
    fields: tuple[Specs, ...] | None = None
    element: Specs | None = None

    @staticmethod
    def anything(
        type_: Type, *, null: np.ndarray = YES, error: np.ndarray = NO, empty: np.ndarray = NO
    ) -> Specs:
        """Any value of the type."""
        if type_.kind is Kind.BOOL:
            return Specs.boolean(~empty, ~empty, null, error)
        return Specs.ranged(type_, None, None, null=null, error=error, empty=empty)

    @staticmethod
    def unknown(type_: Type) -> Specs:
        """Anything at all, errors included: what is said of a function that claims nothing."""
        return Specs.anything(type_, error=YES)

    @staticmethod
    def boolean(true: np.ndarray, false: np.ndarray, null: np.ndarray = NO, error: np.ndarray = NO) -> Specs:
        """A condition that may be true, false, null or an error where the flags say so."""
        return Specs(BOOL, null, error, ~(true | false), true ^ false, true=true, false=false)

    @staticmethod
    def ranged(
        type_: Type,
        low: pa.Array | None,
        high: pa.Array | None,
        *,
        null: np.ndarray = NO,
        error: np.ndarray = NO,
        empty: np.ndarray = NO,
        exact: np.ndarray | None = None,
        nan: np.ndarray | None = None,
        months: np.ndarray | None = None,
        **nested: Any,
    ) -> Specs:
        """Values between bounds. `exact`, when left out, is concluded from equal bounds where that is sound."""
        if type_.kind is Kind.BOOL:
            return _boolean_from_bounds(low, high, null, error, empty)
        low, high = _ordered(type_, low, high)
        if type_.is_float and nan is None:
            nan = YES
        if type_.kind is Kind.INTERVAL and months is None:
            months = YES
        if exact is None:
            exact = _pinned(type_, low, high)
        return Specs(type_, null, error, empty, exact, low, high, nan=nan, months=months, **nested)

    @staticmethod
    def literal(type_: Type, value: pa.Scalar) -> Specs:
        """Exactly this value, or NULL, in every container."""
        if not value.is_valid:
            return Specs.anything(type_, null=YES, empty=YES)
        if type_.kind is Kind.BOOL:
            flag = np.array([value.as_py()])
            return Specs.boolean(flag, ~flag)
        bound = spread(value, 1)
        if type_.is_float and pc.is_nan(value).as_py():
            return Specs.ranged(type_, None, None, nan=YES, exact=NO)
        months = np.array([value.as_py().months != 0]) if type_.kind is Kind.INTERVAL else None
        nan = NO if type_.is_float else None
        if type_.kind is Kind.JSONB:
            from tidegate.expr.lanes import Lanes

            return Specs.ranged(type_, bound, bound, exact=YES, lanes=Lanes.of_literal(value.as_py()))
        return Specs.ranged(type_, bound, bound, exact=YES, nan=nan, months=months)

    @property
    def size(self) -> int:
        """How many containers, 1 when one description serves for all."""
        sizes = [len(self.null), len(self.error), len(self.empty), len(self.exact)]
        if self.low is not None:
            sizes.append(len(self.low))
        if self.high is not None:
            sizes.append(len(self.high))
        if self.true is not None and self.false is not None:
            sizes += [len(self.true), len(self.false)]
        if self.nan is not None:
            sizes.append(len(self.nan))
        return max(sizes)

    def bounds(self) -> tuple[pa.Array, pa.Array]:
        """Low and high as Arrow arrays of length `size` or 1, null where unbounded; for booleans too."""
        if self.true is not None and self.false is not None:
            true, false = np.broadcast_arrays(self.true, self.false)
            return pa.array(~false, mask=~(true | false)), pa.array(true, mask=~(true | false))
        missing = pa.nulls(1, self.type.arrow)
        return (missing if self.low is None else self.low), (missing if self.high is None else self.high)

    def never_has_months(self) -> np.ndarray:
        """Intervals: where no value has a months part."""
        return NO if self.months is None else ~self.months

    def never_infinite(self) -> np.ndarray:
        """Floats: where both bounds are known and finite. Infinities turn into NaN in the middle of a box: ∞ * 0."""
        low, high = self.bounds()
        finite = pc.and_(pc.is_finite(low), pc.is_finite(high))
        return to_bools(finite)

    def may_fail(self, mask: np.ndarray = YES) -> Specs:
        """The same, with errors possible where `mask` holds."""
        return replace(self, error=self.error | mask)

    def may_be_null(self, mask: np.ndarray = YES) -> Specs:
        """The same, with NULL possible where `mask` holds."""
        return replace(self, null=self.null | mask)

    def verdict(self) -> np.ndarray:
        """Of a condition: a `Verdict` for each container, as int8."""
        assert self.true is not None
        assert self.false is not None
        kept = self.true | self.error
        every = self.true & ~(self.false | self.null | self.error)
        # NONE, SOME, ALL are 0, 1, 2: one for what is kept, and one more where every row passes.
        return np.asarray(kept.astype(np.int8) + every.astype(np.int8))

    def union(self, other: Specs) -> Specs:
        """What is one or the other: for the branches of CASE."""
        null, error = self.null | other.null, self.error | other.error
        if self.true is not None and other.true is not None:
            assert self.false is not None
            assert other.false is not None
            return Specs.boolean(self.true | other.true, self.false | other.false, null, error)
        return _union(self, other, null, error)

    def admits(self, values: pa.Array, errors: Errors = None) -> np.ndarray:
        """Whether outcome i is one that container i's description covers. What every soundness law asserts."""
        n = len(values)
        failed = np.zeros(n, bool) if errors is None else to_bools(errors.is_valid())
        null = to_bools(values.is_null()) & ~failed
        plain = ~failed & ~null
        covered = (~failed | self.error) & (~null | self.null) & (~plain | ~self.empty)
        return np.asarray(covered & (~plain | self._covers(values)), bool)

    def _covers(self, values: pa.Array) -> np.ndarray:
        n = len(values)
        if self.true is not None and self.false is not None:
            given = to_bools(pc.fill_null(values, False))
            return np.where(given, self.true, self.false)
        low, high = (spread(b[0], n) if len(b) == 1 else b for b in self.bounds())
        above = to_bools(pc.fill_null(order.less_equal(low, values), True))
        below = to_bools(pc.fill_null(order.less_equal(values, high), True))
        result = above & below
        if self.nan is not None:
            result = np.where(to_bools(pc.fill_null(pc.is_nan(values), False)), self.nan, result)
        if self.months is not None:
            result &= (order.interval_parts(values)[0] == 0) | self.months
        if self.lanes is not None:
            result &= self.lanes.admits(values, self.type)
        if self.fields is not None:
            for i, inside in enumerate(self.fields):
                result &= inside.admits(pc.struct_field(values, [i]))
        if (
            self.element is not None and self.element.size == 1
        ):  # one a container would need to be repeated by row
            outside = ~self.element.admits(values.flatten())
            result[np.repeat(np.arange(n), pc.fill_null(pc.list_value_length(values), 0))[outside]] = False
        return np.asarray(result)


def to_bools(array: pa.Array) -> np.ndarray:
    """An Arrow boolean array as numpy, null taken as False."""
    if array.null_count:
        array = pc.fill_null(array, False)
    result: np.ndarray = array.to_numpy(zero_copy_only=False)
    return result


def known(bound: pa.Array) -> np.ndarray:
    """Where a bound is given; one flag for all where it always is."""
    return YES if bound.null_count == 0 else to_bools(bound.is_valid())


def fit(*arrays: pa.Array) -> tuple[Any, ...]:
    """Bounds ready for a kernel: those of length 1 become scalars when another is longer."""
    n = max(len(a) for a in arrays)
    return tuple(a[0] if len(a) == 1 and n > 1 else a for a in arrays)


def _ordered(
    type_: Type, low: pa.Array | None, high: pa.Array | None
) -> tuple[pa.Array | None, pa.Array | None]:
    """The bounds without those that are NaN or in the wrong order: broken statistics are unknown, not empty."""
    if type_.is_float:
        low, high = (None if b is None else _without_nan(b) for b in (low, high))
    if low is None or high is None:
        return low, high
    if low is high:
        return low, high
    wrong = order.less(*fit(high, low))
    if not pc.any(wrong, min_count=0).as_py():
        return low, high
    keep = pc.fill_null(pc.invert(wrong), True)
    n, nothing = len(keep), pa.scalar(None, low.type)
    low, high = (spread(b[0], n) if len(b) == 1 else b for b in (low, high))
    return pc.if_else(keep, low, nothing), pc.if_else(keep, high, nothing)


def _without_nan(bound: pa.Array) -> pa.Array:
    nan = pc.is_nan(bound)
    return pc.if_else(nan, pa.scalar(None, bound.type), bound) if pc.any(nan, min_count=0).as_py() else bound


def _pinned(type_: Type, low: pa.Array | None, high: pa.Array | None) -> np.ndarray:
    if low is None or high is None or not type_.identity_is_equality or type_.kind is Kind.JSONB:
        return NO
    return to_bools(order.equal(*fit(low, high)))


def _boolean_from_bounds(
    low: pa.Array | None, high: pa.Array | None, null: np.ndarray, error: np.ndarray, empty: np.ndarray
) -> Specs:
    true = ~empty if high is None else to_bools(pc.fill_null(high, True)) & ~empty
    false = ~empty if low is None else ~to_bools(pc.fill_null(low, False)) & ~empty
    broken = ~true & ~false & ~empty
    return Specs.boolean(true | broken, false | broken, null, error)


def _union(a: Specs, b: Specs, null: np.ndarray, error: np.ndarray) -> Specs:
    low = _outer(a, b, 0, order.smaller)
    high = _outer(a, b, 1, order.greater)
    both = None if a.lanes is None or b.lanes is None else a.lanes.union(b.lanes, a.empty, b.empty)
    fields = element = None
    if a.fields is not None and b.fields is not None:
        fields = tuple(x.union(y) for x, y in zip(a.fields, b.fields, strict=True))
    if a.element is not None and b.element is not None:
        element = a.element.union(b.element)
    empty = a.empty & b.empty
    nan = None if a.nan is None or b.nan is None else (a.nan & ~a.empty) | (b.nan & ~b.empty)
    months = None if a.months is None or b.months is None else (a.months & ~a.empty) | (b.months & ~b.empty)
    # Two exact values make one only if they are the same; for types whose equality is identity the bounds tell.
    exact = None if a.type.identity_is_equality else (a.exact & b.empty) | (b.exact & a.empty)
    return Specs.ranged(
        a.type, low, high, null=null, error=error, empty=empty, exact=exact, nan=nan, months=months,
        lanes=both, fields=fields, element=element,
    )  # fmt: skip


def _outer(a: Specs, b: Specs, side: int, pick: Any) -> pa.Array:
    """The outer of two bounds, where a side without values does not count."""
    n = max(a.size, b.size)
    x, y = (
        spread(s.bounds()[side][0], n) if len(s.bounds()[side]) == 1 else s.bounds()[side] for s in (a, b)
    )
    outer = pick(x, y)
    for nothing, other in ((a.empty, y), (b.empty, x)):
        if nothing.any():
            outer = pc.if_else(pa.array(np.broadcast_to(nothing, n)), other, outer)
    return outer
