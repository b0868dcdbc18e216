"""An argument that is one value in all containers may still be NULL, or fail, in some of their rows.

Transfers look at constant arguments (`claims.constant`): the unit of date_trunc, the pattern of LIKE, the key of `->`. A
value counts as a constant only if every row has it. In

    payload -> (CASE WHEN 1 / x > 0 THEN 'a' ELSE 'a' END)

the key is 'a' or the error "division by zero": a transfer that takes it for the constant 'a' and describes `payload -> 'a'`
has lost the error, and the filter above it drops a part whose rows fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.laws.admits import admits
from tests.laws.boxes import Box, box, pool
from tests.laws.claims import ROWS, evaluate_boxes, fail
from tests.laws.instances import Instance, of
from tidegate.expr.domain import json_transfer
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.json_domain import JsonDomain
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.boolean.conditional import mask_specs
from tidegate.expr.functions.json.access import get_key
from tidegate.expr.functions.text.pattern import starts_with
from tidegate.expr.model import order
from tidegate.expr.model.function import NEVER, REGISTRY, Function
from tidegate.expr.model.tree import Call, Column
from tidegate.expr.model.types import BOOL, JSONB, TEXT, Kind, Type

CASES = 6
"""Cases of 256 rows for each argument of a function: the lies below are caught by each of 20 sets of so many."""
TYPES = 3
"""Instances of one overload: constants are text and small numbers, whatever stands for `any`."""
DISTURBED = ("null", "error", "both")


def one_value(rng: np.random.Generator, type_: Type, topic: tuple[str, int]) -> Box:
    """One value for all containers, which some rows lack: they are NULL or failed, and the flags say where they may be."""
    values = pool(type_, int(rng.integers(6)), topic).values
    value = values[int(rng.integers(len(values)))]
    kind = DISTURBED[int(rng.integers(len(DISTURBED)))]
    flags = rng.random(ROWS) < 0.7 if rng.random() < 0.5 else np.ones(1, bool)
    may = {name: flags if kind in (name, "both") else np.zeros(1, bool) for name in ("null", "error")}
    failed = np.broadcast_to(may["error"], ROWS) & (rng.random(ROWS) < 0.3)
    null = (np.broadcast_to(may["null"], ROWS) & (rng.random(ROWS) < 0.3)) | failed
    rows = pa.repeat(value, ROWS).take(pa.array(np.arange(ROWS), mask=null))
    return Box(_specs(type_, value, may), rows, failed)


def _specs(type_: Type, value: pa.Scalar, flags: dict[str, np.ndarray]) -> Specs:
    bound = pa.repeat(value, 1)
    if type_.kind is Kind.BOOL:
        return Specs.ranged(type_, bound, bound, **flags)
    extra: dict[str, Any] = {"nan": np.zeros(1, bool)} if type_.is_float else {}
    if type_.kind is Kind.INTERVAL:
        extra["months"] = order.interval_parts(bound)[0] != 0
    if type_.kind is Kind.JSONB:
        extra["json"] = JsonDomain.of_literal(value.as_py())
    return Specs.ranged(type_, bound, bound, exact=np.ones(1, bool), **flags, **extra)


def constants_hold(instance: Instance, rng: np.random.Generator) -> None:
    """What is concluded covers every row, although a constant argument may be NULL or fail."""
    for position in range(len(instance.types)):
        boxes = [
            one_value(rng, type_, instance.topic(i))
            if i == position
            else box(rng, type_, ROWS, instance.topic(i), "literal" if rng.random() < 0.5 else "many")
            for i, type_ in enumerate(instance.types)
        ]
        outcome = evaluate_boxes(instance, boxes)
        args = tuple(Column(i, type_) for i, type_ in enumerate(instance.types))
        specs = Interpretation([b.specs for b in boxes]).of(Call(instance.function, args, instance.out))
        admitted = admits(specs, outcome.values, outcome.errors)
        shown = {"boxes": [b.specs for b in boxes], "row": [b.rows for b in boxes]}
        fail(instance, f"argument {position} is no constant", ~admitted, **shown, gives=outcome, specs=specs)


def try_cases(instance: Instance, seed: int) -> None:
    """As many cases as one test takes."""
    for case in range(CASES):
        constants_hold(instance, np.random.default_rng([seed, case]))


def with_own_rule() -> list[Instance]:
    """Functions of two arguments or more whose transfer or trend may look at one of them."""
    functions = [f for f in REGISTRY if f.transfer is not None or callable(f.trend)]
    return [instance for f in functions for instance in of(f)[:TYPES] if len(instance.types) > 1]


@pytest.mark.parametrize("instance", with_own_rule(), ids=str)
def test_a_constant_that_may_be_null_or_fail_is_none(instance: Instance) -> None:
    try_cases(instance, seed=0)


def _careless(specs: Specs) -> pa.Scalar:
    """The one value of an argument, whatever else may stand in its place."""
    return specs.low[0] if specs.low is not None and len(specs.low) == 1 and specs.exact.all() else None


def careless_get(out: Type, json: Specs, key: Specs) -> Specs:
    """`json -> key` that forgets that the key may be NULL or fail."""
    name = _careless(key)
    if name is None:
        return json_transfer.unknown_path(json, key)
    return json_transfer.with_text_bounds(json_transfer.get_key(json, name.as_py()))


def careless_starts_with(out: Type, a: Specs, prefix: Specs) -> Specs:
    """starts_with(a, prefix) that describes the prefix anew, without the rows that lack it."""
    value = _careless(prefix)
    clean = prefix if value is None else mask_specs(Specs.literal(TEXT, value), ~prefix.empty)
    honest = REGISTRY.overloads("starts_with")[0].transfer
    assert honest is not None
    return honest(out, a, clean)


def _lie(kernel: Callable[..., Any], types: tuple[Type, ...], out: Type, **claims: Any) -> Instance:
    name = "starts_with" if kernel is starts_with else "->"
    return Instance(Function(name, types, out, kernel, errors=NEVER, **claims), types, out)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "lie",
    [
        _lie(get_key, (JSONB, TEXT), JSONB, wants_out=True, makes_null=True, transfer=careless_get),
        _lie(starts_with, (TEXT, TEXT), BOOL, transfer=careless_starts_with),
    ],
    ids=["->", "starts_with"],
)
def test_a_transfer_that_forgets_null_and_errors_of_a_constant_is_caught(lie: Instance, seed: int) -> None:
    with pytest.raises(AssertionError, match="is no constant"):
        try_cases(lie, seed)


@pytest.mark.parametrize(
    "condition", ["j -> {} = '5'", "j ->> {} = '5'", "j ? {}", "starts_with(j ->> 'a', {})"]
)
def test_a_filter_does_not_lose_the_error_of_a_key(condition: str) -> None:
    """Pruned by `j -> 'a'` alone, the row would be missing from the answer instead of failing."""
    key = "(CASE WHEN 1 / x > 0 THEN 'a' ELSE 'a' END)"
    with tidegate.open("memory://") as db:
        db.set("audit", 0.0)
        db.sql("CREATE TABLE t (x int8, j jsonb)")
        db.sql("""INSERT INTO t VALUES (0, '{"b": 2}')""")
        with pytest.raises(tidegate.EvaluationError, match="division by zero"):
            db.sql(f"SELECT x FROM t WHERE {condition.format(key)}").rows()
