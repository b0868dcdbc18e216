"""SHOW: what there is, as rows.

SHOW TABLES | VIEWS [LIKE 'o%']                              name
SHOW SOURCES                                                 name, type, of (the source of a subsource), state
SHOW CONNECTIONS                                             name, type
SHOW COLUMNS FROM t                                          name, nullable, type
SHOW CREATE TABLE t | VIEW v | SOURCE s | CONNECTION k       name, create_sql; secrets are not shown
SHOW ALL                                                     name, setting, description
SHOW stats_filter                                            its value
"""

from __future__ import annotations

from dataclasses import fields
from typing import assert_never

import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import BindError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.types import BOOL, TEXT
from tidegate.scan.result import Result
from tidegate.session.define import DEFAULTS
from tidegate.session.lake import Lake, Seen
from tidegate.session.query import columns_of
from tidegate.session.settings import check, spelled
from tidegate.shard.catalog import Connection, Source, Subsource, Table, View, kind_of, view_of
from tidegate.shard.state import RETENTION
from tidegate.shard.statistics import KEEP
from tidegate.shard.validity import shown
from tidegate.shard.writer import CLUSTER, Shard, schema_of
from tidegate.sql import bind, statement
from tidegate.text import identifier


def show(lake: Lake, given: statement.Show) -> Result:
    """SHOW …"""
    match given.what:
        case "tables" | "views":
            kind = Table if given.what == "tables" else View
            names = [name for name, item in lake.catalog.items().items() if isinstance(item, kind)]
            return Result.of(["name"], [TEXT], [_like(names, given.like)])
        case "sources":
            return _sources(lake, given.like)
        case "connections":
            found = {
                name: item.to for name, item in lake.catalog.items().items() if isinstance(item, Connection)
            }
            names = _like(list(found), given.like)
            return Result.of(["name", "type"], [TEXT, TEXT], [names, [found[name] for name in names]])
        case "columns":
            assert given.name is not None
            return _columns(lake, given.name.text)
        case "all":
            names = _like([field.name for field in fields(Config)], given.like)
            settings = [spelled(getattr(lake.config, name)) for name in names]
            said = [Config.meanings()[name] for name in names]
            return Result.of(["name", "setting", "description"], [TEXT] * 3, [names, settings, said])
        case what if what.startswith("create "):
            assert given.name is not None
            return _create(lake, what.removeprefix("create "), given.name.text)
        case name:
            check(name)
            value = spelled(getattr(lake.config, name))
            return Result.of([name], [TEXT], [[value]], said=value)


def _like(names: list[str], pattern: str | None) -> list[str]:
    if pattern is None or not names:
        return names
    escaped = pattern.replace("'", "''")
    found = evaluate(bind.expression(f"name LIKE '{escaped}'", [("name", TEXT)]), [pa.array(names)])
    return [name for name, fits in zip(names, found.values.to_pylist(), strict=True) if fits]


def _sources(lake: Lake, like: str | None) -> Result:
    """Sources, and what belongs to them."""
    items = lake.catalog.items()
    kinds: dict[str, str] = {}
    states: dict[str, str | None] = {}
    of: dict[str, str | None] = {}
    for name, item in items.items():
        if isinstance(item, Source):
            kinds[name], of[name] = item.definition["kind"], None
            states[name] = _state(lake, name, item)
        elif isinstance(item, Subsource):
            kinds[name], of[name], states[name] = "subsource", item.source, None
    names = _like(list(kinds), like)
    columns = [[found[name] for name in names] for found in (kinds, of, states)]
    return Result.of(["name", "type", "of", "state"], [TEXT] * 4, [names, *columns])


def _state(lake: Lake, name: str, item: Source) -> str:
    from tidegate.session.source_status import (
        source_status,
    )  # what ingests is imported where there are sources

    return source_status(lake, name, item).state


def _columns(lake: Lake, name: str) -> Result:
    item = lake.item(name)
    header = (["name", "nullable", "type"], [TEXT, BOOL, TEXT])
    view = view_of(item)
    if view is None:
        state = lake.collection(name).machine.fetch()
        columns = shown(schema_of(state), state.options)
        names, nullable = [c.name for c in columns], [c.nullable for c in columns]
        return Result.of(*header, [names, nullable, [str(c.type) for c in columns]])
    own, types = columns_of(view.sql, Seen(lake), lake.clock.now())
    names = [*view.columns, *own[len(view.columns) :]]
    return Result.of(*header, [names, [True] * len(names), [str(t) for t in types]])


def _create(lake: Lake, kind: str, name: str) -> Result:
    item = lake.item(name)
    if kind != kind_of(item):
        hint = f'its source is "{item.source}"' if isinstance(item, Subsource) else None
        raise BindError(f'"{name}" is a {kind_of(item)}, not a {kind}', hint=hint)
    match item:
        case Table(shard):
            sql = create_table_sql(name, lake.shard(shard))
        case View(query, columns):
            given = f" ({', '.join(map(identifier, columns))})" if columns else ""
            sql = f"CREATE VIEW {identifier(name)}{given} AS {query}"
        case Connection() | Source():
            from tidegate.session.connection import create_sql, without_secrets

            sql = (
                without_secrets(item.sql) if isinstance(item, Source) else create_sql(identifier(name), item)
            )
        case Subsource():
            raise AssertionError("nobody can ask for it")
        case _:
            assert_never(item)
    return Result.of(["name", "create_sql"], [TEXT, TEXT], [[name], [sql]], said=sql)


def create_table_sql(name: str, shard: Shard) -> str:
    """The CREATE TABLE that would make the collection as it is now."""
    state = shard.machine.fetch()
    schema, options = schema_of(state), state.options
    columns = []
    for column in schema.columns:
        default = options.get(DEFAULTS, {}).get(str(column.id))
        words = [identifier(column.name), str(column.type), "" if column.nullable else "NOT NULL"]
        words.append(f"DEFAULT {default}" if default else "")
        columns.append(" ".join(word for word in words if word))
    names = {column.id: identifier(column.name) for column in schema.columns}
    sql = f"CREATE TABLE {identifier(name)} ({', '.join(columns)})"
    if cluster := [names[id_] for id_ in options.get(CLUSTER, ()) if id_ in names]:
        sql += f" CLUSTER BY ({', '.join(cluster)})"
    if keep := [
        ".".join([names[id_], *map(identifier, path)]) for id_, *path in options.get(KEEP, ()) if id_ in names
    ]:
        sql += f" KEEP STATISTICS ({', '.join(keep)})"
    if RETENTION in options:
        sql += f" WITH (RETENTION = {options[RETENTION]})"
    return sql
