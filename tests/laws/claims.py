"""The laws of a declared function: one body for each claim, used on the registry and on planted lies alike.

Each takes an instance (an overload at concrete types) and a random generator, tries a few hundred rows at
once, and raises AssertionError with the first row that breaks the law: arguments, results, and what was
promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.laws.admits import admits
from tests.laws.boxes import Box, box, triple
from tests.laws.instances import Instance
from tests.laws.poison import with_nulls
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import MAX_FREE
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model import order
from tidegate.expr.model.function import ANY, AT_ENDS, EITHER, NEVER, UP, Function, MaskedTrend
from tidegate.expr.model.outcome import Outcome, spread, to_bools, with_errors
from tidegate.expr.model.tree import Call, Column, Expr, Literal
from tidegate.expr.model.types import BOOL, Kind

ROWS = 256
"""Rows of one case. A kernel call costs the same for 1 row as for 300, so this is where cases are cheapest.
"""


def fail(instance: Instance, law: str, bad: np.ndarray, **shown: Any) -> None:
    """Raises for the first bad row, showing what stands in it."""
    if not bad.any():
        return
    i = int(np.flatnonzero(bad)[0])
    told = "; ".join(f"{name} = {show(value, i)}" for name, value in shown.items())
    raise AssertionError(
        f"{instance.function.signature}: {law}, in {int(bad.sum())} of {len(bad)} rows. {told}"
    )


def show(value: Any, i: int) -> str:
    """Row i of whatever a law wants to show."""
    match value:
        case Outcome(values, errors):
            return f"error {errors[i]}" if errors is not None and errors[i].is_valid else show(values, i)
        case pa.Array():
            return (
                str(value[i if len(value) > 1 else 0])
                if not pa.types.is_string(value.type)
                else repr(value[i].as_py())
            )
        case np.ndarray():
            return str(value[i if len(value) > 1 else 0])
        case Specs():
            return show_specs(value, i)
        case list() | tuple():
            return f"({', '.join(show(v, i) for v in value)})"
        case _:
            return str(value)


def show_specs(specs: Specs, i: int) -> str:
    """One container of Specs."""
    low, high = (b[i if len(b) > 1 else 0] for b in specs.bounds())
    names = ("null", "error", "empty", "exact", "nan", "months", "true", "false")
    flags = {name: getattr(specs, name) for name in names}
    return (
        f"[{low} .. {high}"
        + "".join(f" {k}" for k, f in flags.items() if f is not None and f[i if len(f) > 1 else 0])
        + "]"
    )


def failed(outcome: Outcome) -> np.ndarray:
    """Which rows failed."""
    none = np.zeros(len(outcome.values), bool)
    return none if outcome.errors is None else to_bools(outcome.errors.is_valid())


def fine(outcome: Outcome) -> np.ndarray:
    """Which rows gave a value that is neither NULL nor NaN."""
    good = to_bools(outcome.values.is_valid()) & ~failed(outcome)
    if pa.types.is_floating(outcome.values.type):
        good &= ~to_bools(pc.is_nan(outcome.values))
    return good


def exactly(type_: Any, rows: pa.Array) -> Specs:
    """One container a row, which holds only that row."""
    extra: dict[str, Any] = {}
    if type_.is_float:
        extra["nan"] = np.zeros(len(rows), bool)
    if type_.kind is Kind.INTERVAL:
        extra["months"] = order.interval_parts(rows)[0] != 0
    if type_.kind is Kind.BOOL:
        return Specs.ranged(type_, rows, rows)
    return Specs.ranged(type_, rows, rows, exact=np.ones(len(rows), bool), **extra)


def trend_holds(instance: Instance, rng: np.random.Generator) -> None:
    """For a <= b <= c and all else fixed, the values come in the order that the trend claims."""
    function, types = instance.function, instance.types
    if function.trend is None:
        return
    for position in range(len(types)):
        triples = [triple(rng, t, ROWS, instance.topic(i)) for i, t in enumerate(types)]
        fixed: list[Any] = [b for _, b, _ in triples]
        if rng.random() < 0.5:  # literals: a claim may ask for one constant unit, zone or stride
            fixed = [b if i == position else b[0] for i, b in enumerate(fixed)]
        low, middle, high = triples[position]
        trend, holds = _claimed(instance, fixed, position, triples[position])
        if trend is None:
            continue
        a, b, c = (
            instance.run([*fixed[:position], value, *fixed[position + 1 :]]) for value in (low, middle, high)
        )
        both = fine(a) & fine(c) & holds
        shown = [spread(f, ROWS) for f in fixed]
        what = {"argument": position, "others": shown, "at": [low, middle, high], "gives": [a, b, c]}
        # Between two numbers a NaN is out of order, wherever NaN sorts: bounds speak only of numbers.
        fail(
            instance,
            f"{trend.name} with NaN between",
            both & ~fine(b) & ~failed(b) & to_bools(b.values.is_valid()),
            **what,
        )
        both &= fine(b)
        rises = to_bools(order.less_equal(a.values, b.values)) & to_bools(
            order.less_equal(b.values, c.values)
        )
        falls = to_bools(order.less_equal(b.values, a.values)) & to_bools(
            order.less_equal(c.values, b.values)
        )
        ordered = rises | falls if trend is EITHER else rises if trend is UP else falls
        fail(instance, f"not {trend.name}", both & ~ordered, **what)


def _claimed(
    instance: Instance, fixed: Sequence[Any], position: int, at: Sequence[pa.Array]
) -> tuple[Any, np.ndarray]:
    """The trend claimed for one argument that ranges while the others are fixed, and in which rows it is."""
    function, types = instance.function, instance.types
    specs = []
    for i, (type_, value) in enumerate(zip(types, fixed, strict=True)):
        if i == position:
            nan = np.zeros(ROWS, bool) if type_.is_float else None
            months = any_months(at) if type_.kind is Kind.INTERVAL else None
            specs.append(Specs.ranged(type_, at[0], at[-1], nan=nan, months=months))
        else:
            specs.append(
                Specs.literal(type_, value) if isinstance(value, pa.Scalar) else exactly(type_, value)
            )
    claim = function.trend(*specs) if callable(function.trend) else function.trend
    assert claim is not None
    one = claim[position if position < len(claim) else -1]
    mask = one.mask if isinstance(one, MaskedTrend) else np.ones(1, bool)
    return (one.trend if isinstance(one, MaskedTrend) else one), np.broadcast_to(mask, ROWS)


def any_months(values: Sequence[pa.Array]) -> np.ndarray:
    """Where one of the intervals has months; one of a month may lie between two of days only."""
    result: np.ndarray = np.logical_or.reduce([order.interval_parts(v)[0] != 0 for v in values])
    return result


def errors_hold(instance: Instance, rng: np.random.Generator) -> None:
    """NEVER: no row fails. AT_ENDS: where every corner of a box succeeds, a row inside of it does."""
    function, types = instance.function, instance.types
    if function.errors is NEVER and not function.sees_errors:
        rows = [mixed_argument(instance, i, rng) for i in range(len(types))]
        outcome = instance.run(rows) if rows else None
        if outcome is not None:
            fail(instance, "fails, though NEVER", failed(outcome), arguments=rows, gives=outcome)
    if function.errors is not AT_ENDS or not types:
        return
    triples = [triple(rng, t, ROWS, instance.topic(i)) for i, t in enumerate(types)]
    free = rng.permutation(len(types))[:MAX_FREE]
    corners = np.ones(ROWS, bool)
    for choice in product((0, 2), repeat=len(free)):
        sides = dict(zip(free.tolist(), choice, strict=True))
        corners &= ~failed(instance.run([t[sides.get(i, 0)] for i, t in enumerate(triples)]))
    inside = [t[1] if i in free else t[0] for i, t in enumerate(triples)]
    if instance.out.is_float:  # there NaN is let through without asking
        inside = [nan_somewhere(rng, a) for a in inside]
    outcome = instance.run(inside)
    fail(
        instance,
        "fails between fine corners, though AT_ENDS",
        corners & failed(outcome),
        boxes=triples,
        row=inside,
        gives=outcome,
    )


def nan_somewhere(rng: np.random.Generator, values: pa.Array) -> pa.Array:
    """Floats with NaN in some places; other arrays as they are."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pa.array(rng.random(len(values)) < 0.1), pa.scalar(float("nan"), values.type), values)


