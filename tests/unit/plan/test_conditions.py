"""Which conditions are read first: the seed's rules one by one, and its own example."""

import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.unit.plan.model import dear, number
from tidegate.expr.model.build import call
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import FALSE, TRUE, Column, Expr, support
from tidegate.expr.model.types import INT4, INT8, JSONB, TEXT, TIMESTAMPTZ, Type
from tidegate.plan.conditions import (
    MAX_SHARE_ONE_COLUMN,
    MAX_SHARE_SEVERAL_COLUMNS,
    MIN_IMPROVEMENT,
    StagePlan,
    choose_stages,
    heavy_functions,
)
from tidegate.sql.bind.query import bind_expression

COLUMNS: list[tuple[str, Type]] = [
    ("id", INT8), ("url", TEXT), ("payload", JSONB), ("at", TIMESTAMPTZ), ("region", INT4), ("counter", INT4), ("phrase", TEXT),
    ("more", TEXT),
]  # fmt: skip
BYTES = dict(enumerate([8.0, 80.0, 300.0, 8.0, 4.0, 4.0, 20.0, 464.0]))
NAMES = [name for name, _ in COLUMNS]
AT = {name: i for i, name in enumerate(NAMES)}
ALL = range(len(COLUMNS))


def cond(sql: str) -> Expr:
    return bind_expression(sql, COLUMNS)


def independent(known: Mapping[str, float]) -> Callable[[Sequence[Expr]], float]:
    """Selectivities by the words of a condition; together they multiply."""

    def selectivity(conditions: Sequence[Expr]) -> float:
        return math.prod(known[show(condition)] for condition in conditions)

    return selectivity


def chosen(given: Mapping[str, float], demand: Sequence[int] = ALL) -> StagePlan:
    conditions = [cond(sql) for sql in given]
    known = {show(condition): given[sql] for condition, sql in zip(conditions, given, strict=True)}
    return choose_stages(conditions, BYTES, demand, independent(known))


def staged(found: StagePlan) -> list[list[str]]:
    return [[show(condition) for condition in stage.conditions] for stage in found.stages]


def reasons(found: StagePlan) -> dict[str, str]:
    return {show(skipped.condition): skipped.reason for skipped in found.skipped}


# ---------------------------------------------------------------- the seed's example


def test_the_flagship_is_pushed() -> None:
    found = chosen({"url LIKE '%google%'": 0.01})
    (stage,) = found.stages
    assert (stage.columns, stage.selectivity, stage.heavy) == ((AT["url"],), 0.01, False)
    assert stage.share == pytest.approx(80 / 888)
    assert found.income == pytest.approx((1 - 0.01) * (888 - 80) / 888)  # the seed's formula, in bytes
    assert found.rest == ()
    assert found.show() == [
        "pushed down filter: url LIKE '%google%' (reads 9 % of the bytes, leaves 1 % of the rows)"
    ]


def test_explain_of_the_seed() -> None:
    """Five narrow columns, LIKE on a wide one, and a heavy function: LIKE goes down, the function stays in the Selection."""
    like, func = cond("url LIKE '%google%'"), call(">", dear(Column(8, INT8, "func")), number(0))
    weight = {**BYTES, 8: 20.0}
    demand = {AT["region"], AT["counter"], AT["id"], AT["url"], 8}
    found = choose_stages([func, like], weight, demand, lambda given: 0.1 if like in given else 0.33)
    assert found.pushed == (like,)
    assert found.rest == (func,)
    assert [skipped.reason for skipped in found.skipped] == ["heavy function dear"]


def test_the_example_of_the_docstring() -> None:
    found = chosen({"url LIKE '%google%'": 0.1, "id < 70": 0.5, "payload ->> 'k' = 'v'": 0.1})
    assert staged(found) == [["id < 70"], ["url LIKE '%google%'"], ["payload ->> 'k' = 'v'"]]
    assert [stage.selectivity for stage in found.stages] == pytest.approx([0.5, 0.05, 0.005])
    read = [888 * (1 - stage.income) for stage in found.stages]
    assert read == pytest.approx([448, 88, 65.5])
    assert [stage.heavy for stage in found.stages] == [False, False, True]


# ---------------------------------------------------------------- groups


def test_conditions_of_one_column_go_together() -> None:
    found = chosen({"id > 5": 0.9, "url = 'x'": 0.01, "id < 7": 0.2})
    assert staged(found) == [["id > 5", "id < 7"], ["url = 'x'"]]
    little = reasons(chosen({"id > 5": 0.97, "url = 'x'": 0.01, "id < 7": 0.97}))
    assert little == {"id > 5": "gains too little", "id < 7": "gains too little"}


