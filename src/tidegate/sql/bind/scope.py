"""What names mean: the columns that an expression may read, by table and by name.

    FROM orders o          o.id, id → column 0;  o.price, price → column 1;  orders.id is no longer there

An unqualified name must be found exactly once. What is not found is answered with the nearest names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from tidegate.errors import BindError, ErrorCode, PlanError
from tidegate.expr.model import Column, Type
from tidegate.sql.parse.syntax import Ident
from tidegate.text import identifier

MAX_NAME_LENGTH = 200
"""Characters of a name beyond which no nearest one is looked for."""


@dataclass(frozen=True)
class Scope:
    """The columns in reach; column i of the row is `columns[i]`, a table's name (or None) and its own."""

    columns: tuple[tuple[str | None, str, Type], ...]

    @cached_property
    def _places(self) -> Mapping[str, Sequence[int]]:
        """Where each name is."""
        names = [name for _, name, _ in self.columns]
        if len(set(names)) == len(names):
            return dict(zip(names, zip(range(len(names))), strict=True))
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(name, []).append(place)
        return places

    @staticmethod
    def of(columns: Iterable[tuple[str, Type]], table: str | None = None) -> Scope:
        """The columns of one table."""
        return Scope(tuple((table, name, type_) for name, type_ in columns))

    def column(self, place: int) -> Column:
        """Column `place` as an expression."""
        _, name, type_ = self.columns[place]
        return Column(place, type_, name)

    def find(self, parts: Sequence[Ident]) -> Column:
        """The column that a name means."""
        name, table = parts[-1].text, parts[-2].text if len(parts) > 1 else None
        if table is not None:
            self._check_table(table, name)
        found = [i for i in self._places.get(name, ()) if table is None or self.columns[i][0] == table]
        if len(found) == 1:
            return self.column(found[0])
        if found:
            tables = sorted({f"{self.columns[i][0]}.{name}" for i in found if self.columns[i][0]})
            hint = (
                f"write {' or '.join(tables)}"
                if len(tables) > 1
                else "give the columns different names with AS"
            )
            raise BindError(f'column "{name}" is ambiguous', code=ErrorCode.AMBIGUOUS_COLUMN, hint=hint)
        if table is None and any(owner == name for owner, _, _ in self.columns):
            raise PlanError(
                f'the row of table "{name}" as a value cannot be had row by row',
                construct="a whole row",
                code=ErrorCode.NOT_ROW_BY_ROW,
            )
        raise BindError(
            f'column "{name}" does not exist', code=ErrorCode.UNDEFINED_COLUMN, hint=self._hint(name, table)
        )

    def places(self, table: str | None) -> list[int]:
        """The columns that `*` or `table.*` stands for."""
        if table is not None:
            self._check_table(table)
        return [i for i, (owner, _, _) in enumerate(self.columns) if table is None or owner == table]

    def _check_table(self, table: str, name: str = "*") -> None:
        tables = {owner for owner, _, _ in self.columns}
        if table in tables:
            return
        known = sorted(name for name in tables if name)
        if table in self._places:
            raise BindError(
                f'there is no table "{table}" in FROM',
                code=ErrorCode.UNDEFINED_TABLE,
                hint=f"for a field of the record write ({identifier(table)}).{identifier(name)}",
            )
        hint = f"in FROM there is {', '.join(known)}" if known else "there is no FROM"
        raise BindError(f'there is no table "{table}" in FROM', code=ErrorCode.UNDEFINED_TABLE, hint=hint)

    def _hint(self, name: str, table: str | None) -> str | None:
        names = [known for owner, known, _ in self.columns if known and (table is None or owner == table)]
        folded = {known.lower(): known for known in reversed(names)}
        # Nearness takes time quadratic in the length, and a name may be as long as the statement that a
        # program made.
        close = (
            [folded[one] for one in get_close_matches(name.lower(), folded, n=3)]
            if len(name) < MAX_NAME_LENGTH
            else []
        )
        if close:
            return f"did you mean {' or '.join(identifier(one) for one in close)}?"
        if not names:
            return "there are no columns here: a FROM is missing"
        more = f", and {len(names) - 12} more" if len(names) > 12 else ""
        return f"there is {', '.join(map(identifier, names[:12]))}{more}"