def mixed_argument(instance: Instance, position: int, rng: np.random.Generator) -> pa.Array:
    """Rows for one argument, NaN among them, NULL not."""
    _, middle, _ = triple(rng, instance.types[position], ROWS, instance.topic(position))
    return nan_somewhere(rng, middle)


def nulls_hold(instance: Instance, rng: np.random.Generator) -> None:
    """Strict: NULL where an argument is, nowhere else unless `makes_null`; NULL where it failed; the type as
    declared.
    """
    function, n = instance.function, ROWS
    if not instance.types:
        return
    rows: list[Any] = [
        with_nulls(rng, mixed_argument(instance, i, rng), 0.15) for i in range(len(instance.types))
    ]
    outcome = instance.run([Outcome(r) for r in rows] if function.sees_errors else rows)
    assert outcome.values.type == instance.out.arrow, (
        f"{function.signature} gives {outcome.values.type}, not {instance.out.arrow}"
    )
    assert len(outcome.values) == n
    null, bad = to_bools(outcome.values.is_null()), failed(outcome)
    what = {"arguments": rows, "gives": outcome, "value": outcome.values}
    if function.lenient:
        fail(instance, "a value beside an error", bad & ~null, **what)
        return
    missing = np.logical_or.reduce([to_bools(r.is_null()) for r in rows])
    fail(instance, "a value beside an error", bad & ~null & ~missing, **what)
    fail(instance, "not NULL though an argument is", missing & ~null, **what)
    if not function.makes_null:
        fail(instance, "NULL though no argument is, and not makes_null", null & ~missing & ~bad, **what)


