"""PinnedQuery: a query of any shape, bound, whose scans read pinned snapshots.

    pinned.query         the logical tree, with conditions pushed into its scans
    pinned.scans         a RelationalScan for each scan of the tree, in its order
    pinned.bytes         what pruning leaves of all of them

`tidegate.statements` binds and pins it; the embedded engine (`query/embedded`) or Spark (`spark/engine`) runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import EvaluationError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Expr, Literal, Now, tree, types
from tidegate.metrics import Metrics
from tidegate.plan import logical
from tidegate.query.relational.held_keys import reduce_by_held_keys
from tidegate.query.relational.scans import RelationalScan
from tidegate.query.relational.semi_join import reduce_scans


@dataclass(frozen=True, eq=False)
class PinnedQuery:
    """A bound query whose scans read pinned snapshots."""

    query: logical.LogicalQuery
    scans: tuple[RelationalScan, ...]
    now: int
    """The value of `mz_now()`."""
    config: Config
    metrics: Metrics

    @cached_property
    def reduced(self) -> bool:
        """Prunes scans by the keys of small ones, once; whether that is switched on."""
        if self.config.join_reduction:
            reduce_by_held_keys(self.query, self.scans, self.metrics)
            reduce_scans(self.query, self.scans, self.metrics)
        return self.config.join_reduction

    @property
    def bytes(self) -> int:
        """The bytes of the parts that are left of all scans."""
        return sum(scan.planned.bytes for scan in self.scans)

    def constant_rows(self) -> list[logical.ConstantRows]:
        """The VALUES of the query."""
        return [rel for rel in logical.walk(self.query.rel) if isinstance(rel, logical.ConstantRows)]

    def evaluated_rows(self, rel: logical.ConstantRows) -> list[pa.Array]:
        """The columns of a VALUES."""
        if rel.arrays is not None:
            return list(rel.arrays)
        return [self._column([row[i] for row in rel.rows], c.type.arrow) for i, c in enumerate(rel.columns)]

    def _column(self, values: Sequence[Expr], wanted: pa.DataType) -> pa.Array:
        pieces = []
        for value in values:
            outcome = evaluate(value, [], 1, self.now)
            if outcome.errors is not None and outcome.errors[0].is_valid:
                raise EvaluationError(outcome.errors[0].as_py())
            pieces.append(outcome.values.cast(wanted) if outcome.values.type != wanted else outcome.values)
        return pa.concat_arrays(pieces) if pieces else pa.array([], wanted)


def replace_now(expr: Expr, now: int) -> Expr:
    """Replaces mz_now() by its value."""
    if not tree.has_now(expr):
        return expr
    value = Literal(pa.scalar(now, types.MZ_TIMESTAMP.arrow), types.MZ_TIMESTAMP)
    return tree.rewrite(expr, lambda node: value if isinstance(node, Now) else node)
