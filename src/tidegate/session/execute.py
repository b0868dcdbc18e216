"""What each statement does: one line each.

execute(lake, "CREATE TABLE t (id int8); INSERT INTO t VALUES (1); SELECT * FROM t")     the result of the last one
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, assert_never

from tidegate.errors import BindError, ParseError, Position
from tidegate.expr.cancel import cancellable
from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.session import define, explain, query
from tidegate.session.drop import drop
from tidegate.session.insert import insert
from tidegate.session.lake import Lake
from tidegate.session.modify import modify
from tidegate.session.observe import observed
from tidegate.session.show import show
from tidegate.sql import bind
from tidegate.sql.statement import (
    AddColumn,
    AlterSource,
    CreateConnection,
    CreateSource,
    CreateTable,
    CreateView,
    Delete,
    Drop,
    DropColumn,
    Explain,
    Insert,
    Query,
    Set,
    Show,
    Statement,
    Update,
)

T = TypeVar("T")


def execute(lake: Lake, sql: str, as_of: int | None = None, watch: Watch | None = None) -> Result:
    """Runs all statements of a text, one after the other; the result of the last. `watch` can end its queries."""
    found = observed(lake, sql, "parse", lambda: _parsed(lake, sql))
    result = Result.done("")
    for one in found:
        result = observed(lake, sql, kind_of(one), partial(_one, lake, one, as_of, watch))
    return result


def kind_of(given: Statement) -> str:
    """What metrics and logs call it: select, create_table, …"""
    name = re.sub("(?<=.)([A-Z])", r"_\1", type(given).__name__).lower()
    return "select" if name == "query" else name


def _parsed(lake: Lake, sql: str) -> Sequence[Statement]:
    found = lake.prepared.statements(sql)
    if not found:
        raise ParseError("there is no statement here", position=Position(sql, 0, 0))
    return found


def _one(lake: Lake, given: Statement, as_of: int | None, watch: Watch | None) -> Result:
    if as_of is not None and not isinstance(given, Query | Explain):
        raise BindError("as_of is for queries: a statement that changes something does so now")
    with cancellable((watch or Watch(lake.config.statement_timeout_ms)).check):
        return _run(lake, given, as_of, watch)


def _run(lake: Lake, given: Statement, as_of: int | None, watch: Watch | None) -> Result:
    match given:
        case Query(parsed):
            return query.select(with_options(lake, given), parsed, time_of(lake, given, as_of), watch)
        case Explain(inner):
            lake = with_options(lake, inner) if isinstance(inner, Query) else lake
            when = time_of(lake, inner, as_of) if isinstance(inner, Query) else as_of
            if isinstance(inner, CreateSource) and not given.analyze and not given.filter_pushdown:
                return _explained_source(lake, inner)
            if given.filter_pushdown:
                return explain.pushdown(lake, inner, when)
            return explain.explain(lake, inner, when, analyze=given.analyze)
        case CreateTable():
            return define.create_table(lake, given)
        case AddColumn():
            return define.add_column(lake, given)
        case DropColumn():
            return define.drop_column(lake, given)
        case CreateView():
            return define.create_view(lake, given)
        case Insert():
            return insert(lake, given, watch)
        case Delete() | Update():
            return modify(lake, given, watch)
        case Show():
            return show(lake, given)
        case Set():
            return _set(lake, given)
        case Drop():
            return drop(lake, given)
        case CreateConnection() | CreateSource() | AlterSource():
            return _source(lake, given)
        case _:
            assert_never(given)


def _source(lake: Lake, given: CreateConnection | CreateSource | AlterSource) -> Result:
    # Decoders and upstreams take as long to import as all else together: whoever has no sources does not wait for them.
    from tidegate.session import connection, source, source_alter

    match given:
        case CreateConnection():
            return connection.create_connection(lake, given)
        case CreateSource():
            return source.create_source(lake, given)
        case AlterSource():
            return source_alter.alter(lake, given)


def _explained_source(lake: Lake, given: CreateSource) -> Result:
    from tidegate.session.source_explain import explain_source

    return explain_source(lake, given)


def with_options(lake: Lake, given: Query) -> Lake:
    """The database with the settings that a query asks for, for itself alone."""
    for option in given.options:
        lake = _positioned(option, partial(lake.with_setting, option.name.text, option.value))
    return lake


def time_of(lake: Lake, given: Query, as_of: int | None) -> int | None:
    """The time that is asked for, by the statement or beside it."""
    if given.as_of is None:
        return as_of
    if as_of is not None:
        raise BindError(
            "the time is given twice: AS OF, and as_of=", position=given.query.position(given.as_of.at)
        )
    return bind.as_of(given.as_of, given.query.sql, lake.clock.now())


def _set(lake: Lake, given: Set) -> Result:
    _positioned(given, partial(lake.set, given.name.text, given.value))
    return Result.done("SET")


def _positioned(given: Set, work: Callable[[], T]) -> T:
    """Does it; an error says where the setting stands."""
    try:
        return work()
    except BindError as error:
        error.position = Position(given.sql, *given.name.at)
        raise
