"""The syntax of FROM: tables, queries, table functions and joins.

FROM orders o LEFT JOIN jsonb_to_recordset(o.lines) WITH ORDINALITY AS l (sku text, n int4) ON true

JoinClause("LEFT JOIN", TableRef(orders), TableFunction((TableCall(…, columns=(sku text, n int4)),), ordinality=True))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from tidegate.expr.model import Type
    from tidegate.sql.parse.syntax import Ident, Node, Query, Span


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """`AS t (a, b)`."""

    name: Ident
    columns: tuple[Ident, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TableRef:
    """A collection or view in FROM, by name."""

    name: tuple[Ident, ...]
    alias: Alias | None
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A query in FROM."""

    query: Query
    alias: Alias | None
    at: Span
    lateral: bool = False


class TableCall(NamedTuple):
    """A function in FROM, and the columns that `AS (a int4, b text)` gives to its records."""

    call: Node
    columns: tuple[tuple[Ident, Type], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TableFunction:
    """A function in FROM, such as generate_series; with ROWS FROM several, side by side."""

    calls: tuple[TableCall, ...]
    alias: Alias | None
    at: Span
    ordinality: bool = False
    """WITH ORDINALITY: a last column that counts the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinClause:
    """Two things in FROM; `kind` as it was written, a comma being a CROSS JOIN."""

    kind: str
    left: From
    right: From
    on: Node | None
    using: tuple[Ident, ...]
    at: Span
    side: Literal["inner", "left", "right", "full", "cross"] = "cross"
    natural: bool = False
    using_alias: Ident | None = None
    """`JOIN b USING (id) AS x`: a name for the columns that both sides share."""


From: TypeAlias = TableRef | Derived | TableFunction | JoinClause