def nan_holds(instance: Instance, rng: np.random.Generator) -> None:
    """A float function with a trend gives NaN for NaN, and never an error for it."""
    function, types = instance.function, instance.types
    floats = [i for i, t in enumerate(types) if t.is_float]
    if function.transfer is not None or not instance.out.is_float or not floats or function.lenient:
        return
    if function.trend is None and function.errors is not AT_ENDS:
        return
    rows = [triple(rng, t, ROWS, instance.topic(i))[1] for i, t in enumerate(types)]
    position = int(rng.choice(floats))
    specs = [exactly(t, r) for t, r in zip(types, rows, strict=True)]
    claim = function.trend(*specs) if callable(function.trend) else function.trend
    rows[position] = pa.repeat(pa.scalar(float("nan"), types[position].arrow), ROWS)
    outcome = instance.run(rows)
    fail(instance, "an error for NaN", failed(outcome), argument=position, arguments=rows, gives=outcome)
    if claim is not None and claim[position if position < len(claim) else -1] is not None:
        number = ~to_bools(pc.fill_null(pc.is_nan(outcome.values), True))
        fail(instance, "a number for NaN", number, argument=position, arguments=rows, gives=outcome)


def _fails(values: Any, mask: Any) -> Outcome:
    n = len(values) if isinstance(values, pa.Array) else len(mask)
    errors = pc.if_else(spread(mask, n), pa.scalar("planted"), pa.scalar(None, pa.string()))
    return with_errors(spread(values, n), errors)


FAILS = Function("fails", (ANY, ANY), lambda a, _: a, _fails, lenient=True)
"""Makes rows fail on purpose: what stands in a column cannot, but what a function is given can."""


