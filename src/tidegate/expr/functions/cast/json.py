"""Casts between text and jsonb, and from jsonb to numbers and booleans.

Text is parsed and stored in canonical form; jsonb becomes text unchanged. A JSON number becomes any
number type as a numeric of all its digits would, so `'2.5'::jsonb::int4` is 3; every other JSON type is an
error, JSON null included:

    '"1"'::jsonb::int4 → cannot cast jsonb string to type integer

Over containers the statistics of JSON numbers give the range, those of other JSON types whether the cast may fail.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import json_transfer as json_specs
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.cast.number import number_from_lanes, numeric_to_integer
from tidegate.expr.functions.cast.text import fit_varchar
from tidegate.expr.functions.cast.text_to_number import text_to_float, text_to_numeric
from tidegate.expr.functions.number.arithmetic import INTEGER_NAMES
from tidegate.expr.model.function import HEAVY, NEVER, UP, cast
from tidegate.expr.model.outcome import Errors, Outcome, failing, first_error, to_bools, with_errors
from tidegate.expr.model.types import BOOL, FLOATS, INTEGERS, JSONB, NUMERIC, TEXT, Type, numeric
from tidegate.expr.primitives.json.canonical import to_canonical
from tidegate.expr.primitives.json.path import first_bytes, type_names
from tidegate.expr.spark_sql.forms import text_cast

_NAMES = {**INTEGER_NAMES, pa.bool_(): "boolean", pa.float32(): "real", pa.float64(): "double precision"}
_TENTHS = numeric(38, 1)


@cast(TEXT, JSONB, cost=HEAVY, stable=True)
def text_to_jsonb(a: pa.Array) -> Outcome:
    """The JSON value that the text contains, in canonical form."""
    return to_canonical(a)


@cast(JSONB, TEXT, trend=(UP,), errors=NEVER, stable=True, spark=text_cast("{0}"))
def jsonb_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The canonical text of a JSON value; a string keeps its quotes."""
    return fit_varchar(a, out)


def _is_number(a: pa.Array) -> pa.Array:
    """Where the JSON value is a number, by its first byte; null where the value is null."""
    letters = first_bytes(a)
    digits = ((letters >= ord("0")) & (letters <= ord("9"))) | (letters == ord("-"))
    return pa.array(digits, mask=to_bools(a.is_null()))


def _type_error(a: pa.Array, right: pa.Array, out: Type) -> Errors:
    """The error of JSON values that have the wrong type."""
    if pc.all(right, min_count=0).as_py():
        return None
    kind = pc.replace_substring_regex(type_names(a), "^number$", "numeric")
    target = _NAMES.get(out.arrow, "numeric")
    message = pc.binary_join_element_wise("cannot cast jsonb ", kind, f" to type {target}", "")
    return failing(pc.invert(right), message)


def _numbers(a: pa.Array, right: pa.Array) -> pa.Array:
    return a if pc.all(right, min_count=0).as_py() else pc.if_else(right, a, pa.scalar(None, a.type))


def jsonb_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The JSON number as an integer, halves away from zero; fails for other JSON and if it does not fit."""
    right = _is_number(a)
    texts = _numbers(a, right)
    try:
        return with_errors(texts.cast(out.arrow), _type_error(a, right, out))
    except pa.ArrowInvalid:
        # Some number has a fraction or is too large. The first digit behind the point decides how it is
        # rounded.
        tenths = text_to_numeric(pc.replace_substring_regex(texts, r"(\.[0-9])[0-9]+$", r"\1"), _TENTHS)
    values, outside = numeric_to_integer(tenths.values, out)
    message = f"{_NAMES[out.arrow]} out of range"
    large = None if tenths.errors is None else failing(tenths.errors.is_valid(), message)
    return with_errors(values, first_error(_type_error(a, right, out), outside, large))


def jsonb_to_float(a: pa.Array, out: Type) -> Outcome:
    """The float nearest to the JSON number; fails for other JSON."""
    right = _is_number(a)
    values, errors = text_to_float(_numbers(a, right), out)
    return with_errors(values, first_error(_type_error(a, right, out), errors))


def jsonb_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The JSON number as a numeric; fails for other JSON and if it does not fit."""
    right = _is_number(a)
    values, errors = text_to_numeric(_numbers(a, right), out)
    return with_errors(values, first_error(_type_error(a, right, out), errors))


def number_transfer(out: Type, a: Specs) -> Specs:
    """The cast of jsonb to a number over containers, from its JSON statistics."""
    lanes = a.json
    if lanes is None:
        return Specs.anything(out, null=a.null, error=a.error | ~a.empty, empty=a.empty)
    return number_from_lanes(out, a, strings=False, fails=lanes.null)


_reads_number = partial(cast, JSONB, transfer=number_transfer, stable=True)
_reads_number(INTEGERS)(jsonb_to_integer)
_reads_number(FLOATS)(jsonb_to_float)
_reads_number(NUMERIC)(jsonb_to_numeric)


def bool_transfer(out: Type, a: Specs) -> Specs:
    """The cast of jsonb to bool over containers: only JSON true and false succeed."""
    lanes, has_rows = json_specs.domain_of(a), ~a.empty
    other = lanes.null | lanes.number.present | lanes.text.present | lanes.list | lanes.map
    return Specs.boolean(lanes.true & has_rows, lanes.false & has_rows, a.null, a.error | (other & has_rows))


@cast(JSONB, BOOL, stable=True, transfer=bool_transfer)
def jsonb_to_bool(a: pa.Array, out: Type) -> Outcome:
    """JSON true or false as a boolean; fails for other JSON."""
    letters = first_bytes(a)
    true = np.array(letters == ord("t"))
    right = pa.array(true | (letters == ord("f")), mask=to_bools(a.is_null()))
    values = pc.if_else(right, pa.array(true), pa.scalar(None, pa.bool_()))
    return with_errors(values, _type_error(a, right, out))
