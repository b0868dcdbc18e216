"""Any query as a tree: scans, each with a row-by-row plan of its own, and the remainder, which Spark runs.

    SELECT c.name, sum(o.price * 2) FROM orders o JOIN customers c ON o.customer = c.id
    WHERE o.at > '2024-01-01' AND c.country = 'de' GROUP BY c.name

    Group c.name: sum(#7)
      Join #1 = #4
        Scan orders      Filter #2 > '2024-01-01'…   Map #0 * 2 as #7      reads customer, at, price
        Scan customers   Filter #6 = 'de'                                  reads id, name, country

A column is known by one number in the whole tree, whoever made it: a scan's columns, what a Map, an aggregate, a window or a
subquery makes. A node gives on the columns of what it reads, and adds its own. So an expression means the same wherever it
stands above what it reads; moving one is changing nothing; and a subquery that speaks of a row of the query around it just uses
that row's columns. A collection that stands twice in FROM is two scans, with numbers of their own.

`split_query.py` makes the tree from syntax, `split_push.py` moves conditions and expressions down into the scans, and finds out
which columns are read. What a tree means is said by the nodes below; `spark/query_text.py` writes it as Spark SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, assert_never

from tidegate.expr.tree import Column, Expr, permute, support
from tidegate.expr.types import Type
from tidegate.plan.mfp import MapFilterProject
from tidegate.sql.outputs import projected

Made: TypeAlias = tuple[tuple[Column, Expr], ...]
"""Columns, and what they are."""


@dataclass(frozen=True, eq=False)
class Scan:
    """A collection: the rows that pass `conditions`, which read only its columns; and what is computed of them."""

    source: str
    columns: tuple[Column, ...]
    """All columns of the collection, in order."""
    conditions: tuple[Expr, ...] = ()
    made: Made = ()
    wanted: frozenset[int] | None = None
    """The columns, of both kinds, that are used above; None: all."""

    def leaving(self) -> tuple[Column, ...]:
        """The columns that leave it."""
        every = (*self.columns, *(column for column, _ in self.made))
        return every if self.wanted is None else tuple(c for c in every if c.index in self.wanted)

    def plan(self) -> MapFilterProject:
        """What is done with the rows, over the collection's columns by their places; `leaving` says what leaves it."""
        place = {column.index: i for i, column in enumerate(self.columns)}
        values: dict[int, Expr] = {c.index: Column(i, c.type, c.name) for i, c in enumerate(self.columns)}
        values |= {column.index: permute(value, place) for column, value in self.made}
        plan = MapFilterProject.identity([column.type for column in self.columns])
        plan = plan.filter(*(permute(condition, place) for condition in self.conditions))
        return projected(plan, [values[column.index] for column in self.leaving()])


@dataclass(frozen=True, eq=False)
class Row:
    """One row without columns: what SELECT without FROM reads."""


@dataclass(frozen=True, eq=False)
class Rows:
    """VALUES: constants."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, eq=False)
class Filter:
    """The rows for which all conditions hold."""

    input: Rel
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """One more column for each expression."""

    input: Rel
    made: Made


@dataclass(frozen=True, eq=False)
class Look:
    """What is asked of a query that stands in an expression.

    | kind | gives |
    |---|---|
    | scalar | the value of the one column and at most one row; NULL of none |
    | exists | whether there is a row |
    | any, all | whether `left operator row` holds for some row, for all rows; operator `=` of any is IN |
    | array | the values of all rows |
    """

    kind: Literal["scalar", "exists", "any", "all", "array"]
    query: Rel
    columns: tuple[Column, ...]
    left: tuple[Expr, ...] = ()
    tests: tuple[Expr, ...] = ()
    """any, all: the comparisons of left with columns."""
    operator: str = "="


@dataclass(frozen=True, eq=False)
class Ask:
    """One more column for each subquery."""

    input: Rel
    made: tuple[tuple[Column, Look], ...]


@dataclass(frozen=True, eq=False)
class Join:
    """Pairs of rows for which all of `on` holds; `left` also the rows of the left side that have no pair, and so on.

    With `lateral` the right side speaks of columns of the left one.
    """

    kind: Literal["inner", "left", "right", "full"]
    left: Rel
    right: Rel
    on: tuple[Expr, ...]
    lateral: bool = False


@dataclass(frozen=True)
class Order:
    """One entry of ORDER BY."""

    value: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Summary:
    """One value of many rows: an aggregate or a window function by its name."""

    kind: str
    type: Type
    given: tuple[Expr, ...] = ()
    distinct: bool = False
    order: tuple[Order, ...] = ()


@dataclass(frozen=True, eq=False)
class Group:
    """A row for each group of rows that are equal in the keys, with these columns alone.

    A key that is a column keeps its number. `sets`: GROUPING SETS, as choices of keys by their places. Without keys and sets
    there is one row, even of no rows.
    """

    input: Rel
    keys: Made
    made: tuple[tuple[Column, Summary], ...]
    sets: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Span:
    """A window: which rows a row is seen among, in which order, and from where to where."""

    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    frame: str | None = None
    """In words that PostgreSQL and Spark share."""


@dataclass(frozen=True, eq=False)
class Window:
    """One more column for each window function."""

    input: Rel
    made: tuple[tuple[Column, Summary, Span], ...]


@dataclass(frozen=True, eq=False)
class Combine:
    """UNION, INTERSECT or EXCEPT, with `every` each row as often as it is there: column i is left[i] and right[i]."""

    name: Literal["UNION", "INTERSECT", "EXCEPT"]
    every: bool
    left: Rel
    right: Rel
    columns: tuple[Column, ...]
    left_columns: tuple[Column, ...]
    right_columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows that differ in these columns, and these columns alone."""

    input: Rel
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Sorted:
    """All rows in an order, and of these some."""

    input: Rel
    order: tuple[Order, ...]
    limit: int | None = None
    offset: int = 0


