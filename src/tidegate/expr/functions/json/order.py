"""The order of jsonb: GREATEST and LEAST, and the sort keys by which the planner compares and sorts.

    payload -> 'n' > '9'            is planned as        sort key(payload -> 'n') > sort key('9')
    ORDER BY payload                                     ORDER BY sort key(payload)
    min(payload)                                         from sort key(min(sort key(payload)))

`model/sort_keys.py` says where. A key is bytea, whose order is that of bytes here, in DuckDB and in Spark; so one rule orders
jsonb in every engine. Comparisons that transforms stored before there were keys compare the text of JSON for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.sort_keys import sort_key_range
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import all_of, any_of
from tidegate.expr.functions.boolean.conditional import mask_specs
from tidegate.expr.model.function import ANY, MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome, length, spread, with_errors
from tidegate.expr.model.types import BYTEA, JSONB, Kind, Type, array, record
from tidegate.expr.primitives.json.sort_key import NotSortKey, from_sort_key, sort_keys

ArrayFunction = Callable[[pa.Array], pa.Array]


def key_type(type_: Type) -> Type:
    """The type of the sort keys of a type: bytea in place of jsonb."""
    match type_.kind:
        case Kind.JSONB:
            return BYTEA
        case Kind.ARRAY if type_.element is not None:
            return array(key_type(type_.element))
        case Kind.RECORD:
            return record(*((name, key_type(inner)) for name, inner in type_.fields))
        case _:
            return type_


def _replace_documents(
    values: pa.Array, type_: Type, target: pa.DataType, convert: ArrayFunction
) -> pa.Array:
    """`values` of `type_` with every document in them converted."""
    if not type_.sorts_by_key:
        return values
    match type_.kind:
        case Kind.ARRAY if type_.element is not None:
            inner = _replace_documents(values.values, type_.element, target.value_type, convert)
            validity, offsets = values.buffers()[:2]
            return pa.Array.from_buffers(
                target, len(values), [validity, offsets], values.null_count, values.offset, [inner]
            )
        case Kind.RECORD:
            fields = [
                _replace_documents(pc.struct_field(values, [i]), inner, target.field(i).type, convert)
                for i, (_, inner) in enumerate(type_.fields)
            ]
            mask = values.is_null() if values.null_count else None
            return pa.StructArray.from_arrays(fields, fields=list(target), mask=mask)
        case _:
            return convert(values)


def _sort_key_transfer(out: Type, json: Specs) -> Specs:
    """Sort keys over containers: by the lanes of JSON; nothing is concluded of arrays and records."""
    if json.type == JSONB:
        return sort_key_range(json)
    return Specs.anything(out, null=json.null, error=json.error, empty=json.empty)


@scalar(
    "sort key", (ANY,), key_type, hidden=True, errors=NEVER, transfer=_sort_key_transfer, cost=MODERATE, stable=True
)  # fmt: skip
def sort_key(values: pa.Array, *, types: Sequence[Type], out: Type) -> pa.Array:
    """Values that sort as jsonb does, by bytes."""
    return _replace_documents(values, types[0], out.arrow, sort_keys)


@scalar("from sort key", (BYTEA,), JSONB, hidden=True, cost=MODERATE, stable=True)
def value_of_sort_key(keys: pa.Array, *, out: Type) -> Outcome:
    """The value that a sort key was made of."""
    try:
        return Outcome(_replace_documents(keys, out, out.arrow, _documents))
    except NotSortKey:
        rows = [_documents_or_error(keys[i : i + 1], out) for i in range(len(keys))]
        return with_errors(
            pa.concat_arrays([value for value, _ in rows]),
            pa.array([error for _, error in rows], pa.string()),
        )


def _documents(keys: pa.Array) -> pa.Array:
    return pa.array([None if key is None else from_sort_key(key) for key in keys.to_pylist()], pa.string())


def _documents_or_error(key: pa.Array, out: Type) -> tuple[pa.Array, str | None]:
    try:
        return _replace_documents(key, out, out.arrow, _documents), None
    except NotSortKey as error:
        return pa.nulls(1, out.arrow), str(error)


# ---------------------------------------------------------------- GREATEST, LEAST


def _extreme_transfer(out: Type, *args: Specs) -> Specs:
    """GREATEST and LEAST over containers: any of the arguments."""
    every = reduce(Specs.union, [mask_specs(arg, ~arg.empty) for arg in args])
    null, error = all_of([arg.null for arg in args]), any_of([arg.error for arg in args])
    return Specs.ranged(
        JSONB, every.low, every.high, null=null, error=error, empty=every.empty, json=every.json
    )


def _extreme(args: Sequence[Datum], better: Callable[[pa.Array, pa.Array], pa.Array]) -> pa.Array:
    """The best argument of each row, ignoring NULL."""
    n = length(*args)
    best, *others = (spread(arg, n) for arg in args)
    best_key = sort_keys(best)
    for other in others:
        key = sort_keys(other)
        wins = pc.fill_null(better(key, best_key), best_key.is_null())
        best, best_key = pc.if_else(wins, other, best), pc.if_else(wins, key, best_key)
    return best


_chooses = partial(
    scalar, params=(JSONB,), result=JSONB, variadic=True, lenient=True, errors=NEVER, cost=MODERATE, stable=True,
    transfer=_extreme_transfer,
)  # fmt: skip


@_chooses("greatest")
def greatest(*args: Datum) -> pa.Array:
    """The greatest JSON value, in PostgreSQL's order of jsonb, ignoring NULL."""
    return _extreme(args, pc.greater)


@_chooses("least")
def least(*args: Datum) -> pa.Array:
    """The least JSON value, in PostgreSQL's order of jsonb, ignoring NULL."""
    return _extreme(args, pc.less)
