"""Rules over the logical tree: push conditions and expressions down, drop unused columns.

    SELECT c.name FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de'

First it is decided which common tables and views are computed once (`sharing.py`), and what is sorted by is replaced by its sort
key (`sort_keys.py`). `push_down` then copies `c.country = 'de'` into the scan of customers (`push_down.py`), computes expressions
of one scan inside that scan (`lift.py`), and drops columns that nothing reads (`demand.py`). `check_volatile` refuses a query in
which one call of `random()` would be computed in two places (`volatility.py`).
"""

from tidegate.sql.lower.push_down import push_down
from tidegate.sql.lower.volatility import check_volatile

__all__ = ["check_volatile", "push_down"]
