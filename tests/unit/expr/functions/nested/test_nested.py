"""Arrays and records: every expectation with the PostgreSQL expression that gives it."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.laws.admits import admits
from tidegate.errors import BindError
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.evaluate.evaluator import Evaluation, evaluate
from tidegate.expr.model.build import call, cast, field, literal, null, text
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import BOOL, FLOAT8, INT4, INT8, TEXT, Kind, Type, array, numeric, record

NAN = float("nan")


def ints(*values: int | None) -> Expr:
    return literal(list(values), array(INT8))


def texts(*values: str | None) -> Expr:
    return literal(list(values), array(TEXT))


def floats(*values: float) -> Expr:
    return literal(list(values), array(FLOAT8))


def i(value: int | None) -> Expr:
    return literal(value, INT8)


def t(value: str | None) -> Expr:
    return literal(value, TEXT)


def value_of(expr: Expr) -> Any:
    (outcome,) = Evaluation([], 1).of(expr)
    return outcome.values.to_pylist()[0] if outcome.errors is None else "!" + outcome.errors.to_pylist()[0]


SQUARE = literal([[1, 2], [3, 4]], array(array(INT8)))

# (PostgreSQL, ours, result); `make postgres`-style checks of these texts are in the differential test.
CASES: list[tuple[str, Expr, Any]] = [
    ("('{1,2,3}'::int8[])[2]", call("subscript", ints(1, 2, 3), i(2)), 2),
    ("('{1,2,3}'::int8[])[0]", call("subscript", ints(1, 2, 3), i(0)), None),
    ("('{1,2,3}'::int8[])[4]", call("subscript", ints(1, 2, 3), i(4)), None),
    ("('{1,2,3}'::int8[])[NULL]", call("subscript", ints(1, 2, 3), i(None)), None),
    ("('{1,NULL}'::int8[])[2]", call("subscript", ints(1, None), i(2)), None),
    ("('{{1,2},{3,4}}'::int8[])[2][1]", call("subscript", call("subscript", SQUARE, i(2)), i(1)), 3),
    ("('{1,2,3}'::int8[])[2:3]", call("slice", ints(1, 2, 3), i(2), i(3)), [2, 3]),
    ("('{1,2,3}'::int8[])[-5:2]", call("slice", ints(1, 2, 3), i(-5), i(2)), [1, 2]),
    ("('{1,2,3}'::int8[])[3:2]", call("slice", ints(1, 2, 3), i(3), i(2)), []),
    ("('{1,2,3}'::int8[])[7:9]", call("slice", ints(1, 2, 3), i(7), i(9)), []),
    ("('{1,2,3}'::int8[])[2:NULL]", call("slice", ints(1, 2, 3), i(2), i(None)), None),
    ("('{1,2,3}'::int8[])[2:]", call("slice from", ints(1, 2, 3), i(2)), [2, 3]),
    ("('{1,2,3}'::int8[])[:2]", call("slice to", ints(1, 2, 3), i(2)), [1, 2]),
    ("array_length('{1,2}'::int8[], 1)", call("array_length", ints(1, 2), i(1)), 2),
    ("array_length('{}'::int8[], 1)", call("array_length", ints(), i(1)), None),
    ("array_length('{1,2}'::int8[], 2)", call("array_length", ints(1, 2), i(2)), None),
    ("array_length('{1,2}'::int8[], 0)", call("array_length", ints(1, 2), i(0)), None),
    ("array_length('{{1,2},{3,4}}'::int8[], 2)", call("array_length", SQUARE, i(2)), 2),
    ("array_upper('{1,2}'::int8[], 1)", call("array_upper", ints(1, 2), i(1)), 2),
    ("array_lower('{1,2}'::int8[], 1)", call("array_lower", ints(1, 2), i(1)), 1),
    ("array_lower('{}'::int8[], 1)", call("array_lower", ints(), i(1)), None),
    ("cardinality('{}'::int8[])", call("cardinality", ints()), 0),
    ("cardinality('{{1,2},{3,4}}'::int8[])", call("cardinality", SQUARE), 4),
    ("array_position('{1,2,1}'::int8[], 1::int8)", call("array_position", ints(1, 2, 1), i(1)), 1),
    ("array_position('{1,NULL}'::int8[], NULL::int8)", call("array_position", ints(1, None), i(None)), 2),
    ("array_position('{1,2}'::int8[], 3::int8)", call("array_position", ints(1, 2), i(3)), None),
    ("array_append('{1}'::int8[], NULL::int8)", call("array_append", ints(1), i(None)), [1, None]),
    ("array_append(NULL::int8[], 1::int8)", call("array_append", null(array(INT8)), i(1)), [1]),
    ("array_prepend(1::int8, '{2}'::int8[])", call("array_prepend", i(1), ints(2)), [1, 2]),
    ("array_cat('{1}'::int8[], NULL)", call("array_cat", ints(1), null(array(INT8))), [1]),
    ("array_cat(NULL::int8[], NULL)", call("array_cat", null(array(INT8)), null(array(INT8))), None),
    ("'{1}'::int8[] || '{2}'::int8[]", call("||", ints(1), ints(2)), [1, 2]),
    ("'{1}'::int8[] || 2::int8", call("||", ints(1), i(2)), [1, 2]),
    ("0::int8 || '{1}'::int8[]", call("||", i(0), ints(1)), [0, 1]),
    ("'{1}'::int8[] || NULL::int8", call("||", ints(1), i(None)), [1, None]),
    ("'{a}'::text[] || '{b}'", call("||", texts("a"), text("{b}")), ["a", "b"]),
    ("'{1,2}'::int8[] @> '{2,2}'::int8[]", call("@>", ints(1, 2), ints(2, 2)), True),
    ("'{1,2}'::int8[] @> '{}'::int8[]", call("@>", ints(1, 2), ints()), True),
    ("'{1,NULL}'::int8[] @> '{NULL}'::int8[]", call("@>", ints(1, None), ints(None)), False),
    ("'{2}'::int8[] <@ '{1,2}'::int8[]", call("<@", ints(2), ints(1, 2)), True),
    ("'{1,2}'::int8[] && '{2,3}'::int8[]", call("&&", ints(1, 2), ints(2, 3)), True),
    ("'{1,NULL}'::int8[] && '{NULL}'::int8[]", call("&&", ints(1, None), ints(None)), False),
    ("'{1}'::int8[] && NULL::int8[]", call("&&", ints(1), null(array(INT8))), None),
    ("'{NaN,-0}'::float8[] @> '{NaN,0}'::float8[]", call("@>", floats(NAN, -0.0), floats(NAN, 0.0)), True),
    ("ARRAY[1::int8, NULL, 3]", call("array", i(1), i(None), i(3)), [1, None, 3]),
    ("array_to_string('{a,NULL,b}'::text[], '-')", call("array_to_string", texts("a", None, "b"), t("-")), "a-b"),
    ("array_to_string('{a,NULL,b}'::text[], '-', '?')", call("array_to_string", texts("a", None, "b"), t("-"), t("?")), "a-?-b"),
    ("array_to_string('{}'::text[], '-')", call("array_to_string", texts(), t("-")), ""),
    ("array_to_string('{a}'::text[], NULL)", call("array_to_string", texts("a"), t(None)), None),
    ("array_to_string('{a,NULL}'::text[], ',', NULL)", call("array_to_string", texts("a", None), t(","), t(None)), "a"),
    ("array_to_string('{t,f}'::bool[], ',')", call("array_to_string", literal([True, False], array(BOOL)), t(",")), "t,f"),
    ("string_to_array('a,b,', ',')", call("string_to_array", t("a,b,"), t(",")), ["a", "b", ""]),
    ("string_to_array('', ',')", call("string_to_array", t(""), t(",")), []),
    ("string_to_array('a,b', '')", call("string_to_array", t("a,b"), t("")), ["a,b"]),
    ("string_to_array('aé😀', NULL)", call("string_to_array", t("aé😀"), t(None)), ["a", "é", "😀"]),
    ("string_to_array('a,?,b', ',', '?')", call("string_to_array", t("a,?,b"), t(","), t("?")), ["a", None, "b"]),
    ("string_to_array(NULL, ',')", call("string_to_array", t(None), t(",")), None),
    ("'{1,2}'::int8[] < '{1,3}'::int8[]", call("<", ints(1, 2), ints(1, 3)), True),
    ("'{1}'::int8[] < '{1,NULL}'::int8[]", call("<", ints(1), ints(1, None)), True),
    ("'{1,NULL}'::int8[] = '{1,NULL}'::int8[]", call("=", ints(1, None), ints(1, None)), True),
    ("'{NULL}'::int8[] > '{9}'::int8[]", call(">", ints(None), ints(9)), True),
    ("'{}'::int8[] < '{NULL}'::int8[]", call("<", ints(), ints(None)), True),
    ("'{1}'::int8[] = NULL", call("=", ints(1), null(array(INT8))), None),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expr", "expected"), CASES, ids=[sql for sql, _, _ in CASES])
def test_arrays(sql: str, expr: Expr, expected: Any) -> None:
    assert value_of(expr) == expected


TEXTS: list[tuple[Type, Any, str]] = [
    (array(INT8), [1, None, -3], "{1,NULL,-3}"),
    (array(INT8), [], "{}"),
    (array(TEXT), ["a", "", "a b", 'q"', "b\\", "NULL", "null", None, "{", ",", "é", " x"],
     '{a,"","a b","q\\"","b\\\\","NULL","null",NULL,"{",",",é," x"}'),
    (array(BOOL), [True, False, None], "{t,f,NULL}"),
    (array(array(INT8)), [[1, 2], [3, 4]], "{{1,2},{3,4}}"),
    (array(numeric(5, 2)), [Decimal("1.50")], "{1.50}"),
    (record(("x", INT8), ("y", TEXT)), {"x": 1, "y": "a"}, "(1,a)"),
    (record(("x", INT8), ("y", TEXT)), {"x": None, "y": ""}, '(,"")'),
    (record(("x", INT8), ("y", TEXT)), {"x": 1, "y": 'a "b" \\c, (d)'}, '(1,"a ""b"" \\\\c, (d)")'),
    (record(("x", BOOL), ("y", array(INT8))), {"x": True, "y": [1, 2]}, '(t,"{1,2}")'),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "written"), TEXTS, ids=[written for _, _, written in TEXTS])
def test_text_forms_both_ways(type_: Type, value: Any, written: str) -> None:
    """As PostgreSQL prints them, and reading them back gives the same."""
    constant = literal(value, type_)
    assert value_of(cast(constant, TEXT)) == written
    assert value_of(cast(t(written), type_)) == constant.value.as_py()


@pytest.mark.parametrize(
    ("written", "type_", "expected"),
    [
        (" { 1 , 2 } ", array(INT8), [1, 2]),
        ("{1,x}", array(INT8), '!invalid input syntax for type bigint: "x"'),
        ("{1,,2}", array(INT8), '!malformed array literal: "{1,,2}"'),
        ("1,2", array(INT8), '!malformed array literal: "1,2"'),
        ("{1,2", array(INT8), '!malformed array literal: "{1,2"'),
        ("{}x", array(INT8), '!malformed array literal: "{}x"'),
        ('{"a"b}', array(TEXT), '!malformed array literal: "{"a"b}"'),
        ("{{1}}", array(INT8), '!malformed array literal: "{{1}}"'),
        ("{nUlL,\\n}", array(TEXT), [None, "n"]),
        ('{ "a b" , c d }', array(TEXT), ["a b", "c d"]),
        ("{{1,2},{3}}", array(array(INT8)), [[1, 2], [3]]),
        ("", array(INT8), '!malformed array literal: ""'),
        ("(1)", record(("x", INT8), ("y", TEXT)), '!malformed record literal: "(1)"'),
        ("(1,a b)", record(("x", INT8), ("y", TEXT)), {"x": 1, "y": "a b"}),
        ("(x,)", record(("x", INT8), ("y", TEXT)), '!invalid input syntax for type bigint: "x"'),
        ("(1,a", record(("x", INT8), ("y", TEXT)), '!malformed record literal: "(1,a"'),
    ],
)
def test_reading_odd_literals(written: str, type_: Type, expected: Any) -> None:
    assert value_of(cast(t(written), type_)) == expected


def test_varchar_cuts() -> None:
    """SELECT '{1,2,3}'::int8[]::varchar(4)"""
    assert value_of(cast(ints(1, 2, 3), Type(Kind.TEXT, length=4))) == "{1,2"


def test_many_rows_at_once() -> None:
    """Plain, quoted, null and wrong rows side by side, and a slice of them."""
    rows = pa.array(["{9}", "{1,2}", None, '{"3"}', "{x}", "{}", "{4,NULL}"])[1:]
    values, errors = evaluate(cast(Column(0, TEXT), array(INT8)), [rows])
    assert values.to_pylist() == [[1, 2], None, [3], None, [], [4, None]]
    assert errors is not None
    assert errors.is_valid().to_pylist() == [False, False, False, True, False, False]


def test_elementwise_casts() -> None:
    source = pa.array([["1", None], None, [], ["x"]], pa.list_(pa.string()))
    values, errors = evaluate(cast(Column(0, array(TEXT)), array(INT8)), [source])
    assert values.to_pylist() == [[1, None], None, [], None]
    assert errors is not None
    assert errors.to_pylist()[3] == 'invalid input syntax for type bigint: "x"'
    pair = record(("a", TEXT), ("b", INT4))
    rows = pa.array([{"a": "1", "b": 2}, None], pair.arrow)
    moved = cast(Column(0, pair), record(("x", INT8), ("y", INT8)))
    assert evaluate(moved, [rows]).values.to_pylist() == [{"x": 1, "y": 2}, None]


def test_kernels_take_slices_and_nothing() -> None:
    arrays = pa.array([[9], [1, 2], None, [3]], pa.list_(pa.int64()))
    column = Column(0, array(INT8))
    for expr in (
        call("subscript", column, i(1)), call("slice", column, i(1), i(1)), call("||", column, ints(7)),
        call("array_length", column, i(1)),
        call("@>", column, ints(1)), call("array_position", column, i(2)), call("cardinality", column), cast(column, TEXT),
    ):  # fmt: skip
        whole = evaluate(expr, [arrays]).values
        assert evaluate(expr, [arrays[1:]]).values.to_pylist() == whole.to_pylist()[1:]
        assert len(evaluate(expr, [arrays[:0]]).values) == 0


# ---------------------------------------------------------------- records

POINT = record(("x", INT8), ("y", TEXT))


def test_fields() -> None:
    rows = pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}], POINT.arrow)
    column = Column(0, POINT, "r")
    assert evaluate(field(column, "x"), [rows]).values.to_pylist() == [1, None, None]
    assert evaluate(field(column, "y"), [rows]).values.to_pylist() == ["a", None, "b"]
    with pytest.raises(BindError, match='field "z" does not exist'):
        field(column, "z")


def test_rows_compare_field_by_field() -> None:
    """As PostgreSQL compares stored records: a NULL field equals NULL and is greatest."""
    rows = [call("row", i(a), t(b)) for a, b in ((1, "a"), (1, "b"), (2, None), (None, "a"))]
    for k, one in enumerate(rows):
        for m, other in enumerate(rows):
            assert value_of(call("<", one, other)) is (k < m)
            assert value_of(call("=", one, other)) is (k == m)


def test_row_prunes_lexicographically() -> None:
    x = Specs.ranged(INT8, pa.array([1, 6, 5]), pa.array([4, 9, 5]))
    y = Specs.ranged(TEXT, pa.array(["a"]), pa.array(["c"]))
    pair = call("row", Column(0, INT8), Column(1, TEXT))
    at_least = call(">=", pair, call("row", i(5), t("b")))
    assert Interpretation([x, y]).of(at_least).verdict().tolist() == [0, 2, 1]


def test_fields_and_elements_prune() -> None:
    x = Specs.ranged(INT8, pa.array([1, 6]), pa.array([4, 9]))
    records = Specs.ranged(POINT, None, None, null=YES, fields=(x, Specs.anything(TEXT)))
    over = call(">", field(Column(0, POINT), "x"), i(5))
    assert Interpretation([records]).of(over).verdict().tolist() == [0, 1]
    arrays = Specs.ranged(array(INT8), None, None, null=NO, element=x)
    first = call(">", call("subscript", Column(0, array(INT8)), i(1)), i(5))
    assert Interpretation([arrays]).of(first).verdict().tolist() == [0, 1]
    joined = call(">", call("subscript", call("||", Column(0, array(INT8)), i(3)), i(1)), i(5))
    assert Interpretation([arrays]).of(joined).verdict().tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(8))
def test_soundness(seed: int) -> None:
    """300 containers of one row each; elements and fields within their descriptions."""
    rng, n = np.random.default_rng(seed), 300
    low = rng.integers(-5, 5, n)
    lists = [
        None if rng.random() < 0.1 else [int(v) for v in low[k] + rng.integers(0, 3, rng.integers(0, 4))]
        for k in range(n)
    ]
    element = Specs.ranged(INT8, pa.array(low), pa.array(low + 2))
    x = pa.array(low + rng.integers(0, 3, n), mask=rng.random(n) < 0.2)
    columns = [pa.array(lists, pa.list_(pa.int64())), x]
    specs = [
        Specs.ranged(array(INT8), None, None, null=YES, element=element),
        Specs.ranged(INT8, pa.array(low), pa.array(low + 2), null=YES),
    ]
    arrays, number = Column(0, array(INT8)), Column(1, INT8)
    pair = call("row", number, call("subscript", arrays, i(1)))
    for expr in (
        call("subscript", arrays, number), call("subscript", call("slice", arrays, i(2), number), i(1)),
        call("subscript", call("array", number, i(7)), i(2)), call("array_position", arrays, number),
        call("array_length", arrays, i(1)),
        call("subscript", call("||", arrays, number), i(1)), call("@>", arrays, call("array", number)), pair, field(pair, "f2"),
        call("<", pair, call("row", i(0), number)), call("array_to_string", arrays, t(",")), cast(arrays, TEXT),
    ):  # fmt: skip
        values, errors = evaluate(expr, columns)
        assert admits(Interpretation(specs).of(expr), values, errors).all(), expr.function.name  # type: ignore[union-attr]  # all are calls
