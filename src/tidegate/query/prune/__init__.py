"""Pruning: which parts and pages the statistics rule out, and why others must be read.

| module | |
|---|---|
| `parts` | verdicts over all parts of a snapshot at once |
| `long_lists` | `IN` with many constants: each part gets those within its bounds |
| `pages_by_value` | pages ruled out by the values they contain |
| `candidates` | which parts retract rows, or may hold retracted ones |
| `schema_versions` | which parts lack a column |
| `pushdown` | what each condition prunes, and what keeps it from pruning more: EXPLAIN FILTER PUSHDOWN |
"""

from tidegate.query.prune.candidates import retraction_candidates
from tidegate.query.prune.parts import (
    PruneResult,
    PruningPredicate,
    prune,
    treats_equal_alike,
)
from tidegate.query.prune.pushdown import Conjunct, conjunct_effects

__all__ = [
    "Conjunct",
    "PruneResult",
    "PruningPredicate",
    "conjunct_effects",
    "prune",
    "retraction_candidates",
    "treats_equal_alike",
]
