"""Asks the logical tree whether one collection answers it, and else prepares it for engines by rules.

    SELECT c.name FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de'

First it is decided which common tables and views are computed once (`sharing.py`). `single_collection` gives the query as a plan
over one collection, or None (`single_collection.py`): of this one None. Then `push_down` copies `c.country = 'de'` into the scan of
customers (`push_down.py`), computes expressions of one scan inside that scan (`lift.py`), and drops columns that nothing reads
(`demand.py`). Before that, aggregates that engines have otherwise are written with others (`composite_aggregates.py`), and what is
sorted by is replaced by its sort key (`sort_keys.py`). `check_volatile` refuses a query in which one call of `random()` would be
computed in two places (`volatility.py`).
"""

from tidegate.sql.lower.push_down import push_down
from tidegate.sql.lower.single_collection import single_collection
from tidegate.sql.lower.volatility import check_volatile, uses_now

__all__ = ["check_volatile", "push_down", "single_collection", "uses_now"]
