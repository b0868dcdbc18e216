"""KAFKA, beside a real broker: every record once, whatever the offsets look like."""

from __future__ import annotations

import pickle
import random
import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.ingest.broker import Broker, wait
from tests.ingest.kafka_reading import batches, chunks, drained, rows, source, values
from tidegate.ingest.protocol import BatchLimit, InputSplit, Lag, UpstreamPosition
from tidegate.ingest.upstreams.kafka import read as kafka_read
from tidegate.ingest.upstreams.kafka.topic import TOPIC_ID, share_records
from tidegate.ingest.upstreams.kafka.upstream import KafkaUpstream
from tidegate.ingest.upstreams.registry import load_upstream


def numbered(count: int, partitions: int = 1) -> list[dict[str, Any]]:
    return [{"value": b"%d" % i, "key": b"k%d" % i, "partition": i % partitions} for i in range(count)]


def test_every_record_once_in_batches_that_are_shared_fairly(kafka: Broker) -> None:
    topic = kafka.topic(4)
    kafka.produce(topic, numbered(10_000, 4))
    kafka.produce(topic, [{"value": b"more", "partition": 3}] * 3_000)
    found = source(kafka, topic)
    after = found.start()
    assert after == {"0": 0, "1": 0, "2": 0, "3": 0, TOPIC_ID: after[TOPIC_ID]}
    assert found.lag(after) == Lag(records=13_000)
    seen: list[Any] = []
    sizes = []
    for upto, splits in batches(found, after, BatchLimit(rows=4_000)):
        assert [s.end for s in splits] == [upto[s.key] for s in splits]
        sizes.append([s.end - s.start for s in splits])
        seen += values(found, splits)
        after = upto
    assert sizes == [[1000] * 4, [1000] * 4, [500, 500, 500, 2500], [1000]]
    assert sorted(seen) == sorted([b"%d" % i for i in range(10_000)] + [b"more"] * 3_000)
    assert found.lag(after) == Lag(records=0, milliseconds=0)
    assert found.latest(after, BatchLimit()) == after


def test_shares_are_whole_and_fair() -> None:
    chance = random.Random(6)
    for _ in range(200):
        waiting = {p: chance.choice([0, 1, 5, 1000]) for p in range(chance.randrange(1, 6))}
        most = min(chance.randrange(1, 2000), sum(waiting.values()))
        granted = share_records(waiting, most)
        assert sum(granted.values()) == most
        assert all(0 <= granted[p] <= waiting[p] for p in waiting)
        held_back = [granted[p] for p in waiting if granted[p] < waiting[p]]
        assert all(granted[p] <= min(held_back, default=most) + 1 for p in waiting)


def test_included_columns_tombstones_and_positions(kafka: Broker) -> None:
    topic = kafka.topic(2)
    at = 1_767_225_600_123
    kafka.produce(topic, [
        {"value": b"a\n", "key": b"k", "partition": 1, "timestamp": at, "headers": [("h", b"1"), ("x", b"\xff"), ("h", b"2")]},
        {"value": None, "key": b"k", "partition": 1, "timestamp": at + 1},
        {"value": b"", "key": None, "partition": 1, "timestamp": at + 2, "headers": [("h", None)]},
    ])  # fmt: skip
    found = source(kafka, topic)
    asked = ("key", "partition", "offset", "timestamp", "headers", "header=h", "header bytes=x")
    (chunk,) = chunks(found, InputSplit("1", 0, 3), *asked)
    when = datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)
    got = list(zip(*(column.to_pylist() for column in chunk.rows()), strict=True))
    assert [row[:4] for row in got] == [(b"a\n", b"k", 1, 0), (None, b"k", 1, 1), (b"", None, 1, 2)]
    assert [row[4] for row in got] == [
        when,
        when.replace(microsecond=124_000),
        when.replace(microsecond=125_000),
    ]
    assert [row[5] for row in got] == [
        [{"key": "h", "value": b"1"}, {"key": "x", "value": b"\xff"}, {"key": "h", "value": b"2"}],
        [],
        [{"key": "h", "value": None}],
    ]
    assert [row[6:] for row in got] == [("2", b"\xff"), (None, None), (None, None)]
    assert chunk.keys is not None
    assert chunk.keys.to_pylist() == [b"k", b"k", None]
    assert chunk.gone is not None
    assert chunk.gone.tolist() == [False, True, False]
    assert [c.keys for c in chunks(found.bind(None, "none", ()), InputSplit("1", 0, 3))] == [None]
    assert chunk.position(2) == {"partition": 1, "offset": 2}
    assert chunk.decoded.raw(0) == b"a\n"
    types = [found.includes(included) for included in map(_asked, asked)]
    assert [column.type for column in chunk.included] == [type_.arrow for type_ in types]


