"""MapFilterProject: what it means; building, optimising, dividing and running it keep the meaning."""

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.plan.model import (
    ARITY,
    SEEN,
    Row,
    add,
    after,
    arrays,
    cases,
    col,
    dear,
    inverse,
    number,
    reference,
    run,
    run_both,
)  # fmt: skip
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.model.build import call
from tidegate.expr.model.subexpressions import may_fail
from tidegate.expr.model.tree import FALSE, TRUE, Call, Column, Expr, Now, walk
from tidegate.expr.model.types import BOOL, INT8, MZ_TIMESTAMP
from tidegate.plan.divide import may_pass, partition, take, take_all, take_demand
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.plan.verdicts import compute_verdicts

THREE = MapFilterProject.identity((INT8,) * ARITY)


# ---------------------------------------------------------------- laws


def test_evaluation_is_the_definition() -> None:
    for case in cases():
        mfp, rows = case.plan(), case.rows()
        assert run(mfp, arrays(rows), len(rows)) == reference(mfp, rows), case


def test_optimise_keeps_the_meaning() -> None:
    for case in cases():
        mfp, rows = case.plan(), case.rows()
        best = mfp.optimise()
        assert reference(best, rows) == reference(mfp, rows), case
        assert best.optimise() == best, case
        assert best.types == mfp.types
        assert best.demand() <= mfp.demand()
        calls = [n for e in (*best.expressions, *best.predicates) for n in walk(e) if isinstance(n, Call)]
        distinct = {n for n in walk(*best.outputs, *best.conditions) if isinstance(n, Call)}
        assert len(calls) == len(distinct), case


def test_what_is_taken_and_what_is_left_are_the_whole() -> None:
    for case in cases():
        mfp, rows = case.plan(), case.rows()
        known = set(
            case.sample(["add", "inverse", "dear", "<", "=", ">", "is null", "and", "or", "coalesce"], k=6)
        )
        whole = reference(mfp, rows)
        for taken, left in (take(mfp, lambda e: names(e) <= known), take_demand(mfp), take_all(mfp)):  # noqa: B023  # called at once
            assert run_both(taken, left, rows) == whole, case
            assert reference(taken.then(left), rows) == whole, case


def names(expr: Expr) -> set[str]:
    return {node.function.name for node in walk(expr) if isinstance(node, Call)}


def test_a_partition_reads_in_two_steps() -> None:
    for case in cases():
        mfp, rows = case.plan(), case.rows()
        available = set(case.sample(range(ARITY), k=case.randint(0, ARITY)))
        first, before, later, then = partition(mfp, available)
        assert set(first) <= available
        assert set(first) | set(later) <= mfp.demand()
        assert not set(later) & available
        columns = arrays(rows)
        got = SafePlan(before).evaluate([columns[i] for i in first], len(rows))
        more = [columns[i].take(pa.array(got.selection)) for i in later]
        assert after(got, more, then) == reference(mfp, rows), case


def test_then_is_one_after_the_other() -> None:
    for case in cases():
        first, rows = case.plan(), case.rows()
        second = case.plan(arity=len(first.projection))
        both = first.then(second)
        left, failed = reference(both, rows)
        in_turn, failed_in_turn = run_both(first, second, rows)
        # One plan knows more than two: an error of a column that the second does not use is none.
        assert in_turn.items() <= left.items(), case
        assert left.keys() <= in_turn.keys() | failed_in_turn.keys(), case
        if not may_fail(*both.conditions, *both.outputs, *first.outputs):
            assert (left, failed) == (in_turn, failed_in_turn), case


def test_permute_reads_the_demanded_columns_elsewhere() -> None:
    for case in cases():
        mfp, rows = case.plan(), case.rows()
        wanted = sorted(mfp.demand(), reverse=True)
        moved = mfp.permute({column: i for i, column in enumerate(wanted)}, (INT8,) * len(wanted))
        columns = arrays(rows)
        assert run(moved, [columns[i] for i in wanted], len(rows)) == reference(mfp, rows), case


# ---------------------------------------------------------------- building


def test_identity() -> None:
    assert THREE.is_identity
    assert THREE.types == (INT8,) * 3
    assert not THREE.project((0, 2, 1)).is_identity
    assert not THREE.filter(FALSE).is_identity
    assert THREE.filter(TRUE).is_identity
    assert str(THREE) == "Identity"
    assert MapFilterProject.identity(()).is_identity


