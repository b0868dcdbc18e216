"""Which versions of a schema lack a column: parts that were written with them hold NULL there."""

from __future__ import annotations

from tidegate.storage.shard import Snapshot


def schema_versions_without(snapshot: Snapshot) -> dict[int, list[int]]:
    """For each column the versions of the schema that do not have it: parts written with them hold NULLs.

    A column that was added with a default is not NULL there, which the frames know.
    """
    if len(snapshot.state.schemas) == 1:
        return {column.id: [] for column in snapshot.schema.columns}
    versions = {
        stored.parsed.id: {column.id for column in stored.parsed.columns} for stored in snapshot.state.schemas
    }
    return {
        column.id: [v for v, ids in versions.items() if column.id not in ids and column.missing is None]
        for column in snapshot.schema.columns
    }
