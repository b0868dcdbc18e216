"""The logical plan of any query: scans, each with a row-by-row plan, and relational operators above.

    SELECT c.name, sum(o.price * 2) FROM orders o JOIN customers c ON o.customer = c.id
    WHERE o.at > '2024-01-01' AND c.country = 'de' GROUP BY c.name

    Group c.name: sum(#7)
      Join #1 = #4
        Scan orders      Filter #2 > '2024-01-01'…   Map #0 * 2 as #7      reads customer, at, price
        Scan customers   Filter #6 = 'de'                                  reads id, name, country

Every column has one number in the whole tree, whichever node computes it: a scan, a Map, an aggregate, a window function or a
subquery. A node passes on the columns of its input and adds its own. So an expression means the same anywhere above the nodes
that compute its columns, moving it does not rewrite it, and a correlated subquery simply uses columns of the outer query.
`sql/bind` builds the tree. `sql/lower` says whether it is a plan over one collection, and else moves conditions and expressions
down into the scans; `plan/sql/writer.py` writes it as SQL of the engine that runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, assert_never

import pyarrow as pa

from tidegate.expr.model import Column, Expr, Type, permute, support
from tidegate.plan.bound_query import Obstacle as Obstacle  # noqa: PLC0414  # offered with the tree
from tidegate.plan.bound_query import Refusal as Refusal  # noqa: PLC0414  # offered with the tree
from tidegate.plan.bound_query import not_row_by_row as not_row_by_row  # noqa: PLC0414  # offered with the tree
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.table_nodes import Common as Common  # noqa: PLC0414  # a node like those below
from tidegate.plan.table_nodes import CommonRows as CommonRows  # noqa: PLC0414  # a node like those below
from tidegate.plan.table_nodes import Recursive as Recursive  # noqa: PLC0414  # a node like those below
from tidegate.plan.table_nodes import RowNumbers as RowNumbers  # noqa: PLC0414  # a node like those below
from tidegate.plan.table_nodes import TableFunctionApply as TableFunctionApply  # noqa: PLC0414  # a node like those below
from tidegate.plan.table_nodes import WorkingTable as WorkingTable  # noqa: PLC0414  # a node like those below
from tidegate.plan.window_frame import FrameSpec

ComputedColumns: TypeAlias = tuple[tuple[Column, Expr], ...]
"""Columns, each with the expression that defines it."""


@dataclass(frozen=True, eq=False)
class Scan:
    """Reads a collection: the rows that pass `conditions`, and expressions over their columns."""

    source: str
    columns: tuple[Column, ...]
    """All columns of the collection, in order."""
    conditions: tuple[Expr, ...] = ()
    computed: ComputedColumns = ()
    demanded: frozenset[int] | None = None
    """The stored and computed columns that nodes above use; None: all."""
    address: tuple[Column, ...] = ()
    """Of a table that is changed: the part and position of each row, and how often it is stored there."""

    def leaving(self) -> tuple[Column, ...]:
        """The output columns."""
        return (*self.values(), *self.address)

    def values(self) -> tuple[Column, ...]:
        """The output columns without the address."""
        columns = (*self.columns, *(column for column, _ in self.computed))
        if self.demanded is None:
            return columns
        return tuple(column for column in columns if column.index in self.demanded)

    def plan(self) -> MapFilterProject:
        """The scan as a plan over the collection's columns by position; its outputs are `values()`."""
        place = {column.index: i for i, column in enumerate(self.columns)}
        values: dict[int, Expr] = {c.index: Column(i, c.type, c.name) for i, c in enumerate(self.columns)}
        values |= {column.index: permute(value, place) for column, value in self.computed}
        plan = MapFilterProject.identity([column.type for column in self.columns])
        plan = plan.filter(*(permute(condition, place) for condition in self.conditions))
        return plan.select([values[column.index] for column in self.values()])


@dataclass(frozen=True, eq=False)
class SingleRow:
    """One row without columns: the input of SELECT without FROM."""


