"""Transfers of JSON operators: the Specs of `->`, `->>`, `?` and `@>`.

    payload ->> 'ts' > '5'    in a part whose payloads are {"ts": 1 .. 4} or lack the key

`get_key` takes the Specs of the key from the `JsonDomain` and adds NULL for maps that lack it and for values that are not
maps. `text_of` turns JSON into text, where JSON null becomes NULL, and keeps the domain, so that a cast to numeric still
knows 1 .. 4. Texts are bounded by JSON type: a number's text begins with a digit or a minus, so it lies in '-' .. ':'; a
list's begins with '['. So even `payload ->> 'ts' = 'done'` is known to be false here. The bounds cover the ranges of all types
that occur.

These operators never fail: errors are only those of their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.json_domain import JsonDomain, JsonRange
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.model.types import JSONB, NUMERIC, TEXT
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.json.canonical import quote_strings
from tidegate.expr.primitives.json.exact import Json
from tidegate.expr.primitives.json.path import ElementStep, IndexStep, KeyOrIndexStep, KeyStep, PathStep

TYPE_NAMES = ("array", "boolean", "null", "number", "object", "string")


def domain_of(json: Specs) -> JsonDomain:
    """The domain of a jsonb, or any JSON where nothing is known."""
    return JsonDomain.anything() if json.json is None else json.json


def get_key(json: Specs, name: str) -> Specs:
    """`json -> 'name'`: the value in maps, and NULL for anything else."""
    domain = domain_of(json)
    inside = domain.key(name)
    null = json.null | (domain.map & inside.null) | domain.not_map()
    return replace(inside, null=null, error=json.error, empty=json.empty | ~domain.map | inside.empty)


def get_index(json: Specs) -> Specs:
    """`json -> n`: anything where there are lists, and nothing elsewhere."""
    return Specs.anything(JSONB, error=json.error, empty=json.empty | ~domain_of(json).list)


def get_element(json: Specs, step: ElementStep) -> Specs:
    """`json -> n`: anything where there are lists, and a scalar itself if n is 0 or -1."""
    inside, domain = get_index(json), domain_of(json)
    scalar = domain.null | domain.scalar()
    if not step.reads_scalars or not (scalar & ~json.empty).any():
        return inside
    itself = Specs.ranged(
        JSONB, None, None, null=json.null, error=json.error, empty=json.empty | ~scalar,
        json=replace(domain, list=NO, map=NO, keys={}, closed=YES),
    )  # fmt: skip
    return replace(inside, json=JsonDomain.anything()).union(itself)


def get_step(json: Specs, step: PathStep) -> Specs:
    """One step of a path."""
    match step:
        case KeyStep(name):
            return get_key(json, name)
        case ElementStep():
            return get_element(json, step)
        case IndexStep():
            return get_index(json)
        case KeyOrIndexStep(name):
            inside = get_key(json, name)
            if step.at is None or not (domain_of(json).list & ~json.empty).any():
                return inside
            return inside.union(replace(get_index(json), json=JsonDomain.anything()))


def get_path(json: Specs, path: Sequence[PathStep]) -> Specs:
    """All steps of a path."""
    return reduce(get_step, path, json)


def unknown_path(*args: Specs) -> Specs:
    """The result of a path that is not constant: any JSON, or NULL."""
    error = reduce(np.logical_or, [arg.error for arg in args])
    empty = reduce(np.logical_or, [arg.empty for arg in args])
    return Specs.anything(JSONB, error=error, empty=empty)


def text_of(json: Specs) -> Specs:
    """JSON as text: JSON null becomes NULL, and the domain is kept."""
    domain = domain_of(json)
    low, high = _ends(_texts(domain))
    present = domain.scalar() | domain.list | domain.map
    return Specs.ranged(
        TEXT,
        low,
        high,
        null=json.null | domain.null,
        error=json.error,
        empty=json.empty | ~present,
        json=json.json,
    )


def typeof(json: Specs) -> Specs:
    """jsonb_typeof: bounded by the names of the types that occur."""
    domain = domain_of(json)
    flags = (
        domain.list,
        domain.true | domain.false,
        domain.null,
        domain.number.present,
        domain.map,
        domain.text.present,
    )
    names = [_constant_range(flag, name) for flag, name in zip(flags, TYPE_NAMES, strict=True)]
    low, high = _ends(names)
    return Specs.ranged(TEXT, low, high, null=json.null, error=json.error, empty=json.empty)


def has_key(json: Specs, name: str) -> Specs:
    """`json ? 'name'`: decided for maps by their keys; lists and strings may hold it or not."""
    domain = domain_of(json)
    inside = domain.key(name)
    vague = domain.list | domain.text.has(pa.scalar(name))
    true = (domain.map & ~inside.empty) | vague
    plain = domain.null | domain.true | domain.false | domain.number.present
    false = (domain.map & inside.null) | domain.list | domain.text.present | plain
    not_empty = ~json.empty
    return Specs.boolean(true & not_empty, false & not_empty, json.null, json.error)


def contains(json: Specs, needle: Json) -> Specs:
    """`json @> needle`: may be true only where the domain admits every part of the needle."""
    domain = domain_of(json)
    may = may_contain(json, needle)
    if not isinstance(needle, dict | list):
        may = may | domain.list  # at the top level only, a list contains a scalar that is one of its elements
    not_empty = ~json.empty
    return Specs.boolean(may & not_empty, not_empty | NO, json.null, json.error)


def may_contain(json: Specs, needle: Json) -> np.ndarray:
    """Where a value may contain `needle`."""
    domain = domain_of(json)
    match needle:
        case dict():
            inside = [may_contain(get_key(json, name), value) for name, value in needle.items()]
            may = reduce(np.logical_and, inside, domain.map)
        case list():
            may = domain.list
        case str():
            may = domain.text.has(pa.scalar(needle))
        case None:
            may = domain.null
        case bool():
            may = domain.true if needle else domain.false
        case _:
            may = _may_be_number(domain.number, needle)
    result: np.ndarray = may & ~json.empty
    return result


def _may_be_number(numbers: JsonRange, value: Decimal) -> np.ndarray:
    try:
        return numbers.has(pa.scalar(value, NUMERIC.arrow))
    except (pa.ArrowInvalid, ValueError):
        return numbers.present  # more digits than the bounds have


def with_text_bounds(json: Specs) -> Specs:
    """`json` with bounds of its canonical text: one value or one first letter for each JSON type."""
    if json.low is not None or json.high is not None or json.json is None:
        return json
    domain = json.json
    text = domain.text
    strings = _text_range(text, '"', "#", quote_strings)
    low, high = _ends(
        [_constant_range(domain.null, "null"), strings, *_texts(replace(domain, text=JsonRange()))]
    )
    return Specs.ranged(
        JSONB, low, high, null=json.null, error=json.error, empty=json.empty, exact=json.exact, json=domain
    )


def _texts(domain: JsonDomain) -> list[JsonRange]:
    """The range of texts of each JSON type."""
    return [
        domain.text,
        _text_range(domain.number, "-", ":", _digits),
        _constant_range(domain.true, "true"),
        _constant_range(domain.false, "false"),
        _constant_range(domain.list, "[", "\\"),
        _constant_range(domain.map, "{", "|"),
    ]


def _constant_range(present: np.ndarray, low: str, high: str | None = None) -> JsonRange:
    return JsonRange(present, _bound(low), _bound(low if high is None else high))


@cache
def _bound(text: str) -> pa.Array:
    return pa.array([text])


def _text_range(values: JsonRange, low: str, high: str, to_text: Callable[[pa.Array], pa.Array]) -> JsonRange:
    """Texts that begin with the letter `low`, so below `high`; exactly one text where there is one value."""
    rough = _constant_range(values.present, low, high)
    if values.low is None or values.high is None or not values.present.any():
        return rough
    same = pc.fill_null(pc.equal(values.low, values.high), False)
    if not pc.any(same, min_count=0).as_py():
        return rough
    exact = to_text(pc.if_else(same, values.low, pa.scalar(None, values.low.type)))
    return JsonRange(values.present, pc.coalesce(exact, _bound(low)[0]), pc.coalesce(exact, _bound(high)[0]))


def _digits(numbers: pa.Array) -> pa.Array:
    """Numbers of scale 18 in canonical spelling."""
    return duckdb_eval("rtrim(rtrim(d::VARCHAR, '0'), '.')", pa.string(), d=numbers)


def _ends(ranges: Sequence[JsonRange]) -> tuple[pa.Array | None, pa.Array | None]:
    """The bounds of the union of all ranges."""
    both = reduce(JsonRange.union, ranges, JsonRange())
    return both.low, both.high
