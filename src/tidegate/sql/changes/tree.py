"""The tree of a statement while it is bound: a table, its join with others, and what is above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.errors import BindError, ErrorCode, ParseError, Position
from tidegate.expr.model import Column, Expr, Literal, build, types
from tidegate.plan import logical
from tidegate.sql.bind.catalog import RelationCatalog
from tidegate.sql.bind.queries.names import NestedScope, RowBinder, ScopeColumn
from tidegate.sql.bind.queries.notes import RowMap, WholeRow
from tidegate.sql.bind.queries.query import QueryBinder, World
from tidegate.sql.bind.queries.select import stages
from tidegate.sql.bind.select_list import outputs
from tidegate.sql.changes.change_query import Action, ChangeColumns, ChangeQuery, ChangeTarget
from tidegate.sql.parse.from_clause import From
from tidegate.sql.parse.modification import NO_TABLES, With
from tidegate.sql.parse.syntax import Apply, Ident, Item, Node


@dataclass(frozen=True)
class TargetRows:
    """The rows of the table that is changed."""

    rel: logical.Scan
    entries: tuple[ScopeColumn, ...]
    """Its columns as expressions name them."""
    places: tuple[int, ...]
    """Where each of these is stored."""

    @property
    def stored(self) -> tuple[Column, ...]:
        """All columns that are stored."""
        return self.rel.columns

    def changed(self, after: dict[int, Column]) -> tuple[ScopeColumn, ...]:
        """The entries with new values; a text is as long as its column allows."""
        return tuple(
            entry._replace(column=after.get(place, entry.column))
            for entry, place in zip(self.entries, self.places, strict=True)
        )


class ChangeTree:
    """A tree that grows."""

    def __init__(
        self,
        sql: str,
        target: ChangeTarget,
        catalog: RelationCatalog,
        now_ms: int | None,
        common: With = NO_TABLES,
    ) -> None:
        self.sql, self.target = sql, target
        queries = QueryBinder(sql, World(catalog, now_ms))
        self.queries = queries.with_tables(common.tables, common.recursive)
        self.numbers = self.queries.numbers
        self.rel: logical.Rel = logical.SingleRow()
        self.name = ""
        """What the table is called in expressions."""

    def rows(self, name: Ident) -> TargetRows:
        """The rows of the table, each with its address."""
        self.name = name.text
        found = self.queries.scan(self.target.relation)
        scan = found.rel
        assert isinstance(scan, logical.Scan)
        address = tuple(self.numbers.new(types.INT8, part) for part in ("part", "position", "copies"))
        pairs = list(zip(found.names, found.columns, strict=True))
        entries = tuple(ScopeColumn(name.text, called, column) for called, column in pairs)
        stored = [column.index for column in scan.columns]
        places = tuple(stored.index(column.index) for column in found.columns)
        return TargetRows(replace(scan, address=address), entries, places)

    def source(self, written: From, target: Ident) -> tuple[logical.Rel, list[ScopeColumn]]:
        """What stands in FROM, in USING."""
        rel, entries = self.queries.source(written, None)
        if any(entry.table == target.text for entry in entries):
            raise BindError(
                f'table name "{target.text}" specified more than once',
                code=ErrorCode.DUPLICATE_ALIAS,
                hint=f"give one of them another name: {target.text} AS other",
                position=Position(self.sql, *target.at),
            )
        return rel, entries

    def binder(self, entries: Sequence[ScopeColumn]) -> RowBinder:
        """Binds expressions over these."""
        return self.queries.binder(NestedScope.over(entries))

    def settle(self, binder: RowBinder) -> None:
        """Adds the subqueries of expressions that were bound below what comes next."""
        for stage in stages(binder.gathered.looks):
            self.rel = logical.SubqueryApply(self.rel, stage)
        binder.gathered.looks = []

    def filter(self, condition: Expr) -> None:
        """Keeps the rows for which it holds."""
        self.rel = logical.Filter(self.rel, tuple(build.conjuncts(condition)))

    def computed(self, values: Sequence[tuple[Expr, str]]) -> list[Column]:
        """Columns with these values."""
        columns, made = [], []
        for value, name in values:
            if not isinstance(value, Column):
                made.append((self.numbers.new(value.type, name), value))
            columns.append(value if isinstance(value, Column) else made[-1][0])
        self.rel = logical.Map(self.rel, tuple(made)) if made else self.rel
        return columns

    def position(self, at: tuple[int, int]) -> Position:
        """A place in the text."""
        return Position(self.sql, *at)

    def _with_whole_row(self, entries: Sequence[ScopeColumn]) -> list[ScopeColumn]:
        """The names of RETURNING with that of the table, which is its whole row; those of others have theirs."""
        own = [entry for entry in entries if entry.table == self.name]
        names, columns = tuple(entry.name for entry in own), tuple(entry.column for entry in own)
        row = WholeRow(self.name, names, columns, self.numbers.next())
        self.rel = RowMap.over(self.rel, row)
        whole = ScopeColumn(self.name, "", row.placeholder, bare=False, whole=True, row=row)
        return [*entries, whole]

    def finished(
        self,
        columns: ChangeColumns,
        actions: tuple[Action, ...],
        places: Sequence[int],
        returning: Sequence[Item],
        entries: Sequence[ScopeColumn],
        merge_action: Expr | None = None,
    ) -> ChangeQuery:
        """The whole, with RETURNING over these names."""
        binder = _ReturningBinder(self, self._with_whole_row(entries), merge_action)
        found = [output for item in returning for output in outputs(item, binder)]
        self.settle(binder)
        leaving = self.computed([(value, name) for name, value in found])
        columns = replace(columns, returning=tuple(leaving))
        names = tuple(name for name, _ in found)
        bound = logical.LogicalQuery(self.rel, names, columns.all)
        return ChangeQuery(self.queries.complete(bound), columns, actions, tuple(places))


class _ReturningBinder(RowBinder):
    """Binds RETURNING, in MERGE with merge_action()."""

    def __init__(self, tree: ChangeTree, entries: Sequence[ScopeColumn], merge_action: Expr | None) -> None:
        plain = tree.binder(entries)
        super().__init__(tree.sql, plain.names, plain.now_ms, plain.around)
        self.merge_action = merge_action

    def bind(self, root: Node, clause: str | None = None) -> Expr:
        """An expression of RETURNING, in which aggregates and windows are refused by name."""
        return super().bind(root, clause or "RETURNING")

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Apply) and node.name == "merge_action" and node.is_function and not args:
            if self.merge_action is None:
                message = "MERGE_ACTION() can only be used in the RETURNING list of a MERGE command"
                raise ParseError(message)
            return self.merge_action
        return super()._bind_node(node, args)


def number(value: int) -> Literal:
    """The number of an action."""
    return build.literal(value, types.INT4)
