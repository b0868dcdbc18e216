"""Describes the tables and views of a lake as rows of pg_class, pg_attribute and others.

    read_relations(lake)            (CatalogRelation("orders", "r", columns), CatalogRelation("recent", "v", columns, "SELECT …"))
    create_tables(duck, relations)

The OID of a relation is computed from its name, so that it is the same for every client and query: psql asks for the OID of a table
first, and then for everything else by that OID.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import TidegateError
from tidegate.expr.model import Kind, Type
from tidegate.statements.define import DEFAULTS
from tidegate.statements.postgres_catalog import constraints
from tidegate.statements.postgres_catalog import postgres_types as types
from tidegate.statements.postgres_catalog.constraints import (
    BTREE,
    DEFINITIONS,
    CatalogKey,
    KeyRows,
    descriptions,
    key_rows,
)
from tidegate.statements.postgres_catalog.functions import function_rows, io_functions, io_rows
from tidegate.statements.postgres_catalog.tables import EMPTY, FILLED, POSTGRES_OIDS, TABLES
from tidegate.statements.postgres_catalog.views import (
    CATALOG,
    FUNCTIONS,
    INFORMATION,
    OWNER,
    PUBLIC,
    SCHEMA,
    VIEWS,
    constant_macros,
    empty_views,
)
from tidegate.statements.select import columns_of
from tidegate.statements.tables.keys import primary_key
from tidegate.statements.tables.table_definition import COMMENTS, TABLE_COMMENT
from tidegate.storage.catalog import CatalogItem, view_of
from tidegate.storage.shard import visible_columns
from tidegate.text import identifier

READERS = 8
"""Threads that read the tables and views."""
_FIRST = 16_384  # smaller OIDs belong to PostgreSQL
_HEAP, _C = 2, 950


@dataclass(frozen=True)
class CatalogColumn:
    """A column, as in pg_attribute."""

    name: str
    type: Type
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True)
class CatalogRelation:
    """A table (`r`) or a view (`v`) with its query."""

    name: str
    kind: str
    columns: tuple[CatalogColumn, ...]
    sql: str | None = None
    key: CatalogKey | None = None
    comments: tuple[tuple[int, str], ...] = ()
    """By number of the column; that of the relation has the number 0."""
    rows: int = field(default=0, compare=False)
    bytes: int = field(default=0, compare=False)
    """They change with every write, for which the tables of the catalog are not made anew: see `update_sizes`."""


def read_relations(lake: Context) -> tuple[CatalogRelation, ...]:
    """Reads all tables and views, several at once since their state may be on a remote store."""
    items = sorted(lake.catalog.readable().items())
    with ThreadPoolExecutor(READERS, "tidegate-catalog") as pool:
        relations = list(pool.map(lambda pair: _relation(lake, *pair), items))
    return tuple(relation for relation in relations if relation is not None)


def _relation(lake: Context, name: str, item: CatalogItem) -> CatalogRelation | None:
    view = view_of(item)
    try:
        if view is None:
            return _table_of(lake, name)
        names, kinds = columns_of(view.sql, CatalogSnapshot(lake), lake.clock.now())
    except TidegateError:  # dropped just now, or a view of a dropped table
        return None if view is None else CatalogRelation(name, "v", (), view.sql)
    names = (*view.columns, *names[len(view.columns) :])
    columns = tuple(CatalogColumn(*column) for column in zip(names, kinds, strict=True))
    return CatalogRelation(name, "v", columns, view.sql, comments=_comments(view.comments, ("", *names)))


def _comments(by_name: Mapping[str, str], names: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Comments by number: the place of each name."""
    return tuple((number, by_name[name]) for number, name in enumerate(names) if name in by_name)


def _table_of(lake: Context, name: str) -> CatalogRelation:
    state = lake.collection(name).machine.fetch()
    defaults = state.options.get(DEFAULTS, {})
    visible = visible_columns(state.schema, state.options)
    columns = tuple(
        CatalogColumn(one.name, one.type, one.nullable, defaults.get(str(one.id))) for one in visible
    )
    ids, declared = [one.id for one in visible], primary_key(state.schema, state.options)
    key = None
    if declared is not None:
        numbers = tuple(ids.index(one.id) + 1 for one in declared.columns)
        key = CatalogKey(declared.name, numbers, tuple(one.name for one in declared.columns))
    comments = _comments(state.options.get(COMMENTS, {}), [TABLE_COMMENT, *map(str, ids)])
    rows = max(state.parts.rows - state.parts.deletions.rows, 0)
    return CatalogRelation(name, "r", columns, key=key, comments=comments, rows=rows, bytes=state.parts.size)


