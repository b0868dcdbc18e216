"""Laws that never fail prove nothing: each lie planted here must be caught by the law it breaks, in the cases
of `make test`.

The lies are those that others shipped (research/materialize.md §2.3). `CASES` is what test_function_laws.py
tries for each law; a lie is looked for with 20 different seeds and must be caught every time, so the chance
that one that is as well hidden as these slips through `make test` is small, and `make prove` tries fifty
times as often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.laws.claims import (
    errors_hold,
    nan_holds,
    nulls_hold,
    slices_hold,
    transfer_holds,
    trend_holds,
)
from tests.laws.exact import exact_holds
from tests.laws.instances import Instance
from tests.laws.test_function_laws import CASES
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.cast.number import numeric_to_numeric
from tidegate.expr.functions.cast.text_to_number import text_to_numeric
from tidegate.expr.model.build import resolve
from tidegate.expr.model.function import ANYWHERE, AT_ENDS, DOWN, EITHER, NEVER, REGISTRY, UP, Function
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    from_numpy,
    length,
    spread,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import FLOAT8, INT4, INT8, INTERVAL, NUMERIC, TEXT, TIMESTAMPTZ, Type, numeric

Law = Callable[[Instance, np.random.Generator], None]
SEEDS = 20


def absolute(a: Datum) -> pa.Array:
    return pc.abs(a)


def absolute_or_fail(a: Datum) -> Outcome:
    lowest = pc.equal(a, -(2**63))
    return with_errors(pc.abs(pc.if_else(lowest, 0, a)), failing(lowest, "bigint out of range"))


def divide(a: Datum, b: Datum) -> Outcome:
    a, b = (spread(arg, length(a, b)) for arg in (a, b))
    zero = pc.equal(b, 0.0)
    values = pc.divide(a, pc.if_else(zero, pa.scalar(1.0), b))
    return with_errors(values, failing(zero, "division by zero"))


def concat(a: Datum, b: Datum) -> pa.Array:
    return pc.binary_join_element_wise(a, b, "")


def add(a: Datum, b: Datum) -> pa.Array:
    return pc.add(a, b)


def half_of_even(a: Datum) -> pa.Array:
    """NULL for odd numbers."""
    one, two = pa.scalar(1, a.type), pa.scalar(2, a.type)
    return pc.if_else(pc.equal(pc.bit_wise_and(a, one), 0), pc.divide(a, two), pa.scalar(None, a.type))


def negate(a: Datum) -> pa.Array:
    return pc.negate(a)


def forgets_offset(a: pa.Array) -> pa.Array:
    """Reads the buffer from its start, though a slice begins later."""
    raw = np.frombuffer(a.buffers()[1], np.int32, count=len(a))
    return from_numpy(np.maximum(raw, 0), pa.int32(), a)


def quiet_nan(a: Datum) -> pa.Array:
    """-x that takes NaN for 0."""
    return from_numpy(np.nan_to_num(-to_numpy(a)), pa.float64(), a)


def without_nan(out: Type, a: Specs) -> Specs:
    """Bounds of -x, but the flag for NaN is lost."""
    low, high = a.bounds()
    return Specs.ranged(
        out, pc.negate(high), pc.negate(low), null=a.null, error=a.error, empty=a.empty, nan=np.zeros(1, bool)
    )


def reads_broken_end(out: Type, a: Specs) -> Specs:
    """Bounds of -x with the ends in the wrong places: `low` of the result from `low`."""
    low, _ = a.bounds()
    return Specs.ranged(
        out, pc.negate(low), pc.negate(low), null=a.null, error=a.error, empty=a.empty, nan=a.nan
    )


def forgets_null(out: Type, a: Specs) -> Specs:
    """Anything, but never NULL."""
    return Specs.anything(out, null=np.zeros(1, bool), error=a.error, empty=a.empty)


def plus_interval(**claims: Any) -> Function:
    """The real `timestamptz + interval` with other claims."""
    return replace(resolve("+", [TIMESTAMPTZ, INTERVAL])[0], **claims)


def arrow_reads_it(a: pa.Array, out: Type) -> Outcome:
    """Text to numeric by Arrow's own cast where it takes every row, which multiplies modulo 2**128."""
    try:
        return Outcome(a.cast(out.arrow))
    except pa.ArrowInvalid:
        return text_to_numeric(a, out)


def arrow_rescales(a: pa.Array, out: Type) -> Outcome:
    """Numeric to numeric by Arrow's own cast where it takes every row."""
    try:
        return Outcome(a.cast(out.arrow))
    except pa.ArrowInvalid:
        return numeric_to_numeric(a, out)


def another_cast(kernel: Callable[..., Outcome], source: Type, out: Type) -> Instance:
    """The real cast with another kernel."""
    function = REGISTRY.cast(source.kind, out.kind)
    assert function is not None
    return Instance(replace(function, kernel=kernel), (source,), out)


def lie(kernel: Callable[..., Any], types: tuple[Type, ...], out: Type, **claims: Any) -> Instance:
    function = Function(kernel.__name__, types, out, kernel, **claims)
    return Instance(function, types, out)


