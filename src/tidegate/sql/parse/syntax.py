"""The syntax tree: what a query or an expression says, before any name has a meaning.

    WHERE price * 2 > 10          Apply(">", (Apply("*", (Name(price), Number(2))), Number(10)))

Every node keeps the place that an error about it points at: an operator's own sign, a function's name, the
whole of a name or a constant. Sugar is gone (`x BETWEEN a AND b` is `x >= a AND x <= b`, `INTERVAL '1' DAY`
is `'1 day'::interval`); what PostgreSQL's grammar decides (precedence, `NOT a = b`) is decided. Children
stand in `args`, so one loop walks any tree, however deep: nothing here or in binding recurses along an
expression.

Nodes are compared by identity: a node is a place in a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tidegate.errors import Position
from tidegate.expr.model import Type
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.modifiers import TypeModifier

if TYPE_CHECKING:
    from tidegate.sql.parse.from_clause import From


class Span(NamedTuple):
    """A stretch `[start, end)` of the text that is being read."""

    start: int
    end: int


class Ident(NamedTuple):
    """A name as it is meant (folded unless quoted), and where it stands."""

    text: str
    at: Span


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A column, perhaps qualified: `price`, `orders.price`."""

    parts: tuple[Ident, ...]
    at: Span
    args: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Star:
    """`*`, `t.*`, or with an argument `(record).*`: the columns or fields, in a select list only."""

    qualifier: tuple[Ident, ...]
    at: Span
    args: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A string, a number as it is written, TRUE, FALSE or NULL."""

    kind: Literal["string", "number", "bool", "null"]
    text: str
    at: Span
    args: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Default:
    """`DEFAULT`, in VALUES and in UPDATE only."""

    at: Span
    args: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An operator, a function or a test by the name that it is declared with: `+`, `lower`, `is null`."""

    name: str
    args: tuple[Node, ...]
    at: Span
    is_function: bool = False
    """Written as `name(…)`: only these may be aggregates or casts such as `date(x)`."""


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """Conditions joined by AND or by OR, any number of them."""

    name: Literal["and", "or"]
    args: tuple[Node, ...]
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """`CASE WHEN c THEN v … ELSE e END`: args are c, v, c, v, …, e."""

    args: tuple[Node, ...]
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """`x::type`, `CAST(x AS type)` or `type 'text'`."""

    args: tuple[Node, ...]
    type: Type
    at: Span
    modifier: TypeModifier | None = None


@dataclass(frozen=True, slots=True, eq=False)
class In:
    """`x IN (a, b, …)`: args are x and those of a, b, … that are more than a constant.

    The constants stand apart as their tokens, so that ten thousand of them are not ten thousand nodes to make
    and to walk.
    """

    args: tuple[Node, ...]
    constants: tuple[Token, ...]
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class Quantified:
    """`x op ANY (array)` or `x op ALL (array)`: args are x and the array."""

    operator: str
    quantifier: Literal["any", "all"]
    args: tuple[Node, ...]
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class FieldAccess:
    """`(record).name`."""

    name: Ident
    args: tuple[Node, ...]
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """`ARRAY[…]`, `ROW(…)` or `(a, b)`."""

    kind: Literal["array", "row"]
    args: tuple[Node, ...]
    at: Span


Compared: TypeAlias = Literal["scalar", "exists", "array", "any", "all"]


@dataclass(frozen=True, slots=True, eq=False)
class NonScalar:
    """A subquery or call that is more than an expression of one row; of `x IN (…)`, x is in `args`."""

    construct: str
    at: Span
    query: Query | None = None
    args: tuple[Node, ...] = ()
    kind: Compared = "scalar"
    operator: str = "="
    call: AggregateCall | None = None
    over: Over | None = None
    table: str | None = None
    """The name of a table function, whose arguments are `args`."""


