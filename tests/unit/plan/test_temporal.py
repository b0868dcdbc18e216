"""Temporal plans: bounds, lives of rows, the decomposition, and what is refused."""

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.plan.model import (
    ADD,
    Random,
    Row,
    add,
    arrays,
    cases,
    col,
    dear,
    inverse,
    number,
    reference,
    run,
)  # fmt: skip
from tests.unit.plan.temporal_plan import TemporalPlan
from tidegate.errors import PlanError
from tidegate.expr.model.build import call, cast, literal
from tidegate.expr.model.function import Function
from tidegate.expr.model.tree import Call, Column, Expr, Now
from tidegate.expr.model.types import FLOAT8, INT8, MZ_TIMESTAMP, TEXT, TIMESTAMP, TIMESTAMPTZ, Type, numeric
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.plan.temporal import bounds_of, check_stable, decompose, unstable

LAST = 2**63 - 1
TYPES: tuple[Type, ...] = (INT8, MZ_TIMESTAMP, TIMESTAMPTZ, numeric(24, 3), FLOAT8)
BEYOND = {LAST, Decimal("1e18") * 10, float("nan"), float("inf")}
"""Bounds that no time reaches: `mz_now()` is below them for ever, but they make the row fail."""
VALUES: list[list[Any]] = [
    [None, -1, 0, 1, 2, 20],
    [None, -5, 0, 3, 5, 6, 12, LAST],
    [None, -1, 0, 2_999, 3_000, 3_001, 5_500, 12_000],
    [None, *map(Decimal, ("-0.5", "0", "2.999", "3", "3.001", "6", "12.5", "1e19"))],
    [None, -0.5, 0.0, 2.999, 3.0, 5.5, 12.0, float("nan"), float("inf")],
]
TIMES = range(-3, 16)
OPERATORS = ("<", "<=", ">", ">=", "=")


def columns() -> list[Expr]:
    return [Column(i, type_) for i, type_ in enumerate(TYPES)]


def temporal_condition(case: Random) -> Expr:
    choices = [*columns(), inverse(col(0)), add(col(0), number(3))]
    sides = [Now(), case.choice(choices)]
    case.shuffle(sides)
    return call(case.choices(OPERATORS, [4, 4, 4, 4, 1])[0], *sides)


def temporal_plan(case: Random) -> MapFilterProject:
    plan = MapFilterProject.identity(TYPES).filter(
        *(temporal_condition(case) for _ in range(case.choice([1, 1, 2, 2, 3])))
    )
    if case.random() < 0.6:
        plan = plan.filter(case.condition([col(0)]))
    if case.random() < 0.5:
        plan = plan.map(case.number([col(0)]))
    return plan.project([0, *case.sample(range(len(plan.projection)), k=2)])


def temporal_rows(case: Random) -> list[Row]:
    return [tuple(case.choice(values) for values in VALUES) for _ in range(case.randint(1, 8))]


Update = tuple[Row, int, int]


def accumulated(updates: list[Update], t: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for row, time, diff in updates:
        if time <= t:
            total[repr(row)] += diff
    return Counter({row: count for row, count in total.items() if count})


def updates_of(
    plan: TemporalPlan, data: list[pa.Array], times: Any, diffs: Any, until: int | None = None
) -> list[Update]:
    got = plan.evaluate(data, len(times), np.array(times, np.int64), np.array(diffs, np.int64), until)
    rows = list(zip(*(column.to_pylist() for column in got.columns), strict=True))
    return list(zip(rows, got.times.tolist(), got.diffs.tolist(), strict=True))


def direct(
    mfp: MapFilterProject, rows: list[Row], times: list[int], t: int
) -> tuple[dict[int, Row], dict[int, str]]:
    """The plan as a query that is asked at t: rows by number, and failures."""
    left, failed = reference(mfp, rows, now=t)
    return {i: row for i, row in left.items() if times[i] <= t}, failed


# ---------------------------------------------------------------- the law of seed 003


def test_the_decomposition_is_the_filter_at_every_time() -> None:
    for case in cases():
        mfp, rows = temporal_plan(case), temporal_rows(case)
        times = [case.choice([0, 1, 4, 9]) for _ in rows]
        data = arrays(rows, TYPES)
        parts = decompose(mfp)
        safe = SafePlan(parts.safe).evaluate(data, len(rows))
        failed = set(safe.failures.rows.tolist())
        arrived = np.array(times, np.int64)[safe.selection]
        persisted = TemporalPlan(parts.expiration).evaluate(
            safe.columns, len(arrived), arrived, np.ones_like(arrived)
        )
        assert len(persisted.failures) == 0
        lives = updates_of(TemporalPlan(mfp), data, times, [1] * len(rows))
        for t in case.sample(TIMES, k=8):
            read = persisted.times <= t
            final = SafePlan(parts.final).evaluate(
                [column.filter(pa.array(read)) for column in persisted.columns], int(read.sum()), now=t
            )
            stored = [
                (row, 0, int(diff))
                for row, diff in zip(
                    zip(*(column.to_pylist() for column in final.columns), strict=True),
                    persisted.diffs[read][final.selection], strict=True,
                )
            ]  # fmt: skip
            left, direct_failed = direct(mfp, rows, times, t)
            expected = Counter(repr(row) for i, row in left.items() if i not in failed)
            assert accumulated(stored, 0) == expected, (case, t)
            assert accumulated(lives, t) == expected, (case, t)
            assert direct_failed.keys() <= failed, (case, t)
            assert all(i in failed and not BEYOND.isdisjoint(rows[i]) for i in left.keys() & failed), (
                case,
                t,
            )


def test_until_only_leaves_out_what_is_later() -> None:
    for case in cases():
        mfp, rows = temporal_plan(case), temporal_rows(case)
        times, diffs = [case.choice([0, 4, 9]) for _ in rows], [case.choice([1, -1, 3]) for _ in rows]
        plan, data, until = TemporalPlan(mfp), arrays(rows, TYPES), case.choice([0, 4, 6, 13])
        full = updates_of(plan, data, times, diffs)
        cut = updates_of(plan, data, times, diffs, until)
        assert repr(cut) == repr([update for update in full if update[1] < until]), case


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("operator", "from_", "to"),
    [("<", 0, 11), ("<=", 0, 11), (">", 11, None), (">=", 11, None), ("=", None, None)],
)
def test_a_bound_between_two_milliseconds(operator: str, from_: int | None, to: int | None) -> None:
    for type_, value in (
        (TIMESTAMPTZ, 10_500),
        (TIMESTAMP, 10_001),
        (numeric(5, 1), Decimal("10.5")),
        (FLOAT8, 10.5),
    ):
        plan = (
            MapFilterProject.identity((type_,))
            .filter(call(operator, Now(), Column(0, type_)))
            .project(())
            .map(number(1))
        )
        expected = [((1,), from_, 1)] if from_ is not None else []
        expected += [((1,), to, -1)] if to is not None else []
        assert updates_of(TemporalPlan(plan), [pa.array([value], type_.arrow)], [0], [1]) == expected


