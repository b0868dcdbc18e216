"""What the tests of text, patterns and bytes share: running a call all ways, and boxes with a row inside."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from tests.laws.admits import admits
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model.build import call, cast
from tidegate.expr.model.tree import Call, Column, Expr, Literal
from tidegate.expr.model.types import BYTEA, INT4, TEXT, Type

POISON = [
    "",
    "a",
    "A",
    "b",
    "ab",
    "aé",
    "é",
    "日本",
    "ß",
    "x" * 101,
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "a\U0010ffff",
    " a ",
    "S",
    "ſ",
]


def type_of(value: object) -> Type:
    return BYTEA if isinstance(value, bytes) else INT4 if isinstance(value, int) else TEXT


def outcomes(
    name: str, args: Sequence[Any], types: Sequence[Type] | None = None, target: Type | None = None
) -> set[object]:
    """What a call gives, as ('value', v) or ('error', message), with any arguments constant."""
    types = [type_of(a) for a in args] if types is None else types
    found: set[object] = set()
    for constant in product((False, True), repeat=len(args)):
        columns: list[pa.Array] = []
        exprs: list[Expr] = []
        for arg, type_, fixed in zip(args, types, constant, strict=True):
            if fixed:
                exprs.append(Literal(pa.scalar(arg, type_.arrow), type_))
            else:
                exprs.append(Column(len(columns), type_))
                # A slice, with other rows and a null around.
                columns.append(pa.array([None, arg, arg, None], type_.arrow)[1:3])
        expr = call(name, *exprs) if target is None else cast(exprs[0], target)
        for rows in (2, 0):
            values, errors = Evaluation([c[:rows] for c in columns], rows).of(expr)[0]
            assert len(values) == rows
            for i in range(rows):
                message = None if errors is None else errors[i].as_py()
                value = values[i].as_py()
                found.add(
                    ("error", message)
                    if message
                    else ("value", tuple(value) if isinstance(value, list) else value)
                )
    return found


def spelled(value: object) -> str:
    """A short name for a parametrised test."""
    match value:
        case Column(index):
            return f"#{index}"
        case Literal(constant):
            return ascii(constant.as_py())
        case Call(function, args):
            return f"{function.name}({', '.join(map(spelled, args))})"
        case _:
            return ascii(value)


def boxes(seed: int, n: int, letters: str = "abAB é%_\\-1sS") -> tuple[pa.Array, Specs]:
    """n texts, and for each a range around it: wide, narrow with a common start, or the text itself."""
    draw = random.Random(seed)

    def text() -> str:
        if draw.random() < 0.3:
            return draw.choice(POISON)
        return "".join(draw.choice(letters) for _ in range(draw.randint(0, 6)))

    values, lows, highs = [], [], []
    for _ in range(n):
        start = text() * draw.randint(0, 1) * (1 + 20 * (draw.random() < 0.05))
        low, value, high = sorted(start + text() for _ in range(3))
        if draw.random() < 0.1:
            low = high = value
        values.append(value)
        lows.append(low if draw.random() < 0.95 else None)
        highs.append(high if draw.random() < 0.95 else None)
    return pa.array(values, pa.string()), Specs.ranged(
        TEXT, pa.array(lows, pa.string()), pa.array(highs, pa.string())
    )


def assert_sound(expr: Expr, values: pa.Array, specs: Specs) -> Specs:
    """The outcome of each row is covered by the description of its box; `expr` reads column 0."""
    described = Interpretation([specs]).of(expr)
    got, errors = Evaluation([values], len(values)).of(expr)[0]
    covered = admits(described, got, errors)
    wrong = np.flatnonzero(~covered)[:3]
    assert covered.all(), [(values[i], specs.low[i], specs.high[i], got[i]) for i in map(int, wrong)]  # type: ignore[index]  # Arrow arrays
    return described


def interpreted(expr: Expr, low: str | None, high: str | None) -> Specs:
    """What `expr` over column 0 is, where that lies between two texts."""
    bounds = (pa.array([end], pa.string()) for end in (low, high))
    return Interpretation([Specs.ranged(TEXT, *bounds)]).of(expr)
