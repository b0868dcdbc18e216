"""Changing JSON at a path: values as PostgreSQL 15 gave them."""

import json

import pytest

from tests.unit.expr.sql_values import value
from tidegate.config import MAX_NESTING
from tidegate.errors import TypeMismatch


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("""jsonb_set('{"a":{"b":1}}', '{a,b}', '2')""", {"a": {"b": 2}}),
        ("""jsonb_set('{"a":1}', '{b}', '2', false)""", {"a": 1}),
        ("""jsonb_set('{"a":1}', '{b,c}', '2')""", {"a": 1}),
        ("""jsonb_set('[1,2,3]', '{-5}', '9')""", [9, 1, 2, 3]),
        ("""jsonb_set('[1,2,3]', '{5}', '9')""", [1, 2, 3, 9]),
        ("""jsonb_set('[1]', '{x}', '9')""", ("error", 'path element at position 1 is not an integer: "x"')),
        ("""jsonb_set('5', '{x}', '9')""", ("error", "cannot set path in scalar")),
        ("""jsonb_insert('{"a":[0,1]}', '{a,1}', '"n"')""", {"a": [0, "n", 1]}),
        ("""jsonb_insert('{"a":[0,1]}', '{a,1}', '"n"', true)""", {"a": [0, 1, "n"]}),
        ("""jsonb_insert('{"a":1}', '{a}', '2')""", ("error", "cannot replace existing key")),
        ("""jsonb_set_lax('{"a":1}', '{a}', NULL)""", {"a": None}),
        ("""jsonb_set_lax('{"a":1,"b":2}', '{a}', NULL, true, 'delete_key')""", {"b": 2}),
        ("""'["a", {"b":1}]'::jsonb #- '{1,b}'""", ["a", {}]),
        ("""jsonb_object('{a,1,b,2}')""", {"a": "1", "b": "2"}),
        ("""jsonb_object('{a,b}', '{1,NULL}')""", {"a": "1", "b": None}),
        ("""('{"a":[1,2]}'::jsonb)['a'][-1]""", 2),
        ("""('{"0":7}'::jsonb)[0]""", 7),
        ("""('5'::jsonb)[0]""", None),
    ],
)
def test_values(sql: str, expected: object) -> None:
    found = value(sql)
    assert (json.loads(found) if isinstance(found, str) else found) == expected


def test_pretty_json() -> None:
    assert value("""jsonb_pretty('{"a":[],"b":{"c":"x"}}')""") == (
        '{\n    "a": [\n    ],\n    "b": {\n        "c": "x"\n    }\n}'
    )


def test_nothing_is_nested_deeper_than_documents_may_be() -> None:
    deep = "[" * (MAX_NESTING - 1) + "]" * (MAX_NESTING - 1)
    assert value(f"jsonb_set('{{\"a\":[0]}}', '{{a,0}}', '{deep}')") == ("error", "JSON is nested too deeply")


def test_a_subscript_is_a_text_or_an_integer() -> None:
    with pytest.raises(TypeMismatch, match="subscript type"):
        value("('[1]'::jsonb)[1.5]")
