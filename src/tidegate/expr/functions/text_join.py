"""Text: joining, by `||`, concat and concat_ws.

A joined text starts with its first part, which bounds it (`prefix.py`). In a part whose names lie between 'Miller, A'
and 'Miller, J':

| expression | is known to lie in | because |
|---|---|---|
| `name || '!'` | 'Miller, A' .. 'Miller,!' | all names start alike; it is not UP: 'A' < 'AA', but 'AZ' > 'AAZ' |
| `'Dr. ' || name` | 'Dr. Miller, A' .. 'Dr. Miller, J' | it is UP in its second argument |
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import AS_TEXT, NEVER, UP, scalar
from tidegate.expr.functions.text import fixed
from tidegate.expr.letters import nulled
from tidegate.expr.outcome import Datum, length, spread
from tidegate.expr.prefix import claims, common_prefix, filled, successors
from tidegate.expr.spark_form import texts_only
from tidegate.expr.specs import NO, Specs
from tidegate.expr.transfer import any_of, by_trend
from tidegate.expr.types import TEXT, Type


def joined(a: Datum, b: Datum) -> pa.Array:
    """Two texts, one behind the other."""
    return pc.binary_join_element_wise(a, b, "")


def _ceiling(a: Specs) -> pa.Array | None:
    """An upper bound of everything that starts with a value of `a`."""
    return None if a.low is None or a.high is None else successors(common_prefix(a.low, a.high))


def join_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """Joining is UP in b; a result starts with its a: not below it, nor beyond what all a start with."""
    return filled(by_trend(claims(joined, (None, UP)), (a, b), out), a.low, _ceiling(a))


_ALL = texts_only(lambda args: f"concat({', '.join(args)})")


@scalar("||", (TEXT, TEXT), TEXT, errors=NEVER, transfer=join_transfer, stable=True, spark="concat({0}, {1})")
@scalar("||", (TEXT, AS_TEXT), TEXT, errors=NEVER, transfer=join_transfer, stable=True, spark=_ALL)
@scalar("||", (AS_TEXT, TEXT), TEXT, errors=NEVER, transfer=join_transfer, stable=True, spark=_ALL)
def join(a: Datum, b: Datum) -> pa.Array:
    """Both texts, one behind the other; what is no text is cast to it if the other side is."""
    return joined(a, b)


def join_all_transfer(out: Type, *args: Specs) -> Specs:
    """As joining the first two, then the third behind them, and so on."""
    return reduce(lambda a, b: join_transfer(out, a, b), args)


@scalar(
    "join_all",
    (TEXT,),
    TEXT,
    variadic=True,
    errors=NEVER,
    transfer=join_all_transfer,
    stable=True,
    spark=_ALL,
    hidden=True,
)
def join_all(*args: Datum) -> pa.Array:
    """`a || b || c` in one pass: what the simplifier makes of `||` within `||`."""
    between = args[1]
    if fixed(*args[1::2]) and len(args) % 2 and all(arg.equals(between) for arg in args[3::2]):
        return pc.binary_join_element_wise(
            *args[::2], between
        )  # a || '/' || b: Arrow's own separator is cheaper
    return pc.binary_join_element_wise(*args, "")


def concat_transfer(out: Type, *args: Specs) -> Specs:
    """What concat gives starts with its first argument where that is never NULL."""
    first, error = args[0], any_of([a.error for a in args])
    base = Specs.ranged(out, None, None, error=error, exact=NO)
    return base if first.null.any() else filled(base, first.low, _ceiling(first))


@scalar(
    "concat",
    (AS_TEXT,),
    TEXT,
    variadic=True,
    lenient=True,
    errors=NEVER,
    transfer=concat_transfer,
    stable=True,
    spark=texts_only(lambda args: "concat(" + ", ".join(f"coalesce({arg}, '')" for arg in args) + ")"),
)
def concat(*args: Datum) -> pa.Array:
    """All arguments as text, one behind the other; NULLs are left out."""
    # Not null_handling="skip": that loses a row in which all are null (Arrow 26).
    return pc.binary_join_element_wise(*(pc.fill_null(arg, "") for arg in args), "")


def concat_ws_transfer(out: Type, *args: Specs) -> Specs:
    """concat_ws is NULL only where its separator is."""
    separator, *rest = args
    known_ = concat_transfer(out, *rest) if len(rest) == 1 else Specs.anything(out, null=NO)
    return Specs.ranged(
        out, known_.low, known_.high, null=separator.null, error=any_of([a.error for a in args]),
        empty=separator.empty, exact=NO,
    )  # fmt: skip


@scalar(
    "concat_ws",
    (TEXT, AS_TEXT),
    TEXT,
    variadic=True,
    lenient=True,
    errors=NEVER,
    transfer=concat_ws_transfer,
    stable=True,
    spark=texts_only(lambda args: f"concat_ws({', '.join(args)})"),
)
def concat_ws(separator: Datum, *args: Datum) -> pa.Array:
    """All arguments but the first as text, with the first between them; NULLs are left out."""
    n = length(separator, *args)
    some: pa.Array = pa.repeat(pa.scalar(False), n)
    parts = []
    for arg in (spread(arg, n) for arg in args):
        before = pc.if_else(some, separator, "")
        parts.append(pc.fill_null(pc.binary_join_element_wise(before, arg, ""), ""))
        some = pc.or_(some, arg.is_valid())
    return nulled(pc.binary_join_element_wise(*parts, ""), spread(separator, n))