def test_what_needs_no_more_columns_goes_along() -> None:
    found = chosen({"id > 1": 0.5, "region > 2": 0.3, "id + region = 7": 0.99, "region <> 9": 1.0})
    assert staged(found) == [["region > 2", "region <> 9"], ["id > 1", "id + region = 7"]]
    assert [stage.columns for stage in found.stages] == [(AT["region"],), (AT["id"],)]


def test_a_group_that_was_too_wide_goes_along_once_its_columns_are_read() -> None:
    demand = [AT["id"], AT["region"], AT["url"]]
    both = {"id > 1": 0.5, "url = 'x'": 0.1, "id = length(url)": 0.5}
    assert "reads 96 % of the bytes" in reasons(chosen({"id = length(url)": 0.1}, demand)).values()
    wide = chosen({**both, "more LIKE '%x%'": 0.9})
    assert "id = length(url)" in staged(wide)[-1]


def test_groups_that_share_a_column_stay_apart() -> None:
    """The cheapest condition does not wait for the widest column."""
    found = chosen({"id = length(more)": 0.3, "id > 1": 0.01})
    assert staged(found)[0] == ["id > 1"]
    assert found.stages[0].columns == (AT["id"],)


# ---------------------------------------------------------------- bytes


def test_bytes_decide_and_not_the_number_of_columns() -> None:
    """Both pass nearly the same; by number of columns the wide one would come first."""
    found = chosen({"phrase = 'a'": 0.1, "id = 1": 0.11})
    assert staged(found)[0] == ["id = 1"]
    wide = chosen({"more = 'a'": 0.1}, [AT["more"], AT["id"], AT["region"]])
    assert reasons(wide) == {"more = 'a'": "reads 97 % of the bytes"}
    narrow = chosen({"more = 'a'": 0.1})
    assert staged(narrow) == [["more = 'a'"]]


@pytest.mark.parametrize(("columns", "limit"), [(1, MAX_SHARE_ONE_COLUMN), (2, MAX_SHARE_SEVERAL_COLUMNS)])
@pytest.mark.parametrize("over", [False, True])
def test_the_widest_that_is_read_first(columns: int, limit: float, over: bool) -> None:
    sql = "id = 1" if columns == 1 else "id = region"
    size = limit + (0.01 if over else -0.01)
    weight = {0: size / 2 if columns == 2 else size, 4: size / 2 if columns == 2 else 0.0, 1: 1 - size}
    found = choose_stages([cond(sql)], weight, [0, 1, 4], lambda _: 0.0)
    assert bool(found.stages) is not over
    assert over is any("of the bytes" in skipped.reason for skipped in found.skipped)


@pytest.mark.parametrize("over", [False, True])
def test_the_least_that_a_stage_must_save(over: bool) -> None:
    saved = MIN_IMPROVEMENT + (0.001 if over else -0.001)
    found = choose_stages([cond("id = 1")], {0: 0.0, 1: 1.0}, [0, 1], lambda _: 1 - saved)
    assert bool(found.stages) is over


def test_a_second_group_is_taken_after_the_first() -> None:
    """Literally, the seed's loop ends after the first group it takes."""
    found = chosen({"id = 1": 0.3, "region = 2": 0.3, "counter = 3": 0.3})
    assert len(found.stages) == 3
    income = [stage.income for stage in found.stages]
    assert income == sorted(income)


def test_little_gain_does_not_end_the_search() -> None:
    found = chosen({"id <> 1": 0.95, "more LIKE '%x%'": 0.01})
    assert staged(found) == [["more LIKE '%x%'"]]
    assert reasons(found) == {"id <> 1": "gains too little"}


def test_after_a_sharp_stage_nothing_is_left_to_be_gained() -> None:
    found = chosen({"id = 1": 0.0001, "url LIKE '%x%'": 0.1})
    assert staged(found) == [["id = 1"]]
    assert found.selectivity == 0.0001


def test_all_columns_are_in_the_filter() -> None:
    """Of `count(*)`: the wide column is read for what the narrow one leaves, and asked above."""
    found = chosen({"id = 1": 0.1, "more LIKE '%x%'": 0.1}, [AT["id"], AT["more"]])
    assert staged(found) == [["id = 1"]]
    assert chosen({"id = 1": 0.1}, [AT["id"]]).stages == ()


# ---------------------------------------------------------------- heavy functions


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("(payload ->> 'k')::int8 > 5", ["->>"]),
        ("id = 1 OR payload -> 'a' ->> 'k' = 'v'", ["->", "->>"]),
        ("NOT (url ~ 'a.*b' AND id > 1)", ["~"]),
        ("CASE WHEN id > 1 THEN url ~ 'x' ELSE false END", ["~"]),
        ("url LIKE '%x%'", []),
        ("region = ('{\"a\": 1}'::jsonb ->> 'a')::int4", []),
    ],
)
def test_heavy_wherever_it_stands(sql: str, names: list[str]) -> None:
    assert heavy_functions(cond(sql)) == names


