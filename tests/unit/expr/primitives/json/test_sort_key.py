"""Sort keys of JSON: bytes in PostgreSQL's order of jsonb, a column at a time and one by one."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tests.laws.json_order_oracle import documents
from tidegate.expr.primitives.json import sort_key as keys
from tidegate.expr.primitives.json.canonical import MAX_ROWS_ONE_BY_ONE
from tidegate.expr.primitives.json.sort_key import NotSortKey, from_sort_key, show_bound, sort_key, sort_keys

RISING = [
    "[]", "null", '""', '"A"', '"a"', '"a\\n"', '"aa"', '"b"', '"é"', '"\uffff"', '"😀"', "-1000", "-10.5", "-10", "-9", "-0.5",
    "-0.05", "0", "0.00001", "0.05", "0.5", "1", "1.05", "1.5", "9", "9.5", "10", "99", "100", "123456789012345678901234567890",
    "false", "true", "[null]", '["b"]', "[9]", "[10]", "[true]", "[[]]", "[[1]]", "[{}]", "[1,2]", "[1,10]", "[2,1]",
    "[1,1,1]", "{}", '{"a":9}', '{"a":10}', '{"aa":1}', '{"b":1}', '{"a":1,"b":1}', '{"a":1,"bb":0}', '{"a":2,"b":0}',
]  # fmt: skip


def test_one_by_one() -> None:
    assert sorted(RISING, key=sort_key) == RISING


def test_columns_give_the_same_keys() -> None:
    rows = [*documents(np.random.default_rng(3), 3 * MAX_ROWS_ONE_BY_ONE), None, *RISING]
    expected = [None if row is None else sort_key(row) for row in rows]
    assert sort_keys(pa.array(rows)).to_pylist() == expected
    assert sort_keys(pa.array(rows).slice(7)).to_pylist() == expected[7:]
    assert sort_keys(pa.array(rows[:5])).to_pylist() == expected[:5]
    assert sort_keys(pa.nulls(0, pa.string())).to_pylist() == []
    assert sort_keys(pa.nulls(300, pa.string())).null_count == 300


def test_a_key_is_its_document() -> None:
    for row in [*documents(np.random.default_rng(4), 1000), *RISING]:
        assert from_sort_key(sort_key(row)) == row


@pytest.mark.parametrize(
    "wrong", [b"", b"\x00", b"\x09", b"\x02\x02", b"\x03ab", b"\x04", b"\x04\x07", b"\x04\x03\x80\x00", b"\x07\x00\x00\x00\x01",
              b"\x04\x03\x80\x00\x00\x01xy\x00", b"\x04\x03\xff\xff\xff\xff1\x00", b"\x08\x00\x00\x00\x01a", b"\x03\xff\x00"]
)  # fmt: skip
def test_other_bytes_are_no_key(wrong: bytes) -> None:
    with pytest.raises(NotSortKey):
        from_sort_key(wrong)


def test_bounds_have_the_keys_of_documents() -> None:
    numbers = ["-123.456", "0", "0.000000000000000001", "12345678901234567890", "100", "-0.1"]
    decimals = pa.array([Decimal(number) for number in numbers] + [None], pa.decimal128(38, 18))
    assert keys.decimal_keys(decimals).to_pylist() == [*map(sort_key, numbers), None]
    assert keys.decimal_keys(decimals.slice(2, 3)).to_pylist() == [*map(sort_key, numbers[2:5])]
    assert keys.string_keys(pa.array(["", 'a"\n', None])).to_pylist() == [
        sort_key('""'),
        sort_key('"a\\"\\n"'),
        None,
    ]


def test_types_are_stretches_of_keys() -> None:
    tags = [
        keys.EMPTY_ARRAY,
        keys.NULL,
        keys.STRING,
        keys.AFTER_STRINGS,
        keys.NUMBER,
        keys.AFTER_NUMBERS,
        keys.FALSE,
    ]
    tags += [keys.TRUE, keys.ARRAY, keys.AFTER_ARRAYS, keys.OBJECT, keys.AFTER_OBJECTS]
    assert tags == sorted(tags)
    for document in RISING:
        key = sort_key(document)
        low, high = {
            '"': (keys.STRING, keys.AFTER_STRINGS), "n": (keys.NULL, keys.NULL), "[": (keys.EMPTY_ARRAY, keys.AFTER_ARRAYS),
            "f": (keys.FALSE, keys.FALSE), "t": (keys.TRUE, keys.TRUE), "{": (keys.OBJECT, keys.AFTER_OBJECTS),
        }.get(document[0], (keys.NUMBER, keys.AFTER_NUMBERS))  # fmt: skip
        assert low <= key <= high


def test_bounds_for_people() -> None:
    assert show_bound(sort_key("10.5")) == "10.5"
    assert [show_bound(bound) for bound in (keys.STRING, keys.AFTER_NUMBERS, keys.AFTER_OBJECTS)] == [
        "any string",
        "any number",
        "any object",
    ]
