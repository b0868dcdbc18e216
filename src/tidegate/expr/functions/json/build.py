"""Making JSON: to_jsonb, jsonb_build_object, jsonb_build_array.

Numbers, booleans and JSON keep their type; arrays become JSON arrays and records objects; NULL inside them
becomes JSON null. Everything else becomes a string of its text, times in ISO 8601 as PostgreSQL writes them:
`"2024-01-31T08:00:00+00:00"`. NaN and the infinities, which JSON does not have, become strings too.

    jsonb_build_object('at', at, 'n', 1.50)   →   {"n":1.5,"at":"2024-01-31T08:00:00+00:00"}

Constant keys, the usual case, are sorted once and the documents joined in that order; keys that differ from
row to row are sorted by `primitives/json/canonical.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.domain.transfer import any_of
from tidegate.expr.model.function import ANY, HEAVY, NEVER, REGISTRY, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    to_bools,
    with_errors,
)
from tidegate.expr.model.types import JSONB, TEXT, Kind, Type
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.canonical import quote_strings, replace_rows, to_canonical, within_depth

_NULL = pa.scalar("null")
NESTED_KEY = "key value must be scalar, not array, composite, or json"


def to_json(values: pa.Array, type_: Type) -> pa.Array:
    """Values of any type as canonical JSON; null stays null."""
    match type_.kind:
        case Kind.JSONB:
            return values
        case Kind.BOOL:
            return pc.if_else(values, "true", "false")
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return values.cast(pa.string())
        case Kind.NUMERIC:
            # 1.50 becomes 1.5 and 2.00 becomes 2, but 10 stays.
            return pc.replace_substring_regex(_text(values, type_), r"(\.[0-9]*[1-9])0+$|\.0+$", r"\1")
        case Kind.FLOAT4 | Kind.FLOAT8:
            return _floats(values, type_)
        case Kind.TEXT | Kind.UNKNOWN:
            return quote_strings(values)
        case Kind.TIMESTAMP:
            return quote_strings(pc.replace_substring(_text(values, type_), " ", "T"))
        case Kind.TIMESTAMPTZ:
            iso = pc.replace_substring(_text(values, type_), " ", "T")
            return quote_strings(pc.replace_substring_regex(iso, r"([+-]\d\d)$", r"\1:00"))
        case Kind.ARRAY:
            return _list(values, type_)
        case Kind.RECORD:
            return _record(values, type_)
        case _:
            return quote_strings(_text(values, type_))


def _text(values: pa.Array, type_: Type) -> pa.Array:
    """Values cast to text."""
    cast = REGISTRY.cast(type_.kind, Kind.TEXT)
    assert cast is not None, f"{type_} has no cast to text"
    return cast.run([values], TEXT, [type_]).values


def _floats(values: pa.Array, type_: Type) -> pa.Array:
    finite = to_bools(pc.is_finite(values))
    texts = _text(values, type_)
    numbers = to_canonical(pc.if_else(pa.array(finite), texts, "0")).values
    odd = np.flatnonzero(~finite & to_bools(values.is_valid()))
    numbers = replace_rows(numbers, odd, quote_strings(texts.take(pa.array(odd)))) if len(odd) else numbers
    return pc.if_else(values.is_valid(), numbers, pa.scalar(None, pa.string()))


def _list(values: pa.Array, type_: Type) -> pa.Array:
    assert type_.element is not None
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    elements = pc.coalesce(to_json(values.flatten(), type_.element), _NULL)
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ",")
    lists = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(values.is_valid(), lists, pa.scalar(None, pa.string()))


def _record(values: pa.Array, type_: Type) -> pa.Array:
    held = {name: to_json(pc.struct_field(values, [i]), t) for i, (name, t) in enumerate(type_.fields)}
    return pc.if_else(values.is_valid(), _object(held, len(values)), pa.scalar(None, pa.string()))


def _object(held: dict[str, pa.Array], n: int) -> pa.Array:
    """JSON objects with constant keys."""
    pieces: list[Datum | str] = [pa.repeat(pa.scalar("{"), n)]
    for i, name in enumerate(sorted(held, key=exact_json.key_order)):
        pieces += [f"{',' if i else ''}{exact_json.quote(name)}:", pc.coalesce(held[name], _NULL)]
    return pc.binary_join_element_wise(*pieces, "}", "")


@scalar("to_jsonb", (ANY,), JSONB, cost=HEAVY, stable=True)
def to_jsonb(value: Datum, *, types: Sequence[Type]) -> Outcome:
    """Any value as JSON: numbers, booleans, arrays and objects as such, everything else as a string."""
    documents = to_json(value, types[0])
    return within_depth(documents) if types[0].is_nested else Outcome(documents)


def _build_transfer(out: Type, *args: Specs) -> Specs:
    """jsonb_build_object over containers: never NULL; fails for a NULL key and if nested too deeply."""
    if len(args) % 2:
        return Specs.anything(out, null=NO, error=YES, empty=YES)
    nested = any(arg.type.kind is Kind.JSONB or arg.type.is_nested for arg in args[1::2])
    nested = nested or any(key.type.kind is Kind.JSONB or key.type.is_nested for key in args[::2])
    null_key = any_of([key.null for key in args[::2]])
    return Specs.anything(
        out, null=NO, error=any_of([a.error for a in args]) | null_key | (YES if nested else NO)
    )


@scalar("jsonb_build_object", (), JSONB, errors=NEVER, stable=True)
def build_empty_object() -> pa.Array:
    """The empty object."""
    return pa.array(["{}"])


_builds = partial(scalar, params=(ANY,), result=JSONB, variadic=True, lenient=True, cost=HEAVY, stable=True)


@_builds("jsonb_build_object", transfer=_build_transfer)
def build_object(*args: Datum, types: Sequence[Type]) -> Outcome:
    """An object of alternating keys and values; of equal keys the last wins."""
    n = length(*args)
    if len(args) % 2:
        return with_errors(
            pa.nulls(n, pa.string()),
            failing(np.ones(n, bool), "argument list must have even number of elements"),
        )
    values = [to_json(spread(value, n), t) for value, t in zip(args[1::2], types[1::2], strict=True)]
    if all(
        isinstance(key, pa.Scalar) and key.is_valid and t.kind is Kind.TEXT
        for key, t in zip(args[::2], types[::2], strict=True)
    ):
        return within_depth(_object(dict(zip([key.as_py() for key in args[::2]], values, strict=True)), n))
    pieces: list[Datum | str] = [pa.repeat(pa.scalar("{"), n)]
    errors: Errors = None
    for i, (key, value) in enumerate(zip(args[::2], values, strict=True)):
        keys = spread(key, n)
        missing = failing(keys.is_null(), f"argument {2 * i + 1}: key must not be null")
        names = keys if types[2 * i].kind is Kind.TEXT else _text(keys, types[2 * i])
        nested = types[2 * i].is_nested or types[2 * i].kind is Kind.JSONB
        errors = first_error(errors, missing, failing(keys.is_valid(), NESTED_KEY) if nested else None)
        pieces += [
            "," if i else "",
            pc.coalesce(quote_strings(names), pa.scalar('""')),
            ":",
            pc.coalesce(value, _NULL),
        ]
    documents = to_canonical(pc.binary_join_element_wise(*pieces, "}", ""))
    return with_errors(documents.values, first_error(errors, documents.errors))


@scalar("jsonb_build_array", (), JSONB, errors=NEVER, stable=True)
def build_empty_array() -> pa.Array:
    """The empty array."""
    return pa.array(["[]"])


def _array_transfer(out: Type, *args: Specs) -> Specs:
    """jsonb_build_array over containers: never NULL; fails only if nested too deeply."""
    nested = any(arg.type.kind is Kind.JSONB or arg.type.is_nested for arg in args)
    return Specs.anything(out, null=NO, error=any_of([a.error for a in args]) | (YES if nested else NO))


@_builds("jsonb_build_array", transfer=_array_transfer)
def build_array(*args: Datum, types: Sequence[Type]) -> Outcome:
    """A JSON array of the arguments."""
    n = length(*args)
    pieces: list[Datum | str] = [pa.repeat(pa.scalar("["), n)]
    for i, (value, type_) in enumerate(zip(args, types, strict=True)):
        pieces += ["," if i else "", pc.coalesce(to_json(spread(value, n), type_), _NULL)]
    return within_depth(pc.binary_join_element_wise(*pieces, "]", ""))
