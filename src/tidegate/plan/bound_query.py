"""A query that one collection answers: a MapFilterProject, an aggregation, order and limits.

    WITH recent AS (SELECT * FROM orders WHERE at > '2024-01-01')
    SELECT id, price * 2 AS double FROM recent r WHERE r.price > 5 ORDER BY at DESC LIMIT 10

    source  orders (id int8, price numeric(10,2), at timestamptz)
    mfp     Map (#1 * 2)  Filter (#2 > '2024-01-01'…) AND (#1 > 5)  Project (#0, #3, #2)
    names   id, double                              (the third column is only there to sort by)
    order   column 2, descending; limit 10

`sql/lower/single_collection.py` makes it of the logical tree, where the tree has no more than that. Of a query that has more,
binding remembers what stands in the way, and where:

    SELECT o.id FROM orders o LEFT OUTER JOIN orders p ON o.id = p.id      Obstacle("a LEFT OUTER JOIN", …)
    SELECT DISTINCT span FROM a JOIN b USING (id)                          Refusal("DISTINCT of intervals is not supported", …)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tidegate.errors import ErrorCode, PlanError, Position, UnsupportedError
from tidegate.expr.model import Type
from tidegate.plan.aggregate import Aggregation
from tidegate.plan.mfp import MapFilterProject


@dataclass(frozen=True)
class OrderKey:
    """Sort by column `column` of what leaves the plan."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class BoundQuery:
    """A bound query. The plan's first `len(names)` columns are the result; others are sort keys.

    With an aggregation, what leaves the plan goes through that, and what leaves the aggregation is the result.
    `source` is None for a SELECT without FROM: the plan then maps one row without columns.
    """

    source: str | None
    mfp: MapFilterProject
    names: tuple[str, ...]
    order_by: tuple[OrderKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    aggregation: Aggregation | None = None

    def plan(self, now: int) -> MapFilterProject:
        """The plan at a time, optimised."""
        return self._timeless or self.mfp.at(now).optimise()

    @cached_property
    def _timeless(self) -> MapFilterProject | None:
        """The optimised plan where `mz_now()` decides nothing."""
        return None if self.mfp.is_temporal else self.mfp.optimise()

    @property
    def last(self) -> MapFilterProject:
        """The plan whose columns are the result's."""
        return self.mfp if self.aggregation is None else self.aggregation.above

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the result's columns."""
        return self.last.types[: len(self.names)]

    @property
    def is_temporal(self) -> bool:
        """Whether `mz_now()` is asked, of rows or of groups."""
        return self.mfp.is_temporal or self.last.is_temporal


# ---------------------------------------------------------------- what stands in the way


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
