"""regexp_matches as an array of matches: what PostgreSQL's function of that name gives as rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.expr.boxes import column, outcomes
from tidegate.expr.model.build import call, text
from tidegate.expr.model.types import TEXT

TEXTS = pa.array(["a1b22", "ab", "", None, "k=;k=v"])


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((r"\d+",), [[["1"]], [], [], None, []]),
        ((r"\d+", "g"), [[["1"], ["22"]], [], [], None, []]),
        ((r"([a-z])(\d+)", "g"), [[["a", "1"], ["b", "22"]], [], [], None, []]),
        ((r"(k)=(v)?", "g"), [[], [], [], None, [["k", None], ["k", "v"]]]),
        (("[A-Z]", "gi"), [[["a"], ["b"]], [["a"], ["b"]], [], None, [["k"], ["k"], ["v"]]]),
    ],
)
def test_matches(args: tuple[str, ...], expected: list[object]) -> None:
    expr = call("regexp_matches", column(TEXT), *map(text, args), hidden=True)
    assert outcomes(expr, TEXTS) == expected


def test_a_pattern_that_matches_nothing_is_refused_with_g() -> None:
    expr = call("regexp_matches", column(TEXT), text("x*"), text("g"), hidden=True)
    assert outcomes(expr, pa.array(["ab", None])) == [
        "regexp_matches with a pattern that matches nothing is not supported",
        None,
    ]
