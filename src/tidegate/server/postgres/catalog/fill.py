"""What the lake has, as rows of pg_class, pg_attribute and the others.

    relations(lake)       (Relation("orders", "r", columns, None), Relation("recent", "v", columns, "SELECT …"))
    fill(duck, relations)

The number of a relation is made from its name, so that it is the same for every client and every query: psql asks for the number of
a table first, and then for everything else by that number.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.expr.types import Kind, Type
from tidegate.serve.pg import types
from tidegate.serve.pg.catalog_tables import EMPTY, FILLED, NUMBERS, TABLES
from tidegate.serve.pg.catalog_views import (
    CATALOG,
    FUNCTIONS,
    INFORMATION,
    OWNER,
    PUBLIC,
    SCHEMA,
    VIEWS,
    nothing,
    same,
)
from tidegate.session.define import DEFAULTS
from tidegate.session.lake import Lake, Seen
from tidegate.session.query import columns_of
from tidegate.shard.catalog import Item, view_of
from tidegate.shard.validity import shown
from tidegate.shard.writer import schema_of
from tidegate.text import identifier

_FIRST = 16_384  # numbers below are PostgreSQL's own
_HEAP, _C = 2, 950


@dataclass(frozen=True)
class Column:
    """A column, as pg_attribute has it."""

    name: str
    type: Type
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True)
class Relation:
    """What can be read by a name: `r` has rows of its own, `v` is a view of this text."""

    name: str
    kind: str
    columns: tuple[Column, ...]
    sql: str | None = None


def relations(lake: Lake, pool: Executor) -> tuple[Relation, ...]:
    """All that can be read, by name. Each has a log of its own to look at, which may be far away: several at once."""
    items = sorted(lake.catalog.readable().items())
    found = pool.map(lambda pair: _relation(lake, *pair), items)
    return tuple(one for one in found if one is not None)


def _relation(lake: Lake, name: str, item: Item) -> Relation | None:
    view = view_of(item)
    try:
        if view is None:
            return Relation(name, "r", _columns(lake, name))
        own, kinds = columns_of(view.sql, Seen(lake), lake.clock.now())
    except TidegateError:  # dropped just now; or a view of what was dropped
        return None if view is None else Relation(name, "v", (), view.sql)
    names = [*view.columns, *own[len(view.columns) :]]
    return Relation(name, "v", tuple(Column(*one) for one in zip(names, kinds, strict=True)), view.sql)


def _columns(lake: Lake, name: str) -> tuple[Column, ...]:
    state = lake.collection(name).machine.fetch()
    defaults = state.options.get(DEFAULTS, {})
    return tuple(
        Column(one.name, one.type, one.nullable, defaults.get(str(one.id)))
        for one in shown(schema_of(state), state.options)
    )


def numbers(names: Iterable[str]) -> dict[str, int]:
    """A number for each name, which depends on the name, and where two would have the same, on their order."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        number = _FIRST + zlib.crc32(name.encode()) % (1 << 30)
        while number in taken:
            number += 1
        taken.add(number)
        found[name] = number
    return found


def fill(duck: Any, given: Sequence[Relation]) -> None:
    """Makes the tables, views and functions."""
    oids = numbers(one.name for one in given)
    rows = {
        "pg_namespace": _namespaces(),
        "pg_class": [_class(one, oids[one.name]) for one in given],
        "pg_attribute": [row for one in given for row in _attributes(one, oids[one.name])],
        "pg_attrdef": [row for one in given for row in _defaults(one, oids[one.name])],
        "pg_type": _types(),
        "pg_am": [{"oid": _HEAP, "amname": "heap", "amtype": "t"}],
        "pg_collation": _collations(),
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
    }
    for name, columns in {**FILLED, **EMPTY}.items():
        _table(duck, name, columns, rows.get(name, []))
    views = [
        {"oid": oids[one.name], "name": one.name, "sql": one.sql} for one in given if one.sql is not None
    ]
    _table(duck, "tg_views", {"oid": "bigint", "name": "varchar", "sql": "varchar"}, views)
    _table(duck, "tg_regclass", {"name": "varchar", "oid": "bigint", "shown": "boolean"}, _regclasses(oids))
    columns = {
        "oid": "bigint",
        "base": "bigint",
        "short": "varchar",
        "long": "varchar",
        "brackets": "varchar",
    }
    _table(duck, "tg_format", columns, _formats())
    for text in (VIEWS, FUNCTIONS, same(), INFORMATION, nothing()):
        duck.execute(text)