Rel: TypeAlias = Scan | Row | Rows | Filter | Map | Ask | Join | Group | Window | Combine | Distinct | Sorted


@dataclass(frozen=True, eq=False)
class General:
    """A whole query: its tree, and of what leaves that the result's columns, by name. A column may stand there twice."""

    rel: Rel
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    count: int = field(default=0)
    """How many numbers of columns there are: the next one is free."""

    @property
    def types(self) -> tuple[Type, ...]:
        """Of the result's columns."""
        return tuple(column.type for column in self.columns)

    def scans(self) -> list[Scan]:
        """Every scan, in the order in which they are written."""
        return [rel for rel in every(self.rel) if isinstance(rel, Scan)]


def inputs(rel: Rel) -> tuple[Rel, ...]:
    """What a node reads, the queries of its expressions included."""
    match rel:
        case Scan() | Row() | Rows():
            return ()
        case Ask(below, made):
            return (below, *(look.query for _, look in made))
        case Filter() | Map() | Group() | Window() | Distinct() | Sorted():
            return (rel.input,)
        case Join() | Combine():
            return (rel.left, rel.right)
        case _:
            assert_never(rel)


def rebuilt(rel: Rel, new: tuple[Rel, ...]) -> Rel:
    """The node over others than those that `inputs` gives."""
    match rel:
        case Scan() | Row() | Rows():
            return rel
        case Ask():
            looks = zip(rel.made, new[1:], strict=True)
            return Ask(new[0], tuple((column, replace(look, query=q)) for (column, look), q in looks))
        case Filter() | Map() | Group() | Window() | Distinct() | Sorted():
            return replace(rel, input=new[0])
        case Join() | Combine():
            return replace(rel, left=new[0], right=new[1])
        case _:
            assert_never(rel)


def every(rel: Rel) -> Iterator[Rel]:
    """The node and all below it."""
    yield rel
    for below in inputs(rel):
        yield from every(below)


def columns_of(rel: Rel) -> tuple[Column, ...]:
    """The columns that leave a node, each once."""
    match rel:
        case Scan():
            return rel.leaving()
        case Row():
            return ()
        case Rows(columns) | Distinct(_, columns) | Combine(columns=columns):
            return tuple(dict.fromkeys(columns))
        case Filter(below) | Sorted(below):
            return columns_of(below)
        case Map(below, made):
            return (*columns_of(below), *(column for column, _ in made))
        case Ask(below, looks):
            return (*columns_of(below), *(column for column, _ in looks))
        case Window(below, windows):
            return (*columns_of(below), *(column for column, _, _ in windows))
        case Join(_, left, right):
            return (*columns_of(left), *columns_of(right))
        case Group(_, keys, aggregates):
            return (*(column for column, _ in keys), *(column for column, _ in aggregates))
        case _:
            assert_never(rel)


def read_by(rel: Rel) -> frozenset[int]:
    """The columns that a node's own expressions read, those of a subquery in it included if they come from outside."""
    match rel:
        case Filter(_, conditions):
            return support(*conditions)
        case Map(_, made):
            return support(*(value for _, value in made))
        case Ask(_, looks):
            inside = [support(*look.left) | free(look.query) for _, look in looks]
            return frozenset().union(*inside)
        case Join(_, _, right, on, lateral):
            return support(*on) | (free(right) if lateral else frozenset())
        case Group(_, keys, aggregates):
            return support(*(value for _, value in keys)) | summed(*(one for _, one in aggregates))
        case Window(_, windows):
            spans = [support(*span.partition, *(o.value for o in span.order)) for _, _, span in windows]
            return summed(*(one for _, one, _ in windows)).union(*spans)
        case Distinct(_, columns):
            return frozenset(column.index for column in columns)
        case Combine():
            return frozenset(c.index for c in (*rel.left_columns, *rel.right_columns))
        case Sorted(_, order):
            return support(*(one.value for one in order))
        case Scan() | Row() | Rows():
            return frozenset()
        case _:
            assert_never(rel)


def summed(*summaries: Summary) -> frozenset[int]:
    """The columns that aggregates read."""
    read = [support(*one.given, *(order.value for order in one.order)) for one in summaries]
    return frozenset().union(*read)


def free(rel: Rel) -> frozenset[int]:
    """The columns that are used here and made elsewhere: those of a query around this one."""
    used: frozenset[int] = frozenset()
    made: set[int] = set()
    for node in every(rel):
        used |= read_by(node)
        made.update(column.index for column in columns_of(node))
        if isinstance(node, Scan):
            made.update(column.index for column in node.columns)
        if isinstance(node, Ask):
            for _, look in node.made:
                used |= support(*look.tests)
    return used - made
