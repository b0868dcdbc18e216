"""format and quoting: values as PostgreSQL 15 gave them."""

import pyarrow as pa
import pytest

from tests.unit.expr.sql_values import value, values
from tidegate.expr.model.types import TEXT


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("format('%s %I %L', 1, 'a b', 'x''y')", "1 \"a b\" 'x''y'"),
        ("format('%1$s %3$s %2$s', 'a', 'b', 'c')", "a c b"),
        ("format('|%10s|%-10s|', 'foo', 'bar')", "|       foo|bar       |"),
        ("format('|%-*s|%*s|', 4, 'a', 3, 'b')", "|a   |  b|"),
        ("format('%s%L', NULL, NULL)", "NULL"),
        ("format('%s %s', true, false)", "t f"),
        ("format(NULL, 1)", None),
        ("format('%I', NULL)", ("error", "null values cannot be formatted as an SQL identifier")),
        ("format('%s')", ("error", "too few arguments for format()")),
        ("format('%')", ("error", "unterminated format() type specifier")),
        ("format('%x', 1)", ("error", 'unrecognized format() type specifier "x"')),
        ("quote_ident('total')", "total"),
        ("quote_ident('Order')", '"Order"'),
        ("quote_ident('select')", '"select"'),
        ("quote_literal(42.5)", "'42.5'"),
        ("quote_literal(E'a\\\\b')", "E'a\\\\b'"),
        ("quote_nullable(NULL)", "NULL"),
        ("parse_ident('\"SomeSchema\".someTable')", ["SomeSchema", "sometable"]),
        ("parse_ident('foo(1)', false)", ["foo"]),
        ("parse_ident('foo(1)')", ("error", 'string is not a valid identifier: "foo(1)"')),
        ("concat(true, NULL, 1.50)", "t1.50"),
        ("true || 'a'", "truea"),
    ],
)
def test_values(sql: str, expected: object) -> None:
    assert value(sql) == expected


def test_the_template_may_be_a_column() -> None:
    templates = pa.array(["%s", "<%5s>", None, "%I"])
    assert values("format(t, 'a b')", [("t", TEXT)], [templates], 4) == ["a b", "<  a b>", None, '"a b"']