_ARROW = {
    "bigint": pa.int64(),
    "varchar": pa.string(),
    "integer": pa.int32(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "varchar[]": pa.list_(pa.string()),
    "integer[]": pa.list_(pa.int32()),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def _table(duck: Any, name: str, columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> None:
    """A table of DuckDB; a column that a row does not have is NULL, or what no PostgreSQL leaves NULL."""
    duck.execute(f"CREATE TABLE {name} ({', '.join(f'{key} {kind}' for key, kind in columns.items())})")
    if not rows:
        return
    arrays = {
        key: pa.array([row.get(key, _PLAIN.get(kind)) for row in rows], _ARROW[kind])
        for key, kind in columns.items()
    }
    duck.register("tg_given", pa.table(arrays))
    duck.execute(f"INSERT INTO {name} SELECT * FROM tg_given")
    duck.unregister("tg_given")


_PLAIN = {"bigint": 0, "integer": 0, "boolean": False, "double": 0.0}


def _namespaces() -> list[dict[str, Any]]:
    named = {CATALOG: "pg_catalog", PUBLIC: "public", SCHEMA: "information_schema"}
    return [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in named.items()]


def _class(one: Relation, oid: int) -> dict[str, Any]:
    return {
        "oid": oid, "relname": one.name, "relnamespace": PUBLIC, "relowner": OWNER, "relkind": one.kind,
        "relam": _HEAP if one.kind == "r" else 0, "relpersistence": "p", "relnatts": len(one.columns), "reltuples": -1.0,
        "relispopulated": True, "relreplident": "d" if one.kind == "r" else "n", "relhasrules": one.kind == "v",
    }  # fmt: skip


def _attributes(one: Relation, oid: int) -> list[dict[str, Any]]:
    found = []
    for i, column in enumerate(one.columns):
        number = types.oid(column.type)
        known = types.BY_OID.get(number)
        found.append(
            {
                "attrelid": oid, "attname": column.name, "atttypid": number, "attstattarget": -1,
                "attlen": -1 if known is None else known.size, "attnum": i + 1, "attcacheoff": -1,
                "attndims": int(column.type.kind is Kind.ARRAY), "atttypmod": types.modifier(column.type),
                "attalign": "i", "attstorage": "p" if known is not None and known.size > 0 else "x",
                "attcompression": "", "attnotnull": not column.nullable, "atthasdef": column.default is not None,
                "attidentity": "", "attgenerated": "", "attislocal": True,
                "attcollation": 100 if number in (types.TEXT, types.VARCHAR) else 0,
            }
        )  # fmt: skip
    return found


def _defaults(one: Relation, oid: int) -> list[dict[str, Any]]:
    return [
        {"oid": oid + i, "adrelid": oid, "adnum": i + 1, "adbin": column.default, "adsrc": column.default}
        for i, column in enumerate(one.columns)
        if column.default is not None
    ]


def _collations() -> list[dict[str, Any]]:
    named = {100: "default", _C: "C"}
    return [
        {"oid": oid, "collname": name, "collnamespace": CATALOG, "collowner": OWNER, "collprovider": "c",
         "collisdeterministic": True, "collencoding": -1}
        for oid, name in named.items()
    ]  # fmt: skip


_MORE = (
    (types.VARCHAR, types.VARCHARS, "varchar", "character varying", "S"),
    (18, 1002, "char", '"char"', "S"),
    (19, 1003, "name", "name", "S"),
    (26, 1028, "oid", "oid", "N"),
    (114, 199, "json", "json", "U"),
    (705, 0, "unknown", "unknown", "X"),
    (types.RECORD, 2287, "record", "record", "P"),
)


def _all() -> list[tuple[int, int, str, str, str, int]]:
    own = [(one.oid, one.array, one.name, one.long, one.category, one.size) for one in types.KNOWN]
    return own + [(*more, -1) for more in _MORE]


def _types() -> list[dict[str, Any]]:
    found = []
    for oid, array, name, _, category, size in _all():
        same = {
            "typnamespace": CATALOG, "typowner": OWNER, "typisdefined": True, "typdelim": ",", "typalign": "i",
            "typstorage": "p" if size > 0 else "x", "typtypmod": -1,
            "typcollation": 100 if category == "S" and oid in (types.TEXT, types.VARCHAR) else 0,
        }  # fmt: skip
        kind = "p" if category == "P" else "b"
        found.append(
            same
            | {
                "oid": oid,
                "typname": name,
                "typlen": size,
                "typtype": kind,
                "typcategory": category,
                "typarray": array,
            }
        )
        if array:
            more = {"oid": array, "typname": f"_{name}", "typlen": -1, "typtype": "b", "typcategory": "A"}
            found.append(same | more | {"typelem": oid, "typinput": 750})
    return found


def _formats() -> list[dict[str, Any]]:
    found = []
    for oid, array, name, long, _, _ in _all():
        found.append({"oid": oid, "base": oid, "short": name, "long": long, "brackets": ""})
        if array:
            found.append({"oid": array, "base": oid, "short": f"_{name}", "long": long, "brackets": "[]"})
    return found


def _regclasses(oids: dict[str, int]) -> list[dict[str, Any]]:
    """Every way to write the name of a relation, and what it is shown as."""
    found = []
    for name, oid in oids.items():
        ways = dict.fromkeys((identifier(name), name, f"public.{identifier(name)}", f"public.{name}"))
        found += [{"name": way, "oid": oid, "shown": way == identifier(name)} for way in ways]
    for i, name in enumerate(sorted(TABLES)):
        oid = NUMBERS.get(name, 3_000 + i)
        found.append({"name": name, "oid": oid, "shown": True})
        found.append({"name": f"pg_catalog.{name}", "oid": oid, "shown": False})
    return found
