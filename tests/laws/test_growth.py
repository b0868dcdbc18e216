"""No function takes time that is quadratic in a text, a document or a list that a client chose: the whole registry.

Every overload is run over one row with one argument long, and with all of them long, in each of the shapes below, at n
and at 8 n. CPU time may grow by 30: linear is 8, quadratic 64. What stays below some milliseconds at 8 n is fine; what
does not is measured again, thrice, before it counts, as the machine may be busy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.laws.constants import TABLE
from tests.laws.instances import Instance, instances
from tests.laws.poison import corpus
from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.types import Kind, Type

N = 3_000
TIMES = 30
NOISE_S = 0.004
SHAPES: dict[str, Callable[[int], str]] = {
    "letters": lambda n: "a" * n,
    "another at the end": lambda n: "a" * (n - 1) + "b",
    "digits": lambda n: "9" * n,
    "points": lambda n: "1." * (n // 2),
    "spaces": lambda n: " " * n,
    "umlauts": lambda n: "é" * n,
    "wild cards": lambda n: "%a_" * (n // 3),
    "backslashes": lambda n: "\\" * n,
    "quotes": lambda n: '"' * n,
    "opened": lambda n: "(" * n,
    "brackets": lambda n: "[" * n,
    "groups": lambda n: "(a?)" * (n // 4),
    "classes": lambda n: "[a-z]*" * (n // 6),
    "choices": lambda n: "ab|" * (n // 3),
    "a picture": lambda n: "YYYY-MM-DD " * (n // 11),
    "years": lambda n: "Y" * n,
    "modes": lambda n: "FM" * (n // 2),
    "words": lambda n: "1 day " * (n // 6),
    "a clock": lambda n: "1:" * (n // 2),
    "a duration": lambda n: "P" + "1Y" * (n // 2),
    "an array": lambda n: "{" + "1," * (n // 2) + "1}",
    "an array of quoted": lambda n: "{" + '"a",' * (n // 4) + "1}",
    "braces": lambda n: "{" * (n // 2) + "}" * (n // 2),
    "levels": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "a list": lambda n: "[" + "1," * (n // 2) + "1]",
    "a map": lambda n: "{" + ",".join(f'"{i}":{i}' for i in range(n // 8)) + "}",
    "hexadecimal": lambda n: "\\x" + "ab" * (n // 2),
}
DOCUMENTS = ("a list", "a map")
STRINGS = ("letters", "umlauts", "backslashes")


def long_value(shape: str, type_: Type, n: int) -> pa.Array | None:
    """One value of the type with that shape; None if it has none."""
    text = SHAPES[shape](n)
    match type_.kind:
        case Kind.TEXT:
            return pa.array([text])
        case Kind.JSONB if shape in DOCUMENTS:
            return pa.array([text])
        case Kind.JSONB if shape in STRINGS:
            return pa.array([json.dumps(text, ensure_ascii=False)])
        case Kind.BYTEA if shape in STRINGS:
            return pa.array([text.encode()], type_.arrow)
        case Kind.ARRAY if shape in STRINGS and type_.element is not None:
            rows = corpus(type_.element)
            size = n // 4
            many = rows.take(pa.array([i % len(rows) if shape == "letters" else 0 for i in range(size)]))
            return pa.ListArray.from_arrays(pa.array([0, size], pa.int32()), many).cast(type_.arrow)
        case _:
            return None


def short_value(instance: Instance, place: int, type_: Type) -> pa.Array:
    """One value that means something as this argument."""
    for value in TABLE.get(instance.topic(place), ()):
        if isinstance(value, str) and value and type_.kind is Kind.TEXT:
            return pa.array([value])
        if isinstance(value, int) and 0 < value < 100 and type_.is_integer:
            return pa.array([value], type_.arrow)
    found = corpus(type_)
    return found.slice(len(found) // 2, 1)


def cpu(instance: Instance, places: tuple[int, ...], shape: str, n: int) -> tuple[float, int]:
    """CPU seconds, and the bytes of the result."""
    args = []
    for i, type_ in enumerate(instance.types):
        chosen = long_value(shape, type_, n) if i in places else None
        args.append(short_value(instance, i, type_) if chosen is None else chosen)
    given = (
        [Outcome(arg) for arg in args]
        if instance.function.sees_errors
        else [args[0], *(a[0] for a in args[1:])]
    )
    start = time.process_time()
    found = instance.run(given)
    return time.process_time() - start, found.values.nbytes


def grows(instance: Instance, places: tuple[int, ...], shape: str) -> str | None:
    """What is wrong with the growth, if it is."""
    for repeats in (1, 3, 3):
        small, large = (min(cpu(instance, places, shape, n) for _ in range(repeats)) for n in (N, 8 * N))
        # A separator between all elements: the result itself is as large as both together, and has its own limit.
        if large[0] < TIMES * max(small[0], NOISE_S / 8) or large[1] > TIMES * small[1]:
            return None
    return f"{instance}, arguments {places}, {shape}: {small[0] * 1e3:.1f} ms at n, {large[0] * 1e3:.1f} ms at 8 n"


def _inside(type_: Type) -> Kind | None:
    """The kind of an array's elements, one for all that have a fixed width."""
    if type_.element is None:
        return None
    return type_.element.kind if type_.element.kind in (Kind.TEXT, Kind.JSONB, Kind.ARRAY) else Kind.INT4


def of_texts() -> list[Instance]:
    """Every overload that takes something long, once for each combination of kinds."""
    found: dict[object, Instance] = {}
    for instance in instances():
        kinds = tuple((t.kind, _inside(t)) for t in instance.types)
        if any(kind in (Kind.TEXT, Kind.JSONB, Kind.BYTEA, Kind.ARRAY) for kind, _ in kinds):
            found.setdefault((instance.function.name, kinds, instance.out.kind), instance)
    return list(found.values())


@pytest.mark.parametrize("instance", of_texts(), ids=str)
def test_growth(instance: Instance) -> None:
    wrong = []
    for shape in SHAPES:
        fitting = [i for i, t in enumerate(instance.types) if long_value(shape, t, 8) is not None]
        for places in dict.fromkeys([*((i,) for i in fitting), tuple(fitting)]):
            found = grows(instance, places, shape) if places else None
            wrong += [found] if found else []
    assert not wrong, "\n".join(wrong)
