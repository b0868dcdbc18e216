"""The order of jsonb: keys follow the rules, and statistics decide comparisons soundly and well."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.cases import cases
from tests.laws.json_oracle import specs_of_documents
from tests.laws.json_order_oracle import compare, documents
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Verdict
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import build
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import JSONB, TEXT
from tidegate.expr.primitives.json.sort_key import sort_keys

COMPARISONS = ("<", "<=", ">", ">=")
HOLDS = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "=": (0,), "<>": (-1, 1)}
COLUMN = Column(0, JSONB, "p")
CONTAINERS, ROWS = 60, 4


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(5))
def test_keys_follow_the_rules(seed: int) -> None:
    """5 cases: all pairs of 250 documents each, of which more than half differ."""
    rows = documents(np.random.default_rng(seed), 250)
    keys = sort_keys(pa.array(rows)).to_pylist()
    for a, key_a in zip(rows, keys, strict=True):
        for b, key_b in zip(rows, keys, strict=True):
            assert (key_a > key_b) - (key_a < key_b) == compare(a, b), (a, b)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(5))
def test_comparisons_follow_the_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = documents(rng, 400), documents(rng, 400)
    other = Column(1, JSONB, "q")
    for name, signs in HOLDS.items():
        values, errors = evaluate(build.call(name, COLUMN, other), [pa.array(a), pa.array(b)])
        assert errors is None
        assert values.to_pylist() == [compare(x, y) in signs for x, y in zip(a, b, strict=True)]


def conditions(rng: np.random.Generator) -> list[Expr]:
    """Comparisons of a column, and of a key of it, with constants; and what is built of them."""
    found: list[Expr] = []
    for value in (COLUMN, build.call("->", COLUMN, build.literal("n", TEXT))):
        low, high = sorted(documents(rng, 2, depth=1))
        found += [build.call(name, value, build.literal(low, JSONB)) for name in COMPARISONS]
        found.append(build.call("greatest", value, build.literal(low, JSONB)))
        between = (
            build.call(">=", value, build.literal(low, JSONB)),
            build.call("<=", value, build.literal(high, JSONB)),
        )
        found.append(build.conjunction(between))
        found[-2] = build.call("<", found[-2], build.literal(high, JSONB))
    return found


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(20))
def test_statistics_lose_no_row(seed: int) -> None:
    """20 cases of 60 parts and 12 conditions: each part holds four documents, mostly of one or two types."""
    rng = np.random.default_rng(seed)
    parts = [documents(rng, ROWS, depth=int(rng.integers(0, 3))) for _ in range(CONTAINERS)]
    parts += [[f'{{"n":{value}}}' for value in part] for part in parts]
    specs = specs_of_documents(parts)
    for condition in conditions(rng):
        verdicts = np.broadcast_to(Interpretation([specs]).of(condition).verdict(), len(parts))
        values, _ = evaluate(condition, [pa.array([row for part in parts for row in part])])
        passing = np.array([bool(value) for value in values.to_pylist()]).reshape(len(parts), ROWS)
        assert not passing[verdicts == Verdict.NONE].any()
        assert passing[verdicts == Verdict.ALL].all()


def test_statistics_prune() -> None:
    """Numbers of parts decide, and strings and nulls beside them do no harm."""
    parts = [
        ["1", "9"],
        ["9", '"x"', "null"],
        ["9.5"],
        ["9", "10"],
        ["true"],
        ["[]"],
        ["[9]"],
        ["{}"],
        ["null"],
    ]
    rows = [[f'{{"n":{value}}}' for value in part] for part in parts]
    n = build.call("->", COLUMN, build.literal("n", TEXT))
    verdicts = (
        Interpretation([specs_of_documents(rows)]).of(build.call(">", n, build.literal("9", JSONB))).verdict()
    )
    expected = ["NONE", "NONE", "ALL", "SOME", "ALL", "SOME", "SOME", "ALL", "NONE"]
    assert [Verdict(verdict).name for verdict in verdicts] == expected
