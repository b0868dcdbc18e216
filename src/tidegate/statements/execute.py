"""What each statement does: one line each.

execute(context, "CREATE TABLE t (id int8); INSERT INTO t VALUES (1); SELECT * FROM t")     the result of the last one
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, assert_never

from tidegate.context import Context
from tidegate.errors import BindError, ParseError, Position, UnsupportedError
from tidegate.expr.primitives import cancellable
from tidegate.query import CancelToken, Result
from tidegate.sql.bind import bind_as_of
from tidegate.sql.parse import Parameters, parse_statements, statement, statement_texts, table_statement
from tidegate.statements import define, explain
from tidegate.statements import select as query
from tidegate.statements.drop import drop
from tidegate.statements.insert import insert
from tidegate.statements.modify import explain_modification, is_general, modify
from tidegate.statements.observe import observed
from tidegate.statements.postgres_settings import is_postgres_setting, set_postgres_setting
from tidegate.statements.prepared import run_prepared
from tidegate.statements.show import show
from tidegate.statements.tables import define_table
from tidegate.storage.maintain import maintain_in_steps

T = TypeVar("T")


def execute(
    context: Context,
    sql: str,
    as_of: int | None = None,
    watch: CancelToken | None = None,
    parameters: Parameters | None = None,
) -> Result:
    """Runs the statements of a text in order; the result of the last. `watch` can end queries."""
    result = _with_catalog(context, sql, as_of, watch, parameters) if _CATALOG.search(sql) else None
    return _execute(context, sql, as_of, watch, parameters) if result is None else result


def _execute(
    context: Context,
    sql: str,
    as_of: int | None,
    watch: CancelToken | None,
    parameters: Parameters | None,
) -> Result:
    found = observed(context, sql, "parse", lambda: _parsed(context, sql, parameters))
    result = Result.message("")
    for one in found:
        context = context.current()  # SET may have changed its settings
        result = observed(context, sql, kind_of(one), partial(_run_statement, context, one, as_of, watch))
    return result


_CATALOG = re.compile(
    r"information_schema|\bpg_|::\s*reg|\b(?:has_|to_reg|current_schemas|format_type)", re.IGNORECASE
)
"""What every text has that asks pg_catalog or information_schema anything."""


def _with_catalog(
    context: Context,
    sql: str,
    as_of: int | None,
    watch: CancelToken | None,
    parameters: Parameters | None,
) -> Result | None:
    """Runs statements one by one, after all of them were parsed; None if none is about the catalog."""
    from tidegate.statements.postgres_catalog.queries import is_about_catalog, query_catalog

    pieces = statement_texts(sql)
    others = [piece for piece in pieces if not is_about_catalog(context, piece)]
    if len(others) == len(pieces):
        return None
    for piece in others:
        observed(context, piece.text, "parse", partial(_parsed, context, piece.text, parameters))
    result = Result.message("")
    for piece in pieces:
        context = context.current()
        if is_about_catalog(context, piece):
            query = partial(query_catalog, context, piece, as_of, watch)
            result = observed(context, piece.text, "catalog", query)
        else:
            result = _execute(context, piece.text, as_of, watch, parameters)
    return result


def explain_last(
    run: Callable[..., Result],
    sql: str,
    values: Sequence[Any] | Mapping[str, Any] | None,
    as_of: int | None,
    analyze: bool,  # what Result.explain calls
) -> Result:
    """The plan of the last of some statements, whose values are beside them; `run` is `db.sql`."""
    last = statement_texts(sql)[-1].text
    return run(f"EXPLAIN {'ANALYZE ' if analyze else ''}{last}", values, as_of=as_of)


def kind_of(given: statement.Statement) -> str:
    """The name of a statement in metrics and logs: `select`, `create_table`."""
    if isinstance(given, table_statement.RenameCollection):
        return f"alter_{given.kind}"
    name = type(given).__name__.removesuffix("Statement")
    return re.sub("(?<=.)([A-Z])", r"_\1", name).lower()


def _parsed(
    context: Context, sql: str, parameters: Parameters | None = None
) -> Sequence[statement.Statement]:
    found = context.prepared.statements(sql) if parameters is None else parse_statements(sql, parameters)
    if not found:
        raise ParseError("there is no statement here", position=Position(sql, 0, 0))
    stored = next((one for one in found if not isinstance(one, PARAMETRISED)), None)
    if parameters is not None and stored is not None:
        raise UnsupportedError(
            f"{kind_of(stored).upper().replace('_', ' ')} takes no parameters",
            hint="queries, INSERT, UPDATE, DELETE, MERGE and CREATE TABLE AS do; a definition outlives the values",
        )
    return found


PARAMETRISED = (
    statement.SelectStatement,
    statement.Explain,
    statement.Insert,
    statement.Update,
    statement.Delete,
    statement.Merge,
    table_statement.CreateTableAs,
)
"""Statements that may have parameters: what others define is stored as text."""


_WITH_TIMES = (statement.SelectStatement, statement.Explain, table_statement.Execute)
"""Statements that may read at another time."""


def _run_statement(
    context: Context, given: statement.Statement, as_of: int | None, watch: CancelToken | None
) -> Result:
    if as_of is not None and not isinstance(given, _WITH_TIMES):
        raise BindError("as_of is for queries: a statement that changes something does so now")
    with cancellable((watch or CancelToken(context.config.statement_timeout_ms)).check):
        result = _run(context, given, as_of, watch)
    if isinstance(given, statement.Insert | statement.Update | statement.Delete | statement.Merge):
        with suppress(BindError):  # somebody has dropped or renamed the table meanwhile
            maintain_in_steps(context.table(given.table.text))
    return result


def _run(
    context: Context, given: statement.Statement, as_of: int | None, watch: CancelToken | None
) -> Result:
    if isinstance(given, table_statement.TableStatement):
        return define_table(context, given, watch)
    if isinstance(given, table_statement.PreparedCommand):
        return run_prepared(context, given, partial(_run_text, context, as_of, watch))
    match given:
        case statement.SelectStatement(parsed):
            return query.select(with_options(context, given), parsed, time_of(context, given, as_of), watch)
        case statement.Explain(inner):
            inner = inner.query if isinstance(inner, table_statement.CreateTableAs) else inner
            context = (
                with_options(context, inner) if isinstance(inner, statement.SelectStatement) else context
            )
            when = time_of(context, inner, as_of) if isinstance(inner, statement.SelectStatement) else as_of
            if isinstance(inner, statement.CreateSource) and not given.analyze and not given.filter_pushdown:
                return _explained_source(context, inner)
            if is_general(inner):
                return explain_modification(context, inner, given)
            if given.filter_pushdown:
                return explain.pushdown(context, inner, when)
            return explain.explain(context, inner, when, analyze=given.analyze, as_json=given.as_json)
        case statement.CreateView():
            return define.create_view(context, given)
        case statement.Insert() if not is_general(given):
            return insert(context, given, watch)
        case statement.Insert() | statement.Delete() | statement.Update() | statement.Merge():
            return modify(context, given, watch)
        case statement.Show():
            return show(context, given)
        case statement.Set():
            return _set(context, given)
        case statement.DropStatement():
            return drop(context, given)
        case statement.CreateConnection() | statement.CreateSource() | statement.AlterSource():
            return _source(context, given)
        case _:
            assert_never(given)


def _run_text(
    context: Context, as_of: int | None, watch: CancelToken | None, text: str, parameters: Parameters
) -> Result:
    return execute(context, text, as_of, watch, parameters if parameters.values else None)


def _source(
    context: Context, given: statement.CreateConnection | statement.CreateSource | statement.AlterSource
) -> Result:
    # Decoders and upstreams take as long to import as all else together: whoever has no sources does not wait for them.
    from tidegate.ingest.define import alter_source, create_connection, create_source

    match given:
        case statement.CreateConnection():
            return create_connection(context, given)
        case statement.CreateSource():
            return create_source(context, given)
        case statement.AlterSource():
            return alter_source(context, given)


def _explained_source(context: Context, given: statement.CreateSource) -> Result:
    from tidegate.ingest.define import explain_source

    return explain_source(context, given)


def with_options(context: Context, given: statement.SelectStatement) -> Context:
    """The database with the settings that a query asks for, for itself alone."""
    for option in given.options:
        context = _positioned(option, partial(context.with_setting, option.name.text, option.value))
    return context


def time_of(context: Context, given: statement.SelectStatement, as_of: int | None) -> int | None:
    """The time that is asked for, by the statement or beside it."""
    if given.as_of is None:
        return as_of
    if as_of is not None:
        raise BindError(
            "the time is given twice: AS OF, and as_of=", position=given.query.position(given.as_of.at)
        )
    return bind_as_of(given.as_of, given.query.sql, context.clock.now())


def _set(context: Context, given: statement.Set) -> Result:
    if given.local:
        return Result.message("SET LOCAL has no effect: every statement is a transaction of its own")
    if is_postgres_setting(given.name.text):
        _positioned(given, partial(set_postgres_setting, context, given.name.text, given.value))
    else:
        _positioned(given, partial(context.set, given.name.text, given.value))
    return Result.message("SET")


def _positioned(given: statement.Set, work: Callable[[], T]) -> T:
    """Does it; an error says where the setting stands."""
    try:
        return work()
    except BindError as error:
        error.position = Position(given.sql, *given.name.at)
        raise