@dataclass(frozen=True, eq=False)
class ConstantRows:
    """VALUES: rows of constants."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]
    arrays: tuple[pa.Array, ...] | None = None
    """Instead of `rows`: the columns, evaluated."""


@dataclass(frozen=True, eq=False)
class Filter:
    """The rows for which all conditions hold."""

    input: Rel
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Map:
    """Adds a column for each expression."""

    input: Rel
    computed: ComputedColumns


@dataclass(frozen=True, eq=False)
class Subquery:
    """A query inside an expression, and what the expression takes from it.

    | kind | value |
    |---|---|
    | scalar | the value of its only column in its only row; NULL if it has no row |
    | exists | whether it has a row |
    | any, all | whether `left operator row` holds for some row, for all rows; `= any` is IN |
    """

    kind: Literal["scalar", "exists", "any", "all"]
    query: Rel
    columns: tuple[Column, ...]
    left: tuple[Expr, ...] = ()
    tests: tuple[Expr, ...] = ()
    """any, all: the comparisons of `left` with `columns`."""
    operator: str = "="


@dataclass(frozen=True, eq=False)
class SubqueryApply:
    """Adds a column for each subquery."""

    input: Rel
    computed: tuple[tuple[Column, Subquery], ...]


@dataclass(frozen=True, eq=False)
class Join:
    """Pairs of rows for which all of `on` holds; outer joins add the rows of a side that have no pair.

    With `lateral` the right side uses columns of the left one.
    """

    kind: Literal["inner", "left", "right", "full"]
    left: Rel
    right: Rel
    on: tuple[Expr, ...]
    lateral: bool = False


@dataclass(frozen=True)
class SortKey:
    """One entry of ORDER BY."""

    value: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class AggregateExpr:
    """A call of an aggregate or window function, by name."""

    kind: str
    type: Type
    args: tuple[Expr, ...] = ()
    distinct: bool = False
    order: tuple[SortKey, ...] = ()
    where: Expr | None = None
    """The rows that array_agg takes; others ignore NULL, and take `CASE WHEN where THEN x END`."""


@dataclass(frozen=True, eq=False)
class Group:
    """One row for each group of rows with equal keys; its columns are the keys and the aggregates.

    A key that is a column keeps its number. `sets`: GROUPING SETS, each a choice of keys by position. Without keys and sets
    there is exactly one row, even if the input is empty.
    """

    input: Rel
    keys: ComputedColumns
    computed: tuple[tuple[Column, AggregateExpr], ...]
    sets: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class WindowSpec:
    """A window: how rows are partitioned, how each partition is sorted, and the frame around a row."""

    partition: tuple[Expr, ...]
    order: tuple[SortKey, ...]
    frame: FrameSpec | None = None


@dataclass(frozen=True, eq=False)
class Window:
    """Adds a column for each window function."""

    input: Rel
    computed: tuple[tuple[Column, AggregateExpr, WindowSpec], ...]


@dataclass(frozen=True, eq=False)
class SetOp:
    """UNION, INTERSECT or EXCEPT (`every`: ALL); column i is `left_columns[i]` and `right_columns[i]`."""

    name: Literal["UNION", "INTERSECT", "EXCEPT"]
    every: bool
    left: Rel
    right: Rel
    columns: tuple[Column, ...]
    left_columns: tuple[Column, ...]
    right_columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct rows of these columns, and no other columns."""

    input: Rel
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Sort:
    """Sorted rows, within a limit and an offset."""

    input: Rel
    order: tuple[SortKey, ...]
    limit: int | None = None
    offset: int = 0


Rel: TypeAlias = (
    Scan | SingleRow | ConstantRows | RowNumbers | WorkingTable | TableFunctionApply | Recursive | Common | CommonRows | Filter
    | Map | SubqueryApply | Join | Group | Window | SetOp | Distinct | Sort
)  # fmt: skip
"""A node of the tree."""


@dataclass(frozen=True, eq=False)
class LogicalQuery:
    """A whole query: its tree, and the names and columns of its result; a column may occur twice."""

    rel: Rel
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    count: int = field(default=0)
    """How many column numbers are in use; it is also the next free one."""
    obstacle: Obstacle | None = None
    refusal: Refusal | None = None
    """What may keep it from being a plan over one collection, and what keeps engines from running it."""
    order: tuple[SortKey, ...] = ()
    """The order that was written, which a query around it with none of its own keeps, as in PostgreSQL."""

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the result's columns."""
        return tuple(column.type for column in self.columns)

    def scans(self) -> list[Scan]:
        """Every scan, in the order in which they are written."""
        return [rel for rel in walk(self.rel) if isinstance(rel, Scan)]


def inputs(rel: Rel) -> tuple[Rel, ...]:
    """The inputs of a node, the queries of its subqueries included."""
    match rel:
        case Scan() | SingleRow() | ConstantRows() | RowNumbers() | WorkingTable() | CommonRows():
            return ()
        case SubqueryApply(below, subqueries):
            return (below, *(subquery.query for _, subquery in subqueries))
        case Filter() | Map() | Group() | Window() | Distinct() | Sort() | TableFunctionApply():
            return (rel.input,)
        case Join() | SetOp() | Recursive():
            return (rel.left, rel.right)
        case Common():
            return (rel.definition, rel.input)
        case _:
            assert_never(rel)


