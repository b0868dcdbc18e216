"""Sources on Spark: several at once, until stopped, paused and resumed; and what becomes of errors on their way to the driver."""

from __future__ import annotations

import base64
import json
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.ingest.numbers import lab, records, upserting
from tidegate import Database
from tidegate.config import Config
from tidegate.errors import SourceError, UnsupportedError
from tidegate.ingest.batch.task import TaskResult
from tidegate.ingest.protocol import BatchLimit
from tidegate.ingest.runtime.ingestion import Ingestion
from tidegate.spark.tasks.ingest import SETTINGS
from tidegate.spark.tasks.ingest_stream import PLAN, IngestStreamSource, SourceStreamReader, unpickle
from tidegate.storage.catalog.items import SourceItem as Item


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with tidegate.open(tmp_path / "lake", config=replace(Config(), ingest_poll_ms=100)) as found:
        yield found


def put(folder: Path, name: str, first: int, last: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": n, "name": f"n{n}"}) for n in range(first, last)]
    fresh = folder / f".{name}"
    fresh.write_text("\n".join(lines) + "\n")
    fresh.rename(folder / f"{name}.json")


def ids(db: Database) -> list[int]:
    return sorted(row[0] for row in db.sql("SELECT id FROM s").rows())


def until(happens: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not happens():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def test_two_sources_at_once_and_then_on(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder, "a", 0, 20)
    (folder / "bad.json").write_text('{"id": "x"}\n')
    db.sql(f"""CREATE SOURCE s FROM FILES '{folder}/*.json' FORMAT JSON
        TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM s)""")
    db.sql("CREATE SOURCE n FROM GENERATOR counter (ROWS 3000) WITH (BATCH ROWS 1000)")
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    both = db.ingest(["s", "n"], once=True, spark=spark, progress=lambda _: None).progress()
    assert isinstance(both, dict)
    assert {name: (one.state, one.kept, one.bad) for name, one in both.items()} == {
        "s": ("done", 20, 1),
        "n": ("done", 3000, 0),
    }
    assert both["n"].batches == 3
    assert ids(db) == list(range(20))
    assert db.sql("SELECT count(*) FROM n").rows() == [(3000,)]
    assert db.sql("SELECT raw FROM s_errors").rows() == [(b'{"id": "x"}',)]
    assert {name: spark.conf.get(name, None) for name in SETTINGS} == before, (
        "the user's session is left as it was"
    )
    assert not spark.streams.active

    q = db.ingest("s", spark=spark, progress=lambda _: None)
    put(folder, "b", 20, 30)
    until(lambda: ids(db) == list(range(30)), "a new file")
    until(lambda: q.progress().state == "idle", "nothing to do")
    db.sql("ALTER SOURCE s PAUSE")
    until(lambda: q.progress().state == "paused", "paused")
    put(folder, "c", 30, 40)
    db.sql("ALTER SOURCE s RESUME")
    until(lambda: ids(db) == list(range(40)), "what came meanwhile")
    q.stop()
    assert q.progress().state == "stopped"
    assert q.error is None


def reader(tmp_path: Path) -> SourceStreamReader:
    """A reader over an upstream made by hand, in this process."""
    it = lab(tmp_path, {"0": records(0, 20)}, limit=BatchLimit(rows=10))
    plan = pickle.dumps((it.source, it.place, it.config, False, 1))
    found = IngestStreamSource({PLAN: base64.b64encode(plan).decode()}).streamReader(
        IngestStreamSource({}).schema()
    )
    assert isinstance(found, SourceStreamReader)
    return found


def test_what_is_planned_stays_until_it_is_done(tmp_path: Path) -> None:
    it = reader(tmp_path)
    start = it.initialOffset()
    end = it.latestOffset(start, None)
    assert end == it.latestOffset(start, None) == {"batch": 1}
    for _ in range(2):
        (piece,) = it.partitions(start, end)
        ((row,),) = it.read(piece)
        assert isinstance(unpickle(row), TaskResult)
    assert it.partitions(end, end) == []


def test_errors_travel_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = reader(tmp_path)

    def fails(*_: object) -> None:
        raise SourceError("the broker does not answer", again=True, hint="wait")

    monkeypatch.setattr("tidegate.ingest.batch.planning.BatchPlanner.next_tasks", fails)
    end = it.latestOffset(it.initialOffset(), None)
    (piece,) = it.partitions(it.initialOffset(), end)
    ((row,),) = it.read(pickle.loads(pickle.dumps(piece)))
    error = unpickle(row)
    assert isinstance(error, SourceError)
    assert (error.message, error.again, error.hint) == ("the broker does not answer", True, "wait")


def test_keys_that_meet_are_read_as_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = upserting(
        tmp_path, {"0": records(0, 3, key="a") + records(3, 5, key="b"), "1": records(9, 10, key="c")}
    )
    it.upstream.step = 2
    monkeypatch.setattr("tidegate.ingest.define.catalog.source_item", lambda *_: Item(None, ""))
    monkeypatch.setattr("tidegate.ingest.define.catalog.load_source_item", lambda *_: it.source)
    monkeypatch.setattr(Ingestion, "should_continue", lambda one: not one.stopping.is_set())
    with tidegate.open(tmp_path / "lake") as db:
        db.ingest("s", once=True, spark=spark, progress=lambda _: None)
    assert it.numbers("last") == [2, 4, 9]


def test_where_spark_cannot_be(spark: SparkSession) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE SOURCE n FROM GENERATOR counter (ROWS 10)")
        with pytest.raises(UnsupportedError, match="memory"):
            db.ingest("n", once=True, spark=spark, progress=lambda _: None)