def test_steps_speak_of_the_columns_that_leave() -> None:
    mfp = (
        THREE.project((2, 1))
        .map(add(col(0), col(1)), add(col(2), col(2)))
        .filter(call(">", col(3), number(0)))
    )
    assert mfp.outputs == (col(2), col(1), add(col(2), col(1)), add(add(col(2), col(1)), add(col(2), col(1))))
    assert mfp.conditions == (call(">", mfp.outputs[3], number(0)),)
    assert mfp.project((3,)).types == (INT8,)


def test_demand_follows_what_is_used() -> None:
    mfp = THREE.map(inverse(col(0))).project((1,))
    assert mfp.demand() == {1}
    assert mfp.filter(call("<", col(0), number(3))).demand() == {1}
    assert mfp.optimise() == THREE.project((1,))


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="come after"):
        MapFilterProject((INT8,), (col(1),), (), (0,))
    with pytest.raises(ValueError, match="only 1 columns"):
        MapFilterProject((INT8,), (), (), (1,))
    with pytest.raises(ValueError, match="condition"):
        THREE.filter(col(0))
    with pytest.raises(ValueError, match="3 output columns"):
        THREE.then(MapFilterProject.identity((INT8,)))
    with pytest.raises(ValueError, match="#2, which has no position"):
        THREE.permute({0: 0, 1: 1}, (INT8, INT8))


def test_at_makes_now_a_constant() -> None:
    mfp = (
        MapFilterProject.identity((MZ_TIMESTAMP,))
        .map(Now())
        .filter(call("<", Now(), Column(0, MZ_TIMESTAMP)))
    )
    assert mfp.is_temporal
    fixed = mfp.at(7)
    assert not fixed.is_temporal
    assert run(fixed, [pa.array([7, 8])], 2) == ({1: (8, 7)}, {})
    assert run(mfp, [pa.array([7, 8])], 2, now=7) == ({1: (8, 7)}, {})


def test_show() -> None:
    mfp = THREE.map(add(col(0), col(1)), inverse(col(3))).filter(call("<", col(4), number(9))).project((4, 0))
    assert mfp.show() == "Map add(#0, #1), inverse(#3)\nFilter #4 < 9\nProject (#4, #0)"
    assert str(mfp.optimise()) == "Map inverse(add(#0, #1))\nFilter #3 < 9\nProject (#3, #0)"


# ---------------------------------------------------------------- optimising


def test_common_subexpressions_get_a_column() -> None:
    both = add(col(0), col(1))
    mfp = THREE.map(inverse(both), dear(both), dear(both), inverse(col(2))).filter(call("<", both, number(3)))
    best = mfp.project((3, 4, 5)).optimise()
    assert best.expressions == (both, inverse(col(3)), dear(col(3)))
    assert best.predicates == (call("<", col(3), number(3)),)
    assert best.projection == (4, 5, 5)


def test_predicates_once_cheapest_first() -> None:
    cheap, costly = call("<", col(0), number(3)), call("<", dear(col(0)), number(3))
    assert THREE.filter(costly, cheap, costly, TRUE).optimise().predicates == (cheap, costly)
    assert THREE.filter(costly, FALSE, cheap).optimise().predicates == (FALSE,)


def test_equal_meanings_become_equal_plans() -> None:
    a, b = call("<", col(0), number(3)), call("<", col(1), number(3))
    assert THREE.filter(a).filter(b).optimise() == THREE.filter(call("and", b, a)).optimise()


# ---------------------------------------------------------------- dividing


def test_a_predicate_that_cannot_fail_is_moved() -> None:
    p, q = call("<", col(0), number(3)), call("<", dear(col(1)), number(3))
    taken, left = take(THREE.filter(p, q), lambda e: not any(n == dear(col(1)) for n in walk(e)))
    assert taken.predicates == (p,)
    assert left.predicates == (q,)


