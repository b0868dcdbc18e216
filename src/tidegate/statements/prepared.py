"""PREPARE, EXECUTE and DEALLOCATE: statements with a name, of one session.

    PREPARE cheap (numeric) AS SELECT id FROM orders WHERE total < $1;
    EXECUTE cheap (9.50)

A statement lasts as its text, and is bound when it is executed. An argument is assigned to the declared type of its parameter;
where none is declared it is a string without a type, which takes the type that its place requires.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, assert_never

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError, ErrorCode, EvaluationError, TidegateError, UnsupportedError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Expr, Kind, Type, build, types
from tidegate.query import Result
from tidegate.sql.bind import Binder, Scope, assignment_cast
from tidegate.sql.parse import (
    Parameters,
    TypedText,
    parse_statements,
    statement,
    statement_texts,
    syntax,
    table_statement,
)
from tidegate.statements.modify import Modification, bind_returning
from tidegate.statements.select import columns_of

MAX_STATEMENTS = 2_000
"""Statements that a session may name."""


def run_prepared(
    context: Context,
    given: table_statement.PreparedCommand,
    run: Callable[[str, Parameters], Result],
) -> Result:
    """PREPARE, EXECUTE or DEALLOCATE; `run` runs a text with parameters."""
    match given:
        case table_statement.Prepare():
            return _prepare(context, given)
        case table_statement.Execute():
            return run(*statement_of(context, given))
        case table_statement.Deallocate():
            return _deallocate(context, given)
        case _:
            assert_never(given)


def statement_of(context: Context, given: table_statement.Execute) -> tuple[str, Parameters]:
    """The text that EXECUTE runs, and its parameters."""
    found = _find(context, given.name, given.sql)
    wanted, arguments = parameter_count(found), given.arguments
    if not wanted:
        return found.text, Parameters.of([])  # as in PostgreSQL, arguments beside none are not looked at
    if len(arguments) != wanted:
        raise BindError(
            f'wrong number of parameters for prepared statement "{given.name.text}"',
            hint=f"expected {wanted} parameters but got {len(arguments)}",
            code=ErrorCode.INVALID_ARGUMENTS,
            position=position_of(given.sql, given.name),
        )
    declared = [*found.types, *[None] * (wanted - len(found.types))]
    binder = Binder(given.sql, Scope(()), context.clock.now())
    values = [_argument(binder, node, type_) for node, type_ in zip(arguments, declared, strict=True)]
    return found.text, Parameters.of(values)


def parameter_count(found: table_statement.Prepare) -> int:
    """How many parameters a statement has: those that are declared, or the highest number in its text."""
    (piece,) = statement_texts(found.text)
    numbers = [int(token.text) for token in piece.tokens if token.kind == "parameter"]
    return max(len(found.types), *numbers, 0)


def prepared_columns(
    context: Context, given: table_statement.Execute
) -> tuple[tuple[str, ...], tuple[Type, ...]] | None:
    """The columns that EXECUTE returns; None: no rows."""
    text, parameters = statement_of(context, given)
    (parsed,) = parse_statements(text, parameters)
    if not isinstance(parsed, statement.SelectStatement):
        return bind_returning(context, parsed) if isinstance(parsed, Modification) else None
    return columns_of(parsed.query, CatalogSnapshot(context), context.clock.now())


def _prepare(context: Context, given: table_statement.Prepare) -> Result:
    name, known = given.name.text, context.named_statements
    if name in known:
        raise BindError(
            f'prepared statement "{name}" already exists',
            code=ErrorCode.DUPLICATE_STATEMENT,
            hint="DEALLOCATE it first",
        )
    if len(known) >= MAX_STATEMENTS:
        raise UnsupportedError("too many prepared statements", hint="DEALLOCATE ALL forgets them")
    numbers = {
        int(token.text) for token in statement_texts(given.text)[0].tokens if token.kind == "parameter"
    }
    if 0 in numbers:
        raise BindError("there is no parameter $0", code=ErrorCode.UNDEFINED_PARAMETER)
    known[name] = given
    return Result.message("PREPARE")


def _deallocate(context: Context, given: table_statement.Deallocate) -> Result:
    if given.name is None:
        context.named_statements.clear()
        return Result.message("DEALLOCATE ALL")
    _find(context, given.name, given.sql)
    del context.named_statements[given.name.text]
    return Result.message("DEALLOCATE")


def _find(context: Context, name: syntax.Ident, sql: str) -> table_statement.Prepare:
    found = context.named_statements.get(name.text)
    if found is None:
        raise BindError(
            f'prepared statement "{name.text}" does not exist',
            code=ErrorCode.UNDEFINED_STATEMENT,
            position=position_of(sql, name),
        )
    return found


def _argument(binder: Binder, node: syntax.Node, declared: Type | None) -> Any:
    """The value of an argument as `Parameters` takes it."""
    try:
        bound = binder.bind(node)
        value = bound if declared is None else assignment_cast(bound, declared)
        return _value(value, declared)
    except TidegateError as error:
        error.position = error.position or binder.position(node.at)
        raise


def _value(expr: Expr, declared: Type | None) -> Any:
    if declared is not None and declared.kind is Kind.NUMERIC:
        found: Decimal | None = _evaluated(expr)
        return found
    shown = expr if expr.type.kind is Kind.UNKNOWN else build.cast(expr, types.TEXT)
    text = _evaluated(shown)
    return text if declared is None else TypedText(text, declared)


def _evaluated(expr: Expr) -> Any:
    outcome = evaluate(expr, [], 1)
    if outcome.errors is not None and outcome.errors[0].is_valid:
        raise EvaluationError(outcome.errors[0].as_py())
    return outcome.values[0].as_py()
