"""CREATE and ALTER of tables and views.

| in SQL | in the shard |
|---|---|
| `CLUSTER BY (at)` | option `cluster_by`: column ids |
| `KEEP STATISTICS (payload.ts)` | option `keep_statistics`: `[[2, "ts"]]` |
| `DEFAULT now()` | option `defaults`: the expression's text, by column id |
| `WITH (RETENTION = '30 days')` | option `retention_ms`: how long past times can be asked for; without it, for ever |

A view lasts as the user's own text. It is bound when it is made, so that what is wrong with it is said then; and what it reads
cannot be dropped while it is there, unless with CASCADE.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.errors import BindError, Position, TidegateError, UnsupportedError
from tidegate.expr import build
from tidegate.expr.evaluate import evaluate
from tidegate.expr.order import interval_key
from tidegate.expr.tree import Expr
from tidegate.expr.types import INTERVAL, Type
from tidegate.scan.result import Result
from tidegate.session.drop import readers
from tidegate.session.lake import Lake, Seen, at, relation_of
from tidegate.session.query import names_of
from tidegate.shard.catalog import Item, View, exists, kind_of, view_of
from tidegate.shard.change import Evolve
from tidegate.shard.schema import Schema
from tidegate.shard.state import RETENTION, State
from tidegate.shard.statistics import KEEP
from tidegate.shard.writer import CLUSTER, schema_of
from tidegate.sql import grammar, statement
from tidegate.sql.catalog import Entry
from tidegate.sql.express import Binder, assigned
from tidegate.sql.scope import Scope
from tidegate.sql.syntax import Ident

DEFAULTS = "defaults"


def create_table(lake: Lake, given: statement.CreateTable) -> Result:
    """CREATE TABLE."""
    name = given.name.text
    found = lake.catalog.find(name)
    if found is not None:
        return _there(found, name, skip=given.if_not_exists)
    try:
        schema = Schema.of([(c.name.text, c.type, c.nullable) for c in given.columns])
    except TidegateError as error:
        error.position = at(given.sql, given.name)
        raise
    options = {
        CLUSTER: [_column(schema, ident, given.sql) for ident in given.cluster_by],
        KEEP: [
            [_column(schema, path[0], given.sql), *(step.text for step in path[1:])]
            for path in given.keep_statistics
        ],
        DEFAULTS: _defaults(lake, given, schema),
        **_with(given),
    }
    try:
        lake.catalog.create_table(name, schema, {key: value for key, value in options.items() if value})
    except BindError:
        # Another one was faster.
        item = lake.catalog.find(name)
        if item is None:
            raise
        return _there(item, name, skip=given.if_not_exists)
    return Result.done("CREATE TABLE")


def _there(found: Item, name: str, *, skip: bool) -> Result:
    if not skip:
        raise exists(name, found)
    return Result.done(f'"{name}" already exists, and was left as it is')


def _column(schema: Schema, ident: Ident, sql: str) -> int:
    try:
        return schema.find(ident.text).id
    except TidegateError as error:
        error.position = at(sql, ident)
        raise


def _defaults(lake: Lake, given: statement.CreateTable, schema: Schema) -> dict[str, str]:
    """The text of each DEFAULT, by column id as JSON has it; each is bound once to see that it fits."""
    found = {}
    for column, made in zip(given.columns, schema.columns, strict=True):
        if column.default_at is not None:
            text = given.sql[column.default_at.start : column.default_at.end]
            try:
                default(lake, text, made.type)
            except TidegateError as error:
                error.position = Position(given.sql, *column.default_at)
                raise
            found[str(made.id)] = text
    return found


def default(lake: Lake, text: str, type_: Type) -> Expr:
    """What DEFAULT stands for, now."""
    binder = Binder(text, Scope(()), lake.clock.now())
    return assigned(binder.bind(grammar.whole_expression(text)), type_)


def _with(given: statement.CreateTable) -> dict[str, Any]:
    """The options in WITH."""
    found: dict[str, Any] = {}
    for option in given.options:
        if option.name not in ("retention", "retain history", "retain history for"):
            raise BindError(
                f'there is no option "{option.name}" for a table',
                hint="there is RETENTION = '30 days'",
                position=Position(given.sql, *option.at),
            )
        found[RETENTION] = milliseconds(option, given.sql)
    return found


def milliseconds(option: statement.Option, sql: str) -> int:
    """A length of time: an interval in quotes, or a number of milliseconds."""
    value, position = option.value, Position(sql, *option.at)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        length = evaluate(build.cast(build.text(str(value)), INTERVAL), [], 1)
        if isinstance(value, str) and length.errors is None:
            micros: int = interval_key(length.values)[0].as_py()
            if micros >= 0:
                return micros // 1000
    except (TidegateError, pa.ArrowException):
        pass
    raise BindError(f"{value!r} is not a length of time", hint="such as '30 days'", position=position)


def add_column(lake: Lake, given: statement.AddColumn) -> Result:
    """ALTER TABLE … ADD COLUMN."""
    if given.if_exists and lake.catalog.find(given.table.text) is None:
        return Result.done(f'"{given.table.text}" does not exist, and was left so')
    column = given.column
    if not column.nullable or column.default is not None:
        raise UnsupportedError(
            "a column that is added is NULL in the rows that are there: NOT NULL and DEFAULT are not supported",
            position=at(given.sql, column.name),
        )

    def think(state: State) -> Evolve | None:
        schema = schema_of(state)
        if given.if_not_exists and any(c.name == column.name.text for c in schema.columns):
            return None
        return Evolve(schema.add(column.name.text, column.type).to_json())

    lake.table(given.table.text, at(given.sql, given.table)).machine.change(think)
    return Result.done("ALTER TABLE")


def drop_column(lake: Lake, given: statement.DropColumn) -> Result:
    """ALTER TABLE … DROP COLUMN."""
    name = given.table.text
    if given.if_exists and lake.catalog.find(name) is None:
        return Result.done(f'"{name}" does not exist, and was left so')

    def think(state: State) -> Evolve | None:
        schema = schema_of(state)
        if given.if_column_exists and all(c.name != given.column.text for c in schema.columns):
            return None
        smaller = schema.drop(given.column.text)
        _check_views(lake, name, smaller, state.options)
        return Evolve(smaller.to_json())

    try:
        lake.table(name, at(given.sql, given.table)).machine.change(think)
    except BindError as error:
        error.position = error.position or at(given.sql, given.column)
        raise
    return Result.done("ALTER TABLE")


def _check_views(lake: Lake, name: str, smaller: Schema, options: dict[str, Any]) -> None:
    """Raises if a view could not be bound any more."""
    for view in readers(lake, name):
        try:
            names_of(_text(lake, view), _With(Seen(lake), name, smaller, options), lake.clock.now())
        except TidegateError:
            kind = kind_of(lake.item(view))
            raise BindError(
                f'{kind} "{view}" reads that column', hint=f"DROP {kind.upper()} {view} first"
            ) from None


class _With:
    """The catalog as it would be with another schema for one table."""

    def __init__(self, seen: Seen, name: str, schema: Schema, options: dict[str, Any]) -> None:
        self.seen, self.name, self.schema, self.options = seen, name, schema, options

    def relation(self, name: str) -> Entry | None:
        if name == self.name:
            return relation_of(name, self.schema, self.options)
        return self.seen.relation(name)


def _text(lake: Lake, view: str) -> str:
    item = lake.catalog.find(view)
    query = None if item is None else view_of(item)
    return "SELECT 1" if query is None else query.sql


def create_view(lake: Lake, given: statement.CreateView) -> Result:
    """CREATE [OR REPLACE] VIEW."""
    name = given.name.text
    found = lake.catalog.find(name)
    if found is not None and (given.if_not_exists or not (given.or_replace and isinstance(found, View))):
        return _there(found, name, skip=given.if_not_exists)
    seen = Seen(lake)
    names = names_of(given.query, seen, lake.clock.now())
    if name in seen.entries:
        raise BindError(f'view "{name}" reads itself', position=at(given.query.sql, given.name))
    if len(given.columns) > len(names):
        message = f'"{name}" has {len(names)} columns, and {len(given.columns)} names are given'
        raise BindError(message, position=at(given.query.sql, given.columns[len(names)]))
    columns = tuple(column.text for column in given.columns)
    lake.catalog.create_view(name, View(given.query.text, columns), replace=given.or_replace)
    return Result.done("CREATE VIEW")
