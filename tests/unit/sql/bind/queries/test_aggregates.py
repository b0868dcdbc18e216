"""What aggregates and windows are written with, and what is refused and why."""

from __future__ import annotations

import pytest

from tidegate.errors import BindError, TidegateError, TypeMismatch, UnsupportedError
from tidegate.expr.model.types import FLOAT8, INT4, INT8, INTERVAL, TEXT, TIMESTAMP, array, numeric
from tidegate.plan import logical
from tidegate.sql import prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation

CATALOG = DictCatalog(
    {
        "o": Relation(
            "o",
            (("id", INT8), ("x", INT4), ("price", numeric(10, 2)), ("wide", numeric(38, 18)), ("at", TIMESTAMP),
             ("i", INTERVAL), ("f", FLOAT8), ("t", TEXT), ("tags", array(TEXT))),
        ),
        "c": Relation("c", (("id", INT8), ("name", TEXT))),
    }
)  # fmt: skip


def computed(select: str) -> list[str]:
    """The aggregates that an engine computes for a select list."""
    tree = prepare(f"SELECT {select} FROM o", CATALOG, 0).lowered
    found = [rel for rel in logical.walk(tree.rel) if isinstance(rel, logical.Group | logical.Window)]
    return [f"{entry[1].kind} {entry[1].type}" for rel in found for entry in rel.computed]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("stddev(f)", ["var_samp float8"]),
        ("stddev(x)", ["sum numeric(38,0)", "sum numeric(38,0)", "count int8"]),
        ("variance(price)", ["sum numeric(38,2)", "sum numeric(38,4)", "count int8"]),
        ("var_pop(id)", [*["sum numeric(38,0)"] * 4, "count int8"]),
        ("var_pop(wide)", ["sum numeric", *["sum numeric(38,0)"] * 5, "count int8"]),
        ("sum(i) OVER ()", ["sum numeric(38,0)"] * 3),
        ("jsonb_agg(x)", ["array_agg int4[]"]),
        ("jsonb_agg(tags)", ["array_agg jsonb[]"]),
        ("jsonb_object_agg(t, x)", ["array_agg row(k text, v jsonb)[]"]),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", ["array_agg float8[]"]),
        (
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY x)",
            ["array_agg int4[]"],
        ),
        ("string_agg(t, ',')", ["string_agg text"]),
        ("string_agg(t, x::text)", ["array_agg row(separator text, value text)[]"]),
        ("any_value(t), min(t ORDER BY x)", ["min text"]),
        ("lag(x, 2, 0) OVER (ORDER BY id)", ["lag int4"]),
        ("lag(x, 2, x) OVER (ORDER BY id)", ["lag bool", "lag int4"]),
    ],
)
def test_what_engines_compute(select: str, expected: list[str]) -> None:
    assert computed(select) == expected


REFUSED: list[tuple[str, type[TidegateError], str, str | None]] = [
    ("count(DISTINCT id, x)", BindError, "count takes one argument", "count(DISTINCT (a, b))"),
    ("stddev(DISTINCT x)", UnsupportedError, "stddev(DISTINCT …) is not supported", "subquery"),
    ("stddev(t)", TypeMismatch, "stddev does not take text", "numbers"),
    ("array_agg(DISTINCT tags)", UnsupportedError, "array_agg(DISTINCT …) of arrays", "subquery"),
    ("array_agg(DISTINCT x ORDER BY id)", BindError, "can be ordered only by its arguments", None),
    ("sum(DISTINCT i), (SELECT 1 FROM c)", UnsupportedError, "of intervals", None),
    ("mode(x)", BindError, "mode is sorted WITHIN GROUP", "ORDER BY x"),
    ("sum(x) WITHIN GROUP (ORDER BY x)", BindError, "sum has no WITHIN GROUP", "sum(x ORDER BY …)"),
    ("rank(1) WITHIN GROUP (ORDER BY x)", UnsupportedError, "rank WITHIN GROUP", "FILTER"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY t)", TypeMismatch, "percentile_cont does not take text", None),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY x) OVER ()", BindError, "not a window function", None),
    ("(SELECT max(o.x) FROM c)", UnsupportedError, "an aggregate of that query", "outer query"),
    ("array_agg(DISTINCT x) OVER ()", UnsupportedError, "DISTINCT and ORDER BY in the window function", None),
    ("sum(x) OVER (ORDER BY t RANGE 1 PRECEDING)", UnsupportedError, "is not supported by text", None),
    ("sum(x) OVER (ORDER BY at RANGE '-1 day' PRECEDING)", BindError, "must not be NULL or negative", None),
    ("sum(x) OVER (ORDER BY x, t RANGE 1 PRECEDING)", BindError, "needs an ORDER BY of one value", None),
    ("sum(x) OVER (GROUPS 1 PRECEDING)", BindError, "GROUPS needs an ORDER BY", None),
    ("sum(x) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)", BindError, "cannot end before it starts", None),
    ("sum(x) OVER (ROWS x PRECEDING)", UnsupportedError, "must be a constant", None),
]  # fmt: skip


@pytest.mark.parametrize(("select", "error", "said", "hint"), REFUSED)
def test_refusals(select: str, error: type[TidegateError], said: str, hint: str | None) -> None:
    with pytest.raises(error) as caught:
        computed(select)
    assert said in caught.value.message
    assert caught.value.position is not None
    assert hint is None or (caught.value.hint is not None and hint in caught.value.hint)
