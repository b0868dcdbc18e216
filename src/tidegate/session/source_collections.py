"""Which collections a statement asks for, and what the transform of each may read.

| said | collections |
|---|---|
| nothing, and the upstream has one kind of records | one, of the source's name |
| `FOR ALL TABLES` | one for each table of the upstream (POSTGRES, GENERATOR) |
| `FOR TABLES (a, b TRANSFORM USING (…) AS c)` | these |
| the same of KAFKA or FILES | several collections made of the same records; each transform reads the source |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from tidegate.errors import BindError
from tidegate.ingest.source import Format, Upstream
from tidegate.session.source_making import Making
from tidegate.sql import statement, syntax


@dataclass(frozen=True)
class Wanted:
    """One collection that a statement asks for."""

    name: str
    table: str | None
    format: Format
    transform: syntax.Query | None
    called: tuple[str, ...]
    """The names by which its transform may call what it reads."""


def collections(making: Making, upstream: Upstream, format_: Format | None) -> Iterator[Wanted]:
    """The collections that are asked for."""
    given, tables = making.given, upstream.tables()
    if tables and given.format is not None:
        raise BindError(
            f"{given.kind.upper()} knows its columns: FORMAT is for others",
            position=making.position(given.format.at),
        )
    if not tables and format_ is None:
        raise BindError(f"{given.kind.upper()} needs a FORMAT", hint="such as FORMAT JSON")
    if (given.tables or given.all_tables) and given.transform is not None:
        raise BindError(
            "each of several tables has a transform of its own",
            hint="FOR TABLES (orders TRANSFORM USING (SELECT … FROM orders))",
            position=making.position(given.transform.at),
        )
    if given.tables:
        for one in given.tables:
            yield _subsource(making, one, tables, format_)
    elif given.all_tables:
        if not tables:
            raise BindError(
                f"{given.kind.upper()} has no tables", hint="FOR TABLES (a TRANSFORM USING (…), b …)"
            )
        for table, found in tables.items():
            yield Wanted(table.rpartition(".")[2], table, found, None, (table.rpartition(".")[2],))
    elif not tables:
        assert format_ is not None
        yield Wanted(making.name, None, format_, given.transform, (making.name,))
    elif len(tables) == 1 and given.kind != "postgres":
        ((table, found),) = tables.items()
        yield Wanted(making.name, table, found, given.transform, (making.name, table))
    else:
        raise BindError(
            f"it has the tables {', '.join(tables)}",
            hint="FOR ALL TABLES, or FOR TABLES (…), says which are wanted",
        )


def _subsource(
    making: Making, one: statement.Subsource, tables: dict[str, Format], format_: Format | None
) -> Wanted:
    table, last = ".".join(part.text for part in one.table), one.table[-1].text
    name = last if one.alias is None else one.alias.text
    if not tables:
        assert format_ is not None
        return Wanted(name, None, format_, one.transform, (making.name, last, name))
    known = table if table in tables else f"public.{table}" if f"public.{table}" in tables else None
    if known is None and one.table[0].text == "public" and last in tables:
        known = last
    if known is None:
        close = get_close_matches(table, list(tables), n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(tables)}"
        raise BindError(
            f'there is no table "{table}" upstream', hint=hint, position=making.position(one.table[-1].at)
        )
    return Wanted(name, known, tables[known], one.transform, (last,))
