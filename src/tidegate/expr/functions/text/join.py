"""Text: joining, by `||`, concat and concat_ws.

A joined text starts with its first part, which bounds it (`domain/text_prefix.py`). In a part whose names lie between 'Miller, A'
and 'Miller, J':

| expression | is known to lie in | because |
|---|---|---|
| `name || '!'` | 'Miller, A' .. 'Miller,!' | all names start alike; it is not UP: 'A' < 'AA', but 'AZ' > 'AAZ' |
| `'Dr. ' || name` | 'Dr. Miller, A' .. 'Dr. Miller, J' | it is UP in its second argument |
"""

from __future__ import annotations

from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, Specs
from tidegate.expr.domain.text_prefix import common_prefix, fill_bounds, successors
from tidegate.expr.domain.transfer import any_of, by_trend
from tidegate.expr.functions.text.position import are_constants
from tidegate.expr.model.function import AS_TEXT, NEVER, UP, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import Datum, length, null_where_any, spread
from tidegate.expr.model.types import TEXT, Type
from tidegate.expr.spark_sql.forms import texts_only


def _ceiling(a: Specs) -> pa.Array | None:
    """An upper bound of all texts that start with a value of `a`."""
    return None if a.low is None or a.high is None else successors(common_prefix(a.low, a.high))


@BoundTransfer
def join_transfer(function: Function, out: Type, *args: Specs) -> Specs:
    """`||` over containers, two texts at a time: UP in the second, and between bounds of the first."""
    joined = function.claiming((None, UP))
    return reduce(lambda a, b: fill_bounds(by_trend(joined, (a, b), out), a.low, _ceiling(a)), args)


_ALL = texts_only(lambda args: f"concat({', '.join(args)})")
_joins = partial(scalar, result=TEXT, errors=NEVER, transfer=join_transfer, stable=True)


@_joins("||", (TEXT, TEXT), spark="concat({0}, {1})")
@_joins("||", overloads=[((AS_TEXT, TEXT), TEXT), ((TEXT, AS_TEXT), TEXT)], spark=_ALL)
def join(a: Datum, b: Datum) -> pa.Array:
    """Both texts concatenated; if only one side is text, the other is cast to it."""
    return pc.binary_join_element_wise(a, b, "")


@_joins("join_all", (TEXT,), variadic=True, spark=_ALL, hidden=True)
def join_all(*args: Datum) -> pa.Array:
    """`a || b || c` in one pass; the simplifier makes it from nested `||`."""
    between = args[1]
    if are_constants(*args[1::2]) and len(args) % 2 and all(arg.equals(between) for arg in args[3::2]):
        return pc.binary_join_element_wise(
            *args[::2], between
        )  # a || '/' || b: Arrow's own separator is cheaper
    return pc.binary_join_element_wise(*args, "")


def concat_transfer(out: Type, *args: Specs) -> Specs:
    """concat over containers: starts with its first argument where that is never NULL."""
    first, error = args[0], any_of([a.error for a in args])
    base = Specs.ranged(out, None, None, error=error, exact=NO)
    return base if first.null.any() else fill_bounds(base, first.low, _ceiling(first))


@scalar(
    "concat", (AS_TEXT,), TEXT, variadic=True, lenient=True, errors=NEVER, transfer=concat_transfer, stable=True,
    spark=texts_only(lambda args: "concat(" + ", ".join(f"coalesce({arg}, '')" for arg in args) + ")"),
)  # fmt: skip
def concat(*args: Datum) -> pa.Array:
    """All arguments as text, concatenated; NULLs are left out."""
    # Not null_handling="skip": that loses a row in which all are null (Arrow 26).
    return pc.binary_join_element_wise(*(pc.fill_null(arg, "") for arg in args), "")


def concat_ws_transfer(out: Type, *args: Specs) -> Specs:
    """concat_ws over containers: NULL only where its separator is."""
    separator, *rest = args
    first = concat_transfer(out, *rest) if len(rest) == 1 else Specs.anything(out, null=NO)
    return Specs.ranged(
        out, first.low, first.high, null=separator.null, error=any_of([a.error for a in args]),
        empty=separator.empty, exact=NO,
    )  # fmt: skip


@scalar(
    "concat_ws", (TEXT, AS_TEXT), TEXT, variadic=True, lenient=True, errors=NEVER, transfer=concat_ws_transfer, stable=True,
    spark=texts_only(lambda args: f"concat_ws({', '.join(args)})"),
)  # fmt: skip
def concat_ws(separator: Datum, *args: Datum) -> pa.Array:
    """All arguments but the first as text, with the first as separator; NULLs are left out."""
    n = length(separator, *args)
    any_before: pa.Array = pa.repeat(pa.scalar(False), n)
    parts = []
    for arg in (spread(arg, n) for arg in args):
        before = pc.if_else(any_before, separator, "")
        parts.append(pc.fill_null(pc.binary_join_element_wise(before, arg, ""), ""))
        any_before = pc.or_(any_before, arg.is_valid())
    return null_where_any(pc.binary_join_element_wise(*parts, ""), spread(separator, n))
