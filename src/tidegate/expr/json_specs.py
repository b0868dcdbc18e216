"""JSON operators over containers: what `->`, `->>`, `?` and `@>` may give, from the lanes of what they read.

    payload ->> 'ts' > '5'    in a part whose payloads are {"ts": 1 .. 4} or lack the key

`get_key` takes the Specs of the key out of the lanes and adds NULL for maps that lack it and for all that is
no map; `text_of` turns JSON into text, where JSON null becomes NULL, and keeps the lanes, so that a cast to
numeric still knows 1 .. 4. The texts are bounded lane by lane: a number's text begins with a digit or a
minus, so it lies in '-' .. ':'; a list's begins with '['; so even `payload ->> 'ts' = 'done'` is known to be
false here. The ranges of all lanes that occur are joined.

None of these operators fails, whatever it meets: errors are only those of their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.canonical import quoted
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import Json
from tidegate.expr.json_path import Either, Index, Key, Step
from tidegate.expr.lanes import Lanes, Range
from tidegate.expr.specs import NO, Specs
from tidegate.expr.types import JSONB, NUMERIC, TEXT

TYPE_NAMES = ("array", "boolean", "null", "number", "object", "string")


def lanes_of(json: Specs) -> Lanes:
    """The lanes of a jsonb, or anything where nothing is known."""
    return Lanes.anything() if json.lanes is None else json.lanes


def constant(specs: Specs) -> pa.Scalar | None:
    """The one value of an argument that is a constant."""
    if specs.exact.all() and specs.low is not None and len(specs.low) == 1 and not specs.null.any():
        return specs.low[0]
    return None


def get_key(json: Specs, name: str) -> Specs:
    """`json -> 'name'`: what maps hold under the key, and NULL for what is no map."""
    lanes = lanes_of(json)
    found = lanes.key(name)
    null = json.null | (lanes.map & found.null) | lanes.no_map()
    return replace(found, null=null, error=json.error, empty=json.empty | ~lanes.map | found.empty)


def get_index(json: Specs) -> Specs:
    """`json -> n`: anything where there are lists, and nothing elsewhere."""
    return Specs.anything(JSONB, error=json.error, empty=json.empty | ~lanes_of(json).list)


def get_step(json: Specs, step: Step) -> Specs:
    """One step of a path."""
    match step:
        case Key(name):
            return get_key(json, name)
        case Index():
            return get_index(json)
        case Either(name):
            found = get_key(json, name)
            if step.at is None or not (lanes_of(json).list & ~json.empty).any():
                return found
            return found.union(replace(get_index(json), lanes=Lanes.anything()))


def get_path(json: Specs, path: Sequence[Step]) -> Specs:
    """All steps of a path."""
    return reduce(get_step, path, json)


def unknown_path(*args: Specs) -> Specs:
    """A path that is not a constant: any JSON, or none."""
    error = reduce(np.logical_or, [arg.error for arg in args])
    empty = reduce(np.logical_or, [arg.empty for arg in args])
    return Specs.anything(JSONB, error=error, empty=empty)


def text_of(json: Specs) -> Specs:
    """JSON as text: JSON null becomes NULL, and the lanes stay."""
    lanes = lanes_of(json)
    low, high = _ends(_texts(lanes))
    some = lanes.scalar() | lanes.list | lanes.map
    return Specs.ranged(
        TEXT,
        low,
        high,
        null=json.null | lanes.null,
        error=json.error,
        empty=json.empty | ~some,
        lanes=json.lanes,
    )


def typeof(json: Specs) -> Specs:
    """jsonb_typeof: the names of the lanes that occur, from the least to the greatest."""
    lanes = lanes_of(json)
    flags = (lanes.list, lanes.true | lanes.false, lanes.null, lanes.number.some, lanes.map, lanes.text.some)
    names = [_one(flag, name) for flag, name in zip(flags, TYPE_NAMES, strict=True)]
    low, high = _ends(names)
    return Specs.ranged(TEXT, low, high, null=json.null, error=json.error, empty=json.empty)


def has_key(json: Specs, name: str) -> Specs:
    """`json ? 'name'`: told for maps by their keys; lists and strings may have it or not."""
    lanes = lanes_of(json)
    found = lanes.key(name)
    vague = lanes.list | lanes.text.has(pa.scalar(name))
    true = (lanes.map & ~found.empty) | vague
    plain = lanes.null | lanes.true | lanes.false | lanes.number.some
    false = (lanes.map & found.null) | lanes.list | lanes.text.some | plain
    some = ~json.empty
    return Specs.boolean(true & some, false & some, json.null, json.error)


def contains(json: Specs, needle: Json) -> Specs:
    """`json @> needle`: may be true only where the lanes admit all that the needle holds."""
    lanes = lanes_of(json)
    may = may_contain(json, needle)
    if not isinstance(needle, dict | list):
        may = may | lanes.list  # a list contains a scalar that is one of its elements, at the top only
    some = ~json.empty
    return Specs.boolean(may & some, some | NO, json.null, json.error)


def may_contain(json: Specs, needle: Json) -> np.ndarray:
    """Where a value may contain `needle`."""
    lanes = lanes_of(json)
    match needle:
        case dict():
            inside = [may_contain(get_key(json, name), value) for name, value in needle.items()]
            may = reduce(np.logical_and, inside, lanes.map)
        case list():
            may = lanes.list
        case str():
            may = lanes.text.has(pa.scalar(needle))
        case None:
            may = lanes.null
        case bool():
            may = lanes.true if needle else lanes.false
        case _:
            may = _may_be_number(lanes.number, needle)
    inside_some: np.ndarray = may & ~json.empty
    return inside_some


def _may_be_number(numbers: Range, value: Decimal) -> np.ndarray:
    try:
        return numbers.has(pa.scalar(value, NUMERIC.arrow))
    except (pa.ArrowInvalid, ValueError):
        return numbers.some  # more digits than the bounds have


def bounded(json: Specs) -> Specs:
    """The same with bounds of its canonical text, if it has none: one value or one letter a lane."""
    if json.low is not None or json.high is not None or json.lanes is None:
        return json
    lanes = json.lanes
    text = lanes.text
    strings = _letter(text, '"', "#", quoted)
    low, high = _ends([_one(lanes.null, "null"), strings, *_texts(replace(lanes, text=Range()))])
    return Specs.ranged(
        JSONB, low, high, null=json.null, error=json.error, empty=json.empty, exact=json.exact, lanes=lanes
    )


def _texts(lanes: Lanes) -> list[Range]:
    """The range of texts that each lane makes."""
    return [
        lanes.text,
        _letter(lanes.number, "-", ":", _digits),
        _one(lanes.true, "true"),
        _one(lanes.false, "false"),
        _one(lanes.list, "[", "\\"),
        _one(lanes.map, "{", "|"),
    ]


def _one(some: np.ndarray, low: str, high: str | None = None) -> Range:
    return Range(some, _bound(low), _bound(low if high is None else high))


@cache
def _bound(text: str) -> pa.Array:
    return pa.array([text])


def _letter(values: Range, low: str, high: str, spelled: Callable[[pa.Array], pa.Array]) -> Range:
    """Texts that begin with the letter `low` (and so lie below `high`); one text where there is one value."""
    rough = _one(values.some, low, high)
    if values.low is None or values.high is None or not values.some.any():
        return rough
    same = pc.fill_null(pc.equal(values.low, values.high), False)
    if not pc.any(same, min_count=0).as_py():
        return rough
    exact = spelled(pc.if_else(same, values.low, pa.scalar(None, values.low.type)))
    return Range(values.some, pc.coalesce(exact, _bound(low)[0]), pc.coalesce(exact, _bound(high)[0]))


def _digits(numbers: pa.Array) -> pa.Array:
    """Numbers of scale 18 in their canonical spelling."""
    return duck("rtrim(rtrim(d::VARCHAR, '0'), '.')", pa.string(), d=numbers)


def _ends(ranges: Sequence[Range]) -> tuple[pa.Array | None, pa.Array | None]:
    """The bounds of all ranges together."""
    both = reduce(Range.union, ranges, Range())
    return both.low, both.high
