"""`db.ingest` in this process: what it says of itself, and what it does when something goes wrong."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate import Database
from tidegate.config import Config
from tidegate.errors import BindError, SourceError, StoreError
from tidegate.ingest.protocol import BatchLimit, UpstreamPosition
from tidegate.ingest.runtime import ingestion as ingestion_module
from tidegate.ingest.runtime.ingestion import Ingestion
from tidegate.ingest.runtime.progress import IngestionProgress, show_progress
from tidegate.ingest.upstreams.files.upstream import FilesUpstream
from tidegate.progress import ProgressBars

QUICK = replace(Config(), ingest_poll_ms=20, ingest_retry_ms=50)
MADE = """CREATE SOURCE s FROM FILES '{}/*.json' FORMAT JSON TRANSFORM USING (
    SELECT (data->>'id')::int8 AS id FROM s WHERE data->>'kind' = 'a')"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with tidegate.open(tmp_path / "lake", config=QUICK) as found:
        yield found


def put(folder: Path, name: str, first: int, last: int, kind: str = "a") -> None:
    """A file that is there all at once, as those are that a source should read."""
    lines = [json.dumps({"id": n, "kind": kind}) for n in range(first, last)]
    fresh = folder / f".{name}"
    fresh.write_text("\n".join(lines) + "\n")
    fresh.rename(folder / f"{name}.json")


def ids(db: Database, name: str = "s") -> list[int]:
    return sorted(row[0] for row in db.sql(f"SELECT id FROM {name}").rows())


def until(happens: Callable[[], bool], what: str) -> None:
    """Waits; the machine may be busy."""
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def started(db: Database, **more: Any) -> Ingestion:
    found = db.ingest("s", spark=False, progress=lambda _: None, **more)
    assert isinstance(found, Ingestion)
    return found


