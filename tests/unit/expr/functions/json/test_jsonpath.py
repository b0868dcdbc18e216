"""jsonpath: values as PostgreSQL 15 gave them, and refusals of what is not supported."""

import json

import pytest

from tests.unit.expr.sql_values import value

DOCUMENT = """'{"a":[1,2,3],"o":[{"b":1,"c":"foo"},{"b":2,"c":"bar"}],"n":-3.7,"s":"x"}'"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a", [[1, 2, 3]]),
        ("$.a[*]", [1, 2, 3]),
        ("$.a[last]", [3]),
        ("$.a[0 to 1]", [1, 2]),
        ("$.a[last - 1, 0]", [2, 1]),
        ("$.a ? (@ > 1)", [2, 3]),
        ("$.a[*] ? (@ >= 1 && !(@ == 2))", [1, 3]),
        ("$.o.b", [1, 2]),
        ('$.o ? (@.c starts with "b").b', [2]),
        ('$.o[*] ? (@.c like_regex "^F" flag "i").b', [1]),
        ("$.o[*] ? (exists (@.b ? (@ > 1))).c", ["bar"]),
        ("$.n.abs()", [3.7]),
        ("$.a.size()", [3]),
        ("$.*.type()", ["array", "array", "number", "string"]),
        ("$.n * 2 + 1", [-6.4]),
        ("$.s > 1", [None]),
        ("($.s > 1) is unknown", [True]),
        ("$.zz", []),
    ],
)
def test_items(path: str, expected: list[object]) -> None:
    found = json.loads(value(f"jsonb_path_query_array({DOCUMENT}, '{path}')"))
    assert sorted(found, key=str) == sorted(expected, key=str) if path == "$.*.type()" else found == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"jsonb_path_exists({DOCUMENT}, '$.a[*] ? (@ > $x)', '{{\"x\": 2}}')", True),
        (f"jsonb_path_exists({DOCUMENT}, 'strict $.zz')", ("error", 'JSON object does not contain key "zz"')),
        (f"jsonb_path_exists({DOCUMENT}, 'strict $.zz', silent => true)", None),
        (f"jsonb_path_match({DOCUMENT}, '$.a[*] > 2')", True),
        (f"jsonb_path_match({DOCUMENT}, '$.a')", ("error", "single boolean result is expected")),
        (f"jsonb_path_query_first({DOCUMENT}, '$.o[*].c')", '"foo"'),
        (f"jsonb_path_query_first({DOCUMENT}, '$x')", ("error", 'could not find jsonpath variable "x"')),
        (f"{DOCUMENT}::jsonb @? '$.a[5]'", False),
        (f"{DOCUMENT}::jsonb @@ '$.a'", None),
        (f"{DOCUMENT}::jsonb @? '$.'", ("error", "syntax error at end of jsonpath input")),
    ],
)
def test_functions(sql: str, expected: object) -> None:
    assert value(sql) == expected


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("$.s.datetime()", "the method .datetime() of a jsonpath is not supported"),
        ("$.o.keyvalue()", "the method .keyvalue() of a jsonpath is not supported"),
        ('$.s like_regex "a" flag "q"', 'the flags "q" of like_regex are not supported'),
        ("(" * 200 + "$" + ")" * 200, "a jsonpath is nested too deeply"),
    ],
)
def test_the_rest_is_refused_by_name(path: str, reason: str) -> None:
    assert value(f"jsonb_path_exists({DOCUMENT}, '{path}')") == ("error", reason)
