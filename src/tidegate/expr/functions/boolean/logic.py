"""AND, OR, NOT and the tests of a condition (IS NULL, IS TRUE, …).

AND and OR are commutative, errors included: for AND, False takes precedence over an error, an error over NULL, and NULL over
True; of two errors the smallest message is reported. So the order of conditions never matters, and one condition that is
surely False prunes a part even where another may fail.

| A | B | A AND B | A OR B |
|---|---|---|---|
| false | error | false | error |
| true | error | error | true |
| null | error | error | error |
| error 1 | error 2 | the smaller | the smaller |
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, Specs
from tidegate.expr.domain.transfer import all_of, any_of
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.model.function import ANY, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome, first_error, only_where
from tidegate.expr.model.types import BOOL, Type
from tidegate.expr.spark_sql.forms import junction_form


def _junction(outcomes: tuple[Outcome, ...], deciding: bool) -> Outcome:
    """AND (decided by False) or OR (decided by True) of any number of outcomes."""
    kleene = pc.or_kleene if deciding else pc.and_kleene
    values = reduce(kleene, [values for values, _ in outcomes])
    errors = first_error(*(errors for _, errors in outcomes))
    if errors is None:
        return Outcome(values)
    # A failed row is null in `values` unless another condition decided it, so only undecided rows fail.
    undecided = pc.fill_null(pc.not_equal(values, deciding), True)
    errors = only_where(errors, undecided)
    if errors is None:
        return Outcome(values)
    return Outcome(pc.if_else(errors.is_null(), values, pa.scalar(None, pa.bool_())), errors)


def _flags(specs: Specs) -> tuple[np.ndarray, np.ndarray]:
    assert specs.true is not None
    assert specs.false is not None
    return specs.true, specs.false


def and_transfer(out: Type, *args: Specs) -> Specs:
    """AND over containers: where one argument can only be false, so can the result."""
    flags = [_flags(a) for a in args]
    surely_false = any_of([~true & ~a.null & ~a.error for a, (true, _) in zip(args, flags, strict=True)])
    true = all_of([true for true, _ in flags])
    false = any_of([false for _, false in flags])
    null = any_of([a.null for a in args]) & ~surely_false
    error = any_of([a.error for a in args]) & ~surely_false
    return Specs.boolean(true & ~surely_false, false, null, error)


def or_transfer(out: Type, *args: Specs) -> Specs:
    """OR over containers: where one argument can only be true, so can the result."""
    return not_transfer(out, and_transfer(out, *(not_transfer(out, a) for a in args)))


def not_transfer(out: Type, a: Specs) -> Specs:
    """NOT over containers: true and false are swapped."""
    true, false = _flags(a)
    return Specs.boolean(false, true, a.null, a.error)


_joins = partial(
    scalar,
    params=(BOOL,),
    result=BOOL,
    variadic=True,
    lenient=True,
    sees_errors=True,
    errors=NEVER,
    stable=True,
)
_tests = partial(scalar, result=BOOL, lenient=True, errors=NEVER, stable=True)


@_joins("and", transfer=and_transfer, spark=junction_form("AND"), duckdb=duckdb_form.junction("AND"))
def and_(*args: Outcome) -> Outcome:
    """True if all conditions are true. False takes precedence over an error, an error over NULL."""
    return _junction(args, deciding=False)


@_joins("or", transfer=or_transfer, spark=junction_form("OR"), duckdb=duckdb_form.junction("OR"))
def or_(*args: Outcome) -> Outcome:
    """True if any condition is true. True takes precedence over an error, an error over NULL."""
    return _junction(args, deciding=True)


@scalar(
    "not",
    (BOOL,),
    BOOL,
    errors=NEVER,
    transfer=not_transfer,
    stable=True,
    spark="(NOT {0})",
    duckdb="(NOT {0})",
)
def not_(a: Datum) -> pa.Array:
    """The negation: true for false, false for true."""
    return pc.invert(a)


def is_null_transfer(out: Type, a: Specs) -> Specs:
    """IS NULL over containers: known where there are no nulls, or nothing but nulls."""
    return Specs.boolean(a.null, ~a.empty, NO, a.error)


@_tests("is null", (ANY,), transfer=is_null_transfer, spark="({0} IS NULL)", duckdb="({0} IS NULL)")
def is_null(a: Datum) -> pa.Array:
    """True if the value is NULL."""
    return a.is_null()


def is_true_transfer(out: Type, a: Specs) -> Specs:
    """IS TRUE over containers: false for false and NULL."""
    true, false = _flags(a)
    return Specs.boolean(true, false | a.null, NO, a.error)


@_tests("is true", (BOOL,), transfer=is_true_transfer, spark="({0} IS TRUE)", duckdb="({0} IS TRUE)")
def is_true(a: Datum) -> pa.Array:
    """True if the condition is true, False if it is false or NULL."""
    return pc.fill_null(a, False)


def is_false_transfer(out: Type, a: Specs) -> Specs:
    """IS FALSE over containers: false for true and NULL."""
    return is_true_transfer(out, not_transfer(out, a))


@_tests("is false", (BOOL,), transfer=is_false_transfer, spark="({0} IS FALSE)", duckdb="({0} IS FALSE)")
def is_false(a: Datum) -> pa.Array:
    """True if the condition is false, False if it is true or NULL."""
    return pc.fill_null(pc.invert(a), False)
