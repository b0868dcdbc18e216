"""Evaluates expressions over a batch of rows: Arrow arrays in, values and errors out.

Every distinct subexpression is evaluated once per batch, literals stay scalars, and calls of a family (the JSON paths into one
column) are evaluated together. A function is strict unless it declares otherwise: the result is null where an argument is null,
and an error where an argument is an error, the smallest if there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import pyarrow as pa

from tidegate.errors import PlanError
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    first_error,
    only_where,
    spread,
    validity,
    with_errors,
)
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, children, walk
from tidegate.expr.model.types import MZ_TIMESTAMP
from tidegate.expr.primitives.cancel import cancellable, check


class Evaluation:
    """Evaluates any number of expressions over one batch."""

    def __init__(
        self,
        columns: Sequence[pa.Array],
        rows: int,
        now: int | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """`columns[i]` is column i of the batch, `now` the value of `mz_now()`.

        `check` is called before each function and by long-running functions (`cancel.py`), and may raise.
        """
        self.columns = columns
        self.rows = rows
        self.now = now
        self.check = check
        self._outcomes: dict[Expr, Outcome] = {}
        self._families: dict[tuple[int, Expr], list[Call]] = {}

    def of(self, *exprs: Expr) -> list[Outcome]:
        """Values and errors of each expression, as arrays of the batch's length."""
        if all(isinstance(expr, Column) for expr in exprs):
            return [
                Outcome(spread(self.columns[expr.index], self.rows))
                for expr in exprs
                if isinstance(expr, Column)
            ]
        with cancellable(self.check):
            self._evaluate_all(exprs)
        outcomes = (self._outcomes[expr] for expr in exprs)
        return [Outcome(spread(values, self.rows), errors) for values, errors in outcomes]

    def _evaluate_all(self, exprs: Sequence[Expr]) -> None:
        nodes = [node for node in walk(*exprs, below=prerequisites) if node not in self._outcomes]
        for node in nodes:
            root = _root(node)
            if root is not None and isinstance(node, Call) and node.function.family is not None:
                self._families.setdefault((id(node.function.family), root), []).append(node)
        for node in nodes:
            if node not in self._outcomes:
                check()
                self._outcomes[node] = self._evaluate(node)

    def _evaluate(self, node: Expr) -> Outcome:
        match node:
            case Column(index):
                return Outcome(self.columns[index])
            case Literal(value):
                return Outcome(value)
            case Now():
                if self.now is None:
                    raise PlanError(
                        "mz_now() has no value here",
                        hint="only a temporal plan may be evaluated without a time",
                    )
                return Outcome(pa.scalar(self.now, MZ_TIMESTAMP.arrow))
            case Call():
                root = _root(node)
                return self._call(node) if root is None else self._family(node, root)
            case _:
                assert_never(node)

    def _family(self, call: Call, root: Expr) -> Outcome:
        """Evaluates all calls of a family over the same root; returns the outcome of `call`."""
        family = call.function.family
        assert family is not None
        calls = self._families.pop((id(family), root), [call])
        base = self._outcomes[root]
        outcomes = family.evaluate(spread(base.values, self.rows), calls)
        for member, outcome in zip(calls, outcomes, strict=True):
            self._outcomes[member] = with_errors(outcome.values, first_error(base.errors, outcome.errors))
        return self._outcomes[call]

    def _call(self, call: Call) -> Outcome:
        function = call.function
        if function.volatile:
            return Outcome(function.kernel(self.rows))
        arguments = [self._outcomes[arg] for arg in call.args]
        types = [arg.type for arg in call.args]
        if function.sees_errors:
            if not function.sees_scalars or all(isinstance(v, pa.Scalar) for v, _ in arguments):
                arguments = [Outcome(spread(v, self.rows), e) for v, e in arguments]
            return function.run(arguments, call.type, types)
        argument_errors = first_error(*(e for _, e in arguments))
        args = [v for v, _ in arguments]
        if all(isinstance(arg, pa.Scalar) for arg in args):
            values, errors = self._constant(call, args)
        else:
            values, errors = function.run(args, call.type, types)
            if errors is not None and not function.lenient:
                valid = validity(*args)
                errors = errors if valid is None else only_where(errors, valid)
        if argument_errors is None and errors is None:
            return Outcome(values)
        return with_errors(spread(values, self.rows), first_error(argument_errors, errors))

    def _constant(self, call: Call, args: Sequence[Datum]) -> tuple[Datum, Errors]:
        """The outcome of a call whose arguments are constants, evaluated on one row."""
        if not call.function.lenient and not all(arg.is_valid for arg in args):
            return pa.scalar(None, call.type.arrow), None
        single = [spread(args[0], 1), *args[1:]] if args else []
        values, errors = call.function.run(single, call.type, [arg.type for arg in call.args])
        if errors is None or not errors[0].is_valid:
            return values[0], None
        return pa.scalar(None, call.type.arrow), pa.repeat(errors[0], self.rows)


def _root(node: Expr) -> Expr | None:
    """The expression that a call of a family reads in the end; None for other nodes."""
    family = node.function.family if isinstance(node, Call) else None
    return None if family is None or not isinstance(node, Call) else family.root(node)


def prerequisites(node: Expr) -> tuple[Expr, ...]:
    """The nodes to evaluate before `node`; for a JSON path only its root, not the steps in between."""
    root = _root(node)
    return children(node) if root is None else (root,)


def evaluate(
    expr: Expr, columns: Sequence[pa.Array], rows: int | None = None, now: int | None = None
) -> Outcome:
    """Values and errors of one expression over columns of equal length."""
    return Evaluation(columns, len(columns[0]) if rows is None else rows, now).of(expr)[0]
