"""JSON operators and functions against PostgreSQL's results: as constants, as columns, as one family."""

import random

import pyarrow as pa
import pytest

from tests.unit.expr.functions.json_cases import CASES, CASTS, Case, Error
from tidegate.expr.evaluate.evaluator import Evaluation, evaluate
from tidegate.expr.functions.json import access as json_functions
from tidegate.expr.model import build
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Column, Expr, Literal
from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array,
    numeric,
    parse_type,
    record,
)  # fmt: skip
from tidegate.expr.primitives.json import canonical
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.path import (
    ElementStep,
    IndexStep,
    KeyOrIndexStep,
    KeyStep,
    PathRequest,
    extract,
    look_up,
    render,
)


def constant(type_: str, text: str | None) -> Literal:
    wanted = parse_type(type_)
    if text is None:
        return build.null(wanted)
    if type_ == "jsonb":
        return build.literal(exact_json.canonical_text(text), wanted)
    if type_ == "text[]":
        items = text.strip("{}").split(",") if text != "{}" else []
        return build.literal([None if item == "NULL" else item for item in items], wanted)
    return build.literal(int(text) if type_ == "int4" else text, wanted)


def expression(case: Case, args: list[Expr]) -> Expr:
    return build.cast(args[0], parse_type(case.name)) if case in CASTS else build.call(case.name, *args)


def as_case(outcome: tuple[pa.Array, pa.Array | None], row: int, type_: Type) -> str | None:
    values, errors = outcome
    if errors is not None and errors[row].is_valid:
        assert not values[row].is_valid
        return Error(errors[row].as_py())
    text = build.cast(Column(0, type_), TEXT) if type_ != TEXT else Column(0, type_)
    found: str | None = evaluate(text, [values.slice(row, 1)]).values[0].as_py()
    return found