@dataclass(frozen=True, slots=True, eq=False)
class Over:
    """A window: `OVER (base PARTITION BY … ORDER BY … ROWS BETWEEN … AND …)`, or `OVER base`."""

    base: Ident | None
    partition_by: tuple[Node, ...]
    order_by: tuple[Ordering, ...]
    frame: WindowFrame | None
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class WindowFrame:
    """The frame of a window function, from `("preceding", 2)` to `("current row", None)`."""

    unit: Literal["rows", "range", "groups"]
    first: tuple[str, Node | None]
    last: tuple[str, Node | None]
    exclude: Literal["current row", "group", "ties"] | None
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class AggregateCall:
    """`count(*)`, `sum(DISTINCT x) FILTER (WHERE c)`. No `args`: its operands are of rows, not groups."""

    name: str
    given: tuple[Node, ...]
    at: Span
    star: bool = False
    distinct: bool = False
    where: Node | None = None
    args: tuple[Node, ...] = ()
    order_by: tuple[Ordering, ...] = ()
    within: bool = False


Node: TypeAlias = (
    Name
    | Star
    | Constant
    | Default
    | Apply
    | Junction
    | Case
    | Cast
    | In
    | Quantified
    | FieldAccess
    | Items
    | AggregateCall
    | NonScalar
)


def walk(root: Node) -> Iterator[Node]:
    """Every node once, arguments before what uses them; nodes that are shared come once."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready or not node.args:
            if id(node) not in seen:
                seen.add(id(node))
                yield node
        elif id(node) not in seen:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))


# ---------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One entry of a select list."""

    value: Node
    alias: Ident | None


@dataclass(frozen=True, slots=True, eq=False)
class Ordering:
    """One entry of ORDER BY; by default NULLs come last, and first when descending."""

    value: Node
    descending: bool
    nulls_first: bool


class GroupBy(NamedTuple):
    """GROUP BY, and where it stands."""

    keys: tuple[Node, ...]
    at: Span
    sets: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """GROUPING SETS, ROLLUP and CUBE: the choices of keys, by their places, that each entry stands for."""
    distinct: bool = False
    """GROUP BY DISTINCT: of equal grouping sets one counts."""


class Having(NamedTuple):
    """HAVING, and where it stands."""

    condition: Node
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """SELECT … FROM … WHERE … GROUP BY … HAVING …; `beyond` are the clauses that nobody here does."""

    items: tuple[Item, ...]
    source: From | None
    where: Node | None
    beyond: tuple[tuple[str, Span], ...]
    at: Span
    distinct: Span | None = None
    group_by: GroupBy | None = None
    having: Having | None = None
    distinct_on: tuple[Node, ...] = ()
    windows: tuple[tuple[Ident, Over], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """VALUES (…), (…)."""

    rows: tuple[tuple[Node, ...], ...]
    at: Span


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two queries."""

    name: str
    left: Body
    right: Body
    at: Span


Body: TypeAlias = "Select | Values | SetOperation | Query"


@dataclass(frozen=True, slots=True, eq=False)
class CommonTable:
    """One entry of WITH."""

    name: Ident
    columns: tuple[Ident, ...]
    query: Query
    materialized: bool | None = None
    """Whether MATERIALIZED or NOT MATERIALIZED is written."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A whole query, in its text: `sql[start:end]` is what the user wrote, and all places refer to `sql`."""

    sql: str
    at: Span
    tables: tuple[CommonTable, ...]
    recursive: Span | None
    body: Body
    order_by: tuple[Ordering, ...]
    limit: Node | None
    offset: Node | None
    ties: Span | None = None
    """Where WITH TIES stands: rows that are equal to the last one in ORDER BY belong to the limit."""

    @property
    def text(self) -> str:
        """The user's own words: the durable form of a transform and of a view."""
        return self.sql[self.at.start : self.at.end]

    def position(self, at: Span) -> Position:
        """A place in the text, for an error."""
        return Position(self.sql, at.start, at.end)
