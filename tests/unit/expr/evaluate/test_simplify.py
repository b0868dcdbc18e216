"""Simplification: each rule, what must stay, and that outcomes never change, errors included."""

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.evaluate.simplify import simplify_expression
from tidegate.expr.model.build import call, case, cast, literal, null
from tidegate.expr.model.function import Function
from tidegate.expr.model.outcome import Outcome, failing, with_errors
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import FALSE, TRUE, Call, Column, Expr
from tidegate.expr.model.types import BOOL, FLOAT8, INT4, INT8, TEXT, Type, array, numeric
from tidegate.sql.bind.query import bind_expression

T = TypeVar("T")

COLUMNS: list[tuple[str, Type]] = [
    ("a", INT8), ("b", INT8), ("p", BOOL), ("q", BOOL), ("f", FLOAT8), ("t", TEXT), ("n", numeric(10, 2)),
]  # fmt: skip

RULES = [
    # constants
    ("2 + 3 > a", "a < 5"),
    ("a = 5::int8", "a = 5"),
    ("a = 1 / 0", "a = 1 / 0"),  # fails for rows that reach it, not for the query
    ("a > 1 AND 1 = 1", "a > 1"),
    ("upper('x') = t", "t = 'X'"),
    ("NULL::bool AND p", "NULL::bool AND p"),
    # AND, OR
    ("p AND true", "p"),
    ("p AND false", "false"),
    ("p OR true", "true"),
    ("p OR false OR q", "p OR q"),
    ("p AND p", "p"),
    ("p AND (q AND p)", "p AND q"),
    ("p AND 1 / 0 = 1 AND false", "false"),
    # NOT
    ("NOT NOT p", "p"),
    ("NOT a < b", "a >= b"),
    ("NOT a = b", "a <> b"),
    ("NOT (p OR a <= b)", "NOT p AND a > b"),
    ("NOT (p AND NOT q)", "NOT p OR q"),
    ("NOT p IS NULL", "p IS NOT NULL"),
    ("NOT (a < 5 OR b = 1) AND true AND 2 + 3 > a", "a >= 5 AND b <> 1 AND a < 5"),
    # comparisons
    ("5 < a", "a > 5"),
    ("5 = a", "a = 5"),
    ("a = a", "a = a"),  # NULL for NULL
    # the text of an integer
    ("a::text = '7'", "a = 7"),
    ("'-12' <> a::text", "a <> -12"),
    ("(a + b)::text = '0'", "a + b = 0"),
    ("a::text = '-9223372036854775808'", "a = (-9223372036854775808)::int8"),
    ("a::text = '9223372036854775808'", "a::text = '9223372036854775808'"),  # no int8
    ("a::text = '07'", "a::text = '07'"),  # no integer has this text
    ("a::text = '-0'", "a::text = '-0'"),
    ("a::text = '٣'", "a::text = '٣'"),  # Python reads this digit, and never writes it
    ("a::text < '7'", "a::text < '7'"),
    ("a::varchar(1) = '7'", "a::varchar(1) = '7'"),  # 70 too
    ("n::text = '7'", "n::text = '7'"),  # the text of 7 is 7.00
    ("a::text = '1' OR a = 2", "a IN (1, 2)"),
    # IN
    ("a = 1 OR a = 2", "a IN (1, 2)"),
    ("a = 1 OR p OR 2 = a OR a IN (2, 3)", "a IN (1, 2, 3) OR p"),
    ("a = 1 OR b = 2", "a = 1 OR b = 2"),
    ("a <> 1 AND a <> 2", "a NOT IN (1, 2)"),
    ("NOT (a = 1 OR a = 2)", "a NOT IN (1, 2)"),
    ("a = 1 OR a = NULL", "a IN (1, NULL)"),
    ("n = 1.5 OR n = 2.25 OR n = 3", "n IN (1.5, 2.25, 3)"),
    ("t = 'x' OR t = 'y'", "t IN ('x', 'y')"),
    ("a BETWEEN 1 AND 2", "a >= 1 AND a <= 2"),
    # CASE, COALESCE
    ("CASE WHEN false THEN a WHEN p THEN b END", "CASE WHEN p THEN b END"),
    ("CASE WHEN true THEN a ELSE 1 / 0 END", "a"),
    ("CASE WHEN p THEN a WHEN 1 = 1 THEN b ELSE 1 / 0 END", "CASE WHEN p THEN a ELSE b END"),
    ("CASE WHEN NULL THEN a ELSE b END", "b"),
    ("coalesce(NULL, a, 5, b)", "coalesce(a, 5)"),
    ("coalesce(a, NULL)", "a"),
    # ||
    ("t || '/' || t", "t || '/' || t"),
    ("'a' || ('b' || t || a)", "'ab' || t || a::text"),
    ("(t || '1') || ('2' || t)", "t || '12' || t"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), RULES)
