"""WITH (SPLIT): whatever the query, the source's name gives what the query gives over all records; and little is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.database import Database
from tidegate.ingest.define.catalog import load_source
from tidegate.storage.catalog.items import SourceItem

DOCUMENTS: list[Any] = [
    {"kind": "a", "n": 1, "env": "prod", "deep": {"x": [1, 2]}, "pad": "x" * 50},
    {"kind": "a", "n": 2, "env": "test", "deep": None, "pad": "y"},
    {"kind": "b", "n": None, "env": "prod"},
    {"kind": None, "n": 5, "env": "prod", "deep": {"x": None}},
    {"n": 6, "env": "prod", "deep": {}},
    {"kind": ["kind"], "n": 7, "env": ["prod"]},
    {},
    ["kind", "n", "env"],
    "kind",
    7,
    None,
    {"kind": "b", "n": 1e2, "env": "prod", "deep": {"x": {"kind": 1}}},
]

QUERIES = {
    "a subquery that is rows": "SELECT k, sum(n) AS n FROM (SELECT data->>'kind' AS k, (data->>'n')::numeric AS n FROM {s} "
    "WHERE data->>'env' = 'prod') x GROUP BY k",
    "keys": "SELECT data->>'kind' AS k, count(*) AS n FROM {s} WHERE data->>'env' = 'prod' GROUP BY 1",
    "null and absent": "SELECT data->'kind' IS NULL AS gone, data->'kind' = 'null' AS nothing, count(*) FROM {s} GROUP BY 1, 2",
    "deeper": "SELECT DISTINCT data->'deep'->'x' AS x, data->'deep'->>'x' AS t FROM {s}",
    "the whole document": "SELECT jsonb_typeof(data) AS t, count(*) AS n FROM {s} GROUP BY 1",
    "an alias": "SELECT max(t.data->>'kind') AS m FROM {s} AS t WHERE t.data->>'n' <> '2' AND t.data ? 'n'",
    "renamed columns": "SELECT d->>'kind' AS k, count(*) AS n FROM {s} AS t (d) GROUP BY d->>'kind'",
    "a common table": "WITH r AS (SELECT data->>'kind' AS k FROM {s} WHERE data->'n' IS NOT NULL) "
    "SELECT k, count(*) AS n FROM r GROUP BY k",
    "no keys": "SELECT count(*) AS n FROM {s}",
    "having": "SELECT data->>'env' AS e, count(data->>'n') AS n FROM {s} GROUP BY 1 HAVING count(*) > 1",
    "a bound that is not one": "SELECT data->>'kind' AS k FROM {s} WHERE mz_now() > 5 OR data ? 'n' GROUP BY 1",
    "a volatile rest": "SELECT count(*) AS n FROM {s} WHERE now() > '2020-01-01' AND data->>'kind' = 'a'",
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("split")
    (folder / "in.json").write_text("".join(json.dumps(one) + "\n" for one in DOCUMENTS))
    with tidegate.open("memory://") as made:
        made.sql("CREATE TABLE raw (data jsonb)")
        made.append("raw", {"data": [json.dumps(one) for one in DOCUMENTS]})
        made.folder = folder  # type: ignore[attr-defined]  # for the tests
        yield made


def make(db: Database, query: str) -> None:
    folder: Path = db.folder  # type: ignore[attr-defined]  # set by the fixture
    db.sql(
        f"CREATE SOURCE s FROM FILES '{folder}/*.json' FORMAT JSON TRANSFORM USING ({query.format(s='s')}) WITH (SPLIT)"
    )


def plan_of(db: Database) -> str:
    return load_source(db.context, "s").outputs[0].plan.show()


def view_of(db: Database) -> str | None:
    item = db.context.item("s")
    assert isinstance(item, SourceItem)
    return None if item.view is None else item.view.sql


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_the_view_is_the_query(db: Database, query: str) -> None:
    make(db, query)
    try:
        assert view_of(db) is not None
        running = db.ingest("s", once=True, spark=False)
        assert running.wait(60)
        assert running.error is None
        wanted = db.sql(query.format(s="raw"))
        found = db.sql("SELECT * FROM s")
        assert found.schema.names == wanted.schema.names
        assert sorted(map(repr, found.rows())) == sorted(map(repr, wanted.rows()))
        assert db.sql("SELECT count(*) FROM s_errors").rows() == [(0,)]
        assert [name for name, *_ in db.sql("SHOW SOURCES").rows()] == ["s", "s_errors", "s_stored"]
        assert [name for name, _, _ in db.sql("SHOW COLUMNS FROM s").rows()] == wanted.schema.names
    finally:
        db.sql("DROP SOURCE s")


STORED = {
    "rows": (
        QUERIES["a subquery that is rows"],
        "Map #0 ->> 'kind', (#0 ->> 'n')::numeric",
        "FROM (SELECT * FROM s_stored) x",
    ),
    "a condition": (
        QUERIES["keys"],
        "Filter #0 ->> 'env' = 'prod'",
        "FROM s_stored AS s WHERE data->>'env' = 'prod'",
    ),
    "keys": (QUERIES["keys"], "jsonb_build_object('kind', ", "s_stored"),
    "a document": (QUERIES["the whole document"], "Identity", "FROM s_stored AS s GROUP"),
    "a common table": (
        QUERIES["a common table"],
        "Map #0 ->> 'kind'",
        "WITH r AS (SELECT * FROM s_stored) SELECT k",
    ),
    "twice": (
        "SELECT a.data AS x FROM s a JOIN s b ON a.data = b.data->'p'",
        "Identity",
        "FROM s_stored a JOIN s_stored b",
    ),
    "kept side of a join": (
        "SELECT data->>'x' AS x FROM s LEFT JOIN raw USING (data) WHERE raw.data IS NULL AND data ? 'x'",
        "Filter #0 ? 'x'",
        "s_stored AS s LEFT",
    ),
    "other side of a join": (
        "SELECT raw.data FROM raw LEFT JOIN s ON raw.data = s.data WHERE s.data IS NULL",
        "Identity",
        "LEFT JOIN s_stored AS s ON",
    ),
    "a subquery in an expression": (
        "SELECT data FROM raw WHERE data IN (SELECT data->'k' FROM s WHERE data ? 'k')",
        "Filter #0 ? 'k'",
        "IN (SELECT * FROM s_stored)",
    ),
    "a bound": (
        "SELECT count(*) AS n FROM s WHERE mz_now() < (data->>'at')::timestamptz + '1 day'",
        "ceil_ms((#0 ->> 'at')::timestamptz + '1 day')",
        "WHERE mz_now() <",
    ),
    "an order": (
        "SELECT data->>'k' AS k FROM s ORDER BY data->>'n' LIMIT 3",
        "jsonb_build_object('n', ",
        "FROM s_stored AS s ORDER",
    ),
}


@pytest.mark.parametrize(("query", "stored", "view"), STORED.values(), ids=STORED)
def test_what_is_stored(db: Database, query: str, stored: str, view: str) -> None:
    make(db, query)
    try:
        assert stored in plan_of(db)
        assert view in (view_of(db) or "")
    finally:
        db.sql("DROP SOURCE s")


def test_rows_one_by_one_need_no_view(db: Database) -> None:
    make(db, "SELECT data->>'kind' AS k FROM {s}")
    assert view_of(db) is None
    assert [name for name, *_ in db.sql("SHOW SOURCES").rows()] == ["s", "s_errors"]
    db.sql("DROP SOURCE s")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT count(*) AS n FROM raw", "a transform reads its source"),
        ("WITH s AS (SELECT 1 AS x) SELECT count(*) AS n FROM s", "a common table is called"),
        ("SELECT dada, count(*) AS n FROM s GROUP BY 1", 'column "dada" does not exist'),
        ("SELECT count(*) AS n FROM s JOIN nobody ON true", 'no collection or view "nobody"'),
    ],
)
def test_refusals(db: Database, query: str, message: str) -> None:
    with pytest.raises(tidegate.TidegateError, match=message):
        make(db, query)
    assert db.sql("SHOW SOURCES").rows() == []


@pytest.mark.parametrize("step", ["plan_transform", "check_stable"])
@pytest.mark.parametrize("kind", [tidegate.CancelledError, tidegate.LimitError, tidegate.StoreError])
def test_only_what_cannot_be_stored_is_left_to_the_view(
    db: Database, monkeypatch: pytest.MonkeyPatch, step: str, kind: type[tidegate.TidegateError]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind("it was not the query")

    monkeypatch.setattr(f"tidegate.ingest.define.split.{step}", fail)
    with pytest.raises(kind, match="it was not the query"):
        make(db, QUERIES["a subquery that is rows" if step == "plan_transform" else "keys"])
    assert db.context.catalog.find("s") is None


def test_its_transform_cannot_be_changed(db: Database) -> None:
    make(db, "SELECT count(*) AS n FROM {s}")
    with pytest.raises(tidegate.BindError, match=r"was created WITH \(SPLIT\)"):
        db.sql("ALTER SOURCE s SET TRANSFORM USING (SELECT 1 AS n FROM s)")
    with pytest.raises(
        tidegate.BindError, match=r'"s" is a source, and has no rows of its own(.|\n)*s_errors, s_stored'
    ):
        db.compact("s")
    db.compact("s_stored")
    db.sql("CREATE VIEW v AS SELECT n + 1 AS m FROM s")
    with pytest.raises(tidegate.BindError, match='view "v" reads'):
        db.sql("DROP SOURCE s")
    assert db.sql("SELECT * FROM v").rows() == [(1,)]
    db.sql("DROP SOURCE s CASCADE")


def test_what_the_view_reads_is_not_dropped(db: Database) -> None:
    db.sql("CREATE TABLE names (kind text, name text, more int4)")
    make(db, "SELECT n.name FROM {s} JOIN names n ON n.kind = {s}.data->>'kind'")
    with pytest.raises(tidegate.BindError, match='source "s" reads "names"'):
        db.sql("DROP TABLE names")
    with pytest.raises(tidegate.BindError, match='source "s" reads that column'):
        db.sql("ALTER TABLE names DROP COLUMN name")
    db.sql("ALTER TABLE names DROP COLUMN more")
    db.sql("DROP TABLE names CASCADE")
    assert db.sql("SHOW SOURCES").rows() == []


def test_columns_that_are_words_of_the_grammar(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('order,from,end\n1,a,"2026-01-01"\n2,a,"2026-01-02"\n3,b,"2026-01-03"\n')
    with tidegate.open("memory://") as db:
        db.sql(
            f"CREATE SOURCE \"select\" FROM FILES '{tmp_path}/*.csv' FORMAT CSV WITH HEADER TRANSFORM USING"
            ' (SELECT "from", sum("order"::int8) AS "order" FROM "select" WHERE "end" > \'2026-01-01\' GROUP BY "from")'
            " WITH (SPLIT)"
        )
        item = db.context.item("select")
        assert isinstance(item, SourceItem)
        assert item.view is not None
        assert db.sql(f"SELECT * FROM ({item.view.sql}) AS v").names == ("from", "order")
        assert db.sql('SHOW CREATE SOURCE "select"').text() == item.sql
