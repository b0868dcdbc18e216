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
    r"""`\d`: everything that has rows; `\d orders`: columns, keys, how a view is defined; + with comments."""
    if typed.rest:
        _item(session, typed.rest, comments=typed.command.endswith("+"))
        return
    rows = [[name, kind] for name, kind in _kinds(session).items()]
    _table(
        session, ("name", "kind"), rows, "nothing here yet: CREATE TABLE orders (id int8, at timestamptz);"
    )


def tables(session: PromptSession, typed: Typed) -> None:
    r"""`\dt`: tables; with + how large they are."""
    names = [name for name, kind in _kinds(session).items() if kind == "table" and _fits(name, typed.rest)]
    about = dict(session.db.sql(_COMMENTS).rows()) if typed.command.endswith("+") else {}
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
            *([about.get(name) or ""] if any(about.values()) else []),
        ]
        for name in names
        if (one := found.get(name)) is not None
    ]
    header = ("table", "rows", "parts", "size", "newest", *(["comment"] if any(about.values()) else []))
    _table(session, header, rows, "no tables")


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


_COMMENTS = "SELECT relname, obj_description(oid) FROM pg_class WHERE relkind IN ('r', 'v')"
_COLUMNS = """SELECT a.attname, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relname = """
_RELATION = """SELECT k.conname, pg_get_constraintdef(k.oid), obj_description(c.oid)
FROM pg_class c LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p' WHERE c.relname = """


def _name_of(given: str) -> str:
    """The name that is meant: unquoted it is in lower case, and the schema is `public`."""
    given = given.removeprefix("public.")
    if len(given) > 1 and given[0] == given[-1] == '"':
        return given[1:-1].replace('""', '"')
    return given.lower()


def _item(session: PromptSession, given: str, *, comments: bool) -> None:
    name = _name_of(given)
    kind = _kinds(session).get(name)
    if kind is None and ("*" in given or "?" in given):
        rows = [[one, what] for one, what in _kinds(session).items() if _fits(one, given)]
        _table(session, ("name", "kind"), rows, f"nothing is called {given}")
        return
    found = session.db.sql(f"SHOW COLUMNS FROM {identifier(name)}").rows()
    literal = "'" + name.replace("'", "''") + "'"
    about = {row[0]: row[1:] for row in session.db.sql(_COLUMNS + literal).rows()}
    defaults, said = ({column: row[i] or "" for column, row in about.items()} for i in (0, 1))
    extra = [("default", defaults)] if any(defaults.values()) else []
    extra += [("comment", said)] if comments and any(said.values()) else []
    rows = [
        [column, type_, "yes" if nullable else "no", *(values.get(column, "") for _, values in extra)]
        for column, nullable, type_ in found
    ]
    header = ("column", "type", "nullable", *(title for title, _ in extra))
    _table(session, header, rows, "no columns", title=f"{(kind or 'collection').capitalize()} {name}")
    with session.paged(session.output) as out:
        if kind == "view":
            out.write(f"{_definition(session, 'VIEW', name)}\n")
        elif kind == "table" and (one := session.db.status().collections.get(name)) is not None:
            deleted = f" ({one.deleted:,} of them deleted)" if one.deleted else ""
            size = format_bytes(one.bytes)
            out.write(f"{plural(one.rows, 'row')}{deleted} in {plural(one.parts, 'part')}, {size}\n")
        for key, definition, comment in session.db.sql(_RELATION + literal).rows():
            out.write(f"key {key}: {definition}\n" if key else "")
            out.write(f"comment: {comment}\n" if comments and comment else "")


def _kinds(session: PromptSession) -> dict[str, str]:
    """What each name is: a table, a view, a source, or what a source writes."""
    ask = session.db.sql
    found = {name: "table" for (name,) in ask("SHOW TABLES").rows()}
    found |= {name: "view" for (name,) in ask("SHOW VIEWS").rows()}
    found |= {row[0]: "source" if row[2] is None else f"of {row[2]}" for row in ask("SHOW SOURCES").rows()}
    return dict(sorted(found.items()))


def _definition(session: PromptSession, kind: str, name: str) -> str:
    try:
        made = str(session.db.sql(f"SHOW CREATE {kind} {identifier(name)}").rows()[0][1])
        return made.partition(";\nCOMMENT ON ")[0]
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
