"""Specs: what an expression may be in each of n containers (parts, row groups, pages) at once.

Abstract interpretation decides from the statistics of a part alone: can a row pass the filter, can a row fail? Each expression
has a description that covers at least every outcome it can have there, for all containers at once:

| array | meaning in container i |
|---|---|
| `null[i]` | a row may yield NULL |
| `error[i]` | a row may yield an error |
| `empty[i]` | no row yields a value (all are NULL or errors); concluded from counts only |
| `low[i]`, `high[i]` | every value lies between, ends included; Arrow null: unbounded on that side |
| `exact[i]` | all values are identical to `low[i]`: no function can distinguish them |
| `nan[i]` | floats: a value may be NaN; `low` and `high` bound the others |
| `months[i]` | intervals: a value may have a months part, so that adding it is not monotone |

Booleans keep two flags, `true` and `false`, instead of bounds. JSON values have a `JsonDomain`, and the text that `->>`
yields keeps it, so `(payload->>'ts')::numeric` still knows its numbers. Records keep a Specs per field and
arrays one for their elements.

Flags are numpy arrays and bounds Arrow arrays, all of length n, or of length 1 where one description holds for all containers
(a literal). `low > high` means that statistics are broken: the bounds are then dropped, never read as *empty*.

>>> import pyarrow as pa
>>> from tidegate.expr.model.types import INT8
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

from tidegate.expr.model import order
from tidegate.expr.model.outcome import spread, to_bools
from tidegate.expr.model.types import BOOL, Kind, Type

if TYPE_CHECKING:
    from tidegate.expr.domain.json_domain import JsonDomain

YES = np.ones(1, bool)
NO = np.zeros(1, bool)


class Verdict(IntEnum):
    """The effect of a filter on a container."""

    NONE = 0
    """No row can pass and none can fail: it need not be fetched."""
    SOME = 1
    """Rows may pass, or may fail: it must be read and filtered."""
    ALL = 2
    """Every row passes and none fails: it need not be filtered."""


@dataclass(frozen=True, eq=False)
class Specs:
    """The possible outcomes of an expression in n containers. Use the static constructors."""

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
    json: JsonDomain | None = None
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
        """Anything at all, errors included: the result of a function that claims nothing."""
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
        """Values between bounds; `exact`, if omitted, is concluded from equal bounds where that is sound."""
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
            from tidegate.expr.domain.json_domain import JsonDomain

            return Specs.ranged(type_, bound, bound, exact=YES, json=JsonDomain.of_literal(value.as_py()))
        return Specs.ranged(type_, bound, bound, exact=YES, nan=nan, months=months)

    @property
    def size(self) -> int:
        """The number of containers, 1 where one description serves for all."""
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
        """Floats: where both bounds are known and finite.

        Infinities turn into NaN in the middle of a box: ∞ * 0.
        """
        low, high = self.bounds()
        finite = pc.and_(pc.is_finite(low), pc.is_finite(high))
        return to_bools(finite)

    def may_fail(self, mask: np.ndarray = YES) -> Specs:
        """These Specs with errors possible where `mask` holds."""
        return replace(self, error=self.error | mask)

    def may_be_null(self, mask: np.ndarray = YES) -> Specs:
        """These Specs with NULL possible where `mask` holds."""
        return replace(self, null=self.null | mask)

    def verdict(self) -> np.ndarray:
        """The `Verdict` of a condition for each container, as int8."""
        assert self.true is not None
        assert self.false is not None
        needed = self.true | self.error
        all_pass = self.true & ~(self.false | self.null | self.error)
        # NONE, SOME, ALL are 0, 1, 2: one where the container is kept, and one more where every row passes.
        return np.asarray(needed.astype(np.int8) + all_pass.astype(np.int8))

    def union(self, other: Specs) -> Specs:
        """Values of either of the two, as for the branches of CASE."""
        null, error = self.null | other.null, self.error | other.error
        if self.true is not None and other.true is not None:
            assert self.false is not None
            assert other.false is not None
            return Specs.boolean(self.true | other.true, self.false | other.false, null, error)
        return _union(self, other, null, error)


def is_bounded(bound: pa.Array) -> np.ndarray:
    """Where a bound is not null; a single flag if it never is."""
    return YES if bound.null_count == 0 else to_bools(bound.is_valid())


def fit(*arrays: pa.Array) -> tuple[Any, ...]:
    """Bounds ready for a kernel: those of length 1 become scalars when another is longer."""
    n = max(len(a) for a in arrays)
    return tuple(a[0] if len(a) == 1 and n > 1 else a for a in arrays)


def _ordered(
    type_: Type, low: pa.Array | None, high: pa.Array | None
) -> tuple[pa.Array | None, pa.Array | None]:
    """The bounds without NaN and without pairs in the wrong order, which come from broken statistics."""
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
    n, missing = len(keep), pa.scalar(None, low.type)
    low, high = (spread(b[0], n) if len(b) == 1 else b for b in (low, high))
    return pc.if_else(keep, low, missing), pc.if_else(keep, high, missing)


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
    both = None if a.json is None or b.json is None else a.json.union(b.json, a.empty, b.empty)
    fields = element = None
    if a.fields is not None and b.fields is not None:
        fields = tuple(x.union(y) for x, y in zip(a.fields, b.fields, strict=True))
    if a.element is not None and b.element is not None:
        element = a.element.union(b.element)
    empty = a.empty & b.empty
    nan = None if a.nan is None or b.nan is None else (a.nan & ~a.empty) | (b.nan & ~b.empty)
    months = None if a.months is None or b.months is None else (a.months & ~a.empty) | (b.months & ~b.empty)
    # The union of two exact values is exact only if they are the same; where equality is identity the bounds decide.
    exact = None if a.type.identity_is_equality else (a.exact & b.empty) | (b.exact & a.empty)
    return Specs.ranged(
        a.type, low, high, null=null, error=error, empty=empty, exact=exact, nan=nan, months=months,
        json=both, fields=fields, element=element,
    )  # fmt: skip


def _outer(a: Specs, b: Specs, side: int, pick: Any) -> pa.Array:
    """The outer of two bounds; a side without values does not count."""
    n = max(a.size, b.size)
    x, y = (
        spread(s.bounds()[side][0], n) if len(s.bounds()[side]) == 1 else s.bounds()[side] for s in (a, b)
    )
    outer = pick(x, y)
    for nothing, other in ((a.empty, y), (b.empty, x)):
        if nothing.any():
            outer = pc.if_else(pa.array(np.broadcast_to(nothing, n)), other, outer)
    return outer
