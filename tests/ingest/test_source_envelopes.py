"""Envelopes from CREATE SOURCE to rows, over a real Kafka: what is bound is what the pipeline runs, hidden columns and all."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

import tidegate
from tests.ingest.broker import Broker
from tests.ingest.statements import ingest
from tidegate.database import Database


@pytest.fixture
def db(kafka: Broker) -> Iterator[Database]:
    with tidegate.open("memory://") as made:
        made.sql(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka.address}')")
        yield made


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.sql(sql).rows())


def said(key: str | None, value: Any) -> dict[str, Any]:
    """A record; a value of None is a tombstone."""
    found: dict[str, Any] = {"value": None if value is None else json.dumps(value).encode()}
    return found if key is None else {**found, "key": key.encode()}


def test_upsert(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    db.sql(
        f"CREATE SOURCE u FROM KAFKA CONNECTION k (TOPIC '{topic}') KEY FORMAT TEXT VALUE FORMAT JSON "
        "INCLUDE KEY AS id, OFFSET, INGESTION TIMESTAMP AS came ENVELOPE UPSERT TRANSFORM USING "
        "(SELECT id, (data->>'n')::int8 AS n FROM u WHERE mz_now() < came + '1 day' AND data->>'hide' IS NULL)"
    )
    kafka.produce(
        topic, [said("a", {"n": 1}), said("b", {"n": 2}), said("a", {"n": 3}), said("c", {"n": "x"})]
    )
    ingest(db, "u")
    assert rows(db, "SELECT * FROM u") == [("a", 3), ("b", 2)]
    assert len(rows(db, "SELECT * FROM u_errors")) == 1
    kafka.produce(
        topic, [said("a", None), said("b", {"n": 2, "hide": 1}), said("c", {"n": 7}), said(None, {"n": 9})]
    )
    ingest(db, "u")
    assert rows(db, "SELECT * FROM u") == [("c", 7)]
    assert rows(db, "SELECT count(*) FROM u") == [(1,)]
    assert len(rows(db, "SELECT * FROM u_errors")) == 2
    assert [name for name, _, _ in rows(db, "SHOW COLUMNS FROM u")] == ["id", "n"]


def test_before_the_envelope(db: Database, kafka: Broker) -> None:
    """What BEFORE ENVELOPE drops UPSERT never sees; what INCLUDE adds reaches the transform through it."""
    topic = kafka.topic()
    db.sql(
        f"CREATE SOURCE u FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT JSON INCLUDE KEY ENVELOPE UPSERT "
        "TRANSFORM BEFORE ENVELOPE USING (SELECT convert_from(key, 'utf8') AS id, data->'row' AS r FROM u WHERE data ? 'row') "
        "TRANSFORM USING (SELECT id, r->>'x' AS x FROM u WHERE r->>'x' <> 'drop')"
    )
    given = [{"row": {"x": "one"}}, {"noise": 1}, {"row": {"x": "two"}}, {"row": {"x": "drop"}}]
    kafka.produce(topic, [said("a", given[0]), said("a", given[1]), said("b", given[2])])
    ingest(db, "u")
    assert rows(db, "SELECT * FROM u") == [("a", "one"), ("b", "two")]
    kafka.produce(topic, [said("b", given[3])])
    ingest(db, "u")
    assert rows(db, "SELECT * FROM u") == [("a", "one")]


def test_debezium(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    db.sql(
        f"CREATE SOURCE d FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT JSON ENVELOPE DEBEZIUM "
        "TRANSFORM USING (SELECT (data->>'id')::int8 AS id, data->>'n' AS n FROM d WHERE data->>'n' <> 'no')"
    )
    one, two = {"id": 1, "n": "a"}, {"id": 2, "n": "no"}
    changes = [
        {"before": None, "after": one, "op": "c"},
        {"before": None, "after": two, "op": "r"},
        {"before": one, "after": {**one, "n": "b"}, "op": "u"},
        {"payload": {"before": two, "after": {**two, "n": "yes"}, "op": "u"}},
    ]
    kafka.produce(topic, [said("x", change) for change in changes])
    ingest(db, "d")
    assert rows(db, "SELECT * FROM d") == [(1, "b"), (2, "yes")]
    kafka.produce(
        topic, [said("x", {"before": {**one, "n": "b"}, "after": None, "op": "d"}), said("x", None)]
    )
    ingest(db, "d")
    assert rows(db, "SELECT * FROM d") == [(2, "yes")]
    assert rows(db, "SELECT * FROM d_errors") == []


ROW = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": ["null", "string"]}],
}
CHANGE = {
    "type": "record",
    "name": "change",
    "fields": [
        {"name": "op", "type": "string"},
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "row"]},
        {"name": "lsn", "type": "long"},
    ],
}


def change(op: str, before: Any, after: Any) -> dict[str, bytes]:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, CHANGE, {"op": op, "before": before, "after": after, "lsn": 5})
    return {"key": b"x", "value": buffer.getvalue()}


def test_debezium_of_avro(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    start = f"FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT AVRO USING SCHEMA '{json.dumps(CHANGE)}' ENVELOPE DEBEZIUM "
    db.sql(f"CREATE SOURCE d {start} TRANSFORM USING (SELECT id * 10 AS id, n FROM d)")
    db.sql(
        f'CREATE SOURCE e {start} TRANSFORM BEFORE ENVELOPE USING (SELECT op, "after", "before" FROM e WHERE lsn = 5) '
        "TRANSFORM USING (SELECT n FROM e)"
    )
    one, two = {"id": 1, "n": "a"}, {"id": 1, "n": None}
    kafka.produce(
        topic, [change("c", None, one), change("u", one, two), change("c", None, {"id": 3, "n": "c"})]
    )
    for name in "de":
        ingest(db, name)
        assert rows(db, f"SELECT * FROM {name}_errors") == []
    assert rows(db, "SELECT id FROM d") == [(10,), (30,)]
    assert sorted(map(str, db.sql("SELECT n FROM e").rows())) == ["('c',)", "(None,)"]


def test_what_kafka_includes(db: Database, kafka: Broker) -> None:
    topic = kafka.topic()
    db.sql(
        f"CREATE SOURCE i FROM KAFKA CONNECTION k (TOPIC '{topic}') KEY FORMAT JSON VALUE FORMAT TEXT "
        "INCLUDE KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS, HEADER 'h' AS h "
        "TRANSFORM USING (SELECT key->>'a' AS a, text, partition, \"offset\", h, timestamp > '2020-01-01' AS recent FROM i)"
    )
    kafka.produce(
        topic, [{"key": b'{"a": 1}', "value": b"x", "headers": [("h", b"v")]}, {"key": b"{", "value": b"y"}]
    )
    ingest(db, "i")
    assert rows(db, "SELECT * FROM i") == [("1", "x", 0, 0, "v", True)]
    ((message,),) = rows(db, "SELECT message FROM i_errors")
    assert message.startswith("the key: ")
