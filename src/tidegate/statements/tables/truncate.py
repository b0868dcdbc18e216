"""TRUNCATE: all rows of tables are deleted, at the cost of their metadata.

Each part is deleted as a whole, without being read; AS OF an earlier time still shows its rows, as after a DELETE. Several tables
are emptied one after the other, once all names are known to be tables.
"""

from __future__ import annotations

from tidegate.context import Context, position_of
from tidegate.query import Result
from tidegate.sql.parse import table_statement
from tidegate.storage.shard import commit


def truncate(context: Context, given: table_statement.Truncate) -> Result:
    """TRUNCATE: empties tables."""
    shards = [context.table(name.text, position_of(given.sql, name)) for name in given.tables]
    for shard in dict.fromkeys(shards):
        commit.truncate_shard(shard)
    return Result.message("TRUNCATE TABLE")