def transfer_holds(instance: Instance, rng: np.random.Generator) -> None:
    """What is concluded of a box covers the outcome of every row in it: values, NULL, errors, NaN."""
    n = ROWS
    kinds = ["one" if rng.random() < 0.1 else "many"] * len(instance.types)
    for i in range(len(kinds)):
        topical = instance.function.name != "cast" and instance.types[i].kind is Kind.TEXT
        if rng.random() < (0.5 if topical else 0.1):
            kinds[i] = "literal"
    boxes = [box(rng, t, n, instance.topic(i), kinds[i]) for i, t in enumerate(instance.types)]
    outcome = evaluate_boxes(instance, boxes)
    args = tuple(Column(i, t) for i, t in enumerate(instance.types))
    specs = Interpretation([b.specs for b in boxes]).of(Call(instance.function, args, instance.out))
    assert specs.type == instance.out, (
        f"{instance.function.signature}: Specs of {specs.type}, not {instance.out}"
    )
    admitted = admits(specs, outcome.values, outcome.errors)
    fail(
        instance,
        "not admitted",
        ~admitted,
        boxes=[b.specs for b in boxes],
        row=[b.rows for b in boxes],
        gives=outcome,
        specs=specs,
    )


def evaluate_boxes(instance: Instance, boxes: Sequence[Box]) -> Outcome:
    """The call over the rows of boxes, by the real evaluator."""
    columns: list[pa.Array] = []
    args: list[Expr] = []
    for type_, given in zip(instance.types, boxes, strict=True):
        arg: Expr = Column(len(columns), type_)
        columns.append(given.rows)
        if given.literal is not None:
            arg = Literal(given.literal, type_)
        elif given.failed.any():
            arg = Call(FAILS, (arg, Column(len(columns), BOOL)), type_)
            columns.append(pa.array(given.failed))
        args.append(arg)
    return Evaluation(columns, ROWS).of(Call(instance.function, tuple(args), instance.out))[0]


def slices_hold(instance: Instance, rng: np.random.Generator) -> None:
    """The same rows give the same outcome: again, in a slice, as a scalar, and none give none."""
    if not instance.types or instance.function.sees_errors:
        return
    rows = [with_nulls(rng, mixed_argument(instance, i, rng), 0.1) for i in range(len(instance.types))]
    whole = instance.run(rows)
    start, size = int(rng.integers(1, ROWS // 2)), int(rng.integers(1, 40))
    part = instance.run([r.slice(start, size) for r in rows])
    _same(
        instance,
        "a slice differs",
        Outcome(whole.values.slice(start, size), _cut(whole, start, size)),
        part,
        rows,
    )
    _same(instance, "again differs", whole, instance.run(rows), rows)
    none = instance.run([r.slice(start, 0) for r in rows])
    assert len(none.values) == 0
    assert none.values.type == instance.out.arrow, f"no rows: {none.values.type}"
    scalar = int(rng.integers(len(rows)))
    if len(rows) > 1:
        constant = [pa.repeat(r[start], ROWS) if i == scalar else r for i, r in enumerate(rows)]
        given = [r[start] if i == scalar else r for i, r in enumerate(rows)]
        _same(
            instance,
            f"argument {scalar} as a scalar differs",
            instance.run(constant),
            instance.run(given),
            constant,
        )


def _cut(outcome: Outcome, start: int, size: int) -> pa.Array | None:
    return None if outcome.errors is None else outcome.errors.slice(start, size)


def _same(instance: Instance, law: str, a: Outcome, b: Outcome, rows: Sequence[pa.Array]) -> None:
    assert a.values.type == b.values.type, (
        f"{instance.function.signature}: {law}: {a.values.type} and {b.values.type}"
    )
    valid = (
        np.logical_and.reduce([to_bools(r.is_valid()) for r in rows])[: len(a.values)]
        | instance.function.lenient
    )
    if a.values.equals(b.values) and np.array_equal(failed(a), failed(b)):
        return
    differ = np.array([repr(x) != repr(y) for x, y in zip(a.values, b.values, strict=True)], bool)
    if len(a.values) == len(rows[0]):
        differ |= (failed(a) != failed(b)) & valid
    fail(instance, law, differ, arguments=rows, first=a, second=b)
