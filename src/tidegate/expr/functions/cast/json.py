"""Casts between text and jsonb, and from jsonb to numbers and booleans.

Text is read and brought to its canonical spelling; jsonb becomes text as it stands. A JSON number becomes any
number type as a numeric of all its digits would, so `'2.5'::jsonb::int4` is 3; every other JSON type is an
error, JSON null included:

    '"1"'::jsonb::int4 → cannot cast jsonb string to type integer

Over containers the lane of the numbers tells the range, and the other lanes tell whether the cast may fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import json_specs
from tidegate.expr.canonical import canonical
from tidegate.expr.function import HEAVY, NEVER, UP, cast
from tidegate.expr.functions.cast_number import number_from_lanes, numeric_to_integer
from tidegate.expr.functions.number import INTEGER_NAMES
from tidegate.expr.functions.read_number import text_to_float, text_to_numeric
from tidegate.expr.functions.write_number import fitted
from tidegate.expr.json_path import first_letters, type_names
from tidegate.expr.outcome import Errors, Outcome, failing, first_error, with_errors
from tidegate.expr.spark_form import text_cast
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.types import BOOL, FLOATS, INTEGERS, JSONB, NUMERIC, TEXT, Type, numeric

_NAMES = {**INTEGER_NAMES, pa.bool_(): "boolean", pa.float32(): "real", pa.float64(): "double precision"}
_TENTHS = numeric(38, 1)


@cast(TEXT, JSONB, cost=HEAVY, stable=True)
def text_to_jsonb(a: pa.Array) -> Outcome:
    """The JSON that the text spells, in canonical form."""
    return canonical(a)


@cast(JSONB, TEXT, trend=(UP,), errors=NEVER, stable=True, spark=text_cast("{0}"))
def jsonb_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The canonical text of a JSON value; a string keeps its quotes."""
    return fitted(a, out)


def _is_number(a: pa.Array) -> pa.Array:
    """Where the JSON value is a number: digits or a minus come first. Null where null."""
    letters = first_letters(a)
    digits = ((letters >= ord("0")) & (letters <= ord("9"))) | (letters == ord("-"))
    return pa.array(digits, mask=to_bools(a.is_null()))


def _wrong(a: pa.Array, right: pa.Array, out: Type) -> Errors:
    """The error of values whose JSON type is not the right one."""
    if pc.all(right, min_count=0).as_py():
        return None
    kind = pc.replace_substring_regex(type_names(a), "^number$", "numeric")
    target = _NAMES.get(out.arrow, "numeric")
    message = pc.binary_join_element_wise("cannot cast jsonb ", kind, f" to type {target}", "")
    return failing(pc.invert(right), message)


def _numbers(a: pa.Array, right: pa.Array) -> pa.Array:
    return a if pc.all(right, min_count=0).as_py() else pc.if_else(right, a, pa.scalar(None, a.type))


def jsonb_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The JSON number as an integer, halves away from zero; an error for other JSON or if it does not fit."""
    right = _is_number(a)
    texts = _numbers(a, right)
    try:
        return with_errors(texts.cast(out.arrow), _wrong(a, right, out))
    except pa.ArrowInvalid:
        # Some number has a fraction or is too large. The first digit behind the point decides how it is
        # rounded.
        tenths = text_to_numeric(pc.replace_substring_regex(texts, r"(\.[0-9])[0-9]+$", r"\1"), _TENTHS)
    values, outside = numeric_to_integer(tenths.values, out)
    message = f"{_NAMES[out.arrow]} out of range"
    large = None if tenths.errors is None else failing(tenths.errors.is_valid(), message)
    return with_errors(values, first_error(_wrong(a, right, out), outside, large))


def jsonb_to_float(a: pa.Array, out: Type) -> Outcome:
    """The float nearest to the JSON number; an error for other JSON."""
    right = _is_number(a)
    values, errors = text_to_float(_numbers(a, right), out)
    return with_errors(values, first_error(_wrong(a, right, out), errors))


def jsonb_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The JSON number with the digits of the numeric; an error for other JSON and for what does not fit."""
    right = _is_number(a)
    values, errors = text_to_numeric(_numbers(a, right), out)
    return with_errors(values, first_error(_wrong(a, right, out), errors))


def number_transfer(out: Type, a: Specs) -> Specs:
    """The cast of jsonb to a number over containers, by lanes."""
    lanes = a.lanes
    if lanes is None:
        return Specs.anything(out, null=a.null, error=a.error | ~a.empty, empty=a.empty)
    return number_from_lanes(out, a, strings=False, fails=lanes.null)


_CLAIMS: dict[str, Any] = {"stable": True, "transfer": number_transfer}
for _type in INTEGERS:
    cast(JSONB, _type, **_CLAIMS)(jsonb_to_integer)
for _type in FLOATS:
    cast(JSONB, _type, **_CLAIMS)(jsonb_to_float)
cast(JSONB, NUMERIC, **_CLAIMS)(jsonb_to_numeric)


def bool_transfer(out: Type, a: Specs) -> Specs:
    """The cast of jsonb to bool over containers: true and false are lanes, all others fail."""
    lanes, some = json_specs.lanes_of(a), ~a.empty
    other = lanes.null | lanes.number.some | lanes.text.some | lanes.list | lanes.map
    return Specs.boolean(lanes.true & some, lanes.false & some, a.null, a.error | (other & some))


@cast(JSONB, BOOL, stable=True, transfer=bool_transfer)
def jsonb_to_bool(a: pa.Array, out: Type) -> Outcome:
    """JSON true and false as booleans; an error for other JSON."""
    letters = first_letters(a)
    true = np.array(letters == ord("t"))
    right = pa.array(true | (letters == ord("f")), mask=to_bools(a.is_null()))
    values = pc.if_else(right, pa.array(true), pa.scalar(None, pa.bool_()))
    return with_errors(values, _wrong(a, right, out))