def test_rules(before: str, after: str) -> None:
    simple = simplify_expression(bind_expression(before, COLUMNS))
    shown = show(simple)
    if "n IN" in after:
        shown = shown.replace("1.50", "1.5").replace("3.00", "3")
    assert shown == after
    assert simplify_expression(simple) == simple


def test_types_stay() -> None:
    for before, _ in RULES:
        expr = bind_expression(before, COLUMNS)
        assert simplify_expression(expr).type == expr.type


def test_a_list_of_ten_thousand() -> None:
    column = Column(0, INT8, "a")
    many = call("or", *(call("=", column, literal(k, INT8)) for k in range(10_000)))
    simple = simplify_expression(many)
    assert isinstance(simple, Call)
    assert simple.function.name == "in"
    assert evaluate(simple, [pa.array([5, 10_000])]).values.to_pylist() == [True, False]


def test_one_element_is_an_equation() -> None:
    column = Column(0, INT8, "a")
    assert simplify_expression(call("in", column, literal([7], array(INT8)))) == call(
        "=", column, literal(7, INT8)
    )
    assert simplify_expression(call("in", column, literal([], array(INT8)))) == call(
        "in", column, literal([], array(INT8))
    )


def _bad(values: pa.Array, code: pa.Array | pa.Scalar) -> Outcome:
    return with_errors(
        values, failing(pa.compute.equal(values, 0), pa.compute.binary_join_element_wise("zero ", code, ""))
    )


FAILS = Function("fails", (INT8, TEXT), INT8, _bad)
"""Fails for 0, with a message that tells which call it was."""


LISTS: list[list[int | None]] = [[1], [1, 2], [0, None], []]


class Grower:
    """Random conditions that are often null, often fail, and often repeat themselves."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.grown: list[Expr] = [TRUE, FALSE, null(BOOL)]

    def pick(self, *choices: T) -> T:
        return choices[self.rng.integers(len(choices))]

    def number(self) -> Expr:
        column = Column(int(self.rng.integers(2)), INT8)
        failing_column = Call(FAILS, (column, literal(self.pick("x", "y"), TEXT)), INT8)
        choices: list[Expr] = [
            column,
            column,
            failing_column,
            literal(int(self.rng.integers(-1, 3)), INT8),
            null(INT8),
        ]
        return self.pick(*choices)

    def condition(self, depth: int) -> Expr:
        if depth == 0 or self.rng.random() < 0.15:
            return self.pick(*self.grown)
        made = self._make(depth)
        self.grown.append(made)
        return made

    def _make(self, depth: int) -> Expr:
        def deeper() -> Expr:
            return self.condition(depth - 1)

        kind = self.rng.integers(8)
        if kind < 2:
            return call(self.pick("and", "or"), *(deeper() for _ in range(self.rng.integers(2, 5))))
        if kind == 2:
            return call("not", deeper())
        if kind == 3:
            return call("in", self.number(), literal(self.pick(*LISTS), array(INT8)))
        if kind == 4:
            return case([(deeper(), deeper()), (deeper(), deeper())], self.pick(None, deeper()))
        if kind == 5:
            return call(self.pick("is null", "is true", "is false"), deeper())
        if kind == 6:
            nan = self.pick(float("nan"), -0.0, 1.0)
            return call(self.pick("<", "=", ">="), Column(2, FLOAT8), literal(nan, FLOAT8))
        left, right = self.number(), self.number()
        return self.pick(
            call(self.pick("=", "<>", "<", "<=", ">", ">="), left, right),
            call("coalesce", deeper(), deeper()),
            call(self.pick("=", "<>"), cast(left, TEXT), literal(self.pick("0", "1", "01", "-1"), TEXT)),
        )


def outcomes(expr: Expr, columns: list[pa.Array]) -> list[Any]:
    values, errors = evaluate(expr, columns)
    failed = [None] * len(values) if errors is None else errors.to_pylist()
    return list(zip(values.to_pylist(), failed, strict=True))


@pytest.mark.parametrize("seed", range(150))
def test_outcomes_never_change(seed: int) -> None:
    """Every row of a grid of values; 150 trees of up to 5 levels are enough to catch each rule broken on purpose."""
    grid = [(a, b, f) for a in (None, 0, 1, 2) for b in (None, 0, 1) for f in (None, float("nan"), 0.0)]
    columns = [
        pa.array([row[k] for row in grid], type_)
        for k, type_ in enumerate((pa.int64(), pa.int64(), pa.float64()))
    ]
    grower = Grower(seed)
    for _ in range(4):
        expr = grower.condition(5)
        assert outcomes(simplify_expression(expr), columns) == outcomes(expr, columns), show(expr, whole=True)


def test_int4_constants_join_as_what_they_are() -> None:
    column = Column(0, INT4, "b")
    simple = simplify_expression(
        call("or", call("=", column, literal(1, INT4)), call("=", column, literal(2, INT4)))
    )
    assert show(simple) == "b IN (1, 2)"
