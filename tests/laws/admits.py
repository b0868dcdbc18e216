"""What a `Specs` means: which outcomes of rows it admits. Every soundness law asserts this.

admits(specs, outcome.values, outcome.errors).all()
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.json_domain import JsonDomain, JsonRange
from tidegate.expr.domain.specs import YES, Specs
from tidegate.expr.model import order
from tidegate.expr.model.outcome import Errors, spread, to_bools
from tidegate.expr.model.types import Kind, Type
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import InvalidJson, Json


def admits(specs: Specs, values: pa.Array, errors: Errors = None) -> np.ndarray:
    """Whether outcome i is one that container i's description covers. What every soundness law asserts."""
    n = len(values)
    failed = np.zeros(n, bool) if errors is None else to_bools(errors.is_valid())
    null = to_bools(values.is_null()) & ~failed
    plain = ~failed & ~null
    covered = (~failed | specs.error) & (~null | specs.null) & (~plain | ~specs.empty)
    return np.asarray(covered & (~plain | _covers(specs, values)), bool)


def _covers(specs: Specs, values: pa.Array) -> np.ndarray:
    n = len(values)
    if specs.true is not None and specs.false is not None:
        given = to_bools(pc.fill_null(values, False))
        return np.where(given, specs.true, specs.false)
    low, high = (spread(b[0], n) if len(b) == 1 else b for b in specs.bounds())
    above = to_bools(pc.fill_null(order.less_equal(low, values), True))
    below = to_bools(pc.fill_null(order.less_equal(values, high), True))
    result = above & below
    if specs.nan is not None:
        result = np.where(to_bools(pc.fill_null(pc.is_nan(values), False)), specs.nan, result)
    if specs.months is not None:
        result &= (order.interval_parts(values)[0] == 0) | specs.months
    if specs.json is not None:
        result &= json_admits(specs.json, values, specs.type)
    if specs.fields is not None:
        for i, inside in enumerate(specs.fields):
            result &= admits(inside, pc.struct_field(values, [i]))
    if (
        specs.element is not None and specs.element.size == 1
    ):  # one a container would need to be repeated by row
        outside = ~admits(specs.element, values.flatten())
        result[np.repeat(np.arange(n), pc.fill_null(pc.list_value_length(values), 0))[outside]] = False
    return np.asarray(result)


def json_admits(domain: JsonDomain, values: pa.Array, type_: Type) -> np.ndarray:
    """Whether JSON document i (or, for type text, what `->>` makes of it) is covered in container i.

    This is what soundness laws ask; it looks at one document after the other.
    """
    result = np.ones(len(values), bool)
    for i, text in enumerate(values.to_pylist()):
        if text is not None:
            meant = [exact_json.decode(text)] if type_.kind is Kind.JSONB else _meant(text)
            result[i] = any(_allows(domain, value, i) for value in meant)
    return result


def _allows(domain: JsonDomain, value: Json, i: int) -> bool:
    if isinstance(value, dict):
        known = all(_allows_key(domain, name, value, i) for name in domain.keys)
        return (
            known and _at(domain.map, i) and (not _at(domain.closed, i) or value.keys() <= domain.keys.keys())
        )
    if isinstance(value, str):
        return _within(domain.text, value, i)
    if isinstance(value, Decimal):
        fits = not _at(domain.number.whole, i) or value == value.to_integral_value()
        return fits and _within(domain.number, value, i)
    if isinstance(value, list):
        return _at(domain.list, i)
    return _at(domain.null if value is None else domain.true if value else domain.false, i)


def _allows_key(domain: JsonDomain, name: str, document: dict[str, Json], i: int) -> bool:
    specs = domain.key(name)
    if name not in document:
        return _at(specs.null, i)
    lanes = specs.json
    inside = _within(JsonRange(YES, specs.low, specs.high), exact_json.encode(document[name]), i)
    return inside and not _at(specs.empty, i) and lanes is not None and _allows(lanes, document[name], i)


def _at(flags: np.ndarray, i: int) -> bool:
    return bool(flags[i if len(flags) > 1 else 0])


def _within(values: JsonRange, value: Decimal | str, i: int) -> bool:
    low, high = (None if b is None else b[i if len(b) > 1 else 0].as_py() for b in (values.low, values.high))
    return _at(values.present, i) and (low is None or low <= value) and (high is None or value <= high)


def _meant(text: str) -> list[Json]:
    """The JSON values of which `->>` makes this text: itself as a string, and maybe what it spells."""
    try:
        value = exact_json.decode(text)
    except InvalidJson:
        return [text]
    return (
        [text]
        if value is None or isinstance(value, str) or exact_json.encode(value) != text
        else [text, value]
    )
