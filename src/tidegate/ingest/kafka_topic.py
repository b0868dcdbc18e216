"""What a topic has: its id, its partitions, where each begins and ends; and how a batch is shared out among them.

    look(…)                                  There("7TJX…", low={0: 0, 1: 0}, high={0: 1200, 1: 900})
    shared({0: 1200, 1: 900}, most=1000)     {0: 500, 1: 500}
    shared({0: 1200, 1: 100}, most=1000)     {0: 900, 1: 100}

A partition ends, for us, at its last stable offset: what is behind it belongs to transactions that are not decided, or came later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import SourceError
from tidegate.ingest import kafka_client as client
from tidegate.ingest import kafka_read
from tidegate.ingest.kafka_client import Admin, library
from tidegate.ingest.source import Position

TOPIC_ID = "topic id"
"""The key of a position that is no partition."""
_INVALID = -1001
_SAMPLED_S = 60.0
_SAMPLE_S = 3.0


@dataclass(frozen=True)
class There:
    """What a topic has now."""

    id: str | None
    """Brokers before 2.8 have none to tell."""
    low: dict[int, int]
    """By partition, the first offset that is still there."""
    high: dict[int, int]
    """And the first that cannot be read yet."""

    @property
    def named(self) -> Position:
        """Which topic it is, as it is noted in positions."""
        return {} if self.id is None else {TOPIC_ID: self.id}


def look(place: str, topic: str, settings: Mapping[str, Any], timeout: float) -> There | None:
    """What is there now; None if there is no such topic."""
    kafka = library()
    spec = kafka.admin.OffsetSpec

    def question(admin: Admin, seconds: float) -> There | None:
        try:
            asked = admin.client.describe_topics(kafka.TopicCollection([topic]), request_timeout=seconds)
            found = admin.answer(asked[topic], seconds)
        except kafka.KafkaException as error:
            if error.args[0].name() in client.UNKNOWN:
                return None
            raise
        partitions = sorted(partition.id for partition in found.partitions)
        low = _offsets(admin, topic, dict.fromkeys(partitions, spec.earliest()), seconds)
        high = _offsets(admin, topic, dict.fromkeys(partitions, spec.latest()), seconds)
        return There(_spelled(found.topic_id), low, high)

    return client.admin(settings).ask(place, timeout, question)


def offsets_at(
    place: str, topic: str, settings: Mapping[str, Any], timeout: float, there: There, timestamp: int
) -> dict[int, int]:
    """Of each partition the offset of the first record of this time or later; its end if there is none."""
    wanted = dict.fromkeys(there.low, library().admin.OffsetSpec.for_timestamp(timestamp))

    def question(admin: Admin, seconds: float) -> dict[int, int]:
        return _offsets(admin, topic, wanted, seconds)

    found = client.admin(settings).ask(place, timeout, question)
    return {
        partition: min(at, there.high[partition]) if at >= 0 else there.high[partition]
        for partition, at in found.items()
    }


def _offsets(admin: Admin, topic: str, wanted: Mapping[int, Any], timeout: float) -> dict[int, int]:
    kafka = library()
    asked = admin.client.list_offsets(
        {kafka.TopicPartition(topic, partition): spec for partition, spec in wanted.items()},
        isolation_level=kafka.IsolationLevel.READ_COMMITTED,
        request_timeout=timeout,
    )
    found = {at.partition: admin.answer(future, timeout).offset for at, future in asked.items()}
    # A connection that breaks meanwhile may look like an answer: there is no offset, and no error either.
    if min(found.values(), default=0) <= _INVALID:
        error = kafka.KafkaError
        raise kafka.KafkaException(
            error(error.LEADER_NOT_AVAILABLE, "the leader of a partition did not answer")
        )
    return found


def _spelled(id_: Any) -> str | None:
    if id_ is None or not (id_.get_most_significant_bits() or id_.get_least_significant_bits()):
        return None
    return str(id_)


def shared(waiting: Mapping[int, int], most: int) -> dict[int, int]:
    """How many records each partition may give, so that none waits for another that has more; `most` in all."""
    granted: dict[int, int] = {}
    left = most
    for done, partition in enumerate(sorted(waiting, key=lambda partition: (waiting[partition], partition))):
        granted[partition] = min(waiting[partition], left // (len(waiting) - done))
        left -= granted[partition]
    return granted


_sizes: dict[tuple[str, str], tuple[float, int]] = {}


def mean_size(topic: str, at: Mapping[int, int], settings: Mapping[str, Any], timeout: float) -> int | None:
    """About how many bytes a record has: looked up once in a minute. None: nobody knows."""
    key = (settings["bootstrap.servers"], topic)
    known = _sizes.get(key)
    if known is not None and time.monotonic() < known[0] + _SAMPLED_S:
        return known[1]
    try:
        found = kafka_read.mean_size(topic, at, settings, min(timeout, _SAMPLE_S))
    except SourceError:
        found = None
    if found is None:
        return known[1] if known else None
    _sizes[key] = (time.monotonic(), found)
    return found