@pytest.mark.parametrize(
    ("operator", "from_", "to"),
    [("<", 0, 10), ("<=", 0, 11), (">", 11, None), (">=", 10, None), ("=", 10, 11)],
)
def test_a_bound_at_a_millisecond_and_both_ways_round(operator: str, from_: int, to: int | None) -> None:
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}[operator]
    expected = [((10,), from_, 2)] + ([((10,), to, -2)] if to is not None else [])
    for condition in (call(operator, Now(), col(0)), call(flipped, col(0), Now())):
        plan = MapFilterProject.identity((INT8,)).filter(condition)
        assert updates_of(TemporalPlan(plan), [pa.array([10])], [0], [2]) == expected


def test_several_bounds_are_cut_together() -> None:
    t = Column(0, MZ_TIMESTAMP)
    later = cast(add(cast(t, INT8), number(5)), MZ_TIMESTAMP)
    plan = MapFilterProject.identity((MZ_TIMESTAMP,)).filter(
        call(">=", Now(), t), call("<", Now(), later), call(">", Now(), number(3))
    )
    data = [pa.array([0, 2, 9, None])]
    assert updates_of(TemporalPlan(plan), data, [0] * 4, [1] * 4) == [
        ((0,), 4, 1), ((2,), 4, 1), ((9,), 9, 1), ((0,), 5, -1), ((2,), 7, -1), ((9,), 14, -1),
    ]  # fmt: skip
    # What arrives after its time is over was never there.
    assert updates_of(TemporalPlan(plan), data, [6] * 4, [1] * 4) == [
        ((2,), 6, 1),
        ((9,), 9, 1),
        ((2,), 7, -1),
        ((9,), 14, -1),
    ]


def test_a_bound_beyond_time_is_a_failure_of_its_row() -> None:
    plan = MapFilterProject.identity((INT8,)).filter(call("<=", Now(), col(0)))
    got = TemporalPlan(plan).evaluate([pa.array([LAST, 5])], 2, np.zeros(2, np.int64), np.ones(2, np.int64))
    assert got.failures.rows.tolist() == [0]
    assert got.failures.messages.to_pylist() == ["mz_timestamp out of range"]
    assert got.times.tolist() == [0, 6]
    # But one that another predicate drops has not failed.
    dropped = TemporalPlan(plan.filter(call("<", col(0), number(9))))
    assert (
        len(dropped.evaluate([pa.array([LAST, 5])], 2, np.zeros(2, np.int64), np.ones(2, np.int64)).failures)
        == 0
    )


def test_a_null_bound_does_not_hide_an_error() -> None:
    """NULL AND error is an error at every time: the row fails, as in a query."""
    plan = MapFilterProject.identity((INT8, INT8)).filter(
        call("<", Now(), col(0)), call("<", Now(), inverse(col(1)))
    )
    assert reference(plan, [(None, 0)], now=1)[1] == {0: "division by zero"}
    got = TemporalPlan(plan).evaluate(
        [pa.array([None], pa.int64()), pa.array([0])], 1, np.zeros(1, int), np.ones(1, int)
    )
    assert got.failures.messages.to_pylist() == ["division by zero"]


