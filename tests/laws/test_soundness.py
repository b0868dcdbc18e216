"""Whole expressions: what interpretation concludes of a container covers what evaluation gives for every row
in it.

For random typed expressions over random columns (ranges with an *interior* row each, poison values by
preference, `mz_now()` in a range): every node's Specs admit the node's outcome, NONE never loses a row that
passes or fails, ALL never admits one that does not pass. Nodes are looked at from the leaves up, so that a
failure names the smallest expression that is wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.laws.admits import admits
from tests.laws.boxes import Box, box
from tests.laws.cases import cases
from tests.laws.claims import show, show_specs
from tests.laws.grow import COLUMNS, OFTEN, Grower, by_kind, vocabulary
from tests.laws.instances import Instance
from tests.laws.test_planted_lies import lie_for_expressions
from tidegate.errors import LimitError
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.outcome import to_bools
from tidegate.expr.model.tree import Call, Column, Expr, Literal, walk
from tidegate.expr.model.types import BOOL, Kind

CONTAINERS = 200
"""Containers of a batch, a row each. A node costs about the same for one as for hundreds."""
EXPRESSIONS = 12
"""Filters over one batch: making the columns costs as much as a few of them."""
IS_NULL = REGISTRY.overloads("is null")[0]
CASES = 60
"""Batches: 60 × 12 filters of some 10 calls × 200 rows. The lies planted below are found in that.
"""


def columns(rng: np.random.Generator) -> list[Box]:
    """Boxes for all columns. What is stored in a column never fails."""
    return [box(rng, type_, CONTAINERS, errors=False) for type_ in COLUMNS]


def times(rng: np.random.Generator) -> tuple[tuple[int | None, int | None], int]:
    """A range of `mz_now()`, and a time within."""
    low, now, high = sorted(
        int(v) for v in 1_700_000_000_000 + rng.integers(-(2 ** int(rng.integers(1, 40))), 2**40, 3)
    )
    ends = (None if rng.random() < 0.1 else low), (None if rng.random() < 0.2 else high)
    return ((now, now), now) if rng.random() < 0.3 else (ends, now)


def check(expr: Expr, interpretation: Interpretation, evaluation: Evaluation) -> None:
    """Every node's Specs admit its outcome, leaves first; and evaluated at once the whole gives what it gives
    step by step.
    """
    for node in walk(expr):
        if isinstance(node, Call):
            try:
                specs, got = interpretation.of(node), evaluation.of(node)[0]
                bad = np.flatnonzero(~admits(specs, got.values, got.errors))
            except LimitError:
                return  # more than fits into one batch: refused, and so nothing is said
            except Exception as crash:
                crash.add_note(f"in {written(node)}")
                raise
            if len(bad):
                raise AssertionError(explain(node, specs, int(bad[0]), interpretation, evaluation))
    outcome = evaluation.of(expr)[0]
    whole = Evaluation(evaluation.columns, CONTAINERS, evaluation.now).of(expr)[0]
    errors = [o.errors if o.errors is None else o.errors.to_pylist() for o in (whole, outcome)]
    same = whole.values.equals(outcome.values) and errors[0] == errors[1]
    assert same, f"evaluated at once, this gives something else: {written(expr)}"
    verdict = np.broadcast_to(interpretation.of(expr).verdict(), CONTAINERS)
    failed = np.zeros(CONTAINERS, bool) if outcome.errors is None else to_bools(outcome.errors.is_valid())
    passed = to_bools(outcome.values) & ~failed
    assert not ((verdict == Verdict.NONE) & (passed | failed)).any(), f"NONE lost a row: {written(expr)}"
    assert not ((verdict == Verdict.ALL) & ~passed).any(), f"ALL admitted a row: {written(expr)}"


def written(expr: Expr) -> str:
    """An expression in a form that can be read."""
    match expr:
        case Call(function, args, type_):
            suffix = f"::{type_}" if function.name == "cast" else ""
            return f"{function.name}({', '.join(map(written, args))}){suffix}"
        case Column(_, type_, name):
            return f"{name}:{type_}"
        case Literal(value, type_):
            return f"{value.as_py()!r}:{type_}" if type_.kind is not Kind.INTERVAL else f"{value}:interval"
        case _:
            return "mz_now()"


def explain(
    node: Call, specs: Specs, row: int, interpretation: Interpretation, evaluation: Evaluation
) -> str:
    """The call that is wrong, with what was known and what stood in the row."""
    lines = [f"{written(node)} gives {show(evaluation.of(node)[0], row)}, not in {show_specs(specs, row)}"]
    for arg in node.args:
        known, got = interpretation.of(arg), evaluation.of(arg)[0]
        lines.append(f"  {written(arg)} gives {show(got, row)} in {show_specs(known, row)}")
    return "\n".join(lines)


def try_batch(
    rng: np.random.Generator, words: dict[Kind, dict[str, list[Instance]]], expressions: int
) -> None:
    """Random filters over one random batch."""
    boxes = columns(rng)
    span, now = times(rng)
    interpretation = Interpretation([b.specs if rng.random() < 0.95 else None for b in boxes], span)
    evaluation = Evaluation([b.rows for b in boxes], CONTAINERS, now)
    grower = Grower(rng, words)
    for _ in range(expressions):
        check(grower.grow(BOOL, int(rng.integers(2, 6))), interpretation, evaluation)


def try_batches(words: dict[Kind, dict[str, list[Instance]]], number: int) -> None:
    """So many batches, always the same ones."""
    for case in range(number):
        try_batch(np.random.default_rng([7, case]), words, EXPRESSIONS)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(CASES), phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_random_filters(seed: int) -> None:
    try_batch(np.random.default_rng(seed), vocabulary(), EXPRESSIONS)


@pytest.mark.parametrize("kind", sorted(vocabulary()))
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(4), phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_random_values(kind: Kind, seed: int) -> None:
    """Expressions of every other type, compared with a constant or another of the kind; 4 batches a kind."""
    rng = np.random.default_rng(seed)
    boxes = columns(rng)
    span, now = times(rng)
    interpretation, evaluation = (
        Interpretation([b.specs for b in boxes], span),
        Evaluation([b.rows for b in boxes], CONTAINERS, now),
    )
    grower = Grower(rng)
    types = list({i.out for found in vocabulary()[kind].values() for i in found})
    for _ in range(EXPRESSIONS):
        value = grower.grow(types[int(rng.integers(len(types)))], 4)
        test = Call(IS_NULL, (value,), BOOL)
        check(test, interpretation, evaluation)


@pytest.mark.parametrize("name", ["abs rises", "division fails at ends", "NULL is made in silence"])
def test_a_planted_lie_is_found_in_expressions(name: str) -> None:
    """Among the functions that filters use most, a lie is found in the cases of `make test`.

    One batch in four finds the false abs, one in twelve the false division: with 60 batches the chance to
    miss it is 1 in 200. That is why claims are tested one by one too (test_function_laws.py), where none of
    20 seeds misses.
    """
    honest = [
        i for names in vocabulary().values() for name, found in names.items() if name in OFTEN for i in found
    ]
    instance = lie_for_expressions(name)
    words = by_kind([*honest, instance])
    with pytest.raises(AssertionError, match="not in"):
        try_batches(words, CASES)