@pytest.fixture(params=["one by one", "vectorised"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Few rows are read by a loop in Python, many by DuckDB: both ways must give the same."""
    monkeypatch.setattr(canonical, "MAX_ROWS_ONE_BY_ONE", 10_000 if request.param == "one by one" else -1)
    return str(request.param)


def groups() -> list[list[Case]]:
    """The cases of one overload together: they make one batch."""
    found: dict[object, list[Case]] = {}
    for case in CASES + CASTS:
        found.setdefault((case.name, *(type_ for type_, _ in case.args)), []).append(case)
    return list(found.values())


@pytest.mark.parametrize(
    "cases", groups(), ids=lambda cases: " ".join((cases[0].name, *(t for t, _ in cases[0].args)))
)
def test_as_postgres_in_columns(cases: list[Case], way: str) -> None:
    """Every argument a column, sliced out of a longer one."""
    rows = [[constant(*arg) for arg in case.args] for case in cases]
    args = [Column(i, literal.type) for i, literal in enumerate(rows[0])]
    expr = expression(cases[0], list(args))
    given = [
        pa.array([None, None, *(row[i].value.as_py() for row in rows), None], arg.type.arrow).slice(
            1, len(rows) + 2
        )
        for i, arg in enumerate(args)
    ]
    outcome = Evaluation(given, len(rows) + 2).of(expr)[0]
    got = [as_case(outcome, row, expr.type) for row in range(len(rows) + 2)]
    expected = [None, *(case.result for case in cases), None]
    assert got == expected
    assert [type(x) for x in got] == [type(x) for x in expected]
    assert len(Evaluation([g.slice(0, 0) for g in given], 0).of(expr)[0].values) == 0


@pytest.mark.parametrize("case", CASES + CASTS, ids=lambda case: f"{case.name} {case.args[0][1]}"[:40])
def test_as_postgres_with_constants(case: Case, way: str) -> None:
    """A column beside constants, and constants alone."""
    literals = [constant(*arg) for arg in case.args]
    expr = expression(case, [Column(0, literals[0].type), *literals[1:]])
    outcome = Evaluation(
        [pa.concat_arrays([pa.nulls(1, pa.string()), pa.repeat(literals[0].value, 1)])], 2
    ).of(expr)[0]
    assert [as_case(outcome, row, expr.type) for row in range(2)] == [None, case.result]
    if way == "one by one":
        folded = Evaluation([], 1).of(expression(case, list(literals)))[0]
        assert as_case(folded, 0, expr.type) == case.result


DOCUMENTS = [
    '{"a.b":1,"q\\"k":2,"":3,"$":4,"*":5,"0":6,"x/y":7,"t~u":8,"arr":[10,[20,30],{"0":"z","":1,"-1":"m"}],"n":null}',
    '{"back\\\\s":9,"é":11,"[":12,"#":13,"x*y":1,"end\\\\":1.5,"\\\\\\"":{"*":{"":[1]}},"r":0.1234567890123456789}',
    '{"c":"\\u001f","l":{"c":"\\u001f"},"\'":"it\'s","-1":5,"01":77,"arr":{"0":1,"1":2},"é":"a\\"b\\n"}',
    '[1,2,{"0":[5]}]', "5", '"x"', "null", None,
]  # fmt: skip
NAMES = [
    "a.b",
    'q"k',
    "",
    "$",
    "*",
    "0",
    "x/y",
    "t~u",
    "n",
    "back\\s",
    "é",
    "[",
    "#",
    "x*y",
    "end\\",
    "r",
    "c",
    "l",
    "'",
]
NAMES += ["no", "a\0b", '\\"', "arr", "-1", "01", "+1", " 1", "1", "99999999999"]


def test_random_paths(way: str) -> None:
    """Every notation and every cut of a path, one by one and many at once."""
    dice = random.Random(1)
    documents = pa.array([None if d is None else exact_json.canonical_text(d) for d in DOCUMENTS])
    steps = (
        [KeyStep(n) for n in NAMES]
        + [KeyOrIndexStep(n) for n in NAMES]
        + [IndexStep(i) for i in (0, 1, -1, -3, 2**31 - 1)]
        + [ElementStep(i) for i in (0, 1, -1, -3, 0)]
    )
    paths = [
        (),
        *((s,) for s in steps),
        *(tuple(dice.choices(steps, k=dice.randint(2, 4))) for _ in range(60)),
    ]
    paths += [(KeyStep("arr"), IndexStep(-1), step) for step in steps] + [
        (KeyStep('\\"'), KeyStep("*"), KeyStep(""), IndexStep(0))
    ]
    paths += [
        (KeyStep(name), *map(ElementStep, ends))
        for name in ("n", "arr", "c")
        for ends in ((0,), (-1, 0), (0, 1))
    ]
    wanted = [PathRequest(path, as_text) for path in paths for as_text in (True, False)]
    for some in (wanted, wanted[::2], wanted[1:2], wanted[2:3]):
        for one, values in zip(some, extract(documents, some), strict=True):
            exact = [
                None if d is None else render(look_up(exact_json.decode(d), one.path), as_text=one.as_text)
                for d in documents.to_pylist()
            ]
            assert values.to_pylist() == exact, one


def test_paths_of_a_column_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = Column(0, JSONB)
    a = build.call("->", payload, build.text("a"))
    exprs = [
        build.call("->>", a, build.text("b")),
        build.call("->>", build.call("->", a, build.literal(0, INT4)), build.text("c")),
        build.call("#>>", payload, build.literal(["a", "d"], array(TEXT))),
        build.call("->", payload, build.text("e")),
    ]
    calls: list[int] = []

    def counted(documents: pa.Array, wanted: list[PathRequest]) -> list[pa.Array]:
        calls.append(len(wanted))
        return extract(documents, wanted)

    monkeypatch.setattr(json_functions, "extract", counted)
    documents = pa.array(['{"a":{"b":1,"d":[2]},"e":"x"}', '{"a":[{"c":"y"}]}', None])
    outcomes = Evaluation([documents], 3).of(*exprs)
    assert calls == [4]
    assert [o.values.to_pylist() for o in outcomes] == [
        ["1", None, None], [None, "y", None], ["[2]", None, None], ['"x"', None, None],
    ]  # fmt: skip


def test_build(way: str) -> None:
    x, y = Column(0, INT4), Column(1, TEXT)
    columns = [pa.array([1, None]), pa.array(["k", "a"])]
    both = build.call(
        "jsonb_build_object", build.text("zz"), x, build.text("b"), y, build.text("zz"), build.null(INT4)
    )
    assert evaluate(both, columns).values.to_pylist() == ['{"b":"k","zz":null}', '{"b":"a","zz":null}']
    by_row = build.call("jsonb_build_object", y, x, build.text("a"), build.call("to_jsonb", y))
    assert evaluate(by_row, columns).values.to_pylist() == ['{"a":"k","k":1}', '{"a":"a"}']
    null_key = evaluate(build.call("jsonb_build_object", x, y), columns)
    assert null_key.values.to_pylist() == ['{"1":"k"}', None]
    assert null_key.errors is not None
    assert null_key.errors.to_pylist() == [None, "argument 1: key must not be null"]
    odd = evaluate(build.call("jsonb_build_object", y), columns)
    assert odd.errors is not None
    assert odd.errors.to_pylist() == ["argument list must have even number of elements"] * 2
    listed = build.call(
        "jsonb_build_array", x, y, build.cast(build.text('{"b": 1, "a": 2}'), JSONB), build.null()
    )
    assert evaluate(listed, columns).values.to_pylist() == [
        '[1,"k",{"a":2,"b":1},null]',
        '[null,"a",{"a":2,"b":1},null]',
    ]
    for name, empty in (("jsonb_build_object", "{}"), ("jsonb_build_array", "[]")):
        assert evaluate(build.call(name), [], 2).values.to_pylist() == [empty, empty]


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (BOOL, "true", "true"),
        (INT8, "-5", "-5"),
        (numeric(10, 2), "1.50", "1.5"),
        (numeric(10, 2), "100", "100"),
        (NUMERIC, "10", "10"),
        (NUMERIC, "0", "0"),
        (NUMERIC, "-10.050", "-10.05"),
        (numeric(5, 0), "100", "100"),
        (FLOAT8, "0.1", "0.1"),
        (FLOAT8, "12", "12"),
        (FLOAT8, "1e20", "100000000000000000000"),
        (FLOAT8, "1e-7", "0.0000001"),
        (FLOAT8, "-0", "0"),
        (FLOAT8, "NaN", '"NaN"'),
        (FLOAT4, "-Infinity", '"-Infinity"'),
        (FLOAT4, "0.1", "0.1"),
        (TEXT, 'a"b\\\n\x01', '"a\\"b\\\\\\n\\u0001"'),
        (TIMESTAMP, "2020-01-02 03:04:05.5", '"2020-01-02T03:04:05.5"'),
        (TIMESTAMPTZ, "2020-01-02 03:04:05+00", '"2020-01-02T03:04:05+00:00"'),
        (DATE, "2020-01-02", '"2020-01-02"'),
        (INTERVAL, "1 day 2 hours", '"1 day 02:00:00"'),
        (BYTEA, "\\x01ff", '"\\\\x01ff"'),
        (JSONB, '{"b": 1}', '{"b":1}'),
    ],
    ids=str,
)
def test_to_jsonb(type_: Type, text: str, expected: str) -> None:
    value = build.cast(build.text(text), type_)
    assert isinstance(value, Literal)
    got = evaluate(build.call("to_jsonb", Column(0, type_)), [pa.array([value.value, None], type_.arrow)])
    assert got.values.to_pylist() == [expected, None]
    inside = evaluate(
        build.call("jsonb_build_array", Column(0, type_)), [pa.array([value.value, None], type_.arrow)]
    )
    assert inside.values.to_pylist() == [f"[{expected}]", "[null]"]


def test_nested_to_jsonb() -> None:
    lists, rows = array(JSONB), record(("y", TEXT), ("a", array(INT4)), ("j", JSONB))
    given = [
        pa.array([["1", None, '"x"'], [], None], lists.arrow),
        pa.array(
            [{"y": "1", "a": [1, None], "j": "[]"}, {"y": None, "a": None, "j": None}, None], rows.arrow
        ),
    ]
    made = [
        evaluate(build.call("to_jsonb", Column(i, t)), given).values.to_pylist()
        for i, t in enumerate((lists, rows))
    ]
    assert made == [
        ['[1,null,"x"]', "[]", None],
        ['{"a":[1,null],"j":[],"y":"1"}', '{"a":null,"j":null,"y":null}', None],
    ]


def test_too_deep_is_an_error_of_the_row() -> None:
    documents = pa.array(["[" * 400 + "]" * 400, "[]"])
    for expr in (
        build.call("jsonb_build_array", Column(0, JSONB)),
        build.call("jsonb_build_object", build.text("a"), Column(0, JSONB)),
        build.call("||", Column(0, JSONB), build.cast(build.text("[[]]"), JSONB)),
    ):
        outcome = evaluate(expr, [documents])
        told = [None, None] if outcome.errors is None else outcome.errors.to_pylist()
        deep = expr != build.call("||", Column(0, JSONB), build.cast(build.text("[[]]"), JSONB))
        assert told == (["JSON is nested too deeply", None] if deep else [None, None])


def test_random_containment(way: str) -> None:
    """A constant on the right, tested for all rows at once, against the loop over pairs."""
    dice = random.Random(2)

    def value(depth: int) -> str:
        kind = dice.randint(0, 6 if depth else 3)
        if kind < 4:
            return dice.choice(["1", "2", '"a"', '"b"', "null", "true", "1.2345678901234567891"])
        items = [value(depth - 1) for _ in range(dice.randint(0, 3))]
        if kind == 4:
            return f"[{','.join(items)}]"
        return exact_json.canonical_text(
            "{" + ",".join(f'"{dice.choice("abc")}":{item}' for item in items) + "}"
        )

    documents = pa.array([value(3) for _ in range(150)] + [None])
    for needle in [value(2) for _ in range(60)]:
        at_once = evaluate(build.call("@>", Column(0, JSONB), build.literal(needle, JSONB)), [documents])
        repeated = pa.repeat(pa.scalar(needle), len(documents))
        in_pairs = evaluate(build.call("<@", Column(1, JSONB), Column(0, JSONB)), [documents, repeated])
        assert at_once.values.to_pylist() == in_pairs.values.to_pylist(), needle


def test_empty_text_at_the_end_of_a_batch() -> None:
    """`->>` gives an empty text whose place is behind the last byte of the array: there is no letter to look at."""
    documents = pa.array(['{"s":"abc"}'] * canonical.MAX_ROWS_ONE_BY_ONE + ['{"s":""}'])
    assert extract(documents, [PathRequest((KeyStep("s"),), True)])[0].to_pylist() == [
        "abc"
    ] * canonical.MAX_ROWS_ONE_BY_ONE + [""]


def test_many_keys_in_long_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is parsed once for all keys that are looked for in it: the same answers."""
    documents = pa.array(['{"a":1,"b":2}', '["a","é",1]', '"a"', "1", None, "{}", '[["a"]]', '{"a":1}'])
    keys = pa.array([["a", "b"], ["é", None], ["a"], ["1"], ["a"], [], ["a"], None], pa.list_(pa.string()))
    for name in ("?|", "?&"):
        [function] = REGISTRY.overloads(name)
        plain = function.run([documents, keys], BOOL).values
        monkeypatch.setattr(json_functions, "REPEATED", -1)
        assert function.run([documents, keys], BOOL).values.equals(plain)
        monkeypatch.undo()
