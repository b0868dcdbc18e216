"""The grammar of constraints: PRIMARY KEY … NOT ENFORCED, and what is said of the others.

    id int8 PRIMARY KEY NOT ENFORCED                          column_key
    CONSTRAINT orders_pkey PRIMARY KEY (id) NOT ENFORCED      table_key

No row is checked against other rows, so a constraint that would have to be is refused, with what to write instead.
"""

from __future__ import annotations

from tidegate.errors import Position, UnsupportedError
from tidegate.sql.parse.grammar.names import column_list
from tidegate.sql.parse.syntax import Ident
from tidegate.sql.parse.table_statement import KeyDefinition
from tidegate.sql.parse.token_cursor import TokenCursor

_KEY = "PRIMARY KEY (…) NOT ENFORCED declares a key: clients see it, and nothing checks it"
_INSTEAD = {
    "unique": _KEY,
    "exclude": _KEY,
    "check": "filter rows where they are written, or read them through a view",
    "references": "columns refer to others without being declared to; joins need no key",
    "foreign": "columns refer to others without being declared to; joins need no key",
    "generated": "DEFAULT gives a value where none is given; a view computes columns from others",
}
_WORDS = ("primary", "constraint", *_INSTEAD)


def at_constraint(c: TokenCursor) -> bool:
    """Whether a constraint comes next."""
    return c.token.kind == "word" and c.token.text in _WORDS


def table_key(c: TokenCursor) -> KeyDefinition:
    """A key of the table; any other constraint is refused."""
    name, start = _constraint_name(c), c.token.start
    if not c.eat("primary", "key"):
        raise _refused(c)
    columns = column_list(c)
    _not_enforced(c, start, f"PRIMARY KEY ({', '.join(column.text for column in columns)})")
    return KeyDefinition(columns, name)


def column_key(c: TokenCursor, column: Ident) -> KeyDefinition:
    """PRIMARY KEY behind a column; any other constraint is refused."""
    name, start = _constraint_name(c), c.token.start
    if not c.eat("primary", "key"):
        raise _refused(c)
    _not_enforced(c, start, "PRIMARY KEY")
    return KeyDefinition((column,), name)


def _constraint_name(c: TokenCursor) -> Ident | None:
    return c.name("the constraint's name") if c.eat("constraint") else None


def _not_enforced(c: TokenCursor, start: int, written: str) -> None:
    at = c.since(start)
    if not c.eat("not", "enforced"):
        raise UnsupportedError(
            "a PRIMARY KEY is not enforced: rows are not compared when they are written",
            hint=f"write {written} NOT ENFORCED",
            position=Position(c.sql, *at),
        )


def _refused(c: TokenCursor) -> UnsupportedError:
    if not at_constraint(c):
        raise c.fail("PRIMARY KEY")
    word = c.token.text
    name = "FOREIGN KEY" if word in ("references", "foreign") else word.upper()
    return UnsupportedError(
        f"{name} is not supported: only NOT NULL, DEFAULT and PRIMARY KEY … NOT ENFORCED are",
        hint=_INSTEAD.get(word, _KEY),
        position=Position(c.sql, *c.span()),
    )
