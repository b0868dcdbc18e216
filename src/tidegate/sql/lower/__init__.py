"""Rules over the logical tree: push conditions and expressions down, drop unused columns.

    SELECT c.name FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de'

`push_down` copies `c.country = 'de'` into the scan of customers (`push_down.py`), computes expressions of one scan inside that
scan (`lift.py`), and drops columns that nothing reads (`demand.py`). `equi_join_keys` gives the pairs of keys of a join.
"""

from tidegate.sql.lower.push_down import equi_join_keys, push_down

__all__ = ["equi_join_keys", "push_down"]
