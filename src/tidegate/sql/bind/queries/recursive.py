"""WITH RECURSIVE: a common table that reads itself.

    WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r

    Recursive
      Map 1 as #0
      Map #1 + 1 as #2
        Filter #1 < 5
          WorkingTable #1          the rows that the last step added

As in PostgreSQL the table is a UNION, its first side does not read the table, and its second side reads it once, not below an
aggregate, an outer join that fills it with NULLs, EXCEPT, or in a subquery of an expression. Types and names are those of the first
side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from tidegate.errors import BindError, PlanError, Position, TidegateError, TypeMismatch, UnsupportedError
from tidegate.expr.model import Column, Kind, build, types
from tidegate.plan import logical
from tidegate.sql.bind.queries.names import NestedScope, has_interval
from tidegate.sql.bind.queries.select import BoundSelect
from tidegate.sql.parse.from_clause import TableRef
from tidegate.sql.parse.syntax import CommonTable, Query, SetOperation, Span

if TYPE_CHECKING:
    from tidegate.sql.bind.queries.query import QueryBinder


@dataclass(eq=False)
class OrdinaryTable:
    """A common table that does not read itself.

    It is bound where it is written, so that a long row of tables does not nest, and one that nobody reads must mean something.
    """

    table: CommonTable
    queries: QueryBinder
    outer: NestedScope | None = None
    """The names of the queries around the one that defines it."""

    def __post_init__(self) -> None:
        self.first: logical.LogicalQuery | None = None
        self.refused: TidegateError | None = None
        with self.queries.world.notes.aside() as self.notes:
            try:
                self.first = self._bind()
            except (
                PlanError,
                UnsupportedError,
            ) as error:  # which is in nobody's way unless the table is read
                self.refused = error.with_traceback(None)

    def bound(self, at: Span) -> logical.LogicalQuery:
        """The table, with column numbers of its own each time."""
        del at
        if self.refused is not None:
            raise self.refused
        queries, table = self.queries, self.table
        shared = queries.world.shared
        return shared.read(
            queries.numbers, self, table.name.text, self._definition, wanted=table.materialized
        )

    def _definition(self) -> logical.LogicalQuery:
        first, self.first = self.first, None
        if first is None:
            return self._bind()
        for note in (self.notes.obstacle, self.notes.refusal):
            if note is not None:
                self.queries.world.notes.add(note)
        return first

    def _bind(self) -> logical.LogicalQuery:
        queries, table = self.queries, self.table
        found = queries.query(table.query, self.outer, f'the common table "{table.name.text}"')
        return replace(found, names=queries.renamed(found.names, table.name, table.columns))


@dataclass(frozen=True)
class WorkingRows:
    """What the name of a recursive table means inside of its own step."""

    name: str
    number: int
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    numbers: list[int]
    """How often it was read."""
    queries: QueryBinder

    def bound(self, at: Span) -> logical.LogicalQuery:
        """The rows of the last step."""
        if self.numbers:
            raise UnsupportedError(
                f'the recursive table "{self.name}" is read twice in its own definition',
                hint="read it once, and join the rest to it",
                position=Position(self.queries.sql, *at),
            )
        self.numbers.append(self.number)
        columns = tuple(self.queries.numbers.new(c.type, c.name) for c in self.columns)
        return logical.LogicalQuery(logical.WorkingTable(self.number, columns), self.names, columns)


@dataclass(frozen=True)
class RecursiveTable:
    """A common table that reads itself."""

    table: CommonTable
    queries: QueryBinder
    outer: NestedScope | None = field(default=None, compare=False)

    def bound(self, at: Span) -> logical.LogicalQuery:
        """The table, with column numbers of its own each time."""
        del at
        queries = self.queries
        return queries.world.shared.read(queries.numbers, self, self.table.name.text, self._definition)

    def _definition(self) -> logical.LogicalQuery:
        query, queries = self._parts()
        body = query.body
        assert isinstance(body, SetOperation)
        first = self._widened(queries.operand(body.left, self.outer))
        names = tuple(column.text for column in self.table.columns)
        names += first.names[len(names) :]
        number = queries.numbers.new(build.null().type).index
        every = body.name.endswith(" ALL")
        if not every and any(has_interval(column.type) for column in first.columns):
            raise queries.unsupported("UNION of intervals, which must compare them,", body.at)
        working = WorkingRows(self.table.name.text, number, names, first.columns, [], queries)
        inside = queries.among({**queries.common, working.name: working})
        step = inside.operand(body.right, self.outer)
        self._check_step(step, number, body)
        right, right_columns = self._matched(first, step, body)
        columns = tuple(queries.numbers.new(c.type, n) for c, n in zip(first.columns, names, strict=True))
        rel = logical.Recursive(number, every, first.rel, right, columns, first.columns, right_columns)
        return logical.LogicalQuery(rel, names, columns)

    def _parts(self) -> tuple[Query, QueryBinder]:
        """The query, and what binds its sides."""
        query, queries = self.table.query, self.queries
        for table in query.tables:
            queries = queries._with(table, self.outer, recursive=query.recursive is not None)
        return query, queries

    def _widened(self, first: BoundSelect) -> BoundSelect:
        """The first side with types that hold what later steps compute: `1.0` is a plain numeric."""
        wide = [
            types.NUMERIC if c.type.kind is Kind.NUMERIC else c.type.without_lengths for c in first.columns
        ]
        rel, columns = self.queries.brought(first, wide)
        return replace(first, rel=rel, columns=columns)

    def _matched(
        self, first: BoundSelect, step: BoundSelect, body: SetOperation
    ) -> tuple[logical.Rel, tuple[Column, ...]]:
        """The step with the types of the first side."""
        queries = self.queries
        if len(first.columns) != len(step.columns):
            raise BindError(
                f"UNION of {len(first.columns)} and {len(step.columns)} columns",
                position=Position(queries.sql, *body.at),
            )
        for name, a, b in zip(first.names, first.columns, step.columns, strict=True):
            common = build.common_type([a.type, b.type])
            if common is None or common.kind is not a.type.kind:
                raise TypeMismatch(
                    f'column "{name}" is {a.type} in the first side of the recursion and {b.type} in the second',
                    hint=f"cast it in the first side: {name}::{common or b.type}",
                    position=Position(queries.sql, *body.at),
                )
        return queries.brought(step, [column.type for column in first.columns])

    def _check_step(self, step: BoundSelect, number: int, body: SetOperation) -> None:
        """Refuses a step whose result depends on all rows of the table at once."""
        wrong = next(_obstacles(step.rel, number), None)
        if wrong is not None:
            raise BindError(
                f'the recursive table "{self.table.name.text}" cannot be read {wrong}',
                position=Position(self.queries.sql, *body.at),
            )


CommonSource: TypeAlias = OrdinaryTable | RecursiveTable | WorkingRows
"""What the name of a common table means."""


def _obstacles(rel: logical.Rel, number: int) -> Iterator[str]:
    """Where a tree reads the working table and must not."""
    reads = {id(node) for node in logical.walk(rel) if _holds(node, number)}
    for node in logical.walk(rel):
        if id(node) not in reads:
            continue
        match node:
            case logical.Group():
                yield "below an aggregate"
            case logical.Join("left" | "full", _, right) if _holds(right, number):
                yield "on the side of an outer join that is filled with NULLs"
            case logical.Join("right" | "full", left) if _holds(left, number):
                yield "on the side of an outer join that is filled with NULLs"
            case logical.SetOp("EXCEPT" | "INTERSECT") | logical.Distinct():
                yield "below DISTINCT, EXCEPT or INTERSECT"
            case logical.Sort():
                yield "below ORDER BY or LIMIT"
            case logical.SubqueryApply(_, computed) if any(_holds(s.query, number) for _, s in computed):
                yield "in a subquery of an expression"
            case logical.Recursive():
                yield "in another recursive table"
            case _:
                pass


def _holds(rel: logical.Rel, number: int) -> bool:
    return any(isinstance(node, logical.WorkingTable) and node.number == number for node in logical.walk(rel))


# ---------------------------------------------------------------- syntax


def check_recursion(tables: Sequence[CommonTable], sql: str) -> None:
    """Refuses recursion over several tables, and one that is not a UNION."""
    names = [table.name.text for table in tables]
    for i, table in enumerate(tables):
        at = Position(sql, *table.name.at)
        reads = table_names(table.query)
        if not reads.isdisjoint(names[i + 1 :]):
            raise UnsupportedError(
                "common tables that read one another in a circle, or before they are defined, are not supported",
                hint="define a table before those that read it",
                position=at,
            )
        if names[i] not in reads:
            continue
        query = table.query
        body = query.body
        union = isinstance(body, SetOperation) and body.name in ("UNION", "UNION ALL")
        if not union or query.limit or query.offset or query.order_by:
            raise BindError(
                f'the recursive table "{names[i]}" must be a UNION of a first side and a step, without ORDER BY and LIMIT',
                hint="WITH RECURSIVE r AS (SELECT … UNION ALL SELECT … FROM r …)",
                position=at,
            )
        assert isinstance(body, SetOperation)
        left = replace(query, body=body.left, tables=()) if not isinstance(body.left, Query) else body.left
        if names[i] in table_names(left):
            raise BindError(f'the first side of the recursive table "{names[i]}" cannot read it', position=at)


def table_names(parsed: Query) -> set[str]:
    """The unqualified names in every FROM of a query, subqueries included."""
    names: set[str] = set()
    stack: list[object] = [parsed]
    while stack:
        node = stack.pop()
        if isinstance(node, TableRef) and len(node.name) == 1:
            names.add(node.name[0].text)
        if is_dataclass(node):
            stack += [getattr(node, part.name) for part in fields(node)]
        elif isinstance(node, tuple):
            stack += node
    return names