def test_once_and_what_it_says(db: Database, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    db.sql(MADE.format(folder))
    put(folder, "a", 0, 10)
    put(folder, "b", 10, 30, "b")
    with (folder / "a.json").open("a") as file:
        file.write('{"id": "seven", "kind": "a"}\nnot json\n')
    with caplog.at_level(logging.INFO, "tidegate.progress"):
        q = db.ingest("s", once=True, spark=False)
    assert ids(db) == list(range(10))
    now = q.progress()
    assert isinstance(now, IngestionProgress)
    assert (now.state, now.batches, now.records, now.kept, now.filtered, now.bad) == (
        "done",
        1,
        32,
        10,
        20,
        2,
    )
    assert (now.errors, now.parts, now.share, now.trouble) == (2, 2, 1.0, None)
    told = json.loads(now.json())
    assert told["collections"]["s"]["kept"] == 10
    assert told["lag"]["bytes"] == 0
    assert "32 in" in now.line()
    assert "10 kept  20 filtered  2 bad" in now.line()
    last = caplog.records[-1]
    assert last.__dict__["tidegate"]["records"] == 32, "as data in the logs"
    assert not q.running
    assert 'tidegate_ingest_records_total{what="filtered"} 20.0' in db.metrics()
    assert "tidegate_ingest_batches_total 1.0" in db.metrics()
    assert db.sql("SELECT count(*) FROM s_errors").rows() == [(2,)]
    again = db.ingest("s", once=True, spark=False, progress=lambda _: None)
    assert again.progress().records == 0, "each file once"


def test_it_goes_on_until_it_is_stopped(db: Database, folder: Path) -> None:
    db.sql(MADE.format(folder))
    put(folder, "a", 0, 5)
    q = started(db)
    until(lambda: ids(db) == list(range(5)), "the first file")
    with pytest.raises(BindError, match="already"):
        started(db)
    put(folder, "b", 5, 9)
    until(lambda: ids(db) == list(range(9)), "the second file")
    until(lambda: q.progress().state == "idle", "nothing to do")
    db.sql("ALTER SOURCE s PAUSE")
    until(lambda: q.progress().state == "paused", "paused")
    put(folder, "c", 9, 12)
    with pytest.raises(BindError, match="already"):
        started(db, once=True)
    db.sql("ALTER SOURCE s RESUME")
    until(lambda: ids(db) == list(range(12)), "the third file")
    assert not q.wait(0.01)
    q.stop()
    assert q.progress().state == "stopped"
    assert q.wait()
    assert q.error is None
    db.sql("ALTER SOURCE s PAUSE")
    with pytest.raises(SourceError, match="is paused") as paused:
        started(db, once=True)
    assert "RESUME" in str(paused.value)


def test_several_and_those_that_are_not_there(db: Database, folder: Path) -> None:
    db.sql(MADE.format(folder))
    db.sql("CREATE SOURCE n FROM GENERATOR counter (ROWS 100)")
    put(folder, "a", 0, 5)
    both = db.ingest(once=True, spark=False, progress=lambda _: None)
    found = both.progress()
    assert isinstance(found, dict)
    assert {name: one.kept for name, one in found.items()} == {"s": 5, "n": 100}
    assert db.sql("SELECT count(*) FROM n").rows() == [(100,)]
    db.ingest(["n", "s", "n"], once=True, spark=False, progress=lambda _: None)
    db.sql("CREATE TABLE t (id int8)")
    for name in ("nothing", "t", "s_errors"):
        with pytest.raises(BindError):
            db.ingest(name, once=True, spark=False)


def test_in_memory_and_closed(folder: Path) -> None:
    db = tidegate.open("memory://", config=QUICK)
    db.sql(MADE.format(folder))
    put(folder, "a", 0, 5)
    q = db.ingest("s", progress=lambda _: None)
    until(lambda: ids(db) == list(range(5)), "the first file")
    db.close()
    assert not q.running, "who closes the database ends what it ingests"


def test_an_upstream_that_is_down_is_tried_again(
    db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql(MADE.format(folder))
    put(folder, "a", 0, 5)
    down = [3]
    latest = FilesUpstream.latest

    def sometimes(self: FilesUpstream, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        if down[0]:
            down[0] -= 1
            raise SourceError("the disk does not answer", again=True)
        return latest(self, after, limit)

    monkeypatch.setattr(FilesUpstream, "latest", sometimes)
    said: list[IngestionProgress] = []
    db.ingest("s", once=True, spark=False, progress=said.append)
    assert ids(db) == list(range(5))
    assert [one.state for one in said[:3]] == ["retrying"] * 3
    assert "does not answer" in (said[0].trouble or "")
    assert said[-1].trouble is None
    down[0] = 10**6
    with pytest.raises(SourceError, match="does not answer"):
        started(db, once=True)
    q = started(db)
    until(lambda: q.progress().state == "retrying", "who has time goes on trying")
    down[0] = 0
    put(folder, "b", 5, 9)
    until(lambda: ids(db) == list(range(9)), "and finds it")
    q.stop()


def test_what_is_gone_ends_it(db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql(MADE.format(folder))
    put(folder, "a", 0, 5)

    def gone(*_: Any) -> UpstreamPosition:
        raise SourceError("offsets 3 to 7 are gone", again=False, hint="recreate the source")

    monkeypatch.setattr(FilesUpstream, "latest", gone)
    q = started(db)
    until(lambda: not q.running, "it ends")
    assert isinstance(q.error, SourceError)
    assert (q.progress().state, "offsets 3" in (q.progress().trouble or "")) == ("failed", True)
    with pytest.raises(SourceError, match="offsets 3 to 7 are gone"):
        q.wait()


def test_max_errors(db: Database, folder: Path) -> None:
    db.sql(MADE.format(folder) + " WITH (MAX ERRORS 2)")
    (folder / "a.json").write_text('{"id": 1, "kind": "a"}\nx\ny\n')
    db.ingest("s", once=True, spark=False, progress=lambda _: None)
    (folder / "b.json").write_text('{"id": 2, "kind": "a"}\nz\n')
    with pytest.raises(SourceError, match="3 bad records, and MAX ERRORS is 2"):
        started(db, once=True)
    assert ids(db) == [1, 2], "the batch in which they are is committed"
    put(folder, "c", 3, 5)
    with pytest.raises(SourceError, match="MAX ERRORS") as stopped:
        started(db, once=True)
    assert "REPLAY" in str(stopped.value)
    assert ids(db) == [1, 2]


def test_two_processes_at_once(tmp_path: Path, folder: Path) -> None:
    with (
        tidegate.open(tmp_path / "lake", config=QUICK) as one,
        tidegate.open(tmp_path / "lake", config=QUICK) as other,
    ):
        one.sql(MADE.format(folder) + " WITH (BATCH FILES 2)")
        both = [started(one), started(other)]
        for i in range(20):
            put(folder, f"{i:02}", 10 * i, 10 * i + 10)
        until(lambda: len(ids(one)) >= 200, "all files")
        for q in both:
            q.stop()
            assert q.error is None
        assert ids(one) == list(range(200)), "each record once"


def test_a_source_that_is_dropped_or_changed(db: Database, folder: Path) -> None:
    db.sql(MADE.format(folder))
    put(folder, "a", 0, 5)
    q = started(db)
    until(lambda: ids(db) == list(range(5)), "the first file")
    db.sql("DROP SOURCE s")
    until(lambda: not q.running, "it ends")
    assert isinstance(q.error, BindError)


def test_bars_of_several_sources_stand_below_each_other() -> None:
    stream = io.StringIO()
    bars = ProgressBars(stream)
    for now in (
        IngestionProgress("a", "running", records=1),
        IngestionProgress("b", "running", records=2),
        IngestionProgress("a", "running", records=30),
        IngestionProgress("b", "done", records=4),
        IngestionProgress("a", "done", records=50),
    ):
        show_progress(bars, now)
    last = stream.getvalue().rstrip().splitlines()[-2:]
    assert [line.split("  ")[0].split(" ━")[0].strip() for line in last] == ["ingest a", "ingest b"]
    assert "50 in" in last[0]
    assert "4 in" in last[1]


def test_a_trickle_does_not_make_a_part_of_each_drop(tmp_path: Path) -> None:
    """A generator has a new record every millisecond. As many batches as fit would be one for every few of them."""
    with tidegate.open(tmp_path / "lake", config=Config(ingest_poll_ms=300)) as db:
        db.sql("CREATE SOURCE s FROM GENERATOR orders (RATE 1000)")
        began = time.monotonic()
        running = db.ingest("s", spark=False, progress=lambda now: None)
        while running.progress().batches < 4:
            time.sleep(0.02)
        running.stop()
        assert time.monotonic() - began >= 0.9
        assert running.progress().parts == running.progress().batches


def part_count(db: Database) -> int:
    return db.sql("SELECT id FROM s WHERE id < 0").scan.parts_total


def put_and_wait(db: Database, folder: Path, files: int) -> None:
    """Puts files one by one, so that each is a batch of its own."""
    for i in range(files):
        put(folder, f"{i:03}", 10 * i, 10 * i + 10)
        until(lambda i=i: len(ids(db)) == 10 * i + 10, f"file {i}")  # type: ignore[misc]  # bound at once


@pytest.mark.parametrize("interval", [0, 8])
def test_small_parts_are_merged_while_it_runs(db: Database, folder: Path, interval: int) -> None:
    db.set("ingest_merge_batches", interval)
    db.sql(MADE.format(folder))
    q = started(db)
    put_and_wait(db, folder, 17)
    q.stop()
    assert q.error is None
    assert ids(db) == list(range(170))
    assert part_count(db) == 17 if interval == 0 else part_count(db) <= 4


def test_a_merge_that_fails_does_not_stop_it(
    db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(shard: object, **_: object) -> None:
        raise StoreError("the store does not answer")

    monkeypatch.setattr(ingestion_module, "compact_shard", fail)
    db.set("ingest_merge_batches", 1)
    db.sql(MADE.format(folder))
    q = started(db)
    put_and_wait(db, folder, 3)
    q.stop()
    assert q.error is None
    assert ids(db) == list(range(30))
    assert "small parts of s are not merged: the store does not answer" in caplog.text


def test_records_of_several_tables_add_up(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE SOURCE s FROM GENERATOR auction (ROWS 1000) FOR ALL TABLES")
        running = db.ingest("s", once=True, spark=False)
        found = db.status().sources["s"]
        each = [counts.records for counts in found.collections.values()]
        assert len(each) > 1
        assert found.total.records == running.progress().records == sum(each) > max(each)
