"""Late materialisation: reads filter columns first, and other columns for the remaining rows.

| module | |
|---|---|
| `staged_scan` | reads one part in stages |
| `pages` | which pages of a part the statistics rule out |
| `steps` | divides a plan into steps, one for each group of columns |
| `batching` | how many rows are read and evaluated at once |
"""

from tidegate.query.late.staged_scan import ColumnGroups, StagedScan, Taken

__all__ = ["ColumnGroups", "StagedScan", "Taken"]
