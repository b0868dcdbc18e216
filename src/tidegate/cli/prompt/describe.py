r"""`\d` and its kin: what there is in the lake, and what it consists of.

tidegate> \dt+
table  │      rows │ parts │  size │ newest
───────┼───────────┼───────┼───────┼──────────────
orders │ 2,000,000 │    12 │ 81 MB │ 3 minutes ago
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import tidegate
from tidegate.query.display import Cells, table_text, terminal_width
from tidegate.text import format_bytes, identifier, plural, time_ago

if TYPE_CHECKING:
    from tidegate.cli.prompt.scan import Typed
    from tidegate.cli.prompt.session import PromptSession

_NUMBERS = frozenset({"rows", "parts", "size"})


def any_item(session: PromptSession, typed: Typed) -> None:
    r"""`\d`: everything that has rows; `\d orders`: its columns, and how a view is defined."""
    if typed.rest:
        _item(session, typed.rest)
        return
    rows = [[name, kind] for name, kind in _kinds(session).items()]
    _table(
        session, ("name", "kind"), rows, "nothing here yet: CREATE TABLE orders (id int8, at timestamptz);"
    )


def tables(session: PromptSession, typed: Typed) -> None:
    r"""`\dt`: tables; with + how large they are."""
    names = [name for name, kind in _kinds(session).items() if kind == "table" and _fits(name, typed.rest)]
    if not typed.command.endswith("+"):
        _table(session, ("table",), [[name] for name in names], "no tables")
        return
    found = session.db.status().collections
    rows = [
        [
            name,
            f"{one.rows:,}",
            f"{one.parts:,}",
            format_bytes(one.bytes),
            time_ago(one.upper - 1) if one.rows else "–",
        ]
        for name in names
        if (one := found.get(name)) is not None
    ]
    _table(session, ("table", "rows", "parts", "size", "newest"), rows, "no tables")


def views(session: PromptSession, typed: Typed) -> None:
    r"""`\dv`: views and their queries."""
    names = [name for name, kind in _kinds(session).items() if kind == "view" and _fits(name, typed.rest)]
    rows = [[name, _definition(session, "VIEW", name)] for name in names]
    _table(session, ("view", "definition"), rows, "no views")


def sources(session: PromptSession, typed: Typed) -> None:
    r"""`\ds`: sources, what they read, and their state."""
    rows = [
        [str(value or "") for value in row]
        for row in session.db.sql("SHOW SOURCES").rows()
        if _fits(row[0], typed.rest)
    ]
    _table(session, ("source", "type", "of", "state"), rows, "no sources")


def functions(session: PromptSession, typed: Typed) -> None:
    r"""`\df`: functions, with arguments, result and meaning."""
    from tidegate.expr.model import REGISTRY

    rows = [
        [name, one.signature.removeprefix(name), one.doc.partition("\n")[0]]
        for name in sorted(REGISTRY.names())
        if name.isidentifier() and _fits(name, typed.rest)
        for one in REGISTRY.overloads(name)
        if not one.hidden
    ]
    _table(
        session, ("function", "arguments → result", "meaning"), rows, f"no function is called {typed.rest}"
    )


def lake(session: PromptSession, typed: Typed) -> None:
    r"""`\l`: the lake that is open."""
    del typed
    found = session.db.status()
    size = sum(one.bytes for one in found.collections.values())
    rows = [
        [
            found.root or "memory",
            found.metadata,
            plural(len(found.collections), "collection"),
            format_bytes(size),
        ]
    ]
    _table(session, ("lake", "metadata", "holds", "size"), rows, "")


def _item(session: PromptSession, given: str) -> None:
    name = given.strip('"') if given.startswith('"') else given.lower()
    kind = _kinds(session).get(name)
    if kind is None and ("*" in given or "?" in given):
        rows = [[one, what] for one, what in _kinds(session).items() if _fits(one, given)]
        _table(session, ("name", "kind"), rows, f"nothing is called {given}")
        return
    found = session.db.sql(f"SHOW COLUMNS FROM {identifier(name)}").rows()
    rows = [[column, type_, "yes" if nullable else "no"] for column, nullable, type_ in found]
    _table(
        session,
        ("column", "type", "nullable"),
        rows,
        "no columns",
        title=f"{(kind or 'collection').capitalize()} {name}",
    )
    with session.paged(session.output) as out:
        if kind == "view":
            out.write(f"{_definition(session, 'VIEW', name)}\n")
        elif kind == "table" and (one := session.db.status().collections.get(name)) is not None:
            out.write(
                f"{plural(one.rows, 'row')} in {plural(one.parts, 'part')}, {format_bytes(one.bytes)}\n"
            )


def _kinds(session: PromptSession) -> dict[str, str]:
    """What each name is: a table, a view, a source, or what a source writes."""
    ask = session.db.sql
    found = {name: "table" for (name,) in ask("SHOW TABLES").rows()}
    found |= {name: "view" for (name,) in ask("SHOW VIEWS").rows()}
    found |= {row[0]: "source" if row[2] is None else f"of {row[2]}" for row in ask("SHOW SOURCES").rows()}
    return dict(sorted(found.items()))


def _definition(session: PromptSession, kind: str, name: str) -> str:
    try:
        return str(session.db.sql(f"SHOW CREATE {kind} {identifier(name)}").rows()[0][1])
    except tidegate.TidegateError as error:
        return error.message


def _fits(name: str, pattern: str) -> bool:
    """Whether a name fits a pattern of psql, where * and ? stand for letters."""
    return not pattern or fnmatchcase(name, pattern.lower()) or fnmatchcase(name, f"{pattern.lower()}*")


def _table(
    session: PromptSession, names: Sequence[str], rows: list[list[str]], nothing: str, *, title: str = ""
) -> None:
    with session.paged(session.output) as out:
        if not rows:
            out.write(nothing + "\n")
            return
        if title:
            out.write(title + "\n")
        cells = Cells(tuple(names), tuple(name in _NUMBERS for name in names), rows)
        out.write("\n".join(table_text(cells, terminal_width())) + "\n")
