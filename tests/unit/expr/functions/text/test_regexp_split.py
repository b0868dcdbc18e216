"""Splitting by regular expressions, SIMILAR TO, bytes and Unicode: values as PostgreSQL 15 gave them."""

import pytest

from tests.unit.expr.sql_values import value, values
from tidegate.errors import UnsupportedError
from tidegate.expr.functions.text.regexp_split import _MARKS
from tidegate.expr.model.types import TEXT, array


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (r"regexp_split_to_array('hello  world', '\s+')", ["hello", "world"]),
        (r"regexp_split_to_array('the quick', '\s*')", [*"thequick"]),
        ("regexp_split_to_array('', ',')", [""]),
        ("regexp_split_to_array('aXbxc', 'x', 'i')", ["a", "b", "c"]),
        ("regexp_split_to_array('a', 'x', 'g')", ("error", 'regexp_split_to_array() does not support the "global" option')),
        (r"regexp_substr('order 4711', '(\d)\d+')", "4711"),
        ("'abc' SIMILAR TO '%(b|d)%'", True),
        ("'abc' NOT SIMILAR TO 'a_'", True),
        ("'a%c' SIMILAR TO 'a#%c' ESCAPE '#'", True),
        ("'abc' SIMILAR TO 'a.c'", False),
        ("'abc' SIMILAR TO 'a' ESCAPE 'xy'", ("error", "invalid escape string")),
        (r"get_bit('\x1234567890'::bytea, 30)", 1),
        (r"set_bit('\x1234567890'::bytea, 30, 0)", bytes.fromhex("1234563890")),
        (r"set_byte('\x1234'::bytea, 1, 64)", bytes.fromhex("1240")),
        (r"set_byte('\x1234'::bytea, 2, 64)", ("error", "index 2 out of valid range, 0..1")),
        (r"bit_count('\x1234567890'::bytea)", 15),
        (r"position('\x5678'::bytea in '\x1234567890'::bytea)", 3),
        (r"trim('\x9012'::bytea from '\x1234567890'::bytea)", bytes.fromhex("345678")),
        (r"overlay('\x1234567890'::bytea placing '\x0203'::bytea from 2 for 3)", bytes.fromhex("12020390")),
        (r"length('\xc3a9'::bytea, 'UTF8')", 1),
        (r"unistr('d\0061t\+000061')", "data"),
        (r"unistr('\d83d')", ("error", "invalid Unicode surrogate pair")),
        ("length(normalize('á', NFD))", 2),
        ("'alphabet' ^@ 'alph'", True),
        ("'abc' LIKE ANY (ARRAY['x%', 'a%'])", True),
        ("'abc' NOT LIKE ALL ('{a%,x%}')", False),
        ("'abc' ~ ANY (ARRAY['x', NULL])", None),
    ],
)  # fmt: skip
def test_values(sql: str, expected: object) -> None:
    assert value(sql) == expected


def test_a_text_with_the_marks_of_matches_is_refused() -> None:
    assert value(f"regexp_split_to_array('a{_MARKS[0]}b', 'a')")[0] == "error"


def test_arrays_as_arguments_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="VARIADIC"):
        value("num_nulls(VARIADIC ARRAY[1, NULL])")


def test_a_column_of_patterns_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="LIKE ANY takes patterns"):
        values("'abc' LIKE ANY (p)", [("p", array(TEXT))], [], 0)
