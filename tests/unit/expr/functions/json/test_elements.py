"""The elements and members of JSON as arrays: what PostgreSQL's table functions give as rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.unit.expr.boxes import column, outcomes
from tidegate.expr.model.build import call
from tidegate.expr.model.types import JSONB

DOCUMENTS = ['[1,"a",null,{"b":2}]', "[]", '{"a":"x","bb":null}', "{}", "7", None]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jsonb_array_elements", [
            ["1", '"a"', "null", '{"b":2}'], [], "cannot extract elements from an object",
            "cannot extract elements from an object", "cannot extract elements from a scalar", None,
        ]),
        ("jsonb_array_elements_text", [
            ["1", "a", None, '{"b":2}'], [], "cannot extract elements from an object",
            "cannot extract elements from an object", "cannot extract elements from a scalar", None,
        ]),
        ("jsonb_object_keys", [
            "cannot call jsonb_object_keys on an array", "cannot call jsonb_object_keys on an array", ["a", "bb"], [],
            "cannot call jsonb_object_keys on a scalar", None,
        ]),
        ("jsonb_each", [
            "cannot call jsonb_each on an array", "cannot call jsonb_each on an array",
            [{"key": "a", "value": '"x"'}, {"key": "bb", "value": "null"}], [], "cannot call jsonb_each on a scalar", None,
        ]),
        ("jsonb_each_text", [
            "cannot call jsonb_each_text on an array", "cannot call jsonb_each_text on an array",
            [{"key": "a", "value": "x"}, {"key": "bb", "value": None}], [], "cannot call jsonb_each_text on a scalar", None,
        ]),
        ("jsonb records", [
            "argument of jsonb_to_recordset must be an array of objects", [], "cannot call jsonb_to_recordset on an object",
            "cannot call jsonb_to_recordset on an object", "cannot call jsonb_to_recordset on a scalar", None,
        ]),
        ("jsonb record", [
            "cannot call jsonb_to_record on a non-object", "cannot call jsonb_to_record on a non-object",
            ['{"a":"x","bb":null}'], ["{}"], "cannot call jsonb_to_record on a non-object", None,
        ]),
    ],
)  # fmt: skip
def test_elements(name: str, expected: list[Any]) -> None:
    expr = call(name, column(JSONB), hidden=True)
    assert outcomes(expr, pa.array(DOCUMENTS, pa.string())) == expected
    many = outcomes(
        expr, pa.array(DOCUMENTS * 200, pa.string())
    )  # enough rows for the other way to read JSON
    assert many == expected * 200
