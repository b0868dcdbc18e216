"""Kafka JSON through a transform, beside a plain confluent-kafka + orjson loop: CPU-seconds, one run, the same topic.

    make bench-ingest-kafka                 500,000 records of 40 fields; 5 fields and a tenth of the rows are kept

CPU time is that of the whole process: Python, librdkafka's threads, DuckDB's. The loops give Python values as JSON has them; ours
gives columns of int8, numeric and timestamptz, and knows which records are bad. The broker is a real one, in a process of its own
(`tests/ingest/broker.py`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.decode import rows
from tests.ingest.broker import Broker, broker
from tidegate.expr.model import types
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.protocol import BatchLimit, IncludedColumn, ReadRequest
from tidegate.ingest.upstreams.kafka.upstream import KafkaUpstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream
from tidegate.plan.run import SafePlan
from tidegate.sql import prepare
from tidegate.sql.bind import Relation
from tidegate.sql.bind.catalog import DictCatalog

SQL = """
SELECT (data->>'id')::int8, data->>'country', (data->>'amount')::numeric, data->>'user', (data->>'at')::timestamptz
FROM s WHERE data->>'country' = 'de' AND "offset" >= 0
"""
DISTINCT = 20_000
"""Making them takes longer than reading them."""
Loads = Callable[[bytes], Any]


def filled(kafka: Broker, count: int, packing: str) -> str:
    """A topic with that many records."""
    topic = kafka.topic()
    some = [json.dumps(row).encode() for row in rows(DISTINCT)]
    records = ({"value": some[i % DISTINCT], "key": b"%d" % i} for i in range(count))
    kafka.produce(topic, records, compression_type=packing, batch_num_messages=10_000)
    return topic


def consumer(kafka: Broker, topic: str) -> Any:
    """As its documentation shows it."""
    from confluent_kafka import Consumer, TopicPartition

    found = Consumer({"bootstrap.servers": kafka.address, "group.id": "bench", "enable.auto.commit": False})
    found.assign([TopicPartition(topic, 0, 0)])
    return found


def polled(kafka: Broker, topic: str, count: int) -> Iterator[Any]:
    """One message after the other."""
    found = consumer(kafka, topic)
    for _ in range(count):
        while (message := found.poll(1.0)) is None or message.error():
            pass
        yield message
    found.close()


def consumed(kafka: Broker, topic: str, count: int) -> Iterator[Any]:
    """Ten thousand at once."""
    found = consumer(kafka, topic)
    while count:
        for message in found.consume(min(count, 10_000), 1.0):
            if not message.error():
                count -= 1
                yield message
    found.close()


def plain(messages: Iterator[Any], loads: Loads) -> int:
    """The loop that everybody writes."""
    kept = []
    for message in messages:
        row = loads(message.value())
        if row["country"] == "de":
            kept.append((row["id"], row["country"], row["amount"], row["user"], row["at"]))
    return len(kept)


def ours(source: KafkaUpstream) -> int:
    """What a task does before it writes parts."""
    format_ = JsonFormat()
    names = DictCatalog({"s": Relation("s", (*format_.columns, ("offset", types.INT8)))})
    bound = prepare(SQL, names, 0).single
    assert bound is not None
    decode, left = format_.take(bound.mfp)
    plan, kept = SafePlan(left), 0
    start = source.start()
    for split in source.splits(start, source.latest(start, BatchLimit())):
        for _, chunk in source.read(split, [ReadRequest(None, decode)], [IncludedColumn("offset", "offset")]):
            assert not chunk.decoded.failures
            kept += len(plan.evaluate(chunk.rows(), len(chunk.decoded.selection)).selection)
    return kept


def spent(work: Callable[[], int]) -> tuple[float, int]:
    """CPU-seconds, and what the work gave."""
    begin = time.process_time()
    got = work()
    return time.process_time() - begin, got


def measure(kafka: Broker, count: int, packing: str, turns: int, loads: Loads, name: str) -> None:
    """Takes turns, and prints the best of each."""
    topic = filled(kafka, count, packing)
    connection = ExternalConnection("k", "kafka", {"broker": kafka.address})
    source = create_upstream("kafka", UpstreamSpec("s", {"topic": topic}, connection=connection)).bind(
        None, "none", ()
    )
    works: dict[str, Callable[[], int]] = {
        "Tidegate": lambda: ours(source),
        f"consume(10000) + {name}": lambda: plain(consumed(kafka, topic, count), loads),
        f"poll() + {name}": lambda: plain(polled(kafka, topic, count), loads),
    }
    best: dict[str, float] = {}
    kept = set()
    for _ in range(turns):  # in turns, so that whatever else the machine does meets all of them
        for label, work in works.items():
            seconds, got = spent(work)
            best[label] = min(seconds, best.get(label, seconds))
            kept.add(got)
    assert len(kept) == 1, "all keep the same rows"
    print(f"\n{count:,} records, packed: {packing}; {kept.pop():,} rows are kept")
    for label, seconds in best.items():
        times = seconds / best["Tidegate"]
        rate = count / seconds
        print(
            f"  {label:24} {seconds / count * 1e6:6.2f} µs CPU a record {rate:10,.0f} a core-second {times:5.2f}×"
        )


def main() -> None:
    """Prints the table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--records", type=int, default=500_000)
    asked.add_argument("--turns", type=int, default=3)
    given = asked.parse_args()
    name = "orjson" if importlib.util.find_spec("orjson") else "json"
    if name == "json":
        print("orjson is not installed (pip install orjson): beside Python's own json")
    loads: Loads = importlib.import_module(name).loads
    for packing in ("none", "lz4"):
        measure(broker(), given.records, packing, given.turns, loads, name)


if __name__ == "__main__":
    main()
