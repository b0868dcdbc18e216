"""Names of tables and columns in statements: without a schema, and each once.

own_name(c, "the table's name")      public.orders → orders
"""

from __future__ import annotations

from tidegate.errors import ErrorCode, ParseError, Position, UnsupportedError
from tidegate.sql.parse.syntax import Ident
from tidegate.sql.parse.token_cursor import TokenCursor


def own_name(c: TokenCursor, what: str) -> Ident:
    """A name without a schema: `public.` in front of it means nothing more and is left out."""
    parts = c.qualified(what)
    if len(parts) > 2 or (len(parts) == 2 and parts[0].text != "public"):
        raise UnsupportedError(
            "there are no schemas: names have one part", position=Position(c.sql, *parts[0].at)
        )
    return parts[-1]


def no_duplicates(
    c: TokenCursor, names: tuple[Ident, ...], code: ErrorCode | None = ErrorCode.DUPLICATE_COLUMN
) -> None:
    """Refuses a column that is named twice."""
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise ParseError(
                f'column "{name.text}" is given twice',
                code=code,
                position=Position(c.sql, *name.at),
            )
        seen.add(name.text)


def column_list(c: TokenCursor) -> tuple[Ident, ...]:
    """`(a, b)`: names of columns in parentheses, each once."""
    c.expect("(")
    names = c.comma_list(lambda: c.name("a column's name"))
    c.expect(")", of="a comma")
    no_duplicates(c, names)
    return names