LIES: dict[str, tuple[Law, Callable[[], Instance]]] = {
    # -3 < 1 but |-3| > |1|.
    "abs rises": (trend_holds, lambda: lie(absolute, (INT4,), INT4, trend=(UP,), errors=NEVER)),
    "abs falls": (trend_holds, lambda: lie(absolute, (INT4,), INT4, trend=(DOWN,), errors=NEVER)),
    "abs is monotone": (trend_holds, lambda: lie(absolute, (INT4,), INT4, trend=(EITHER,), errors=NEVER)),
    # May fail itself: a whole filter is then kept for its errors, and the false trend never shows. Claims are
    # tested alone.
    "abs that may fail rises": (trend_holds, lambda: lie(absolute_or_fail, (INT8,), INT8, trend=(UP,),
    errors=ANYWHERE)),
    "abs rises, by its bounds": (transfer_holds, lambda: lie(absolute, (INT4,), INT4, trend=(UP,),
    errors=NEVER)),
    "abs may not fail": (errors_hold, lambda: lie(absolute_or_fail, (INT8,), INT8, errors=NEVER)),
    # 1 / -1 and 1 / 1 are fine, 1 / 0 between them is not.
    "division fails at ends": (errors_hold, lambda: lie(divide, (FLOAT8, FLOAT8), FLOAT8, errors=AT_ENDS)),
    "division fails at ends, by its Specs": (transfer_holds, lambda: lie(divide, (FLOAT8, FLOAT8), FLOAT8,
    errors=AT_ENDS)),
    "division falls": (trend_holds, lambda: lie(divide, (FLOAT8, FLOAT8), FLOAT8, trend=(EITHER, EITHER),
    errors=ANYWHERE)),
    # Jan 30 23:00 + 1 month = Feb 29 23:00, but Jan 31 01:00 + 1 month = Feb 29 01:00.
    "months rise in the time": (trend_holds, lambda: _plus((UP, None))),
    # 30 days = 1 month, but they move a time differently.
    "months rise in the interval": (trend_holds, lambda: _plus((None, UP))),
    # 'A' < 'AA' but 'AZ' > 'AAZ'.
    "text || rises in the first": (trend_holds, lambda: lie(concat, (TEXT, TEXT), TEXT, trend=(UP, None),
    errors=NEVER)),
    "NULL is made in silence": (nulls_hold, lambda: lie(half_of_even, (INT4,), INT4, errors=NEVER)),
    "NULL is made in silence, by its Specs": (transfer_holds, lambda: lie(half_of_even, (INT4,), INT4,
    errors=NEVER)),
    # ∞ + -∞ is NaN, between -∞ + -∞ and ∞ + ∞.
    "∞ - ∞ is no matter": (transfer_holds, lambda: lie(add, (FLOAT8, FLOAT8), FLOAT8, trend=(UP, UP),
    errors=NEVER)),
    "NaN becomes a number": (nan_holds, lambda: lie(quiet_nan, (FLOAT8,), FLOAT8, trend=(DOWN,),
    errors=NEVER)),
    "the transfer forgets NaN": (transfer_holds, lambda: lie(negate, (FLOAT8,), FLOAT8, errors=NEVER,
    transfer=without_nan)),
    "the transfer takes the wrong end": (transfer_holds, lambda: lie(negate, (FLOAT8,), FLOAT8, errors=NEVER,
    transfer=reads_broken_end)),
    "the transfer forgets NULL": (transfer_holds, lambda: lie(negate, (FLOAT8,), FLOAT8, errors=NEVER,
    transfer=forgets_null)),
    # 12345678901234567890123 * 10**18 modulo 2**128 has 38 digits again.
    "Arrow reads numerics": (exact_holds, lambda: another_cast(arrow_reads_it, TEXT, NUMERIC)),
    "Arrow reads numerics of 38 digits": (exact_holds, lambda: another_cast(arrow_reads_it, TEXT, numeric(38, 0))),
    "Arrow rescales numerics": (exact_holds, lambda: another_cast(arrow_rescales, numeric(38, 0), NUMERIC)),
    "a slice is read from its buffer's start": (slices_hold, lambda: lie(forgets_offset, (INT4,), INT4,
    errors=NEVER)),
}  # fmt: skip


def _plus(trend: tuple[Any, Any]) -> Instance:
    return Instance(plus_interval(trend=trend), (TIMESTAMPTZ, INTERVAL), TIMESTAMPTZ)


def lie_for_expressions(name: str) -> Instance:
    """The lie in a form that random expressions can use."""
    instance = LIES[name][1]()
    return replace(instance, function=replace(instance.function, doc="planted"))


def _try(law: Law, instance: Instance, seed: int) -> None:
    for case in range(CASES):
        law(instance, np.random.default_rng([seed, case]))


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_caught(name: str) -> None:
    law, planted = LIES[name]
    instance = planted()
    for seed in range(SEEDS):
        with pytest.raises(AssertionError, match="rows"):
            _try(law, instance, seed)


TRUTHS = {
    "-x falls": lambda: lie(negate, (FLOAT8,), FLOAT8, trend=(DOWN,), errors=NEVER),
    "text || rises in the second": lambda: lie(concat, (TEXT, TEXT), TEXT, trend=(None, UP), errors=NEVER),
    "NULL is made": lambda: lie(half_of_even, (INT4,), INT4, errors=NEVER, makes_null=True),
    "abs fails where it says": lambda: lie(absolute_or_fail, (INT8,), INT8, errors=AT_ENDS),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_the_truth_passes(name: str) -> None:
    """The same kernels with true claims break no law: what is caught above is the lie."""
    instance = TRUTHS[name]()
    for seed in range(SEEDS):
        for law in (trend_holds, errors_hold, nulls_hold, nan_holds, transfer_holds, slices_hold):
            law(instance, np.random.default_rng(seed))
