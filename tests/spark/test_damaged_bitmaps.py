"""A damaged bitmap of deleted rows is an error that names part and object, however Spark reads, and never wrong rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.spark.test_deleted_rows import EACH, LAST, by_path, by_table, by_tasks, check, fill
from tidegate.config import Config
from tidegate.storage.part import bitmaps
from tidegate.storage.shard import shard

WAYS = {"table": by_table, "path": by_path, "tasks": by_tasks}


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tidegate.Database]:
    """A table with deleted rows in each part, whose bitmaps are an object."""
    monkeypatch.setattr(shard, "MAX_INLINE_BYTES", 0)
    with tidegate.open(tmp_path / "lake", config=Config(audit=0.0)) as found:
        yield found


def damaged(mistake: str, data: bytes) -> bytes:
    """The object with a byte flipped, or sealed as it should be and with a row that no part has."""
    if mistake == "flipped":
        return data[:40] + bytes([data[40] ^ 1]) + data[41:]
    count = len(bitmaps.bitmaps_of_object("del", data))
    packed = [bitmaps.pack_positions(np.array([*range(5), EACH])) for _ in range(count)]
    return bitmaps.bitmaps_to_object(pa.table({"bitmap": pa.array(packed, pa.binary())}))


@pytest.mark.parametrize("mistake", ["flipped", "a row that no part has"])
def test_the_error_names_part_and_object(mistake: str, db: tidegate.Database, spark: SparkSession) -> None:
    before = fill(db)
    db.sql(f"DELETE FROM t WHERE id % {EACH} >= {EACH - 6}")
    state = db.context.collection("t").machine.fetch()
    (name,) = state.parts.deletions.objects
    path = Path(db.context.root.place.root) / name
    path.write_bytes(damaged(mistake, path.read_bytes()))
    parts = [part.name for part in state.parts.all()]
    with tidegate.open(db.context.root.place.root, config=Config(audit=0.0)) as other:
        attached = other.attach(spark)  # registers the format that `by_path` reads
        try:
            for way in WAYS.values():
                with pytest.raises(Exception, match=name) as raised:
                    way(other, spark, None, "id >= 0")
                if mistake != "flipped":
                    assert any(part in str(raised.value) for part in parts)
                    assert f"deletes row {EACH} of a part with {EACH} rows" in str(raised.value)
                check(other, spark, way, before, LAST)  # at that time no row was deleted: no bitmap is read
        finally:
            attached.detach()
