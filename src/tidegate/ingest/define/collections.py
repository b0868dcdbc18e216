"""The collections that a statement creates, and what the transform of each may read.

| statement | collections |
|---|---|
| no FOR, and the upstream has one kind of records | one, with the source's name |
| `FOR ALL TABLES` | one for each table of the upstream (POSTGRES, GENERATOR) |
| `FOR TABLES (a, b TRANSFORM USING (…) AS c)` | these |
| the same for KAFKA or FILES | several collections of the same records; each transform reads the source |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from tidegate.errors import BindError, ErrorCode
from tidegate.ingest.define.draft import SourceDraft
from tidegate.ingest.protocol import RecordFormat
from tidegate.sql.parse import statement, syntax


@dataclass(frozen=True)
class CollectionSpec:
    """One collection that a statement creates."""

    name: str
    table: str | None
    format: RecordFormat
    transform: syntax.Query | None
    source_names: tuple[str, ...]
    """The names that its transform may use for the source."""


def collection_specs(draft: SourceDraft) -> Iterator[CollectionSpec]:
    """Yields the collections of a source."""
    created, tables = draft.statement, draft.upstream.tables()
    _check(draft, tables)
    if created.tables:
        for entry in created.tables:
            yield _subsource(draft, entry, tables)
    elif created.all_tables:
        for table, format_ in tables.items():
            name = table.rpartition(".")[2]
            yield CollectionSpec(name, table, format_, None, (name,))
    elif draft.format is not None:
        yield CollectionSpec(draft.name, None, draft.format, created.transform, (draft.name,))
    elif len(tables) == 1 and draft.type.implicit_table:
        ((table, format_),) = tables.items()
        yield CollectionSpec(draft.name, table, format_, created.transform, (draft.name, table))
    else:
        raise BindError(
            f"it has the tables {', '.join(tables)}",
            hint="FOR ALL TABLES, or FOR TABLES (…), says which are wanted",
        )


def _check(draft: SourceDraft, tables: dict[str, RecordFormat]) -> None:
    """Raises if clauses contradict each other."""
    created, kind = draft.statement, draft.statement.kind.upper()
    if tables and created.format is not None:
        raise BindError(
            f"{kind} knows its columns, so it takes no FORMAT", position=draft.position(created.format.at)
        )
    if not tables and draft.format is None:
        raise BindError(f"{kind} needs a FORMAT", hint="such as FORMAT JSON")
    if (created.tables or created.all_tables) and created.transform is not None:
        raise BindError(
            "each of several tables has a transform of its own",
            hint="FOR TABLES (orders TRANSFORM USING (SELECT … FROM orders))",
            position=draft.position(created.transform.at),
        )
    if created.all_tables and not tables:
        raise BindError(f"{kind} has no tables", hint="FOR TABLES (a TRANSFORM USING (…), b …)")


def _subsource(
    draft: SourceDraft, entry: statement.SubsourceClause, tables: dict[str, RecordFormat]
) -> CollectionSpec:
    table, last = ".".join(part.text for part in entry.table), entry.table[-1].text
    name = last if entry.alias is None else entry.alias.text
    if not tables:
        assert draft.format is not None
        return CollectionSpec(name, None, draft.format, entry.transform, (draft.name, last, name))
    upstream_name = next((key for key in (table, f"public.{table}") if key in tables), None)
    if upstream_name is None and entry.table[0].text == "public" and last in tables:
        upstream_name = last
    if upstream_name is None:
        close = get_close_matches(table, list(tables), n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(tables)}"
        raise BindError(
            f'there is no table "{table}" upstream',
            code=ErrorCode.UNDEFINED_TABLE,
            hint=hint,
            position=draft.position(entry.table[-1].at),
        )
    return CollectionSpec(name, upstream_name, tables[upstream_name], entry.transform, (last,))
