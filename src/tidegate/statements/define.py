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

from tidegate.context import CatalogSnapshot, Context, position_of, relation_of
from tidegate.errors import BindError, Position, TidegateError, UnsupportedError
from tidegate.expr.model import Expr, Type
from tidegate.query import Result
from tidegate.sql.bind import Binder, CatalogEntry, Scope, assignment_cast, interval_milliseconds
from tidegate.sql.parse import parse_expression, statement, syntax
from tidegate.statements.drop import readers
from tidegate.statements.select import names_of
from tidegate.storage.catalog import CatalogItem, ViewItem, already_exists, kind_of, view_of
from tidegate.storage.part import Schema
from tidegate.storage.shard import State, changes, shard_options

DEFAULTS = "defaults"


def create_table(context: Context, given: statement.CreateTable) -> Result:
    """CREATE TABLE."""
    name = given.name.text
    found = context.catalog.find(name)
    if found is not None:
        return _already_exists(found, name, skip=given.if_not_exists)
    try:
        schema = Schema.of([(c.name.text, c.type, c.nullable) for c in given.columns])
    except TidegateError as error:
        error.position = position_of(given.sql, given.name)
        raise
    options = {
        shard_options.CLUSTER_BY: [_column(schema, ident, given.sql) for ident in given.cluster_by],
        shard_options.KEEP_STATISTICS: [
            [_column(schema, path[0], given.sql), *(step.text for step in path[1:])]
            for path in given.keep_statistics
        ],
        DEFAULTS: _defaults(context, given, schema),
    }
    given_options = {key: value for key, value in options.items() if value} | _with(given)
    try:
        context.catalog.create_table(name, schema, given_options)
    except BindError:
        # Another one was faster.
        item = context.catalog.find(name)
        if item is None:
            raise
        return _already_exists(item, name, skip=given.if_not_exists)
    return Result.message("CREATE TABLE")


def _already_exists(found: CatalogItem, name: str, *, skip: bool) -> Result:
    if not skip:
        raise already_exists(name, found)
    return Result.message(f'"{name}" already exists, and was left as it is')


def _column(schema: Schema, ident: syntax.Ident, sql: str) -> int:
    try:
        return schema.find(ident.text).id
    except TidegateError as error:
        error.position = position_of(sql, ident)
        raise


def _defaults(context: Context, given: statement.CreateTable, schema: Schema) -> dict[str, str]:
    """The text of each DEFAULT, by column id as JSON has it; each is bound once to see that it fits."""
    found = {}
    for column, made in zip(given.columns, schema.columns, strict=True):
        if column.default_at is not None:
            text = given.sql[column.default_at.start : column.default_at.end]
            try:
                default(context, text, made.type)
            except TidegateError as error:
                error.position = Position(given.sql, *column.default_at)
                raise
            found[str(made.id)] = text
    return found


def default(context: Context, text: str, type_: Type) -> Expr:
    """What DEFAULT stands for, now."""
    binder = Binder(text, Scope(()), context.clock.now())
    return assignment_cast(binder.bind(parse_expression(text)), type_)


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
        found[shard_options.RETENTION_MS] = interval_milliseconds(option, given.sql)
    return found


def add_column(context: Context, given: statement.AddColumn) -> Result:
    """ALTER TABLE … ADD COLUMN."""
    if given.if_exists and context.catalog.find(given.table.text) is None:
        return Result.message(f'"{given.table.text}" does not exist, and was left so')
    column = given.column
    if not column.nullable or column.default is not None:
        raise UnsupportedError(
            "a column that is added is NULL in the rows that are there: NOT NULL and DEFAULT are not supported",
            position=position_of(given.sql, column.name),
        )

    def propose(state: State) -> changes.Evolve | None:
        schema = state.schema
        if given.if_not_exists and any(c.name == column.name.text for c in schema.columns):
            return None
        return changes.Evolve(schema.add(column.name.text, column.type).to_json())

    context.table(given.table.text, position_of(given.sql, given.table)).machine.update(propose)
    return Result.message("ALTER TABLE")


def drop_column(context: Context, given: statement.DropColumn) -> Result:
    """ALTER TABLE … DROP COLUMN."""
    name = given.table.text
    if given.if_exists and context.catalog.find(name) is None:
        return Result.message(f'"{name}" does not exist, and was left so')

    def propose(state: State) -> changes.Evolve | None:
        schema = state.schema
        if given.if_column_exists and all(c.name != given.column.text for c in schema.columns):
            return None
        smaller = schema.drop(given.column.text)
        _check_views(context, name, smaller, state.options)
        return changes.Evolve(smaller.to_json())

    try:
        context.table(name, position_of(given.sql, given.table)).machine.update(propose)
    except BindError as error:
        error.position = error.position or position_of(given.sql, given.column)
        raise
    return Result.message("ALTER TABLE")


def _check_views(context: Context, name: str, smaller: Schema, options: dict[str, Any]) -> None:
    """Raises if a view could not be bound any more."""
    for view in readers(context, name):
        try:
            names_of(
                _text(context, view),
                _With(CatalogSnapshot(context), name, smaller, options),
                context.clock.now(),
            )
        except TidegateError:
            kind = kind_of(context.item(view))
            raise BindError(
                f'{kind} "{view}" reads that column', hint=f"DROP {kind.upper()} {view} first"
            ) from None


class _With:
    """The catalog as it would be with another schema for one table."""

    def __init__(self, seen: CatalogSnapshot, name: str, schema: Schema, options: dict[str, Any]) -> None:
        self.seen, self.name, self.schema, self.options = seen, name, schema, options

    def relation(self, name: str) -> CatalogEntry | None:
        if name == self.name:
            return relation_of(name, self.schema, self.options)
        return self.seen.relation(name)


def _text(context: Context, view: str) -> str:
    item = context.catalog.find(view)
    query = None if item is None else view_of(item)
    return "SELECT 1" if query is None else query.sql


def create_view(context: Context, given: statement.CreateView) -> Result:
    """CREATE [OR REPLACE] VIEW."""
    name = given.name.text
    found = context.catalog.find(name)
    if found is not None and (given.if_not_exists or not (given.or_replace and isinstance(found, ViewItem))):
        return _already_exists(found, name, skip=given.if_not_exists)
    seen = CatalogSnapshot(context)
    names = names_of(given.query, seen, context.clock.now())
    if name in seen.entries:
        raise BindError(f'view "{name}" reads itself', position=position_of(given.query.sql, given.name))
    if len(given.columns) > len(names):
        message = f'"{name}" has {len(names)} columns, and {len(given.columns)} names are given'
        raise BindError(message, position=position_of(given.query.sql, given.columns[len(names)]))
    columns = tuple(column.text for column in given.columns)
    context.catalog.create_view(name, ViewItem(given.query.text, columns), replace=given.or_replace)
    return Result.message("CREATE VIEW")
