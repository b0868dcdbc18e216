"""The ways to answer a query in this process.

| module | |
|---|---|
| `metadata` | aggregates from the state and its statistics, without reading |
| `peek` | LIMIT without ORDER BY: few parts, proven ones first |
| `top_k` | LIMIT with ORDER BY: parts in the order of their bounds |
| `local` | everything else: all remaining parts, in parallel |
| `prefetch` | reads parts ahead on several threads, in order |
"""

from tidegate.query.paths import local

__all__ = ["local"]