def test_beside_one_that_may_fail_it_is_copied() -> None:
    p, q = call("<", col(0), number(3)), call("<", inverse(col(1)), number(3))
    taken, left = take(THREE.filter(p, q), lambda e: not may_fail(e))
    # What was computed below is handed up, not computed again.
    assert taken.conditions == (may_pass(p),)
    assert taken.outputs == (col(0), col(1), col(2), p)
    assert left.predicates == (Column(3, BOOL), q)
    # p NULL and q an error: the row fails, though p alone would have dropped it.
    assert run_both(taken, left, [(None, 0, 0), (5, 0, 0), (1, 1, 1)]) == ({}, {0: "division by zero"})


def test_maps_that_cannot_fail_are_taken_and_columns_are_dropped() -> None:
    mfp = THREE.map(dear(add(col(0), col(1))), inverse(col(2))).project((3, 4))
    taken, left = take(mfp, lambda _: False)
    assert taken.is_identity
    taken, left = take(mfp, lambda e: not may_fail(e))
    assert taken == THREE.map(dear(add(col(0), col(1)))).project((2, 3))
    assert left == MapFilterProject.identity((INT8, INT8)).map(inverse(col(0))).project((1, 2))
    assert take(mfp, lambda _: True) == take_all(mfp)
    assert take_all(mfp).left.is_identity


def test_partition_names_the_columns_of_both_steps() -> None:
    p, q = call("<", col(2), number(3)), call("<", add(col(1), col(2)), number(9))
    parts = partition(THREE.filter(p, q).project((0,)), {2})
    assert parts.first == (2,)
    assert parts.before.predicates == (call("<", col(0), number(3)),)
    assert parts.later == (0, 1)
    assert parts.after.predicates == (call("<", add(col(2), col(0)), number(9)),)
    assert parts.after.projection == (1,)


# ---------------------------------------------------------------- running


def seen(name: str, mfp: MapFilterProject, rows: list[Row]) -> int:
    SEEN.clear()
    assert run(mfp, arrays(rows), len(rows)) == reference(mfp, rows)
    SEEN.clear()
    SafePlan(mfp).evaluate(arrays(rows), len(rows))
    return SEEN.get(name, 0)


def test_dear_predicates_see_only_open_rows() -> None:
    rows: list[Row] = [(i, i, None) for i in range(100)]
    mfp = THREE.filter(call("=", dear(col(1)), number(20)), call("<", col(0), number(11)))
    assert seen("dear", mfp, rows) == 11
    assert seen("dear", THREE.filter(call("=", dear(col(1)), number(20)), FALSE), rows) == 0


def test_what_a_predicate_computed_is_not_computed_again() -> None:
    rows: list[Row] = [(i, i, None) for i in range(100)]
    mfp = THREE.filter(call("=", dear(col(1)), number(20))).map(dear(col(1)))
    assert seen("dear", mfp, rows) == 100
    twice = THREE.filter(
        call("<", col(0), number(40)),
        call("<", dear(col(1)), number(20)),
        call("<", add(dear(col(1)), dear(col(0))), number(9)),
    )
    assert seen("dear", twice.map(dear(add(dear(col(1)), number(1)))), rows) == 40 + 40 + 3


def test_an_error_that_an_or_forgave_is_still_one_in_an_output() -> None:
    costly = dear(inverse(col(0)))
    mfp = THREE.filter(call("or", call("<", costly, number(0)), call("=", col(1), number(1)))).map(costly)
    rows: list[Row] = [(0, 1, 0), (1, 1, 0), *[(1, 0, 0)] * 6]
    assert run(mfp, arrays(rows), 8) == reference(mfp, rows)
    assert run(mfp, arrays(rows), 8) == ({1: (1, 1, 0, 120)}, {0: "division by zero"})


def test_failures_are_reported_in_order_with_their_rows() -> None:
    mfp = THREE.filter(call("<", inverse(col(0)), number(100))).map(inverse(col(1)))
    rows: list[Row] = [(1, 0, 0), (0, 1, 0), (1, 1, 0), (-1, -1, 0)]
    got = SafePlan(mfp).evaluate(arrays(rows), 4)
    assert got.selection.tolist() == [2]
    assert got.failures.rows.tolist() == [0, 1, 3]
    assert got.failures.messages.to_pylist() == ["division by zero", "division by zero", "cannot be negative"]
    assert len(got.failures) == 3


