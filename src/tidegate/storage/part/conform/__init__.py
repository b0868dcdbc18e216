"""Checks and converts appended rows before anything is written.

    conform(schema, table)   →   each column of the schema in its exact Arrow type, or an error

`conform.py` says what is accepted; `bad_values.py` what is said of a value that is not.
"""

from tidegate.storage.part.conform.conform import (
    LARGEST_DIFF,
    TableLike,
    can_conform,
    conform,
    conform_diffs,
)

__all__ = ["LARGEST_DIFF", "TableLike", "can_conform", "conform", "conform_diffs"]
