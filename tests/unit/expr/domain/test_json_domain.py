"""Lanes: descriptions of mixed JSON cover what they were made of, through every operator, and prune."""

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.laws.admits import admits, json_admits
from tests.laws.json_oracle import domain_of_documents, specs_of_documents
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.json_domain import JsonDomain
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.evaluate.evaluator import Evaluation, evaluate
from tidegate.expr.model import build
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import (
    BOOL,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    JSONB,
    NUMERIC,
    TEXT,
    array,
    numeric,
)
from tidegate.expr.primitives.json import exact as exact_json

LEAVES = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "5",
    "5.5",
    "2.5",
    "1e30",
    "-1e30",
    "0.0000000000000000001",
    "99999999999999999999.5",
    "1.2345678901234567891",
    "40000",
    "3e9",
    '""',
    '"a"',
    '"b"',
    '"true"',
    '"5"',
    '" "',
    '"\\"q\\\\\\u001f"',
    '"\U0010ffff"',
    '"x y"',
    '"x"',
    "[]",
    "{}",
    "[1]",
    '[{"a":1}]',
]
PAYLOAD = Column(0, JSONB, "payload")


def random_json(dice: random.Random, leaves: list[str], depth: int = 3) -> str:
    if depth and dice.random() < 0.7:
        names = dice.sample(["a", "b", "c", "0", ""], dice.randint(0, 4))
        return "{" + ",".join(f'"{name}":{random_json(dice, leaves, depth - 1)}' for name in names) + "}"
    if depth and dice.random() < 0.1:
        return "[" + ",".join(random_json(dice, leaves, depth - 1) for _ in range(dice.randint(0, 3))) + "]"
    return dice.choice(leaves)


def random_containers(dice: random.Random, n: int) -> list[list[str | None]]:
    """Containers of up to four documents, each drawing on few kinds of leaves, some with NULL."""
    result: list[list[str | None]] = []
    for _ in range(n):
        leaves = dice.sample(LEAVES, dice.randint(1, 4))
        texts = [random_json(dice, leaves, dice.randint(0, 3)) for _ in range(dice.randint(0, 4))]
        documents: list[str | None] = [exact_json.canonical_text(text) for text in texts]
        result.append([*documents, None] if dice.random() < 0.3 or not documents else documents)
    return result


def spread_out(containers: list[list[str | None]]) -> tuple[Specs, pa.Array]:
    """Every container once for each of its documents, and those documents."""
    documents = [document for container in containers for document in container]
    return specs_of_documents([c for c in containers for _ in c]), pa.array(documents, pa.string())


def key(name: str, of: Expr = PAYLOAD) -> Expr:
    return build.call("->", of, build.literal(name, TEXT))


def text(name: str, of: Expr = PAYLOAD) -> Expr:
    return build.call("->>", of, build.literal(name, TEXT))


def path(*steps: str, of: Expr = PAYLOAD, name: str = "#>>") -> Expr:
    return build.call(name, of, build.literal(list(steps), array(TEXT)))


def names(*found: str) -> Expr:
    return build.literal(list(found), array(TEXT))


def json(document: str) -> Expr:
    return build.literal(exact_json.canonical_text(document), JSONB)


INNER = [
    PAYLOAD,
    key("a"),
    key("a", key("b")),
    key("", key("0")),
    build.call("->", PAYLOAD, build.literal(0, INT4)),
]
INNER += [path("a", "0", name="#>"), path("0", "b", name="#>"), path("b", "a", "c", name="#>")]
INNER += [build.call("jsonb_extract_path", PAYLOAD, build.text("a"), build.text("0"))]


