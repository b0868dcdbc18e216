"""What each statement does: one line each, and what is not done yet is refused by name.

execute(lake, "CREATE TABLE t (id int8); INSERT INTO t VALUES (1); SELECT * FROM t")     the result of the last one
"""

from __future__ import annotations

from typing import assert_never

from tidegate.errors import BindError, ParseError, Position, UnsupportedError
from tidegate.scan.result import Result
from tidegate.session import define, query
from tidegate.session.insert import insert
from tidegate.session.lake import Lake
from tidegate.session.show import show
from tidegate.sql import bind, grammar
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


def execute(lake: Lake, sql: str, as_of: int | None = None) -> Result:
    """Runs all statements of a text, one after the other; the result of the last."""
    found = grammar.statements(sql)
    if not found:
        raise ParseError("there is no statement here", position=Position(sql, 0, 0))
    result = Result.done("")
    for one in found:
        result = _one(lake, one, as_of)
    return result


def _one(lake: Lake, given: Statement, as_of: int | None) -> Result:
    if as_of is not None and not isinstance(given, Query | Explain):
        raise BindError("as_of is for queries: a statement that changes something does so now")
    match given:
        case Query(parsed):
            return query.select(lake, parsed, _as_of(lake, given, as_of))
        case Explain(Query(parsed) as inner):
            return query.explain(lake, parsed, _as_of(lake, inner, as_of), analyze=given.analyze)
        case CreateTable():
            return define.create_table(lake, given)
        case AddColumn():
            return define.add_column(lake, given)
        case DropColumn():
            return define.drop_column(lake, given)
        case CreateView():
            return define.create_view(lake, given)
        case Drop(kind="table" | "view"):
            return define.drop(lake, given)
        case Insert():
            return insert(lake, given)
        case Show():
            return show(lake, given)
        case Set():
            return _set(lake, given)
        case Explain() | Drop() | Delete() | Update() | CreateConnection() | CreateSource() | AlterSource():
            raise _not_yet(given)
        case _:
            assert_never(given)


def _as_of(lake: Lake, given: Query, as_of: int | None) -> int | None:
    """The time that is asked for, by the statement or beside it."""
    if given.as_of is None:
        return as_of
    if as_of is not None:
        raise BindError(
            "the time is given twice: AS OF, and as_of=", position=given.query.position(given.as_of.at)
        )
    return bind.as_of(given.as_of, given.query.sql, lake.clock.now())


def _set(lake: Lake, given: Set) -> Result:
    try:
        lake.set(given.name.text, given.value)
    except BindError as error:
        error.position = Position(given.sql, *given.name.at)
        raise
    return Result.done("SET")


def _not_yet(given: Statement) -> UnsupportedError:
    match given:
        case Explain():
            what = "EXPLAIN of what is not a SELECT"
        case Drop(kind=kind):
            what = f"DROP {kind.upper()}"
        case Delete() | Update():
            what = type(given).__name__.upper()
        case CreateConnection():
            what = "CREATE CONNECTION"
        case CreateSource():
            what = "CREATE SOURCE"
        case _:
            what = "ALTER SOURCE"
    hint = "it is part of the design, and comes in a later version"
    if isinstance(given, Delete | Update):
        hint += "; until then, append the rows with diff=-1"
    return UnsupportedError(f"{what} is not supported yet", hint=hint)
