"""Aggregation: what GROUP BY, aggregates and DISTINCT do between two row-by-row plans.

    SELECT customer, 2 * sum(price) FROM orders WHERE price > 0 GROUP BY customer HAVING count(*) > 1

    below   Filter #2 > 0, Project (#1, #2)            a plan over rows: the keys first, then what is aggregated
    keys    1                                          rows that are equal in the first column are one group
    aggregates   sum(#1), count(*)                     one value for each group
    above   Map 2 * #1, Filter #2 > 1, Project (#0, #3)    a plan over groups: keys, then aggregates

Both plans are ordinary ones, so all that is known of plans (pruning, errors, what a source takes) holds for them. Only four kinds
of aggregates are computed; the others are written with these:

| written | computed |
|---|---|
| `avg(x)` | `sum(x) / count(x)` |
| `bool_and(x)`, `every(x)`; `bool_or(x)` | `min(x)`; `max(x)`, false being less than true |
| `f(x) FILTER (WHERE c)` | `f(CASE WHEN c THEN x END)`: all of them pass over NULL, and CASE asks for x only where c holds |
| `SELECT DISTINCT a, b` | groups by a and b, without aggregates |

Rows are of one group if their keys are *equal*: NULL is equal to NULL here, NaN to NaN, 0 to -0, 1 month to 30 days. Which of
several equal keys is shown does not depend on the order of rows: it is the first by what tells them apart (0, not -0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tidegate.expr.model import Kind, Type, types
from tidegate.plan.mfp import MapFilterProject

AggregateKind = Literal["count", "sum", "min", "max"]


@dataclass(frozen=True)
class Aggregate:
    """One value for each group. NULLs are ignored; without other values it is NULL, or 0 for count."""

    kind: AggregateKind
    type: Type
    column: int | None = None
    """Of what leaves the plan below; None: rows are counted."""
    distinct: bool = False
    """Whether equal values count once."""

    def show(self) -> str:
        """As EXPLAIN prints it."""
        inside = "*" if self.column is None else f"#{self.column}"
        return f"{self.kind}({'distinct ' if self.distinct else ''}{inside})"


@dataclass(frozen=True)
class Aggregation:
    """What happens to the rows that leave a plan, and then to the groups."""

    keys: int
    """How many of the first columns make the groups."""
    aggregates: tuple[Aggregate, ...]
    above: MapFilterProject
    """Over the keys, then the aggregates."""
    grouped: bool
    """Whether every group comes from rows (GROUP BY, DISTINCT); else there is always one, even of no rows."""
    labels: tuple[str, ...]
    """Names for people of the keys and aggregates."""
    distinct: int | None = None
    """SELECT DISTINCT over groups: of rows that are equal in so many first columns of what leaves `above`, one is kept."""

    def at(self, now: int) -> Aggregation:
        """For a query that is asked at one time."""
        return replace(self, above=self.above.at(now).optimise())

    def show(self) -> str:
        """As EXPLAIN prints it: a line for the groups, and those of the plan above if it does anything."""
        by = f" by {', '.join(f'#{i}' for i in range(self.keys))}" if self.keys else ""
        lines = [f"Aggregate {', '.join(one.show() for one in self.aggregates)}{by}".replace("  ", " ")]
        lines += [] if self.above.is_identity else self.above.show().split("\n")
        return "\n".join([*lines, "Distinct"] if self.distinct is not None else lines)


class AggregateDoc(NamedTuple):
    """An aggregate as people read about it."""

    written: str
    gives: str
    meaning: str


AGGREGATE_DOCS: dict[str, AggregateDoc] = {
    "count": AggregateDoc("`count(*)`, `count(x)`", "`int8`", "how many rows; how many where x is not NULL"),
    "sum": AggregateDoc(
        "`sum(x)`",
        "`int8` of int2 and int4; `numeric(38,0)` of int8; `numeric(38,s)` of numeric(p,s); `float4`, `float8`, `interval` "
        "of the same",
        "the sum; overflow is an error. Floats are added as float8, in the order in which rows are read, which is not fixed: "
        "the last digits may differ from one layout of parts to another",
    ),
    "avg": AggregateDoc(
        "`avg(x)`",
        "`numeric(38,18)` of integers, of numerics as `/` has it; `float8` of floats; `interval`",
        "the sum over the count",
    ),
    "min": AggregateDoc(
        "`min(x)`", "the type of x", "the least value; any type, by the one order (-0 before 0)"
    ),
    "max": AggregateDoc("`max(x)`", "the type of x", "the greatest value; NaN is greatest"),
    "bool_and": AggregateDoc("`bool_and(x)`, `every(x)`", "`bool`", "whether all are true"),
    "bool_or": AggregateDoc("`bool_or(x)`", "`bool`", "whether any is true"),
}
"""What the documentation says."""

AGGREGATE_NAMES = frozenset((*AGGREGATE_DOCS, "every"))
"""The aggregates that are done here."""


def sum_type(given: Type) -> Type | None:
    """The type of a sum; None if there is none of such values."""
    match given.kind:
        case Kind.INT2 | Kind.INT4:
            return types.INT8
        case Kind.INT8:
            return types.numeric(38, 0)
        case Kind.NUMERIC:
            return types.numeric(38, given.scale or 0)
        case Kind.FLOAT4:
            return types.FLOAT4
        case Kind.FLOAT8:
            return types.FLOAT8
        case Kind.INTERVAL:
            return types.INTERVAL
        case _:
            return None


def exact_sum_type(given: Type) -> Type | None:
    """The type of the sum that an average is made of: wide enough for any count."""
    if given.is_integer:
        return types.numeric(38, 0)
    return types.FLOAT8 if given.is_float else sum_type(given)


def aggregate_reference() -> str:
    """The aggregates as a table of the reference."""
    rows = [f"| {one.written} | {one.gives} | {one.meaning} |" for one in AGGREGATE_DOCS.values()]
    return "\n".join([*_HEAD, *rows, *_FOOT]) + "\n"


_HEAD = (
    "## Aggregates",
    "",
    "| aggregate | gives | meaning |",
    "|---|---|---|",
)
_FOOT = (
    "",
    "Aggregates work with and without GROUP BY (expressions, or outputs by name or number) and HAVING. Each accepts `DISTINCT`",
    "and `FILTER (WHERE …)`. NULLs are ignored. Without any value, `count` is 0 and all others are NULL. GROUP BY and DISTINCT",
    "treat values as equal if `=` does, and NULL as equal to NULL: 0 and -0 are one group, and so are 1 month and 30 days. The",
    "group shows the first of them (0, 30 days). Without GROUP BY, `count(*)`, `count(column)`, `min(column)` and `max(column)`",
    "are answered from statistics if these prove the answer (`path` is then `metadata`). DISTINCT ON, GROUPING SETS, ROLLUP,",
    "CUBE, the aggregates below, window functions and aggregations over other aggregations run on the embedded engine or on",
    "Spark. A transform never aggregates.",
)