def over(e: Expr) -> list[Expr]:
    """Every way to use a JSON value in a filter."""
    as_text = text("a", e)
    casts = [
        build.cast(x, t)
        for x in (e, as_text)
        for t in (NUMERIC, numeric(10, 1), INT2, INT4, INT8, FLOAT4, FLOAT8, BOOL)
    ]
    casts += [build.cast(e, TEXT), build.call("jsonb_typeof", e), build.call("jsonb_array_length", e)]
    tests = [build.call("?", e, build.text(k)) for k in ("a", "0", "zz", "x")]
    tests += [build.call(op, e, names("a", "b")) for op in ("?|", "?&")]
    tests += [
        build.call("@>", e, json(d))
        for d in ("5", '{"a":5}', '{"a":{"b":"x"}}', "[1]", '{"b":null,"a":true}', '"a"')
    ]
    tests += [build.call("is null", x) for x in (e, as_text)]
    tests += [build.call(op, e, json(d)) for op in ("=", "<") for d in ("5", '"x"', "null", '{"a":1}')]
    tests += [
        build.call(op, as_text, build.literal(t, TEXT))
        for op in ("=", "<", ">")
        for t in ("5", "x", "true", "")
    ]
    tests += [build.call(">", build.cast(as_text, NUMERIC), build.literal(3, INT4))]
    return [e, as_text, *casts, *tests]


@pytest.mark.parametrize("seed", range(4))
def test_every_operator_covers_what_rows_give(seed: int) -> None:
    """Forty containers of up to five documents, through some 500 expressions."""
    specs, documents = spread_out(random_containers(random.Random(seed), 40))
    interpretation = Interpretation([specs])
    exprs = [e for inner in INNER for e in over(inner)]
    for expr, (values, errors) in zip(exprs, Evaluation([documents], len(documents)).of(*exprs), strict=True):
        covered = admits(interpretation.of(expr), values, errors)
        row = int(np.argmin(covered))
        assert covered.all(), (expr, documents[row], values[row])


@pytest.mark.parametrize("seed", range(6))
def test_union_covers_both_sides(seed: int) -> None:
    dice = random.Random(seed)
    sides = [random_containers(dice, 30), random_containers(dice, 30)]
    a, b = (specs_of_documents(side) for side in sides)
    both = a.union(b)
    picked = Interpretation([both]).of(text("a", key("b")))
    for containers in sides:
        for k in range(5):
            column = pa.array([documents[k % len(documents)] for documents in containers], pa.string())
            assert admits(both, column).all()
            outcome = evaluate(text("a", key("b")), [column])
            assert admits(picked, outcome.values, outcome.errors).all()


def test_union_with_one_for_all() -> None:
    """A literal (length 1) with a column (length n): CASE WHEN … THEN payload ELSE '{"a": 7}' END."""
    column = specs_of_documents([['{"a":1}'], ['{"b":1}'], ["[]"]])
    both = column.union(Specs.literal(JSONB, pa.scalar('{"a":7}')))
    a = Interpretation([both]).of(build.cast(key("a"), INT4))
    assert [x.to_pylist() for x in a.bounds()] == [[1, 7, 7], [7, 7, 7]]
    assert a.null.tolist() == [False, True, True]
    assert a.error.tolist() == [False, False, False]


def test_a_key_of_one_side_only() -> None:
    """Unknown where the other side has open maps, nullable where closed, untouched where it has none."""
    known = specs_of_documents([['{"a":1}']] * 3).json
    assert known is not None
    other = JsonDomain(
        map=np.array([True, True, False]),
        number=JsonDomain.anything().number,
        closed=np.array([False, True, True]),
    )
    a = known.union(other, np.zeros(1, bool), np.zeros(1, bool)).key("a")
    assert a.null.tolist() == [True, True, False]
    assert a.json is not None
    assert np.broadcast_to(a.json.text.present, 3).tolist() == [True, False, False]


def test_lanes_do_not_admit_what_they_exclude() -> None:
    lanes = domain_of_documents([['{"a":1,"b":"x"}', '{"a":3}'], ["7", '"q"']])
    for document, first, second in [
        ('{"a":2}', True, False),
        ('{"a":4}', False, False),
        ('{"b":"x"}', False, False),
        ('{"a":1,"c":1}', False, False),
        ('{"a":1,"b":"y"}', False, False),
        ("7", False, True),
        ('"q"', False, True),
        ('"r"', False, False),
        ("null", False, False),
    ]:
        assert json_admits(lanes, pa.array([document, document]), JSONB).tolist() == [first, second], document
    assert json_admits(lanes, pa.array(["7", "7"]), TEXT).tolist() == [False, True]


def verdict(condition: Expr, *containers: list[str | None]) -> list[Verdict]:
    specs = Interpretation([specs_of_documents(containers)]).of(condition).verdict()
    return [Verdict(v) for v in np.broadcast_to(specs, len(containers))]