def test_heavy_ones_are_never_before_light_ones() -> None:
    heavy, light, little = "payload ->> 'k' = 'v'", "url = 'x'", "region <> 4"
    found = chosen({heavy: 0.0001, light: 0.5, little: 0.98})
    assert staged(found) == [[light], [little, heavy]]
    assert found.stages[1].columns == (AT["payload"], AT["region"])
    alone = chosen({heavy: 0.0001, little: 0.98})
    assert staged(alone) == [[little, heavy]]


def test_a_heavy_one_on_a_column_that_is_read() -> None:
    """Light conditions on the same column do not wait for it."""
    found = chosen({"url ~ 'a.*b'": 0.01, "url LIKE 'http%'": 0.4})
    assert staged(found) == [["url LIKE 'http%'"], ["url ~ 'a.*b'"]]
    assert found.stages[1].columns == ()


def test_heavy_that_saves_nothing_stays_above() -> None:
    found = chosen({"payload ->> 'k' = 'v'": 0.01, "id = 1": 0.0001})
    assert reasons(found) == {"payload ->> 'k' = 'v'": "heavy function ->>"}
    wide = chosen({"payload ->> 'k' = 'v'": 0.01}, [AT["id"], AT["payload"]])
    assert reasons(wide) == {"payload ->> 'k' = 'v'": "reads 97 % of the bytes"}


# ---------------------------------------------------------------- odd conditions and odd numbers


def test_conditions_without_columns() -> None:
    nothing = choose_stages([FALSE], BYTES, ALL, lambda _: 0.0)
    assert [(stage.columns, stage.income) for stage in nothing.stages] == [((), 1.0)]
    assert choose_stages([TRUE], BYTES, ALL, lambda _: 1.0).rest == (TRUE,)
    fails = chosen({"1 / 0 = 1": 1.0, "id = 1": 0.01})
    assert staged(fails) == [["id = 1", "1 / 0 = 1"]]
    assert choose_stages([], BYTES, ALL, lambda _: 1.0) == StagePlan((), ())


@pytest.mark.parametrize("given", [math.nan, -1.0, 7.0, math.inf])
def test_estimates_that_are_none(given: float) -> None:
    conditions = [cond("id = 1"), cond("url = 'x'")]
    found = choose_stages(conditions, BYTES, ALL, lambda _: given)
    assert sorted(map(show, (*found.pushed, *found.rest))) == ["id = 1", "url = 'x'"]
    assert bool(found.stages) is (given < 0)
    assert choose_stages(conditions, dict.fromkeys(ALL, 0.0), ALL, lambda _: 0.1).stages == ()


def test_every_condition_is_asked_once_and_stages_keep_their_promises() -> None:
    """Random filters: 400 cases take about a second, and the rules have some twenty ways to combine."""
    pool = [
        "id > 5", "id < 9", "url LIKE '%x%'", "url ~ 'x'", "payload ->> 'k' = 'v'", "id = region", "at > '2024-01-01'", "1 / 0 = 1",
        "region + counter > id", "phrase = more", "payload ->> 'n' = url", "more IS NULL", "phrase ILIKE 'a%'", "counter IN (1, 2)",
    ]  # fmt: skip
    known = {sql: cond(sql) for sql in pool}
    rng = random.Random(4)
    for _ in range(400):
        picked = [known[sql] for sql in rng.sample(pool, rng.randint(1, 8))]
        odds = {condition: rng.choice([0.0, 0.001, 0.1, 0.5, 0.9, 1.0]) for condition in picked}
        demand = support(*picked) | frozenset(rng.sample(ALL, rng.randint(0, 8)))
        found = choose_stages(
            picked, BYTES, demand, lambda given, odds=odds: math.prod(odds[c] for c in given)
        )  # type: ignore[misc]  # bound now
        assert sorted(map(show, (*found.pushed, *found.rest))) == sorted(map(show, picked))
        assert len(found.rest) == len(found.skipped) == len({s.condition for s in found.skipped})
        read: set[int] = set()
        spent, before = 0.0, 1.0
        for stage in found.stages:
            assert not read & set(stage.columns)
            spent += before * sum(BYTES[column] for column in stage.columns)
            read |= set(stage.columns)
            assert support(*stage.conditions) <= read
            assert stage.selectivity <= before
            before = stage.selectivity
            left = sum(BYTES[column] for column in demand - read)
            total = sum(BYTES[column] for column in demand)
            assert stage.income == pytest.approx((total - spent - before * left) / total)
        heavy = [stage.heavy for stage in found.stages]
        assert heavy == sorted(heavy)
        assert heavy == [any(map(heavy_functions, stage.conditions)) for stage in found.stages]
        # A light condition above the scan reads something that no stage has read.
        assert all(heavy_functions(c) or not support(c) <= read for c in found.rest if found.stages)
