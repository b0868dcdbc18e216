"""ALTER TABLE while others insert and compact: no value lands in another column, and neither of them fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.storage.maintain import compact
from tidegate.storage.shard import Shard


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with tidegate.open(tmp_path / "lake", config=tidegate.Config(maintenance=False)) as made:
        made.sql("CREATE TABLE t (a int8, b int8)")
        yield made


@pytest.mark.parametrize("more", ["", " RETURNING a"])
@pytest.mark.parametrize(
    ("theirs", "there"),
    [
        ("RENAME COLUMN a TO x, RENAME COLUMN b TO a, RENAME COLUMN x TO b", {"a": 1, "b": 2}),
        ("ADD COLUMN c int8 DEFAULT 7", {"a": 1, "b": 2, "c": 7}),
        ("DROP COLUMN b, ADD COLUMN b text", {"a": 1, "b": "2"}),
    ],
)
def test_insert_into_columns_that_are_altered_meanwhile(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch, theirs: str, there: dict[str, Any], more: str
) -> None:
    """The rows are appended as of the new columns, by the names that the statement gives."""
    append, left = Shard.append, [theirs]

    def appended(shard: Shard, *args: Any, **options: Any) -> Any:
        if left:
            db.sql(f"ALTER TABLE t {left.pop()}")
        return append(shard, *args, **options)

    monkeypatch.setattr(Shard, "append", appended)
    values = "(1, '2')"
    db.sql(f"INSERT INTO t (a, b) VALUES {values}{more}")
    result = db.sql("SELECT * FROM t")
    assert [dict(zip(result.names, row, strict=True)) for row in result.rows()] == [there]


def test_compaction_goes_on_while_a_column_becomes_not_null(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that AS OF shows may be NULL still: they were there before, and are only rewritten."""
    db.append("t", {"a": [1, 2], "b": [None, 2]})
    db.append("t", {"a": [3], "b": [3]})
    db.sql("DELETE FROM t WHERE b IS NULL")
    before = db.status().collections["t"].upper - 2
    swap = compact.swap

    def swapped(*args: Any, **options: Any) -> Any:
        db.sql("ALTER TABLE t ALTER b SET NOT NULL")
        return swap(*args, **options)

    monkeypatch.setattr(compact, "swap", swapped)
    done = db.compact("t", full=True)
    assert done.conflicts == 0
    assert done.removed == 2
    assert sorted(db.sql("SELECT a, b FROM t").rows()) == [(2, 2), (3, 3)]
    assert (1, None) in db.sql("SELECT a, b FROM t", as_of=before).rows()