def test_undemanded_columns_may_be_missing_and_no_rows_are_fine() -> None:
    mfp = THREE.filter(call("<", col(1), number(3))).project((1,))
    assert run(mfp, [None, pa.array([1, 5]), None], 2) == ({0: (1,)}, {})
    assert run(mfp, [None, pa.array([], pa.int64()), None], 0) == ({}, {})
    assert run(THREE.project(()), [None] * 3, 2) == ({0: (), 1: ()}, {})
    sliced = pa.array([9, 9, 1, 5]).slice(2)
    assert run(mfp, [None, sliced, None], 2) == ({0: (1,)}, {})


def test_constants_leave_as_columns() -> None:
    mfp = THREE.map(number(7)).filter(call(">", col(0), number(0))).project((3,))
    assert run(mfp, arrays([(1, 0, 0), (0, 0, 0), (2, 0, 0)]), 3) == ({0: (7,), 2: (7,)}, {})


# ---------------------------------------------------------------- over parts


def ranged(low: list[int], high: list[int]) -> Specs:
    return Specs.ranged(INT8, pa.array(low), pa.array(high), null=np.zeros(1, bool))


def test_verdicts() -> None:
    mfp = THREE.filter(call("<", col(0), number(3)), call("<", inverse(col(1)), number(3))).map(
        inverse(col(2))
    )
    found = compute_verdicts(mfp, [ranged([0, 5, 0], [2, 9, 9]), None, None], parts=3)
    # The second part has no row below 3: it goes although `inverse` may fail in it.
    assert found.verdict.tolist() == [Verdict.SOME, Verdict.NONE, Verdict.SOME]
    assert found.keep.tolist() == [True, False, True]
    assert [v.tolist() for c, v in found.by_condition if c == call("<", col(0), number(3))] == [[2, 0, 1]]
    assert found.may_fail.all()
    assert not found.answerable.any()


def test_all_is_answerable_unless_an_output_may_fail() -> None:
    few = THREE.filter(call("<", col(0), number(3)))
    specs = [ranged([0, 5, 0], [2, 9, 9]), None, None]
    assert compute_verdicts(few, specs, parts=3).answerable.tolist() == [True, False, False]
    assert not compute_verdicts(few.map(inverse(col(1))), specs, parts=3).answerable.any()
    assert compute_verdicts(few.map(inverse(col(1))).project((0,)), specs, parts=3).answerable.tolist() == [
        True,
        False,
        False,
    ]
    assert compute_verdicts(THREE, [None] * 3, parts=2).answerable.tolist() == [True, True]


def test_verdicts_never_lose_a_row_or_a_failure() -> None:
    for case in cases():
        mfp, rows = case.plan(), case.rows(most=4)
        specs = [_specs_of([row[i] for row in rows]) for i in range(ARITY)]
        found = compute_verdicts(mfp, specs)
        left, failed = reference(mfp, rows)
        if found.verdict[0] == Verdict.NONE:
            assert (left, failed) == ({}, {}), case
        if found.verdict[0] == Verdict.ALL:
            assert len(left) + len(failed) == len(rows), case
        if found.answerable[0]:
            assert len(left) == len(rows), case


def _specs_of(values: list[int | None]) -> Specs:
    known = [value for value in values if value is not None]
    null, empty = np.array([None in values]), np.array([not known])
    low, high = (pa.array([end], pa.int64()) for end in ((min(known), max(known)) if known else (None, None)))
    return Specs.ranged(INT8, low, high, null=null, empty=empty)


def test_a_long_chain_of_conditions_is_flat() -> None:
    many: list[Expr] = [call("<>", col(0), number(i)) for i in range(500)]
    mfp = THREE.filter(*many)
    assert run(mfp.optimise(), arrays([(1, 0, 0), (500, 0, 0)]), 2) == ({1: (500, 0, 0)}, {})
    assert run(THREE.filter(call("or", *many)), arrays([(1, 0, 0)]), 1) == ({0: (1, 0, 0)}, {})


def test_may_pass_is_false_only_where_the_condition_is() -> None:
    for case in cases():
        rows, p = case.rows(), case.condition([col(0), col(1)])
        kept, failed = run(THREE.filter(may_pass(p)), arrays(rows), len(rows))
        assert not failed
        false, _ = run(THREE.filter(call("is false", p)), arrays(rows), len(rows))
        assert kept.keys() == set(range(len(rows))) - false.keys(), case
