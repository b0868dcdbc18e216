"""Statistics of columns that were added with a default, for parts and pages that were written before.

added = AddedColumn.of(5, INT8, pa.scalar(0, pa.int64()))
with_added(frame, [(added, lacking)])      where `lacking`, column 5 is 0 in every row
"""

from tidegate.storage.stats.altered.added_columns import AddedColumn, with_added

__all__ = ["AddedColumn", "with_added"]