# ---------------------------------------------------------------- the parts


def test_decompose_orders() -> None:
    plan = (
        MapFilterProject.identity((INT8, INT8))
        .filter(call("<=", Now(), col(1)), call(">", col(0), number(0)))
        .project((0,))
    )
    safe, expiration, final = decompose(plan)
    assert (
        safe.show()
        == ("Map step_ms(floor_ms(#1)), NULL::mz_timestamp\nFilter #2 = #2 AND #0 > 0\nProject (#0, #3, #2)")
        or "Filter #0 > 0 AND #2 = #2" in safe.show()
    )
    assert expiration.show() == "Filter mz_now() < #2"
    assert final.show() == "Project (#0)"
    assert final.types == plan.types
    assert safe.types == (INT8, MZ_TIMESTAMP, MZ_TIMESTAMP)


def test_decompose_with_a_lower_bound() -> None:
    plan = MapFilterProject.identity((INT8, INT8)).filter(call("<=", col(1), Now()))
    safe, expiration, final = decompose(plan)
    assert expiration.is_identity
    assert final.show() == "Filter #2 <= mz_now()\nProject (#0, #1)"
    assert run(safe, [pa.array([7, 8]), pa.array([5, None])], 2) == ({0: (7, 5, 5, None)}, {})


def test_without_time_nothing_is_added() -> None:
    plan = MapFilterProject.identity((INT8,)).filter(call("<", col(0), number(1)))
    safe, expiration, final = decompose(plan)
    assert safe is plan
    assert expiration.is_identity
    assert final.is_identity
    assert not plan.is_temporal
    assert updates_of(TemporalPlan(plan), [pa.array([0, 5, 0])], [3, 3, 9], [1, 1, 2], until=9) == [
        ((0,), 3, 1)
    ]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        (call("<>", Now(), col(0)), "mz_now() <> #0"),
        (call("or", call("<", Now(), col(0)), call("is null", col(0))), "mz_now() < #0 OR #0 IS NULL"),
        (call("not", call("<", Now(), col(0))), "NOT mz_now() < #0"),
        (call("<", add(call("coalesce", cast(Now(), INT8), number(0)), number(1)), col(0)), "add("),
        (call("=", Now(), Now()), "mz_now() = mz_now()"),
        (call("<", cast(Now(), TEXT), literal("x", TEXT)), "mz_now()::text < 'x'"),
        (call("is null", Now()), "mz_now() IS NULL"),
        (call("<", cast(Now(), numeric(5, 0)), literal(Decimal(3), numeric(5, 0))), "numeric(5,0) < 3"),
    ],
)
def test_what_sets_no_bounds_is_refused_and_shown(condition: Expr, shown: str) -> None:
    with pytest.raises(PlanError) as caught:
        decompose(MapFilterProject.identity((INT8,)).filter(condition))
    assert caught.value.construct is not None
    assert shown in caught.value.message
    assert "mz_now() <= created_at + '30 days'" in (caught.value.hint or "")
    # In a query that is asked once, the same is fine.
    assert (
        not SafePlan(MapFilterProject.identity((INT8,)).filter(condition))
        .evaluate([pa.array([3])], 1, now=3)
        .failures.rows.size
    )


def test_a_column_that_shows_the_time_is_refused() -> None:
    with pytest.raises(PlanError, match=r"in the column mz_now\(\)"):
        decompose(MapFilterProject.identity((INT8,)).map(Now()))
    # Not so if nothing looks at it.
    assert not MapFilterProject.identity((INT8,)).map(Now()).project((0,)).is_temporal


def test_time_is_seen_through_maps() -> None:
    plan = (
        MapFilterProject.identity((INT8,))
        .map(Now())
        .filter(call("<", Column(1, MZ_TIMESTAMP), col(0)))
        .project((0,))
    )
    assert plan.is_temporal
    assert bounds_of(plan.conditions[0]).compared == col(0)
    assert plan.optimise().is_temporal


def test_check_stable_names_the_function_in_the_way() -> None:
    wobbly = Function("wobbly", (FLOAT8,), FLOAT8, ADD.kernel, stable=True, exact=False)
    one, two = Column(0, INT8), Column(1, FLOAT8)
    plan = MapFilterProject.identity((INT8, FLOAT8)).filter(call("<", add(one, one), number(3)))
    check_stable(plan)
    check_stable(plan.map(dear(one)).project((0,)))
    with pytest.raises(PlanError, match=r"dear\(int8\) -> int8 does not promise"):
        check_stable(plan.map(dear(one)))
    check_stable(plan.map(Call(wobbly, (two,), FLOAT8)))
    with pytest.raises(PlanError, match=r"wobbly\(float8\) -> float8 is not exact"):
        check_stable(plan.map(Call(wobbly, (two,), FLOAT8)), exact=True)
    assert [f.name for f in unstable(plan.map(dear(one)))] == ["dear"]
