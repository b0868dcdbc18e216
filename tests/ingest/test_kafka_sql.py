"""KAFKA as a user has it: statements, `db.ingest`, and what is in the collections afterwards. Without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.ingest.broker import Broker, gate
from tidegate import Database
from tidegate.config import Config
from tidegate.errors import BindError, SourceError

QUICK = replace(Config(), ingest_poll_ms=20, ingest_retry_ms=100)


@pytest.fixture
def db(tmp_path: Path, kafka: Broker) -> Iterator[Database]:
    with tidegate.open(tmp_path / "lake", config=QUICK) as found:
        found.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka.address}', TIMEOUT MS 10000)")
        yield found


def once(db: Database, name: str = "s") -> Any:
    return db.ingest(name, once=True, spark=False, progress=lambda _: None)


def until(happens: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def events(first: int, last: int, partitions: int) -> Iterator[dict[str, Any]]:
    for i in range(first, last):
        value = {"id": i, "kind": "pay" if i % 3 else "see"}
        yield {"value": json.dumps(value).encode(), "key": b"k%d" % (i % 50), "partition": i % partitions}


def test_every_record_once_over_batches_and_restarts(db: Database, kafka: Broker) -> None:
    topic = kafka.topic(3)
    kafka.produce(topic, events(0, 5_000, 3))
    kafka.produce(topic, [{"value": b"{", "partition": 1, "key": b"x"}])
    db.sql(f"""
        CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT JSON
        INCLUDE KEY, PARTITION, OFFSET, HEADER 'h' AS h, HEADER 'h' AS raw BYTES
        TRANSFORM USING (
            SELECT (data->>'id')::int8 AS id, "partition", "offset", key, h, raw FROM s WHERE data->>'kind' = 'pay'
        ) WITH (BATCH ROWS 1500)
    """)
    now = once(db).progress()
    assert (now.records, now.kept, now.filtered, now.bad, now.batches) == (5_001, 3_333, 1_667, 1, 4)
    kafka.produce(
        topic, [{"value": b'{"id": 5000, "kind": "pay"}', "partition": 2, "headers": [("h", b"x")]}]
    )
    once(db)
    got = db.sql('SELECT id, "partition", "offset", key, h, raw FROM s').rows()
    expected = [(i, i % 3, i // 3, b"k%d" % (i % 50), None, None) for i in range(5_000) if i % 3]
    assert sorted(got) == [*expected, (5_000, 2, 1_666, None, "x", b"x")]
    ((position, raw),) = db.sql("SELECT position, raw FROM s_errors").rows()
    assert (json.loads(position), raw) == ({"partition": 1, "offset": 1_667}, b"{")
    once(db)
    assert db.sql("SELECT count(*) FROM s").rows() == [(3_334,)]


def test_upsert_with_tombstones(db: Database, kafka: Broker) -> None:
    topic = kafka.topic(2)
    db.sql(f"""
        CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC '{topic}')
        KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY AS id ENVELOPE UPSERT
        TRANSFORM USING (SELECT id, (data->>'n')::int8 AS n FROM s)
    """)
    truth: dict[str, int] = {}
    for turn in range(4):
        records: list[dict[str, Any]] = []
        for i in range(60):
            key, n = f"k{(i * 7 + turn) % 20}", turn * 100 + i
            gone = i % 9 == turn
            truth.pop(key, None) if gone else truth.update({key: n})
            value = None if gone else b'{"n": %d}' % n
            records.append({"key": key.encode(), "value": value, "partition": int(key[1:]) % 2})
        kafka.produce(topic, records)
        once(db)
        assert dict(db.sql("SELECT id, n FROM s").rows()) == truth
        assert db.sql("SELECT count(*) FROM s").rows() == [(len(truth),)]


def test_several_collections_and_new_partitions(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, events(0, 30, 1))
    db.sql(f"""
        CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC '{topic}', START OFFSET 10) FORMAT JSON FOR TABLES (
            pays TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM s WHERE data->>'kind' = 'pay'),
            sees TRANSFORM USING (SELECT (data->>'id')::int8 AS id FROM s WHERE data->>'kind' = 'see')
        )
    """)
    once(db)
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, events(30, 60, 2))
    q = db.ingest("s", spark=False, progress=lambda _: None)
    until(
        lambda: sum(len(db.sql(f"SELECT id FROM {t}").rows()) for t in ("pays", "sees")) == 50, "all records"
    )
    q.stop()
    assert sorted(db.sql("SELECT id FROM pays").rows()) == [(i,) for i in range(10, 60) if i % 3]
    assert sorted(db.sql("SELECT id FROM sees").rows()) == [(i,) for i in range(10, 60) if not i % 3]


def test_a_broker_that_goes_and_comes_back(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    with gate(kafka) as door:
        db.sql(f"CREATE CONNECTION f TO KAFKA (BROKER '127.0.0.1:{kafka.front}', TIMEOUT MS 700)")
        db.sql(f"CREATE SOURCE s FROM KAFKA CONNECTION f (TOPIC '{topic}') FORMAT TEXT")
        kafka.produce(topic, [{"value": b"before"}])
        q = db.ingest("s", spark=False, progress=lambda _: None)
        until(lambda: db.sql("SELECT * FROM s").rows() == [("before",)], "the first record")
        door.close()
        kafka.produce(topic, [{"value": b"meanwhile"}])
        until(lambda: q.progress().trouble is not None, "that the broker is down is said")
        trouble = db.status().sources["s"].trouble
        assert trouble is not None
        assert topic in trouble
        assert q.running
        door.open()
        until(lambda: db.sql("SELECT count(*) FROM s").rows() == [(2,)], "the second record")
        q.stop()
    assert sorted(db.sql("SELECT * FROM s").rows()) == [("before",), ("meanwhile",)]


def test_lost_offsets_end_the_source(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    db.sql(f"CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT TEXT")
    kafka.produce(topic, [{"value": b"%d" % i} for i in range(3)])
    once(db)
    kafka.produce(topic, [{"value": b"%d" % i} for i in range(3, 9)])
    kafka.forget(topic, 0, 5)
    with pytest.raises(SourceError, match=r"partition 0 of topic .* 2 offsets, 3 to 4, are gone"):
        once(db)
    assert sorted(db.sql("SELECT * FROM s").rows()) == [("0",), ("1",), ("2",)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("FROM KAFKA CONNECTION k (TOPIC 't', PARTITIONS 3) FORMAT TEXT", "no option PARTITIONS"),
        ("FROM KAFKA CONNECTION k FORMAT TEXT", "FROM KAFKA needs TOPIC"),
        ("FROM KAFKA CONNECTION k (TOPIC 't') FORMAT TEXT INCLUDE LINE", "have no LINE"),
    ],
)
def test_refusals(db: Database, words: str, message: str) -> None:
    with pytest.raises(BindError, match=message):
        db.sql(f"CREATE SOURCE s {words}")
