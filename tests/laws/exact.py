"""The law of exact numbers: a cast to numeric is Python's decimal, rounded once, or an error; and the table of all laws."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa

from tests.laws.claims import (
    errors_hold,
    fail,
    failed,
    mixed_argument,
    nan_holds,
    nulls_hold,
    slices_hold,
    transfer_holds,
    trend_holds,
)
from tests.laws.instances import Instance
from tidegate.expr.model.function import AT_ENDS, HEAVY
from tidegate.expr.model.types import Kind, Type

EXACT = Context(prec=500, rounding=ROUND_HALF_UP, Emin=-(10**6), Emax=10**6)
SPELLED = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
"""What PostgreSQL reads as a numeric (NaN and exponents beyond all types left out)."""


def exact_holds(instance: Instance, rng: np.random.Generator) -> None:
    """A cast of an exact number, or of its spelling, to numeric is Python's number rounded once, or an error."""
    out = instance.out
    source = instance.types[0] if instance.types else out
    plain = source.kind in (Kind.TEXT, Kind.JSONB, Kind.NUMERIC) or source.is_integer
    if instance.function.name != "cast" or out.kind is not Kind.NUMERIC or not plain:
        return
    rows = mixed_argument(instance, 0, rng)
    texts = rows.cast(pa.string()).to_pylist()
    right = [i for i, text in enumerate(texts) if SPELLED.fullmatch(text)]
    # By itself, among its like, and among everything else: kernels have ways that only a column of digits takes.
    for given in ([i] for i in right[:8]), [right], [list(range(len(rows)))]:
        for chosen in given:
            taken = rows.take(pa.array(chosen, pa.int64()))
            outcome = instance.run([taken])
            wanted = {i: _rounded(texts[i], out) for i in chosen if SPELLED.fullmatch(texts[i])}
            found = [
                None if bad else v for bad, v in zip(failed(outcome), outcome.values.to_pylist(), strict=True)
            ]
            wrong = np.array(
                [i in wanted and v != wanted[i] for i, v in zip(chosen, found, strict=True)], bool
            )
            fail(instance, "not the number it spells", wrong, argument=taken, gives=outcome)


def _rounded(text: str, out: Type) -> Decimal | None:
    """The number at the scale of the type; None if it has too many digits."""
    assert out.precision is not None
    assert out.scale is not None
    number = Decimal(text).quantize(Decimal(1).scaleb(-out.scale), context=EXACT)
    return None if number.copy_abs() >= Decimal(10) ** (out.precision - out.scale) else number


LAWS = (
    (exact_holds, 2),
    (trend_holds, 1),
    (transfer_holds, 1),
    (errors_hold, 2),
    (nulls_hold, 3),
    (nan_holds, 3),
    (slices_hold, 6),
)
"""Every law, and in which part of the cases it is tried: what is seen in nearly every case needs few of them.
"""


def all_hold(instance: Instance, seed: int) -> None:
    """One case of every law whose turn it is. Heavy kernels, and functions that claim nothing, take a third
    of the turns.
    """
    function = instance.function
    humble = function.trend is None and function.transfer is None and function.errors is not AT_ENDS
    dear = 3 if function.cost is HEAVY or humble else 1
    for law, period in LAWS:
        if seed % (period * dear) == 0:
            law(instance, np.random.default_rng(seed))
