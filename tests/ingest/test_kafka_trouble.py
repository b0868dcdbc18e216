"""KAFKA, when something is wrong upstream: what is said, and whether trying again helps. No record is passed over in silence."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.ingest.broker import PASSWORD, USER, Broker, gate
from tests.ingest.kafka_reading import chunks, drained, source, values
from tidegate.errors import BindError, SourceError
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.protocol import BatchLimit, IncludedColumn, InputSplit
from tidegate.ingest.upstreams.kafka.options import settings
from tidegate.ingest.upstreams.registry import UpstreamSpec, check_connection, create_upstream

NOWHERE = "127.0.0.1:1"


def test_lost_offsets_are_named(kafka: Broker) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [{"value": b"%d" % i, "partition": i % 2} for i in range(20)])
    found = source(kafka, topic)
    after = {**found.start(), "0": 2, "1": 5}
    kafka.forget(topic, 1, 5)
    assert values(found, found.splits(after, found.latest(after, BatchLimit()))) == [
        b"%d" % i for p in range(2) for i in range(20) if i % 2 == p and i // 2 >= (2, 5)[p]
    ]
    kafka.forget(topic, 1, 8)
    with pytest.raises(
        SourceError, match=rf"partition 1 of topic {topic} .* 3 offsets, 5 to 7, are gone"
    ) as raised:
        found.latest(after, BatchLimit())
    assert not raised.value.again
    with pytest.raises(
        SourceError, match=rf"partition 1 of topic {topic}: records from offset 5 on, up to 10, are not"
    ) as raised:
        list(chunks(found, InputSplit("1", 5, 10)))
    assert not raised.value.again


def test_a_topic_that_was_made_anew_is_another_one(kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"old"}] * 5)
    found = source(kafka, topic)
    after = found.latest(found.start(), BatchLimit())
    kafka.delete(topic)
    with pytest.raises(SourceError, match="is not there any more") as raised:
        found.latest(after, BatchLimit())
    assert not raised.value.again
    kafka.make(topic)
    kafka.produce(topic, [{"value": b"new"}] * 9)  # more than before: offsets alone would not tell
    with pytest.raises(SourceError, match="was deleted and made anew") as raised:
        found.latest(after, BatchLimit())
    assert not raised.value.again
    assert drained(found) == [b"new"] * 9
    # A broker that tells no ids: offsets that are not there yet.
    with pytest.raises(SourceError, match=r"ends at offset 9, and was read up to 11") as raised:
        found.latest({"0": 11}, BatchLimit())
    assert not raised.value.again


def test_a_topic_may_come_later(kafka: Broker) -> None:
    found = source(kafka, "not-yet")
    with pytest.raises(SourceError, match=r"topic not-yet at .* is not there") as raised:
        found.start()
    assert raised.value.again


def test_a_split_beyond_the_end_is_not_read_in_part(kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"x"}] * 3)
    found = source(kafka, topic, {"timeout ms": 2_000})
    with pytest.raises(SourceError, match="ends at offset 3, and was to be read up to 9") as raised:
        list(chunks(found, InputSplit("0", 0, 9)))
    assert raised.value.again


def test_start_offset_behind_the_end(kafka: Broker) -> None:
    topic = kafka.topic(2)
    with pytest.raises(SourceError, match="START OFFSET 7 is behind the end of partition 0"):
        source(kafka, topic, start_offset=7).start()
    with pytest.raises(SourceError, match=r"START OFFSET has 3 offsets, and .* 2 partitions"):
        source(kafka, topic, start_offset=(0, 0, 0)).start()


@pytest.mark.parametrize("asked", ["start", "latest", "lag", "read"])
def test_a_broker_that_is_down(asked: str) -> None:
    found = source(NOWHERE, "orders", {"timeout ms": 1_200})
    questions: dict[str, Any] = {
        "start": found.start,
        "latest": lambda: found.latest({"0": 0}, BatchLimit()),
        "lag": lambda: found.lag({"0": 0}),
        "read": lambda: list(chunks(found, InputSplit("0", 0, 1))),
    }
    with pytest.raises(SourceError, match=r"(?i)connection refused") as raised:
        questions[asked]()
    assert raised.value.again
    assert "is a broker running there" in str(raised.value)
    if asked == "latest":
        found.acknowledge({"0": 1})  # says nothing
        found.drop()


def test_a_connection_that_is_cut_and_comes_back(kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"%d" % i} for i in range(50)])
    with gate(kafka) as door:
        found = source(f"127.0.0.1:{kafka.front}", topic, {"timeout ms": 20_000})
        start = found.start()
        upto = found.latest(start, BatchLimit())
        door.close()
        impatient = source(f"127.0.0.1:{kafka.front}", topic, {"timeout ms": 1_000})
        with pytest.raises(SourceError) as raised:
            impatient.latest(start, BatchLimit())
        assert raised.value.again
        reopened = threading.Timer(0.5, door.open)
        reopened.start()
        assert values(found, found.splits(start, upto)) == [b"%d" % i for i in range(50)]
        reopened.join()
        assert found.latest(upto, BatchLimit()) == upto


def test_a_bad_connection_never_ends_a_source(kafka: Broker) -> None:
    """Whatever the moment at which it breaks: a split is read whole, or trying again helps."""
    topic = kafka.topic(2)
    kafka.produce(topic, [{"value": b"%d" % i, "partition": i % 2} for i in range(2_000)])
    chance = random.Random(int(os.environ.get("TIDEGATE_SEED", "7")))
    end = time.monotonic() + float(os.environ.get("TIDEGATE_KAFKA_STRESS_S", "4"))
    found = source(f"127.0.0.1:{kafka.front}", topic, {"timeout ms": 500})
    outcomes: Counter[str] = Counter()

    def ask() -> None:
        while time.monotonic() < end:
            try:
                start = found.start()
                upto = found.latest(start, BatchLimit())
                assert len(values(found, found.splits(start, upto))) == 2_000
                found.acknowledge(upto)
                outcomes["whole"] += 1
            except SourceError as error:
                outcomes["again" if error.again else str(error)] += 1

    with gate(kafka) as door:
        asking = [threading.Thread(target=ask) for _ in range(2)]
        for one in asking:
            one.start()
        while any(one.is_alive() for one in asking):
            time.sleep(chance.random() * 0.8)
            door.close()
            time.sleep(chance.random() * 0.8)
            door.open()
    assert outcomes
    assert set(outcomes) <= {"whole", "again"}


def test_name_and_password(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"secret"}])
    monkeypatch.setenv("KAFKA_TEST_PASSWORD", PASSWORD)
    words = {"security protocol": "SASL_PLAINTEXT", "sasl mechanisms": "PLAIN", "sasl username": USER}
    found = source(kafka.sasl, topic, {**words, "sasl password": "env:KAFKA_TEST_PASSWORD"})
    assert drained(found) == [b"secret"]
    assert PASSWORD not in repr(found)
    assert PASSWORD not in str(found.to_json())
    bad = source(kafka.sasl, topic, {**words, "sasl password": "guess"})
    for question in (bad.start, lambda: list(chunks(bad, InputSplit("0", 0, 1)))):
        with pytest.raises(SourceError, match=r"(?i)authentication failed") as raised:
            question()
        assert not raised.value.again
        assert "SASL PASSWORD" in str(raised.value)
        assert "guess" not in str(raised.value)
    monkeypatch.delenv("KAFKA_TEST_PASSWORD")
    with pytest.raises(SourceError, match="environment variable KAFKA_TEST_PASSWORD, which is not set"):
        found.start()


# ---------------------------------------------------------------- words


def connected(**options: Any) -> ExternalConnection:
    words = {name.replace("_", " "): value for name, value in options.items()}
    return ExternalConnection("k", "kafka", words)


def test_settings() -> None:
    assert settings(connected(broker="a:1")) == {"bootstrap.servers": "a:1", "security.protocol": "PLAINTEXT"}
    assert settings(connected(brokers=("a:1", "b:2"), ssl_certificate_authority="/ca.pem")) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
    }
    found = settings(
        connected(
            broker="a", sasl_mechanisms="SCRAM-SHA-512", sasl_username="u", sasl_password="p",
            ssl_key="-----BEGIN KEY", client_id="me", settings=("fetch.wait.max.ms = 7",),
        )
    )  # fmt: skip
    assert found == {
        "bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u",
        "sasl.password": "p", "ssl.key.pem": "-----BEGIN KEY", "client.id": "me", "fetch.wait.max.ms": "7",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a broker"),
        ({"broker": ""}, "BROKER is the address of a broker"),
        ({"brokers": ()}, "BROKERS is the address of a broker"),
        ({"broker": "a", "port": 5}, "no option PORT"),
        ({"broker": "a", "security_protocol": "TLS"}, "TLS is not a security protocol"),
        ({"broker": "a", "timeout_ms": "soon"}, "TIMEOUT MS is a whole number"),
        ({"broker": "a", "settings": ("fetch",)}, "'fetch' is not a setting"),
        ({"broker": "a", "settings": "isolation.level=read_uncommitted"}, "cannot change isolation.level"),
        ({"broker": "a", "settings": "no.such=1"}, 'No such configuration property: "no.such"'),
    ],
)
def test_bad_connections(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BindError, match=message):
        check_connection(connected(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "FROM KAFKA needs TOPIC"),
        ({"topic": 5}, "TOPIC is the name of a topic"),
        ({"topic": "t", "topics": "u"}, "no option TOPICS"),
        ({"topic": "t", "start offset": -1}, "START OFFSET is an offset"),
        ({"topic": "t", "start offset": ()}, "START OFFSET is an offset"),
        ({"topic": "t", "start offset": ("a",)}, "START OFFSET is an offset"),
        ({"topic": "t", "start timestamp": "now"}, "START TIMESTAMP is a number"),
        ({"topic": "t", "start timestamp": 1, "start offset": 1}, "both say where to begin"),
    ],
)
def test_bad_sources(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BindError, match=message):
        create_upstream("kafka", UpstreamSpec("s", options, connection=connected(broker="a")))


def test_what_records_do_not_have() -> None:
    with pytest.raises(BindError, match="have no LINE"):
        source("a:1", "t").includes(IncludedColumn("line", "line"))