NONE, SOME, ALL = Verdict.NONE, Verdict.SOME, Verdict.ALL


def test_pruning_happens() -> None:
    numbers: list[list[str | None]] = [
        ['{"ts":1}', '{"ts":4}'],
        ['{"ts":6}', '{"ts":9}'],
        ['{"ts":3}', '{"ts":8}'],
    ]
    five = build.literal(5, INT4)
    for value in (text("ts"), key("ts")):
        assert verdict(build.call(">", build.cast(value, NUMERIC), five), *numbers) == [NONE, ALL, SOME]
        assert verdict(build.call(">", build.cast(value, INT8), five), *numbers) == [NONE, ALL, SOME]
    # A fraction makes the cast of the text fail, and where one may be is not known: only whole numbers can be told.
    fraction: list[list[str | None]] = [['{"ts":1}', '{"ts":1.5}']]
    assert verdict(build.call(">", build.cast(text("ts"), INT8), five), *fraction) == [SOME]
    assert verdict(build.call(">", build.cast(key("ts"), INT8), five), *fraction) == [NONE]
    mixed: list[list[str | None]] = [
        ['{"ts":1}', '{"ts":"x"}'],
        ['{"ts":1}', "{}"],
        ["{}", "[]"],
        ['{"ts":null}'],
        [None],
    ]
    above = build.call(">", build.cast(text("ts"), NUMERIC), five)
    assert verdict(above, *mixed) == [SOME, NONE, NONE, NONE, NONE]
    assert verdict(build.call("is null", text("ts")), *mixed) == [NONE, SOME, ALL, ALL, ALL]
    assert verdict(build.call("is null", key("ts")), *mixed) == [NONE, SOME, ALL, NONE, ALL]


def test_pruning_by_text_and_type() -> None:
    words: list[list[str | None]] = [
        ['{"k":"a"}', '{"k":"c"}'],
        ['{"k":"x"}'],
        ['{"k":7}', '{"k":8}'],
        ['{"k":true}'],
        ['{"k":[1]}', '{"k":"x"}'],
    ]
    is_x = build.call("=", text("k"), build.literal("x", TEXT))
    assert verdict(is_x, *words) == [NONE, ALL, NONE, NONE, SOME]
    assert verdict(build.call("=", key("k"), json('"x"')), *words) == [SOME, ALL, NONE, NONE, SOME]
    assert verdict(build.call("=", key("k"), json("7")), *words) == [NONE, NONE, SOME, NONE, SOME]
    assert verdict(build.call("@>", PAYLOAD, json('{"k":"x"}')), *words) == [NONE, SOME, NONE, NONE, SOME]
    assert verdict(build.call("@>", PAYLOAD, json('{"k":"x","z":1}')), *words) == [NONE] * 5
    number = build.call("=", build.call("jsonb_typeof", key("k")), build.literal("number", TEXT))
    assert verdict(number, *words) == [NONE, NONE, ALL, NONE, SOME]
    assert verdict(build.call("?", PAYLOAD, build.text("k")), *words) == [ALL] * 5
    assert verdict(build.call("?", PAYLOAD, build.text("z")), *words) == [NONE] * 5
    assert verdict(build.call("?&", PAYLOAD, names("k", "z")), *words) == [NONE] * 5
    assert verdict(build.call("?|", PAYLOAD, names("k", "z")), *words) == [ALL] * 5
    assert verdict(build.cast(key("k"), BOOL), *words) == [SOME, SOME, SOME, ALL, SOME]
    assert verdict(build.cast(text("k"), BOOL), *words)[3] is ALL


def test_deep_paths_prune() -> None:
    deep: list[list[str | None]] = [['{"a":{"b":{"c":1}}}', '{"a":{"b":5}}'], ['{"a":{"b":{"c":9}}}']]
    condition = build.call(">", build.cast(path("a", "b", "c"), NUMERIC), build.literal(5, INT4))
    assert verdict(condition, *deep) == [NONE, ALL]


def test_nothing_is_known_without_lanes() -> None:
    specs = Interpretation([None]).of(build.cast(text("a"), NUMERIC))
    assert specs.error.all()
    assert specs.null.all()
    assert not specs.empty.any()
