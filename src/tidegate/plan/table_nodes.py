"""Nodes that make rows: table functions, numbered rows, WITH RECURSIVE, and what is computed once.

    SELECT o.id, l.sku FROM orders o, jsonb_array_elements_text(o.skus) AS l (sku)

    TableFunctionApply  jsonb_array_elements_text(#1) as #2
      Scan orders

A table function is an ordinary function that gives an array, computed by our evaluator once for each row, whose elements become
rows: the engine only takes arrays apart. `logical.py` has the other nodes and offers these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.expr.model import Column

if TYPE_CHECKING:
    from tidegate.plan.logical import ComputedColumns, Rel


@dataclass(frozen=True, eq=False)
class TableFunctionApply:
    """For each row of the input a row for each element of its arrays, which are taken apart side by side.

    A shorter array is filled up with NULLs. A row whose arrays are all empty or NULL vanishes, or with `outer` stays with NULLs.
    """

    input: Rel
    computed: ComputedColumns
    """The column of the elements of each array, and the array."""
    position: Column | None = None
    """Which element it is, from 1."""
    outer: bool = False


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """As many rows as `count` says, numbered from 0: what generate_series of constants is computed from."""

    column: Column
    count: int


@dataclass(frozen=True, eq=False)
class WorkingTable:
    """The rows that the last step of a `Recursive` added; it stands in the tree of the step."""

    number: int
    """Which `Recursive` it belongs to."""
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Recursive:
    """WITH RECURSIVE: the rows of `left`, then of `right` over the last rows, until there are none.

    Without `every` (UNION) a row that was there before is not added. Column i is `left_columns[i]` and `right_columns[i]`.
    """

    number: int
    every: bool
    left: Rel
    right: Rel
    columns: tuple[Column, ...]
    left_columns: tuple[Column, ...]
    right_columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Common:
    """WITH: the rows of `definition` are computed once, and `CommonRows` in `input` read them.

    A definition reads no columns of a query around it, so these nodes are the outermost of a tree.
    """

    number: int
    name: str
    columns: tuple[Column, ...]
    """Of the definition: those that are kept."""
    definition: Rel
    input: Rel
    is_view: bool = False
    wanted: bool | None = None
    """Whether the user wrote MATERIALIZED, or NOT MATERIALIZED."""
    is_volatile: bool = False
    """Whether its rows would differ if they were computed again."""


@dataclass(frozen=True, eq=False)
class CommonRows:
    """The rows of a `Common`, with column numbers of their own."""

    number: int
    computed: tuple[tuple[Column, Column], ...]
    """Each column, and that of the definition."""