def _asked(name: str) -> Any:
    from tests.ingest.kafka_reading import _included

    return _included(name)


def test_a_header_that_is_no_text_is_a_bad_record(kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(
        topic, [{"value": b"%d" % i, "headers": [("h", b"\xff" if i == 1 else b"y")]} for i in range(3)]
    )
    (chunk,) = chunks(source(kafka, topic), InputSplit("0", 0, 3), "header=h")
    assert chunk.decoded.selection.tolist() == [0, 2]
    assert [column.to_pylist() for column in chunk.rows()] == [[b"0", b"2"], ["y", "y"]]
    ((record, message),) = chunk.decoded.failures
    assert record == 1
    assert message.startswith("header 'h': invalid byte sequence")


def transactions(kafka: Broker, topic: str, count: int, seed: int) -> list[bytes]:
    """Random transactions, some of them aborted; the values that are to be seen."""
    chance = random.Random(seed)
    producer = kafka.producer(transactional_id=f"x-{topic}")
    producer.init_transactions(30)
    seen = []
    for t in range(count):
        producer.begin_transaction()
        some = [b"%d-%d" % (t, i) for i in range(chance.choice([1, 2, 50]))]
        for value in some:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        if chance.random() < 0.5:
            producer.commit_transaction(30)
            seen += some
        else:
            producer.abort_transaction(30)
    return seen


def test_transactions_are_seen_when_they_are_committed(kafka: Broker) -> None:
    topic = kafka.topic()
    expected = transactions(kafka, topic, 12, seed=3)
    found = source(kafka, topic)
    start = found.start()
    upto = found.latest(start, BatchLimit())
    assert values(found, found.splits(start, upto)) == expected
    # A stretch may end anywhere: in a gap, at a mark, between records that were aborted.
    end = upto["0"]
    chance = random.Random(5)
    for _ in range(3):
        cuts = sorted({0, end, *(chance.randrange(end) for _ in range(6))})
        splits = [InputSplit("0", a, b) for a, b in pairwise(cuts)]
        assert values(found, splits) == expected
    producer = kafka.producer(transactional_id=f"y-{topic}")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    kafka.produce(topic, [{"value": b"behind", "partition": 0}])
    assert found.latest(upto, BatchLimit()) == upto
    producer.commit_transaction(30)
    wait(lambda: found.latest(upto, BatchLimit()) != upto, "the committed transaction")
    assert drained(found, upto) == [b"open", b"behind"]


def test_compacted_topics_have_gaps(kafka: Broker) -> None:
    config = {"cleanup_policy": "compact", "segment_ms": "50", "min_cleanable_dirty_ratio": "0.01"}
    topic = kafka.topic(1, **config)
    for turn in range(3):
        kafka.produce(topic, [{"value": b"%d-%d" % (turn, i), "key": b"%d" % i} for i in range(200)])
        time.sleep(0.06)
    found = source(kafka, topic)
    kafka.produce(topic, [{"value": b"last", "key": b"last"}])  # rolls the segment, and is not cleaned itself
    upto = {**found.start(), "0": 601}
    wait(lambda: len(values(found, found.splits(found.start(), upto))) == 201, "compaction")
    got = rows(found, found.splits(found.start(), upto), "offset")
    assert got == [(b"2-%d" % i, 400 + i) for i in range(200)] + [(b"last", 600)]
    assert values(found, [InputSplit("0", 0, 300)]) == []
    assert values(found, [InputSplit("0", 300, 402), InputSplit("0", 402, 403)]) == [b"2-0", b"2-1", b"2-2"]


def test_a_new_partition_is_read_from_its_beginning(kafka: Broker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbered(5))
    found = source(kafka, topic)
    start = found.start()
    at = found.latest(start, BatchLimit())
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, [{"value": b"new", "partition": 2}, {"value": b"more", "partition": 0}])
    noted = found.latest(at, BatchLimit())
    assert (noted["0"], noted["1"], noted["2"]) == (6, 0, 0)
    assert values(found, found.splits(at, noted)) == [b"more"]
    assert drained(found, noted) == [b"new"]


