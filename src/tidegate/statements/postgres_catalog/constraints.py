"""Declared keys and comments: the rows of pg_index, pg_constraint and pg_description.

A key of a table is an index and a constraint, as in PostgreSQL: drivers find primary keys by the index, other tools by the
constraint. `conenforced` and `NOT ENFORCED` in definitions say that nothing checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.statements.postgres_catalog.views import OWNER, PUBLIC
from tidegate.text import identifier

BTREE = 403
"""The OID of the access method that the index of a key claims to have."""
_CLASS = 1259  # the OID of pg_class: comments on relations refer to it


@dataclass(frozen=True)
class CatalogKey:
    """A primary key: its name, and the numbers and names of its columns."""

    name: str
    numbers: tuple[int, ...]
    columns: tuple[str, ...]

    @property
    def definition(self) -> str:
        """As `pg_get_constraintdef` shows it."""
        return f"PRIMARY KEY ({', '.join(map(identifier, self.columns))}) NOT ENFORCED"

    def index_definition(self, table: str) -> str:
        """As `pg_get_indexdef` shows it."""
        columns = ", ".join(map(identifier, self.columns))
        return (
            f"CREATE UNIQUE INDEX {identifier(self.name)} ON public.{identifier(table)} "
            f"USING btree ({columns}) NOT ENFORCED"
        )


@dataclass(frozen=True)
class KeyRows:
    """The key of a table with its OIDs."""

    key: CatalogKey
    table: str
    table_oid: int
    index_oid: int
    constraint_oid: int

    def index_class(self) -> dict[str, Any]:
        """The row of the index in pg_class."""
        return {
            "oid": self.index_oid, "relname": self.key.name, "relnamespace": PUBLIC, "relowner": OWNER, "relkind": "i",
            "relam": BTREE, "relpersistence": "p", "relnatts": len(self.key.numbers), "relispopulated": True,
            "relreplident": "n",
        }  # fmt: skip

    def index(self) -> dict[str, Any]:
        """The row in pg_index."""
        count = len(self.key.numbers)
        return {
            "indexrelid": self.index_oid, "indrelid": self.table_oid, "indnatts": count, "indnkeyatts": count,
            "indisunique": True, "indisprimary": True, "indimmediate": True, "indisvalid": True, "indisready": True,
            "indislive": True, "indkey": list(self.key.numbers), "indcollation": [0] * count, "indclass": [0] * count,
            "indoption": [0] * count,
        }  # fmt: skip

    def constraint(self) -> dict[str, Any]:
        """The row in pg_constraint."""
        return {
            "oid": self.constraint_oid, "conname": self.key.name, "connamespace": PUBLIC, "contype": "p",
            "convalidated": True, "conenforced": False, "conrelid": self.table_oid, "conindid": self.index_oid,
            "confupdtype": " ", "confdeltype": " ", "confmatchtype": " ", "conislocal": True, "connoinherit": True,
            "conkey": list(self.key.numbers),
        }  # fmt: skip

    def texts(self) -> Iterator[dict[str, Any]]:
        """The rows of tg_definitions: what functions show of the index and the constraint."""
        whole = self.key.index_definition(self.table)
        yield {"oid": self.index_oid, "number": 0, "text": whole}
        for number, column in enumerate(self.key.columns, 1):
            yield {"oid": self.index_oid, "number": number, "text": identifier(column)}
        yield {"oid": self.constraint_oid, "number": 0, "text": self.key.definition}


def key_rows(keys: Mapping[str, CatalogKey], oids: Mapping[str, int]) -> list[KeyRows]:
    """The keys by table, with OIDs that no relation has; `oids` are those of relations."""
    taken, found = set(oids.values()), []
    for table, key in sorted(keys.items()):
        numbers: list[int] = []
        number = max(oids[table] - 1, 1)
        while len(numbers) < 2:
            number += 1
            if number not in taken:
                taken.add(number)
                numbers.append(number)
        found.append(KeyRows(key, table, oids[table], *numbers))
    return found


def descriptions(oid: int, comments: Iterable[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    """The rows of pg_description: comments by number of the column, 0 for the relation."""
    for number, text in comments:
        yield {"objoid": oid, "classoid": _CLASS, "objsubid": number, "description": text}


DEFINITIONS = {"oid": "bigint", "number": "integer", "text": "varchar"}

FUNCTIONS = """
CREATE MACRO tg_definition(a, b) AS (SELECT max(tg_d.text) FROM tg_definitions tg_d
    WHERE tg_d.oid = try_cast(a AS bigint) AND tg_d.number = b);
CREATE MACRO pg_get_indexdef(a) AS tg_definition(a, 0), (a, b, c) AS tg_definition(a, b);
CREATE MACRO pg_get_constraintdef(a) AS tg_definition(a, 0), (a, b) AS tg_definition(a, 0);
CREATE MACRO col_description(a, b) AS (SELECT max(tg_e.description) FROM pg_description tg_e
    WHERE tg_e.objoid = a AND tg_e.objsubid = b AND b > 0);
CREATE MACRO tg_class_description(a) AS (SELECT max(tg_e.description) FROM pg_description tg_e
    WHERE tg_e.objoid = a AND tg_e.objsubid = 0);
CREATE MACRO tg_proc_description(a) AS (SELECT max(tg_p.description) FROM pg_proc tg_p WHERE tg_p.oid = a);
CREATE MACRO obj_description(a) AS coalesce(tg_proc_description(a), tg_class_description(a)),
    (a, b) AS CASE b WHEN 'pg_proc' THEN tg_proc_description(a) WHEN 'pg_class' THEN tg_class_description(a) END;
"""

INFORMATION = """
CREATE VIEW tg_is.table_constraints AS SELECT getvariable('tg_database') AS constraint_catalog,
    'public' AS constraint_schema, k.conname AS constraint_name, getvariable('tg_database') AS table_catalog,
    'public' AS table_schema, c.relname AS table_name, 'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable,
    'NO' AS initially_deferred, 'NO' AS enforced, NULL::varchar AS nulls_distinct
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid;
CREATE VIEW tg_is.key_column_usage AS SELECT getvariable('tg_database') AS constraint_catalog,
    'public' AS constraint_schema, p.conname AS constraint_name, getvariable('tg_database') AS table_catalog,
    'public' AS table_schema, p.relname AS table_name, a.attname AS column_name, p.place AS ordinal_position,
    NULL::integer AS position_in_unique_constraint
    FROM (SELECT k.conname, k.conrelid, c.relname, unnest(k.conkey) AS number, generate_subscripts(k.conkey, 1)::integer AS place
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid) p
    JOIN pg_attribute a ON a.attrelid = p.conrelid AND a.attnum = p.number;
CREATE VIEW tg_is.constraint_column_usage AS SELECT table_catalog, table_schema, table_name, column_name,
    constraint_catalog, constraint_schema, constraint_name FROM tg_is.key_column_usage;
"""
