"""What binding finds out about a query beside its tree, and rows of tables as values.

SELECT c FROM customers c         the row of c is a column that a Map above the scan computes, since something asks for it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate.expr.model import Column, Type, types
from tidegate.plan import logical
from tidegate.sql.bind.rows import named_row


class ColumnIds:
    """Gives columns their numbers."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, type_: Type, name: str = "") -> Column:
        """A column that nobody else has."""
        return Column(self.next(), type_, name)

    def several(
        self, named: Sequence[tuple[str, Type]], from_zero: tuple[Column, ...] = ()
    ) -> tuple[Column, ...]:
        """A column for each name and type; `from_zero` are those, if none has a number yet."""
        first, self.count = self.count, self.count + len(named)
        if not first and from_zero:
            return from_zero
        return tuple(Column(i, type_, name) for i, (name, type_) in enumerate(named, first))

    def next(self) -> int:
        """The number of a column that is made later."""
        self.count += 1
        return self.count - 1


@dataclass
class BindingNotes:
    """Of a whole query: what is in the way of running it."""

    obstacle: logical.Obstacle | None = None
    refusal: logical.Refusal | None = None

    def add(self, note: logical.Obstacle | logical.Refusal) -> None:
        """Remembers the first of its kind."""
        if isinstance(note, logical.Obstacle):
            self.obstacle = self.obstacle or note
        else:
            self.refusal = self.refusal or note

    @contextmanager
    def aside(self) -> Iterator[BindingNotes]:
        """Takes the notes on what is bound meanwhile apart from the others."""
        before, apart = (self.obstacle, self.refusal), BindingNotes()
        self.obstacle, self.refusal = None, None
        try:
            yield apart
        finally:
            apart.obstacle, apart.refusal = self.obstacle, self.refusal
            self.obstacle, self.refusal = before


@dataclass(eq=False)
class WholeRow:
    """The row of a table as a value.

    It is made only if something asks for it: the table may have a thousand columns.
    """

    table: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    number: int
    nodes: list[RowMap] = field(default_factory=list)
    """Where it is computed."""
    computed: logical.ComputedColumns = ()

    @property
    def placeholder(self) -> Column:
        """Its number, for scopes."""
        return Column(self.number, types.UNKNOWN, self.table)

    def column(self) -> Column:
        """The column, which is computed from now on."""
        if not self.computed:
            row = named_row(self.names, self.columns)
            self.computed = ((Column(self.number, row.type, self.table), row),)
            for node in self.nodes:
                node.refresh()
        return self.computed[0][0]


@dataclass(frozen=True, eq=False)
class RowMap(logical.Map):
    """Where the row of a table is computed, while it is not known yet whether anything asks for it."""

    row: WholeRow

    @staticmethod
    def over(below: logical.Rel, row: WholeRow) -> RowMap:
        """Above what the row is of."""
        return RowMap(below, (), row)

    def __post_init__(self) -> None:
        self.row.nodes.append(self)
        self.refresh()

    def refresh(self) -> None:
        """Computes the row if it was asked for."""
        object.__setattr__(self, "computed", self.row.computed)