def test_start(kafka: Broker) -> None:
    topic = kafka.topic(2)
    now = int(time.time() * 1000)
    stamps = [now - 5000, now - 3000, now - 3000, now - 1000]
    kafka.produce(topic, [
        {"value": b"%d" % i, "partition": p, "timestamp": at} for p in range(2) for i, at in enumerate(stamps)
    ])  # fmt: skip

    def begins(**options: Any) -> tuple[int, int]:
        position = source(kafka, topic, **options).start()
        return position["0"], position["1"]

    assert begins(start_offset=2) == (2, 2)
    assert begins(start_offset=(1,)) == (1, 0)
    assert begins(start_offset=(1, 4)) == (1, 4)
    assert begins(start_timestamp=now - 3000) == (1, 1)
    assert begins(start_timestamp=now - 2999) == (3, 3)
    assert begins(start_timestamp=now + 100_000) == (4, 4)
    assert begins(start_timestamp=-1_000_000) == (0, 0)
    assert drained(source(kafka, topic, start_timestamp=now - 1000)) == [b"3", b"3"]
    kafka.forget(topic, 0, 3)
    assert begins() == (3, 0)
    assert begins(start_offset=2) == (3, 2)


def test_large_records_do_not_wait_for_a_thousand(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic()
    sizes = [300_000 if i % 7 == 0 else 100 for i in range(500)]
    kafka.produce(topic, [{"value": bytes(size)} for size in sizes])
    monkeypatch.setattr(kafka_read, "CHUNK_BYTES", 4_000_000)
    monkeypatch.setattr(kafka_read, "_MAX_MESSAGE_BYTES", 1_000_000)
    found = list(chunks(source(kafka, topic), InputSplit("0", 0, 500)))
    assert max(chunk.decoded.size for chunk in found) < 8_000_000
    assert [len(v) for chunk in found for v in chunk.rows()[0].to_pylist()] == sizes


def test_a_limit_of_bytes_is_kept_about(kafka: Broker) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [{"value": bytes(1000), "partition": i % 2} for i in range(8_000)])
    found = source(kafka, topic)
    upto = found.latest(found.start(), BatchLimit(bytes=2_000_000))
    assert 1_900 < upto["0"] + upto["1"] < 2_100
    assert found.latest(found.start(), BatchLimit(rows=100, bytes=1)) == {**found.start(), "0": 50, "1": 50}


def test_positions_are_told_to_the_group(kafka: Broker) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    topic = kafka.topic(2)
    kafka.produce(topic, numbered(10, 2))
    found = source(kafka, topic, group_id=f"watched-{topic}")

    def committed() -> UpstreamPosition:
        asked = kafka.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(found.group)])
        told = asked[found.group].result(30).topic_partitions
        return {str(at.partition): at.offset for at in told}

    found.acknowledge({"0": 5, "1": 3, TOPIC_ID: "x"})
    assert committed() == {"0": 5, "1": 3}
    found.acknowledge({"0": 5, "1": 4})
    assert committed() == {"0": 5, "1": 4}
    assert found.start()["0"] == 0  # and nothing is read from it
    found.drop()


def test_a_large_partition_is_cut_unless_keys_count(kafka: Broker) -> None:
    found = source(kafka, "orders")
    after, upto = {"0": 5, "1": 0, "2": 9}, {"0": 3_500_005, "1": 1_999_999, "2": 9, "3": 0}
    assert found.splits(after, upto) == [InputSplit("0", 5, 3_500_005), InputSplit("1", 0, 1_999_999)]
    cut = found.bind(None, "none", ()).splits(after, upto)
    assert [(s.key, s.end - s.start) for s in cut] == [
        ("0", 1_166_666),
        ("0", 1_166_667),
        ("0", 1_166_667),
        ("1", 1_999_999),
    ]
    assert [(a.end, b.start) for a, b in pairwise(cut[:3])] == [(s.end, s.end) for s in cut[:2]]


def test_a_source_is_kept_and_pickled(kafka: Broker) -> None:
    found = source(kafka, "orders", start_offset=(1, 2), group_id="g")
    kept = found.to_json()
    assert kept["connection"] == "k"
    assert kafka.address not in str(kept)
    assert load_upstream("kafka", kept, found.connection) == found
    appending = found.bind(None, "none", ())
    assert not appending.keyed
    assert load_upstream("kafka", appending.to_json(), found.connection) == appending
    assert pickle.loads(pickle.dumps(found)) == found
    assert isinstance(found, KafkaUpstream)
