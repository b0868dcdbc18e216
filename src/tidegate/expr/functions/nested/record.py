"""Records: `ROW(…)` and `(r).field`.

Records are compared field by field; a NULL field equals NULL and is greater than all else. So the lows of all fields are
the low of a record, and where no field can be NULL the highs are its high: `(a, b) >= (5, 'x')` prunes a part whose
a lies in 1 .. 4.

A field is read by position: `(r).y` of a `row(x int8, y text)` is `field(r, 1)`, and a record column keeps a description of each
field, so filters on fields prune like filters on columns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import Specs, is_bounded
from tidegate.expr.domain.transfer import all_of, any_of
from tidegate.expr.functions.boolean.conditional import mask_specs
from tidegate.expr.functions.cast.nested import make_records, spread_rows
from tidegate.expr.model.function import ANY, ANY_RECORD, NEVER, scalar
from tidegate.expr.model.outcome import Datum, spread
from tidegate.expr.model.types import INT4, Type, record
from tidegate.expr.spark_sql.forms import field_form, record_form


def _record_of(*types: Type) -> Type:
    return record(*((f"f{i}", type_) for i, type_ in enumerate(types, 1)))


def row_transfer(out: Type, *args: Specs) -> Specs:
    """`ROW(…)` over containers: a description of each field, and bounds where all fields have them."""
    sides = [a.bounds() for a in args]
    n = max(a.size for a in args)
    # NULL and NaN are greatest, so they do not affect a low; a high requires that there are none.
    plain = all_of([~a.null & (~a.nan if a.nan is not None else ~a.null) for a in args])
    low = _combined(out, [low for low, _ in sides], n, all_of([is_bounded(low) for low, _ in sides]))
    high = _combined(
        out, [high for _, high in sides], n, all_of([is_bounded(high) for _, high in sides]) & plain
    )
    exact = all_of([a.exact & ~a.null & ~a.empty for a in args])
    return Specs.ranged(
        out, low, high, error=any_of([a.error for a in args]), exact=exact & plain, fields=args
    )


def _combined(out: Type, bounds: list[pa.Array], n: int, mask: np.ndarray) -> pa.Array:
    columns = [spread(bound[0], n) if len(bound) == 1 else bound for bound in bounds]
    return make_records(columns, out, np.broadcast_to(mask, n))


@scalar(
    "row", (ANY,), _record_of, variadic=True, lenient=True, errors=NEVER, transfer=row_transfer, stable=True,
    spark=record_form,
)  # fmt: skip
def row(*args: Datum, out: Type) -> pa.Array:
    """A record of the arguments, with fields f1, f2 and so on."""
    return make_records(spread_rows(*args), out)


def field_transfer(out: Type, records: Specs, index: Specs) -> Specs:
    """`(r).x` over containers: what is known of the field, or NULL where the record is NULL."""
    place = constant(index)
    if records.fields is None or place is None:
        return Specs.anything(out, error=records.error | index.error, empty=records.empty)
    at = place.as_py()
    value = (
        mask_specs(records.fields[at], ~records.empty)
        if 0 <= at < len(records.fields)
        else Specs.anything(out)
    )
    return value.may_be_null(records.null).may_fail(records.error)


def _field_type(records: Type, _: Type) -> Type:
    return records.fields[0][1]


@scalar(
    "field", (ANY_RECORD, INT4), _field_type, errors=NEVER, makes_null=True, hidden=True, transfer=field_transfer, stable=True,
    spark=field_form,
)  # fmt: skip
def field(records: Datum, index: Datum, out: Type) -> pa.Array:
    """A field of a record by its position; NULL if there is none of that type."""
    records, index = spread_rows(records, index)
    result = pa.nulls(len(records), out.arrow)
    for i, member in enumerate(records.type):
        if member.type == out.arrow:
            result = pc.if_else(pc.equal(index, i), pc.struct_field(records, [i]), result)
    return result
