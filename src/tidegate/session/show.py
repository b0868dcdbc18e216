"""SHOW: what there is, as rows.

SHOW TABLES | VIEWS | SOURCES | CONNECTIONS [LIKE 'o%']      name
SHOW COLUMNS FROM t                                          name, nullable, type
SHOW CREATE TABLE t | VIEW v                                 name, create_sql
SHOW ALL                                                     name, setting, description
SHOW stats_filter                                            its value
"""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import BindError, UnsupportedError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.types import BOOL, TEXT
from tidegate.scan.result import Result
from tidegate.session.define import DEFAULTS
from tidegate.session.lake import Lake, Seen
from tidegate.session.settings import check, spelled
from tidegate.shard.catalog import Table, View
from tidegate.shard.state import RETENTION
from tidegate.shard.statistics import KEEP
from tidegate.shard.writer import CLUSTER, Shard, schema_of
from tidegate.sql import bind, statement


def show(lake: Lake, given: statement.Show) -> Result:
    """SHOW …"""
    match given.what:
        case "tables" | "views":
            kind = Table if given.what == "tables" else View
            names = [name for name, item in lake.catalog.items().items() if isinstance(item, kind)]
            return Result.of(["name"], [TEXT], [_like(names, given.like)])
        case "sources" | "connections":
            return Result.of(["name"], [TEXT], [[]])
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
    quoted = pattern.replace("'", "''")
    found = evaluate(bind.expression(f"name LIKE '{quoted}'", [("name", TEXT)]), [pa.array(names)])
    return [name for name, fits in zip(names, found.values.to_pylist(), strict=True) if fits]


def _columns(lake: Lake, name: str) -> Result:
    item = lake.item(name)
    header = (["name", "nullable", "type"], [TEXT, BOOL, TEXT])
    if isinstance(item, Table):
        columns = schema_of(lake.shard(item.shard).machine.fetch()).columns
        names, nullable = [c.name for c in columns], [c.nullable for c in columns]
        return Result.of(*header, [names, nullable, [str(c.type) for c in columns]])
    bound = bind.query(item.sql, Seen(lake), lake.clock.now())
    shown = [*item.columns, *bound.names[len(item.columns) :]]
    return Result.of(*header, [shown, [True] * len(shown), [str(t) for t in bound.types]])


def _create(lake: Lake, kind: str, name: str) -> Result:
    if kind in ("source", "connection"):
        raise UnsupportedError(f"a {kind} is not supported yet")
    item = lake.item(name)
    if isinstance(item, Table) != (kind == "table"):
        raise BindError(f'"{name}" is not a {kind}')
    if isinstance(item, Table):
        sql = create_table_sql(name, lake.shard(item.shard))
    else:
        given = f" ({', '.join(map(_quoted, item.columns))})" if item.columns else ""
        sql = f"CREATE VIEW {_quoted(name)}{given} AS {item.sql}"
    return Result.of(["name", "create_sql"], [TEXT, TEXT], [[name], [sql]], said=sql)


def create_table_sql(name: str, shard: Shard) -> str:
    """The CREATE TABLE that would make the collection as it is now."""
    state = shard.machine.fetch()
    schema, options = schema_of(state), state.options
    columns = []
    for column in schema.columns:
        default = options.get(DEFAULTS, {}).get(str(column.id))
        words = [_quoted(column.name), str(column.type), "" if column.nullable else "NOT NULL"]
        words.append(f"DEFAULT {default}" if default else "")
        columns.append(" ".join(word for word in words if word))
    names = {column.id: _quoted(column.name) for column in schema.columns}
    sql = f"CREATE TABLE {_quoted(name)} ({', '.join(columns)})"
    if cluster := [names[id_] for id_ in options.get(CLUSTER, ()) if id_ in names]:
        sql += f" CLUSTER BY ({', '.join(cluster)})"
    if keep := [
        ".".join([names[id_], *map(_quoted, path)]) for id_, *path in options.get(KEEP, ()) if id_ in names
    ]:
        sql += f" KEEP STATISTICS ({', '.join(keep)})"
    if RETENTION in options:
        sql += f" WITH (RETENTION = {options[RETENTION]})"
    return sql


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
