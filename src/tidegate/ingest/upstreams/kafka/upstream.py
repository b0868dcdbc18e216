"""KAFKA: reads every record of a topic, once.

    CREATE CONNECTION k TO KAFKA (BROKER 'host:9092')
    CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 'orders') FORMAT JSON INCLUDE KEY, OFFSET, TIMESTAMP

**Positions** have the next offset to read of each partition, and the id of the topic:

    {"0": 1200, "1": 900, "topic id": "7TJXgBQbRLuPZZtk2Xgsqg"}          offsets 0 … 1199 of partition 0 were read

Positions at the broker do not matter: the offsets committed for a consumer group are for monitoring only (`acknowledge`), and are
never read. Consumers do not join a group, so nothing is rebalanced; each task is assigned a range of offsets.

| upstream event | effect |
|---|---|
| a partition is added | the next batch adds its beginning to the position, the batch after it reads its records |
| a transaction is open | its records and all later ones are not visible yet; aborted records never are |
| compaction | gaps between offsets |
| retention removed unread records | an error that names partition and offsets |
| the topic was deleted, or created again with the same name | an error: its id differs, even if the offsets would fit |
| the broker is down | an error after TIMEOUT MS; another attempt helps |

| file | what it does |
|---|---|
| `options.py` | the options of CREATE CONNECTION and CREATE SOURCE |
| `client.py` | clients of Kafka, and the meaning of their errors |
| `topic.py` | the state of a topic: partitions, their ends, the size of records |
| `read.py` | turns a range of offsets into chunks, in a task |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tidegate.clock import SystemClock
from tidegate.errors import BindError, SourceError, TidegateError
from tidegate.expr.model import Type, types
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.protocol import (
    BatchLimit,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.kafka import client
from tidegate.ingest.upstreams.kafka import options as kafka_options
from tidegate.ingest.upstreams.kafka import read as kafka_read
from tidegate.ingest.upstreams.kafka import topic as kafka_topic
from tidegate.ingest.upstreams.kafka.options import StartOffsets
from tidegate.ingest.upstreams.kafka.topic import TOPIC_ID, TopicState
from tidegate.ingest.upstreams.registry import UpstreamSpec, UpstreamType

SPLIT_OFFSETS = 1_000_000
"""The minimum offsets of a task, where several tasks read one partition."""
_INCLUDED_TYPES = {
    "key": types.BYTEA,
    "partition": types.INT4,
    "offset": types.INT8,
    "timestamp": types.TIMESTAMPTZ,
    "headers": types.array(types.record(("key", types.TEXT), ("value", types.BYTEA))),
    "header": types.TEXT,
    "header bytes": types.BYTEA,
}
_UNSAMPLED_RECORDS = 1_000
"""Up to this many records a batch ignores the limit of bytes: sampling their size is not worthwhile."""
_ACKNOWLEDGE_S = 5.0


@dataclass(frozen=True)
class KafkaUpstream(Upstream):
    """A topic of Kafka."""

    topic: str
    connection: ExternalConnection
    group: str
    begins: StartOffsets = field(default_factory=StartOffsets)
    keyed: bool = True
    """ENVELOPE UPSERT: chunks have keys, and one task reads a partition, as the last record of a key wins."""
    _clients: client.KafkaClients = field(default_factory=client.KafkaClients, compare=False, repr=False)

    # ------------------------------------------------------------ created and stored

    @staticmethod
    def create(spec: UpstreamSpec) -> KafkaUpstream:
        """The upstream of CREATE SOURCE. Contacts no broker: a source may be created before its topic."""
        client.library()
        if spec.connection is None:
            raise BindError(
                "KAFKA needs a connection", hint="CREATE CONNECTION k TO KAFKA (BROKER 'host:9092')"
            )
        begins = kafka_options.start_offsets(spec.options, SystemClock().now())
        group = str(spec.options["group id"] or f"tidegate-{spec.source}")
        return KafkaUpstream(spec.options["topic"], spec.connection, group, begins)

    def to_json(self) -> dict[str, Any]:
        """Its form in the catalog."""
        return {
            "connection": self.connection.name,
            "topic": self.topic,
            "group": self.group,
            "offsets": list(self.begins.offsets),
            "everywhere": self.begins.everywhere,
            "timestamp": self.begins.timestamp,
            "keyed": self.keyed,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any], connection: ExternalConnection | None) -> KafkaUpstream:
        """Loads the result of `to_json`."""
        assert connection is not None
        begins = StartOffsets(tuple(stored["offsets"]), stored["everywhere"], stored["timestamp"])
        return KafkaUpstream(stored["topic"], connection, stored["group"], begins, stored.get("keyed", True))

    # ------------------------------------------------------------ Upstream

    def bind(
        self,
        format_: RecordFormat | None,  # noqa: ARG002  # every format reads topics in the same way
        envelope: str,
        included: Sequence[IncludedColumn],  # noqa: ARG002  # read() receives it with each split
    ) -> KafkaUpstream:
        """The same topic; only UPSERT needs keys."""
        return replace(self, keyed=envelope == "upsert")

    def includes(self, included: IncludedColumn) -> Type:
        """The types of KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS and HEADER 'x' (the last of that name)."""
        if included.what not in _INCLUDED_TYPES:
            raise BindError(
                f"records of Kafka have no {included.what.upper()}",
                hint="INCLUDE KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS or HEADER 'name'",
            )
        return _INCLUDED_TYPES[included.what]

    def start(self) -> UpstreamPosition:
        """The beginning of every partition, or the offsets of START OFFSET or START TIMESTAMP."""
        there = self._look({})
        if self.begins.timestamp is not None:
            offsets = kafka_topic.offsets_at(
                self._admin, self._place, self.topic, self._timeout, there, self.begins.timestamp
            )
        else:
            offsets = {partition: self._begins(partition, there) for partition in there.low}
        return {**{str(partition): at for partition, at in offsets.items()}, **there.id_position}

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        """The position after all committed records within the limit, which is shared by `share_records`."""
        there = self._look(after)
        waiting: dict[int, int] = {}
        new: UpstreamPosition = {}
        for partition, high in there.high.items():
            at = after.get(str(partition))
            if at is None:
                new[str(partition)] = there.low[partition]
            else:
                self._check(partition, at, there)
                waiting[partition] = high - at
        granted = kafka_topic.share_records(waiting, self._max_records(after, waiting, limit))
        moved = {str(partition): after[str(partition)] + count for partition, count in granted.items()}
        return {**after, **moved, **new, **there.id_position}

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        """One or more splits for each partition with new records; none for partitions that were just added."""
        return [
            InputSplit(key, *ends)
            for key, end in sorted(upto.items())
            if key != TOPIC_ID and key in after and after[key] != end
            for ends in pairwise(self._cuts(after[key], end))
        ]

    def _cuts(self, start: int, end: int) -> list[int]:
        count = 1 if self.keyed else max(1, (end - start) // SPLIT_OFFSETS)
        return [start + (end - start) * i // count for i in range(count + 1)]

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        """Reads the records of a split."""
        stretch = kafka_read.OffsetRange(
            self.topic, int(split.key), split.start, split.end, self._settings, self._timeout
        )
        return kafka_read.read(stretch, wanted, included, keyed=self.keyed)

    def acknowledge(self, upto: UpstreamPosition) -> None:
        """Commits offsets at the broker, for monitoring only: a failure is logged, not raised."""
        at = {int(key): offset for key, offset in upto.items() if key != TOPIC_ID}
        try:
            self._clients.commit(
                self._settings, self.group, self.topic, at, min(_ACKNOWLEDGE_S, self._timeout)
            )
        except TidegateError as error:
            client.LOG.warning("offsets could not be told to group %s: %s", self.group, error.message)

    def lag(self, at: UpstreamPosition) -> Lag:
        """The number of unread records."""
        there = self._look(at)
        behind = sum(
            max(0, high - at.get(str(partition), there.low[partition]))
            for partition, high in there.high.items()
        )
        return Lag(records=behind, milliseconds=None if behind else 0)

    # ------------------------------------------------------------ state of the topic

    @property
    def _admin(self) -> client.Admin:
        return self._clients.admin(self._settings)

    @property
    def _settings(self) -> dict[str, str]:
        return kafka_options.settings(self.connection)

    @property
    def _timeout(self) -> float:
        return kafka_options.timeout_ms(self.connection.options) / 1000

    @property
    def _place(self) -> str:
        return f"topic {self.topic} at {kafka_options.brokers(self.connection.options)}"

    def _look(self, after: UpstreamPosition) -> TopicState:
        """The topic's state. Raises if the topic is not the one that the position `after` belongs to."""
        there = kafka_topic.topic_state(self._admin, self._place, self.topic, self._timeout)
        before = after.get(TOPIC_ID)
        if there is None:
            raise SourceError(
                f"{self._place} is not there" + (" any more" if after else ""),
                again=not after,
                hint="it was deleted: its records cannot be read again"
                if after
                else "it may not be made yet",
            )
        if before is not None and there.id is not None and before != there.id:
            raise SourceError(
                f"{self._place} was deleted and made anew (its id was {before}, and is {there.id})",
                again=False,
                hint="its records are others: DROP SOURCE, and create it again to read them from the beginning",
            )
        return there

    def _check(self, partition: int, at: int, there: TopicState) -> None:
        """Raises if a partition does not have the next offset to read."""
        low, high = there.low[partition], there.high[partition]
        if at < low:
            raise SourceError(
                f"partition {partition} of {self._place} begins at offset {low} now, and was read up to {at}:"
                f" {low - at} offsets, {at} to {low - 1}, are gone",
                again=False,
                hint="retention removed them before they were read; DROP SOURCE and create it again to go on with what is left,"
                " and let the topic keep its records for longer than ingestion may pause",
            )
        if at > high:
            raise SourceError(
                f"partition {partition} of {self._place} ends at offset {high}, and was read up to {at}",
                again=False,
                hint="the topic was made anew, or the cluster lost records that we have",
            )

    def _begins(self, partition: int, there: TopicState) -> int:
        """The offset by START OFFSET, or the partition's first one if retention removed that record."""
        offsets, offset = self.begins.offsets, self.begins.everywhere or 0
        if partition < len(offsets):
            offset = offsets[partition]
        if offset > there.high[partition] or len(offsets) > len(there.high):
            raise SourceError(
                f"START OFFSET {offset} is behind the end of partition {partition} of {self._place}, {there.high[partition]}"
                if len(offsets) <= len(there.high)
                else f"START OFFSET has {len(offsets)} offsets, and {self._place} {len(there.high)} partitions",
                again=False,
            )
        return max(offset, there.low[partition])

    def _max_records(self, after: UpstreamPosition, waiting: Mapping[int, int], limit: BatchLimit) -> int:
        """The maximum records of a batch; sampled record sizes convert a limit of bytes to records."""
        most = sum(waiting.values())
        if limit.rows is not None:
            most = min(most, max(limit.rows, 1))
        if limit.bytes is None or most <= _UNSAMPLED_RECORDS:
            return most
        sampled = sorted(waiting, key=lambda partition: -waiting[partition])[:16]
        at = {partition: after[str(partition)] for partition in sampled}
        size = kafka_topic.mean_record_size(self._clients, self.topic, at, self._settings, self._timeout)
        return most if size is None else min(most, max(limit.bytes // size, 1))


KAFKA = UpstreamType(
    "kafka",
    KafkaUpstream.create,
    KafkaUpstream.from_json,
    options=kafka_options.SOURCE_OPTIONS,
    connection="kafka",
    envelopes=("none", "upsert", "debezium"),
    has_keys=True,
)
