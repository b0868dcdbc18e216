"""SHOW: what there is, as rows.

SHOW TABLES | VIEWS [LIKE 'o%']                              name
SHOW SOURCES                                                 name, type, of (the source of a subsource), state
SHOW CONNECTIONS                                             name, type
SHOW COLUMNS FROM t                                          name, nullable, type
SHOW CREATE TABLE t | VIEW v | SOURCE s | CONNECTION k       name, create_sql, with COMMENT ON; secrets are not shown
SHOW ALL                                                     name, setting, description
SHOW stats_filter | timezone                                 its value
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import assert_never

import pyarrow as pa

from tidegate.config import Config, spelled
from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import BindError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import types
from tidegate.query import Result
from tidegate.settings import check
from tidegate.sql.bind import bind_expression
from tidegate.sql.parse import statement
from tidegate.statements.define import DEFAULTS
from tidegate.statements.postgres_settings import is_postgres_setting, show_postgres_setting
from tidegate.statements.select import columns_of
from tidegate.statements.tables.keys import primary_key
from tidegate.statements.tables.table_definition import COMMENTS, TABLE_COMMENT
from tidegate.storage.catalog import (
    ConnectionItem,
    SourceItem,
    SubsourceItem,
    TableItem,
    ViewItem,
    kind_of,
    view_of,
)
from tidegate.storage.shard import Shard, shard_options, visible_columns
from tidegate.text import identifier, literal


def show(context: Context, given: statement.Show) -> Result:
    """SHOW of settings, names and definitions."""
    match given.what:
        case "tables" | "views":
            kind = TableItem if given.what == "tables" else ViewItem
            names = [name for name, item in context.catalog.items().items() if isinstance(item, kind)]
            return Result.of(["name"], [types.TEXT], [_like(names, given.like)])
        case "sources":
            return _sources(context, given.like)
        case "connections":
            found = {
                name: item.to
                for name, item in context.catalog.items().items()
                if isinstance(item, ConnectionItem)
            }
            names = _like(list(found), given.like)
            return Result.of(
                ["name", "type"], [types.TEXT, types.TEXT], [names, [found[name] for name in names]]
            )
        case "columns":
            assert given.name is not None
            return _columns(context, given.name.text)
        case "all":
            names = _like([field.name for field in fields(Config)], given.like)
            settings = [spelled(getattr(context.config, name)) for name in names]
            said = [Config.meanings()[name] for name in names]
            return Result.of(["name", "setting", "description"], [types.TEXT] * 3, [names, settings, said])
        case what if what.startswith("create "):
            assert given.name is not None
            return _create(context, what.removeprefix("create "), given.name.text)
        case name if is_postgres_setting(name):
            value = show_postgres_setting(context, name)
            return Result.of([name], [types.TEXT], [[value]], said=value)
        case name:
            check(name)
            value = spelled(getattr(context.config, name))
            return Result.of([name], [types.TEXT], [[value]], said=value)


def _like(names: list[str], pattern: str | None) -> list[str]:
    if pattern is None or not names:
        return names
    escaped = pattern.replace("'", "''")
    found = evaluate(bind_expression(f"name LIKE '{escaped}'", [("name", types.TEXT)]), [pa.array(names)])
    return [name for name, fits in zip(names, found.values.to_pylist(), strict=True) if fits]


def _sources(context: Context, like: str | None) -> Result:
    """Sources, and what belongs to them."""
    items = context.catalog.items()
    kinds: dict[str, str] = {}
    states: dict[str, str | None] = {}
    of: dict[str, str | None] = {}
    for name, item in items.items():
        if isinstance(item, SourceItem):
            kinds[name], of[name] = item.definition["kind"], None
            states[name] = _state(context, name, item)
        elif isinstance(item, SubsourceItem):
            kinds[name], of[name], states[name] = "subsource", item.source, None
    names = _like(list(kinds), like)
    columns = [[found[name] for name in names] for found in (kinds, of, states)]
    return Result.of(["name", "type", "of", "state"], [types.TEXT] * 4, [names, *columns])


def _state(context: Context, name: str, item: SourceItem) -> str:
    from tidegate.ingest.runtime import (
        source_status,
    )  # what ingests is imported where there are sources

    return source_status(context, name, item).state


def _columns(context: Context, name: str) -> Result:
    item = context.item(name)
    header = (["name", "nullable", "type"], [types.TEXT, types.BOOL, types.TEXT])
    view = view_of(item)
    if view is None:
        state = context.collection(name).machine.fetch()
        columns = visible_columns(state.schema, state.options)
        names, nullable = [c.name for c in columns], [c.nullable for c in columns]
        return Result.of(*header, [names, nullable, [str(c.type) for c in columns]])
    own, column_types = columns_of(view.sql, CatalogSnapshot(context), context.clock.now())
    names = [*view.columns, *own[len(view.columns) :]]
    return Result.of(*header, [names, [True] * len(names), [str(t) for t in column_types]])


def _create(context: Context, kind: str, name: str) -> Result:
    item = context.item(name)
    if kind != kind_of(item):
        hint = f'its source is "{item.source}"' if isinstance(item, SubsourceItem) else None
        raise BindError(f'"{name}" is a {kind_of(item)}, not a {kind}', hint=hint)
    match item:
        case TableItem(shard):
            sql = create_table_sql(name, context.shard(shard)) + _table_comments(name, context.shard(shard))
        case ViewItem(query, columns):
            given = f" ({', '.join(map(identifier, columns))})" if columns else ""
            sql = f"CREATE VIEW {identifier(name)}{given} AS {query}{_comments('VIEW', name, item.comments)}"
        case ConnectionItem() | SourceItem():
            from tidegate.ingest.define import connection_sql, redact_source_sql

            sql = (
                redact_source_sql(item.sql)
                if isinstance(item, SourceItem)
                else connection_sql(identifier(name), item)
            )
        case SubsourceItem():
            raise AssertionError("nobody can ask for it")
        case _:
            assert_never(item)
    return Result.of(["name", "create_sql"], [types.TEXT, types.TEXT], [[name], [sql]], said=sql)


def _table_comments(name: str, shard: Shard) -> str:
    state = shard.machine.fetch()
    by_id, own = state.options.get(COMMENTS, {}), {str(one.id): one.name for one in state.schema.columns}
    shown = {own[id_]: text for id_, text in by_id.items() if id_ in own}
    return _comments("TABLE", name, {"": by_id.get(TABLE_COMMENT), **shown})


def _comments(kind: str, name: str, comments: Mapping[str, str | None]) -> str:
    """The statements that comment on a relation, which has the name "", and on its columns."""
    place = identifier(name)
    return "".join(
        f";\nCOMMENT ON {f'COLUMN {place}.{identifier(column)}' if column else f'{kind} {place}'} IS {literal(text)}"
        for column, text in comments.items()
        if text is not None
    )


def create_table_sql(name: str, shard: Shard) -> str:
    """The CREATE TABLE that would make the collection as it is now."""
    state = shard.machine.fetch()
    schema, options = state.schema, state.options
    columns = []
    for column in schema.columns:
        default = options.get(DEFAULTS, {}).get(str(column.id))
        words = [identifier(column.name), str(column.type), "" if column.nullable else "NOT NULL"]
        words.append(f"DEFAULT {default}" if default else "")
        columns.append(" ".join(word for word in words if word))
    names = {column.id: identifier(column.name) for column in schema.columns}
    if (key := primary_key(schema, options)) is not None:
        named = "" if key.name == f"{name}_pkey" else f"CONSTRAINT {identifier(key.name)} "
        listed = ", ".join(names[column.id] for column in key.columns)
        columns.append(f"{named}PRIMARY KEY ({listed}) NOT ENFORCED")
    sql = f"CREATE TABLE {identifier(name)} ({', '.join(columns)})"
    if cluster := [names[id_] for id_ in options.get(shard_options.CLUSTER_BY, ()) if id_ in names]:
        sql += f" CLUSTER BY ({', '.join(cluster)})"
    if keep := [
        ".".join([names[id_], *map(identifier, path)])
        for id_, *path in options.get(shard_options.KEEP_STATISTICS, ())
        if id_ in names
    ]:
        sql += f" KEEP STATISTICS ({', '.join(keep)})"
    if shard_options.RETENTION_MS in options:
        sql += f" WITH (RETENTION = {options[shard_options.RETENTION_MS]})"
    return sql
