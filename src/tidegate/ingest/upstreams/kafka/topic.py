"""The state of a topic: its id, partitions and offsets; and how a batch is divided among them.

    topic_state(…)                                  TopicState("7TJX…", low={0: 0, 1: 0}, high={0: 1200, 1: 900})
    share_records({0: 1200, 1: 900}, most=1000)     {0: 500, 1: 500}
    share_records({0: 1200, 1: 100}, most=1000)     {0: 900, 1: 100}

A partition's readable end is its last stable offset: later records belong to open transactions, or follow records that do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import SourceError
from tidegate.ingest.protocol import UpstreamPosition
from tidegate.ingest.upstreams.kafka import client
from tidegate.ingest.upstreams.kafka import read as kafka_read
from tidegate.ingest.upstreams.kafka.client import Admin, KafkaClients, library

TOPIC_ID = "topic id"
"""The only key of a position that is not a partition."""
_INVALID = -1001
_SAMPLE_LIFETIME_S = 60.0
_SAMPLE_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class TopicState:
    """A topic as it is now."""

    id: str | None
    """The topic's id; None: brokers before 2.8 do not report it."""
    low: dict[int, int]
    """By partition, the first offset that still exists."""
    high: dict[int, int]
    """By partition, the first offset that cannot be read yet."""

    @property
    def id_position(self) -> UpstreamPosition:
        """The topic's id, as positions record it."""
        return {} if self.id is None else {TOPIC_ID: self.id}


def topic_state(admin: Admin, place: str, topic: str, timeout: float) -> TopicState | None:
    """The topic as it is now; None if it does not exist."""
    kafka = library()
    spec = kafka.admin.OffsetSpec

    def describe(admin: Admin, seconds: float) -> TopicState | None:
        try:
            futures = admin.client.describe_topics(kafka.TopicCollection([topic]), request_timeout=seconds)
            description = admin.answer(futures[topic], seconds)
        except kafka.KafkaException as error:
            if error.args[0].name() in client.UNKNOWN_TOPIC_ERRORS:
                return None
            raise
        partitions = sorted(partition.id for partition in description.partitions)
        low = _offsets(admin, topic, dict.fromkeys(partitions, spec.earliest()), seconds)
        high = _offsets(admin, topic, dict.fromkeys(partitions, spec.latest()), seconds)
        return TopicState(_id_text(description.topic_id), low, high)

    return admin.ask(place, timeout, describe)


def offsets_at(
    admin: Admin, place: str, topic: str, timeout: float, state: TopicState, timestamp: int
) -> dict[int, int]:
    """The offset of the first record of this time or later in each partition; its end if there is none."""
    specs = dict.fromkeys(state.low, library().admin.OffsetSpec.for_timestamp(timestamp))
    offsets = admin.ask(place, timeout, lambda admin, seconds: _offsets(admin, topic, specs, seconds))
    return {
        partition: min(offset, state.high[partition]) if offset >= 0 else state.high[partition]
        for partition, offset in offsets.items()
    }


def _offsets(admin: Admin, topic: str, wanted: Mapping[int, Any], timeout: float) -> dict[int, int]:
    kafka = library()
    futures = admin.client.list_offsets(
        {kafka.TopicPartition(topic, partition): spec for partition, spec in wanted.items()},
        isolation_level=kafka.IsolationLevel.READ_COMMITTED,
        request_timeout=timeout,
    )
    offsets = {at.partition: admin.answer(future, timeout).offset for at, future in futures.items()}
    # A connection that breaks meanwhile may look like an answer without an offset and without an error.
    if min(offsets.values(), default=0) <= _INVALID:
        error = kafka.KafkaError
        raise kafka.KafkaException(
            error(error.LEADER_NOT_AVAILABLE, "the leader of a partition did not answer")
        )
    return offsets


def _id_text(id_: Any) -> str | None:
    if id_ is None or not (id_.get_most_significant_bits() or id_.get_least_significant_bits()):
        return None
    return str(id_)


def share_records(waiting: Mapping[int, int], most: int) -> dict[int, int]:
    """Divides a limit of records among partitions; small partitions are read completely."""
    granted: dict[int, int] = {}
    left = most
    for done, partition in enumerate(sorted(waiting, key=lambda partition: (waiting[partition], partition))):
        granted[partition] = min(waiting[partition], left // (len(waiting) - done))
        left -= granted[partition]
    return granted


def mean_record_size(
    clients: KafkaClients, topic: str, at: Mapping[int, int], settings: Mapping[str, Any], timeout: float
) -> int | None:
    """The approximate size of a record in bytes, sampled once a minute; None if unknown."""
    known = clients.record_size
    if known is not None and time.monotonic() < known[0] + _SAMPLE_LIFETIME_S:
        return known[1]
    try:
        size = kafka_read.sample_record_size(topic, at, settings, min(timeout, _SAMPLE_TIMEOUT_S))
    except SourceError:
        size = None
    if size is None:
        return known[1] if known else None
    clients.record_size = (time.monotonic(), size)
    return size
