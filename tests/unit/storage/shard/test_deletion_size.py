"""DELETE and UPDATE of k rows write what k rows take, however large the collection is."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from tests.unit.storage.deleting import SCHEMA, as_table, run_change
from tests.unit.storage.shards import World
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus.protocol import MemoryConsensus

ROWS = 20
SLACK = 100
"""Bytes that numbers of parts and of entries may be longer."""


def written(sql: str, parts: int) -> int:
    """The bytes that a statement adds to the log and to the blob store, in a collection of so many parts."""
    world, sizes = World(), list[int]()
    shard = world.create(SCHEMA)
    for part in range(parts):
        ids = range(part * ROWS, (part + 1) * ROWS)
        shard.append(as_table([(i, i % 7, f"row {i}") for i in ids]))

    def counted(method: Any) -> Any:
        def count(self: Any, *args: Any, **more: Any) -> Any:
            sizes.append(len(args[-1]))
            return method(self, *args, **more)

        return count

    with (
        mock.patch.object(MemoryBlob, "put", counted(MemoryBlob.put)),
        mock.patch.object(MemoryConsensus, "compare_and_set", counted(MemoryConsensus.compare_and_set)),
    ):
        assert run_change(world.open(), sql) == 4
    return sum(sizes)


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM t WHERE id IN (3, 25, 47, 69)", "UPDATE t SET v = v + 100 WHERE id IN (3, 25, 47, 69)"],
)
def test_what_is_written_does_not_depend_on_the_collection(sql: str) -> None:
    few, many = written(sql, 4), written(sql, 40)
    assert 0 < few < 10_000
    assert many <= few + SLACK