def assign_oids(names: Iterable[str]) -> dict[str, int]:
    """Computes an OID from each name; where two would be equal, the next free one is taken."""
    oids: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        number = _FIRST + zlib.crc32(name.encode()) % (1 << 30)
        while number in taken:
            number += 1
        taken.add(number)
        oids[name] = number
    return oids


def create_tables(duck: Any, relations: Sequence[CatalogRelation]) -> None:
    """Creates the tables, views and functions of the catalog."""
    oids = assign_oids(relation.name for relation in relations)
    keys = key_rows({one.name: one.key for one in relations if one.key is not None}, oids)
    classes = [_class(one, oids[one.name]) for one in relations]
    rows = {
        "pg_namespace": _namespaces(),
        "pg_class": [*classes, *(key.index_class() for key in keys)],
        "pg_index": [key.index() for key in keys],
        "pg_constraint": [key.constraint() for key in keys],
        "pg_description": [row for one in relations for row in descriptions(oids[one.name], one.comments)],
        "pg_attribute": [row for one in relations for row in _attributes(one, oids[one.name])],
        "pg_attrdef": [row for one in relations for row in _defaults(one, oids[one.name])],
        "pg_type": _types(),
        "pg_proc": [*io_rows(_type_names()), *function_rows()],
        "pg_language": [{"oid": 12, "lanname": "internal", "lanowner": OWNER}],
        "pg_am": [
            {"oid": _HEAP, "amname": "heap", "amtype": "t"},
            {"oid": BTREE, "amname": "btree", "amtype": "i"},
        ],
        "pg_collation": _collations(),
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
    }
    for name, columns in {**FILLED, **EMPTY}.items():
        _table(duck, name, columns, rows.get(name, []))
    _create_own_tables(duck, relations, oids, keys)
    update_sizes(duck, relations)
    functions = (FUNCTIONS, constraints.FUNCTIONS, constant_macros())
    for text in (VIEWS, *functions, INFORMATION, constraints.INFORMATION, empty_views()):
        duck.execute(text)


def _create_own_tables(
    duck: Any, relations: Sequence[CatalogRelation], oids: Mapping[str, int], keys: Sequence[KeyRows]
) -> None:
    """Creates the tables that functions of the catalog read."""
    views = [
        {"oid": oids[one.name], "name": one.name, "sql": one.sql} for one in relations if one.sql is not None
    ]
    _table(duck, "tg_views", {"oid": "bigint", "name": "varchar", "sql": "varchar"}, views)
    indexes = {key.key.name: key.index_oid for key in keys if key.key.name not in oids}
    _table(duck, "tg_regclass", _REGCLASS, [*_regclasses(oids), *_spellings(indexes)])
    columns = {
        "oid": "bigint",
        "base": "bigint",
        "short": "varchar",
        "long": "varchar",
        "brackets": "varchar",
    }
    _table(duck, "tg_format", columns, _formats())
    _table(duck, "tg_sizes", _SIZES, [])
    _table(duck, "tg_definitions", DEFINITIONS, [row for key in keys for row in key.texts()])


_REGCLASS = {"name": "varchar", "oid": "bigint", "shown": "boolean"}
_SIZES = {"oid": "bigint", "rows": "bigint", "bytes": "bigint"}


def update_sizes(duck: Any, relations: Sequence[CatalogRelation]) -> None:
    """Writes how many rows and bytes each table has: in tg_sizes, and as `reltuples`."""
    oids = assign_oids(relation.name for relation in relations)
    rows = [
        {"oid": oids[one.name], "rows": one.rows, "bytes": one.bytes} for one in relations if one.kind == "r"
    ]
    duck.execute("BEGIN TRANSACTION")
    duck.execute("DELETE FROM tg_sizes")
    _insert(duck, "tg_sizes", _SIZES, rows)
    duck.execute("UPDATE pg_class SET reltuples = tg.rows FROM tg_sizes AS tg WHERE tg.oid = pg_class.oid")
    duck.execute("COMMIT")


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
    """Creates a table; a number or boolean that a row lacks is 0 or false, other columns are NULL."""
    duck.execute(f"CREATE TABLE {name} ({', '.join(f'{key} {kind}' for key, kind in columns.items())})")
    _insert(duck, name, columns, rows)