def with_inputs(rel: Rel, new: tuple[Rel, ...]) -> Rel:
    """The node with its `inputs` replaced."""
    match rel:
        case Scan() | SingleRow() | ConstantRows() | RowNumbers() | WorkingTable() | CommonRows():
            return rel
        case SubqueryApply():
            pairs = zip(rel.computed, new[1:], strict=True)
            return SubqueryApply(
                new[0], tuple((column, replace(subquery, query=q)) for (column, subquery), q in pairs)
            )
        case Filter() | Map() | Group() | Window() | Distinct() | Sort() | TableFunctionApply():
            return replace(rel, input=new[0])
        case Join() | SetOp() | Recursive():
            return replace(rel, left=new[0], right=new[1])
        case Common():
            return replace(rel, definition=new[0], input=new[1])
        case _:
            assert_never(rel)


def walk(rel: Rel) -> Iterator[Rel]:
    """The node and all nodes below it."""
    yield rel
    for below in inputs(rel):
        yield from walk(below)


def scans_in_steps(rel: Rel) -> list[Scan]:
    """The scans that a recursion reads again in each step."""
    steps = [node.right for node in walk(rel) if isinstance(node, Recursive)]
    return [node for step in steps for node in walk(step) if isinstance(node, Scan)]


def output_columns(rel: Rel) -> tuple[Column, ...]:
    """The output columns of a node, each once."""
    match rel:
        case Scan():
            return rel.leaving()
        case SingleRow():
            return ()
        case RowNumbers(column):
            return (column,)
        case ConstantRows() | Distinct() | SetOp() | Recursive() | WorkingTable():
            return tuple(dict.fromkeys(rel.columns))
        case CommonRows(_, computed):
            return tuple(column for column, _ in computed)
        case Filter(input=below) | Sort(input=below) | Common(input=below):
            return output_columns(below)
        case Map(below, computed) | SubqueryApply(below, computed) | Window(below, computed):
            return (*output_columns(below), *(one[0] for one in computed))
        case TableFunctionApply(below, computed, position):
            last = () if position is None else (position,)
            return (*output_columns(below), *(column for column, _ in computed), *last)
        case Join(_, left, right):
            return (*output_columns(left), *output_columns(right))
        case Group(_, keys, aggregates):
            return (*(column for column, _ in keys), *(column for column, _ in aggregates))
        case _:
            assert_never(rel)


def columns_read(rel: Rel, *, nested: bool = True) -> frozenset[int]:
    """The columns that a node reads; if `nested`, also the outer columns that its subqueries read."""
    match rel:
        case Filter(_, conditions):
            return support(*conditions)
        case Map(_, computed) | TableFunctionApply(_, computed):
            return support(*(value for _, value in computed))
        case SubqueryApply(_, subqueries):
            outer = [outer_columns(subquery.query) for _, subquery in subqueries if nested]
            return support(*(value for _, subquery in subqueries for value in subquery.left)).union(*outer)
        case Join(_, _, right, on, lateral):
            return support(*on) | (outer_columns(right) if lateral and nested else frozenset())
        case Group(_, keys, aggregates):
            return support(*(value for _, value in keys)) | _argument_columns(
                *(call for _, call in aggregates)
            )
        case Window(_, windows):
            specs = [support(*spec.partition, *(key.value for key in spec.order)) for _, _, spec in windows]
            return _argument_columns(*(call for _, call, _ in windows)).union(*specs)
        case Distinct() | Common():
            return frozenset(column.index for column in rel.columns)
        case SetOp() | Recursive():
            return frozenset(c.index for c in (*rel.left_columns, *rel.right_columns))
        case Sort(_, order):
            return support(*(key.value for key in order))
        case Scan() | SingleRow() | ConstantRows() | RowNumbers() | WorkingTable() | CommonRows():
            return frozenset()
        case _:
            assert_never(rel)


def _argument_columns(*calls: AggregateExpr) -> frozenset[int]:
    """The columns that aggregates read."""
    reads = [support(*aggregate_inputs(call)) for call in calls]
    return frozenset().union(*reads)


def aggregate_inputs(call: AggregateExpr) -> list[Expr]:
    """The expressions over rows that an aggregate or window function is given."""
    where = () if call.where is None else (call.where,)
    return [*call.args, *(key.value for key in call.order), *where]


def outer_columns(rel: Rel) -> frozenset[int]:
    """The columns that the tree uses and does not compute: those of a query around it."""
    used: frozenset[int] = frozenset()
    computed: set[int] = set()
    for node in walk(rel):  # which goes into subqueries: those around them need not ask again
        used |= columns_read(node, nested=False)
        computed.update(column.index for column in output_columns(node))
        if isinstance(node, Scan):
            computed.update(column.index for column in node.columns)
        if isinstance(node, SubqueryApply):
            for _, subquery in node.computed:
                used |= support(*subquery.tests)
    return used - computed
