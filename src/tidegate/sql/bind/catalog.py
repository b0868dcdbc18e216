"""What binding needs to know: which collections and views exist, and nothing else.

    class Mine:
        def relation(self, name):
            return Relation("t", (("id", INT8), ("at", TIMESTAMPTZ))) if name == "t" else None

        def relation_names(self):
            return ("t",)

Tests, transforms (whose only collection is the raw source) and the database each bring their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Protocol, TypeAlias

from tidegate.errors import BindError, ErrorCode, Position, TidegateError
from tidegate.expr.model import Column, Type
from tidegate.plan import MapFilterProject
from tidegate.sql.bind.scope import MAX_NAME_LENGTH
from tidegate.sql.parse.from_clause import TableRef
from tidegate.text import identifier

_SCHEMAS = ((), ("public",), ("tidegate", "public"), ("materialize", "public"))
_COMPARED = 2_000
"""Names with which a misspelt one is compared, at most: the web page asks at every key."""


@dataclass(frozen=True)
class Relation:
    """A collection: its name, and its columns in order."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    stored: MapFilterProject | None = None
    """Of one that has hidden columns: from all of its columns to those above, of the rows that are there at `mz_now()`."""

    @cached_property
    def scanned(self) -> tuple[Column, ...]:
        """Its columns as a scan has them that is the first of a query."""
        return tuple(Column(i, type_, name) for i, (name, type_) in enumerate(self.columns))

    @property
    def plan(self) -> MapFilterProject:
        """From what is stored to the columns."""
        return self.stored or MapFilterProject.identity([type_ for _, type_ in self.columns])


@dataclass(frozen=True)
class ViewRelation:
    """A view: the text of its query, and the names of its columns if they were given others."""

    sql: str
    columns: tuple[str, ...] = ()


CatalogEntry: TypeAlias = Relation | ViewRelation


class RelationCatalog(Protocol):
    """Looks up the names in FROM."""

    def relation(self, name: str) -> CatalogEntry | None:
        """The collection or view of that name; None if there is none."""
        ...

    def relation_names(self) -> Collection[str]:
        """All names, for the hint of an error: one of them may have been meant."""
        ...


@dataclass(frozen=True)
class DictCatalog:
    """A catalog that is a dictionary."""

    entries: Mapping[str, CatalogEntry] = field(default_factory=dict)

    def relation(self, name: str) -> CatalogEntry | None:
        """The entry of that name."""
        return self.entries.get(name)

    def relation_names(self) -> Collection[str]:
        """The keys."""
        return self.entries.keys()


def find_relation(catalog: RelationCatalog, table: TableRef, sql: str) -> CatalogEntry:
    """The collection or view of a name in FROM; an error with its position if there is none."""
    *schema, name = (part.text for part in table.name)
    try:
        entry = catalog.relation(name) if tuple(schema) in _SCHEMAS else None
    except TidegateError as error:
        error.position = error.position or Position(sql, *table.at)
        raise
    if entry is None:
        raise BindError(
            f'there is no collection or view "{".".join((*schema, name))}"',
            code=ErrorCode.UNDEFINED_TABLE,
            hint=_instead(catalog, tuple(schema), name),
            position=Position(sql, *table.at),
        )
    return entry


def _instead(catalog: RelationCatalog, schema: tuple[str, ...], name: str) -> str:
    """What may have been meant by a name that does not exist."""
    if schema not in _SCHEMAS:
        return f"all collections and views are in the schema public: write {identifier(name)}"
    names = catalog.relation_names() if len(name) < MAX_NAME_LENGTH else ()
    close = get_close_matches(name, names, n=2) if len(names) <= _COMPARED else []
    if close:
        return f"did you mean {' or '.join(identifier(one) for one in close)}?"
    return "SHOW TABLES, SHOW SOURCES and SHOW VIEWS list them"