def _insert(duck: Any, name: str, columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    arrays = {
        key: pa.array([row.get(key, _ZERO.get(kind)) for row in rows], _ARROW[kind])
        for key, kind in columns.items()
    }
    duck.register("tg_rows", pa.table(arrays))
    duck.execute(f"INSERT INTO {name} SELECT * FROM tg_rows")
    duck.unregister("tg_rows")


_ZERO = {"bigint": 0, "integer": 0, "boolean": False, "double": 0.0}


def _namespaces() -> list[dict[str, Any]]:
    named = {CATALOG: "pg_catalog", PUBLIC: "public", SCHEMA: "information_schema"}
    return [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in named.items()]


def _class(relation: CatalogRelation, oid: int) -> dict[str, Any]:
    return {
        "oid": oid, "relname": relation.name, "relnamespace": PUBLIC, "relowner": OWNER, "relkind": relation.kind,
        "relam": _HEAP if relation.kind == "r" else 0, "relpersistence": "p", "relnatts": len(relation.columns), "reltuples": -1.0,
        "relispopulated": True, "relreplident": "d" if relation.kind == "r" else "n", "relhasrules": relation.kind == "v",
        "relhasindex": relation.key is not None,
    }  # fmt: skip


def _attributes(relation: CatalogRelation, oid: int) -> list[dict[str, Any]]:
    rows = []
    for i, column in enumerate(relation.columns):
        number = types.oid(column.type)
        known = types.BY_OID.get(number)
        rows.append(
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
    return rows


def _defaults(relation: CatalogRelation, oid: int) -> list[dict[str, Any]]:
    return [
        {"oid": oid + i, "adrelid": oid, "adnum": i + 1, "adbin": column.default, "adsrc": column.default}
        for i, column in enumerate(relation.columns)
        if column.default is not None
    ]


def _collations() -> list[dict[str, Any]]:
    named = {100: "default", _C: "C"}
    return [
        {"oid": oid, "collname": name, "collnamespace": CATALOG, "collowner": OWNER, "collprovider": "c",
         "collisdeterministic": True, "collencoding": -1}
        for oid, name in named.items()
    ]  # fmt: skip


_OTHER_TYPES = (
    (types.VARCHAR, types.VARCHARS, "varchar", "character varying", "S"),
    (18, 1002, "char", '"char"', "S"),
    (19, 1003, "name", "name", "S"),
    (26, 1028, "oid", "oid", "N"),
    (114, 199, "json", "json", "U"),
    (705, 0, "unknown", "unknown", "X"),
    (types.RECORD, 2287, "record", "record", "P"),
)


def _all_types() -> list[tuple[int, int, str, str, str, int]]:
    common = [(t.oid, t.array, t.name, t.long, t.category, t.size) for t in types.TYPES]
    return common + [(*more, -1) for more in _OTHER_TYPES]


def _type_names() -> list[str]:
    return [name for _, _, name, _, _, _ in _all_types()]


def _types() -> list[dict[str, Any]]:
    rows = []
    functions = io_functions(_type_names())
    for oid, array, name, _, category, size in _all_types():
        common = {
            "typnamespace": CATALOG, "typowner": OWNER, "typisdefined": True, "typdelim": ",", "typalign": "i",
            "typstorage": "p" if size > 0 else "x", "typtypmod": -1,
            "typcollation": 100 if category == "S" and oid in (types.TEXT, types.VARCHAR) else 0,
        }  # fmt: skip
        kind = "p" if category in ("P", "X") else "b"
        io = dict(zip(("typinput", "typoutput", "typreceive", "typsend"), functions[name], strict=True))
        rows.append(
            common
            | io
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
            io = dict(zip(io, functions["array"], strict=True))
            rows.append(common | more | io | {"typelem": oid})
    return rows


def _formats() -> list[dict[str, Any]]:
    rows = []
    for oid, array, name, long, _, _ in _all_types():
        rows.append({"oid": oid, "base": oid, "short": name, "long": long, "brackets": ""})
        if array:
            rows.append({"oid": array, "base": oid, "short": f"_{name}", "long": long, "brackets": "[]"})
    return rows


def _regclasses(oids: Mapping[str, int]) -> list[dict[str, Any]]:
    """Lists every way to write the name of a relation, and which of them is shown."""
    rows = _spellings(oids)
    for i, name in enumerate(sorted(TABLES)):
        oid = POSTGRES_OIDS.get(name, 3_000 + i)
        rows.append({"name": name, "oid": oid, "shown": True})
        rows.append({"name": f"pg_catalog.{name}", "oid": oid, "shown": False})
    return rows


def _spellings(oids: Mapping[str, int]) -> list[dict[str, Any]]:
    """Lists every way to write the names of relations or indexes."""
    rows = []
    for name, oid in oids.items():
        quoted = '"' + name.replace('"', '""') + '"'
        spellings = (identifier(name), name, quoted)
        ways = dict.fromkeys(f"{schema}{way}" for schema in ("", "public.", '"public".') for way in spellings)
        rows += [{"name": way, "oid": oid, "shown": way == identifier(name)} for way in ways]
    return rows
