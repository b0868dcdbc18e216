"""What differs between the SQL of engines: expressions, aggregates, windows, table functions.

`query/embedded/dialect.py` has DuckDB's words, `spark/engine/aggregate_sql.py` Spark's; `writer.py` writes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidegate.expr.model import Expr, Type
from tidegate.plan import logical


class Dialect(Protocol):
    """How an engine writes what is not a relational operator; `names` has texts of expressions."""

    @property
    def name(self) -> str:
        """The name of the language, for messages."""
        ...

    @property
    def null_aware_in(self) -> bool:
        """Whether `x IN (subquery)` as a value is NULL where it should be."""
        ...

    @property
    def correlated_rows(self) -> bool:
        """Whether `(a, b) IN (subquery)` may use columns of the outer query."""
        ...

    @property
    def totals_of_nothing(self) -> bool:
        """Whether the grouping set () gives a row for an empty input."""
        ...

    @property
    def common_rows_in_steps(self) -> bool:
        """Whether the steps of a recursion read a common table as it was computed before."""
        ...

    @property
    def calls_in_on(self) -> bool:
        """Whether the ON of a join may call our evaluator."""
        ...

    @property
    def calls_in_subqueries(self) -> bool:
        """Whether a scalar subquery that calls our evaluator may be an argument of another such call."""
        ...

    @property
    def reorders_conditions(self) -> bool:
        """Whether the conditions of a WHERE may be evaluated in any order."""
        ...

    def scalar(self, expr: Expr, columns: Sequence[str], *, may_fail: bool) -> str | None:
        """A scalar expression, if the engine can express it exactly; `may_fail`: it may fail where ours does."""
        ...

    def evaluated(self, expr: Expr, columns: Sequence[str]) -> str:
        """A call of our evaluator for a scalar expression."""
        ...

    def aggregate(self, one: logical.AggregateExpr, names: Mapping[Expr, str]) -> str:
        """An aggregate over a group."""
        ...

    def window(self, one: logical.AggregateExpr, span: logical.WindowSpec, names: Mapping[Expr, str]) -> str:
        """A window function."""
        ...

    def order(self, key: logical.SortKey, names: Mapping[Expr, str]) -> str:
        """An entry of ORDER BY."""
        ...

    def cast(self, text: str, type_: Type) -> str:
        """A value cast to a type of ours."""
        ...

    def single_value(self, column: str) -> str:
        """The value of a column in the only row; NULL of no rows, an error of several."""
        ...

    def limit(self, rows: int | None, offset: int) -> str:
        """LIMIT and OFFSET."""
        ...

    def numbered_rows(self, count: int, name: str) -> str:
        """A SELECT of `count` rows with a column of numbers from 0."""
        ...

    def elements(
        self,
        columns: Sequence[str],
        arrays: Sequence[tuple[str, str, Type]],
        position: str | None,
        below: str,
        *,
        outer: bool,
    ) -> str:
        """A SELECT of the elements of arrays side by side: each is called `(element, array, type)`."""
        ...

    def recursive(self, table: str, columns: str, first: str, step: str, *, every: bool) -> str:
        """WITH RECURSIVE, up to the SELECT that reads the table."""
        ...

    def common_table(self, name: str, query: str) -> str:
        """An entry of WITH whose rows are computed once."""
        ...
