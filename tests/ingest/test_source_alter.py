"""ALTER SOURCE, DROP SOURCE and DROP CONNECTION: what changes, what is refused, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.ingest.statements import ingest, json_lines, rows
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.database import Database
from tidegate.ingest.define.catalog import load_source
from tidegate.storage.catalog import SourceItem
from tidegate.storage.shard.state import Conflict


@pytest.fixture
def db() -> Iterator[Database]:
    with tidegate.open("memory://") as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> str:
    return json_lines(tmp_path)


def test_pause_and_resume(db: Database, files: str) -> None:
    db.sql(f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON")
    db.sql("ALTER SOURCE s PAUSE; ALTER SOURCE s PAUSE")
    assert rows(db, "SHOW SOURCES LIKE 's'") == [("s", "files", None, "paused")]
    assert db.status().sources["s"].state == "paused"
    db.sql("ALTER SOURCE s RESUME")
    assert db.status().sources["s"].state == "ready"
    assert "nothing was changed" in db.sql("ALTER SOURCE IF EXISTS nobody PAUSE").text()
    with pytest.raises(
        tidegate.BindError, match=r'"s_errors" is a subsource, not a source(.|\n)*its source is "s"'
    ):
        db.sql("ALTER SOURCE s_errors PAUSE")


def test_another_transform(db: Database, tmp_path: Path, files: str) -> None:
    db.sql(
        f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON "
        "TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM s) WITH (MAX ERRORS 3)"
    )
    ingest(db, "s")
    db.sql(
        "ALTER SOURCE s SET TRANSFORM USING (SELECT -(data->>'id')::int8 AS id FROM s WHERE data->>'kind' = 'b')"
    )
    shown = rows(db, "SHOW CREATE SOURCE s")[0][1]
    assert shown.endswith(
        "TRANSFORM USING (SELECT -(data->>'id')::int8 AS id FROM s WHERE data->>'kind' = 'b') WITH (MAX ERRORS 3)"
    )
    (tmp_path / "two.json").write_text('{"id": 101, "kind": "b"}\n{"id": 102, "kind": "a"}\n')
    ingest(db, "s")
    assert rows(db, "SELECT id FROM s ORDER BY id") == [(-101,), *((i,) for i in range(10))]
    for query, message in {
        "SELECT data->>'id' AS id FROM s": 'columns of "s" are id int8, with rows that do not expire',
        "SELECT (data->>'id')::int8 AS id FROM s WHERE mz_now() < 5": "rows that do not expire",
        "SELECT 1::int8 AS id": "a transform reads its source",
    }.items():
        with pytest.raises(tidegate.PlanError, match=message):
            db.sql(f"ALTER SOURCE s SET TRANSFORM USING ({query})")


def test_another_transform_where_there_was_none(db: Database) -> None:
    db.sql("CREATE SOURCE a FROM GENERATOR auction (ROWS 5) FOR TABLES (users, bids AS b)")
    with pytest.raises(
        tidegate.BindError, match=r'source "a" has the collections users, b(.|\n)*FOR one of them'
    ):
        db.sql("ALTER SOURCE a SET TRANSFORM USING (SELECT * FROM bids)")
    db.sql("ALTER SOURCE a SET TRANSFORM USING (SELECT * FROM bids WHERE id > 3) FOR b")
    assert rows(db, "SHOW CREATE SOURCE a")[0][1].endswith(
        "FOR TABLES (users, bids AS b TRANSFORM USING (SELECT * FROM bids WHERE id > 3))"
    )
    db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
    db.sql("CREATE SOURCE d FROM KAFKA CONNECTION k (TOPIC 't') FORMAT JSON ENVELOPE DEBEZIUM")
    with pytest.raises(tidegate.BindError, match="takes rows away again"):
        db.sql("ALTER SOURCE d SET TRANSFORM USING (SELECT data FROM d WHERE data ? 'x')")


def test_a_function_that_changed_its_results(db: Database, files: str) -> None:
    """The source says so when it is loaded, and can be given its transform anew, or be dropped."""
    db.sql(
        f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM s)"
    )
    item = db.context.item("s")
    assert isinstance(item, SourceItem)
    nodes = item.definition["outputs"][0]["plan"]["nodes"]
    next(node for node in nodes if "call" in node)["version"] = 0
    db.context.catalog.change("s", db.context.item("s"), item)
    with pytest.raises(tidegate.PlanError, match="gives other results"):
        load_source(db.context, "s")
    assert db.status().sources["s"].state == "ready"
    assert "gives other results" in db.sql("DROP SOURCE s").text()
    assert rows(db, "SHOW SOURCES") == []


def test_dropping(db: Database, files: str) -> None:
    db.sql(f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON")
    db.sql("CREATE VIEW v AS SELECT message FROM s_errors; CREATE VIEW w AS SELECT * FROM v")
    for sql, message in {
        "DROP TABLE s": '"s" is a source',
        "DROP SOURCE s_errors": r'"s_errors" is a subsource(.|\n)*DROP SOURCE s',
        "DROP SOURCE s": r'view "[vw]" reads',
        "DROP CONNECTION s": '"s" is a source',
        "DROP SOURCE nobody": "there is no",
    }.items():
        with pytest.raises(tidegate.BindError, match=message):
            db.sql(sql)
    db.sql("DROP SOURCE IF EXISTS nobody")
    db.sql("DROP SOURCE s CASCADE")
    assert rows(db, "SHOW SOURCES") + rows(db, "SHOW VIEWS") == []
    db.sql("CREATE TABLE s (a int4)")


@pytest.mark.usefixtures("commits_make_files")
def test_dropped_shards_are_swept(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with tidegate.open(tmp_path / "lake", clock=clock) as db:
        db.sql("CREATE SOURCE g FROM GENERATOR orders (ROWS 20)")
        ingest(db, "g")
        assert list((tmp_path / "lake").glob("**/part/**/*"))
        db.sql("DROP SOURCE g")
        clock.advance(Config().sweep_grace_ms + 1)
        db.sweep()
        assert [path for path in (tmp_path / "lake").glob("**/part/**/*") if path.is_file()] == []
        assert [key for key in db.context.catalog.machine.fetch().options if key.startswith("loose/")] == []


def test_a_connection_that_goes_while_a_source_is_made(db: Database) -> None:
    db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
    names = db.context.catalog
    create = names.create

    def meanwhile(*args: Any) -> None:
        db.sql("DROP CONNECTION k")
        create(*args)

    names.create = meanwhile  # type: ignore[method-assign]  # the interleaving that is tested
    with pytest.raises(Conflict, match='"k" was changed meanwhile'):
        db.sql("CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') FORMAT JSON")
    assert rows(db, "SHOW SOURCES") == []


def test_only_the_source_writes_its_collections(db: Database, files: str) -> None:
    db.sql(f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON")
    for sql in (
        "INSERT INTO s VALUES (1)",
        "DELETE FROM s",
        "UPDATE s SET data = 1",
        "ALTER TABLE s ADD COLUMN a int4",
    ):
        with pytest.raises(tidegate.BindError, match='"s" is a source, not a table'):
            db.sql(sql)
    with pytest.raises(tidegate.BindError, match='"s_errors" is filled by the source "s"'):
        db.append("s_errors", {"message": ["x"]})
    with pytest.raises(tidegate.BindError, match="is a source"):
        db.append("s", {"data": ["1"]})
