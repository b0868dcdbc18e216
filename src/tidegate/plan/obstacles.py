"""What stands in the way of a query: a construct that is more than row by row, or one that no engine runs.

    SELECT o.id FROM orders o LEFT OUTER JOIN orders p ON o.id = p.id      Obstacle("a LEFT OUTER JOIN", …)
    SELECT DISTINCT span FROM a JOIN b USING (id)                          Refusal("DISTINCT of intervals is not supported")

Binding remembers the first of each kind on the query, with its place in the text. Whether a query is a plan over one collection is
asked of its tree (`sql/lower/single_collection.py`); an obstacle only says why it is none, to whoever must have one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import ErrorCode, PlanError, Position, UnsupportedError


@dataclass(frozen=True)
class Obstacle:
    """The first construct of a query that is more than map, filter, project, and one aggregation."""

    construct: str
    position: Position
    view: str | None = None
    """The view in whose text it stands."""

    def error(self) -> PlanError:
        """The refusal, for what must be a plan over one collection."""
        error = not_row_by_row(self.construct)
        error.position = self.position
        if self.view is not None:
            error.set_view(self.view)
        return error


@dataclass(frozen=True)
class Refusal:
    """What a plan over one collection does, and engines do otherwise: they must not be given it."""

    message: str
    position: Position
    hint: str | None = None
    view: str | None = None
    """The view in whose text it stands."""

    def error(self) -> UnsupportedError:
        """The refusal, for a query that engines would have to run."""
        error = UnsupportedError(self.message, hint=self.hint, position=self.position)
        if self.view is not None:
            error.set_view(self.view)
        return error


def not_row_by_row(construct: str) -> PlanError:
    """The refusal of what is more than map, filter and project."""
    return PlanError(
        f"{construct} cannot be done row by row",
        construct=construct,
        code=ErrorCode.NOT_ROW_BY_ROW,
        hint="only map, filter and project can: expressions of one row, WHERE, and a choice of columns",
    )
