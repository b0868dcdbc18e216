"""CREATE TABLE, with LIKE.

    CREATE TABLE orders (LIKE raw_orders INCLUDING DEFAULTS, received_at timestamptz DEFAULT now()) CLUSTER BY (received_at)

LIKE copies names, types and NOT NULL. What else it copies:

| INCLUDING | |
|---|---|
| DEFAULTS | the defaults of columns |
| COMMENTS | the comments of columns |
| INDEXES | the primary key |
| STATISTICS, STORAGE | KEEP STATISTICS; CLUSTER BY |
| CONSTRAINTS, GENERATED, IDENTITY, COMPRESSION | nothing: there are none |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError, ErrorCode, Position, TidegateError
from tidegate.expr.model import Type
from tidegate.query import Result
from tidegate.sql.parse import table_statement
from tidegate.statements.define import DEFAULTS, default, message_if_exists
from tidegate.statements.select import columns_of
from tidegate.statements.tables.keys import primary_key, with_key
from tidegate.statements.tables.table_definition import COMMENTS, TableDefinition, clause_options
from tidegate.storage.catalog import view_of
from tidegate.storage.part import Schema
from tidegate.storage.shard import shard_options, visible_columns


@dataclass(frozen=True)
class _ColumnPlan:
    """A column that is about to be created, with what LIKE copies of another one."""

    name: str
    type: Type
    nullable: bool
    position: Position
    default: str | None = None
    comment: str | None = None
    key_name: str | None = None
    """The key of the table it is copied from, if it is a part of it."""
    clustered: bool = False
    kept: tuple[tuple[str, ...], ...] = field(default=())
    """JSON paths of KEEP STATISTICS; () is the column itself."""


def create_table(context: Context, given: table_statement.CreateTable) -> Result:
    """CREATE TABLE t (columns)."""
    name = given.name.text
    found = context.catalog.find(name)
    if found is not None:
        return message_if_exists(found, name, skip=given.if_not_exists)
    table = _definition(context, given)
    try:
        context.catalog.create_table(name, table.schema, table.options)
    except BindError:
        # Another one was faster.
        item = context.catalog.find(name)
        if item is None:
            raise
        return message_if_exists(item, name, skip=given.if_not_exists)
    return Result.message("CREATE TABLE")


def _definition(context: Context, given: table_statement.CreateTable) -> TableDefinition:
    plans = list(_plans(context, given))
    schema = schema_of([(plan.name, plan.type, plan.nullable, plan.position) for plan in plans])
    table = TableDefinition(schema, clause_options(given.clauses, schema, given.sql))
    for plan, column in zip(plans, schema.columns, strict=True):
        if plan.default is not None:
            _check_default(context, plan)
            table = table.with_entry(DEFAULTS, column.id, plan.default)
        if plan.comment is not None:
            table = table.with_entry(COMMENTS, column.id, plan.comment)
    table = _with_copied_options(table, plans, given.name.text)
    return table if given.key is None else with_key(table, given.key, given.name.text, given.sql)


def schema_of(columns: list[tuple[str, Type, bool, Position]]) -> Schema:
    """The schema of a new table; an error has the position of its column."""
    seen: set[str] = set()
    for name, _, _, position in columns:
        if name in seen:
            raise BindError(
                f'column "{name}" specified more than once',
                code=ErrorCode.DUPLICATE_COLUMN,
                position=position,
            )
        seen.add(name)
    try:
        return Schema.of([column[:3] for column in columns])
    except TidegateError as error:
        error.position = columns[0][3] if columns else None
        raise


def _check_default(context: Context, plan: _ColumnPlan) -> None:
    """Binds a default once to see that it fits."""
    assert plan.default is not None
    try:
        default(context, plan.default, plan.type)
    except TidegateError as error:
        error.position = plan.position
        raise


def _with_copied_options(table: TableDefinition, plans: list[_ColumnPlan], name: str) -> TableDefinition:
    """The options that LIKE copies; what the statement says itself counts before."""
    pairs = list(zip(plans, table.schema.columns, strict=True))
    copied: dict[str, Any] = {
        shard_options.CLUSTER_BY: [column.id for plan, column in pairs if plan.clustered],
        shard_options.KEEP_STATISTICS: [[column.id, *path] for plan, column in pairs for path in plan.kept],
    }
    keyed = [column.id for plan, column in pairs if plan.key_name is not None]
    if keyed:
        copied[shard_options.PRIMARY_KEY] = {"name": f"{name}_pkey", "columns": keyed}
    return replace(
        table, options={key: value for key, value in copied.items() if value} | dict(table.options)
    )


def _plans(context: Context, given: table_statement.CreateTable) -> Iterator[_ColumnPlan]:
    """The columns in their order, those of LIKE in their places."""
    for place in range(len(given.columns) + 1):
        for clause in given.likes:
            if clause.place == place:
                yield from _copied(context, clause, given.sql)
        if place < len(given.columns):
            column = given.columns[place]
            at = column.default_at
            yield _ColumnPlan(
                column.name.text,
                column.type,
                column.nullable,
                position_of(given.sql, column.name) if at is None else Position(given.sql, *at),
                None if at is None else given.sql[at.start : at.end],
            )


def _copied(context: Context, clause: table_statement.LikeClause, sql: str) -> Iterator[_ColumnPlan]:
    """The columns of the table that LIKE names."""
    name, position = clause.table.text, position_of(sql, clause.table)
    view = view_of(context.item(name, position))
    if view is not None:
        own, types = columns_of(view.sql, CatalogSnapshot(context), context.clock.now())
        for column, type_ in zip((*view.columns, *own[len(view.columns) :]), types, strict=True):
            yield _ColumnPlan(column, type_, nullable=True, position=position)
        return
    state = context.collection(name, position).machine.fetch()
    options, wanted = state.options, clause.including
    key = primary_key(state.schema, options) if "indexes" in wanted else None
    defaults = options.get(DEFAULTS, {}) if "defaults" in wanted else {}
    comments = options.get(COMMENTS, {}) if "comments" in wanted else {}
    clustered = options.get(shard_options.CLUSTER_BY, ()) if "storage" in wanted else ()
    kept = options.get(shard_options.KEEP_STATISTICS, ()) if "statistics" in wanted else ()
    for one in visible_columns(state.schema, options):
        yield _ColumnPlan(
            one.name,
            one.type,
            one.nullable,
            position,
            default=defaults.get(str(one.id)),
            comment=comments.get(str(one.id)),
            key_name=key.name if key is not None and one in key.columns else None,
            clustered=one.id in clustered,
            kept=tuple(tuple(path) for id_, *path in kept if id_ == one.id),
        )
